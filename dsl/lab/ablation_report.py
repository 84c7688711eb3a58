"""Prints the results of `dsl ablate`, and draws them with matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dsl.lab.ablate import Ablation, Flip, Interval
from dsl.lab.plot import WIDTH
from dsl.lab.shapley import Shares
from dsl.lab.trial import Trial
from dsl.text.figures import COLUMNS, units
from dsl.text.terminal import Terminal, table

FIGURES = ("registers", "spills", "sass", "wavefronts", "sectors", "barriers", "work")
"""The figures of a trial that are columns of the table."""
ROW_HEIGHT = 0.22
"""Height of a row in the picture, in inches."""


def show_ablation(made: Ablation, console: Terminal) -> None:
    """Prints the rows of one launch as a table. A line below the table lists the rows with unchanged code."""
    base = made.base
    console.print()
    console.say(f"{base.title} on {base.device}", "bold")
    timed = bool(base.times_us)
    # Trials on a GPU have counters only if the emulator counts the first blocks.
    names = [name for name in FIGURES if any(name in t.figures() for t in trials(made))]
    heads = [*(COLUMNS[name].label for name in names), *(("us", "95%", "of chosen", "95%") if timed else ())]
    rows = [["as chosen", base.verdict, *figures(base, None, names), *times(base, None, timed), ""]]
    for flip in made.flips:
        if not flip.is_same:
            cells = (*figures(flip.trial, base, names), *times(flip.trial, flip.ratio, timed))
            rows.append([flip.name, flip.trial.verdict, *cells, note(flip, timed)])
    console.show(table(["", "result", *heads, ""], rows, left=2), 0)
    for line in notes(made, timed, names):
        console.say("  " + line)


def trials(made: Ablation) -> list[Trial]:
    return [made.base, *(flip.trial for flip in made.flips)]


def figures(trial: Trial, base: Trial | None, names: Sequence[str]) -> list[str]:
    """The figures of a trial as text. A figure that equals the figure of `base` becomes `=`."""
    mine, theirs = trial.figures(), {} if base is None else base.figures()
    return [
        "=" if name in mine and mine[name] == theirs.get(name) else COLUMNS[name].text(mine.get(name)) for name in names
    ]


def times(trial: Trial, ratio: Interval | None, timed: bool) -> list[str]:
    if not timed:
        return []
    if not trial.times_us:
        return ["-"] * 4
    median, low, high = trial.interval
    cells = [f"{median:.2f}", f"{low:.2f} to {high:.2f}"]
    return cells + (["", ""] if ratio is None else [f"{ratio[0]:.4f}", f"{ratio[1]:.4f} to {ratio[2]:.4f}"])


def note(flip: Flip, timed: bool) -> str:
    """The text of a row's last column, such as `ties; moves 2 other choices`, or a reason for failure."""
    found = []
    if timed and flip.differs is False:
        found.append("ties")
    if flip.is_unsafe:
        found.append("ceiling")
    if flip.trial.reason:
        found.append(flip.trial.reason.splitlines()[0])
    if flip.moved:
        found.append(f"moves {len(flip.moved)} other choice{'s' * (len(flip.moved) > 1)}")
    return "; ".join(found)


def notes(made: Ablation, timed: bool, names: Sequence[str]) -> list[str]:
    found = [f"=: as chosen; {units(names)}"]
    same = [flip.name for flip in made.flips if flip.is_same]
    if same:
        found.append(f"the same code ({len(same)}): {', '.join(same)}")
    if timed:
        found.append(
            f"of chosen: the median ratio of {len(made.base.times_us)} rounds; ties: among all rows not significant"
        )
    if made.null:
        outside = sum(not low <= 1 <= high for _, low, high in made.null)
        found.append(f"of {len(made.null)} further runs of the chosen code, {outside} have an interval without 1")
    if timed and made.base.counters is not None:
        found.append(f"counted by the emulator in the first {made.experiment.runner.blocks} blocks, times the grid")
    if any(flip.is_unsafe for flip in made.flips):
        found.append("ceiling: an option that may be wrong, as a bound on the gain")
    return found


def show_shares(made: Shares, rows: list[dict[str, Any]], name: str, console: Terminal) -> None:
    """Prints the mean gain of each group of choices, greatest first. Groups whose gain is 0 in every order are listed
    in one line."""
    console.print()
    console.say(f"{name}: {made.figure} from plain to chosen, in {made.orders} orders")
    cells = []
    for row in rows:
        low, high = row["interval"]
        share = f"{row['gain'] / made.whole:.1%}" if made.whole else "-"
        # An interval from 0 to 0 means that the group's gain is 0 in every order.
        if low or high:
            texts = (row["group"], row["plain"], row["chosen"])
            cells.append([*texts, f"{row['gain']:,.1f}", f"{low:,.1f} to {high:,.1f}", share])
    heads = ["", "plain", "chosen", "gain", "95%", "of the whole"]
    console.show(table(heads, [*cells, ["all", "", "", f"{made.whole:,.1f}", "", ""]], left=3), 0)
    nothing = [row["group"] for row in rows if not any(row["interval"])]
    if nothing:
        console.say(f"  nothing in any order ({len(nothing)}): {', '.join(nothing)}")
    if made.orders < made.asked:
        left_out = made.asked - made.orders
        console.say(f"  {left_out} orders are left out: a trial in them is refused or wrong")


# ---- the picture ----


def draw(made: list[Ablation], path: Path) -> None:
    """Draws the rows of each launch into an image file.

    On a GPU, a row shows its time divided by the chosen code's time, with an interval. The row with the greatest effect
    comes first. On the emulator, a row shows each counter divided by the chosen code's counter.
    """
    from matplotlib.figure import Figure

    shown = [[flip for flip in each.flips if not flip.is_same] for each in made]
    # A single row still leaves room for the legend.
    heights = [max(4, len(flips)) * ROW_HEIGHT + 1 for flips in shown]
    figure = Figure(figsize=(WIDTH, sum(heights)), layout="constrained")
    every = figure.subplots(len(made), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, each, flips in zip(every, made, shown, strict=True):
        if each.base.times_us:
            _draw_times(axes, flips)
        else:
            _draw_counters(axes, each.base, flips)
        axes.axvline(1, color="black", linewidth=0.8)
        axes.set_title(each.base.title, fontsize=8)
        axes.invert_yaxis()
        axes.grid(axis="x", alpha=0.3)
    figure.savefig(path, dpi=150)


def _labels(axes: Any, flips: list[Flip]) -> None:
    axes.set_yticks(range(len(flips)), [flip.name for flip in flips], fontsize=6)


def _draw_times(axes: Any, flips: list[Flip]) -> None:
    rows = sorted(((f.ratio, f) for f in flips if f.ratio is not None), key=lambda row: -abs(row[0][0] - 1))
    for place, ((median, low, high), flip) in enumerate(rows):
        # A wrong result may be fast and must not look like a gain.
        colour = "C3" if flip.trial.verdict != "right" else "C0" if flip.differs else "grey"
        axes.errorbar([median], [place], xerr=[[median - low], [high - median]], fmt="o", markersize=3, color=colour)
    _labels(axes, [flip for _, flip in rows])
    axes.set_xlabel("time over the chosen code's; red: wrong or racing, grey: ties")


def _draw_counters(axes: Any, base: Trial, flips: list[Flip]) -> None:
    theirs = base.figures()
    for name in FIGURES:
        found = [(flip.trial.figures().get(name), place) for place, flip in enumerate(flips)]
        points = [(mine / theirs[name], place) for mine, place in found if mine and theirs.get(name)]
        if points:
            axes.plot(*zip(*points, strict=True), "o", markersize=3, label=COLUMNS[name].label)
    _labels(axes, flips)
    # Some counters change by a factor of a hundred, others by one percent.
    axes.set_xscale("log")
    axes.set_xlabel("count over the chosen code's")
    axes.legend(fontsize=6)
