"""Refuses a schedule that lays out a value, or unrolls a loop, which the kernel does not have: all such lines at once.

First of the passes: later ones remove values (loads that are masked off take their indices along), and a layout of a
value that is gone says nothing.
"""

from __future__ import annotations

from dsl.lowering.directives.grid import TILE
from dsl.lowering.directives.subjects import listed, names_in, unknown_subjects
from dsl.lowering.ir.function import Function
from dsl.lowering.ir.location import Errors, TileError, closest

OF_LOOPS = ("prefetch_fragments", "peel", "pipeline", "split", "unroll")
"""Properties whose subject is the counter of a loop."""


def check_names(function: Function) -> None:
    """TileError `layout` or `name` for a pin or an instruction of a value that no line defines, for a loop that there
    is not, for whatever else a line is about; Errors where there are several. What stands in a branch which the
    constants leave out is void: the schedule is of other variants too.
    """
    named = names_in(function)
    errors = unknown_subjects(function, named)
    for name, pin in function.pins.items():
        if name not in named.laid_out and name in function.in_branches:
            function.void.append((name, pin.loc))
        elif name not in named.laid_out:
            message = f"kernel '{function.name}' has no value '{name}' to lay out"
            tiles = {each for each in named.laid_out if each in named.tiles or each.endswith(".copy")}
            hint = closest(name, tiles) or listed("tiles", tiles)
            errors.append(TileError("layout", pin.loc, message, hint))
    for name, instruction in function.instructions.items():
        if name not in named.laid_out and name in function.in_branches:
            function.void.append((name, instruction.loc))
        elif name not in named.matrices:
            message = f"kernel '{function.name}' has no value '{name}' that is a product"
            hint = closest(name, named.products) or listed("products", named.products)
            errors.append(TileError("name", instruction.loc, message, hint))
    for (row, name), loc in function.lines.items():
        is_of_tiles = (row, name) == ("pipeline", TILE) and "persistent" in function.attrs
        if row not in OF_LOOPS or is_of_tiles or (row == "unroll" and name in function.written_out):
            continue
        if name not in named.counters and name in function.in_branches:
            function.void.append((name, loc))
        elif name not in named.counters:
            hint = f"{listed('loops', named.counters)}; one 'for static' is unrolled as it is"
            hint = closest(name, named.counters) or hint
            if name in function.written_out:
                hint = f"'unroll {name}: all' leaves no loop"
            errors.append(TileError("name", loc, f"the kernel has no loop over '{name}'", hint))
    if errors:
        raise errors[0] if len(errors) == 1 else Errors(errors)
