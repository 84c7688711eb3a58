"""Errors on the terminal: one shape for all, never a traceback for a user's mistake."""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path

import click

from dsl.files import MAX_TEXT, read_text
from lowering.location import Loc, Source, TileError, printable
from runtime.errors import FindingError, RuntimeFault

DIFFERS, WRONG_INPUT, DEVICE_FAILED, INTERNAL, BROKEN_PIPE = 1, 2, 3, 70, 141
FINDING_HINTS = {
    "race": "blocks: an atomic with order=release behind the writes, one with order=acquire before the reads; "
    "threads of a block: barrier()",
    "out of bounds": "a slice is masked by itself; an index by integer tiles by mask= alone",
    "time limit": "--time-limit SECONDS for more, or a smaller example",
    "instruction budget": "a smaller example",
}
REPORT = "please report it, with the file and the command line"


class ChildFailure(Exception):
    """What went wrong in a child process: the text to show, the exit status, whether the device failed."""

    def __init__(self, text: str, status: int):
        super().__init__(text)
        self.text, self.status = text, status


def render(error: BaseException, file: str | None = None) -> tuple[str, int]:
    """(text, exit status) of any exception."""
    if isinstance(error, ChildFailure):
        return error.text, error.status
    if isinstance(error, TileError):
        return error.render(), WRONG_INPUT
    if isinstance(error, RuntimeFault):
        hint = error.hint
        if hint is None and isinstance(error, FindingError):
            hint = FINDING_HINTS.get(error.finding.kind)
        return TileError(error.code, _place(error, file), error.message, hint).render(), error.exit_status
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        return printable(f"error[file]: {name}{error.strerror or error}"), WRONG_INPUT
    if isinstance(error, MemoryError):
        return "error[memory]: there is not enough memory for this", WRONG_INPUT
    text = printable(f"internal error: {type(error).__name__}: {error}")
    if os.environ.get("DSL_TRACEBACK") == "1":
        text = "".join(traceback.format_exception(error)) + text
    else:
        text += f"\n  hint: {REPORT}; DSL_TRACEBACK=1 shows where"
    return text, INTERNAL


def _place(error: RuntimeFault, file: str | None) -> Loc | None:
    """The line of the `.tile` file that an error of the runtime names."""
    name = error.finding.file if isinstance(error, FindingError) and error.finding.file else file
    if error.line is None or name is None:
        return None
    try:
        source = Source(name, read_text(Path(name), MAX_TEXT))
        text = source.line(error.line)
    except (TileError, IndexError):
        return None
    start = source.starts[error.line - 1] + len(text) - len(text.lstrip())
    return Loc(source, start, start + len(text.split("#")[0].strip()))


def show(error: BaseException, file: str | None = None) -> int:
    """Writes the error to standard error; the exit status. `file`: where the lines of the runtime's errors are."""
    if isinstance(error, BrokenPipeError):  # the reader of our output has gone
        give_up_output()
        return BROKEN_PIPE
    text, status = render(error, file)
    try:
        sys.stdout.flush()
    except OSError:
        give_up_output()
    with suppress(OSError):
        click.echo(text, err=True)
    return status


def give_up_output() -> None:
    """What is still to be written goes nowhere: the interpreter would try once more at its end, and complain."""
    with suppress(OSError, ValueError):  # ValueError: a stream without a number
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
