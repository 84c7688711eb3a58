"""The ladder of reductions: its counters tell the story of docs/reductions.md, and the strict emulator finds what is
wrong with the forms of the last warp that order too little."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dsl.examples.one_kernel import LaunchSettings
from dsl.examples.overrides import resolve
from dsl.examples.run import run_example
from dsl.runtime.emulator import Kind
from dsl.runtime.errors import FindingError
from dsl.studies.bench import BenchRow, bench
from dsl.text.program import load, parse_program

pytestmark = pytest.mark.usefixtures("no_nvdisasm")

ROOT = Path(__file__).parents[2]
REDUCTION = ROOT / "samples" / "reduction.tile"
LAST_WARP = ROOT / "docs" / "last_warp.tile"
WARPS = 8


@pytest.fixture(scope="module")
def rows(no_nvdisasm: None) -> dict[str, BenchRow]:
    """Rungs of the ladder at 256 threads, on whole blocks."""
    return {row.kernels[0]: row for row in bench(load(REDUCTION), "emulator", "test", ["n=8192"])}


def figure(rows: dict[str, BenchRow], name: str) -> list[Any]:
    return [rows[f"v{i}"].figures()[name] for i in range(6)]


def line_counters(rung: str, text: str) -> dict[str, float]:
    """Counters a block of the line of a rung's kernel that has this text."""
    program = load(REDUCTION)
    example = next(e for e in program.examples if e.name == rung)
    settings = LaunchSettings(counters=True)
    launch = run_example(
        program, example, "emulator", "test", resolve(program, example, ["n=8192"]), settings
    ).launches[0]
    lines = REDUCTION.read_text().splitlines()
    (counters,) = (c for at, c in launch.by_line.items() if text in lines[int(at) - 1])
    return {name: count / launch.grid[0] for name, count in counters.items()}


def test_every_rung_is_right(rows: dict[str, BenchRow]) -> None:
    assert list(rows) == ["v0", "v1", "v2", "v3", "v4", "v5"]
    assert all(row.report is not None and row.report.passed for row in rows.values())


def test_divergent_branches(rows: dict[str, BenchRow]) -> None:
    """v0: all 8 warps part in the five steps below 64, then 4, 2 and 1 of them. v1 to v3: one warp in five steps."""
    assert figure(rows, "divergent_branches") == [5 * WARPS + 4 + 2 + 1, 5, 5, 5, 0, 0]


def test_bank_conflicts(rows: dict[str, BenchRow]) -> None:
    ratios = figure(rows, "wavefronts_over_fewest")
    assert [ratio > 1 for ratio in ratios] == [False, True, False, False, False, False]
    added = line_counters("v1", "s[j] = s[j] + s[j + d]")
    assert 3.5 < added["shared_wavefronts"] / added["shared_ideal"] < 4.5


def test_shared_memory_is_touched_less_and_less(rows: dict[str, BenchRow]) -> None:
    """v5 stores a number a warp, and one warp loads them."""
    wavefronts = figure(rows, "wavefronts")
    assert wavefronts == sorted(wavefronts, reverse=True)
    assert wavefronts[5] == WARPS + 1


def test_active_lanes(rows: dict[str, BenchRow]) -> None:
    lanes = figure(rows, "active_lanes")
    assert lanes == sorted(lanes)
    assert lanes[0] < 25 and lanes[4] == lanes[5] == 32


def test_barriers(rows: dict[str, BenchRow]) -> None:
    """One after loading and one a step: 8 steps, of which v4 leaves 6 to one warp, and v5 none."""
    assert figure(rows, "barriers") == [9, 9, 9, 9, 3, 1]


def test_global_sectors(rows: dict[str, BenchRow]) -> None:
    """Each element once, 8 in a sector, and one sector for the result, of which 8 blocks' would be in one; v3 to v5
    have twice the elements a block."""
    assert figure(rows, "sectors") == [33, 33, 33, 65, 65, 65]
    fewest = [32 + 1 / 8] * 3 + [64 + 1 / 8] * 3
    assert figure(rows, "sectors_over_fewest") == [(int(each) + 1) / each for each in fewest]


def test_instructions(rows: dict[str, BenchRow]) -> None:
    counts = figure(rows, "instructions")
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > 5 * counts[5]


def test_no_loop_is_unrolled_or_folded() -> None:
    """The condition of v0's loop is evaluated once a step and once at the end."""
    assert line_counters("v0", "while d < BLOCK")["branches"] >= 9 * WARPS


def finding(example: str) -> tuple[Kind, str, int]:
    """(kind, message, line) of what the emulator finds in an example of the last warp."""
    program = load(LAST_WARP)
    node = next(e for e in program.examples if e.name == example)
    with pytest.raises(FindingError) as error:
        run_example(program, node, "emulator", "test", resolve(program, node, []), LaunchSettings())
    found = error.value.finding
    return found.kind, found.message, found.line


def line_of(text: str, nth: int = 0) -> int:
    lines = LAST_WARP.read_text().splitlines()
    return [at for at, line in enumerate(lines, 1) if text in line][nth]


def test_a_last_warp_without_order_races() -> None:
    kind, message, line = finding("unordered")
    assert (kind, line) == (Kind.RACE, line_of("s[t] = s[t] + s[t + d]"))
    assert message.startswith("reads shared memory that another thread has written")


def test_one_warp_barrier_a_step_leaves_write_after_read() -> None:
    kind, message, line = finding("barrier_after")
    assert (kind, line) == (Kind.RACE, line_of("s[t] = s[t] + s[t + d]", 1))
    assert message.startswith("writes shared memory that another thread has read")


def test_volatile_orders_nothing() -> None:
    kind, message, line = finding("volatile")
    assert (kind, line) == (Kind.UNORDERED, line_of("cache=volatile"))
    assert message.startswith("reads shared memory that another thread has written")


def test_read_barrier_write_barrier_is_clean() -> None:
    rows = bench(load(LAST_WARP), "emulator", "test", examples=["barriers_between"])
    assert [row.report is not None and row.report.passed for row in rows] == [True]


@pytest.mark.parametrize("example", ["unordered", "barrier_after", "volatile", "barriers_between"])
def test_the_compiler_inserts_the_barriers_of_every_form(example: str) -> None:
    program = parse_program(LAST_WARP.read_text().replace("    barriers manual\n", ""))
    (row,) = bench(program, "emulator", "test", examples=[example])
    assert row.report is not None and row.report.passed
    counters = row.report.launches[0].counters
    assert counters is not None and counters["warp_barriers"] / row.counted[0] <= 13 and counters["barriers"] == 0


def test_the_convolution_loads_each_element_once() -> None:
    naive, tiled = bench(load(ROOT / "samples" / "conv1d.tile"), "emulator", "test", ["n=8192"])
    assert naive.figures()["sectors"] > 2 * tiled.figures()["sectors"]
    fewest = 16 + 8 / 32 + 16  # of a block: its elements, two behind them, which take a sector, and its results
    assert tiled.figures()["sectors_over_fewest"] == 33 / fewest < naive.figures()["sectors_over_fewest"]
    assert (naive.figures()["barriers"], tiled.figures()["barriers"]) == (0, 1)
