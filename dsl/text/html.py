"""Pieces of the pages that notebooks show: tables, and lines of a file with heat. All text is escaped; pages have no
scripts and load nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

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
"""The notebook sets the colours of text and background, dark or light. Tints are transparent, so they suit both."""
HEAT, COOL = "217, 108, 22", "47, 158, 68"
"""Tints, as red, green and blue: HEAT for more, COOL for less."""
EMPTY = ("", "-")
STRONGEST = 0.55
"""The greatest opacity of a tint: the text in front of it can still be read."""


@dataclass(frozen=True, slots=True)
class PageCell:
    """A cell of a table. heat: from -1 (less) over 0 (no tint) to 1 (more); mark: `pale`, `bad` or nothing."""

    text: str
    is_number: bool = False
    heat: float = 0.0
    mark: str = ""


Cell = PageCell | str | int | float | None
"""Numbers are written with separators, and to the right; None is a dash."""


def page(*parts: str) -> str:
    """The HTML that a notebook shows, with the style."""
    return "\n".join([f'<div class="dsl"><style>{STYLE}</style>', *filter(None, parts), "</div>"])


def safe(text: str) -> str:
    """Any text, escaped: it cannot become markup."""
    return escape(printable(text))


def title(text: str, about: str = "") -> str:
    rest = f' <span class="pale">{safe(about)}</span>' if about else ""
    return f'<div><span class="title">{safe(text)}</span>{rest}</div>'


def note(text: str, mark: str = "pale") -> str:
    return f'<div class="{mark}">{safe(text)}</div>'


def verbatim(text: str, mark: str = "") -> str:
    """Lines as they are."""
    return f'<pre class="{mark}">{safe(text)}</pre>'


def folded(summary: str, text: str) -> str:
    """Lines that a click unfolds."""
    return f"<details><summary>{safe(summary)}</summary>{verbatim(text)}</details>"


def table(heads: Sequence[str], rows: Iterable[Sequence[Cell]], name: str = "") -> str:
    """A table. Empty columns are left out, and so is the row of headings if all are empty. name: a class of the
    style."""
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
    """A figure beside that of a base: `=` if they are equal, warm if it is more, cool if it is less. The tint is full
    at a tenth or ten times the base."""
    cell = as_cell(value)
    if not _is_number(value) or not _is_number(base):
        return cell
    if value == base:
        return PageCell("=", True, mark="pale")
    # A ratio to 0 has no logarithm: the tint is full.
    if not value or not base:
        return PageCell(cell.text, True, 1.0 if value else -1.0)
    from math import log10

    return PageCell(cell.text, True, log10(value / base))  # type: ignore[operator, arg-type]


def _is_number(value: Cell) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def source(used: Sequence[str], lines: Sequence[CountedLine]) -> str:
    """Lines of files with their counters before them. A counter's tint is its share of the greatest in its column. The
    line's own tint is that of the first column, which is warp instructions where they were counted."""
    most = {name: max((line.counts.get(name, 0) for line in lines), default=0) for name in used}
    rows: list[list[Cell]] = []
    for line in lines:
        row: list[Cell] = []
        for name in used:
            count = line.counts.get(name, 0)
            # More active lanes are better, so they are not hot.
            heat = count / most[name] if most[name] and name != "active_lanes" else 0.0
            row.append(PageCell(number(count), True, heat / 2) if count else "")
        heat = line.counts.get(used[0], 0) / most[used[0]] if used and most[used[0]] else 0.0
        place = PageCell(str(line.number) if line.number else "", True, mark="pale")
        rows.append([*row, place, PageCell(line.text, heat=heat, mark="" if line.number else "title")])
    made = table([*(COLUMNS[name].label for name in used), "", ""], rows, "source")
    return made + (note(legend(used)) if used else "")
