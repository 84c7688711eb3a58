"""The columns that tables can show, such as time or registers. Each column has a name, a unit and a format."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct


def number(value: float | None) -> str:
    """Formats a number. Integers get thousands separators. Other numbers are rounded to four digits."""
    if value is None:
        return "-"
    # From 2^53 (9e15) on, every double is an integer, and most of its digits would be noise.
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:.4g}"


def amount(value: float, noun: str) -> str:
    """Formats a number with its noun in singular or plural: `1 lane`, `2,048 lanes`, `1.5 lanes`."""
    return f"{number(value)} {noun}{'s' * (value != 1)}"


def whole(value: float) -> str:
    """Formats a count as an integer. A count that is extrapolated from a part of the grid may have a fraction, which is
    rounded."""
    return f"{value:,.0f}"


class FigureColumn(Struct, frozen=True):
    """A column of tables. `name` is the figure's name in JSON, logs and predicates. `label` is the heading.

    `unit` states what the figure counts. It is printed below the table, and is empty if the heading is clear enough.
    `is_cost` is True if a lower figure is better. Only these columns show ratios."""

    name: str
    label: str
    unit: str = ""
    form: Callable[[float], str] = number
    is_cost: bool = True

    def text(self, value: float | str | None) -> str:
        return "-" if value is None else value if isinstance(value, str) else self.form(value)


_SASS, _SECTORS, _PTX = "machine instructions as they stand", "of 32 bytes", "warp instructions of the PTX"
_EXCESS = "times those that the same accesses need"
COLUMNS = {
    each.name: each
    for each in (
        FigureColumn("result", "result", is_cost=False),
        FigureColumn("time_us", "us", "median of launches with a cold L2", "{:.1f}".format),
        FigureColumn("low_us", "20%", form="{:.1f}".format),
        FigureColumn("high_us", "80%", form="{:.1f}".format),
        FigureColumn("over_fastest", "x fastest", form="{:.2f}".format),
        FigureColumn("gbps", "GB/s", form=whole, is_cost=False),
        FigureColumn("share_of_limit", "of peak", form="{:.0%}".format, is_cost=False),
        FigureColumn("tflops", "TFLOPS", is_cost=False),
        FigureColumn("blocks", "blocks", is_cost=False),
        FigureColumn("threads", "threads", "of a block", is_cost=False),
        FigureColumn("registers", "registers", "of a thread"),
        FigureColumn("spills", "spills", "bytes of a thread"),
        FigureColumn("shared_bytes", "shared", "bytes of a block"),
        FigureColumn("occupancy", "occupancy", form="{:.0%}".format, is_cost=False),
        FigureColumn("sass", "SASS", _SASS),
        FigureColumn("sass_loop", "in loop", "those of its longest inner loop (how often they run is not counted)"),
        FigureColumn("waits_with_a_barrier", "waits with a barrier", "ptxas puts a barrier of the block beside each"),
        FigureColumn("instructions", "warp instr", "of the PTX", whole),
        FigureColumn("moves", "moves", "the assembler keeps few", whole),
        FigureColumn("work", "instr", f"{_PTX} without moves", whole),
        FigureColumn("active_lanes", "lanes", form="{:.1f}".format, is_cost=False),
        FigureColumn("divergent_branches", "divergent"),
        FigureColumn("sectors", "sectors", _SECTORS),
        FigureColumn("global_load_sectors", "loads", "sectors of 32 bytes"),
        FigureColumn("global_store_sectors", "stores", "sectors of 32 bytes"),
        FigureColumn("global_atomic_sectors", "atomic sectors", _SECTORS),
        FigureColumn("global_ideal_sectors", "fewest", "sectors that the same bytes need"),
        FigureColumn("sectors_over_fewest", "x fewest", _EXCESS, "{:.2f}".format, False),
        FigureColumn("wavefronts", "wavefronts"),
        FigureColumn("wavefronts_over_fewest", "x fewest", _EXCESS, "{:.2f}".format, False),
        FigureColumn("conflicts", "conflicts"),
        FigureColumn("mma", "mma"),
        FigureColumn("shuffles", "shuffles"),
        FigureColumn("barriers", "barriers"),
        FigureColumn("cluster_barriers", "cluster barriers"),
        FigureColumn("warp_barriers", "warp barriers"),
        FigureColumn("atomics", "atomics"),
        FigureColumn("atomic_waits", "waits", "turns of atomics on one address"),
    )
}
"""All columns by name. Every table shows its columns in this order."""


def headed(*names: str) -> dict[str, str]:
    """Maps the headings of the named columns to the names of their figures."""
    return {COLUMNS[name].label: name for name in names}


def units(names: Iterable[str]) -> str:
    """Returns the legend of a table. It states each unit after the headings of the columns that have this unit."""
    labels: dict[str, dict[str, None]] = {}
    for name in names:
        if COLUMNS[name].unit:
            labels.setdefault(COLUMNS[name].unit, {})[COLUMNS[name].label] = None
    return "; ".join(f"{', '.join(alike)}: {unit}" for unit, alike in labels.items())
