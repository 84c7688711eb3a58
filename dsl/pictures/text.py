"""Draws pictures for the terminal. They are readable without colours."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from dsl.lowering.shared.shared_map import BANKS
from dsl.pictures.colours import background
from dsl.pictures.registers import Cell, DrawnStep, RegisterPicture
from dsl.pictures.shared import DrawnAccess, SharedPicture, first_lane

INDENT = "  "
DIM, TITLE, CONFLICT = "dim", "bold", "bold white on red"


def registers(picture: RegisterPicture) -> list[Text]:
    """Draws the bits of each axis, the corner of the tile, and the steps from the corner to the rest of the tile."""
    return [*bit_table(picture), Text(), *corner(picture), *step_lines(picture)]


def bit_table(picture: RegisterPicture) -> list[Text]:
    """Returns a line for each axis. For each bit of the coordinate, it names the bits of warp, lane and register whose
    XOR is this bit."""
    most = max(map(len, picture.bits))
    cells = max((len(name) for names in picture.bits for name in names), default=1) + 2
    # The columns line up with or without colours.
    label = max(map(len, (*picture.axes, "bit")))
    out = [Text(INDENT + "bit".ljust(label) + "".join(f"{i:>{cells}}" for i in reversed(range(most))), DIM)]
    for axis, names in zip(picture.axes, picture.bits, strict=True):
        if names:
            padded = [""] * (most - len(names)) + list(names)
            out.append(Text(INDENT + axis.ljust(label) + "".join(f"{name:>{cells}}" for name in padded)))
    if picture.idle:
        words = "copies, along no axis: " + ", ".join(picture.idle)
        out.append(Text(INDENT + words))
    out[0].append("    l: lane, r: register, w: warp", DIM)
    return out


def corner(picture: RegisterPicture) -> list[Text]:
    """Draws the cells of the corner, each with its lane and registers. If several warps hold elements of the corner, a
    cell begins with its warp."""
    start = slice(None, None if picture.wraps or len(picture.corner) == 1 else -1)
    labels = [", ".join(map(str, line.start[start])) for line in picture.lines]
    rows = [[cell_text(picture, cell) for cell in line.cells] for line in picture.lines]
    # All cells have the same width.
    size = max(len(text) for row in rows for text in row)
    head = ", ".join(picture.axes[start])
    label = max(map(len, (*labels, head)))
    first = picture.lines[0]
    marks = [("+" if picture.wraps else "") + str(cell.column) for cell in first.cells]
    out = [Text(f"{INDENT}{head:>{label}}  " + "".join(f" {mark:>{size}} " for mark in marks), DIM)]
    for name, line, row in zip(labels, picture.lines, rows, strict=True):
        made = Text().append(f"{INDENT}{name:>{label}}  ", DIM)
        for cell, text in zip(line.cells, row, strict=True):
            made.append(f" {text:>{size}} ", background(cell.lane))
        out.append(made)
    return out


def cell_text(picture: RegisterPicture, cell: Cell) -> str:
    text = f"{cell.lane} {cell.registers}"
    return f"w{cell.warp} {text}" if picture.has_warps else text


def step_lines(picture: RegisterPicture) -> list[Text]:
    """Lists the steps from the corner to the rest of the tile, by axis."""
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


def step_words(step: DrawnStep) -> str:
    sign = "+" if step.exact else "^"
    return " and ".join(f"{name} {sign}{value}" for name, value in step.places) or "the same place"


# ---- shared tiles --------------------------------------------------------------------------------------------------


def shared(picture: SharedPicture, width: int) -> list[Text]:
    """Draws which bank holds which element, then for each access the lanes that each pass over the banks serves.

    `width` is the number of columns of the terminal. Longer lines are split.
    """
    out = memory(picture, width)
    for access in picture.accesses:
        out += [Text(), *access_lines(access, width)]
    return out


def memory(picture: SharedPicture, width: int) -> list[Text]:
    """Draws the coordinates of the elements in the banks, with a line for every 128 bytes."""
    lines = picture.lines
    cells = [[", ".join(map(str, at)) for at in line] for line in lines]
    size = max(len(text) for row in [picture.heads, *cells] for text in row)
    label = max(len(str(BANKS * len(cells))), len("byte"))
    out = [Text(f"{INDENT}contents of the banks: {', '.join(picture.axes)} of every {picture.unit} bytes", DIM)]
    for part in parts(len(picture.heads), size, width - label):
        heads = "".join(f" {head:>{size}} " for head in picture.heads[part])
        out.append(Text(f"{INDENT}{'byte':>{label}} {heads}", DIM))
        for i, row in enumerate(cells):
            made = Text().append(f"{INDENT}{BANKS * i:>{label}} ", DIM)
            for text, at in zip(row[part], lines[i][part], strict=True):
                made.append(f" {text:>{size}} ", background(picture.shade(at)))
            out.append(made)
    shown = len(cells) * BANKS
    if shown < picture.stage_bytes:
        out.append(Text(f"{INDENT}shown: {shown} of {picture.stage_bytes} bytes", DIM))
    return out


def parts(count: int, size: int, width: int) -> Iterator[slice]:
    """Splits `count` cells of `size` letters into lines that fit the width. The number of cells in a line is a power of
    two."""
    # With a power of two, each line begins at a bank that is easy to find.
    per = 1 << max(1, (width - len(INDENT) - 1) // (size + 2)).bit_length() - 1
    return (slice(first, first + per) for first in range(0, count, per))


def access_lines(access: DrawnAccess, width: int) -> list[Text]:
    """Draws an access with its bank conflicts, and the lanes that each pass over the banks serves."""
    times = f", {access.count} times" if access.count > 1 else ""
    head = Text(f"{INDENT}line {access.line}: {access.name}, {access.bytes} bytes a lane{times}: ")
    out = [head.append(access.verdict, CONFLICT if access.beyond else TITLE)]
    # If the offsets depend on data, there is no picture, only the verdict.
    if not access.touches:
        return out
    banks, label = list(access.heads), len("pass 32")
    size = max(len(text) for text in [*access.heads.values(), *(t for row in access.rows for t in row.values())])
    for part in parts(len(banks), size, width - label):
        # Passes without lanes in this part of the banks are left out.
        rows = [(i, row) for i, row in enumerate(access.rows) if row.keys() & set(banks[part])]
        if not rows:
            continue
        heads = "".join(f" {access.heads[bank]:>{size}} " for bank in banks[part])
        out.append(Text(f"{INDENT}{'bank':<{label}} {heads}", DIM))
        for i, row in rows:
            made = Text().append(f"{INDENT}{f'pass {i + 1}':<{label}} ", DIM)
            for bank in banks[part]:
                lanes = row.get(bank)
                # Lanes of every pass after the first are bank conflicts.
                style = DIM if lanes is None else CONFLICT if i else background(first_lane(lanes))
                made.append(f" {lanes or '·':>{size}} ", style)
            out.append(made)
    return out
