"""Draws the results of `dsl tune`: for each launch, its points from fast to slow, with intervals. Needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dsl.lab.outcome import Outcome
from dsl.lab.report import title, varying
from dsl.lab.trial import RANK
from dsl.lowering.ir.location import TileError
from dsl.text.figures import COLUMNS

WIDTH, HEIGHT = 9.0, 3.6
"""Size of one outcome's axes, in inches."""
MOST_LABELS = 40
LOGARITHMIC = 5
"""The axis is logarithmic if the slowest point takes more than this multiple of the fastest point's time."""


def require_matplotlib(path: Path, option: str = "--plot") -> None:
    """Raises a TileError `tool` if matplotlib is missing or cannot write this type of file. Called before anything is
    measured."""
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError:
        raise TileError("tool", None, f"{option} needs matplotlib", "pip install 'dsl[plot]'") from None
    kinds = FigureCanvasBase.get_supported_filetypes()
    if path.suffix.removeprefix(".").lower() not in kinds:
        raise TileError("tool", None, f"'{path}' is no picture that can be written", f"known: {', '.join(kinds)}")


def draw(outcomes: list[Outcome], path: Path, device: str) -> None:
    """Draws the outcomes into an image file. Points that tie with the best are filled.

    On a GPU, the image shows the median time of each point in microseconds, with its interval. On the emulator, it
    shows each counter divided by the counter's least value.
    """
    from matplotlib.figure import Figure

    shown = [outcome for outcome in outcomes if outcome.fine]
    figure = Figure(figsize=(WIDTH, HEIGHT * max(1, len(shown))), layout="constrained")
    figure.suptitle(device)
    for axes, outcome in zip(figure.subplots(max(1, len(shown)), squeeze=False)[:, 0], shown, strict=False):
        fine = outcome.fine
        if outcome.trials[fine[0]].status == "counted":
            _counters(axes, outcome, fine)
        else:
            _times(axes, outcome, fine)
        axes.set_title(title(outcome), fontsize=9)
        axes.grid(axis="y", alpha=0.3)
        axes.set_xticks([])
        # More labels would overlap.
        if len(fine) <= MOST_LABELS:
            names = varying(outcome)[1]
            labels = [_label(outcome, index, names) for index in fine]
            axes.set_xticks(range(len(fine)), labels, rotation=60, ha="right", fontsize=6)
    figure.savefig(path, dpi=150)


def _label(outcome: Outcome, index: int, names: list[str]) -> str:
    """The label of a point: its constants. On the emulator, it also has the schedule, which the plot of times shows by
    colour."""
    settings = outcome.candidates[index].settings
    counted = outcome.trials[index].status == "counted"
    parts = [f"{n}={settings[n]}" for n in names if n in settings and not n.endswith("schedule")]
    branch = [str(settings[n]).split()[-1] for n in names if n.endswith("schedule")] if counted else []
    return " ".join([*branch, *parts])


def _times(axes: Any, outcome: Outcome, fine: list[int]) -> None:
    """Draws times, with a colour for each schedule."""
    places = {index: place for place, index in enumerate(fine)}
    groups: dict[str, list[int]] = {}
    for index in fine:
        steps = outcome.candidates[index].steps
        groups.setdefault(" + ".join(f"{s.kernel} {s.schedule or ''}" for s in steps), []).append(index)
    ties, intervals = set(outcome.ties), outcome.intervals()
    for number, (name, members) in enumerate(groups.items()):
        for filled in (True, False):
            part = [index for index in members if (index in ties) == filled]
            if not part:
                continue
            found = [intervals[index] for index in part]
            medians = [median for median, _, _ in found]
            errors = [[median - low for median, low, _ in found], [high - median for median, _, high in found]]
            axes.errorbar(
                # Filled and hollow points need two calls, since a call has a single marker face.
                [places[index] for index in part], medians, errors, fmt="o", markersize=4, capsize=2,
                color=f"C{number}", markerfacecolor=None if filled else "white",
                label=f"{name}{' (ties with the best)' if filled else ''}",
            )  # fmt: skip
    medians = [intervals[index][0] for index in fine]
    if medians[-1] > LOGARITHMIC * medians[0]:
        axes.set_yscale("log")
    axes.set_ylabel("median, us")
    axes.legend(fontsize=7)


def _counters(axes: Any, outcome: Outcome, fine: list[int]) -> None:
    ranks = [outcome.trials[index].rank for index in fine]
    for name, counts in zip(RANK, zip(*ranks, strict=True), strict=True):
        least = min(counts)
        # If the least value is 0, there are no multiples of it.
        if least:
            multiples = [count / least for count in counts]
            axes.plot(range(len(fine)), multiples, "o-", markersize=4, label=COLUMNS[name].label)
    axes.set_yscale("log")
    axes.set_ylabel("multiple of the least")
    axes.legend(fontsize=7)
