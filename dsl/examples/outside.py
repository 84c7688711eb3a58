"""Finds out whether loads outside of a tensor cause a failed `expect`. Such loads return 0, which makes the max of
negative numbers wrong. The example runs again with loads that return another number outside of tensors. A hint is given
only if the failed checks pass in this second run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from dsl.examples.mistaken import changed
from dsl.examples.report import Check
from dsl.lowering.ir.location import TileError
from dsl.runtime.errors import RuntimeFault
from dsl.text import tree as ast
from dsl.text.program import Program

MOST_SECONDS = 5.0
"""An example that took more than this many seconds is not run again."""
NEUTRAL = {
    ("max", "argmax", "cummax"): ("-inf", "-2147483648"),
    ("min", "argmin", "cummin"): ("inf", "2147483647"),
    ("prod", "cumprod"): ("1",),
}
"""Maps reductions to their neutral elements, for floats and for integers."""


def outside_of(
    program: Program, kernels: set[str], failed: list[Check], again: Callable[[Program], list[Check]]
) -> str | None:
    """Returns a hint if all failed checks pass when loads outside of tensors return another number. Otherwise returns
    None. `kernels` names the kernels that ran. `again(program)` runs the example with changed kernels."""
    blocks = [*(program.kernels[name] for name in kernels), *program.functions.values()]
    calls = [node for block in blocks for node in ast.walk(block) if isinstance(node, ast.Call)]
    loads = [call for call in calls if _name(call) == "load" and "other" not in call.keywords]
    names = {_name(call) for call in calls}
    # Without loads that lack `other`, there is nothing to try.
    if not loads:
        return None
    for reductions, numbers in NEUTRAL.items():
        for number in numbers if names & {*reductions} else ():
            with suppress(TileError, RuntimeFault):
                checks = again(_with_other(program, loads, number))
                if all(check.passed for check in checks if check.line in {each.line for each in failed}):
                    lines = ", ".join(dict.fromkeys(str(load.loc.line) for load in loads))
                    called = next(name for name in reductions if name in names)
                    return (
                        f"a load gives 0 outside of its tensor, and '{called}' counts it: all is right with "
                        f"other={number} in the {'loads' if len(loads) > 1 else 'load'} of line {lines}"
                    )
    return None


def _name(call: ast.Call) -> str | None:
    return call.function.id if isinstance(call.function, ast.Name) else None


def _with_other(program: Program, loads: list[ast.Call], number: str) -> Program:
    def other(call: Any) -> Any:
        if call not in loads:
            return None
        value: ast.Expr = ast.Name(call.loc, "inf") if "inf" in number else ast.Number(call.loc, int(number.strip("-")))
        value = ast.Unary(call.loc, "-", value) if number.startswith("-") else value
        return replace(call, keywords={**call.keywords, "other": value})

    kernels = {name: changed(block, other) for name, block in program.kernels.items()}
    functions = {name: changed(block, other) for name, block in program.functions.items()}
    # `found` caches facts about the old text.
    return replace(program, kernels=kernels, functions=functions, found={})
