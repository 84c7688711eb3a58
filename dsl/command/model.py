"""`dsl model`: fits a cost model to logged trials. Reports how well the model orders the trials of kernels that it was
not fitted to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

from dsl.command.failures import carried_out
from dsl.command.options import shared
from dsl.lowering.ir.location import TileError, printable

if TYPE_CHECKING:
    from dsl.lab.models import Evaluation


@click.command()
@click.argument("logs", nargs=-1, required=True, type=click.Path(), metavar="LOG.jsonl...")
@shared("as_json")
@click.option("--model", "name", default="linear", show_default=True, metavar="NAME", help="The kind of model.")
@click.option("--of", metavar="FIGURE", help="The predicted figure: time, else work; or any counter.")
@click.option("--device", metavar="NAME", help="Only trials of this device, if the logs have several.")
@click.option(
    "-o", "output", type=click.Path(dir_okay=False), metavar="FILE.json", help="Write the model, for dsl tune --model."
)
def command(logs: tuple[str, ...], as_json: bool, **options: Any) -> int:
    """Fit a cost model to the trials in LOGS, which dsl tune, ablate and bisect write. The table shows the rank
    correlation (Spearman) of predictions and measurements. Each kernel is predicted by a model that was fitted to the
    other kernels.

    Exit status: 0 fine, 2 the input is wrong.
    """
    return carried_out(logs[0], as_json, lambda: (fit([Path(log) for log in logs], as_json, **options), False))


def fit(
    logs: list[Path], as_json: bool, name: str, of: str | None, device: str | None, output: str | None
) -> dict[str, Any]:
    """Returns as data the fitted model and its rank correlations. Also prints them unless `as_json` is set."""
    from dsl.lab.by_users import called
    from dsl.lab.model import model_named, save, state_of
    from dsl.lab.models import FIGURES, evaluate, fitted, has_figure, read_trials

    notes: list[str] = []
    # Takes the first figure that some trial has. A log from the emulator has no times.
    of = of or next((each for each in FIGURES if has_figure(logs, each)), FIGURES[0])
    trials = read_trials(logs, of, device, notes.append)
    made = fitted(lambda: model_named(name), trials, of)
    with called(made, "has_order"):
        has_order = bool(made.has_order)
    # This model predicts the same value for all points, so `dsl tune --model` would get no order from it.
    if not has_order:
        message = f"nothing to learn: of {len(trials)} trials, no feature grows with {of}"
        hint = "trials of several points of a launch; on a GPU, dsl tune --counters has the emulator's counters"
        raise TileError("option", None, message, hint)
    # The saved model is fitted to all trials. Each kernel is judged by a model that was fitted without that kernel.
    found = evaluate(lambda: model_named(name), trials, of)
    about: dict[str, Any] = {"device": trials[0].device, "trials": len(trials)}
    about |= {"kernels": [row.kernel for row in found.kernels], "notes": notes}
    if output is not None:
        save(made, name, Path(output), about)
    record = {"model": name, "of": of, **about, "state": state_of(made), **to_builtins(found)}
    if as_json:
        return record
    click.echo(f"{name}: {of} of {len(trials)} trials on {about['device']}")
    for note in notes:
        click.echo(f"  {printable(note)}")
    for feature, weight in weights_of(state_of(made)):
        if weight:
            click.echo(f"  {printable(str(feature))}^{weight:.2f}")
    show_evaluation(found)
    if output is not None:
        click.echo(f"  written to {output}")
    return record


def weights_of(state: dict[str, Any]) -> list[tuple[str, float]]:
    """The weight of each feature, greatest first. The list is empty unless the model stores weights like the built-in
    model does."""
    weights = state.get("weights")
    found = [*weights.items()] if isinstance(weights, dict) else []
    return sorted([(str(k), v) for k, v in found if isinstance(v, int | float)], key=lambda pair: -pair[1])


def show_evaluation(found: Evaluation) -> None:
    """Prints the table of rank correlations."""
    from dsl.text.terminal import Terminal, table

    how = "fitted to the others" if found.held_out else "fitted to itself: there is no other kernel"
    click.echo(f"rank correlation, each kernel {how}")
    rows = [[row.kernel, row.cases, row.trials, shown(row.within)] for row in found.kernels]
    rows += [["within a case", "", "", shown(found.within)], ["across kernels", "", "", shown(found.across)]]
    Terminal().show(table(["", "cases", "trials", "within"], rows))


def shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
