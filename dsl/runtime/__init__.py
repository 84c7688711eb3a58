"""Runs PTX text: on NVIDIA GPUs through the CUDA driver, or on a strict emulator in numpy.

    from dsl import runtime

    kernel = runtime.Kernel(ptx)      # PTX with a `//dsl ` header
    kernel(y, x)                      # arrays of torch, CuPy, JAX or numpy
    runtime.synchronize()

Each public name is imported at its first use, so `import dsl.runtime` loads neither numpy nor CUDA nor the emulator.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dsl.runtime.arrays import Array as Array
    from dsl.runtime.backend import gpu_reason as gpu_reason
    from dsl.runtime.chips import DeviceFacts as DeviceFacts
    from dsl.runtime.cuda.memory import DeviceArray as DeviceArray
    from dsl.runtime.devices import device_facts as device_facts
    from dsl.runtime.emulator import emulate as emulate
    from dsl.runtime.errors import DeviceAssertError as DeviceAssertError
    from dsl.runtime.errors import DeviceError as DeviceError
    from dsl.runtime.errors import FindingError as FindingError
    from dsl.runtime.errors import LaunchError as LaunchError
    from dsl.runtime.errors import RuntimeFault as RuntimeFault
    from dsl.runtime.frameworks import describe as describe
    from dsl.runtime.frameworks import empty_like as empty_like
    from dsl.runtime.frameworks import finish_like as finish_like
    from dsl.runtime.frameworks import is_array as is_array
    from dsl.runtime.header import Header as Header
    from dsl.runtime.launch import Bound as Bound
    from dsl.runtime.launch import Kernel as Kernel
    from dsl.runtime.launch import synchronize as synchronize
    from dsl.runtime.result import LaunchResult as LaunchResult
    from dsl.runtime.tools import Assembly as Assembly
    from dsl.runtime.tools import assemble as assemble
    from dsl.runtime.tools import sass as sass
    from dsl.runtime.transfer import by_dlpack as by_dlpack
    from dsl.runtime.transfer import to_device as to_device

NAMES = {
    "arrays": ("Array",),
    "backend": ("gpu_reason",),
    "chips": ("DeviceFacts",),
    "cuda.memory": ("DeviceArray",),
    "devices": ("device_facts",),
    "emulator": ("emulate",),
    "errors": ("DeviceAssertError", "DeviceError", "FindingError", "LaunchError", "RuntimeFault"),
    "frameworks": ("describe", "empty_like", "finish_like", "is_array"),
    "header": ("Header",),
    "launch": ("Bound", "Kernel", "synchronize"),
    "result": ("LaunchResult",),
    "tools": ("Assembly", "assemble", "sass"),
    "transfer": ("by_dlpack", "to_device"),
}
"""Module → the public names that it defines."""
HOME = {name: f"dsl.runtime.{module}" for module, names in NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in HOME:
        raise AttributeError(f"module 'dsl.runtime' has no attribute {name!r}")
    return getattr(import_module(HOME[name]), name)
