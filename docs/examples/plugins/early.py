"""A directive for schedules: `early NAMES` loads the named values as soon as their offsets are known.

The compiler, LLVM and the assembler keep loads in program order. A load after a reduction starts only when the
reduction has ended. A load before the reduction is in flight during the reduction, but occupies registers longer.

    dsl run early.tile --schedule ahead --plugin early.py
"""

from collections.abc import Iterator, Mapping

from dsl.lowering.ir.function import Function, Op, walk
from dsl.lowering.ir.location import TileError, closest
from dsl.lowering.ir.targets import Target
from dsl.plugin import directive


@directive(
    "early",
    subject="values",
    takes=None,
    doc="These values are loaded as soon as their offsets are known.",
    example="early weight",
    after="sink",
)
def early(function: Function, target: Target, said: Mapping[str, object]) -> None:
    named = {op.results[0].name: op for op in function.body.ops if op.results and op.results[0].name}
    for name in said:
        if name not in named:
            line = function.lines["early", name]
            raise TileError("name", line, f"no value '{name}' outside of loops", closest(name, named))
        for load in loads_of(named[name]):
            move_up(function.body.ops, load)


def loads_of(op: Op) -> Iterator[Op]:
    """The loads whose result `op` returns, directly or after conversions."""
    if op.name == "load":
        yield op
    elif op.name in ("cast", "convert_layout"):
        yield from (found for o in op.operands if o.op is not None for found in loads_of(o.op))


def move_up(ops: list[Op], load: Op) -> None:
    """Moves a load, with the operations that compute its offset, as far up as `waits_for` allows."""
    needed, moved = set(load.operands), [load]
    for op in reversed(ops[: ops.index(load)]):
        if waits_for(load, op) or (needed.intersection(op.results) and not op.spec.pure):
            break
        if needed.intersection(op.results):
            needed |= {*op.operands}
            moved.insert(0, op)
    else:
        op = None
    rest = [each for each in ops if each not in moved]
    at = 0 if op is None else rest.index(op) + 1
    ops[:] = [*rest[:at], *moved, *rest[at:]]


def waits_for(load: Op, op: Op) -> bool:
    """Whether a load must stay after `op`, because `op` synchronises threads or may change the memory that is read."""
    inside = [op, *(each for region in op.regions for each in walk(region))]
    return op.spec.keep or any(each.name != "load" and load.operands[0] in each.operands for each in inside)
