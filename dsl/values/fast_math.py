"""`math exp: fast`: functions that a schedule may replace by the hardware's approximation. `exp.approx` errs by up to
2^-22 + |x| 2^-24 of the result, where `exp` errs by 2^-23, and takes 2 instructions for its 15: a softmax of f16 runs
at 0.98 of a copy's rate with the approximation and at 0.67 to 0.89 without it (H200). Rounding to 16 bits hides the
difference, so a kernel whose floats in memory all have 16 bits or fewer takes it by rule. The language's own functions
keep the exact ones, since their error bounds depend on them.
"""

from __future__ import annotations

from dsl.lowering.ir.function import Function
from dsl.lowering.ir.location import Loc

FAST = {name: f"{name}.approx" for name in ("exp", "log", "log2", "log10", "tanh")}
"""Functions with an approximation for all of their arguments. `exp2` of f32 is the hardware's already."""
BY_ITSELF = "exp"
MOST_BITS = 16


def is_fast(function: Function, name: str, loc: Loc) -> bool:
    """Whether a kernel takes the approximation of a function. Decided once, at the first call."""
    made = function.choices.keyed().get(f"math.{name}")
    if made is not None:
        return made.taken == "fast"
    said, line = function.by_subject("math", str).get(name), function.lines.get(("math", name))
    bits = [p.dtype.bits for p in function.params if p.kind == "tensor" and p.dtype.is_float]
    rule = "fast" if name == BY_ITSELF and max(bits, default=64) <= MOST_BITS else "exact"
    because = f"all floats in memory have {MOST_BITS} bits or fewer" if rule == "fast" else "floats in memory show it"
    because = "the schedule says so" if said else because
    return function.choices.choose(
        "math",
        name,
        {"exact": False, "fast": True},
        said or rule,
        loc=line or loc,
        because=because,
        pinned=line if said else None,
        line=f"math {name}: {{option}}",
    )


def void_uncalled(function: Function) -> None:
    """Marks the lines about functions that a variant does not call as void. They are no error: calls may depend on a
    constant."""
    asked = function.choices.keyed()
    uncalled = [each for each in function.lines.items() if each[0][0] == "math" and f"math.{each[0][1]}" not in asked]
    function.void += [(name, loc) for (_, name), loc in uncalled]
