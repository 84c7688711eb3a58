"""`dsl format`: formats files in the style of the samples."""

from __future__ import annotations

import sys
from difflib import unified_diff
from pathlib import Path

import click

from dsl.command.failures import DIFFERS, show
from dsl.lowering.ir.location import TileError
from dsl.text.files import MAX_BYTES, read_text, write_text
from dsl.text.formatter import formatted

STDIN = "-"


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="FILE...")
@click.option("--check", is_flag=True, help="Write nothing. The status is 1 if a file would change.")
@click.option("--diff", is_flag=True, help="Print what would change, and write nothing.")
def command(files: tuple[str, ...], check: bool, diff: bool) -> int:
    """Format FILEs: indentation, spaces, blank lines and the columns of comments. Lines stay lines, and comments keep
    their text. The file - is standard input, whose formatted text is printed.

    Exit status: 0 all is well, 1 a file would change (with --check or --diff), 2 a file does not parse.
    """
    status, changes = 0, 0
    for file in files:
        try:
            before = _read(file)
            after = formatted(before, "<stdin>" if file == STDIN else file)
            if before != after:
                changes += 1
            if diff:
                lines = unified_diff(before.splitlines(True), after.splitlines(True), file, f"{file} formatted")
                click.echo("".join(lines), nl=False)
            elif check and before != after:
                click.echo(f"{file}: would change")
            elif not check and file == STDIN:
                click.echo(after, nl=False)
            elif not check and before != after:
                write_text(Path(file), after)
                click.echo(f"{file}: formatted")
        except Exception as error:  # an error in a file leaves the others to format
            status = max(status, show(error, file))
    return status or (DIFFERS if changes and (check or diff) else 0)


def _read(file: str) -> str:
    """Returns the text of a file as it is, with carriage returns."""
    if file != STDIN:
        return read_text(Path(file))
    raw = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise TileError("limit", None, f"the text has more than {MAX_BYTES} bytes")
    try:
        return raw.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise TileError("file", None, f"<stdin> is no UTF-8 text: byte {error.start}") from None
