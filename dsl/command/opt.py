"""`dsl opt`: runs passes on the text of a kernel's IR."""

from __future__ import annotations

from pathlib import Path

import click

from dsl.command.failures import reporting
from dsl.command.options import shared
from dsl.kernels.compile import go_through
from dsl.lowering.passes import named
from dsl.lowering.text.printer import printed
from dsl.lowering.text.reader import read
from dsl.text.files import MAX_TEXT, read_text, write_text


@click.command()
@shared("file output")
@click.option("--pass", "passes", multiple=True, metavar="PASS", help="Run this pass; repeatable, in that order.")
@reporting
def command(file: str, passes: tuple[str, ...], output: str | None) -> int:
    """Read the IR of a kernel from FILE, run passes on it, and print the resulting IR. `dsl compile --after PASS`
    writes such a file. Without passes, FILE is read, checked and printed."""
    # The reader verifies the IR. Malformed text is reported here, with its line.
    level = read(read_text(Path(file), MAX_TEXT), file)
    # Runs one pass at a time. The IR is verified after each pass, so that an error names its pass.
    for each in named(passes):
        go_through(level, [each])
    if output is not None:
        write_text(Path(output), printed(level))
    else:
        click.echo(printed(level), nl=False)
    return 0
