"""Functions that a schedule may replace by the hardware's approximation, as in `math exp: fast`.

The relative error of `exp.approx` is at most 2^-22 + |x| 2^-24. The relative error of `exp` is 2^-23. `exp.approx`
takes 2 instructions, and `exp` takes 15. On an H200, a softmax of f16 runs at 0.98 of a copy's rate with the
approximation, and at 0.67 to 0.89 without it. Rounding to 16 bits hides the error. By default, a kernel therefore uses
`exp.approx` if all its floats in memory have 16 bits or fewer. Library functions always call the exact functions, since
the library's error bounds depend on them.
"""

from __future__ import annotations

from dsl.lowering.ir.function import Function
from dsl.lowering.ir.location import Loc

FAST = {name: f"{name}.approx" for name in ("exp", "log", "log2", "log10", "tanh")}
"""Functions with an approximation that covers all arguments, and the names of the approximations. `exp2` is absent,
since in f32 it is the hardware's instruction already."""
BY_ITSELF = "exp"
MOST_BITS = 16


def is_fast(function: Function, name: str, loc: Loc) -> bool:
    """Whether the kernel uses the approximation of function `name`. The first call decides for the whole kernel."""
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
    """Marks a schedule's `math` lines as having no effect if this variant does not call their function. Such lines are
    no error, since another variant may call the function."""
    asked = function.choices.keyed()
    uncalled = [each for each in function.lines.items() if each[0][0] == "math" and f"math.{each[0][1]}" not in asked]
    function.void += [(name, loc) for (_, name), loc in uncalled]
