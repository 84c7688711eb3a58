"""Compares two texts of one level.

Rows that differ only in the names of values, registers or labels count as equal. A difference is shown with its source
line.

Such names are numbered in order, so one added operation renames all later values. Therefore, rows are first matched
without numbers. Each pair of matched rows votes for pairs of names, and the pairs with the most votes win. A register
of machine code holds many values, so only its kind is compared.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from msgspec import Struct

from dsl.kernels.plain_rows import (
    DEBUG,
    METADATA,
    WITHOUT_CODE,
    ir_rows,
    llvm_lines,
    ptx_lines,
    split_place,
    without_metadata,
)

NAMES = {
    "ir": re.compile(r'%(?:\d+|(?:[A-Za-z_][\w.]*|"(?:[^"\\]|\\.)*")(?:#\d+)?)'),
    "llvm": re.compile(r'%(?:[\w.$-]+|"[^"]*")'),
    "ptx": re.compile(r"%[a-z]+\d+\b|\$L_?_?\w+"),
}
"""Patterns that match names of values. The key is the kind of the level."""
NUMBER = re.compile(r"#\d+$|\d+(?:_\d+)?$")
"""Matches the number at the end of a name."""
ROUNDS = 6
"""Number of rounds in which names are matched."""
LITERAL = re.compile(r"(?<![\w.%])\d+(?:\.\d+)?\b")
LLVM_LABEL = re.compile(r"^([\w.$-]+):")
LAYOUT_ROW = re.compile(r"^layout (#\d+) = (.*)$")
LAYOUT = re.compile(r'(?<![%\w"])#\d+\b')
ASKED = (
    *("tile-ir", "schedule ", "constant ", "attribute ", "pin ", "instruction ", "swizzle ", "line ", "choose "),
    *("void ", "branches "),
)
"""Rows of the IR's header that state the compilation request begin with one of these texts. The rows below show the
effect of the request."""
CONDITION = re.compile(r'^requires .* text "(.*)" line \d+(?: of ".*")?(?: hint .*)?$')
NUMBERED_ROW = re.compile(r"^( {0,4}\d+|     ) (.*)$")
DECLARED = re.compile(r"^\s*\.reg\s+\S+\s+%\w+<\d+>;$")
MACHINE_NAME = re.compile(r"\b(U?R|U?P|S?B)\d+\b(?:\.reuse)?")
MACHINE_LABEL = re.compile(r"\.L_x_\d+")
NEW = "'"
"""Appended to a name in the second text if the first text uses this name for another value."""


class PlacedRow(Struct, frozen=True):
    """A row of a level's text, and the line of the `.tile` file that produced it."""

    text: str
    line: int | None = None


# ---- rows ----


def rows_of(kind: str, text: str, layouts: dict[str, str], entry: str | None = None) -> list[PlacedRow]:
    """The rows of a level's text, without rows that do not affect the code.

    `kind` is `ast`, `ir`, `llvm`, `ptx` or `sass`. The rows of `ast` and `sass` have the form `LINE TEXT`. `entry` is
    the kernel's name. In LLVM IR and PTX, this name becomes `kernel`. `layouts` maps the content of each layout to a
    name, so that equal layouts have the same name in all texts.
    """
    match kind:
        case "ast" | "sass":
            found = map(NUMBERED_ROW.match, text.splitlines())
            return [PlacedRow(row[2], int(row[1]) if row[1].strip() else None) for row in found if row]
        case "ir":
            return list(_ir(text, layouts))
        case "llvm":
            return list(_llvm(text, entry))
    return list(_ptx(text, entry))


def _ir(text: str, layouts: dict[str, str]) -> Iterator[PlacedRow]:
    # Layouts are listed before the body and numbered in order. A single added layout would rename all later layouts.
    texts = ir_rows(text)
    contents = {found[1]: found[2] for found in map(LAYOUT_ROW.match, texts) if found}
    head = [each for each in texts[: texts.index("body {")] if not each.startswith((*ASKED, "layout "))]
    body = [split_place(each) for each in texts[texts.index("body {") :]]
    used: dict[str, str] = {}

    def renamed(found: re.Match[str]) -> str:
        content = contents.get(found[0])
        if content is None:
            return found[0]
        return used.setdefault(content, layouts.setdefault(content, f"#{len(layouts)}"))

    rows = [PlacedRow(LAYOUT.sub(renamed, row), _own_line(place)) for row, place in body]
    for each in head:
        row, place = split_place(each)
        # Neither the names of the kernels nor the lines of their conditions are compared.
        row = re.sub(r"^kernel \S+ ", "kernel ", CONDITION.sub(r"requires \1", row))
        yield PlacedRow(row, _own_line(place))
    for content, name in sorted(used.items(), key=lambda item: int(item[1][1:])):
        yield PlacedRow(f"layout {name} = {content}")
    yield from rows


def _own_line(place: str) -> int | None:
    """Returns the innermost line of a source place that is in the kernel's own file. `1:6:3+8<4:9+4` gives 4."""
    parts = [each.split(":") for each in place.split("<")] if place else []
    # A part with three numbers belongs to another file.
    return next((int(each[0]) for each in parts if len(each) == 2), None)


def _llvm(text: str, entry: str | None) -> Iterator[PlacedRow]:
    lines, line = llvm_lines(text), None
    name = re.compile(rf"@{re.escape(entry or 'kernel')}\b")
    for row in text.partition(METADATA)[0].splitlines():
        # Skips comments and empty rows.
        if row.startswith(";") or not row.strip():
            continue
        # An instruction without debug data gets the line of the instruction before it.
        if found := DEBUG.search(row):
            line = lines.get(found[1], line)
        yield PlacedRow(LLVM_LABEL.sub(r"%\1:", name.sub("@kernel", without_metadata(row))), line)


def _ptx(text: str, entry: str | None) -> Iterator[PlacedRow]:
    """Yields the PTX rows of one entry, and the rows before the first entry."""
    own = re.escape(entry or "kernel")
    name = re.compile(rf"(?<=\.entry ){own}\b|(?<![\w%.$]){own}(?=_param_\d)")
    is_ours = True
    for row, line in ptx_lines(text):
        if found := re.search(r"\.entry\s+([\w$]+)", row):
            is_ours = entry in (None, found[1])
        # Debug sections come last in the text.
        if row.lstrip().startswith(".section"):
            return
        row = row.partition("//")[0].rstrip()
        # `.reg` rows only count registers, and one register more would show as a difference.
        if is_ours and not WITHOUT_CODE.match(row) and not DECLARED.match(row):
            yield PlacedRow(name.sub("kernel", row).replace("\t", " ").strip(), line)


def numbered_row(text: str, line: int | None) -> str:
    """A row with its line number in front, in the format of syntax trees."""
    return f"{'' if line is None else line:>5} {text}"


def plain_instruction(text: str) -> str:
    """Removes the numbers of registers and labels from an instruction: `R12` becomes `R`."""
    return MACHINE_LABEL.sub(".L_x", MACHINE_NAME.sub(r"\1", text))


# ---- names ----


def matched_names(a: Sequence[str], b: Sequence[str], pattern: re.Pattern[str]) -> dict[str, str]:
    """Maps each name in the rows `b` to a name in the rows `a`.

    Two rows that are equal apart from unmatched names vote for pairs of their names. Each round repeats this with the
    names that the previous round matched. In the last round, rows may also differ in literal numbers.
    """
    found: dict[str, str] = {}
    for is_last in (*[False] * ROUNDS, True):
        votes: Counter[tuple[str, str]] = Counter()
        rows = (known_rows(each, known, pattern) for each, known in ((a, {n: n for n in found.values()}), (b, found)))
        mine, others = ([LITERAL.sub("0", row) if is_last else row for row in each] for each in rows)
        for i, j, count in equal_rows(mine, others):
            for row, other in zip(a[i : i + count], b[j : j + count], strict=True):
                votes.update(zip(pattern.findall(other), pattern.findall(row), strict=False))
        found = elected(votes, found if is_last else {})
    return found


def known_rows(rows: Sequence[str], known: Mapping[str, str], pattern: re.Pattern[str]) -> list[str]:
    """Replaces the names in `known`, and removes the numbers of all other names."""
    return [pattern.sub(lambda found: known.get(found[0], NUMBER.sub("", found[0])), row) for row in rows]


def equal_rows(a: Sequence[str], b: Sequence[str]) -> list[tuple[int, int, int]]:
    """Returns blocks of equal rows, in order. A block is (index in `a`, index in `b`, number of rows).

    Common rows at both ends are matched first, because SequenceMatcher is slow if rows are repeated often.
    """
    first = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    most = min(len(a), len(b)) - first
    last = next((i for i in range(most) if a[-1 - i] != b[-1 - i]), most)
    # In a long text, autojunk would ignore each row that makes up more than 1 % of the rows, such as a barrier.
    matcher = SequenceMatcher(None, a[first : len(a) - last], b[first : len(b) - last], autojunk=False)
    inner = [(i + first, j + first, count) for i, j, count in matcher.get_matching_blocks()[:-1]]
    return [(0, 0, first), *inner, (len(a) - last, len(b) - last, last)]


def elected(votes: Counter[tuple[str, str]], known: Mapping[str, str]) -> dict[str, str]:
    """Adds pairs of names to `known`, the pairs with the most votes first. No name is used twice."""
    found, taken = dict(known), {*known.values()}
    for (other, name), _ in votes.most_common():
        if other not in found and name not in taken:
            found[other] = name
            taken.add(name)
    return found


def renamed_rows(a: Sequence[PlacedRow], b: Sequence[PlacedRow], kind: str) -> list[PlacedRow]:
    """Returns the rows `b` with their names replaced by the matching names of the rows `a`."""
    pattern = NAMES.get(kind)
    if pattern is None or [row.text for row in a] == [row.text for row in b]:
        return list(b)
    found = matched_names([row.text for row in a], [row.text for row in b], pattern)
    present = {name for row in a for name in pattern.findall(row.text)}

    def name(match: re.Match[str]) -> str:
        return found.get(match[0], match[0] + NEW if match[0] in present else match[0])

    return [PlacedRow(pattern.sub(name, row.text), row.line) for row in b]


# ---- differences ----


def difference(level: str, kind: str, a: Sequence[PlacedRow], b: Sequence[PlacedRow], context: int) -> dict[str, Any]:
    """Compares two texts of a level.

    `added` is the number of rows that only the second text has, and `removed` of those that only the first has. `hunks`
    are groups of rows with `context` equal rows around them. Rows of the first text begin with `-`, rows of the second
    with `+`. A hunk's `line` is the source line of its first differing row. If `second` is true, this line is of the
    second file.
    """
    b = renamed_rows(a, b, kind)
    matcher = SequenceMatcher(None, [row.text for row in a], [row.text for row in b], autojunk=False)
    changes = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    added, removed = sum(n - m for *_, m, n in changes), sum(j - i for _, i, j, _, _ in changes)
    hunks = [_hunk(group, a, b) for group in matcher.get_grouped_opcodes(context)] if changes else []
    return {"level": level, "added": added, "removed": removed, "hunks": hunks}


def _hunk(group: Sequence[tuple[str, int, int, int, int]], a: Sequence[PlacedRow], b: Sequence[PlacedRow]) -> Any:
    rows: list[str] = []
    places: list[tuple[int | None, bool]] = []
    for tag, i, j, m, n in group:
        if tag == "equal":
            rows += [f" {row.text}" for row in a[i:j]]
            continue
        rows += [f"-{row.text}" for row in a[i:j]] + [f"+{row.text}" for row in b[m:n]]
        places += [(row.line, False) for row in a[i:j]] + [(row.line, True) for row in b[m:n]]
    line, is_second = next((place for place in places if place[0]), (None, False))
    return {"line": line, "second": is_second, "rows": rows}


def joined_lines(a: str, b: str) -> Mapping[int, int]:
    """Maps line numbers of the text `b` to line numbers of equal lines in `a`. Lines are numbered from 1."""
    blocks = SequenceMatcher(None, a.splitlines(), b.splitlines(), autojunk=False).get_matching_blocks()
    return {each.b + k + 1: each.a + k + 1 for each in blocks for k in range(each.size)}
