"""The CUDA toolkit's programs: `ptxas` assembles PTX (and says what it costs), `nvdisasm` shows machine code."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from runtime.errors import DeviceError, LaunchError

TIME_LIMIT = 300
"""Seconds for one run of a program."""
WHEELS = {"ptxas": "nvidia-cuda-nvcc", "nvdisasm": "nvidia-cuda-nvdisasm"}
"""The PyPI package that has each program."""


@dataclass(frozen=True, slots=True)
class Assembly:
    """What `ptxas -v` says of one entry, and the machine code.

    `registers` a thread; `spill_stores`, `spill_loads` and `stack` in bytes a thread; `shared` static bytes a block.
    """

    registers: int
    spill_stores: int
    spill_loads: int
    shared: int
    stack: int
    cubin: bytes
    log: str


@cache
def find(program: str) -> Path:
    """The path of `ptxas` or `nvdisasm`. Raises DeviceError `tool` when it is not installed."""
    try:
        from cuda.pathfinder import find_nvidia_binary_utility
    except ModuleNotFoundError:  # without cuda-python, as on macOS, a program may still be on the PATH
        found = shutil.which(program)
    else:
        found = find_nvidia_binary_utility(program)
    candidates = [Path(found)] if found else []
    wheels = importlib.util.find_spec("nvidia")
    for folder in wheels.submodule_search_locations or () if wheels else ():
        candidates.append(Path(folder) / "cu13" / "bin" / program)
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise DeviceError("tool", f"{program} is not installed", f"pip install {WHEELS.get(program, 'the CUDA toolkit')}")


def assemble(ptx: str, arch: str, entry: str | None = None, maxregs: int | None = None) -> Assembly:
    """Assembles `ptx` for `arch` (`sm_90a`); the figures are those of `entry`, else of the first one.

    Raises LaunchError `ptx` with the log, which names the PTX lines, when it is not legal.
    """
    with tempfile.TemporaryDirectory(prefix="dsl-ptxas-") as folder:
        source, target = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        command = [str(find("ptxas")), "-v", f"-arch={arch}", str(source), "-o", str(target)]
        if maxregs is not None:
            command.append(f"-maxrregcount={maxregs}")
        done = _run(command)
        log = (done.stderr + done.stdout).replace(str(source), "kernel.ptx").strip()
        if done.returncode < 0:
            raise DeviceError("tool", f"ptxas was killed by signal {-done.returncode}", "is there enough memory?")
        if done.returncode:
            raise LaunchError("ptx", f"ptxas refuses the PTX for {arch}:\n{log}")
        cubin = target.read_bytes()
    return Assembly(**_figures(log, entry), cubin=cubin, log=log)


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end. Raises DeviceError `tool` when that takes too long."""
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=TIME_LIMIT)
    except subprocess.TimeoutExpired:
        name = Path(command[0]).name
        raise DeviceError("tool", f"{name} did not end in {TIME_LIMIT} seconds and was stopped") from None


def _figures(log: str, entry: str | None) -> dict[str, int]:
    """The numbers of one entry: its part of the log begins with "Compiling entry function 'name'"."""
    sections = re.split(r"Compiling entry function '([^']+)'", log)
    parts = dict(zip(sections[1::2], sections[2::2], strict=True))
    if entry is not None and entry not in parts:
        raise LaunchError("ptx", f"the PTX has no entry {entry}, it has {', '.join(parts) or 'none'}")
    text = parts[entry] if entry is not None else next(iter(parts.values()), "")

    def number(pattern: str) -> int:
        match = re.search(pattern, text)
        return int(match[1]) if match else 0

    return {
        "registers": number(r"Used (\d+) registers"),
        "spill_stores": number(r"(\d+) bytes spill stores"),
        "spill_loads": number(r"(\d+) bytes spill loads"),
        "shared": number(r"(\d+) bytes smem"),
        "stack": number(r"(\d+) bytes stack frame"),
    }


def sass(cubin: bytes, *options: str) -> str:
    """The machine code as text, by `nvdisasm`, with `.tile` lines unless `options` ask for something else. Raises
    DeviceError `tool` where it is missing or fails."""
    with tempfile.NamedTemporaryFile(prefix="dsl-", suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(find("nvdisasm")), "--print-code", *(options or ("--print-line-info",)), file.name]
        done = _run(command)
    if done.returncode:
        raise DeviceError("tool", f"nvdisasm fails: {done.stderr.strip()}")
    return done.stdout
