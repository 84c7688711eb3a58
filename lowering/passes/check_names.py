"""Refuses a schedule that lays out a value, or unrolls a loop, which the kernel does not have: all such lines at once.

First of the passes: later ones remove values (loads that are masked off take their indices along), and a layout of a
value that is gone says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from lowering.directives.grid import TILE
from lowering.directives.subjects import listed, unknown_subjects
from lowering.ir import Function, Op, Value, walk
from lowering.location import Errors, TileError, closest
from lowering.types import TileType

OF_LOOPS = ("fragments", "peel", "pipeline", "split", "unroll")
"""Properties whose subject is the counter of a loop."""


def defined_tiles(op: Op) -> Iterator[Value]:
    """Tiles that an operation defines, those of its loops' heads included."""
    yield from (r for r in op.results if isinstance(r.type, TileType))
    if op.spec.flows:  # regions of others join scalars
        yield from (a for region in op.regions for a in region.args if isinstance(a.type, TileType))


def check_names(function: Function) -> None:
    """TileError `layout` or `name` for a pin or an instruction of a value that no line defines, for a loop that there
    is not, for whatever else a line is about; Errors where there are several. What stands in a branch which the
    constants leave out is void: the schedule is of other variants too.
    """
    names: set[str] = set()
    counters: set[str] = set()
    matrices: set[str] = set()  # what sums of products may be
    products: set[str] = set()
    for op in walk(function.body):
        counters |= {c.name for region in op.regions for c in region.args[: op.spec.counters] if c.name}
        named = {value.name: value for value in defined_tiles(op) if value.name}
        names |= named.keys()
        matrices |= {name for name, value in named.items() if len(value.tile.shape) == 2}
        if op.spec.product:
            products |= {value.name for value in (op.result, op.operands[2]) if value.name}
        if op.spec.in_flight:
            names.add(f"{op.operands[0].name}.copy")
    errors = unknown_subjects(function)
    for name, pin in function.pins.items():
        if name not in names and name in function.in_branches:
            function.void.append((name, pin.loc))
        elif name not in names:
            message = f"kernel '{function.name}' has no value '{name}' to lay out"
            errors.append(TileError("layout", pin.loc, message, closest(name, names) or listed("values", names)))
    for name, instruction in function.instructions.items():
        if name not in names and name in function.in_branches:
            function.void.append((name, instruction.loc))
        elif name not in matrices:
            message = f"kernel '{function.name}' has no value '{name}' that is a product"
            hint = closest(name, products) or listed("products", products)
            errors.append(TileError("name", instruction.loc, message, hint))
    for (row, name), loc in function.lines.items():
        is_of_tiles = (row, name) == ("pipeline", TILE) and "persistent" in function.attrs
        if row not in OF_LOOPS or is_of_tiles or (row == "unroll" and name in function.written_out):
            continue
        if name not in counters and name in function.in_branches:
            function.void.append((name, loc))
        elif name not in counters:
            hint = closest(name, counters) or f"{listed('loops', counters)}; one 'for static' is unrolled as it is"
            if name in function.written_out:
                hint = f"'unroll {name}: all' leaves no loop"
            errors.append(TileError("name", loc, f"the kernel has no loop over '{name}'", hint))
    if errors:
        raise errors[0] if len(errors) == 1 else Errors(errors)
