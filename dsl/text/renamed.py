"""Words of schedules that have other names since version 0.2, and the rewriting of texts that use the old ones.

Located errors name the new word (`new_lines`), and `python -m dsl.rename FILE …` rewrites files (`rewritten`). The next
version has neither.
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
"""Properties by their old names."""
BY_CHOICE = {"order": "tile_order.grid", "columns": "tile_columns.grid", "recompute": "recompute.…"}
"""Properties that no longer exist, with the key of the choice that says the same."""
KINDS = {
    **{old: new for old, new in PROPERTIES.items() if old != "maxregs"},
    "order": "tile_order",
    "columns": "tile_columns",
    "again": "reload",
    "exchange": "convert_layout",
    "slots": "stages",
    "sums": "chained_mma",
}
"""Kinds of choices by their old names."""
OPTIONS = {("stage", "bulk"): "tma", ("deal", "turns"): "round_robin"}
"""New words for options of choices and for words behind properties, by kind and old word."""

_SCHEDULE = re.compile(r"\s*schedule\s+\w+")
_LINE = re.compile(r"(\s*)([a-z_]+)\s+(.*?)(\s*)", re.DOTALL)
# `choice order(n):` is a block that the text defines, so its name stays.
_KEY = re.compile(r"(?P<before>\b(?:choose|choice)\s+)(?P<kind>[a-z_]+)\b(?!\s*\()(?P<behind>.*)", re.DOTALL)


def new_lines(name: str, said: str) -> list[str]:
    """The lines that replace `NAME SAID` of an old property; none for a name that never was a property."""
    if name in PROPERTIES:
        return [f"{PROPERTIES[name]} {said}"]
    if name == "recompute":
        return [f"choose recompute.{each.strip()}: anew" for each in said.split(",")]
    return [f"choose {BY_CHOICE[name]}: {said}"] if name in BY_CHOICE else []


def new_option(of: str, option: str) -> str | None:
    """The hint for an old option, or an old word behind a property."""
    return hint(OPTIONS[of, option]) if (of, option) in OPTIONS else None


def new_key(key: str) -> str | None:
    """The new key of a choice whose kind was renamed."""
    kind, dot, subject = key.partition(".")
    return f"{KINDS[kind]}{dot}{subject}" if kind in KINDS else None


def hint(written: str) -> str:
    return f"it is '{written}' since version 0.2; 'python -m dsl.rename FILE' rewrites a file"


def rewritten(text: str) -> str:
    """A `.tile` file in the new words. Lines of schedules change, and keys of choices; comments do not."""
    lines: list[str] = []
    # The indentation of the schedule that the line belongs to. A line that is indented no further ends it.
    block: int | None = None
    statement, depth = "", 0  # the first word of a line that goes on, and how many of its brackets are open
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
    """A line of a schedule, without its comment, in the new words."""
    match = _LINE.fullmatch(code)
    # `turns = 4` sets a constant of that name. It is no property, so it stays.
    if match is None or match[2] in {"choose", "expect", "tune"} or match[3].startswith("="):
        return code
    indent, name, said, end = match.groups()
    # `stage` kept its name; only the word behind it changed.
    if name == "stage":
        return _options_of(name, code)
    new = new_lines(name, said)
    return "\n".join(f"{indent}{each}" for each in new) + end if new else code


def _key(found: re.Match[str]) -> str:
    """A choice's key, and what stands behind it, in the new words."""
    kind = found["kind"]
    return f"{found['before']}{KINDS.get(kind, kind)}{_options_of(kind, found['behind'])}"


def _options_of(kind: str, code: str) -> str:
    """`code` with the new words for the options of `kind`."""
    for (of, option), new in OPTIONS.items():
        if of == kind:
            code = re.sub(rf"\b{option}\b", new, code)
    return code
