"""HTML for notebooks: tables, and source lines with tinted counters. All text is escaped. Pages contain no scripts and
load no other files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from msgspec import Struct

from dsl.lowering.ir.location import printable
from dsl.text.counted import CountedLine, legend
from dsl.text.figures import COLUMNS, number

STYLE = """
.dsl { font: 12px/1.5 ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; overflow-x: auto; }
.dsl table { border-collapse: collapse; margin: 4px 0 8px; font: inherit; }
.dsl th, .dsl td { padding: 0 9px !important; text-align: left !important; white-space: pre !important; border: 0; }
.dsl tr { background: none !important; }
.dsl thead tr { border-bottom: 1px solid rgba(128, 128, 128, 0.5); }
.dsl .n { text-align: right !important; font-variant-numeric: tabular-nums; }
.dsl .pale { opacity: 0.55; }
.dsl .bad { color: #d9363e; font-weight: bold; }
.dsl .title { font-weight: bold; }
.dsl pre { font: inherit; margin: 0; background: none; color: inherit; }
.dsl .source td { line-height: 1.35; }
.dsl summary { cursor: pointer; opacity: 0.55; }
"""
"""The style sheet. The notebook's theme sets the colours of text and background. Tints are transparent, so they suit
dark and light themes."""
HEAT, COOL = "217, 108, 22", "47, 158, 68"
"""The colours of tints, as red, green and blue. HEAT marks higher figures, and COOL marks lower figures."""
EMPTY = ("", "-")
STRONGEST = 0.55
"""The greatest opacity of a tint. At this opacity, the text on top is still readable."""


class PageCell(Struct, frozen=True):
    """A cell of a table. `heat` selects the tint, from -1 (a lower figure) to 1 (a higher figure). 0 gives no tint.
    `mark` is `pale`, `bad` or empty."""

    text: str
    is_number: bool = False
    heat: float = 0.0
    mark: str = ""


Cell = PageCell | str | int | float | None
"""A cell's value. Numbers are aligned right and get thousands separators. None becomes a dash."""


def page(*parts: str) -> str:
    """Returns the HTML for a notebook: the style sheet and the given pieces."""
    return "\n".join([f'<div class="dsl"><style>{STYLE}</style>', *filter(None, parts), "</div>"])


def safe(text: str) -> str:
    """Escapes a text, so that it cannot act as markup."""
    return escape(printable(text))


def title(text: str, about: str = "") -> str:
    rest = f' <span class="pale">{safe(about)}</span>' if about else ""
    return f'<div><span class="title">{safe(text)}</span>{rest}</div>'


def note(text: str, mark: str = "pale") -> str:
    return f'<div class="{mark}">{safe(text)}</div>'


def verbatim(text: str, mark: str = "") -> str:
    """Returns HTML that shows a text literally, with its line breaks."""
    return f'<pre class="{mark}">{safe(text)}</pre>'


def folded(summary: str, text: str) -> str:
    """Returns HTML that shows `summary`. A click on it unfolds `text`."""
    return f"<details><summary>{safe(summary)}</summary>{verbatim(text)}</details>"


def table(heads: Sequence[str], rows: Iterable[Sequence[Cell]], name: str = "") -> str:
    """Returns the HTML of a table. Empty columns are left out. The row of headings is left out if all headings are
    empty. `name` is a CSS class of the style sheet."""
    cells = [[as_cell(value) for value in row] for row in rows]
    shown = [at for at in range(len(heads)) if any(row[at].text not in EMPTY for row in cells)]
    numeric = {at for at in shown if any(row[at].is_number for row in cells)}
    names = [f'<th class="{"n" if at in numeric else ""}">{safe(heads[at])}</th>' for at in shown]
    head = f"<thead><tr>{''.join(names)}</tr></thead>" if any(heads) else ""
    body = "\n".join(f"<tr>{''.join(_td(row[at], at in numeric) for at in shown)}</tr>" for row in cells)
    return f'<table class="{name}">{head}<tbody>\n{body}\n</tbody></table>'


def as_cell(value: Cell) -> PageCell:
    if isinstance(value, PageCell):
        return value
    if value is None:
        return PageCell("-", True, mark="pale")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return PageCell(number(value), True)
    return PageCell(str(value))


def _td(cell: PageCell, right: bool) -> str:
    names = " ".join(filter(None, ["n" if right else "", cell.mark]))
    strength = min(abs(cell.heat), 1.0) * STRONGEST
    tint = f' style="background: rgba({HEAT if cell.heat > 0 else COOL}, {strength:.2f})"' if strength >= 0.01 else ""
    return f'<td class="{names}"{tint}>{safe(cell.text)}</td>'


def compared(value: Cell, base: Cell) -> PageCell:
    """Returns a cell for `value`, compared with `base`. Equal figures give `=`. The tint is HEAT if the value is higher
    than the base, and COOL if it is lower. The tint is full at a tenth and at ten times the base."""
    cell = as_cell(value)
    if not _is_number(value) or not _is_number(base):
        return cell
    if value == base:
        return PageCell("=", True, mark="pale")
    # If one of the figures is 0, their ratio has no logarithm, so the tint is full.
    if not value or not base:
        return PageCell(cell.text, True, 1.0 if value else -1.0)
    from math import log10

    return PageCell(cell.text, True, log10(value / base))  # type: ignore[operator, arg-type]


def _is_number(value: Cell) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def source(used: Sequence[str], lines: Sequence[CountedLine]) -> str:
    """Returns the HTML of source lines, with each line's counters before it. The greatest counter of a column has the
    strongest tint, and other tints are proportional to it. The tint of the source text follows the first column, which
    contains warp instructions if they were counted."""
    most = {name: max((line.counts.get(name, 0) for line in lines), default=0) for name in used}
    rows: list[list[Cell]] = []
    for line in lines:
        row: list[Cell] = []
        for name in used:
            count = line.counts.get(name, 0)
            # More active lanes are better, so their column gets no tint.
            heat = count / most[name] if most[name] and name != "active_lanes" else 0.0
            row.append(PageCell(number(count), True, heat / 2) if count else "")
        heat = line.counts.get(used[0], 0) / most[used[0]] if used and most[used[0]] else 0.0
        place = PageCell(str(line.number) if line.number else "", True, mark="pale")
        rows.append([*row, place, PageCell(line.text, heat=heat, mark="" if line.number else "title")])
    made = table([*(COLUMNS[name].label for name in used), "", ""], rows, "source")
    return made + (note(legend(used)) if used else "")
