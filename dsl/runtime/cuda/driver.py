"""`cuda.bindings.driver`: imported and initialised once; its error codes become DeviceErrors."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from dsl.runtime.errors import DeviceError

NOT_INITIALIZED = 3
FIRST_WITH_CONFIGS = 11080
"""The first CUDA version whose driver has `cuLaunchKernelEx` (11.8)."""
STICKY = frozenset([220, 700, 702, 710, 714, 715, 716, 717, 718, 719])
"""Codes after which every call in the context fails until the process ends (CUDA driver API, CUresult)."""


@cache
def bindings() -> Any:
    """The module `cuda.bindings.driver`, imported at first use (78 ms)."""
    from cuda.bindings import driver

    return driver


@cache
def _initialise() -> tuple[int, str | None]:
    """(process that initialised, why there is no GPU)."""
    try:
        cuda = bindings()
        (code,) = cuda.cuInit(0)
    except Exception as error:  # without a driver, by version of the bindings
        return os.getpid(), f"no CUDA driver: {' '.join(str(error).split())}"
    if code != 0:
        return os.getpid(), f"the CUDA driver does not start: {_describe(code)}"
    # CUDA_VISIBLE_DEVICES may hide all devices of a working driver.
    code, count = cuda.cuDeviceGetCount()
    return os.getpid(), None if code == 0 and count else "the CUDA driver has no device"


def unavailable() -> str | None:
    """Why there is no GPU; None if there is one. The first call starts the driver."""
    return _initialise()[1]


@cache
def device_count() -> int:
    """The number of the driver's devices; it must have been started."""
    return call(bindings().cuDeviceGetCount)


@cache
def launch_configured() -> Callable[[int, int, int, int], int]:
    """`cuLaunchKernelEx` by addresses: of a CUlaunchConfig (its `getPtr`), a function, the arguments' addresses, and 0.
    The bindings' own function converts the caller's config at each launch, which takes 50 µs."""
    address, _ = call(bindings().cuGetProcAddress, b"cuLaunchKernelEx", FIRST_WITH_CONFIGS, 0)
    if not address:
        raise DeviceError("cuda", "the driver launches no kernels with attributes", "a driver of CUDA 12")
    made: Any = ctypes.CFUNCTYPE(ctypes.c_int, *(ctypes.c_void_p,) * 4)(int(address))
    return made


def version() -> str:
    """The CUDA version that the driver supports (13.0), and its own version if the kernel module reports it."""
    number = call(bindings().cuDriverGetVersion)
    module = Path("/sys/module/nvidia/version")
    own = f", driver {module.read_text().strip()}" if module.is_file() else ""
    return f"{number // 1000}.{number % 1000 // 10}{own}"


def forked() -> bool:
    """Whether the driver was started in a parent process: it does not survive `fork`."""
    return _initialise()[0] != os.getpid()


def after_fork_error() -> DeviceError:
    """The error of every use of the driver in a forked child."""
    return DeviceError(
        "cuda",
        "CUDA was started before this process was forked, and does not work in the child",
        'start processes with multiprocessing.get_context("spawn"), or fork before the first launch',
    )


def require(ordinal: int = 0) -> None:
    """Raises DeviceError `no-gpu` or `cuda` unless device `ordinal` can be used."""
    if (reason := unavailable()) is not None:
        raise DeviceError("no-gpu", reason, "use the device emulator")
    if forked():
        raise after_fork_error()
    if not 0 <= ordinal < device_count():
        raise DeviceError("no-gpu", f"there is no device cuda:{ordinal}: the driver has {device_count()}")


def _describe(code: Any) -> str:
    cuda = bindings()
    texts = []
    for function in (cuda.cuGetErrorName, cuda.cuGetErrorString):
        failed, text = function(code)
        if failed == 0 and text:
            texts.append(text.decode())
    return ": ".join(texts) or f"error {int(code)}"


def error(code: Any, doing: str) -> DeviceError:
    """The DeviceError of a driver's code; `doing` names what failed."""
    # After a fork the driver claims not to be initialised: the real cause is the fork.
    if int(code) == NOT_INITIALIZED and forked():
        return after_fork_error()
    return DeviceError("cuda", f"{doing} failed: {_describe(code)}")


def call(function: Any, *arguments: Any) -> Any:
    """Calls a driver function and unpacks its result. Raises DeviceError unless it succeeded."""
    code, *values = function(*arguments)
    if code != 0:
        raise error(code, function.__name__)
    return values[0] if len(values) == 1 else tuple(values)
