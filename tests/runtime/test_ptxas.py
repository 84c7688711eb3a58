"""`ptxas` through `dsl.runtime.tools`: what it says of a kernel, and of PTX that is none."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path

import hand_written
import pytest

from dsl.runtime import DeviceError, LaunchError, assemble
from dsl.runtime.tools import _figures, find


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("text", [hand_written.scale(), hand_written.copy(), hand_written.strided()])
def test_kernels_written_by_hand_assemble_without_spills(text: str, arch: str) -> None:
    found = assemble(text, arch)
    assert 0 < found.registers <= 32
    assert found.spill_stores == found.spill_loads == found.stack == found.shared == 0
    assert found.cubin.startswith(b"\x7fELF")


def test_the_log_names_the_line_of_illegal_ptx() -> None:
    text = hand_written.scale().replace("mul.rn.f32", "mul.rn.f33")
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "f33" in line)
    with pytest.raises(LaunchError, match=rf"kernel\.ptx, line {line}") as caught:
        assemble(text, "sm_80")
    assert caught.value.code == "ptx"


def test_figures_of_one_entry_of_several() -> None:
    log = """
ptxas info    : Compiling entry function 'a' for 'sm_90'
ptxas info    : Function properties for a
    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 8 bytes cumulative stack size, 2048 bytes smem
ptxas info    : Compiling entry function 'b' for 'sm_90'
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 16 registers, used 0 barriers
"""
    assert _figures(log, "a") == {"registers": 40, "spill_stores": 4, "spill_loads": 12, "shared": 2048, "stack": 8}
    assert _figures(log, "b")["registers"] == 16 and _figures(log, None)["registers"] == 40
    with pytest.raises(LaunchError, match="no entry c"):
        _figures(log, "c")


def test_a_missing_program_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuda.pathfinder.find_nvidia_binary_utility", lambda name: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DeviceError, match="pip install nvidia-cuda-nvcc"):
        find.__wrapped__("ptxas")


def test_an_assembler_that_is_killed_refuses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tuner would log its point as one that does not compile."""
    killed = tmp_path / "ptxas"
    killed.write_text("#!/bin/sh\nkill -9 $$\n")
    killed.chmod(0o755)
    monkeypatch.setattr("dsl.runtime.tools.find", lambda program: killed)
    with pytest.raises(DeviceError, match="killed by signal 9"):
        assemble(".version 8.0", "sm_90")


SLEEPS = "#!/bin/sh\nsleep 60 & echo $! > {folder}/child\nwait\n"
TAKES = "#!{python}\nkept = [bytearray(1 << 20) for _ in range({mebibytes})]\n"
REFUSES = "#!/bin/sh\necho 'ptxas fatal   : Memory allocation failure' >&2\nexit 255\n"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (SLEEPS, "ptxas did not end in 0.5 seconds for this text and was stopped"),
        (TAKES, "ptxas needs more than 64 MiB of memory for this text and was stopped"),
        (REFUSES, "ptxas needs more than 64 MiB of memory"),  # as the real one tells it
    ],
)
def test_an_assembler_that_takes_all_time_or_memory_is_stopped(
    script: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some texts make ptxas 13.0 take the memory of a whole machine. A small program stands for it."""
    program = tmp_path / "ptxas"
    program.write_text(script.format(folder=tmp_path, python=sys.executable, mebibytes=256))
    program.chmod(0o755)
    monkeypatch.setattr("dsl.runtime.tools.find", lambda name: program)
    monkeypatch.setattr("dsl.runtime.tools.TIME_LIMIT", 0.5 if script == SLEEPS else 60.0)
    monkeypatch.setattr("dsl.runtime.tools.MEMORY_LIMIT", 64 << 20)
    with pytest.raises(DeviceError, match=re.escape(reason)) as caught:
        assemble(".version 8.0", "sm_90")
    assert caught.value.code == "tool" and caught.value.hint
    if (tmp_path / "child").exists():  # what it has started is stopped, too
        child = int((tmp_path / "child").read_text())
        with pytest.raises(ProcessLookupError):
            while True:
                os.kill(child, 0)
                if Path(f"/proc/{child}/stat").read_text().split()[2] == "Z":
                    raise ProcessLookupError
                time.sleep(0.01)
