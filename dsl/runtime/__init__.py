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
    from dsl.runtime.transfer import to_device as to_device

HOME = {
    "Array": "dsl.runtime.arrays",
    "Assembly": "dsl.runtime.tools",
    "Bound": "dsl.runtime.launch",
    "DeviceArray": "dsl.runtime.cuda.memory",
    "DeviceAssertError": "dsl.runtime.errors",
    "DeviceError": "dsl.runtime.errors",
    "DeviceFacts": "dsl.runtime.chips",
    "FindingError": "dsl.runtime.errors",
    "Header": "dsl.runtime.header",
    "Kernel": "dsl.runtime.launch",
    "LaunchError": "dsl.runtime.errors",
    "LaunchResult": "dsl.runtime.result",
    "RuntimeFault": "dsl.runtime.errors",
    "assemble": "dsl.runtime.tools",
    "describe": "dsl.runtime.frameworks",
    "device_facts": "dsl.runtime.devices",
    "emulate": "dsl.runtime.emulator",
    "empty_like": "dsl.runtime.frameworks",
    "finish_like": "dsl.runtime.frameworks",
    "gpu_reason": "dsl.runtime.backend",
    "is_array": "dsl.runtime.frameworks",
    "sass": "dsl.runtime.tools",
    "synchronize": "dsl.runtime.launch",
    "to_device": "dsl.runtime.transfer",
}
"""Public name → the module that defines it."""


def __getattr__(name: str) -> Any:
    if name not in HOME:
        raise AttributeError(f"module 'dsl.runtime' has no attribute {name!r}")
    return getattr(import_module(HOME[name]), name)
