"""A figure of rates over a dim. The figure has a panel for each operation and a line for each variant. A line is named
at its end.

The lines go through the powers of two. Other extents are hollow points beside the lines.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

COLOURS = ("#D55E00", "#000000", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999", "#B8A700", "#6A3D9A")
"""The palette of Okabe and Ito, which colour-blind readers can distinguish, and three more colours.

Our kernels have the first colour, and the yardstick is black.
"""
MARKERS = "os^Dvx+*<>"
GAP = 0.045
"""Least distance between two names, as a share of the panel's height."""


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel of the figure. `lines` maps each variant to its points (x, y) in ascending x."""

    title: str
    lines: Mapping[str, Sequence[tuple[float, float]]]


def plot(path: Path, panels: Sequence[Panel], title: str, x_label: str, y_label: str, columns: int = 2) -> None:
    """Writes a PNG. Raises ImportError without matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    columns = min(columns, len(panels))
    height = -(-len(panels) // columns)
    figure, axes = pyplot.subplots(height, columns, figsize=(7.5 * columns, 4.8 * height), squeeze=False)
    for axis, panel in zip(axes.flat, panels, strict=False):
        draw(axis, panel, names, x_label, y_label)
    for axis in list(axes.flat)[len(panels) :]:
        axis.remove()
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    figure.tight_layout(rect=(0, 0, 1, 0.98))
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def draw(axis, panel: Panel, names: Sequence[str], x_label: str, y_label: str) -> None:
    """Draws one panel. The x axis is logarithmic and has its ticks at powers of two."""
    top = 1.06 * max((y for line in panel.lines.values() for _, y in line), default=1.0)
    ends = []
    for name, line in panel.lines.items():
        which = names.index(name) % len(COLOURS)
        style = {"linewidth": 2.4, "zorder": 3} if which == 0 else {"linewidth": 1.3}
        style |= {"linestyle": "--"} if which == 1 else {}
        style |= {"color": COLOURS[which], "marker": MARKERS[which], "markersize": 4}
        even = [point for point in line if math.log2(point[0]).is_integer()]
        odd = [point for point in line if point not in even]
        axis.plot([x for x, _ in even], [y for _, y in even], **style)
        axis.plot([x for x, _ in odd], [y for _, y in odd], **style | {"linestyle": "", "markerfacecolor": "none"})
        ends.append(((even or odd)[-1][1], name, COLOURS[which]))
    last = max((line[-1][0] for line in panel.lines.values()), default=1.0)
    first = min((line[0][0] for line in panel.lines.values()), default=1.0)
    ends.sort()
    for (_, name, colour), place in zip(ends, spread([y for y, *_ in ends], GAP * top), strict=True):
        axis.annotate(name, (last * 1.15, place), color=colour, va="center", fontsize=9, annotation_clip=False)
    axis.set_xscale("log", base=2)
    axis.set_xlim(first / 1.3, last * 2.6)
    axis.set_ylim(0, top)
    ticks = [2**e for e in range(math.ceil(math.log2(first)), math.floor(math.log2(last)) + 1)]
    axis.set_xticks(ticks, [str(t) if last < 1 << 20 else f"$2^{{{int(math.log2(t))}}}$" for t in ticks], fontsize=7)
    axis.minorticks_off()
    axis.set_title(panel.title, loc="left", fontsize=10)
    axis.set_xlabel(x_label)
    axis.set_ylabel(y_label)
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)


def spread(places: Sequence[float], gap: float) -> list[float]:
    """Moves ascending positions apart until neighbours are at least `gap` apart. Each group of positions keeps its
    middle."""
    groups: list[list[float]] = []  # [middle, members]
    for place in places:
        groups.append([place, 1])
        while len(groups) > 1 and _start(groups[-2], gap) + groups[-2][1] * gap > _start(groups[-1], gap):
            middle, count = groups.pop()
            before, members = groups[-1]
            groups[-1] = [(before * members + middle * count) / (members + count), members + count]
    return [_start(group, gap) + i * gap for group in groups for i in range(int(group[1]))]


def _start(group: Sequence[float], gap: float) -> float:
    middle, count = group
    return middle - (count - 1) * gap / 2
