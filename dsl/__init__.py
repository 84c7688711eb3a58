"""dsl: a small tile language for NVIDIA GPUs. Compiles `.tile` text to PTX, and runs the PTX on a GPU or an emulator.

import dsl
m = dsl.load("samples/softmax.tile")
y = m.softmax(x)                                   # arrays of torch, CuPy, JAX or numpy
k = m.compile("softmax_rows", cols=1000)           # one variant: k.ir, k.llvm, k.ptx
k(y, x)
dsl.ablate("samples/softmax.tile", kinds="math")   # the result of `dsl ablate`, as a table
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dsl.kernels import garbage

if TYPE_CHECKING:
    from dsl.calls.api import CompiledKernel as CompiledKernel
    from dsl.calls.api import Module as Module
    from dsl.calls.api import load as load
    from dsl.calls.api import parse as parse
    from dsl.command.functions import ablate as ablate
    from dsl.command.functions import bench as bench
    from dsl.command.functions import bisect as bisect
    from dsl.command.functions import count as count
    from dsl.command.functions import diff as diff
    from dsl.command.functions import fuzz as fuzz
    from dsl.command.functions import layouts as layouts
    from dsl.command.functions import run as run
    from dsl.command.functions import trials as trials
    from dsl.command.functions import tune as tune
    from dsl.command.functions import why as why
    from dsl.command.notebook import load_ipython_extension as load_ipython_extension
    from dsl.command.table import ResultTable as ResultTable
    from dsl.lowering.ir.location import TileError as TileError
    from dsl.runtime.errors import DeviceError as DeviceError
    from dsl.runtime.errors import FindingError as FindingError
    from dsl.runtime.errors import LaunchError as LaunchError
    from dsl.runtime.store import set_cache as set_cache

__version__ = "0.2.0"

HOME = {
    "CompiledKernel": "dsl.calls.api",
    "DeviceError": "dsl.runtime.errors",
    "FindingError": "dsl.runtime.errors",
    "LaunchError": "dsl.runtime.errors",
    "Module": "dsl.calls.api",
    "ResultTable": "dsl.command.table",
    "TileError": "dsl.lowering.ir.location",
    "ablate": "dsl.command.functions",
    "bench": "dsl.command.functions",
    "bisect": "dsl.command.functions",
    "count": "dsl.command.functions",
    "diff": "dsl.command.functions",
    "fuzz": "dsl.command.functions",
    "layouts": "dsl.command.functions",
    "load": "dsl.calls.api",
    "load_ipython_extension": "dsl.command.notebook",
    "parse": "dsl.calls.api",
    "run": "dsl.command.functions",
    "set_cache": "dsl.runtime.store",
    "trials": "dsl.command.functions",
    "tune": "dsl.command.functions",
    "why": "dsl.command.functions",
}
"""The module that defines each public name. The module is loaded at first use."""


def __getattr__(name: str) -> Any:
    if name not in HOME:
        raise AttributeError(f"module 'dsl' has no attribute {name!r}")
    with garbage.imports():
        return getattr(import_module(HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*HOME, *(name for name in globals() if name.startswith("__"))])
