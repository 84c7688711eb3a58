"""Declares functions of floats: roots, rounding to whole numbers, and the hardware's approximations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dsl.lowering.ir.function import Op
from dsl.lowering.ir.types import DType
from dsl.lowering.ops.elementwise.declare import Writes, function, intrinsic, intrinsic_of_f32
from dsl.lowering.ops.spec import Algebra


def _fused(dtype: DType, a: Any, b: Any, c: Any) -> Any:
    from dsl.lowering.machine.formats import fused

    return fused(a, b, c, dtype)


def _nearest(x: float) -> float:
    return float(round(x)) if isinstance(x, float) else x


function("sqrt", 1, "a float", "sqrt(x)", "√x, rounded once", intrinsic_of_f32("sqrt"), "sqrt", numbers=math.sqrt)
function(
    "fma", 3, "a float", "fma(a, b, c)", "a·b + c, rounded once", intrinsic("fma"), _fused, on_host=False,
    algebra=Algebra(sums=(2, "add")),
)  # fmt: skip
function(
    "copysign", 2, "a float", "copysign(x, sign)", "x with that sign", intrinsic("copysign"), "copysign",
    numbers=math.copysign,
)  # fmt: skip

for _name, _means, _llvm, _numpy, _mode, _numbers in (
    ("floor", "rounds down", "floor", "floor", "rm", math.floor),
    ("ceil", "rounds up", "ceil", "ceil", "rp", math.ceil),
    ("trunc", "x without its fraction", "trunc", "trunc", "rz", math.trunc),
    ("round", "rounds to nearest, ties to even", "roundeven", "rint", "rn", _nearest),
):
    function(
        _name, 1, "a float", f"{_name}(x)", _means, intrinsic_of_f32(_llvm), _numpy, numbers=_numbers,
        algebra=Algebra(rounds=_mode),
    )  # fmt: skip


# ---- the hardware's approximations ----


def _approximated(w: Writes, op: Op, dtype: DType, llvm: str, x: list[str]) -> str:
    return w.template(f"{op.name}.f32", [x[0]], op)[0]


def _inverse_root(dtype: DType, x: Any) -> Any:
    import numpy as np

    return 1 / np.sqrt(x)


_APPROXIMATIONS: tuple[tuple[str, str, str | Callable[..., Any], float, float], ...] = (
    ("ex2.approx", "2^x", "exp2", 2.0**-22, 0.0),
    ("ex2.approx.ftz", "2^x; flushes subnormals", "exp2", 2.0**-22, 0.0),
    ("lg2.approx", "log2 x", "log2", 2.0**-22, 2.0**-22),
    ("sin.approx", "sin x, from -π to π", "sin", 0.0, 2.0**-20.5),
    ("cos.approx", "cos x, from -π to π", "cos", 0.0, 2.0**-20.5),
    ("tanh.approx", "tanh x", "tanh", 2.0**-10.98, 0.0),
    ("rcp.approx", "1/x", "reciprocal", 2.0**-23, 0.0),
    ("rsqrt.approx", "1/√x", _inverse_root, 2.0**-22.9, 0.0),
    ("sqrt.approx", "√x", "sqrt", 2.0**-23, 0.0),
)
for _name, _means, _exact, _relative, _absolute in _APPROXIMATIONS:
    _lowest = 0.0 if _name.startswith("ex2") else None
    function(
        _name, 1, "f32", f"{_name}(x)", _means, _approximated, _exact, bound=(_relative, _absolute),
        algebra=Algebra(lowest=_lowest),
    )  # fmt: skip
