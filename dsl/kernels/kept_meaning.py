"""Checks that passes of plug-ins do not change a kernel's results, on the arguments of the next launch.

`dsl verify` compares all levels on many shapes. This module checks only the passes of plug-ins, on the first blocks of
one launch. The kernel is executed in numpy before and after each of these passes.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

from dsl.kernels.compile import settled
from dsl.kernels.variant import Request, Variant, build_variant
from dsl.lowering.ir.choices import ON_OFF
from dsl.lowering.passes import passes_of, run_passes
from dsl.text.program import Program

BLOCKS = 2
"""The number of blocks that numpy runs. These are the first blocks of the grid."""


class NotCompared(UserWarning):
    """Warns that a plug-in's pass was not compared, because the kernel has no reference semantics in numpy."""


def grid_of(variant: Variant, given: Mapping[str, Any]) -> tuple[int, ...]:
    """Computes the grid of a launch with these arguments."""
    from dsl.runtime import device_facts
    from dsl.runtime.expressions import compile_expression

    names: dict[str, Any] = {"sms": variant.request.sms or device_facts("emulator", variant.target.arch).sms}
    for p in variant.function.params:
        if p.kind == "scalar":
            names[p.name] = given[p.name]
        elif p.kind == "tensor" and given.get(p.name) is not None:
            names |= {d: e for d, e in zip(p.dims, given[p.name].shape, strict=True) if isinstance(d, str)}
    names = {**variant.constants, **names}
    return tuple(int(compile_expression(e).evaluate(names)) for e in variant.grid)


def check_meaning(program: Program, request: Request, given: Mapping[str, Any]) -> None:
    """Compares the results of a kernel before and after each pass of a plug-in. The arguments are in host memory and
    are not modified. Raises TileError `plugin` for a pass that changes the results."""
    passes = [each for each in passes_of(program.plugins) if each.plugin is not None]
    if not passes:
        return
    from dsl.lowering.meaning import Outside, carried_blocks
    from dsl.lowering.meaning.levels import Undecided, compare_levels

    variant = build_variant(program, settled(program, request))
    function, left = variant.function, list(passes_of(program.plugins))
    regrid = partial(grid_of, variant, given)
    for each in passes:
        at = left.index(each)
        run_passes(function, variant.target, left[:at])
        left = left[at + 1 :]
        # A directive without a line in the schedule does nothing.
        if each.plugin is None or (each.plugin.kind == "directive" and each.name not in function.attrs):
            continue
        if not function.choices.choose("pass", each.name, ON_OFF, "on"):
            continue
        grid = regrid()
        try:
            blocks = carried_blocks(function, grid, BLOCKS)
            found = compare_levels(function, variant.target, given, grid, blocks, (each,), regrid).divergence
        except (Undecided, Outside) as error:
            message = f"the pass '{each.name}' is not compared on {function.name}: {error.message}"
            warnings.warn(message, NotCompared, stacklevel=2)
            return
        if found is not None:
            found.level = f"changes what {function.name} means"
            raise each.plugin.wrong(str(found), "dsl verify compares all passes, at other shapes, too")
