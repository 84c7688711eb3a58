"""`precompute inside: t`: computes the flag `inside` before the short loop t, as one bit for each iteration.

    for t in range(9):                          bits = (… for t = 0 …) | (… for t = 1 …) << 1 | …
        inside = … row, col, t …       →        for t in range(9):
        x = load a[…] if inside                     inside = bits & 1 << t != 0
                                                    x = load a[…] if inside

A tile of flags becomes a tile of words, one word for each element. The words are computed before the outermost loop in
which no input of the flag changes, except the counter. No flag is precomputed by default.
"""

from __future__ import annotations

from dsl.lowering.building.builder import Builder
from dsl.lowering.directives.slices import impure, leaves_of, located, made_anew, slice_of
from dsl.lowering.directives.subjects import unknown
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Block, Function, Op, Value, replace_uses, walk
from dsl.lowering.ir.location import Loc, TileError
from dsl.lowering.ir.types import DTYPES, I1, DType

WORDS = {32: DTYPES["u32"], 64: DTYPES["u64"]}
WAYS = {"bits": True, "computed": False}
Around = list[tuple[Op, Block]]
"""Nested loops, the outermost first. Each entry contains a loop and the block in which the loop is."""


def precompute(function: Function) -> None:
    """Precomputes the flags in `precompute` lines. Raises TileError `name` for an unknown flag. Raises TileError
    `schedule` if a value is not a flag, or if it cannot be computed before the loop."""
    for name, counter in function.by_subject("precompute", str).items():
        loc = function.lines.get(("precompute", name))
        found = _find(function.body, name, [])
        if not found:
            named = {r.name for op in walk(function.body) for r in op.results if r.name}
            unknown(function, "precompute", name, named)
        for value, around in found:
            _precompute(function, value, around, counter, loc)


def _find(block: Block, name: str, around: Around) -> list[tuple[Value, Around]]:
    """Finds the values called `name` in loops. Returns for each value the loops around it."""
    found: list[tuple[Value, Around]] = []
    for op in block.ops:
        found += [(r, around) for r in op.results if r.name == name and around]
        for region in op.regions:
            found += _find(region, name, [*around, (op, block)] if op.spec.control.counters else around)
    return found


def _precompute(function: Function, value: Value, around: Around, counter: str, loc: Loc | None) -> None:
    name = value.name or "value"

    def refuse(message: str, hint: str) -> TileError:
        return TileError("schedule", loc or function.loc, f"'{name}' cannot be precomputed: {message}", hint)

    if value.dtype is not I1:
        raise refuse(f"it is {value.dtype}, and a flag is {I1}", "name the mask")
    levels = [i for i, (loop, _) in enumerate(around) if loop.regions[0].args[0].name == counter]
    if not levels:
        names = [loop.regions[0].args[0].name for loop, _ in around]
        raise refuse(f"it is in no loop over '{counter}'", f"over: {', '.join(n for n in names if n)}")
    level = levels[-1]
    loop = around[level][0]
    start, stop, step = (constant_of(v) for v in loop.operands[:3])
    if start is None or stop is None or step is None:
        raise refuse(f"the trip count of the loop over '{counter}' is known only at run time", "specialize its bounds")
    iterations = range(int(start), int(stop), int(step))
    if len(iterations) > max(WORDS):
        said = f"the loop over '{counter}' has {len(iterations)} iterations; a word has {max(WORDS)} bits"
        raise refuse(said, "compute it")
    part, wrong = _part_of(value, around, level)
    if wrong is not None:
        raise refuse(*wrong)
    used = function.choices.choose(
        "precompute", name, WAYS, "bits", loc=value.op.loc if value.op else None, pinned=loc,
        because=f"{len(iterations)} iterations", line=f"precompute {name}: {counter}",
    )  # fmt: skip
    if used and iterations:
        _make_bits(function, value, around[: level + 1], part, iterations)


def _part_of(value: Value, around: Around, level: int) -> tuple[list[Op], tuple[str, str] | None]:
    """Returns the operations that compute a flag in the loop at index `level`. If the flag cannot be precomputed, the
    second result is the reason and a hint, otherwise None."""
    loop = around[level][0]
    scope = [op for each, _ in around for op in each.regions[0].ops if not op.spec.control.counters]
    part = slice_of(scope, [value])
    wrong = impure(part)
    if wrong is not None:
        return part, (f"it comes from '{wrong.name}'", "a flag of numbers and counters")
    moving = {v for op, _ in around[level + 1 :] for v in op.regions[0].args} | set(loop.regions[0].args[1:])
    by = sorted(v.name or "a value" for v in leaves_of(part, [value]) & moving)
    if by:
        counter = loop.regions[0].args[0].name
        return part, (f"it depends on '{by[0]}', too", f"a flag that changes with '{counter}' alone")
    return part, None


def _make_bits(function: Function, value: Value, around: Around, part: list[Op], iterations: range) -> None:
    counter = around[-1][0].regions[0].args[0]
    leaves = leaves_of(part, [value]) - {counter}
    loop, block = around[-1]
    # If an outer loop changes no input of the flag, the bits are computed before that loop, and all its iterations
    # reuse them.
    for outer, outside in reversed(around[:-1]):
        inside = {r for op in walk(outer.regions[0]) for r in op.results} | set(outer.regions[0].args)
        if leaves & inside:
            break
        loop, block = outer, outside
    b, before, within = Builder(located(function, loop)), Block(), Block()
    word: DType = next_word(len(iterations))
    shape = value.tile.shape
    with b.region(before):
        bits: Value | None = None
        for index, number in enumerate(iterations):
            flag = made_anew(b, part, {counter: b.constant(number, counter.dtype)}, value)
            bit = b.value("select", flag, b.constant(1 << index, word, shape), b.constant(0, word, shape))
            bits = bit if bits is None else b.value("or", bits, bit)
    assert bits is not None
    bits.name = f"{value.name}_bits"
    with b.region(within):
        place = b.value("sub", counter, b.constant(iterations.start, counter.dtype))
        place = b.value("floordiv", place, b.constant(iterations.step, counter.dtype))
        shift = b.value("cast", place, to=word, saturate=False, rounding=None)
        # An iteration shifts one scalar bit, and then tests each word with one `and`. In an int8 convolution, this
        # replaces five comparisons per pixel and iteration.
        bit = b.broadcast(b.value("shl", b.constant(1, word), shift), shape)
        flag = b.own(b.value("ne", b.value("and", bits, bit), b.constant(0, word, shape)))
        flag.stands_for(value)
    block.ops[block.ops.index(loop) : block.ops.index(loop)] = before.ops
    body = around[-1][0].regions[0]
    body.ops[:0] = within.ops
    replace_uses(body, {value: flag})


def next_word(bits: int) -> DType:
    """The narrowest word with at least `bits` bits."""
    return WORDS[min(each for each in WORDS if each >= bits)]
