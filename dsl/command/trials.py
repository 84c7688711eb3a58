"""Code that `dsl ablate`, `bisect`, `diff`, `fuzz` and `tune` share: it plans the launches, and shows the progress
bar."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsl.command.options import choices_of, command_line
from dsl.lowering.ir.location import TileError

if TYPE_CHECKING:
    from dsl.lab.experiment import Experiment, Wanted


def experiments(file: str, values: tuple[str, ...], options: dict[str, Any], wanted: Wanted) -> list[Experiment]:
    """An `Experiment` for each launch of an example. In `options`, `index` selects an example without a name, and
    `chosen` and `given` are as in `Conditions`. Raises TileError."""
    from dsl.examples.overrides import resolve
    from dsl.examples.shapes import examine, find_example
    from dsl.lab.experiment import Conditions, Experiment
    from dsl.lab.place import find_place
    from dsl.lab.runner import FIRST_BLOCKS
    from dsl.lab.trial import Log
    from dsl.text.program import load

    program = load(file)
    place = find_place(options["device"], options["arch"])
    at = options.get("index")
    example = find_example(program, options["example"]) if at is None else program.examples[at]
    overrides = resolve(program, example, list(values))
    choose = choices_of(options["choose"], options["skip_pass"])
    log = Log(Path(options["log"])) if options["log"] else None
    # Commands without --jobs compile in this process.
    jobs = options.get("jobs", 0)
    jobs = (os.cpu_count() or 1) if jobs is None else jobs
    facts = examine(program, example, overrides)
    for error in facts.errors:
        raise error
    if not facts.launches:
        raise TileError("example", example.loc, "this example launches nothing")
    # On the command line, launches count from 1.
    numbers = range(len(facts.launches)) if options["launch"] is None else [options["launch"] - 1]
    blocks = options["blocks"] or FIRST_BLOCKS
    elsewhere = {"chosen": options.get("chosen"), "given": options.get("given", {}), "command": command_line()}
    conditions = Conditions(options["schedule"], choose, jobs, options["seed"], log, wanted, blocks, **elsewhere)
    return [Experiment(program, example, overrides, place, at, conditions) for at in numbers]


class Bar:
    """A progress bar on standard error. If standard error is not a terminal, nothing is shown."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
        self.progress = Progress(
            *columns,
            TimeElapsedColumn(),
            TextColumn("{task.fields[last]}", markup=False),
            console=console,
            # The bar disappears at the end. Only results stay on the terminal.
            transient=True,
            disable=not sys.stderr.isatty(),  # a notebook requests colours, but is not a terminal
        )
        self.task: Any = None

    def __enter__(self) -> Bar:
        self.progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.progress.stop()

    def begin(self, title: str, count: int) -> None:
        self.clear()
        self.task = self.progress.add_task(title, total=count, last="")

    def advance(self, what: str) -> None:
        self.progress.update(self.task, advance=1, last=what)

    def clear(self) -> None:
        """Removes the bar of a finished launch."""
        if self.task is not None:
            self.progress.remove_task(self.task)
            self.task = None
