"""What every operation of the tile IR is: operands, attributes, result type, effects on memory. Stated here, once.

Verification, dead-code removal, ordering and barrier insertion read these rows; there is no list of operation names
elsewhere. To add an elementwise operation: one row here, one rule in `emit/elementwise.py`, one row in its test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lowering.ir import Op, Value
from lowering.types import (
    BF16,
    F16,
    F32,
    FP8,
    I1,
    INDEX,
    TF32,
    DType,
    SharedType,
    TableType,
    TensorType,
    TileType,
    Type,
)


class Mismatch(Exception):
    """Operands that an operation does not take. The message is for the user."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One access to memory: which memory, and which way. Of a `copy` they happen between its issue and a `wait`.

    An "acquire" or a "release" touches nothing itself. What its threads read there orders all that the block does to
    global memory with what other blocks do (PTX ISA 8, "Memory Consistency Model").
    """

    kind: str  # "read", "write", "acquire" or "release"
    memory: Value
    space: str  # "global", "shared" or "param"


Infer = Callable[[Sequence[Value], dict[str, Any]], list[Type]]
Effects = Callable[[Op], list[Effect]]


@dataclass(frozen=True, slots=True)
class OpSpec:
    """The facts of one operation.

    arity: number of operands, or (least, most); None where `infer` checks by itself.
    attrs: names of the attributes it must carry.
    infer: result types from operands and attributes; raises Mismatch.
    effects: accesses to memory; None means there are none.
    keep: it does something that is no memory access (synchronises, prints, ends a region): never removed or merged.
    elementwise: register i of the result comes from register i of the operands, all in one layout.
    regions: how many.
    """

    name: str
    arity: int | tuple[int, int | None]
    infer: Infer
    attrs: tuple[str, ...] = ()
    effects: Effects | None = None
    keep: bool = False
    elementwise: bool = False
    regions: int = 0
    pure: bool = field(init=False)  # nothing but its results

    def __post_init__(self) -> None:
        object.__setattr__(self, "pure", self.effects is None and not self.keep and not self.regions)


OPS: dict[str, OpSpec] = {}


def _row(name: str, arity: int | tuple[int, int | None], infer: Infer, attrs: str = "", **facts: Any) -> None:
    OPS[name] = OpSpec(name, arity, infer, tuple(attrs.split()), **facts)


# ---- elementwise ----------------------------------------------------------------------------------------

CLASSES: dict[str, Callable[[DType], bool]] = {
    "a number": lambda d: d.kind not in ("bool", "operand"),
    "an integer": lambda d: d.is_int,
    "an integer or i1": lambda d: d.is_int or d is I1,
    "a float": lambda d: d.is_float,
    "f32": lambda d: d is F32,
    "a number or i1": lambda d: d.kind != "operand",
    "s32 or u32": lambda d: d.name in ("s32", "u32"),
}


def _elementwise(of: str, result: DType | None = None) -> Infer:
    """All operands of one type in class `of`; the result has that type or `result`."""
    accepts = CLASSES[of]

    def infer(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
        first = operands[0].tile
        for operand in operands:
            if operand.tile.dtype is not first.dtype:
                raise Mismatch(f"operands of different types: {', '.join(str(o.dtype) for o in operands)}")
            if operand.tile.shape != first.shape:
                raise Mismatch(f"operands of different shapes: {', '.join(str(list(o.shape)) for o in operands)}")
        if not accepts(first.dtype):
            raise Mismatch(f"needs {of}; got {first.dtype}")
        return [first.with_dtype(result) if result else first]

    return infer


for _name, _arity, _class in (
    ("add", 2, "a number"),
    ("sub", 2, "a number"),
    ("mul", 2, "a number"),
    ("div", 2, "a float"),
    ("floordiv", 2, "an integer"),
    ("mod", 2, "an integer"),
    ("minimum", 2, "a number or i1"),
    ("maximum", 2, "a number or i1"),
    ("neg", 1, "a number"),
    ("abs", 1, "a number"),
    ("fma", 3, "a float"),
    ("mulhi", 2, "an integer"),
    ("and", 2, "an integer or i1"),
    ("or", 2, "an integer or i1"),
    ("xor", 2, "an integer or i1"),
    ("not", 1, "an integer or i1"),
    ("shl", 2, "an integer"),
    ("shr", 2, "an integer"),
    ("popc", 1, "an integer"),
    ("clz", 1, "an integer"),
    ("brev", 1, "an integer"),
    ("floor", 1, "a float"),
    ("ceil", 1, "a float"),
    ("round", 1, "a float"),  # to nearest, ties to even
    ("trunc", 1, "a float"),
    ("sqrt", 1, "a float"),  # correctly rounded
    ("copysign", 2, "a float"),
    ("ex2.approx", 1, "f32"),
    ("ex2.approx.ftz", 1, "f32"),
    ("lg2.approx", 1, "f32"),
    ("sin.approx", 1, "f32"),
    ("cos.approx", 1, "f32"),
    ("tanh.approx", 1, "f32"),
    ("rcp.approx", 1, "f32"),
    ("rsqrt.approx", 1, "f32"),
    ("sqrt.approx", 1, "f32"),
):
    _row(_name, _arity, _elementwise(_class), elementwise=True)

for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _row(_name, 2, _elementwise("a number or i1", I1), elementwise=True)


def _infer_select(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    condition, yes, no = (o.tile for o in operands)
    if condition.dtype is not I1:
        raise Mismatch(f"the condition is {condition.dtype}, not i1")
    if yes.dtype is not no.dtype or not (condition.shape == yes.shape == no.shape):
        raise Mismatch(f"cannot choose between {yes} and {no}")
    return [yes]


def _infer_cast(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    source, to = operands[0].tile, attrs["to"]
    small = source.dtype in FP8 or to in FP8
    if small and {source.dtype, to} <= {F16, BF16, F32, *FP8}:
        return [source.with_dtype(to)]
    if small:
        raise Mismatch(
            f"no conversion from {source.dtype} to {to}; {FP8[0]} and {FP8[1]} are made of f16, bf16 and f32"
        )
    if source.dtype.kind == "operand" or (to.kind == "operand" and (source.dtype, to) != (F32, TF32)):
        raise Mismatch(f"no conversion from {source.dtype} to {to}; bitcast(v, {to}) takes bits as they are")
    return [source.with_dtype(to)]


def _infer_bitcast(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    source, to = operands[0].tile, attrs["to"]
    if source.dtype.bits != to.bits:
        raise Mismatch(f"the bits of {source.dtype} ({source.dtype.bits}) are not those of {to} ({to.bits})")
    return [source.with_dtype(to)]


def _infer_split(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    source, to = operands[0].tile, attrs["to"]
    if not source.shape or source.dtype.bits != 8 or to.kind != "operand" or to.bits >= 8:
        raise Mismatch(f"the elements of {source} cannot be split into {to}")
    return [TileType((*source.shape[:-1], source.shape[-1] * (8 // to.bits)), to)]


def _infer_asm(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    shapes = {o.tile.shape for o in operands}
    if len(shapes) > 1:
        raise Mismatch("operands of different shapes")
    return [TileType(shapes.pop() if shapes else (), d) for d in attrs["types"]]


_row("select", 3, _infer_select, elementwise=True)
_row("cast", 1, _infer_cast, "to saturate rounding", elementwise=True)
_row("bitcast", 1, _infer_bitcast, "to", elementwise=True)
_row("split", 1, _infer_split, "to")  # bytes as smaller elements, which the last axis counts; lowest bits first
_row("asm", (0, 16), _infer_asm, "text types", elementwise=True, keep=True)


# ---- sources and shapes ------------------------------------------------------------------------------------


def _infer_constant(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    return [TileType(tuple(attrs.get("shape", ())), attrs["dtype"])]


def _infer_arange(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    return [TileType((attrs["extent"],), INDEX)]


def _infer_reshape(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    return [TileType(tuple(attrs["shape"]), operands[0].dtype)]


def _infer_broadcast(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    source, shape = operands[0].tile, tuple(attrs["shape"])
    if source.shape and (
        len(source.shape) != len(shape) or any(a not in (1, b) for a, b in zip(source.shape, shape, strict=True))
    ):
        raise Mismatch(f"cannot broadcast {list(source.shape)} to {list(shape)}")
    return [TileType(shape, source.dtype)]


def _infer_transpose(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    return [TileType(tuple(operands[0].shape[a] for a in attrs["axes"]), operands[0].dtype)]


def _infer_stack(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    first = operands[0].tile
    if any(o.tile.shape != first.shape or o.dtype is not first.dtype for o in operands):
        raise Mismatch(f"cannot stack {', '.join(str(o.tile) for o in operands)}")
    return [TileType((*first.shape, len(operands)), first.dtype)]


def _infer_pick(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    source, axis = operands[0].tile, attrs["axis"]
    return [TileType((*source.shape[:axis], *source.shape[axis + 1 :]), source.dtype)]


def _scalar(dtype: DType) -> Infer:
    return lambda operands, attrs: [TileType((), dtype)]


_row("constant", 0, _infer_constant, "value dtype")
_row("arange", 0, _infer_arange, "extent")
_row("broadcast", 1, _infer_broadcast, "shape")
_row("reshape", 1, _infer_reshape, "shape")
_row("transpose", 1, _infer_transpose, "axes")
_row("stack", (2, None), _infer_stack)
_row("pick", 1, _infer_pick, "axis index")  # the part of a tile at one index of an axis
_row("block_id", 0, _scalar(INDEX), "axis")
_row("grid_size", 0, _scalar(INDEX), "axis")


# ---- across the threads -------------------------------------------------------------------------------------


def _infer_reduce(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    axis = attrs["axis"]
    out: list[Type] = []
    for operand in operands:
        shape = operand.shape
        if shape != operands[0].shape:
            raise Mismatch("tiles of different shapes are reduced together")
        out.append(TileType((*shape[:axis], *shape[axis + 1 :]), operand.dtype))
    return out


def _same_types(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    return [o.tile for o in operands]


def _infer_vote(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    if operands[0].dtype is not I1:
        raise Mismatch(f"a vote takes i1; got {operands[0].dtype}")
    return [operands[0].tile.with_dtype(attrs["dtype"])]


def _infer_partial(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    axis, parts = attrs["axis"], attrs["parts"]
    return [TileType((*o.shape[:axis], parts, *o.shape[axis + 1 :]), o.dtype) for o in operands]


_row("reduce", (1, None), _infer_reduce, "axis", regions=1)
_row("partial_reduce", (1, None), _infer_partial, "axis parts", regions=1)  # one part for each warp along the axis
_row("scan", (1, None), _same_types, "axis reverse", regions=1)
_row("shuffle", (1, 2), lambda o, a: [o[0].tile], "mode axis width distance", keep=True)
_row("vote", 1, _infer_vote, "mode dtype", keep=True)
_row("convert_layout", 1, _same_types, "layout")


# ---- tensor cores ---------------------------------------------------------------------------------------------


def _infer_dot(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    a, b, c = (o.tile for o in operands)
    if not len(a.shape) == len(b.shape) == len(c.shape) == 2:
        raise Mismatch(f"a product takes tiles of rank 2; got {a}, {b}, {c}")
    if a.shape[1] != b.shape[0]:
        raise Mismatch(f"the columns of {a} are not the rows of {b}")
    if c.shape != (a.shape[0], b.shape[1]):
        raise Mismatch(f"{a} @ {b} has shape {[a.shape[0], b.shape[1]]}; the accumulator is {c}")
    return [c]


_row("dot", 3, _infer_dot, "shape modifier instruction")  # a, b, accumulator


# ---- memory -----------------------------------------------------------------------------------------------------
# Memory operands: a tensor with a tile of element offsets; a shared tile with an optional slot and a tile of element
# offsets in it; optional operands are named by the attribute `has`, in the order given.


def space_of(memory: Value) -> str:
    return {TensorType: "global", SharedType: "shared", TableType: "param"}[type(memory.type)]  # type: ignore[index]


def operand(op: Op, name: str) -> Value | None:
    """The operand of a memory operation called `name` in its attribute `has`, or None."""
    names = op.attrs["has"]
    return op.operands[names.index(name)] if name in names else None


def _infer_load(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    return [TileType(operands[attrs["has"].index("offset")].shape, operands[0].dtype)]


def _nothing(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    return []


def _infer_atomic(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    return [TileType(operands[attrs["has"].index("offset")].shape, operands[0].dtype)]


def _reads(op: Op) -> list[Effect]:
    return [Effect("read", op.operands[0], space_of(op.operands[0]))]


def _writes(op: Op) -> list[Effect]:
    return [Effect("write", op.operands[0], space_of(op.operands[0]))]


def _reads_and_writes(op: Op) -> list[Effect]:
    return _reads(op) + _writes(op)


ACQUIRES = ("acquire", "acq_rel")
RELEASES = ("release", "acq_rel")


def _atomic(op: Op) -> list[Effect]:
    """Its order says something to other blocks: not in shared memory, nor where its scope is the block."""
    memory, order = op.operands[0], op.attrs["order"]
    space = space_of(memory)
    out = _reads_and_writes(op)
    if space == "global" and op.attrs["scope"] != "block":
        out += [Effect("acquire", memory, space)] * (order in ACQUIRES)
        out += [Effect("release", memory, space)] * (order in RELEASES)
    return out


def _copies(op: Op) -> list[Effect]:
    shared, tensor = op.operands[0], op.operands[op.attrs["has"].index("tensor")]
    return [Effect("read", tensor, "global"), Effect("write", shared, "shared")]


_row("load", (2, 5), _infer_load, "has cache evict", effects=_reads)
_row("store", (3, 5), _nothing, "has cache evict", effects=_writes)
_row("ldmatrix", (2, 3), _infer_load, "has trans", effects=_reads)
_row("stmatrix", (3, 4), _nothing, "has trans", effects=_writes)
_row("atomic", (3, 6), _infer_atomic, "has action order scope", effects=_atomic)
_row("copy", (4, 6), _nothing, "has cache bytes", effects=_copies)
_row("shared_alloc", 0, lambda o, a: [a["type"]], "type name", keep=True)
_row("commit", 0, _nothing, keep=True)
_row("wait", 0, _nothing, "groups", keep=True)
_row("barrier", 0, _nothing, "scope", keep=True)


# ---- control ------------------------------------------------------------------------------------------------------


def _infer_for(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    return [o.type for o in operands[3:]]


def _infer_carried(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    return [o.type for o in operands]


def _infer_if(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    return list(attrs["types"])


_row("for", (3, None), _infer_for, "unroll", regions=1, keep=True)  # start, stop, step, carried …
_row("while", (0, None), _infer_carried, regions=2, keep=True)  # condition region, body region
_row("if", 1, _infer_if, "types", regions=2, keep=True)
_row("yield", (0, None), _nothing, keep=True)
_row("condition", (1, None), _nothing, keep=True)  # ends a condition region: the flag, then what the body gets
_row("assert", 1, _nothing, "message line", keep=True)
_row("print", (0, 16), _nothing, "format", keep=True)
