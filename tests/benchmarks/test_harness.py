"""The benchmarks' harness without a GPU: intervals, what rows come to, tables, records, counters."""

from __future__ import annotations

import json
import math
import sys
from importlib import import_module
from io import StringIO
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import dsl
from dsl.runtime.errors import DeviceError

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))  # as for the scripts there

from harness.command import chosen, panels
from harness.intervals import Interval, geometric_mean
from harness.launches import Call, Facts, counted, facts_of
from harness.plot import plot, spread
from harness.record import save
from harness.rows import Row
from harness.table import show, summary
from matmul import PRODUCTS
from matmul import SAMPLE as MATMUL_SAMPLE
from matmul_arrays import TYPES
from matmul_fused import OPERATIONS as FUSED
from matmul_fused import SAMPLE as FUSED_SAMPLE
from matmul_fused import TYPES as FUSED_TYPES

SAMPLE = Path(__file__).resolve().parents[2] / "samples" / "softmax.tile"
FACTS = Facts("softmax_rows with lanes", {"ROWS": 4}, 128, 48, 0, 1024, 0.5)


def exactly(median: float) -> Interval:
    return Interval(median, median, median)


def row(cols: int, errors: dict[str, float] | None = None, **medians: float) -> Row:
    """A row whose runs all took the same time."""
    times = {name: exactly(median) for name, median in medians.items()}
    found = dict.fromkeys(set(medians) - {"copy"}, 1e-4) | (errors or {})
    return Row("softmax", "f16", {"rows": 8, "cols": cols}, 1000 * cols, times, found, 1e-3, [FACTS])


def text(table: object) -> str:
    console = Console(width=240, file=StringIO())
    console.print(table)
    return console.file.getvalue()


def test_an_interval_has_the_percentiles_of_its_times() -> None:
    interval = Interval.of([float(t) for t in (9, 1, 3, 5, 7, 2, 4, 6, 8, 10, 11)])
    assert (interval.low, interval.median, interval.high) == (3.0, 6.0, 9.0)
    with pytest.raises(DeviceError):
        Interval.of([])


@pytest.mark.parametrize(
    ("low", "high", "overlaps"), [(1.0, 2.0, False), (1.0, 3.0, True), (4.0, 9.0, True), (5.5, 9.0, False)]
)
def test_intervals_overlap_where_they_share_a_time(low: float, high: float, overlaps: bool) -> None:
    fixed, other = Interval(3.0, 4.0, 5.0), Interval(low, (low + high) / 2, high)
    assert fixed.overlaps(other) == other.overlaps(fixed) == overlaps


def test_who_keeps_up_is_faster_or_within_a_fiftieth_or_overlaps() -> None:
    best = Interval(99.0, 100.0, 101.0)
    assert Interval(10.0, 11.0, 12.0).keeps_up_with(best)
    assert Interval(101.5, 101.9, 102.0).keeps_up_with(best)
    assert not Interval(102.0, 102.5, 103.0).keeps_up_with(best)
    assert Interval(100.5, 110.0, 120.0).keeps_up_with(best)


def test_geometric_mean() -> None:
    assert geometric_mean([0.5, 2.0, 1.0]) == pytest.approx(1.0)
    assert math.isnan(geometric_mean([]))


def test_a_wrong_peer_and_the_copy_are_no_best_peer() -> None:
    measured = row(
        64, {"quick": math.nan, "wild": 0.5}, dsl=10.0, copy=5.0, torch=20.0, triton=12.0, quick=1.0, wild=2.0
    )
    assert measured.best_peer == "triton"
    assert measured.against_best == pytest.approx(1.2)
    assert measured.share_of_yardstick() == pytest.approx(0.5)
    assert measured.rate() == pytest.approx(6.4)
    assert measured.rate("nobody") is None


def test_operations_are_counted_where_there_are_any() -> None:
    """10^12 a second: the unit follows from the type."""
    measured = row(64, dsl=10.0, copy=5.0)
    assert measured.unit == "GB/s"
    measured.computes = 8 * 10**9
    assert (measured.unit, measured.rate()) == ("TFLOPS", pytest.approx(800.0))
    measured.dtype = "s8"
    assert measured.unit == "TOPS" and "800" in text(show([measured], "title", "cols"))


def test_schedules_of_ours_are_no_peers() -> None:
    measured = row(64, {"dsl wide": 0.0}, **{"dsl": 10.0, "dsl wide": 5.0, "copy": 1.0, "torch": 20.0})
    assert measured.best_peer == "torch" and measured.keeps_up


def test_clocks_stand_in_the_table_where_they_were_read() -> None:
    read, other = row(64, dsl=10.0, copy=9.0), row(128, dsl=10.0, copy=9.0)
    assert "MHz" not in text(show([read, other], "title", "cols"))
    read.clocks = Interval(1500.0, 1700.0, 1980.0)
    assert "MHz" in text(show([read, other], "title", "cols")) and "1500–1980" in text(show([read], "title", "cols"))


def test_the_table_shows_what_was_measured_and_a_dash_elsewhere() -> None:
    lines = text(show([row(64, dsl=10.0, copy=9.0, torch=8.0), row(128, copy=9.0)], "title", "cols")).splitlines()
    (first,) = (line for line in lines if "64 " in line)
    assert [part in first for part in ("10.0", "10.0–10.0", "0.900", "0.800 slower", "48", "1024", "ROWS=4")] == [
        True
    ] * 7
    (second,) = (line for line in lines if "128 " in line)
    assert second.count("–") >= 4


def test_the_summary_counts_long_rows_only_and_names_who_is_slower() -> None:
    rows = [
        row(64, dsl=10.0, copy=1.0, torch=12.0),
        row(128, dsl=10.0, copy=8.0, torch=5.0),
        row(256, {"torch": 1.0}, dsl=10.0, copy=5.0, torch=1.0),
    ]
    mean, slower, wrong = summary(rows, 128, "cols")
    assert "geometric mean 0.632, least 0.500 at 256" in mean
    assert slower.startswith("of 2 ") and slower.endswith(": 128 (torch 2.00 times faster)")
    assert wrong == "WRONG: torch at 256 (1.0e+00)"
    assert summary([row(128, copy=8.0, torch=5.0)], 128, "cols") == []


def test_places_spread_until_the_gap_is_kept() -> None:
    assert spread([0.0, 10.0], 1.0) == [0.0, 10.0]
    assert spread([5.0, 5.0, 5.0], 2.0) == [3.0, 5.0, 7.0]
    places = spread([0.0, 1.0, 1.5, 9.0, 9.1], 2.0)
    assert all(b - a >= 2.0 - 1e-9 for a, b in pairwise(places))


def test_a_record_says_what_was_measured_and_with_what(tmp_path: Path) -> None:
    save(tmp_path / "r.json", [row(64, dsl=10.0, copy=9.0)], "emulated H200", [SAMPLE], rounds=41)
    record = json.loads((tmp_path / "r.json").read_text())
    assert record["rows"][0]["times"]["dsl"] == {"low": 10.0, "median": 10.0, "high": 10.0}
    assert record["rows"][0]["launches"][0]["constants"] == {"ROWS": 4}
    assert set(record["sources"]) == {"softmax.tile"} and record["versions"]["numpy"] == np.__version__


def test_panels_are_one_an_operation_with_ours_and_the_copy_in_front(tmp_path: Path) -> None:
    made = panels([row(64, torch=2.0, copy=1.0, dsl=4.0), row(1000, torch=2.0, copy=1.0)], "cols", ["torch", "triton"])
    assert [panel.title for panel in made] == ["softmax, f16"]
    assert list(made[0].lines) == ["dsl", "copy", "torch"]
    assert made[0].lines["dsl"] == [(64.0, 16.0)]
    pytest.importorskip("matplotlib")
    plot(tmp_path / "p.png", made, "title", "cols", "GB/s")
    assert (tmp_path / "p.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize("dtype", ["f16", "bf16", "tf32", "s8", "e4m3"])
@pytest.mark.parametrize("name", ["a@b", "a@b.T"])
def test_the_benchmark_of_products_calls_what_the_samples_have(name: str, dtype: str) -> None:
    operation, shape = PRODUCTS[name], {"n": 128}
    arguments = operation.host_arguments(shape, dtype)
    counters = counted(dsl.load(MATMUL_SAMPLE, device="emulator"), operation.call(dtype), arguments)
    assert counters["mma"] > 0 and counters["bank_conflicts"] == 0
    c, a, b = (array.astype(np.float64) for array in arguments[:3])
    wanted = a @ b
    assert np.abs(c - wanted).max() <= TYPES[dtype].bound * np.abs(wanted).max()


@pytest.mark.parametrize("dtype", FUSED_TYPES)
@pytest.mark.parametrize("name", FUSED)
def test_the_benchmark_of_fused_products_calls_what_the_sample_has(name: str, dtype: str) -> None:
    operation = FUSED[name]
    module, arguments = dsl.load(FUSED_SAMPLE, device="emulator"), operation.host_arguments({"n": 128}, dtype)
    assert counted(module, operation.call(dtype), arguments)["mma"] > 0
    assert arguments[0].any()


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    assert chosen("types", None, ("f16", "f32")) == ["f16", "f32"]
    with pytest.raises(SystemExit, match="no f8; choose from f16, f32"):
        chosen("types", ["f16", "f8"], ("f16", "f32"))


def test_counters_and_facts_of_a_call_on_the_emulator() -> None:
    module = dsl.load(SAMPLE, device="emulator")
    x = np.random.default_rng(0).standard_normal((8, 1024)).astype(np.float16)
    arguments = (np.empty_like(x), x)
    counters = counted(module, Call("softmax"), arguments)
    assert counters["global_load_sectors"] == counters["global_store_sectors"] == x.nbytes // 32
    assert counters["bank_conflicts"] == 0
    (facts,) = facts_of(module, Call("softmax"), arguments)
    assert facts.kernel.startswith("softmax") and facts.registers > 0 and facts.spills == 0
    assert facts.occupancy is None


SCRIPTS = sorted(path.stem for path in (Path(__file__).resolve().parents[2] / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_script_imports_what_there_is(script: str) -> None:
    """A name that the project no longer has is found without a GPU."""
    try:
        import_module(script)
    except ModuleNotFoundError as error:  # a peer that is not installed here
        assert error.name in ("torch", "triton", "cupy", "jax"), error
