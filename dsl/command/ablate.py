"""`dsl ablate`: how much each choice of the compiler gains."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dsl.command.failures import carried_out
from dsl.command.options import LAB, shared
from dsl.command.trials import Bar, experiments
from dsl.lowering.ir.location import TileError

if TYPE_CHECKING:
    from dsl.lab.ablate import Ablation
    from dsl.lab.experiment import Experiment, Wanted


@click.command()
@shared(f"{LAB} rounds jobs plot")
@click.option("--kinds", metavar="KIND[,KIND…]", help="Choices of these kinds only: swizzle,barrier.")
@click.option("--choice", "keys", multiple=True, metavar="KEY", help="The choices of this key only; repeatable.")
@click.option("--each", is_flag=True, help="Vary each choice by itself, not all of one kind and subject at once.")
@click.option("--ceiling", is_flag=True, help="Also options that may give wrong results: an upper bound of the gain.")
@click.option("--shapley", type=click.IntRange(1), metavar="N", help="Mean gains over N orders from plain to chosen.")
@click.option("--by", metavar="FIGURE", help="Compare this figure; without it, time on a GPU, else warp instructions.")
@click.option("--null", type=click.IntRange(0), default=0, metavar="N", help="Time the chosen code N times more.")
def command(file: str, values: tuple[str, ...], as_json: bool, **options: Any) -> int:
    """Replace each choice of the compiler by another option, in the kernels that an example of FILE launches. Each
    replacement gets a row: whether the result is right, the machine code and the emulator's counters. On a GPU the row
    also has the time, and its ratio to the time of the unchanged code, measured in alternation. NAME=VALUE as in dsl
    run.

    Exit status: 0 fine, 1 a safe option gave a wrong result, 2 the input is wrong, 3 the device failed.
    """
    study = ablate if options["shapley"] is None else shapley
    return carried_out(file, as_json, lambda: study(file, values, as_json, options))


def ablate(file: str, values: tuple[str, ...], as_json: bool, options: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Returns the rows of each launch as data, and whether a safe option gave a wrong result. Also prints the rows
    unless `as_json` is set."""
    from dsl.examples.report import finite
    from dsl.lab.ablate import AblationChoice, flips_of
    from dsl.lab.ablate import ablate as ablated
    from dsl.lab.ablate import as_json as record
    from dsl.lab.ablation_report import draw, show_ablation
    from dsl.lab.experiment import ROUNDS, Wanted
    from dsl.lab.plot import require_matplotlib
    from dsl.text.terminal import Terminal

    # Checked first. Without matplotlib, nothing could be drawn after minutes of trials.
    if options["plot"] is not None:
        require_matplotlib(Path(options["plot"]))
    found, kinds = launches_and_kinds(file, values, options, Wanted(lines=True, times=True))
    given = {name: options[name] for name in ("keys", "each", "ceiling", "null")}
    choice = AblationChoice(kinds, rounds=options["rounds"] or ROUNDS, **given)
    console = Terminal()
    made: list[Ablation] = []
    with Bar() as bar:
        for experiment in found:
            # The compiling processes of a launch end before the compiling processes of the next launch start.
            with experiment:
                # The number of rows is known here, because the experiment has already planned the launch.
                bar.begin(experiment.call.name, len(flips_of(experiment, choice)))
                made.append(ablated(experiment, choice, bar.advance))
            bar.clear()
            if not as_json:
                show_ablation(made[-1], console)
    if options["plot"] is not None:
        draw(made, Path(options["plot"]))
    launches = [record(each) for each in made]
    # JSON has no NaN. `finite` writes null instead.
    return finite({"file": file, "launches": launches}), any(each.is_broken for each in made)


def launches_and_kinds(
    file: str, values: tuple[str, ...], options: dict[str, Any], wanted: Wanted
) -> tuple[list[Experiment], list[str]]:
    """The launches of the example, and the kinds in `--kinds`. Raises TileError for an unknown kind or key."""
    from dsl.lab.assignments import check_asked

    found = experiments(file, values, options, wanted)
    kinds = options["kinds"].split(",") if options["kinds"] else []
    check_asked([pair for each in found for pair in each.made], kinds, options["keys"])
    return found, kinds


def shapley(file: str, values: tuple[str, ...], as_json: bool, options: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Returns the gains of each launch as data, and always False: no wrong result is reported. Also prints the gains
    unless `as_json` is set."""
    from dsl.lab.ablation_report import show_shares
    from dsl.lab.place import find_place
    from dsl.lab.predicates import check_figure, wanted_for
    from dsl.lab.shapley import shapley as shares_of
    from dsl.text.terminal import Terminal

    for name in ("each", "ceiling", "plot", "null", "rounds"):
        if options[name]:
            raise TileError("option", None, f"--shapley and --{name} exclude each other")
    on_gpu = find_place(options["device"], options["arch"]).ordinal is not None
    figure = options["by"] or ("time" if on_gpu else "work")
    check_figure(figure)
    if figure in ("result", "ratio") or (figure == "time" and not on_gpu):
        raise TileError("option", None, f"gains of '{figure}' cannot be added up here", "--by sectors")
    found, kinds = launches_and_kinds(file, values, {**options, "jobs": 0}, wanted_for([figure]))
    records = []
    for experiment in found:
        with Bar() as bar:
            bar.begin(experiment.call.name, options["shapley"])
            made = shares_of(experiment, figure, options["shapley"], kinds, options["keys"], bar.advance)
        # The bootstrap of the intervals is also random. --seed makes it repeatable.
        rows = made.rows(options["seed"])
        records.append({"call": experiment.call.name, "figure": figure, "orders": made.orders, "whole": made.whole})
        records[-1]["rows"] = rows
        if not as_json:
            show_shares(made, rows, experiment.call.name, Terminal())
    return {"file": file, "launches": records}, False
