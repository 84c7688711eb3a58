"""What a kernel prints in a call from Python, and a cap on registers that is not enough: nothing of it is silent."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import dsl
from dsl.command import cli
from dsl.lowering.ir.location import TileError
from dsl.runtime.errors import DeviceAssertError, FindingError
from dsl.runtime.tools import find

ROOT = Path(__file__).resolve().parents[2]
PRINTS = """
kernel k(y: s32[n], x: s32[n]):
    grid n
    b = block(0)
    print("block {{}}", b)
    assert x[b] < 3, "small"
    y[b + x[0]] = b
    if x[0] == 2:
        i = arange(128) + 200000
        y[i] = i

example:
    x = full(s32[2], {value})
    y = zeros(s32[2])
    k(y, x)
"""


@pytest.mark.parametrize("way", ["call", "kernel", "bind"])
def test_a_call_from_python_prints_what_its_kernel_prints(way: str, capsys: pytest.CaptureFixture[str]) -> None:
    module = dsl.parse(PRINTS.format(value=0), device="emulator")
    y, x = np.zeros(2, np.int32), np.zeros(2, np.int32)
    kernel = module.compile("k")
    {"call": lambda: module.k(y, x), "kernel": lambda: kernel(y, x), "bind": lambda: kernel.bind(y, x)()}[way]()
    assert capsys.readouterr().out == "block 0\nblock 1\n"


FROM_PYTHON = """
import numpy as np

import dsl
from dsl.runtime import synchronize

module = dsl.parse({text!r}, device={device!r})
y, x = np.zeros(2, np.int32), np.full(2, {value}, np.int32)
try:
    module.k(y, x)
    synchronize()
except dsl.DeviceError as error:
    print(error.code)
"""


@pytest.mark.parametrize("value", [0, 3])
def test_a_program_that_calls_a_kernel_prints_what_it_prints(value: int, device: str) -> None:
    """On a GPU by the end of its process, as the driver writes it, its blocks in any order; also before a fault."""
    code = FROM_PYTHON.format(text=PRINTS.format(value=value), device=device, value=value)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=ROOT)
    lines = done.stdout.splitlines()
    assert "block 0" in lines and set(lines) <= {"block 0", "block 1", "device-assert"}, done.stdout + done.stderr
    assert ("device-assert" in lines) == (value == 3) and (value == 3 or "block 1" in lines)


@pytest.mark.parametrize(("value", "fault"), [(3, DeviceAssertError), (2, FindingError)])
def test_what_was_printed_before_a_fault_is_not_lost(
    value: int, fault: type[Exception], capsys: pytest.CaptureFixture[str]
) -> None:
    module = dsl.parse(PRINTS.format(value=value), device="emulator")
    with pytest.raises(fault):
        module.k(np.zeros(2, np.int32), np.full(2, value, np.int32))
    assert "block 0\n" in capsys.readouterr().out


@pytest.mark.parametrize("value", [2, 3])
def test_the_command_shows_what_was_printed_before_a_fault(value: int, tmp_path: Path) -> None:
    path = tmp_path / "k.tile"
    path.write_text(PRINTS.format(value=value))
    arguments = ["run", str(path), "--device", "emulator"]
    assert "block 0\n" in CliRunner().invoke(cli, arguments).stdout
    result = CliRunner().invoke(cli, [*arguments, "--json"])
    assert json.loads(result.stdout)["passed"] is False and "block 0\n" in result.stderr


CAPPED = """
kernel many(y: f32[n], x: f32[n]; BLOCK = 2048):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK + arange(BLOCK)
    v = load(x[i], mask=i < n)
    y[i] = v * sum(v)

schedule capped of many:
    maxnreg {cap}

example:
    n = 4096
    x = randn(f32[n])
    y = empty(f32[n])
    many(y, x)
"""


def has_assembler() -> bool:
    try:
        find("ptxas")
    except Exception:
        return False
    return True


@pytest.mark.skipif(not has_assembler(), reason="no ptxas")
@pytest.mark.parametrize(("cap", "spills"), [(24, True), (128, False)])
def test_a_cap_that_spills_is_told_without_being_asked(cap: int, spills: bool, tmp_path: Path) -> None:
    path = tmp_path / "k.tile"
    path.write_text(CAPPED.format(cap=cap))
    result = CliRunner().invoke(cli, ["run", str(path), "--device", "emulator"])
    assert result.exit_code == 0
    assert (f"'maxnreg {cap}' is not enough" in result.stdout) == spills
    assert f"{'' if spills else '0 '}bytes spilled" in result.stdout


def test_a_cap_that_the_assembler_raises_is_an_error() -> None:
    with pytest.raises(TileError, match="maxnreg is from 24 to 255; this is 23"):
        dsl.parse(CAPPED.format(cap=23), device="emulator").compile("many")
