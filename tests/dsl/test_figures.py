"""One meaning of each figure, one table of columns, one builder of tables, one declaration of each shared option."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsl.command import COMMANDS, cli
from dsl.command.options import LAB, SHARED
from dsl.lab.diff import BY_LINE, FIGURES
from dsl.lab.trial import RANK
from dsl.runtime.emulator import Counters
from dsl.text.counted import COUNTED
from dsl.text.figures import COLUMNS, headed, units
from dsl.text.terminal import lines, plain, table

NAMES = Counters.__struct_fields__
ROOT = Path(__file__).parents[2]
some = st.builds(lambda counts: Counters(**dict(zip(NAMES, counts, strict=True))), st.lists(
    st.integers(0, 1 << 40), min_size=len(NAMES), max_size=len(NAMES)
))  # fmt: skip


@given(some)
def test_counters_are_what_they_were_before_they_were_data(counted: Counters) -> None:
    assert Counters.from_dict(counted.as_dict()) == counted
    assert Counters.from_dict({name: count for name, count in counted.figures.items() if count}) == counted


@given(some, some, st.sampled_from([1, 2, 7.5]))
def test_figures_of_sums_and_of_multiples(first: Counters, second: Counters, factor: float) -> None:
    both = first + second
    for name in ("sectors", "wavefronts", "work", "shared_fewest"):
        assert both.figures[name] == first.figures[name] + second.figures[name]
        assert first.times(factor).figures[name] == first.figures[name] * factor
    assert first.times(factor).active_lanes == pytest.approx(first.active_lanes)


def test_ratios_are_none_without_an_access() -> None:
    assert Counters(instructions=3).ratios == {"sectors_over_fewest": None, "wavefronts_over_fewest": None}
    loads = Counters(global_load_sectors=6, global_ideal_sectors=4, shared_wavefronts=9, bank_conflicts=3)
    assert loads.ratios == {"sectors_over_fewest": 1.5, "wavefronts_over_fewest": 1.5}


@pytest.mark.parametrize("names", [COUNTED, FIGURES, BY_LINE, RANK], ids=["source", "diff", "lines", "rank"])
def test_every_figure_that_a_table_shows_has_a_column(names: Sequence[str]) -> None:
    assert {*names} <= COLUMNS.keys()
    assert {*names} & {*Counters().figures} <= {*Counters().figures}


def test_a_heading_leads_back_to_its_figure() -> None:
    """Ratios alone share one: each stands behind what it is of."""
    shared = [name for name, column in COLUMNS.items() if column.label == "x fewest"]
    assert shared == ["sectors_over_fewest", "wavefronts_over_fewest"]
    others = [name for name in COLUMNS if name not in shared]
    assert [*headed(*others).values()] == others
    assert units(["global_load_sectors", "global_store_sectors", "mma"]) == "loads, stores: sectors of 32 bytes"


# ---- tables ----

WORDS = st.text("abcdefgh ij", min_size=1, max_size=60)


@given(st.lists(st.tuples(WORDS, st.integers(0, 1 << 50).map(str), WORDS), min_size=1, max_size=5))
def test_nothing_of_a_table_is_cut_off(rows: list[tuple[str, str, str]]) -> None:
    """Whatever the terminal; what is no terminal has each row in one line."""
    whole = plain(table(["name", "count", ""], rows)).splitlines()
    assert len(whole) == 1 + len(rows)
    for line, row in zip(whole[1:], rows, strict=True):
        assert all(cell.strip() in line for cell in row)
    heads = ("name", "x fewest", "of peak", "")
    narrow = "".join(line.plain for line in lines(table(heads, [(a, b, b, c) for a, b, c in rows]), 20))
    letters = "".join([*heads, *(cell for a, b, c in rows for cell in (a, b, b, c))])
    assert sorted("".join(narrow.split())) == sorted("".join(letters.split()))


def test_numbers_stand_to_the_right_and_texts_to_the_left() -> None:
    made = table(["name", "count", ""], [["a", 7, "x"], ["bcd", "1,000", "yz"]])
    assert plain(made) == "name  count\na         7  x\nbcd   1,000  yz\n"


def test_no_table_is_made_by_hand() -> None:
    """But pictures, which are none."""
    files = [
        path
        for room in ("command", "lab", "studies", "examples", "kernels")
        for path in (ROOT / "dsl" / room).glob("**/*.py")
    ]
    found = {path.name for path in files if re.search(r"\.[lr]just\(|Table\(box", path.read_text())}
    assert found == set()


# ---- options ----


def test_an_option_that_commands_share_is_declared_once() -> None:
    """Those that have the same words for the same thing: the very same texts."""
    said: dict[tuple[str, str], set[str]] = {}
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        for option in command.params:
            if isinstance(option, click.Option):
                said.setdefault((option.opts[0], option.help or ""), set()).add(name)
    texts = io.StringIO()
    for path in (ROOT / "dsl" / "command").glob("*.py"):
        texts.write(path.read_text())
    for (option, help), commands in said.items():
        if len(commands) > 1 and option != "--plugin":
            assert texts.getvalue().count(help) == 1, (option, help, commands)


def test_the_commands_of_the_lab_take_the_same() -> None:
    words = {*LAB.split()}
    assert words <= SHARED.keys()
    for name in ("diff", "ablate", "fuzz", "bisect"):
        command = cli.get_command(click.Context(cli), name)
        assert command is not None and words - {"arch_of_device"} <= {each.name for each in command.params}
