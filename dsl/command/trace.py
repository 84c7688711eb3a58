"""`dsl compile --trace DIR`: the IR after each pass, and the difference from the IR before."""

from __future__ import annotations

from difflib import unified_diff
from pathlib import Path

import click

from dsl.kernels.compile import levels_of
from dsl.kernels.plain_rows import ir_rows
from dsl.kernels.variant import Request
from dsl.lowering.ir.location import TileError
from dsl.lowering.text.printer import PrintedNames, printed
from dsl.text.files import write_text
from dsl.text.program import Program

CONTEXT = 2
"""The number of unchanged lines around a difference."""


def write_trace(program: Program, request: Request, folder: Path) -> None:
    """Writes NN-PASS.ir and NN-PASS.diff into a folder, and prints a line for each pass. The compiler can read the
    `.ir` files. The `.diff` files leave out lines that every pass changes. Raises TileError `file`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TileError("file", None, f"cannot write to {folder}: {error.strerror}") from None
    # Values keep their names between levels. Otherwise every row would differ.
    names = PrintedNames()
    before: list[str] = []
    for number, (name, seconds, level) in enumerate(levels_of(program, request)):
        text = printed(level, names)
        label = f"{number:02}-{name}"
        write_text(folder / f"{label}.ir", text)
        # Leaves out rows that every pass renumbers.
        lines = ir_rows(text)
        said = f"{label:<28}{seconds * 1e3:8.1f} ms"
        if before:
            # The two header lines of `unified_diff` are not changes.
            difference = list(unified_diff(before, lines, "before", label, n=CONTEXT, lineterm=""))
            write_text(folder / f"{label}.diff", "".join(f"{line}\n" for line in difference))
            changes = [line[0] for line in difference[2:] if line[0] in "+-"]
            said += f"{changes.count('+'):7} lines in {changes.count('-'):7} out"
        click.echo(said)
        before = lines
