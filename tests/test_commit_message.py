"""The commit-msg hook takes what CONTRIBUTING asks for, and says what is wrong with all else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HOOK = Path(__file__).parents[1] / ".ci" / "commit_message.py"
BODY = "\n\nIt took 3 of 6 s.\n"
TAKEN = [
    "emulator: read a text in 7 % less time" + BODY,
    "shared memory: give bits of its address back" + BODY,
    "check, run: refuse grids that cannot be" + BODY,
    "wgmma: name the product\n\nA report did not.\n\nSigned-off-by: A <a@b.c>\n",
    "a: b " + "c" * (72 - 5) + BODY,
    "\n# a comment\nlab: add a table\n# another\n\nOne word was read twice.\n",
    "Merge branch 'main' into topic\n",
    'Revert "emulator: read a text in 7 % less time"\n\nThis reverts commit 1234567.\n',
    "fixup! emulator: read a text in 7 % less time\n",
]
REFUSED = {
    "": "empty",
    "# a comment alone\n": "empty",
    "Read a text in 7 % less time" + BODY: "`area: verb what`",
    "Emulator: read a text" + BODY: "`area: verb what`",
    "emulator: Read a text" + BODY: "`area: verb what`",
    "emulator: read" + BODY: "`area: verb what`",
    "emulator:read a text" + BODY: "`area: verb what`",
    "emulator: read a text." + BODY: "period",
    "a: b " + "c" * (73 - 5) + BODY: "73 characters",
    "emulator: read a text\nIt took 3 of 6 s.\n": "not blank",
    "emulator: read a text\n": "body is missing",
    "emulator: read a text\n\n# a comment\n": "body is missing",
    "emulator: read a text\n\nSigned-off-by: A <a@b.c>\n": "body is missing",
    f"emulator: read a text\n\n# {'-' * 24} >8 {'-' * 24}\ndiff --git a b\n": "body is missing",
}


def hook(folder: Path, message: str) -> subprocess.CompletedProcess[str]:
    path = folder / "COMMIT_EDITMSG"
    path.write_text(message, encoding="utf-8")
    return subprocess.run([sys.executable, HOOK, path], capture_output=True, text=True)


@pytest.mark.parametrize("message", TAKEN)
def test_a_message_that_says_what_and_why_is_taken(tmp_path: Path, message: str) -> None:
    done = hook(tmp_path, message)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("message", REFUSED)
def test_any_other_message_is_refused_with_the_reason(tmp_path: Path, message: str) -> None:
    done = hook(tmp_path, message)
    assert done.returncode == 1 and REFUSED[message] in done.stderr
