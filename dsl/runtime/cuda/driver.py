"""Initialises the CUDA driver once, calls functions of `cuda.bindings.driver`, and converts error codes to
DeviceErrors."""

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
"""11.8, the first CUDA version whose driver has `cuLaunchKernelEx`."""
STICKY = frozenset([220, 700, 702, 710, 714, 715, 716, 717, 718, 719])
"""Error codes after which all calls in the context fail until the process ends (CUDA driver API, CUresult)."""


@cache
def bindings() -> Any:
    """Returns the module `cuda.bindings.driver`. The first call imports the module, which takes 78 ms."""
    from cuda.bindings import driver

    return driver


@cache
def _initialise() -> tuple[int, str | None]:
    """Initialises the driver. Returns the process id, and the reason why there is no GPU. The reason is None if there
    is a GPU."""
    try:
        cuda = bindings()
        (code,) = cuda.cuInit(0)
    except Exception as error:  # without a driver, the type of the error depends on the version of the bindings
        return os.getpid(), f"no CUDA driver: {' '.join(str(error).split())}"
    if code != 0:
        return os.getpid(), f"the CUDA driver does not start: {_describe(code)}"
    # CUDA_VISIBLE_DEVICES may hide all devices of a working driver.
    code, count = cuda.cuDeviceGetCount()
    return os.getpid(), None if code == 0 and count else "the CUDA driver has no device"


def unavailable() -> str | None:
    """Returns None if there is a GPU, and otherwise the reason why there is none. The first call initialises the
    driver."""
    return _initialise()[1]


@cache
def device_count() -> int:
    """Returns the number of GPUs that the driver reports. The driver must be initialised."""
    return call(bindings().cuDeviceGetCount)


@cache
def launch_configured() -> Callable[[int, int, int, int], int]:
    """Returns `cuLaunchKernelEx` as a C function that takes four addresses.

    The addresses are `getPtr()` of a CUlaunchConfig, the handle of a function, the array of argument addresses, and 0.
    The function in `cuda.bindings` would convert the config at each launch, which takes 50 µs."""
    address, _ = call(bindings().cuGetProcAddress, b"cuLaunchKernelEx", FIRST_WITH_CONFIGS, 0)
    if not address:
        raise DeviceError("cuda", "the driver launches no kernels with attributes", "a driver of CUDA 12")
    made: Any = ctypes.CFUNCTYPE(ctypes.c_int, *(ctypes.c_void_p,) * 4)(int(address))
    return made


def version() -> str:
    """Returns the CUDA version that the driver supports, such as `13.0`. The driver's own version is appended if it is
    in `/sys/module/nvidia/version`."""
    number = call(bindings().cuDriverGetVersion)
    module = Path("/sys/module/nvidia/version")
    own = f", driver {module.read_text().strip()}" if module.is_file() else ""
    return f"{number // 1000}.{number % 1000 // 10}{own}"


def forked() -> bool:
    """Returns whether the driver was initialised in a parent process. After a `fork`, it does not work in the child
    process."""
    return _initialise()[0] != os.getpid()


def after_fork_error() -> DeviceError:
    """Returns the error to raise when a forked child process uses the driver."""
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
    """Returns the DeviceError for an error code of the driver. `doing` names the operation that failed."""
    # After a fork the driver reports that it is not initialised, but the real cause is the fork.
    if int(code) == NOT_INITIALIZED and forked():
        return after_fork_error()
    return DeviceError("cuda", f"{doing} failed: {_describe(code)}")


def call(function: Any, *arguments: Any) -> Any:
    """Calls a driver function and returns its results without the error code. Raises DeviceError if the call fails."""
    code, *values = function(*arguments)
    if code != 0:
        raise error(code, function.__name__)
    return values[0] if len(values) == 1 else tuple(values)
