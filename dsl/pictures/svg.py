"""Draws pictures as SVG, one below the other."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from dsl.lowering.shared.shared_map import BANKS
from dsl.pictures.colours import colour
from dsl.pictures.registers import RegisterPicture, blocks
from dsl.pictures.shared import DrawnAccess, SharedPicture, first_lane
from dsl.pictures.text import cell_text, step_words

MARGIN, GAP = 24, 14
ROW, LETTER = 20, 6.8
"""The height of a cell, and the width of a letter in font size 11, in pixels."""
EMPTY, RED, INK, GREY = "#f4f4f4", "#d9363e", "#1a1a1a", "#767676"


class Canvas:
    """A list of SVG elements, and the width and height that they need."""

    def __init__(self) -> None:
        self.elements: list[str] = []
        self.width = 0.0
        self.y = float(MARGIN)

    def text(self, x: float, y: float, text: str, size: int = 11, fill: str = INK, anchor: str = "start") -> None:
        # Only titles are larger than 12.
        weight = ' font-weight="bold"' if size > 12 else ""
        self.elements.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{fill}" text-anchor="{anchor}"{weight}>'
            f"{escape(text)}</text>"
        )
        # SVG does not measure text, so the width of the text is estimated.
        reach = len(text) * LETTER * size / 11
        self.width = max(self.width, x + (reach if anchor == "start" else reach / 2 if anchor == "middle" else 0))

    def line(self, text: str, size: int = 11, fill: str = INK) -> None:
        """Adds a line of text below the last element."""
        self.y += size + 5
        self.text(MARGIN, self.y, text, size, fill)

    def cell(self, x: float, y: float, width: float, text: str, fill: str, ink: str = INK) -> None:
        self.elements.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{ROW}" fill="{fill}" stroke="#ffffff"/>'
        )
        self.text(x + width / 2, y + ROW - 6, text, 11, ink, "middle")
        self.width = max(self.width, x + width)

    def grid(
        self, heads: list[str], rows: Iterable[tuple[str, list[tuple[str, str, str]]]], x: float = MARGIN
    ) -> float:
        """Adds rows of cells (text, colour, ink), with labels on the left and headings above. Returns the x position of
        the right edge."""
        rows = list(rows)
        label = max((len(name) for name, _ in rows), default=0) * LETTER + 8
        # All cells have the same width, so that columns line up.
        letters = max((len(text) for _, row in rows for text, _, _ in row), default=1)
        width = max([letters, *map(len, heads)]) * LETTER + 10
        self.y += ROW
        for i, head in enumerate(heads):
            self.text(x + label + width * (i + 0.5), self.y - 5, head, 10, GREY, "middle")
        for name, row in rows:
            self.text(x + label - 6, self.y + ROW - 6, name, 10, GREY, "end")
            for i, (text, fill, ink) in enumerate(row):
                self.cell(x + label + i * width, self.y, width, text, fill, ink)
            self.y += ROW
        return x + label + width * len(heads)


def sheet(pictures: list[tuple[str, str, RegisterPicture | SharedPicture]]) -> str:
    """Returns an SVG document with pictures, each with its title and description."""
    canvas = Canvas()
    for title, about, picture in pictures:
        canvas.line(title, 14)
        canvas.line(about, 11, GREY)
        canvas.y += GAP
        if isinstance(picture, SharedPicture):
            draw_shared(canvas, picture)
        else:
            draw_registers(canvas, picture)
        canvas.y += 2 * GAP
    # The size is known only after all elements have been added.
    width, height = round(canvas.width) + MARGIN, round(canvas.y)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
    head += 'font-family="ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="#ffffff"/>', *canvas.elements, "</svg>", ""])


def draw_registers(canvas: Canvas, picture: RegisterPicture) -> None:
    """Draws the bits of each axis, the cells of the tile's corner coloured by lane, and the repeats of the corner."""
    most = max(map(len, picture.bits))
    rows = []
    for axis, names in zip(picture.axes, picture.bits, strict=True):
        cells = [("", "#ffffff", INK)] * (most - len(names))
        rows.append((axis, [*cells, *((name, PLACES.get(name[0], EMPTY), INK) for name in names)]))
    canvas.grid([f"bit {i}" for i in reversed(range(most))], rows)
    if picture.idle:
        canvas.line(f"copies, along no axis: {', '.join(picture.idle)}")
    canvas.line("l: lane, r: register, w: warp", 10, GREY)
    canvas.y += GAP

    start = slice(None, None if picture.wraps or len(picture.corner) == 1 else -1)
    heads = [("+" if picture.wraps else "") + str(cell.column) for cell in picture.lines[0].cells]
    canvas.line(
        f"lane and registers, {' x '.join(map(str, picture.corner))} of {' x '.join(map(str, picture.layout.shape))}"
    )
    canvas.grid(
        heads,
        (
            (", ".join(map(str, line.start[start])), [(cell_text(picture, c), colour(c.lane), INK) for c in line.cells])
            for line in picture.lines
        ),
    )
    if picture.is_whole:
        return
    canvas.y += GAP
    # A map of repeats is two-dimensional. For tiles with more axes, the steps from the corner are listed.
    if len(picture.corner) <= 2 and (found := blocks(picture)):
        canvas.line("repeats of this part: warp, first register")
        canvas.grid(
            [str(i * picture.corner[-1]) for i in range(len(found[0]))],
            (
                (
                    str(i * picture.corner[0] if len(picture.corner) > 1 else 0),
                    [(text, colour(6 * warp), INK) for text, warp in row],
                )
                for i, row in enumerate(found)
            ),
        )
        return
    for number in reversed(range(len(picture.layout.shape))):
        words = ", ".join(f"+{s.distance}: {step_words(s)}" for s in picture.steps if s.axis == number)
        if words:
            canvas.line(f"{picture.axes[number]} {words}")


PLACES = {"l": "#cfe3ff", "r": "#ffe3c2", "w": "#d6f2d0"}


def draw_shared(canvas: Canvas, picture: SharedPicture) -> None:
    """Draws which bank holds which element, then the passes of each access. Lanes that are not served in the first pass
    are red."""
    canvas.line(f"contents of the banks by byte offset: {', '.join(picture.axes)} of every {picture.unit} bytes")
    rows = []
    for i, line in enumerate(picture.lines):
        rows.append((str(BANKS * i), [(", ".join(map(str, at)), colour(picture.shade(at)), INK) for at in line]))
    canvas.grid(picture.heads, rows)
    if BANKS * len(picture.lines) < picture.stage_bytes:
        canvas.line(f"{BANKS * len(picture.lines)} of {picture.stage_bytes} bytes", 10, GREY)
    for access in picture.accesses:
        canvas.y += GAP
        times = f", {access.count} times" if access.count > 1 else ""
        text = f"line {access.line}: {access.name}, {access.bytes} bytes a lane{times}: {access.verdict}"
        canvas.line(text, 11, RED if access.beyond else INK)
        if access.touches:
            draw_access(canvas, access)


def draw_access(canvas: Canvas, access: DrawnAccess) -> None:
    rows = []
    for i, row in enumerate(access.rows):
        cells = []
        for bank in access.heads:
            lanes = row.get(bank)
            if lanes is None:
                cells.append(("", EMPTY, INK))
            else:
                cells.append((lanes, RED, "#ffffff") if i else (lanes, colour(first_lane(lanes)), INK))
        rows.append((f"pass {i + 1}", cells))
    canvas.grid(list(access.heads.values()), rows)
