"""Draws roofline plots. The horizontal axis is operations per byte of memory traffic, the vertical axis operations per
second.

See Williams, Waterman, Patterson, "Roofline" (CACM 52, 2009). A launch is a point at its measured time. Without a GPU,
the time of its busiest hardware unit is used, the least possible time. Needs matplotlib.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from dsl.examples.bounds import LaunchBound
from dsl.examples.report import Report
from dsl.lab.plot import WIDTH
from dsl.lowering.ir.location import TileError

HEIGHT = 5.4
"""Height of the picture, in inches."""
MARGIN = 4.0
"""Factor by which the axes extend beyond the points and the ridges."""
# The length of matplotlib's own cycle of colours. Beyond ten launches the marker changes.
COLOURS = 10
MARKERS = "osD^v<>P*X"


class RooflinePoint(Struct, frozen=True):
    """A launch in the picture.

    `intensity` is in operations per byte. `measured` is in operations per second, or None without a GPU. `most` is the
    rate, in operations per second, that the launch's busiest unit allows.
    """

    name: str
    bound: LaunchBound
    intensity: float
    measured: float | None
    most: float


def points_of(reports: Sequence[Report]) -> tuple[list[RooflinePoint], list[str]]:
    """A point for each launch. The second list names each launch that cannot be drawn, with the reason."""
    points: list[RooflinePoint] = []
    left: list[str] = []
    for report in reports:
        for launch in report.launches:
            name = f"{launch.kernel} {launch.schedule or ''}".rstrip()
            if len(reports) > 1 and report.example is not None:
                name = f"{report.example}: {name}"
            bound = launch.bound
            if bound is None or bound.name is None:
                left.append(f"{name}: its operations are unknown")
            elif not bound.work.operations:
                left.append(f"{name}: {bound.missing[0]}")
            elif not bound.work.bytes:
                left.append(f"{name}: it moves no bytes")
            else:
                done, longest = bound.work.operations, bound.terms[bound.name]
                measured = done / bound.time_us * 1e6 if bound.time_us else None
                points.append(RooflinePoint(name, bound, done / bound.work.bytes, measured, done / longest * 1e6))
    return points, left


def draw_roofline(reports: Sequence[Report], path: Path) -> tuple[int, list[str]]:
    """Draws the launches into an image file. Returns how many were drawn, and for each other launch the reason why not.

    Raises a TileError `option` if no launch can be drawn.
    """
    from matplotlib.figure import Figure

    points, left = points_of(reports)
    if not points:
        raise TileError("option", None, f"--roofline has nothing to draw: {'; '.join(left)}")
    figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    axes = figure.subplots()
    roofs(axes, points)
    names = list(dict.fromkeys(point.name for point in points))
    for at, name in enumerate(names):
        style = {"color": f"C{at % COLOURS}", "marker": MARKERS[at // COLOURS % len(MARKERS)]}
        own = [point for point in points if point.name == name]
        launches(axes, own, name, style)
    axes.set(xscale="log", yscale="log", ylabel="operations a second")
    axes.set_xlabel(f"operations a byte of memory ({operations_in_words(points)})")
    axes.set_title(title(reports, points), fontsize=9)
    axes.grid(which="both", alpha=0.2)
    # The legend is outside of the axes, where it hides no points.
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5), ncols=1 + len(names) // 30)
    figure.savefig(path, dpi=150)
    return len(points), left


def title(reports: Sequence[Report], points: Sequence[RooflinePoint]) -> str:
    """The title: the file, the device, and the meaning of the marks."""
    about = f"{reports[0].file} on {reports[0].chip}"
    is_measured = [point.measured is not None for point in points]
    found = []
    if any(is_measured):
        found.append("filled: measured, the mark above: the limit of its busiest unit")
    if not all(is_measured):
        found.append("hollow: a forecast, the most that is possible")
    return f"{about}\n{'; '.join(found)}"


def operations_in_words(points: Iterable[RooflinePoint]) -> str:
    """Describes what counts as one operation for these launches."""
    has_products = {bool(point.bound.work.multiply_adds) for point in points}
    words = {True: "2 a multiply-add of tensor cores", False: "1 a lane of an instruction"}
    return "; ".join(text for kind, text in words.items() if kind in has_products)


def launches(axes: Any, points: Sequence[RooflinePoint], name: str, style: dict[str, Any]) -> None:
    """Draws the launches of one kernel and schedule.

    A measured launch is a filled mark, with a line up to the rate that its busiest unit allows. A launch without a time
    is a hollow mark at that rate.
    """
    measured = [point for point in points if point.measured is not None]
    forecast = [point for point in points if point.measured is None]
    units = ", ".join(dict.fromkeys(str(point.bound.name) for point in points))
    label: str | None = f"{name} (bound: {units})"
    for point in measured:
        axes.plot([point.intensity] * 2, [point.measured, point.most], color=style["color"], linewidth=0.8, zorder=2)
        axes.plot([point.intensity], [point.most], marker="_", markersize=9, color=style["color"], zorder=2)
    for some, is_filled in ((measured, True), (forecast, False)):
        if some:
            heights = [point.measured or point.most for point in some]
            face = style["color"] if is_filled else "white"
            marks = {"linestyle": "none", "markersize": 6, "markerfacecolor": face, "zorder": 3, "label": label}
            axes.plot([point.intensity for point in some], heights, **style, **marks)
            # Filled and hollow marks share one entry in the legend.
            label = None


def roofs(axes: Any, points: Sequence[RooflinePoint]) -> None:
    """Draws the device's limits: the memory bandwidth as a sloped line, and the rate of each unit as a horizontal
    line."""
    bandwidth = next((point.bound.bandwidth for point in points if point.bound.bandwidth), None)
    # Units with the same rate share a line and its label.
    ceilings: dict[float, dict[str, None]] = {}  # maps a rate to the units that have it
    for point in points:
        for name, rate in point.bound.ceilings.items():
            ceilings.setdefault(rate, {})[name] = None
    ridges = [rate / bandwidth for rate in ceilings] if bandwidth else []
    low = min([point.intensity for point in points] + ridges) / MARGIN
    high = max([point.intensity for point in points] + ridges) * MARGIN
    if bandwidth:
        end = max(ridges, default=high)
        axes.plot([low, end], [low * bandwidth, end * bandwidth], color="black", linewidth=1.2, zorder=1)
        axes.annotate(
            f"memory: {in_units(bandwidth, 'B/s')}", (low, low * bandwidth), (4, -2), textcoords="offset points",
            fontsize=7, va="top",
        )  # fmt: skip
    for rate, names in ceilings.items():
        axes.plot([rate / bandwidth if bandwidth else low, high], [rate] * 2, color="black", linewidth=1.2, zorder=1)
        text = f"{'; '.join(names)}: {in_units(rate, 'op/s')}"
        axes.annotate(text, (high, rate), (-2, 2), textcoords="offset points", fontsize=7, ha="right")
    axes.set_xlim(low, high)


def in_units(rate: float, unit: str) -> str:
    """Writes a rate with a unit prefix, such as `4.92 TB/s`."""
    for prefix, size in (("P", 1e15), ("T", 1e12)):
        if rate >= size:
            return f"{rate / size:.3g} {prefix}{unit}"
    return f"{rate / 1e9:.3g} G{unit}"
