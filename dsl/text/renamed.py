"""Lists the schedule words that version 0.2 renamed, and replaces the old words in a text.

Error messages suggest the new word (`new_lines`). `python -m dsl.rename FILE …` rewrites files (`rewritten`). The next
version will drop this module.
"""

from __future__ import annotations

import re

PROPERTIES = {
    "grouped": "l2_group",
    "turns": "pingpong",
    "parts": "subtile",
    "fragments": "prefetch_fragments",
    "tabulate": "precompute",
    "maxregs": "maxnreg",
}
"""Old name of a property → its new name."""
BY_CHOICE = {"order": "tile_order.grid", "columns": "tile_columns.grid", "recompute": "recompute.…"}
"""Removed property → the key of the choice that replaces the property."""
KINDS = {
    **{old: new for old, new in PROPERTIES.items() if old != "maxregs"},
    "order": "tile_order",
    "columns": "tile_columns",
    "again": "reload",
    "exchange": "convert_layout",
    "slots": "stages",
    "sums": "chained_mma",
}
"""Old name of a kind of choice → its new name."""
OPTIONS = {("stage", "bulk"): "tma", ("deal", "turns"): "round_robin"}
"""(kind, old word) → new word, for options of choices and for words that follow a property."""

_SCHEDULE = re.compile(r"\s*schedule\s+\w+")
_LINE = re.compile(r"(\s*)([a-z_]+)\s+(.*?)(\s*)", re.DOTALL)
# In `choice order(n):`, `order` is a name that the user chose. So the pattern does not match a name before `(`.
_KEY = re.compile(r"(?P<before>\b(?:choose|choice)\s+)(?P<kind>[a-z_]+)\b(?!\s*\()(?P<behind>.*)", re.DOTALL)


def new_lines(name: str, said: str) -> list[str]:
    """Returns the lines that replace the line `NAME SAID` of an old property. The result is empty if `name` is not an
    old property."""
    if name in PROPERTIES:
        return [f"{PROPERTIES[name]} {said}"]
    if name == "recompute":
        return [f"choose recompute.{each.strip()}: anew" for each in said.split(",")]
    return [f"choose {BY_CHOICE[name]}: {said}"] if name in BY_CHOICE else []


def new_option(of: str, option: str) -> str | None:
    """Returns the hint for an old option of a choice, or for an old word after a property. Returns None if the word is
    not old."""
    return hint(OPTIONS[of, option]) if (of, option) in OPTIONS else None


def new_key(key: str) -> str | None:
    """Returns the new key of a choice whose kind was renamed, or None if the kind was not renamed."""
    kind, dot, subject = key.partition(".")
    return f"{KINDS[kind]}{dot}{subject}" if kind in KINDS else None


def hint(written: str) -> str:
    return f"it is '{written}' since version 0.2; 'python -m dsl.rename FILE' rewrites a file"


def rewritten(text: str) -> str:
    """Replaces the old words in the text of a `.tile` file. Changes schedule lines and keys of choices, but not
    comments."""
    lines: list[str] = []
    # The indentation of the current schedule's head. A line that is indented no deeper ends the schedule.
    block: int | None = None
    statement, depth = "", 0  # the first word of the current statement, and the number of its open brackets
    for line in text.splitlines(keepends=True):
        code, mark, comment = line.partition("#")
        indent = len(line) - len(line.lstrip())
        if block is not None and code.strip() and indent <= block and not depth:
            block = None
        code = _KEY.sub(_key, code)
        if block is not None and not depth:
            statement = code.split(maxsplit=1)[0] if code.strip() else ""
            code = schedule_line(code)
        elif block is not None and statement == "stage":
            code = _options_of("stage", code)
        depth = max(0, depth + sum(map(code.count, "([{")) - sum(map(code.count, ")]}")))
        if _SCHEDULE.match(line):
            block = indent
        lines.append(code + mark + comment)
    return "".join(lines)


def schedule_line(code: str) -> str:
    """Replaces the old words in a schedule line that has no comment."""
    match = _LINE.fullmatch(code)
    # A line such as `turns = 4` sets a constant and is not a property line, so it stays.
    if match is None or match[2] in {"choose", "expect", "tune"} or match[3].startswith("="):
        return code
    indent, name, said, end = match.groups()
    # `stage` kept its name. Only the word that follows it changed.
    if name == "stage":
        return _options_of(name, code)
    new = new_lines(name, said)
    return "\n".join(f"{indent}{each}" for each in new) + end if new else code


def _key(found: re.Match[str]) -> str:
    kind = found["kind"]
    return f"{found['before']}{KINDS.get(kind, kind)}{_options_of(kind, found['behind'])}"


def _options_of(kind: str, code: str) -> str:
    """Replaces the old options of `kind` in `code`."""
    for (of, option), new in OPTIONS.items():
        if of == kind:
            code = re.sub(rf"\b{option}\b", new, code)
    return code
