"""Errors on the terminal: one shape for all, never a traceback for a user's mistake."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dsl.lowering.ir.location import Loc, Source, TileError, printable
from dsl.runtime.errors import FindingError, RuntimeFault
from dsl.text.files import MAX_TEXT, read_text

if TYPE_CHECKING:
    from dsl.runtime.emulator.findings import Finding

DIFFERS, WRONG_INPUT, DEVICE_FAILED, INTERNAL, BROKEN_PIPE = 1, 2, 3, 70, 141
FINDING_HINTS = {
    "uninitialised read": "set it before it is read: zeros(…) in place of empty(…), workspace(…, zeroed) in place of "
    "workspace(…), or a launch that writes it; or put the arguments in order, if it is an output",
    "race": "blocks: an atomic with order=release behind the writes, one with order=acquire before the reads; "
    "threads of a block: barrier()",
    "out of bounds": "a slice is masked by itself; an index by integer tiles by mask= alone: load(x[i], mask=i < n); "
    "--strict-bounds names the axis",
    "division by zero": "choose what stands there: where(d != 0, a // d, 0), or 'assert d != 0'",
    "time limit": "--time-limit SECONDS for more, or a smaller example",
    "instruction budget": "a smaller example",
}
REPORT = "please report it, with the file and the command line"


class ChildFailure(Exception):
    """What went wrong in a child process: the text to show, the exit status, and the same as data (see `records`)."""

    def __init__(self, text: str, status: int, records: list[dict[str, Any]]):
        super().__init__(text)
        self.text, self.status, self.records = text, status, records


def located(error: BaseException, file: str | None = None) -> TileError | None:
    """Any exception as an error with a place in `file`, where it has one; None for what is no error of the user."""
    if isinstance(error, TileError):
        return error
    if isinstance(error, RuntimeFault):
        hint = error.hint
        if hint is None and isinstance(error, FindingError):
            hint = _hint(error.finding, file)
        return TileError(error.code, _place(error, file), error.message, hint)
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        return TileError("file", None, f"{name}{error.strerror or error}")
    if isinstance(error, MemoryError):
        return TileError("limit", None, "there is not enough memory for this")
    return None


GOES_ON = "no loop that runs reads"
"""How `spinning.py` begins to tell a loop that waits for nobody."""
FAR_OUTSIDE = (
    "compute the index in s64 where it may pass 2147483647: i.to(s64) * stride; and let the mask leave out negative "
    "ones, too: mask=(i >= 0) & (i < n)"
)
WAITS_AHEAD = (
    "let a block wait for earlier blocks only ('choose tile_order.grid: descending' starts the last ones first), or "
    "let blocks take their numbers from a counter"
)
OF_A_STORE = (
    "a slice is masked by itself; an index by integer tiles by mask= alone: store(y[i], v, mask=i < n), and so "
    "atomic_add; --strict-bounds names the axis"
)
STORED_TWICE = (
    "this statement stores an element twice: let tiles of blocks lie apart (the step from block to block is as long as "
    "what the mask leaves on), or atomic_add(part, value) if all values count"
)
STARTS_LAST = (
    "'choose tile_order.grid: descending' (line {lines}) starts the blocks with the greatest block(0) first, so that a "
    "smaller one may not have started: leave out that line where blocks wait for smaller ones, or let them take their "
    "numbers from a counter"
)
LOADED_AND_STORED = (
    "one statement loads and stores what other threads do, too: atomic_add(part, value) and its like do both at once"
)
BARRIERS_MANUAL = (
    "'barriers manual' (line {}) inserts none here: without that line they come by themselves; else barrier() between "
    "the two, where both stand in the text"
)
ENDLESS = (
    "let the condition become false for every element: loads give 0 behind the end of an array, or what other= says; "
    "or count the iterations, and stop after so many"
)


def _hint(finding: Finding, file: str | None) -> str | None:
    """What would mend a finding."""
    for kind, words, said in ROWS:
        if finding.kind == kind and words in finding.message and (found := said(finding, file)) is not None:
            return found or None
    return FINDING_HINTS.get(finding.kind)


def _of_one_statement(finding: Finding, _: str | None) -> str | None:
    """Of a statement that races with itself."""
    if finding.last_writer is None or f" at {finding.location} (" not in finding.last_writer:
        return None
    is_store = "that another thread has written" in finding.message and "writes" in finding.message
    return STORED_TWICE if is_store else LOADED_AND_STORED


def _of_manual_barriers(finding: Finding, file: str | None) -> str | None:
    lines = _lines_with("barriers manual", finding.file or file)
    return BARRIERS_MANUAL.format(" or ".join(map(str, lines))) if lines else None


def _of_a_deadlock(finding: Finding, file: str | None) -> str | None:
    waits_for = finding.last_writer or ""
    if waits_for.startswith(GOES_ON):
        return ENDLESS
    if "not started" not in waits_for:
        return None
    lines = _lines_with("choose tile_order.grid: descending", finding.file or file)
    return STARTS_LAST.format(lines=" or ".join(map(str, lines))) if lines else WAITS_AHEAD


def _of_an_access(finding: Finding, _: str | None) -> str | None:
    return OF_A_STORE if finding.message.split("out of bounds: ")[-1].startswith("writes") else None


ROWS: tuple[tuple[str, str, Callable[[Finding, str | None], str | None]], ...] = (
    ("race", "global memory", _of_one_statement),
    ("race", "shared memory", _of_manual_barriers),
    ("uninitialised read", "global memory", lambda finding, _: FINDING_HINTS.get(finding.kind)),
    ("uninitialised read", "", lambda finding, _: ""),
    ("out of bounds", "an index that is negative", lambda finding, _: FAR_OUTSIDE),
    ("out of bounds", "", _of_an_access),
    ("deadlock", "", _of_a_deadlock),
)
"""Kinds of findings with words of their messages, and what mends them: nothing for "", and None asks the next row."""


def _lines_with(words: str, file: str | None) -> list[int]:
    """The numbers of the lines of a file that say so."""
    try:
        text = read_text(Path(file), MAX_TEXT) if file is not None else ""
    except TileError:
        return []
    return [number for number, line in enumerate(text.splitlines(), 1) if line.split("#")[0].strip() == words]


def record(error: TileError) -> dict[str, Any]:
    """An error as data. `called_from`: the places of the inlined calls, or of the launch, that led there."""
    callers = [] if error.loc is None else error.loc.callers
    said = {"message": error.message, "hint": error.hint}
    return {"code": error.code, **_position(error.loc), **said, "called_from": [*map(_position, callers)]}


def _position(place: Loc | None) -> dict[str, Any]:
    if place is None:
        return {"file": None, "line": None, "column": None}
    return {"file": place.source.name, "line": place.line, "column": place.column}


def records(error: BaseException, file: str | None = None) -> list[dict[str, Any]]:
    """Any exception as data: each mistake of a file, or what else went wrong."""
    if isinstance(error, ChildFailure):
        return error.records
    known = located(error, file) or TileError("internal", None, f"{type(error).__name__}: {error}", REPORT)
    return [*map(record, known.errors)]


def told(error: BaseException, file: str) -> dict[str, Any]:
    """What a command prints as JSON of an error: its text, the same as data, the exit status."""
    text, status = render(error, file)
    return {"file": file, "error": text, "errors": records(error, file), "status": status}


def render(error: BaseException, file: str | None = None) -> tuple[str, int]:
    """(text, exit status) of any exception."""
    if isinstance(error, ChildFailure):
        return error.text, error.status
    known = located(error, file)
    if known is not None:
        if known.code == "plugin" and os.environ.get("DSL_TRACEBACK") == "1":
            click.echo(printable("".join(traceback.format_exception(error))), err=True)
        return known.render(), error.exit_status if isinstance(error, RuntimeFault) else WRONG_INPUT
    text = printable(f"internal error: {type(error).__name__}: {error}")
    if os.environ.get("DSL_TRACEBACK") == "1":
        text = "".join(traceback.format_exception(error)) + text
    else:
        text += f"\n  hint: {REPORT}; DSL_TRACEBACK=1 shows where"
    return text, INTERNAL


def _place(error: RuntimeFault, file: str | None) -> Loc | None:
    """The line of the `.tile` file that an error of the runtime names, in what an example launches; else the launch."""
    line = _line_of(error, file)
    return error.caller if line is None else line.under(error.caller)


def _line_of(error: RuntimeFault, file: str | None) -> Loc | None:
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


def failed(error: BaseException, file: str, as_json: bool, **more: Any) -> int:
    """The same, and as JSON on the standard output where that is asked for, behind `more`."""
    status = show(error, file or None)
    if as_json:
        click.echo(json.dumps({**more, **told(error, file)}))
    return status


def carried_out(file: str, as_json: bool, run: Callable[[], tuple[dict[str, Any], bool]]) -> int:
    """The exit status of a command that gives data, printed where JSON is asked for, and whether something is not as it
    should be."""
    try:
        said, differs = run()
        if as_json:
            click.echo(json.dumps(said))
    except Exception as error:
        return failed(error, file, as_json)
    return DIFFERS if differs else 0


def give_up_output() -> None:
    """What is still to be written goes nowhere: the interpreter would try once more at its end, and complain."""
    with suppress(OSError, ValueError):  # ValueError: a stream without a number
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
