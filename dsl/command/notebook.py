"""`%load_ext dsl`: the cell magic `%%tile`, whose cell is a `.tile` text.

    %%tile [NAME|FILE.tile] [--run [NAME=VALUE]... [options of dsl run]]

defines the module NAME (default: `tile`) in the notebook. The cell is written to a file in a temporary folder. Other
cells can import this file (`import "NAME.tile"`), and commands can read it. FILE.tile is written at the given path, and
can import files beside it. Mistakes are reported as by `dsl check`. Mistakes and wrong results stop the notebook.
"""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path
from typing import Any

import click

from dsl.calls.api import Module, load
from dsl.command.failures import render
from dsl.command.functions import command_of, examples
from dsl.command.table import CELLS, ResultTable, shown
from dsl.lowering.ir.location import Errors, TileError
from dsl.studies.check import check_file
from dsl.text.files import write_text

USAGE = "%%tile [NAME|FILE.tile] [--run [NAME=VALUE]... [options of dsl run]]"
SUFFIX = ".tile"


class CellError(Exception):
    """An error in a cell, with the text that the command line would print."""

    def _render_traceback_(self) -> list[str]:
        """The text that IPython shows instead of a Python traceback."""
        return [str(self)]


class TileCells:
    """The cells of a session. The folder of the cells is deleted when the session ends."""

    def __init__(self, shell: Any):
        self.shell = shell
        # Commands read files, so each cell is written to a file.
        self.folder = tempfile.TemporaryDirectory(prefix="dsl-cells-")
        # Messages name the files in this folder without the folder (see `table.shown`).
        CELLS.append(self.folder.name)

    def tile(self, line: str, cell: str) -> Module | ResultTable[Any]:
        """Load the cell, a .tile text, as a module: %%tile [NAME|FILE.tile] [--run [NAME=VALUE]...]"""
        path: Path | None = None
        try:
            name, path, rest = self.read(line)
            write_text(path, cell)
            # Reports all mistakes at once. `load` would find some mistakes only at the first call.
            if errors := check_file(path).sorted():
                raise Errors(errors)
            module = load(path, name=path.name if path.parent == Path(self.folder.name) else None)
            self.shell.user_ns[name] = module
            found = None if rest is None else run_cell(path, rest)
        except Exception as error:
            text, _ = render(error, None if path is None else str(path))
            # The output that the kernel printed before a failed launch is kept.
            output = getattr(error, "output", "")
            raise CellError(shown(f"{output}{text}")) from None
        if found is not None and not found.record["passed"]:
            raise CellError(found.text)
        return module if found is None else found

    def read(self, line: str) -> tuple[str, Path, list[str] | None]:
        """Parses the line to (module name, file, words after `--run` or None). Raises TileError `option`."""
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise TileError("option", None, f"%%tile {line}: {error}", USAGE) from None
        rest = words[words.index("--run") + 1 :] if "--run" in words else None
        head = words[: words.index("--run")] if rest is not None else words
        if len(head) > 1 or any(word.startswith("-") for word in head):
            raise TileError("option", None, f"%%tile does not take '{head[-1]}'", USAGE)
        word = head[0] if head else "tile"
        name = Path(word).stem if word.endswith(SUFFIX) else word
        if not name.isidentifier():
            raise TileError("option", None, f"'{name}' is not a Python name", USAGE)
        return name, Path(word) if word.endswith(SUFFIX) else Path(self.folder.name, name + SUFFIX), rest


def run_cell(path: Path, words: list[str]) -> ResultTable[Any]:
    """Runs all examples of a file, like `dsl run --all`, or the example that `words` name."""
    # A cell is a complete program, and all its examples are its tests.
    several = [] if "--example" in words else ["--all"]
    try:
        with command_of("run").make_context("%%tile --run", [str(path), *words, *several]) as context:
            return examples(context.params)
    except click.UsageError as error:
        raise TileError("option", None, error.format_message(), USAGE) from None


def load_ipython_extension(shell: Any) -> None:
    """IPython calls this function for `%load_ext dsl`. `shell` is an `InteractiveShell`. Only its
    `register_magic_function` and `user_ns` are used."""
    shell.register_magic_function(TileCells(shell).tile, "cell", "tile")
