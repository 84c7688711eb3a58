"""`stage v: shared` for a value that `loop` computes in parts: the value stays in shared memory from loop to loop.

A loaded value has the type of the tensor in shared memory: conversions follow later. If at least 4 aligned bytes are
contiguous, `cp.async` copies the data to shared memory. All copies start before the first part is read. If a computed
value `v` depends on a load of the same type and shape, `cp.async` copies the loaded data into the memory of `v`. The
first loop then overwrites the data with `v`.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from dsl.lowering.directives.cluster_tiles import sharing_blocks
from dsl.lowering.directives.rows import AnyRows
from dsl.lowering.directives.tma import TMA
from dsl.lowering.directives.wide import Wide, WideRegion, WideSubject, slices
from dsl.lowering.ir.fold import is_zero_of_bits
from dsl.lowering.ir.function import Function, Op, Value
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.targets import Target
from dsl.lowering.ir.types import INDEX, TensorType
from dsl.lowering.known.facts import Analysis, facts_now
from dsl.lowering.ops import operand
from dsl.lowering.plan.ledger import Ledger, tile_bytes
from dsl.lowering.plan.tile_loads import is_load, place_of
from dsl.lowering.shared.access_width import ASYNC_BYTES, MAX_BYTES, neighbours


class Kept(Struct):
    """A value that stays in shared memory. `source` is the result of the load whose data `cp.async` copies there:
    `value` itself, or a load whose data `value` overwrites. `full` is true after all parts have been written."""

    value: Value
    axis: int
    name: str
    source: Value | None
    full: bool = False

    @property
    def op(self) -> Op:
        """The operation that computes the value."""
        assert self.value.op is not None
        return self.value.op

    @property
    def filling(self) -> tuple[Value, Value] | None:
        """Returns the mask of the load `source`, and the number for masked elements. Returns None if that number is
        zero, because copies write zeros there."""
        if self.source is None or self.source.op is None:
            return None
        mask, other = operand(self.source.op, "mask"), operand(self.source.op, "other")
        return (mask, other) if mask is not None and other is not None and not is_zero_of_bits(other) else None


def words_of(function: Function, names: Collection[str]) -> dict[str, str]:
    """Maps each value of `names` with a `stage` line to that line's word: `shared`, `tma` or `registers`. Tensors are
    excluded."""
    tensors = {p.name for p in function.params}
    said = function.by_subject("stage", str)
    return {name: word for name, word in said.items() if name in names and name not in tensors}


def kept_of(
    function: Function,
    region: WideRegion,
    about: WideSubject,
    target: Target,
    static: bool,
    rows: AnyRows | None = None,
) -> list[Kept]:
    """Returns the region's values with a line `stage v: shared`. Raises TileError `schedule`, `shared` or `instruction`
    for a value that cannot stay in shared memory."""
    facts, found = facts_now(function), []
    room = Ledger(function, target).left()
    for name, word in words_of(function, region.names).items():
        place = function.lines.get(("stage", name))
        if word == TMA:
            message = f"'{name}' cannot be copied by TMA: it is no tensor"
            raise TileError("instruction", place, message, f"stage {name}: shared")
        if word != "shared":
            continue
        if static:
            message = f"'{name}' stays in registers: the parts of '{about.name}' are static"
            raise TileError("schedule", place, message, f"loop {about.name}, {region.about.axis}: N")
        value = last_named(name, region)
        if value.dtype is INDEX:
            message = f"'{name}' is an index, which has no type in memory"
            raise TileError("schedule", place, message, f"recompute {name}")
        size = tile_bytes(value) // sharing_blocks(region)
        if size > room:
            message = f"'{name}' cannot be staged: it has {size} bytes, and {max(room, 0)} of shared memory are left"
            raise TileError("shared", place, message, f"stage {name}: registers")
        room -= size
        found.append(Kept(value, region.axes[value], name, None))
    for each in found:
        each.source = _source(region, each, {other.value for other in found if other is not each}, facts, rows)
    values = {each.value for each in found}
    for each in found:
        if each.source is not None and any(values & {*op.results} for op in slices(places_of(each.source, each.axis))):
            each.source = None  # its address depends on another kept value, whose copies arrive at the same time
    return found


def _source(region: WideRegion, kept: Kept, others: set[Value], facts: Analysis, rows: AnyRows | None) -> Value | None:
    """Returns the load whose data `cp.async` can copy into the shared tile of `kept`, or None if there is no such load.
    `others` contains the other values in shared memory."""
    made = slices([(kept.value, kept.axis)], others)
    loads = [op.result for op in region.block.ops if op in made and is_load(op)]
    alike = [load for load in loads if load.dtype is kept.value.dtype and load.shape == kept.value.shape]
    return next((load for load in [kept.value, *alike] if _by_copies(load, facts, rows)), None)


def places_of(load: Value, axis: int) -> list[Wide]:
    """Returns the tiles that determine which elements a load reads, such as its offsets and mask. Each tile comes with
    the axis along which it is divided into parts."""
    assert load.op is not None
    return [(value, axis) for value in place_of(load.op) if value.shape]


def last_named(name: str, region: WideRegion) -> Value:
    """Returns the narrowest form of the last value of a name that is computed in parts. A later value of the name which
    nothing uses is not computed in parts."""
    return narrowest(
        [v for op in region.block.ops for v in op.results if v.name == name and v in region.axes][-1], region
    )


def narrowest(value: Value, region: WideRegion) -> Value:
    """Returns the narrowest value of which `value` is a conversion. For `load(x).to(f32)` with an f16 tensor, it is the
    f16 tile, which has half the bytes."""
    op = value.op
    while op is not None and op.spec.algebra.keeps == "number" and op.operands[0] in region.axes:
        if op.operands[0].dtype.bits >= value.dtype.bits:
            break
        value = op.operands[0]
        op = value.op
    return value


def _by_copies(value: Value, facts: Analysis, rows: AnyRows | None) -> bool:
    """Whether `value` is loaded from a tensor, and `cp.async` can copy the same data."""
    op = value.op
    if op is None or not op.spec.access.kind or not isinstance(op.operands[0].type, TensorType):
        return False
    aligned = rows is not None and operand(op, "offset") in rows.offsets
    near = rows.step if rows is not None and aligned else neighbours(facts, op, "falls")
    return not op.attrs["evict"] and min(near * value.dtype.bytes, MAX_BYTES) in ASYNC_BYTES
