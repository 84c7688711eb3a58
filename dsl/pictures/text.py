"""Pictures for the terminal: text that reads without colours, and has them where there are some."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from dsl.pictures.colours import background
from dsl.pictures.registers import Cell, RegisterPicture, Step
from dsl.pictures.shared import Access, SharedPicture

INDENT = "  "
DIM, TITLE, CONFLICT = "dim", "bold", "bold white on red"


def registers(picture: RegisterPicture, width: int) -> list[Text]:
    """The bits of each axis, the corner, and the steps to what lies outside of it. width: of the terminal."""
    return [*bit_table(picture), Text(), *corner(picture), *step_lines(picture)]


def bit_table(picture: RegisterPicture) -> list[Text]:
    """One line an axis: which bit of which place is each bit of the coordinate."""
    most = max(map(len, picture.bits))
    cells = max((len(name) for names in picture.bits for name in names), default=1) + 2
    label = max(map(len, (*picture.axes, "bit")))
    out = [Text(INDENT + "bit".ljust(label) + "".join(f"{i:>{cells}}" for i in reversed(range(most))), DIM)]
    for axis, names in zip(picture.axes, picture.bits, strict=True):
        if names:
            padded = [""] * (most - len(names)) + list(names)
            out.append(Text(INDENT + axis.ljust(label) + "".join(f"{name:>{cells}}" for name in padded)))
    if picture.idle:
        words = "no axis: held alike by " + ", ".join(picture.idle)
        out.append(Text(INDENT + words))
    out[0].append("    l: lane, r: register, w: warp", DIM)
    return out


def corner(picture: RegisterPicture) -> list[Text]:
    """The cells: lane, then registers; with the warp before where there are several."""
    start = slice(None, None if picture.wraps or len(picture.corner) == 1 else -1)
    labels = [", ".join(map(str, line.start[start])) for line in picture.lines]
    rows = [[cell_text(picture, cell) for cell in line.cells] for line in picture.lines]
    size = max(len(text) for row in rows for text in row) + 2
    head = ", ".join(picture.axes[start])
    label = max(map(len, (*labels, head)))
    first = picture.lines[0]
    marks = [("+" if picture.wraps else "") + str(cell.column) for cell in first.cells]
    out = [Text(f"{INDENT}{head:>{label}} " + "".join(f"{mark:>{size - 1}} " for mark in marks), DIM)]
    for name, line, row in zip(labels, picture.lines, rows, strict=True):
        made = Text(f"{INDENT}{name:>{label}} ", DIM)
        for cell, text in zip(line.cells, row, strict=True):
            made.append(f"{text:>{size - 1}} ", background(cell.lane))
        out.append(made)
    return out


def cell_text(picture: RegisterPicture, cell: Cell) -> str:
    text = f"{cell.lane} {cell.registers}"
    return f"w{cell.warp} {text}" if picture.has_warps else text


def step_lines(picture: RegisterPicture) -> list[Text]:
    """What lies outside of the corner, by axis."""
    if picture.is_whole:
        return []
    out = [Text()]
    for axis in reversed(range(len(picture.layout.shape))):
        of_axis = [step for step in picture.steps if step.axis == axis]
        if of_axis:
            words = ", ".join(f"+{step.distance}: {step_words(step)}" for step in of_axis)
            out.append(Text(f"{INDENT}{picture.axes[axis]} {words}"))
    shown = " x ".join(map(str, picture.corner))
    out.append(Text(f"{INDENT}shown: {shown} of {' x '.join(map(str, picture.layout.shape))}", DIM))
    return out


def step_words(step: Step) -> str:
    sign = "+" if step.exact else "^"
    return " and ".join(f"{name} {sign}{value}" for name, value in step.places) or "the same place"


# ---- shared tiles --------------------------------------------------------------------------------------------------


def shared(picture: SharedPicture, width: int) -> list[Text]:
    """Which element lies in which bank, then each access: which lanes of a phase each pass over the banks serves."""
    out = memory(picture, width)
    for access in picture.accesses:
        out += [Text(), *access_lines(access, width)]
    return out


def memory(picture: SharedPicture, width: int) -> list[Text]:
    banks = picture.unit // 4
    cells = [[", ".join(map(str, c)) for c in line] for line in picture.lines]
    heads = [bank_name(i * max(banks, 1), banks) for i in range(max(map(len, cells)))]
    size = max(len(text) for row in [heads, *cells] for text in row) + 2
    label = max(len(str(128 * len(cells))), len("byte"))
    fits = max(1, (width - label - len(INDENT)) // size)
    per = 1 << fits.bit_length() - 1
    out = [Text(f"{INDENT}what lies in the banks: {', '.join(axis_names(picture))} of every {picture.unit} bytes", DIM)]
    for first in range(0, len(heads), per):
        part = slice(first, first + per)
        out.append(Text(f"{INDENT}{'byte':>{label}}" + "".join(f"{h:>{size}}" for h in heads[part]), DIM))
        for i, row in enumerate(cells):
            made = Text(f"{INDENT}{128 * i:>{label}}", DIM)
            for text, at in zip(row[part], picture.lines[i][part], strict=True):
                made.append(f"{text:>{size}}", background(at[-1] * picture.type.dtype.bytes // picture.unit * 4 % 32))
            out.append(made)
    shown = len(cells) * 128
    if shown < picture.slot_bytes:
        out.append(Text(f"{INDENT}shown: {shown} of {picture.slot_bytes} bytes", DIM))
    return out


def axis_names(picture: SharedPicture) -> tuple[str, ...]:
    rank = len(picture.slot)
    return ("row", "column") if rank == 2 else ("element",) if rank == 1 else tuple(f"axis {i}" for i in range(rank))


def bank_name(first: int, count: int) -> str:
    return f"{first}-{first + count - 1}" if count > 1 else str(first)


def access_lines(access: Access, width: int) -> list[Text]:
    times = f", {access.count} times" if access.count > 1 else ""
    head = Text(f"{INDENT}line {access.line}: {access.name}, {access.bytes} bytes a lane{times}: ")
    head.append(access.verdict, CONFLICT if access.beyond else TITLE)
    if not access.touches:
        return [head]
    group = max(1, access.bytes // 4)
    passes = [[(bank, lanes) for bank, lanes in row if bank % group == 0] for row in access.passes]
    heads = [bank_name(bank, group) for bank in range(0, 32, group)]
    used = {bank for row in passes for bank, _ in row}
    size = max(len(text) for text in [*heads, *(lanes for row in passes for _, lanes in row)]) + 1
    fits = max(1, (width - len(INDENT) - 9) // size)
    per = 1 << fits.bit_length() - 1
    out = [head]
    for first in range(0, len(heads), per):
        banks = range(first * group, (first + per) * group, group)
        if not used & set(banks):
            continue
        out.append(Text(f"{INDENT}{'bank':<9}" + "".join(f"{h:>{size}}" for h in heads[first : first + per]), DIM))
        for number, row in enumerate(passes):
            there = dict(row)
            if not any(bank in there for bank in banks):
                continue
            made = Text(f"{INDENT}{f'pass {number + 1}':<9}", DIM)
            for bank in banks[: len(heads) - first]:
                lanes = there.get(bank, "·")
                style = (
                    DIM
                    if bank not in there
                    else CONFLICT
                    if number
                    else background(int(lanes.split("-")[0].split(",")[0]))
                )
                made.append(f"{lanes:>{size}}", style)
            out.append(made)
    return out


def table(rows: Iterable[tuple[str, ...]]) -> list[Text]:
    """Rows in columns, the first of them as headings."""
    cells = list(rows)
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]) - 1)]
    out = []
    for number, row in enumerate(cells):
        line = "  ".join([*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[-1]])
        out.append(Text(line.rstrip(), DIM if number == 0 else ""))
    return out
