"""Runs programs of the CUDA toolkit: `ptxas` assembles PTX and reports resources, `nvdisasm` prints machine code."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from subprocess import PIPE

from msgspec import Struct

from dsl.runtime.errors import DeviceError, LaunchError, MissingToolError

TIME_LIMIT = 60.0
"""Time limit for one run of a program in seconds. For comparison, ptxas takes 0.4 s for 240 KB of PTX."""
MEMORY_LIMIT = 1 << 30
"""Limit of a program's address space in bytes. ptxas takes a tenth of this limit for 240 KB of PTX. The limit is needed
because some malformed texts make ptxas take all memory of a machine."""
NO_MEMORY = re.compile(
    r"(?i)memory allocation failure|out of memory|memory exhausted|cannot allocate|bad_alloc|memoryerror"
)
"""Pattern of the messages that programs print when they run out of memory."""
WHEELS = {"ptxas": "nvidia-cuda-nvcc", "nvdisasm": "nvidia-cuda-nvdisasm"}
"""Program → the PyPI package that contains it."""


class Assembly(Struct, frozen=True):
    """The figures that `ptxas -v` prints for one entry, and the machine code.

    `registers` is the number of registers of a thread. `spill_stores`, `spill_loads` and `stack` are in bytes per
    thread. `shared` is the static shared memory of a block in bytes.
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
    """Returns the path of `ptxas` or `nvdisasm`. Raises DeviceError `tool` if the program is not installed."""
    try:
        from cuda.pathfinder import find_nvidia_binary_utility
    except ModuleNotFoundError:  # without cuda-bindings (macOS) the program may still be on the PATH
        found = shutil.which(program)
    else:
        found = find_nvidia_binary_utility(program)
    candidates = [Path(found)] if found else []
    # The wheels install their programs in nvidia/cu13/bin, which the finder may not know.
    wheels = importlib.util.find_spec("nvidia")
    for folder in wheels.submodule_search_locations or () if wheels else ():
        candidates.append(Path(folder) / "cu13" / "bin" / program)
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise MissingToolError(program, f"pip install {WHEELS.get(program, 'the CUDA toolkit')}")


def assemble(ptx: str, arch: str, entry: str | None = None, maxnreg: int | None = None) -> Assembly:
    """Assembles `ptx` for `arch`, such as `sm_90a`. The figures of the result are those of `entry`, by default the
    first entry.

    Raises LaunchError `ptx` for illegal PTX. The error's message contains the log of ptxas, which names the PTX lines.
    Raises DeviceError `tool` if ptxas is killed, or exceeds TIME_LIMIT or MEMORY_LIMIT."""
    with tempfile.TemporaryDirectory(prefix="dsl-ptxas-") as folder:
        source, target = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        command = [str(find("ptxas")), "-v", f"-arch={arch}", str(source), "-o", str(target)]
        if maxnreg is not None:
            command.append(f"-maxrregcount={maxnreg}")
        done = _run(command)
        log = (done.stderr + done.stdout).replace(str(source), "kernel.ptx").strip()
        # A signal does not mean that the text is wrong.
        if done.returncode < 0:
            raise DeviceError("tool", f"ptxas was killed by signal {-done.returncode}", "is there enough memory?")
        if done.returncode:
            raise LaunchError("ptx", f"ptxas refuses the PTX for {arch}:\n{log}")
        cubin = target.read_bytes()
    return Assembly(**_figures(log, entry), cubin=cubin, log=log)


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs a program until it ends. Raises DeviceError `tool` if the program takes too long or too much memory."""
    name = Path(command[0]).name
    # The program gets its own session, so that its children can be stopped with it.
    with subprocess.Popen(
        command, stdout=PIPE, stderr=PIPE, text=True, errors="replace", start_new_session=True
    ) as process:
        _limit_memory(process.pid)
        try:
            out, err = process.communicate(timeout=TIME_LIMIT)
        except subprocess.TimeoutExpired:
            _stop(process)
            raise _limited(name, f"did not end in {TIME_LIMIT:g} seconds") from None
        except BaseException:
            _stop(process)
            raise
    # A program that succeeds may also print such a message, so the exit status is tested first.
    if process.returncode and NO_MEMORY.search(err + out):
        raise _limited(name, f"needs more than {MEMORY_LIMIT >> 20} MiB of memory")
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _limit_memory(pid: int) -> None:
    """Limits the address space of a running process.

    The limit is set from this process, so that no Python code has to run in a forked child. Forking a large Python
    process takes 0.04 s."""
    try:
        from resource import RLIMIT_AS, prlimit
    except ImportError:  # not on this system: only the time is limited
        return
    with suppress(ProcessLookupError):  # the process has already ended
        prlimit(pid, RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))


def _stop(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _limited(program: str, how: str) -> DeviceError:
    hint = "divide the kernel into smaller ones; if it is small, one construct in it is too much for the program"
    return DeviceError("tool", f"{program} {how} for this text and was stopped", hint)


def _figures(log: str, entry: str | None) -> dict[str, int]:
    """Parses the figures of one entry from the log of ptxas. Its part of the log begins with "Compiling entry function
    'name'"."""
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
    """Returns the machine code as text, as `nvdisasm` prints it. Unless `options` are given, the text also contains the
    `.tile` lines.

    Raises DeviceError `tool` if nvdisasm is missing or fails."""
    with tempfile.NamedTemporaryFile(prefix="dsl-", suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(find("nvdisasm")), "--print-code", *(options or ("--print-line-info",)), file.name]
        done = _run(command)
    if done.returncode:
        raise DeviceError("tool", f"nvdisasm fails: {done.stderr.strip()}")
    return done.stdout


@cache
def version_of(program: str) -> str:
    """Returns the version of `ptxas` or `nvdisasm`, such as `13.5.34`. Raises DeviceError `tool` if the program is
    missing or fails."""
    done = _run([str(find(program)), "--version"])
    found = re.search(r"\bV(\d+(?:\.\d+)+)", done.stdout)
    if done.returncode or found is None:
        raise DeviceError("tool", f"{program} --version prints no version")
    return found[1]
