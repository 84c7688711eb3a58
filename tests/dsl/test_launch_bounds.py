"""What bounds a launch: its terms by hand, the line that `dsl run` prints, and a profile beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec import convert, to_builtins
from msgspec.structs import replace

from dsl.command import cli
from dsl.command.run import requests_for
from dsl.examples.bounds import ISSUE, L2, MEMORY, SHARED, SPECIAL, TENSOR, bound_of
from dsl.examples.first_blocks import whole_launch
from dsl.examples.one_kernel import LaunchSettings
from dsl.examples.overrides import resolve
from dsl.examples.profile import METRICS, add_profile, read_profile
from dsl.examples.report import LaunchReport, Report
from dsl.examples.run import ExampleRun
from dsl.examples.work import COUNTED_SECONDS, Work, moved_bytes, work_of
from dsl.lowering.ir.location import TileError
from dsl.runtime.chips import emulated_facts
from dsl.runtime.errors import DeviceError
from dsl.runtime.tools import find
from dsl.text.program import load

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
H200 = emulated_facts("sm_90")
WORK = Work(4.92e9, 132 * 1980, 132 * 1980 * 8, 132 * 1980 * 2048 * 3.0, 132 * 1980, 132, 2, True, True)
"""Of 1000 us of memory; of a multiprocessor 1 us of shared memory, 2 of issue, 3 of products, 2 of exponentials."""


def test_terms_are_work_over_rates() -> None:
    bound = bound_of(WORK, H200, 2000.0)
    assert bound.name == MEMORY and bound.share(MEMORY) == pytest.approx(0.5)
    assert {unit: round(us, 6) for unit, us in bound.terms.items()} == {
        **{MEMORY: 1000.0, TENSOR: 3.0},
        **{ISSUE: 2.0, SPECIAL: 2.0, SHARED: 1.0},
    }
    slow = bound_of(replace(WORK, by_warp_groups=False, bytes=0.0), H200)
    assert slow.name == TENSOR and slow.terms[TENSOR] == pytest.approx(3 * 2048 / 1210)


def test_a_multiprocessor_with_one_block_more_is_waited_for() -> None:
    """133 blocks take as long as 264."""
    assert bound_of(replace(WORK, blocks=133), H200).terms[SHARED] == pytest.approx(2 * 132 / 133)
    assert bound_of(replace(WORK, blocks=66), H200).terms[SHARED] == pytest.approx(2.0)


def test_blocks_that_were_all_counted_have_equal_shares_at_least() -> None:
    """One block more may have nothing to do."""
    assert bound_of(replace(WORK, blocks=133, counted=133), H200).terms[SHARED] == pytest.approx(1.0)


def test_an_array_that_is_given_twice_is_read_once_and_sectors_may_be_fewer() -> None:
    import numpy as np

    import dsl

    text = "kernel k(y: f32[n], x: f32[n], z: f32[n]):\n    grid 1\n    i = arange(128)\n    y[i] = x[i] + z[i]\n"
    kernel = dsl.parse(text, "k.tile", device="emulator").compile("k", n=4096).kernel
    x, y = np.ones(4096, np.float32), np.zeros(4096, np.float32)
    assert moved_bytes(kernel.header, [y, x, x]) == 2 * 4 * 4096
    result = kernel.run(y, x, x, ptx_lines=True)
    assert work_of(kernel, [y, x, x], whole_launch(result), None).bytes == 3 * 4 * 128  # of 48 sectors


def test_what_is_unknown_has_no_term_and_is_told() -> None:
    assert list(bound_of(replace(WORK, counted=0), H200).terms) == [MEMORY]
    assert "did not count" in bound_of(replace(WORK, counted=0), H200).missing[0]
    assert "of the PTX" in bound_of(replace(WORK, of_machine_code=False), H200).missing[0]
    assert TENSOR not in bound_of(WORK, emulated_facts("sm_120")).terms
    assert list(bound_of(WORK, emulated_facts("sm_100")).terms) == [MEMORY]  # its clock is not in the table


def test_a_report_crosses_processes_with_its_bound() -> None:

    launch = LaunchReport("k", None, [1, 1, 1], 32, 0, bound=bound_of(WORK, H200, 2000.0))
    report = Report("a.tile", None, "cuda:0", "H200", "", launches=[launch])
    assert convert(json.loads(json.dumps(to_builtins(report))), Report) == report
    (told,) = report.as_json()["bounds"]
    assert told["bound"] == MEMORY and told["shares"][TENSOR] == pytest.approx(0.0015)


def test_run_tells_it_with_counters() -> None:
    try:
        find("nvdisasm"), find("ptxas")
    except DeviceError as error:
        pytest.skip(str(error))
    options = ["rows=512", "cols=1000", "--counters", "--device", "emulator"]
    found = CliRunner().invoke(cli, ["run", str(SAMPLES / "softmax.tile"), *options]).output
    assert "  bound      memory: at least 0.416 us on this device\n" in found  # 2 * 512 * 1000 * 2 bytes at 4.92 TB/s
    told = json.loads(CliRunner().invoke(cli, ["run", str(SAMPLES / "softmax.tile"), *options, "--json"]).output)
    assert told["bounds"][0]["us"][MEMORY] == pytest.approx(0.416, abs=1e-3) and told["bounds"][0]["us"][ISSUE] > 0


def test_what_bounds_a_launch_is_counted_for_those_who_read_it() -> None:
    """Tests of pytest, tuning and `dsl bench` launch without."""
    settings: dict[str, Any] = {"file": "a.tile", "device": "cuda:0", "why": "", "timeline": None}
    (asked,) = requests_for(settings, False)
    assert asked.bound_seconds == COUNTED_SECONDS
    (marked,) = requests_for({**settings, "timeline": "t.json"}, False)
    assert marked.bound_seconds is None and LaunchSettings().bound_seconds is None


@pytest.mark.parametrize(
    ("sample", "values"), [("softmax", ["rows=512", "cols=256"]), ("matmul", ["m=256", "n=256", "k=128"])]
)
def test_one_cluster_stands_for_a_launch(sample: str, values: list[str]) -> None:
    """What a launch on a GPU is bounded by, beside what is counted of all blocks: of a product at the head of the
    file, and a softmax that has no edge. Results are what they were."""
    program = load(str(SAMPLES / f"{sample}.tile"))
    example = program.examples[0]
    settings = LaunchSettings(bounds=True, measure=False)
    run = ExampleRun(program, example, "emulator", "", resolve(program, example, values), settings)
    (launch,) = run.run().launches
    (call,) = run.launcher.calls
    before = {name: value.copy() for name, value in call.given.items() if hasattr(value, "copy")}
    (work,) = run.launcher.works(call, COUNTED_SECONDS)
    assert launch.bound is not None
    whole = launch.bound.work
    assert (work.counted, whole.counted) == (1, whole.blocks) and work.blocks == whole.blocks > 1
    assert replace(work, counted=0) == replace(whole, counted=0)
    assert all((before[name] == call.given[name]).all() for name in before)


def profile(*shares: float) -> str:
    names = ["ID", "Kernel Name", *METRICS.values()]
    rows = [
        names,
        ["", "", *["%"] * len(METRICS)],
        ["0", "k", *map(str, shares)],
        ["1", "other(int)", *map(str, shares)],
    ]
    return "==PROF== Connected\n" + "\n".join(",".join(f'"{cell}"' for cell in row) for row in rows) + "\n"


def test_a_profile_is_read_with_what_stands_around_it(tmp_path: Path) -> None:
    found = list(read_profile(profile(91.5, 40, 3, 12, 0, 1).splitlines(keepends=True)))
    assert [entry for entry, _ in found] == ["k", "other"]
    assert found[0][1] == {MEMORY: 0.915, L2: 0.4, SHARED: 0.03, ISSUE: 0.12, TENSOR: 0.0, SPECIAL: 0.01}
    launch = LaunchReport("k", None, [1, 1, 1], 32, 0, bound=bound_of(WORK, H200, 2000.0))
    (tmp_path / "p.csv").write_text(profile(91.5, 40, 3, 12, 0, 1))
    add_profile([launch], tmp_path / "p.csv")
    assert launch.bound is not None and launch.bound.measured[MEMORY] == 0.915
    with pytest.raises(TileError, match="has no launch of this example, but of k, other"):
        add_profile([replace(launch, kernel="softmax")], tmp_path / "p.csv")
    with pytest.raises(TileError, match="cannot be read"):
        add_profile([launch], tmp_path / "none.csv")


@pytest.mark.gpu
def test_a_copy_on_a_gpu_is_bound_by_memory() -> None:
    """Its twin on the emulator: `test_run_tells_it_with_counters`."""
    words = ["run", str(SAMPLES / "add.tile"), "n=67108864", "--device", "cuda", "--json"]
    told = json.loads(CliRunner().invoke(cli, words).output)
    assert told["bounds"][0]["bound"] == MEMORY and 0.7 < told["bounds"][0]["shares"][MEMORY] < 1.0
