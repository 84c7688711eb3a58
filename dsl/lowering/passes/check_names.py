"""Rejects schedules that name values or loops that the kernel does not have. Reports all lines with unknown names at
once.

This pass runs first, because later passes remove values. For example, removing a load that is masked off also removes
its indices. A line that sets the layout of a removed value is not a mistake.
"""

from __future__ import annotations

from collections.abc import Iterator

from dsl.lowering.directives.grid import TILE, may_persist
from dsl.lowering.directives.subjects import NamesThere, is_void, listed, names_in, unknown_subjects
from dsl.lowering.ir.function import Function
from dsl.lowering.ir.location import Errors, TileError, closest

OF_LOOPS = ("prefetch_fragments", "peel", "pipeline", "split", "unroll")
"""Properties whose subject is the counter of a loop."""


def check_names(function: Function) -> None:
    """Raises TileError `layout` or `name` for a line of the schedule whose value or loop does not exist. Raises Errors
    if there are several such lines.

    Some names occur only in a branch that the compile-time constants remove. A line with such a name is accepted and
    has no effect, because the same schedule is also used with other constants.
    """
    named = names_in(function)
    errors = unknown_subjects(function, named)
    errors += [error for each in (_of_pins, _of_instructions, _of_loops) for error in each(function, named)]
    if errors:
        raise errors[0] if len(errors) == 1 else Errors(errors)


def _of_pins(function: Function, named: NamesThere) -> Iterator[TileError]:
    for name, pin in function.pins.items():
        if name not in named.laid_out and not is_void(function, name, pin.loc):
            message = f"kernel '{function.name}' has no value '{name}' to lay out"
            tiles = {each for each in named.laid_out if each in named.tiles or each.endswith(".copy")}
            hint = closest(name, tiles) or listed("tiles", tiles)
            if name in named.shared:
                hint = f"'{name}' is a shared tile: 'swizzle {name}: …' places its elements in the banks"
                hint += f", 'layout {name}.copy: …' the threads that copy" if f"{name}.copy" in named.laid_out else ""
            yield TileError("layout", pin.loc, message, hint)


def _of_instructions(function: Function, named: NamesThere) -> Iterator[TileError]:
    for name, instruction in function.instructions.items():
        if name not in named.laid_out and is_void(function, name, instruction.loc):
            continue
        # A line of an imported part may name results of several kernels: instruction acc, part: wgmma.
        is_imported = function.loc is None or instruction.loc.source is not function.loc.source
        # Constants may have removed the branch with the product, so that the name has another value.
        others = is_imported or name in function.in_branches
        if name not in (named.matrices if others and named.products else named.products):
            message = f"kernel '{function.name}' has no value '{name}' that is a product"
            hint = closest(name, named.products) or listed("products", named.products)
            yield TileError("name", instruction.loc, message, hint)


def _of_loops(function: Function, named: NamesThere) -> Iterator[TileError]:
    for (row, name), loc in function.lines.items():
        is_of_tiles = (row, name) == ("pipeline", TILE) and ("persistent" in function.attrs or may_persist(function))
        if row not in OF_LOOPS or is_of_tiles or (row == "unroll" and name in function.written_out):
            continue
        if name not in named.counters and not is_void(function, name, loc):
            hint = f"{listed('loops', named.counters)}; one 'for static' is unrolled as it is"
            hint = closest(name, named.counters) or hint
            if name in function.written_out:
                hint = f"'unroll {name}: all' leaves no loop"
            yield TileError("name", loc, f"the kernel has no loop over '{name}'", hint)
