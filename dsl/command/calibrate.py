"""`dsl calibrate`: fits the numbers of a device, which costs read, to measured times. Reports how well costs order
points."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

from dsl.command.failures import carried_out
from dsl.command.model import shown
from dsl.command.options import command_line, shared
from dsl.command.trials import Bar
from dsl.lowering.ir.location import TileError

if TYPE_CHECKING:
    from dsl.lab.costs import CaseScore
    from dsl.lab.place import TuningPlace
    from dsl.lab.trial import Trial
    from dsl.lowering.ir.machines import Row

WORST = 8
"""Number of cases in the list of the greatest regrets."""


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="(FILE.tile | LOG.jsonl | NAME=VALUE)...")
@click.option("--check", is_flag=True, help="Fit nothing: only report how well the costs of the text order points.")
@click.option("--device", metavar="cuda:N|NAME", help="The GPU that measures; of logs, the name of their device.")
@click.option("--shapes", type=click.IntRange(1), default=12, show_default=True, help="Shapes of each example.")
@click.option("--points", type=click.IntRange(2), default=12, show_default=True, help="New points of each launch.")
@click.option("--example", metavar="NAME", help="Only this example of the files.")
@shared("seconds seed log jobs as_json")
@click.option("-o", "output", type=click.Path(dir_okay=False), metavar="FILE.toml", help="Write the numbers there.")
def command(words: tuple[str, ...], as_json: bool, **options: Any) -> int:
    """Fit the numbers of a GPU that costs of schedules read. FILE.tile: measure the cheapest points of its examples, at
    random shapes or with NAME=VALUE,VALUE. LOG.jsonl: take the measured trials of dsl tune or calibrate. The costs are
    those of the text as it is now.

    Exit status: 0 fine, 2 the input is wrong, 3 the device failed.
    """
    return carried_out(words[0], as_json, lambda: (calibrate(words, as_json, **options), False))


def calibrate(words: Sequence[str], as_json: bool, **options: Any) -> dict[str, Any]:
    """Returns as data the numbers and the scores, before and after. Also prints them unless `as_json` is set."""
    from dsl.lab.costs import LoggedCosts, cost_trials
    from dsl.lowering.ir.machines import machine_rows

    values = [word for word in words if "=" in word]
    files = [word for word in words if word.endswith(".tile") and word not in values]
    logs = [Path(word) for word in words if word not in values and word not in files]
    if values and not files:
        raise TileError("option", None, f"'{values[0]}' is for a .tile file, and none is given")
    if options["output"] is not None:
        machine_rows(Path(options["output"]))  # an error before anything is measured
    notes: list[str] = []
    trials: list[Trial] = []
    device = options["device"]
    if files:
        place = timed_place(device)
        device = place.name
        trials += measured(files, values, place, options)
    if logs:
        known = {trial.key for trial in trials}
        trials += [trial for trial in cost_trials(logs, device, notes.append) if trial.key not in known]
    costs = LoggedCosts(trials, notes.append)
    before = costs.scores(costs.start, costs.cases)
    record: dict[str, Any] = {"device": trials[0].device, "trials": len(trials), "notes": notes}
    record |= fit_as_json(costs.start, costs.error(costs.start), before)
    after: list[CaseScore] = []
    if not options["check"]:
        fitted, after = costs.fitted(costs.cases), costs.cross_validated(options["seed"])
        record["fitted"] = fit_as_json(fitted, costs.error(fitted), after)
        if options["output"] is not None:
            write(Path(options["output"]), record["device"], fitted)
    if not as_json:
        show(record, before, after, options["output"])
    return record


def fit_as_json(numbers: Row, error: float | None, scores: Sequence[CaseScore]) -> dict[str, Any]:
    return {"numbers": dict(numbers), "error": error, "cases": [to_builtins(each) for each in scores]}


# ---- what is measured ----


def timed_place(device: str | None) -> TuningPlace:
    """The GPU with this name. Raises TileError, LaunchError or DeviceError."""
    from dsl.lab.place import find_place

    place = find_place(device or "auto")
    if not place.is_timed:
        raise TileError("option", None, "without a GPU there are no times to measure", "logs: dsl calibrate LOG.jsonl")
    return place


def measured(files: Sequence[str], values: Sequence[str], place: TuningPlace, options: dict[str, Any]) -> list[Trial]:
    """Measures the cheapest points of the launches of all examples, or takes them from the log. Raises TileError."""
    from dsl.examples.shapes import find_example
    from dsl.lab.random_cases import random_cases
    from dsl.lab.session import Session, Settings
    from dsl.lab.space import SpaceChoice, cases
    from dsl.lab.trial import Log, default_log
    from dsl.lab.tuning import tune
    from dsl.text.program import load

    jobs = (os.cpu_count() or 1) if options["jobs"] is None else options["jobs"]
    seed, begun, found = options["seed"], time.monotonic(), list["Trial"]()
    for file in files:
        program = load(file)
        log = Log(Path(options["log"]) if options["log"] else default_log(Path(file)))
        named = options["example"]
        for example in program.examples if named is None else [find_example(program, named)]:
            given, domains = cases(program, example, values)
            drawn = given if values else list(random_cases(program, example, place, options["shapes"], seed))
            left = options["seconds"] and max(0.0, options["seconds"] - (time.monotonic() - begun))
            about: dict[str, Any] = {"jobs": jobs, "seconds": left, "seed": seed, "command": command_line()}
            settings = Settings(SpaceChoice(domains, rivals=True), budget=options["points"], **about)
            with Bar() as bar:
                for outcome in tune(Session(program, example, place, log, settings, bar), drawn):
                    found += [trial for trial in outcome.trials.values() if trial.status == "measured"]
    if not found:
        raise TileError("option", None, "nothing was measured: no launch of the examples has a schedule with a cost")
    return found


def write(path: Path, device: str, numbers: Row) -> None:
    """Writes a device's numbers into a file. Other rows of the file are kept. Raises a TileError `file`."""
    from dsl.lowering.ir.machines import machine_rows, text_of_rows
    from dsl.text.files import write_text

    rows = {name: row for name, row in machine_rows(path).items() if name != device}
    path.parent.mkdir(parents=True, exist_ok=True)
    # The first row that fits a device's name is taken.
    write_text(path, text_of_rows({device: numbers, **rows}))


# ---- what is shown ----


def show(record: dict[str, Any], before: Sequence[CaseScore], after: Sequence[CaseScore], output: str | None) -> None:
    from dsl.lowering.ir.machines import COUNTS, four_digits
    from dsl.text.terminal import Terminal, table

    console, fitted = Terminal(), record.get("fitted")
    console.say(f"{record['device']}: {record['trials']} trials")
    for note in record["notes"]:
        console.say(f"  {note}")
    if fitted is not None:
        pairs = [(name, number, fitted["numbers"][name]) for name, number in record["numbers"].items()]
        rows: list[list[object]] = [
            [name, f"{four_digits(a):,}", f"{four_digits(b):,}", f"{b / a:.2f}"]
            for name, a, b in pairs
            if name not in COUNTS
        ]
        rows.append(["usual factor between cost and time", shown(record["error"]), shown(fitted["error"]), ""])
        console.show(table(["", "before", "fitted", "ratio"], rows))
    show_scores(console, before, after)
    if fitted is not None and output is not None:
        console.say(f"  written to {output}")


def show_scores(console: Any, before: Sequence[CaseScore], after: Sequence[CaseScore] = ()) -> None:
    """Prints a table of the scores for each call, and the cases with the greatest regrets. `after` are the scores with
    fitted numbers."""
    from dsl.text.terminal import table

    calls = [*dict.fromkeys(each.call for each in before)]
    rows = []
    for call in [*calls, *(["all"] if len(calls) > 1 else [])]:
        for how, scores in (("", before), ("fitted to other cases", after)):
            rows += row_of_scores(call, how, [each for each in scores if call in (each.call, "all")])
    console.show(table(["", "", "cases", "points", "rank correlation", "regret", "95%", "worst"], rows, left=2))
    for each in sorted((each for each in before if each.regret > 1), key=lambda each: -each.regret)[:WORST]:
        console.say(f"  {each.regret:.2f}  {each.call} {each.case}: {each.cheapest}; fastest: {each.fastest}")


def row_of_scores(call: str, how: str, scores: Sequence[CaseScore]) -> list[list[object]]:
    from dsl.lab.costs import summary

    if not scores:
        return []
    of = summary(scores)
    figures = [f"{each:.3f}" for each in (of.regret, of.regret_95, of.worst)]
    return [[call, how, of.cases, of.points, shown(of.correlation), *figures]]
