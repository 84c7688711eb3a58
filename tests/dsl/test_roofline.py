"""Roofline plots: operations a byte and a second, the device's roofs, and what `dsl run --roofline` draws."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

import dsl
from dsl.command import cli
from dsl.examples.bounds import bound_of
from dsl.examples.report import LaunchReport, Report
from dsl.examples.work import Work
from dsl.lab.roofline import draw_roofline, points_of
from dsl.lowering.ir.location import TileError
from dsl.runtime.chips import emulated_facts

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
H200 = emulated_facts("sm_90")
PRODUCTS = Work(1e6, 0, 1e6, 1e9, 0, 132, 1, True, True, {"bf16": [1e9, 1e9]})
PLAIN = Work(1e6, 0, 1e6, 0, 0, 132, 1, True)


def report(*works: Work, time_us: float | None = None) -> Report:
    bounds = [bound_of(work, H200, time_us) for work in works]
    launches = [LaunchReport(f"k{at}", None, [132, 1, 1], 32, 0, time_us, bound=b) for at, b in enumerate(bounds)]
    return Report("a.tile", None, "emulator", "H200", "", launches=launches)


def test_operations_are_of_tensor_cores_or_of_lanes() -> None:
    assert PRODUCTS.operations == 2e9 and PLAIN.operations == 32e6
    tensor, plain = (bound_of(work, H200).ceilings for work in (PRODUCTS, PLAIN))
    assert tensor == {"bf16 by wgmma": pytest.approx(2 * 2048 * 132 * 1.98e9)}
    assert plain == {"issue of all lanes": pytest.approx(128 * 132 * 1.98e9)}
    bytes_ = replace(PRODUCTS, products=5e8, multiply_adds={"s8": [1e9, 5e8]}, by_warp_groups=False)
    assert bound_of(bytes_, H200).ceilings == {"s8 by mma.sync": pytest.approx(4 * 1210 * 132 * 1.98e9)}


@pytest.mark.parametrize("options", [["--schedule", "wgmma", "--arch", "sm_90a"], ["--arch", "sm_90"]])
def test_multiply_adds_are_those_of_the_product(options: list[str], tmp_path: Path) -> None:
    picture = tmp_path / "p.svg"
    arguments = ["run", str(SAMPLES / "matmul.tile"), "m=256", "n=256", "k=128", *options, "--device", "emulator"]
    done = CliRunner().invoke(cli, [*arguments, "--roofline", str(picture), "--json"])
    (bound,) = json.loads(done.output)["bounds"]
    assert bound["operations"] == 2 * 256 * 256 * 128 and bound["bytes"] == 2 * (256 * 256 + 2 * 256 * 128)
    assert picture.read_text().startswith("<?xml")


def test_a_point_lies_under_what_its_busiest_unit_allows() -> None:
    (measured,), left = points_of([report(PRODUCTS, time_us=10.0)])
    assert (measured.intensity, measured.measured, left) == (2e3, pytest.approx(2e14), [])
    assert measured.most == pytest.approx(2 * 2048 * 132 * 1.98e9)  # bound by the tensor cores
    (forecast,), _ = points_of([report(PRODUCTS)])
    assert forecast.measured is None and forecast.most == measured.most
    (plain,), _ = points_of([report(replace(PLAIN, instructions=1e5))])
    assert plain.most == pytest.approx(plain.intensity * 4.92e12)  # bound by memory


def test_what_cannot_be_drawn_is_told(tmp_path: Path) -> None:
    some = report(PLAIN, replace(PLAIN, counted=0, instructions=0), replace(PLAIN, bytes=0.0))
    count, left = draw_roofline([some], tmp_path / "p.png")
    assert count == 1 and [each.partition(":")[0] for each in left] == ["k1", "k2"]
    assert "did not count" in left[0] and "no bytes" in left[1] and (tmp_path / "p.png").stat().st_size
    with pytest.raises(TileError, match="nothing to draw"):
        draw_roofline([report(replace(PLAIN, bytes=0.0))], tmp_path / "q.png")


def test_all_examples_are_in_one_picture(tmp_path: Path) -> None:
    from matplotlib import rc_context

    picture = tmp_path / "p.svg"
    with rc_context({"svg.fonttype": "none"}):
        table = dsl.run(SAMPLES / "softmax.tile", all=True, rows=64, cols=128, device="emulator", roofline=picture)
    assert f"roofline   {picture}: 2 launches" in str(table)
    text = picture.read_text()
    for word in ("softmax_rows lanes", "log: softmax_rows lanes", "memory: 4.92 TB/s", "issue of all lanes", "hollow"):
        assert word in text


@pytest.mark.parametrize(
    ("options", "message"), [(["p.tile"], "no picture"), (["p.png", "--timeline", "t.json"], "exclude each other")]
)
def test_nothing_runs_before_what_is_refused(options: list[str], message: str) -> None:
    arguments = ["run", str(SAMPLES / "softmax.tile"), "--roofline", *options]
    done = CliRunner().invoke(cli, arguments, standalone_mode=False)
    assert done.return_value == 2 and message in done.output and "kernel " not in done.output


@pytest.mark.gpu
def test_a_launch_on_a_gpu_is_measured_under_its_roof(tmp_path: Path) -> None:
    """Its twin on the emulator: `test_multiply_adds_are_those_of_the_product`."""
    table = dsl.run(SAMPLES / "matmul.tile", m=1024, n=1024, k=512, device="cuda", roofline=tmp_path / "p.png")
    (point,), _ = points_of(table)
    assert point.measured is not None and 0 < point.measured < 1.1 * point.most
