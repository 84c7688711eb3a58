"""dsl: a small tile language for NVIDIA GPUs. `.tile` text → PTX, launched on a GPU or run on a strict emulator.

import dsl
m = dsl.load("samples/softmax.tile")
y = m.softmax(x)                                   # arrays of torch, CuPy, JAX or numpy
k = m.compile("softmax_rows", cols=1000)           # one variant: k.ir, k.llvm, k.ptx
k(y, x)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dsl.calls.api import CompiledKernel as CompiledKernel
    from dsl.calls.api import Module as Module
    from dsl.calls.api import load as load
    from dsl.calls.api import parse as parse
    from lowering.location import TileError as TileError
    from runtime.errors import DeviceError as DeviceError
    from runtime.errors import FindingError as FindingError
    from runtime.errors import LaunchError as LaunchError

HOME = {
    "CompiledKernel": "dsl.calls.api",
    "DeviceError": "runtime.errors",
    "FindingError": "runtime.errors",
    "LaunchError": "runtime.errors",
    "Module": "dsl.calls.api",
    "TileError": "lowering.location",
    "load": "dsl.calls.api",
    "parse": "dsl.calls.api",
}
"""Where each public name lives; loaded at first use."""


def __getattr__(name: str) -> Any:
    if name not in HOME:
        raise AttributeError(f"module 'dsl' has no attribute {name!r}")
    return getattr(import_module(HOME[name]), name)
