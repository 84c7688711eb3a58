#!/usr/bin/env python3
"""`commit_message.py FILE`: a commit-msg hook of git. Prints what is wrong with the message in FILE, and ends with 1.

The subject is `area: verb what`, at most 72 characters. A blank line and a body that says why follow. Merges, reverts
and commits that `git rebase --autosquash` will join to others have messages of their own.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

SUBJECT = re.compile(r"[a-z][\w.*/+-]*(,? [\w.*/+-]+){0,3}: [a-z]\S*( \S+)+")
OF_GIT = ("Merge ", "Revert ", "Reapply ", "fixup! ", "squash! ", "amend! ")
TRAILER = re.compile(r"[A-Z][A-Za-z]*(-[A-Za-z]+)+: \S")
WIDTH = 72


def faults(message: str) -> list[str]:
    """What is wrong, a sentence each."""
    text = re.split(r"^# -+ >8 -+$", message, maxsplit=1, flags=re.M)[0]
    lines = [line.rstrip() for line in text.splitlines() if not line.startswith("#")]
    while lines and not lines[0]:
        lines.pop(0)
    if not lines:
        return ["The message is empty."]
    subject = lines[0]
    if subject.startswith(OF_GIT):
        return []
    found = []
    if not SUBJECT.fullmatch(subject):
        found.append(f"The subject is not `area: verb what`, in lower case: {subject!r}")
    if subject.endswith("."):
        found.append("The subject ends with a period.")
    if len(subject) > WIDTH:
        found.append(f"The subject has {len(subject)} characters; {WIDTH} are allowed.")
    if len(lines) > 1 and lines[1]:
        found.append("The second line is not blank.")
    if not any(line and not TRAILER.match(line) for line in lines[1:]):
        found.append("The body is missing: say why, with the number if there is one.")
    return found


def main() -> int:
    found = faults(Path(sys.argv[1]).read_text(encoding="utf-8"))
    for fault in found:
        print(f"commit message: {fault}", file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
