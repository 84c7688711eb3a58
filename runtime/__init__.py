"""Runs PTX text: on NVIDIA GPUs through the CUDA driver, or on a strict emulator in numpy.

    kernel = runtime.Kernel(ptx)      # PTX with a `//dsl ` header
    kernel(y, x)                      # arrays of torch, CuPy, JAX or numpy
    runtime.synchronize()

Every name is loaded at its first use: `import runtime` loads neither numpy nor CUDA nor the emulator.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runtime.arrays import Array as Array
    from runtime.backend import gpu_reason as gpu_reason
    from runtime.chips import DeviceFacts as DeviceFacts
    from runtime.cuda.memory import DeviceArray as DeviceArray
    from runtime.devices import device_facts as device_facts
    from runtime.emulator import emulate as emulate
    from runtime.errors import DeviceAssertError as DeviceAssertError
    from runtime.errors import DeviceError as DeviceError
    from runtime.errors import FindingError as FindingError
    from runtime.errors import LaunchError as LaunchError
    from runtime.errors import RuntimeFault as RuntimeFault
    from runtime.frameworks import describe as describe
    from runtime.frameworks import empty_like as empty_like
    from runtime.frameworks import finish_like as finish_like
    from runtime.frameworks import is_array as is_array
    from runtime.header import Header as Header
    from runtime.launch import Bound as Bound
    from runtime.launch import Kernel as Kernel
    from runtime.launch import synchronize as synchronize
    from runtime.result import LaunchResult as LaunchResult
    from runtime.tools import Assembly as Assembly
    from runtime.tools import assemble as assemble
    from runtime.tools import sass as sass
    from runtime.transfer import to_device as to_device

HOME = {
    "Array": "runtime.arrays",
    "Assembly": "runtime.tools",
    "Bound": "runtime.launch",
    "DeviceArray": "runtime.cuda.memory",
    "DeviceAssertError": "runtime.errors",
    "DeviceError": "runtime.errors",
    "DeviceFacts": "runtime.chips",
    "FindingError": "runtime.errors",
    "Header": "runtime.header",
    "Kernel": "runtime.launch",
    "LaunchError": "runtime.errors",
    "LaunchResult": "runtime.result",
    "RuntimeFault": "runtime.errors",
    "assemble": "runtime.tools",
    "describe": "runtime.frameworks",
    "device_facts": "runtime.devices",
    "emulate": "runtime.emulator",
    "empty_like": "runtime.frameworks",
    "finish_like": "runtime.frameworks",
    "gpu_reason": "runtime.backend",
    "is_array": "runtime.frameworks",
    "sass": "runtime.tools",
    "synchronize": "runtime.launch",
    "to_device": "runtime.transfer",
}
"""Where each public name lives."""


def __getattr__(name: str) -> Any:
    if name not in HOME:
        raise AttributeError(f"module 'runtime' has no attribute {name!r}")
    return getattr(import_module(HOME[name]), name)
