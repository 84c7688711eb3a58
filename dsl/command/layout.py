"""`dsl layout`: draws where the elements of a kernel's tiles are stored."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import click

from dsl.command.compile import requests_for
from dsl.command.failures import reporting
from dsl.command.options import shared
from dsl.kernels.compile import lower
from dsl.kernels.variant import Request
from dsl.lowering.ir.function import Function
from dsl.lowering.ir.location import TileError, closest, printable
from dsl.lowering.ir.targets import target
from dsl.pictures.names import DrawnValue, fragments, named_tiles
from dsl.pictures.tiles import drawn, summary
from dsl.text.files import write_text
from dsl.text.program import load

if TYPE_CHECKING:
    from rich.text import Text

    from dsl.pictures.registers import RegisterPicture
    from dsl.pictures.shared import SharedPicture


@click.command(epilog="For example: dsl layout samples/matmul.tile --value acc")
@shared("file values kernel schedule example arch")
@click.option("--value", metavar="NAME", help="Draw this value; without it, list all of them.")
@click.option("--svg", type=click.Path(dir_okay=False), help="Draw into this file instead (SVG).")
@reporting
def command(file: str, values: tuple[str, ...], **options: Any) -> int:
    """List the tiles of FILE's kernels with their layouts, or draw one tile. For a tile in registers, the picture shows
    the lane and register of each element. For a tile in shared memory, it shows the banks of each access, and the
    conflicts."""
    if options["svg"] and not options["value"]:
        raise TileError("option", None, "--svg draws one value", "name it: --value NAME")
    found = tiles_of(file, values, options)
    if options["value"] is not None:
        draw(of_name(found, options["value"]), options["svg"])
    else:
        show_lists(found)
    return 0


def tiles_of(
    file: str, values: Sequence[str], options: dict[str, Any]
) -> list[tuple[Request, Function, list[DrawnValue]]]:
    """The named tiles of each kernel that the options select."""
    program = load(file)
    target(options["arch"])
    chosen = (options["kernel"], options["schedule"], options["arch"], options["example"])
    # The kernels are only lowered. A picture needs neither LLVM nor ptxas.
    functions = [(r, lower(program, r).variant.function) for r in requests_for(program, list(values), *chosen)]
    return [(request, function, named_tiles(function)) for request, function in functions]


def of_name(found: list[tuple[Request, Function, list[DrawnValue]]], name: str) -> list[tuple[Function, DrawnValue]]:
    """The tiles named `name`. Raises TileError if there is none."""
    tiles = [(function, tile) for _, function, tiles in found for tile in tiles]
    chosen = [(function, tile) for function, tile in tiles if tile.name == name]
    if not chosen:
        names = list(dict.fromkeys(tile.name for _, tile in tiles))
        raise TileError("name", None, f"no tile is called '{name}'", closest(name, names) or ", ".join(names))
    return chosen


def show_lists(found: list[tuple[Request, Function, list[DrawnValue]]]) -> None:
    """Prints one line for each tile."""
    from dsl.pictures import text
    from dsl.text.terminal import lines, table

    for request, function, tiles in found:
        title = f"{request.kernel} with {request.schedule or 'no schedule'}, {function.warps} warps"
        title += f", clusters of {function.blocks_of_cluster} blocks" if function.blocks_of_cluster > 1 else ""
        spread = fragments(function)
        rows = [[str(t.line), t.name, t.kind, summary(function, t, spread)] for t in tiles]
        made = table(["line", "name", "type", "layout"], rows, left=4)
        write([text.Text(printable(title), text.TITLE), *lines(made), text.Text()])


def draw(chosen: list[tuple[Function, DrawnValue]], svg: str | None) -> None:
    """Draws the tiles on the terminal, or into an SVG file."""
    from dsl.pictures import shared, text

    width = get_terminal_size().columns
    pictures: list[tuple[str, str, RegisterPicture | SharedPicture]] = []
    for function, tile in chosen:
        title = printable(f"{tile.name}: {tile.kind} ({function.name}, line {tile.line})")
        spread = fragments(function)
        made = drawn(function, tile, spread, WIDE_LINE if width >= WIDE else LINE)
        pictures.append((title, summary(function, tile, spread), made))
    if svg is not None:
        from dsl.pictures.svg import sheet

        write_text(Path(svg), sheet(pictures))
        click.echo(f"{svg}: {len(pictures)} picture{'s' * (len(pictures) > 1)}")
        return
    for title, about, made in pictures:
        write([text.Text(title, text.TITLE), text.Text(text.INDENT + about), text.Text()])
        lines = text.shared(made, width) if isinstance(made, shared.SharedPicture) else text.registers(made)
        write([*lines, text.Text()])


LINE, WIDE_LINE, WIDE = 8, 16, 170
"""The number of cells in a line, and in a wide line. Lines are wide on a terminal with at least `WIDE` columns."""


def write(lines: list[Text]) -> None:
    from dsl.text.terminal import Terminal

    out = Terminal()
    for line in lines:
        # The padding of tables would leave trailing blanks in a file.
        if not out.is_terminal:
            line.rstrip()
        out.print(line, soft_wrap=True)
