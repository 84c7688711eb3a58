"""Prints errors on the terminal. All errors have the same form, and a user's mistake never shows a traceback."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dsl.lowering.ir.location import Loc, Source, TileError, printable
from dsl.runtime.errors import FindingError, RuntimeFault
from dsl.text.files import MAX_TEXT, read_text

if TYPE_CHECKING:
    from dsl.runtime.emulator.findings import Finding

# 70 is EX_SOFTWARE of sysexits.h. 141 is 128 + SIGPIPE, the status that shells report.
DIFFERS, WRONG_INPUT, DEVICE_FAILED, INTERNAL, BROKEN_PIPE = 1, 2, 3, 70, 141
FINDING_HINTS = {
    "uninitialised read": "write the element before it is read: zeros(…) in place of empty(…), workspace(…, zeroed) "
    "in place of workspace(…), or a launch that writes it; or correct the order of the arguments, if it is an output",
    "in flight": "a wait(n) ahead of the access leaves at most the n youngest groups of commit() in flight, wait(0) "
    "none; then barrier(), since other threads copy, too",
    "race": "blocks: an atomic with order=release after the writes, one with order=acquire before the reads; "
    "threads of a block: barrier()",
    "out of bounds": "slices are masked automatically; an index tile needs mask=: load(x[i], mask=i < n); "
    "--strict-bounds names the axis (with 'stage NAME: registers', if copies run ahead)",
    "division by zero": "choose a result for it: where(d != 0, a // d, 0), or 'assert d != 0'",
    "time limit": "--time-limit SECONDS for more, or a smaller example",
    "instruction budget": "a smaller example",
}
REPORT = "please report it, with the file and the command line"


class ChildFailure(Exception):
    """An error in a child process: its message, the exit status, and the error as data (see the function `records`)."""

    def __init__(self, text: str, status: int, records: list[dict[str, Any]]):
        super().__init__(text)
        self.text, self.status, self.records = text, status, records


def located(error: BaseException, file: str | None = None) -> TileError | None:
    """Converts an exception to a TileError, located in `file` if possible. Returns None for an exception that is an
    internal error."""
    if isinstance(error, TileError):
        return error
    if isinstance(error, RuntimeFault):
        hint = error.hint
        if hint is None and isinstance(error, FindingError):
            hint = _hint(error.finding, file)
        return TileError(error.code, _place(error, file), error.message, hint)
    # A path that cannot be opened is the user's mistake, so there is no traceback.
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        return TileError("file", None, f"{name}{error.strerror or error}")
    if isinstance(error, MemoryError):
        return TileError("limit", None, "there is not enough memory for this")
    return None


GOES_ON = "no loop that runs reads"
"""The first words of the message in `spinning.py` about a loop that no other thread can end."""
FAR_OUTSIDE = (
    "where the index may pass 2147483647, compute it in s64: i.to(s64) * stride; the mask must exclude negative "
    "indices, too: mask=(i >= 0) & (i < n)"
)
WAITS_AHEAD = (
    "blocks must wait for earlier blocks only ('choose tile_order.grid: descending' starts the last ones first), or "
    "take their numbers from a counter"
)
OF_A_STORE = (
    "slices are masked automatically; an index tile needs mask=: store(y[i], v, mask=i < n), and likewise in "
    "atomic_add; --strict-bounds names the axis"
)
STORED_TWICE = (
    "this statement stores an element twice: give each block a tile of its own (the step from block to block must be "
    "as long as the part that the mask leaves on), or use atomic_add(part, value) if all values count"
)
OF_A_CLUSTER = (
    "all threads of both blocks must meet at the barrier of their cluster ahead of the access, and before either ends: "
    "barrier.cluster.arrive, then barrier.cluster.wait"
)
OF_A_RANK = "the blocks of a cluster of N have the ranks 0 to N - 1: %cluster_ctarank, not the number in the grid"
STARTS_LAST = (
    "'choose tile_order.grid: descending' (line {lines}) starts the blocks with the greatest block(0) first, so a "
    "smaller one may not have started: remove that line if blocks wait for smaller ones, or let them take their "
    "numbers from a counter"
)
LOADED_AND_STORED = (
    "one statement loads and stores an element that other threads use: atomic_add(part, value) and the like "
    "do both at once"
)
SHARED_BY_THREADS = (
    "threads access one element by one statement, and at least one writes it: atomic_add(part, value) and the like "
    "load and store at once; or give each thread elements of its own"
)
OUTSIDE_OF_A_TILE = (
    "an index outside of its shared tile meets another tile, which no barrier orders: --strict-bounds tells; threads "
    "of a branch, or in loops of their own, meet by barrier(warp), barrier() or atomics"
)
NOT_FILLED = "a shared tile begins unwritten: store to each element that is read, as in s = zeros(T[M, N])"
BARRIERS_MANUAL = (
    "'barriers manual' (line {}) turns off automatic barriers: remove that line, or put barrier() between the two "
    "accesses, if the text has both; --strict-bounds tells whether an index lies outside of its tile"
)
ENDLESS = (
    "the condition must become false for every element: loads past the end of an array give 0, or the value of other=; "
    "or count the iterations, and stop after a limit"
)


def _hint(finding: Finding, file: str | None) -> str | None:
    """A hint on how to fix a fault."""
    for kind, words, said in ROWS:
        if finding.kind == kind and words in finding.message and (found := said(finding, file)) is not None:
            return found or None
    return FINDING_HINTS.get(finding.kind)


def _of_one_statement(finding: Finding, _: str | None) -> str | None:
    """Returns the hint for a statement that races with itself, executed by two threads."""
    if finding.last_writer is None or f" at {finding.location} (" not in finding.last_writer:
        return None
    is_store = "that another thread has written" in finding.message and "writes" in finding.message
    return STORED_TWICE if is_store else LOADED_AND_STORED


def _of_one_shared_statement(finding: Finding, _: str | None) -> str | None:
    """Returns the hint for a statement of two threads that access one place of shared memory. The compiler puts no
    barrier inside of a statement."""
    is_same = finding.last_writer is not None and f" at {finding.location} (" in finding.last_writer
    return SHARED_BY_THREADS if is_same else OUTSIDE_OF_A_TILE


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


def _of_blocks(finding: Finding, _: str | None) -> str | None:
    """Returns the hint for a race in shared memory between the blocks of a cluster."""
    writer = finding.last_writer or ""
    return OF_A_CLUSTER if " of block (" in writer and f" of block {finding.block} " not in writer else None


def _of_an_access(finding: Finding, _: str | None) -> str | None:
    return OF_A_STORE if finding.message.split("out of bounds: ")[-1].startswith("writes") else None


ROWS: tuple[tuple[str, str, Callable[[Finding, str | None], str | None]], ...] = (
    ("race", "global memory", _of_one_statement),
    ("race", "shared memory", _of_blocks),
    ("race", "shared memory", _of_manual_barriers),
    ("race", "shared memory", _of_one_shared_statement),
    # The user must fill an array of `empty` and a shared tile. Registers get no hint, because the compiler allocates
    # them.
    ("uninitialised read", "global memory", lambda finding, _: FINDING_HINTS.get(finding.kind)),
    ("uninitialised read", "shared memory", lambda finding, _: NOT_FILLED),
    ("uninitialised read", "", lambda finding, _: ""),
    ("out of bounds", "an index that is negative", lambda finding, _: FAR_OUTSIDE),
    ("out of bounds", "address of block rank", lambda finding, _: OF_A_RANK),
    ("out of bounds", "of the cluster, which may", lambda finding, _: OF_A_CLUSTER),
    ("out of bounds", "", _of_an_access),
    ("deadlock", "", _of_a_deadlock),
)
"""Kind of finding, words of its message, and a function that makes its hint. "" means that there is no hint. None means
that the next row is tried."""


def _lines_with(words: str, file: str | None) -> list[int]:
    """Returns the numbers of the lines in a file that equal `words`, without comments."""
    try:
        text = read_text(Path(file), MAX_TEXT) if file is not None else ""
    except TileError:
        return []
    return [number for number, line in enumerate(text.splitlines(), 1) if line.split("#")[0].strip() == words]


def record(error: TileError) -> dict[str, Any]:
    """An error as data. `called_from` lists the places of the inlined calls, or of the launch, that led to the
    error."""
    callers = [] if error.loc is None else error.loc.callers
    said = {"message": error.message, "hint": error.hint}
    return {"code": error.code, **_position(error.loc), **said, "called_from": [*map(_position, callers)]}


def _position(place: Loc | None) -> dict[str, Any]:
    if place is None:
        return {"file": None, "line": None, "column": None}
    return {"file": place.source.name, "line": place.line, "column": place.column}


def records(error: BaseException, file: str | None = None) -> list[dict[str, Any]]:
    """Converts any exception to records: one for each mistake in a file, or a single one."""
    if isinstance(error, ChildFailure):
        return error.records
    known = located(error, file) or TileError("internal", None, f"{type(error).__name__}: {error}", REPORT)
    return [*map(record, known.errors)]


def told(error: BaseException, file: str) -> dict[str, Any]:
    """The JSON that a command prints for an error: the text, the records, and the exit status."""
    text, status = render(error, file)
    return {"file": file, "error": text, "errors": records(error, file), "status": status}


def render(error: BaseException, file: str | None = None) -> tuple[str, int]:
    """The message and the exit status for any exception."""
    if isinstance(error, ChildFailure):
        return error.text, error.status
    known = located(error, file)
    if known is not None:
        # The author of a plug-in needs the traceback even if the error is located.
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
    """The place of a runtime error: the `.tile` line that the error names, with the example's launch as its caller. If
    the error names no line, the place is the launch."""
    line = _line_of(error, file)
    return error.caller if line is None else line.under(error.caller)


def _line_of(error: RuntimeFault, file: str | None) -> Loc | None:
    name = error.finding.file if isinstance(error, FindingError) and error.finding.file else error.file or file
    if error.line is None or name is None:
        return None
    from dsl.text.program import STD, packaged_files

    path = STD.parent / name if name in packaged_files() else Path(name)
    try:
        source = Source(name, read_text(path, MAX_TEXT))
        text = source.line(error.line)
    # An edited PTX text may name a line that no longer exists in the file.
    except (TileError, IndexError):
        return None
    start = source.starts[error.line - 1] + len(text) - len(text.lstrip())
    return Loc(source, start, start + len(text.split("#")[0].strip()))


def show(error: BaseException, file: str | None = None) -> int:
    """Writes an error to standard error and returns the exit status. Line numbers in runtime errors refer to `file`."""
    if isinstance(error, BrokenPipeError):  # nobody reads the output any more
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


def reporting(command: Callable[..., int]) -> Callable[..., int]:
    """A decorator for commands that read a file. `show` prints their errors."""

    @wraps(command)
    def called(file: str, **options: Any) -> int:
        try:
            return command(file, **options)
        except Exception as error:
            return show(error, file)

    return called


def failed(error: BaseException, file: str, as_json: bool, **more: Any) -> int:
    """Calls `show`. With `as_json`, also prints the error as JSON, which starts with the keys of `more`."""
    status = show(error, file or None)
    if as_json:
        click.echo(json.dumps({**more, **told(error, file)}))
    return status


def carried_out(file: str, as_json: bool, run: Callable[[], tuple[dict[str, Any], bool]]) -> int:
    """Runs a command and returns its exit status. `run` returns two values: the command's data, and whether the status
    is DIFFERS (1). The data is printed if `as_json` is set."""
    try:
        said, differs = run()
        if as_json:
            click.echo(json.dumps(said))
    except Exception as error:
        return failed(error, file, as_json)
    return DIFFERS if differs else 0


def give_up_output() -> None:
    """Redirects standard output to /dev/null. Otherwise, the interpreter would flush its buffer at exit and report the
    broken pipe again."""
    with suppress(OSError, ValueError):  # ValueError: a stream without a file number
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
