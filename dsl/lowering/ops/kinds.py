"""The kinds of operands and attributes, such as "index" or "shape", with a check for each. The row that declares an
operation names the kinds, and the verifier checks them."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.types import (
    DTYPES,
    I1,
    INDEX,
    DType,
    SharedType,
    TableType,
    TensorType,
    TileType,
    ViewType,
    int_range,
)
from dsl.lowering.layouts.layout import Layout
from dsl.lowering.machine.tensor_cores import Mma

INDEX_64 = DTYPES["s64"]
"""The widest type that an index may have."""
MOST = 1 << 31
"""Numbers in attributes must be below this limit."""
MAX_TILE = 1 << 20
"""The maximum number of elements of a tile."""


def _of(*types: type) -> Callable[[Value], bool]:
    return lambda value: isinstance(value.type, types)


def _scalar(accepts: Callable[[DType], bool]) -> Callable[[Value], bool]:
    return lambda value: isinstance(value.type, TileType) and not value.type.shape and accepts(value.type.dtype)


def _tile(accepts: Callable[[DType], bool]) -> Callable[[Value], bool]:
    return lambda value: isinstance(value.type, TileType) and accepts(value.type.dtype)


OPERANDS: dict[str, tuple[Callable[[Value], bool], str]] = {
    "tile": (_of(TileType), "a tile or a scalar"),
    "factor": (_of(TileType, ViewType), "a tile or a view of shared memory"),
    "index": (_scalar(lambda dtype: dtype is INDEX), "a scalar of type index"),
    "whole": (_scalar(lambda dtype: dtype.is_int), "a scalar integer"),
    "flag": (_tile(lambda dtype: dtype is I1), "of type i1"),
    "places": (_tile(lambda dtype: dtype is INDEX), "a tile of type index"),
    "tensor": (_of(TensorType), "a tensor"),
    "shared": (_of(SharedType), "a shared tile"),
    "writable": (_of(TensorType, SharedType), "a tensor or a shared tile"),
    "memory": (_of(TensorType, SharedType, TableType), "a tensor, a shared tile or a table"),
}
"""Maps each kind of operand to a check and a description of the expected value."""

Reads = Callable[[Any], bool]


def _is_whole(value: Any, least: int = 0) -> bool:
    return type(value) is int and least <= value < MOST


def _is_word(*words: str) -> Reads:
    return lambda value: isinstance(value, str) and value in words


def _or_none(reads: Reads) -> Reads:
    return lambda value: value is None or reads(value)


def _each(reads: Reads, of: tuple[type, ...] = (tuple, list)) -> Reads:
    def read(value: Any) -> bool:
        return isinstance(value, of) and all(map(reads, value))  # type: ignore[call-overload]

    return read


def _is_shape(value: Any) -> bool:
    return isinstance(value, tuple | list) and all(_is_whole(extent, 1) for extent in value) and prod(value) <= MAX_TILE


def _rows(count: int) -> Reads:
    """Returns a check for a tuple of rows. Each row must be a tuple of `count` whole numbers."""
    whole = _each(lambda each: type(each) is int and abs(each) < MOST, (tuple,))
    return _each(lambda row: whole(row) and len(row) == count, (tuple,))


ANY: tuple[Reads, str] = (lambda value: True, "anything")
FLAG: tuple[Reads, str] = (lambda value: isinstance(value, bool), "true or false")
WHOLE: tuple[Reads, str] = (_is_whole, "a whole number from 0 on")
COUNT: tuple[Reads, str] = (lambda value: _is_whole(value, 1), "a whole number from 1 on")
NUMBER: tuple[Reads, str] = (lambda value: type(value) is int and abs(value) < MOST, "a whole number")
TEXT: tuple[Reads, str] = (lambda value: isinstance(value, str), "a text in quotes")
TYPE: tuple[Reads, str] = (lambda value: isinstance(value, DType), "an element type")
WHOLES: tuple[Reads, str] = (_each(_is_whole), "whole numbers in brackets")
SHAPE: tuple[Reads, str] = (_is_shape, f"extents from 1 on, {MAX_TILE} elements at most")


def _is_atoms(value: Any) -> bool:
    """Returns whether a value is a tuple with the fields of `SwizzleAtoms` (`dsl/lowering/hopper/warpgroup.py`)."""
    numbers = _each(lambda each: isinstance(each, int) and abs(each) < MOST, (tuple,))  # `across` is a bool
    return numbers(value) and len(value) == 5


def words(*known: str) -> tuple[Reads, str]:
    return _is_word(*known), "one of " + ", ".join(known)


def words_or_none(*known: str) -> tuple[Reads, str]:
    return _or_none(_is_word(*known)), "none, or one of " + ", ".join(known)


def each_is(kind: tuple[Reads, str], names: str) -> dict[str, tuple[Reads, str]]:
    """Maps each of several attribute names to the same kind."""
    return dict.fromkeys(names.split(), kind)


ATTRIBUTES: dict[str, tuple[Reads, str]] = {
    **each_is(WHOLE, "at axis base bytes groups index line nest number offset pending pingpong producers unroll"),
    **each_is(COUNT, "apart blocks parts stages steps"),
    **each_is(WHOLES, "axes outer pieces rows"),
    **each_is(
        FLAG,
        "ahead anew begins besides clears commutes computed exact few from_zero goes_on matrix one_thread own remote "
        "resident reverse saturate staged tiles trans turn turned",
    ),
    **each_is(TEXT, "form format kind message modifier name no_box text"),
    **each_is(TYPE, "dtype to"),
    "shape": SHAPE,
    "extent": (lambda value: _is_whole(value, 1) and value <= MAX_TILE, f"a whole number from 1 to {MAX_TILE}"),
    "value": (lambda value: isinstance(value, bool | int | float), "a number"),
    "layout": (lambda value: isinstance(value, Layout), "a layout"),
    "has": (_each(lambda name: isinstance(name, str), (list,)), "names of its operands: [memory, offset]"),
    "cache": words_or_none("all", "global", "streaming", "last_use", "write_back", "write_through", "volatile"),
    "evict": words_or_none("first", "last", "normal", "unchanged", "no_allocate"),
    "action": words("add", "min", "max", "and", "or", "xor", "exchange", "cas"),
    "order": words("none", "relaxed", "acquire", "release", "acq_rel"),
    "scope": words("warp", "block", "gpu", "system"),
    "box": (_rows(4), "rows of four whole numbers: ((axis, extent, along, step), …)"),
    "type": (lambda value: isinstance(value, SharedType), "the type of a shared tile"),
    "registers": (_or_none(WHOLES[0]), "none, or whole numbers in brackets"),
    "types": (_each(lambda each: isinstance(each, DType | TileType), (list, tuple)), "types in brackets"),
    "rounding": words_or_none("rn", "rz", "rm", "rp"),
    "instruction": (_or_none(lambda value: isinstance(value, Mma)), 'none, or an instruction: mma("…")'),
    "stepped": words("early", "late"),
    "mode": words("xor", "up", "down", "idx", "any", "all", "ballot"),
    "width": (_or_none(lambda value: _is_whole(value, 1)), "none, or a whole number from 1 on"),
    "distance": (_or_none(lambda value: _is_whole(value)), "none, or a whole number from 0 on"),
    "atoms": (_is_atoms, "(width, rows, across, base, eights)"),
    "by": words("warp", "block"),
    "walks": (_rows(4), "rows of four whole numbers: ((lower, upper, step, count), …)"),
    "window": (lambda value: _each(_is_whole, (tuple,))(value) and len(value) == 2, "two whole numbers: (row, step)"),
}
"""Maps each attribute to a check and a description of the expected value."""

OF_PRODUCTS = {"shape": (_or_none(lambda value: isinstance(value, str)), 'none, or an instruction\'s: "m16n8k16"')}
"""Checks for attributes of matrix products. In other operations, attributes with these names have another meaning."""


def flaw_of_kinds(op: Op) -> str | None:
    """Describes the first operand or attribute that has the wrong kind. Returns None if there is none."""
    for name, value in op.attrs.items():
        reads, what = (op.spec.product and OF_PRODUCTS.get(name)) or ATTRIBUTES.get(name, ANY)
        if not reads(value):
            return f"its '{name}' is {shown(value)}; it is {what}"
    if "has" in op.spec.attrs:
        return _flaw_of_named(op)
    kinds = op.spec.operands
    for number, value in enumerate(op.operands):
        kind = kinds[min(number, len(kinds) - 1)]
        if not OPERANDS[kind][0](value):
            return f"operand {number + 1} is {value.type}; it is {OPERANDS[kind][1]}"
    return None


def _flaw_of_named(op: Op) -> str | None:
    """Like `flaw_of_kinds`, but checks the operands that the attribute `has` names. Some of them may be absent."""
    has, known = op.attrs["has"], op.spec.named
    if len(has) != len(op.operands) or len(set(has)) != len(has):
        return f"'has' names each of its {len(op.operands)} operands, once"
    for name, value in zip(has, op.operands, strict=True):
        kind = known.get(name.rstrip("0123456789"))
        if kind is None:
            return f"it has no operand '{name}'; it has {', '.join(known)}"
        if not OPERANDS[kind][0](value):
            return f"its '{name}' is {value.type}; it is {OPERANDS[kind][1]}"
    missing = [name for name in op.spec.needs if name not in has]
    if missing or has[0] != "memory":
        return f"it has no operand '{missing[0]}'" if missing else "its first operand is 'memory'"
    if op.spec.in_flight and "offset" in has and "source" not in has and "box" not in op.attrs:
        return "it has no operand 'source', and is no box"
    return _flaw_of_elements(op)


def _flaw_of_elements(op: Op) -> str | None:
    """Describes a wrong shape or dtype of an access, or returns None. The offsets, the mask and the tile that is loaded
    or stored must have the same shape, and this tile must have the dtype of the memory. In a TMA store, the offsets in
    shared memory and the offsets in the tensor must be equal in number, but may differ in shape."""
    by_name = dict(zip(op.attrs["has"], op.operands, strict=True))
    places = by_name.get("offset") or by_name.get("place")
    of_places = ("value", "other", "expected", "source", *(["mask"] if "offset" in by_name else []))
    for name in of_places:
        value = by_name.get(name)
        if value is not None and places is not None and value.shape != places.shape:
            return f"its '{name}' has the shape {list(value.shape)}, the places {list(places.shape)}"
    target = by_name.get("target")
    if target is not None and places is not None and prod(target.shape) != prod(places.shape):
        return f"its 'target' has {prod(target.shape)} elements, the places {prod(places.shape)}"
    for name in ("value", "other", "expected", "tensor"):
        value = by_name.get(name)
        if value is not None and value.dtype is not op.operands[0].dtype:
            return f"its '{name}' is of {value.dtype}, the memory of {op.operands[0].dtype}"
    return None


def shown(value: Any) -> str:
    """Formats the value of an attribute for a message, with at most 60 characters."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return f"{value!r:.60}" if isinstance(value, int | float | str | tuple | list) else str(value)[:60]


def flaw_of_number(value: int | float | bool, dtype: DType) -> str | None:
    """Describes why a number does not fit an element type, or returns None."""
    if dtype is I1:
        return None if isinstance(value, bool) or value in (0, 1) else f"{value} is no i1"
    if dtype.is_int:
        low, high = int_range(INDEX_64 if dtype is INDEX else dtype)
        is_whole = isinstance(value, bool) or type(value) is int
        return None if is_whole and low <= value <= high else f"{shown(value)} is no {dtype}"
    return None
