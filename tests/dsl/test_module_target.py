"""A module may ask for its target: `sm_90a`, which no device calls itself, and any that the emulator has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import dsl
from dsl.command import cli
from dsl.runtime import device_facts

SAMPLE = Path(__file__).parents[2] / "samples" / "softmax.tile"


def ptx_targets(module: dsl.Module) -> set[str]:
    return {k.ptx.partition(".target ")[2].split()[0] for k in module.variants}


def test_calls_of_a_module_compile_for_the_target_that_it_asks_for(device: str) -> None:
    if device == "cuda" and device_facts(device).arch != "sm_90":
        pytest.skip("sm_90a runs on compute capability 9.0 only")
    module = dsl.load(SAMPLE, device=device, arch="sm_90a")
    x = np.random.default_rng(0).standard_normal((3, 100)).astype(np.float32)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    assert np.abs(module.softmax(x) - e / e.sum(axis=1, keepdims=True)).max() < 1e-6
    assert module.arch == "sm_90a"
    assert ptx_targets(module) == {"sm_90a"}
    assert ".target sm_90a" in module.compile("softmax_rows", rows=3, cols=100).ptx


def test_without_one_the_device_says(device: str) -> None:
    module = dsl.load(SAMPLE, device=device)
    assert module.arch == device_facts(device).arch


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_100a", "sm_100f", "sm_120", "sm_120a"])
def test_the_emulated_device_is_of_the_target(arch: str) -> None:
    text = "kernel k(y: s32[n]; COUNT):\n    grid 1\n    y[0] = COUNT\n\nschedule s of k:\n    COUNT = sms\n"
    y = np.zeros(1, np.int32)
    dsl.parse(text, device="emulator", arch=arch).k(y)
    assert y[0] == device_facts("emulator", arch).sms


def test_an_unknown_target_is_told_when_the_file_is_loaded() -> None:
    with pytest.raises(dsl.TileError, match="unknown target 'sm_99'"):
        dsl.load(SAMPLE, arch="sm_99")


SMALL = [str(SAMPLE), "rows=2", "cols=64", "--example", "log"]
TMA = [str(SAMPLE.with_name("matmul_w4.tile")), "m=64", "n=64", "k=128", "--schedule", "tma"]
WGMMA = [str(SAMPLE.with_name("matmul.tile")), "m=64", "n=64", "k=64", "--schedule", "wgmma"]


@pytest.mark.parametrize(
    ("arch", "device"), [("sm_80", "A100, sm_80"), ("sm_90a", "H200, sm_90a"), ("sm_100", "B200, sm_100")]
)
def test_the_command_line_runs_as_on_a_device_of_the_target(arch: str, device: str) -> None:
    line = ["run", *SMALL, "--device", "emulator", "--arch", arch]
    result = CliRunner().invoke(cli, line, standalone_mode=False)
    assert f"device     emulator (emulated {device}); --device" in result.stdout and "passed" in result.stdout


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["run", *TMA, "--device", "emulator"], "sm_80 has no TMA"),
        (["verify", *TMA, "--given-only"], "sm_80 has no TMA"),
        (["run", *WGMMA, "--device", "emulator"], "sm_80 has none: it needs sm_90"),
        (["verify", *WGMMA, "--given-only"], "sm_80 has none: it needs sm_90"),
        (["run", "saved.ptx"], "saved.ptx is PTX text"),
    ],
)
def test_the_command_line_says_what_a_target_lacks(line: list[str], said: str) -> None:
    result = CliRunner().invoke(cli, [*line, "--arch", "sm_80"], standalone_mode=False)
    assert result.return_value == 2 and said in result.stderr


def test_verify_compiles_for_the_target() -> None:
    result = CliRunner().invoke(cli, ["verify", *SMALL, "--given-only", "--arch", "sm_80"], standalone_mode=False)
    assert result.return_value == 0 and "passes and the PTX agree" in result.stdout
