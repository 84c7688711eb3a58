"""`dsl replay`: makes the trials of a log again, and says what differs. Packs a log with all that it needs."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from dsl.command.failures import carried_out
from dsl.command.options import command_line, shared
from dsl.command.trials import Bar
from dsl.lowering.ir.location import TileError, printable

if TYPE_CHECKING:
    from dsl.lab.replay import Replayed
    from dsl.lab.trial import LogLine, Trial

MOST_DIFFERENCES = 4
"""The most differences of a line in the table. `--json` has all."""
MOST_LETTERS = 60
"""The most characters of a difference's value in the table."""


@click.command()
@click.argument("log", type=click.Path(), metavar="LOG.jsonl|BUNDLE.zip")
@shared("device jobs as_json")
@click.option("--line", "numbers", type=click.IntRange(1), multiple=True, metavar="N", help="Only line N; repeatable.")
@click.option("--code", "code_only", is_flag=True, help="Only compile: compare the code, and run nothing.")
@click.option("--bundle", type=click.Path(dir_okay=False), metavar="FILE.zip", help="Pack the log with its files.")
def command(log: str, as_json: bool, **options: Any) -> int:
    """Make every trial of a log again: compile it, check and count it on the emulator, or time it on a GPU if the log
    has a GPU and one is here. Each line is equal, or what differs is reported, with the likely cause. --bundle packs
    the log with its .tile files, plug-ins and versions, for dsl replay on another machine. Plug-ins of a bundle are
    Python code, which this command executes.

    Exit status: 0 all lines are equal, 1 a line differs or was not made, 2 the input is wrong, 3 the device failed.
    """
    return carried_out(log, as_json, lambda: replay(Path(log), as_json, options))


def replay(log: Path, as_json: bool, options: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Returns the lines as data, and whether one is not equal. Also prints them unless `as_json` is set."""
    from dsl.lab.bundle import FilesOfLog, unpack, write_bundle
    from dsl.lab.place import find_place
    from dsl.lab.replay import Replay, ReplaySettings, counts, is_repeated

    if options["device"] not in ("auto", "emulator"):
        find_place(options["device"])  # raises if it is not there, before minutes of other trials
    with ExitStack() as stack:
        sources: Any = FilesOfLog(log)
        is_packed = zipfile.is_zipfile(log)
        path = log
        if is_packed:
            path, sources = unpack(log, Path(stack.enter_context(TemporaryDirectory(prefix="dsl-bundle-"))))
        lines = lines_of(path, options["numbers"])
        jobs = (os.cpu_count() or 1) if options["jobs"] is None else options["jobs"]
        settings = ReplaySettings(options["device"], options["code_only"], jobs, command_line())
        with Bar() as bar:
            bar.begin("replay", len(lines))
            found = Replay(sources, settings).run(lines, bar.advance)
        notes = notes_of(lines)
        if not as_json:
            show(found, notes)
        if options["bundle"] is not None:
            names = write_bundle(Path(options["bundle"]), lines, found, sources)
            notes.append(f"{len(names)} files in {options['bundle']}")
            if not as_json:
                click.echo(f"  {printable(notes[-1])}")
    record = {"log": str(log), "counts": counts(found), "lines": [record_of(each) for each in found], "notes": notes}
    return record, not is_repeated(found, options["code_only"])


def lines_of(path: Path, numbers: Sequence[int]) -> list[LogLine]:
    """The lines to make again. Raises TileError if there is none, or no line of a number."""
    from dsl.lab.trial import log_lines

    lines = list(log_lines(path))
    if not lines:
        raise TileError("option", None, f"{path} has no lines")
    for number in numbers:
        if not any(line.number == number for line in lines):
            raise TileError("option", None, f"--line {number}: {path} has {lines[-1].number} lines")
    return [line for line in lines if not numbers or line.number in numbers]


def notes_of(lines: Sequence[LogLine]) -> list[str]:
    """What is not read of the lines."""
    fields = dict.fromkeys(name for line in lines for name in line.unknown)
    return [f"fields that are unknown, and not compared: {', '.join(fields)}"] if fields else []


def record_of(made: Replayed) -> dict[str, Any]:
    """A line as data."""
    from msgspec import to_builtins

    from dsl.lab.trial import writable

    figures = {name: each.figures() | each.timing for name in ("then", "now") if (each := getattr(made, name))}
    about = {"line": made.line, "verdict": made.verdict, "reason": made.reason, "since": made.since, **figures}
    told: dict[str, Any] = writable({**about, "differences": to_builtins(made.differences)})
    return told


# ---- as text ----


def show(found: Sequence[Replayed], notes: Sequence[str]) -> None:
    """Prints a row for each line, then how many lines have each verdict."""
    from dsl.lab.replay import counts
    from dsl.text.terminal import Terminal, table

    console = Terminal()
    rows = []
    for each in found:
        launch, point, figure = ("", "", "") if each.then is None else said_trial(each.then)
        rows.append((launch, point, each.line, figure, said_verdict(each)))
    console.show(table(["launch", "point", "line", "logged", ""], rows, left=2))
    for note in notes:
        console.say(f"  {note}")
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts(found).items())
    console.say(f"  {len(found)} {'line' if len(found) == 1 else 'lines'}: {told}")


def said_trial(trial: Trial) -> tuple[str, str, str]:
    """A trial's launch, what was chosen for it, and its result."""
    launch = " ".join([trial.call, *(f"{name}={value}" for name, value in {**trial.types, **trial.dims}.items())])
    steps = []
    for step in trial.steps:
        values = [f"{name}={value}" for name, value in step.get("constants", {}).items()]
        steps.append(" ".join([step.get("schedule") or step["kernel"], *values]))
    point = " then ".join(steps) + "".join(f" {key}={option}" for key, option in trial.choices.items())
    if trial.times_us:
        middle, low, high = trial.interval
        return launch, point, f"{middle:.2f} us ({low:.2f} to {high:.2f})"
    figures = trial.counted
    if not trial.is_fine or not trial.counters:
        return launch, point, trial.verdict
    return launch, point, f"{figures['sectors']:,.0f} sectors, {figures['work']:,.0f} instr"


def said_verdict(made: Replayed) -> str:
    if not made.differences:
        return f"{made.verdict}: {made.reason}" if made.reason else made.verdict
    shown = [
        f"{each.name} {short(each.then)} → {short(each.now)} ({'; '.join(each.why)})"
        for each in made.differences[:MOST_DIFFERENCES]
    ]
    more = len(made.differences) - MOST_DIFFERENCES
    reason = [made.reason] if made.reason else []
    return f"{made.verdict}: " + ", ".join([*shown, *([f"and {more} more"] if more > 0 else []), *reason])


def short(value: Any) -> str:
    text = "none" if value is None else f"{value:,}" if isinstance(value, int | float) else str(value)
    text = text.partition("\n")[0]
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"
