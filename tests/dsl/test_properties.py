"""Properties of schedules: the rows, what is made of them, and their list in the documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsl.kernels.variant import Request, build_variant
from dsl.lowering.ir.location import TileError
from dsl.schedules.properties import PROPERTIES, PropertyRow, Whole, listing
from dsl.text import tree as ast
from dsl.text.program import parse_program

DOCUMENT = Path(__file__).parents[2] / "docs" / "language.md"
BEGIN = "<!-- properties: tests/dsl/test_properties.py writes this list -->\n"
END = "<!-- end of properties -->"

TEXT = """
kernel k(y: f32[n], x: f32[n]; A = 8):
    grid 1
    shared s: f32[128]
    v = x[0 : 128]
    for t in range(4):
        s[:] = v
        v = s[:] + 1.0
    y[0 : 128] = v

schedule s of k:
    {line}
"""


def test_the_document_has_the_list(update_golden: bool) -> None:
    before, rest = DOCUMENT.read_text().split(BEGIN)
    written, after = rest.split(END)
    if update_golden:
        DOCUMENT.write_text(before + BEGIN + listing() + END + after)
        written = listing()
    assert written == listing()


@pytest.mark.parametrize("row", PROPERTIES.values(), ids=list(PROPERTIES))
def test_the_example_of_a_row_is_a_line(row: PropertyRow) -> None:
    (schedule,) = parse_program(TEXT.format(line=row.example)).schedules.values()
    (line,) = schedule.lines
    assert isinstance(line, ast.LayoutLine) or line.name == row.name


@pytest.mark.parametrize("row", PROPERTIES.values(), ids=list(PROPERTIES))
def test_another_form_is_told_with_the_right_one(row: PropertyRow) -> None:
    if row.name == "layout":
        pytest.skip("the grammar has its form")
    program = parse_program(TEXT.format(line=f"{row.name} v, s: 1, 2, 3, 4"))
    with pytest.raises(TileError) as told:
        build_variant(program, Request("k", "s", {"n": 128}, {}))
    assert row.name in told.value.errors[0].message
    assert told.value.errors[0].hint == row.example or row.subject == "tensor"


def test_a_property_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read, checked, listed and reaches the function with nothing else."""
    row = PropertyRow("prefetch", None, Whole(0, 8), "Lines ahead.", "prefetch 2")
    monkeypatch.setitem(PROPERTIES, "prefetch", row)
    variant = build_variant(parse_program(TEXT.format(line="prefetch A / 2")), Request("k", "s", {"n": 128}, {}))
    assert variant.function.attrs["prefetch"] == 4
    with pytest.raises(TileError, match="prefetch is from 0 to 8; this is 16"):
        build_variant(parse_program(TEXT.format(line="prefetch A * 2")), Request("k", "s", {"n": 128}, {}))
    with pytest.raises(TileError) as told:
        build_variant(parse_program(TEXT.format(line="prefech 2")), Request("k", "s", {"n": 128}, {}))
    assert told.value.hint == "did you mean 'prefetch'?"
    assert "- `prefetch N`: Lines ahead.\n" in listing()
