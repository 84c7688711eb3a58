"""What the benchmarks share: interleaved timing, intervals, rows of results, tables, records and plots.

    times = interleaved({"dsl": ours, "torch": theirs, "copy": copy_of(moves)})
    row = Row("softmax", "f16", {"cols": 1024}, moves, {name: Interval.of(t) for name, t in times.items()})

A benchmark makes one `Row` a shape; `show`, `summary`, `save` and `plot` take the rows.
"""

from .intervals import Interval, geometric_mean
from .launches import Facts, counted, facts_of
from .plot import Panel, plot
from .record import save, versions
from .rows import COPY, OURS, Row
from .table import console, show, summary
from .timing import LeftOut, copy_of, interleaved

__all__ = [
    "COPY",
    "OURS",
    "Facts",
    "Interval",
    "LeftOut",
    "Panel",
    "Row",
    "console",
    "copy_of",
    "counted",
    "facts_of",
    "geometric_mean",
    "interleaved",
    "plot",
    "save",
    "show",
    "summary",
    "versions",
]
