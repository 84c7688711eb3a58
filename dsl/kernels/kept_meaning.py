"""Whether the passes of plug-ins keep what a kernel means, on the arguments of a launch that is about to be made.

`dsl verify` compares all levels on many shapes. Here only what plug-ins have done is compared, on the first blocks of
one launch: the kernel is carried out in numpy before each of their passes and behind it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

from dsl.kernels.variant import Request, Variant, build_variant
from dsl.lowering.ir.choices import ON_OFF
from dsl.lowering.passes import passes_of, run_passes
from dsl.text.program import Program

BLOCKS = 2
"""Blocks of a launch that are carried out: the first ones."""


class NotCompared(UserWarning):
    """A pass of a plug-in was not compared: the kernel has no meaning in numpy."""


def grid_of(variant: Variant, given: Mapping[str, Any]) -> tuple[int, ...]:
    """The grid of a launch with these arguments."""
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
    """Compares what a kernel means before and behind each pass of a plug-in, on these arguments in host memory, which
    stay as they are. TileError `plugin` for one that changes it."""
    passes = [each for each in passes_of(program.plugins) if each.plugin is not None]
    if not passes:
        return
    from dsl.lowering.meaning import Outside, carried_blocks
    from dsl.lowering.meaning.levels import Undecided, compare_levels

    variant = build_variant(program, request)
    function, left = variant.function, list(passes_of(program.plugins))
    regrid = partial(grid_of, variant, given)
    for each in passes:
        at = left.index(each)
        run_passes(function, variant.target, left[:at])
        left = left[at + 1 :]
        if each.plugin is None or (each.plugin.kind == "directive" and each.name not in function.attrs):
            continue
        if not function.choices.choose("pass", each.name, ON_OFF, "on"):
            continue
        grid = regrid()
        try:
            blocks = carried_blocks(function, grid, BLOCKS)
            found = compare_levels(function, variant.target, given, grid, blocks, (each,), regrid).divergence
        except (Undecided, Outside) as error:
            message = f"what the pass '{each.name}' makes of {function.name} is not compared: {error.message}"
            warnings.warn(message, NotCompared, stacklevel=2)
            return
        if found is not None:
            found.level = f"changes what {function.name} means"
            raise each.plugin.wrong(str(found), "dsl verify compares all passes, at other shapes, too")
