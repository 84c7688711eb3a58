"""Shared libraries of C for XLA: finds the compiler and the headers, builds, keeps and loads a library.

A library is kept in the compile cache. Its key has all that decides its machine code: the text, the compiler, its
options, and the headers."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from platform import machine

import jax
from msgspec import Struct

from dsl.runtime.backend import choose
from dsl.runtime.store import key_of

FLAGS = ("-std=c11", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread")
TIME_LIMIT = 120.0
"""Time limit for the compiler in seconds. It takes 0.2 s for softmax."""
FFI_HEADER = Path("xla", "ffi", "api", "c_api.h")


class NoForeignCall(Exception):
    """Why a call cannot go through XLA's foreign functions (FFI)."""


class FailedForeignCall(NoForeignCall):
    """A call could go through XLA's foreign functions, but a tool of this machine fails."""


class ForeignPlatform(Struct, frozen=True):
    """A platform of XLA on which calls go through its foreign functions.

    `name` is its name in `jax.lax.platform_dependent`, and `registered` its name where handlers are registered.
    `serves` tells whether the calls of a module with this device may go there. `headers` are folders, and `sources`
    more C files of a library. `enter` makes the context of a device current. `load` loads what libraries need, before
    the first one."""

    name: str
    registered: str
    serves: Callable[[str], bool]
    has_streams: bool
    headers: tuple[str, ...]
    sources: tuple[str, ...]
    enter: Callable[[], AbstractContextManager[object]]
    load: Callable[[], object]


@cache
def cuda_platform() -> ForeignPlatform:
    """Returns the platform of NVIDIA's GPUs. Raises NoForeignCall if the process has none, or no headers of CUDA."""
    try:
        jax.devices("cuda")
    except RuntimeError:
        raise NoForeignCall("JAX has no NVIDIA GPU in this process") from None
    return ForeignPlatform("cuda", "CUDA", is_gpu, True, (cuda_headers(),), (), on_first_gpu, load_driver)


def is_gpu(device: str) -> bool:
    return choose(device) is not None


def cuda_headers() -> str:
    """Returns the folder of `cuda.h`. Raises NoForeignCall if there is none."""
    try:
        from cuda.pathfinder import find_nvidia_header_directory
    except ImportError:
        raise NoForeignCall(
            "this version of cuda-pathfinder finds no headers: pip install -U cuda-pathfinder"
        ) from None
    found = find_nvidia_header_directory("cudart")
    if found is None or not Path(found, "cuda.h").is_file():
        raise NoForeignCall("cuda.h is not installed: pip install nvidia-cuda-runtime, or the CUDA toolkit")
    return found


@contextmanager
def on_first_gpu() -> Iterator[None]:
    """Makes the context of the first GPU of JAX current. JAX and this runtime use the primary context."""
    from dsl.runtime.cuda.context import context

    with context(jax.local_devices(backend="cuda")[0].local_hardware_id).current():
        yield


@cache
def load_driver() -> ctypes.CDLL:
    """Makes the functions of the driver visible to libraries, which are not linked with it: the linker needs a file
    `libcuda.so`, which many machines with a driver lack."""
    return ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL)


@cache
def compiler() -> tuple[str, ...]:
    """Returns the command of the C compiler: `CC`, or the first of cc, gcc and clang. Raises NoForeignCall if there is
    none."""
    named = shlex.split(os.environ.get("CC", ""))
    for first, *rest in [named] if named else [["cc"], ["gcc"], ["clang"]]:
        if (found := shutil.which(first)) is not None:
            return (found, *rest)
    raise NoForeignCall(f"there is no C compiler: {named[0] if named else 'cc, gcc or clang'} is not on the PATH")


@cache
def ffi_headers() -> str:
    """Returns the folder of XLA's headers, which jaxlib contains."""
    folder = jax.ffi.include_dir() if hasattr(jax, "ffi") else ""  # jax 0.5 has it
    if not Path(folder, FFI_HEADER).is_file():
        raise NoForeignCall("this version of jaxlib has no C headers for XLA's foreign functions")
    return folder


@cache
def toolchain(platform: ForeignPlatform) -> str:
    """Returns a digest of all but the text that decides the machine code of a library. Raises NoForeignCall if
    something is missing."""
    program = os.path.realpath(compiler()[0])
    status = os.stat(program)
    parts: list[str | bytes] = [machine(), *compiler(), program, str(status.st_size), str(status.st_mtime_ns), *FLAGS]
    parts.append(Path(ffi_headers(), FFI_HEADER).read_bytes())
    parts += [Path(folder, "cuda.h").read_bytes() for folder in platform.headers]
    parts += [Path(source).read_bytes() for source in platform.sources]
    return key_of(*parts)


def build(platform: ForeignPlatform, texts: Mapping[str, str], main: str, flags: tuple[str, ...] = ()) -> bytes:
    """Compiles the file `main` of some texts to a library. Raises FailedForeignCall if the compiler fails."""
    with tempfile.TemporaryDirectory(prefix="dsl-jax-") as folder:
        for name, text in texts.items():
            Path(folder, name).write_text(text)
        library = Path(folder, "library.so")
        headers = [word for each in (ffi_headers(), *platform.headers) for word in ("-isystem", each)]
        sources = [str(Path(folder, main)), *platform.sources]
        command = [*compiler(), *FLAGS, *flags, *headers, *sources, "-o", str(library), "-lm"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=TIME_LIMIT)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise FailedForeignCall(f"the C compiler does not run: {error}") from None
        if done.returncode:
            raise FailedForeignCall(f"the C compiler fails: {done.stderr.strip()[:1000]}")
        return library.read_bytes()


def load(platform: ForeignPlatform, library: bytes) -> ctypes.CDLL:
    """Loads a library into this process. Raises FailedForeignCall if the system refuses
    it."""
    with tempfile.TemporaryDirectory(prefix="dsl-jax-") as folder:  # of this user alone; a loaded file may be removed
        path = Path(folder, "library.so")
        path.write_bytes(library)
        try:
            platform.load()
            return ctypes.CDLL(str(path))
        except OSError as error:
            raise FailedForeignCall(f"the library of the call does not load: {error}") from None
