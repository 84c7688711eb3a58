"""`math exp: fast`: functions whose approximation a schedule may take in their place.

`exp.approx` errs by up to 2^-22 + |x| 2^-24 of the result, where `exp` errs by 2^-23, and takes 2 instructions for its
15: a softmax of f16 runs at 0.98 of a copy's rate with the one and at 0.67 to 0.89 with the other (H200). What is
rounded to 16 bits does not show the difference, so a kernel all of whose floats in memory have 16 bits or fewer takes
it by itself. In the language's own functions, which count on the exact ones, nothing changes.
"""

from __future__ import annotations

from dsl.lowering.ir.function import Function
from dsl.lowering.ir.location import Loc

FAST = {name: f"{name}.approx" for name in ("exp", "log", "log2", "log10", "tanh")}
"""The approximation of each function that has one for all of its arguments. `exp2` of f32 is the hardware's already."""
BY_ITSELF = "exp"
MOST_BITS = 16


def is_fast(function: Function, name: str, loc: Loc) -> bool:
    """Whether a kernel takes the approximation of a function: decided once, where the function is called first."""
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
    """Lines about functions that a variant does not call say nothing of it: what is called may hang on a constant."""
    asked = function.choices.keyed()
    uncalled = [each for each in function.lines.items() if each[0][0] == "math" and f"math.{each[0][1]}" not in asked]
    function.void += [(name, loc) for (_, name), loc in uncalled]
