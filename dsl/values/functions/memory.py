"""Loads, stores, copies, atomics, barriers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsl.text import tree as ast
from dsl.values.access import Span, join_masks, operands_of, read, resolve, stored_value, whole, write
from dsl.values.bindings import Absent, Access, SharedTile, Tensor, describe
from dsl.values.functions.arguments import number_argument, signature, together, word_argument
from dsl.values.functions.registry import BUILTINS, Handler, function, takes_syntax
from lowering.ir import Value
from lowering.location import Loc
from lowering.types import I1

if TYPE_CHECKING:
    from dsl.values.expressions import Expressions


CACHES_LOAD = ("all", "global", "streaming", "last_use", "volatile")
CACHES_STORE = ("write_back", "global", "streaming", "write_through", "volatile")
EVICTIONS = ("first", "last", "normal", "unchanged", "no_allocate")


def part_of_memory(b: Expressions, node: ast.Expr, what: str) -> Any:
    """An argument that names a part of a tensor or of a shared tile, as an access."""

    binding = b.expr(node)
    if isinstance(binding, SharedTile):
        return whole(b, binding, node.loc)
    if isinstance(binding, Access):
        return binding
    if isinstance(binding, Absent):
        b.error("type", node.loc, f"'{binding.name}' was not given", f"ask with 'if given({binding.name}):'")
    if isinstance(binding, Tensor) and all(isinstance(d, int) for d in binding.dims):
        return Access(binding, [Span(0, d) for d in binding.dims if isinstance(d, int)], node.loc)
    hint = "index it: x[start : start + EXTENT]" if isinstance(binding, Tensor) else None
    b.error("type", node.loc, f"{what} takes a part of a tensor or of a shared tile; this is {describe(binding)}", hint)


def _keywords(b: Expressions, node: ast.Call, name: str, known: str) -> dict[str, ast.Expr]:
    signature(b, node.loc, name, [None], node.keywords, 1, 1, known)
    return node.keywords


def _mask(b: Expressions, keywords: dict[str, ast.Expr]) -> Value | None:
    """`mask=` as an i1 value; None where it is absent or true."""
    node = keywords.get("mask")
    binding = True if node is None else b.expr(node)
    if binding is True or node is None:
        return None
    if not isinstance(binding, Value | bool) or (isinstance(binding, Value) and binding.dtype is not I1):
        value = b.operand(binding, node.loc)
        what = value.tile if isinstance(value, Value) else value
        b.error("type", node.loc, f"mask= takes i1; this is {what}", "compare with '!= 0'")
    return b.as_value(binding, node.loc, I1)


@function("load")
@takes_syntax
def _load(b: Expressions, node: ast.Call) -> Value:
    if len(node.args) != 1:
        b.error(
            "call", node.loc, f"load takes one access; got {len(node.args)}", "load(x[i : i + N], mask=..., other=...)"
        )
    keywords = _keywords(b, node, "load", "mask other cache evict")
    cache = word_argument(b, node.loc, keywords.get("cache"), "cache", CACHES_LOAD)
    evict = word_argument(b, node.loc, keywords.get("evict"), "evict", EVICTIONS)
    access = part_of_memory(b, node.args[0], "load")
    mask = _mask(b, keywords)
    other = b.expr(keywords["other"]) if "other" in keywords else None
    loaded = read(b, access, node.loc, mask, other, cache, evict)
    if cache == "volatile" and isinstance(access.memory, Tensor) and not loaded.tile.shape:
        together(b, node.loc, "a volatile load of a scalar")  # one thread loads it for all
    return loaded


@function("flat")
def _flat(b: Expressions, loc: Loc, args: list, keywords: dict) -> Tensor:
    """`flat(x)`: the elements of a row-major tensor along one axis, in the order in which they lie in memory."""
    signature(b, loc, "flat", args, keywords, 1, 1)
    tensor = args[0]
    if not isinstance(tensor, Tensor):
        b.error("type", loc, f"flat takes a tensor; this is {describe(tensor)}")
    if tensor.parameter.strided:
        b.error("type", loc, f"'{tensor.parameter.name}' is strided: its elements need not lie side by side")
    b.place(loc)
    size: int | Value = 1
    for extent in tensor.dims:
        if isinstance(size, int) and isinstance(extent, int):
            size *= extent
        else:
            factors = [e if isinstance(e, Value) else b.ir.index(e) for e in (size, extent)]
            size = b.ir.value("mul", *factors)
    return Tensor(tensor.parameter, tensor.value, [size], [1])


@function("store")
@takes_syntax
def _store(b: Expressions, node: ast.Call) -> tuple:
    if len(node.args) != 2:
        b.error("call", node.loc, "store takes an access and a value", "store(y[i : i + N], v)")
    keywords = _keywords(b, node, "store", "mask cache evict order")
    cache = word_argument(b, node.loc, keywords.get("cache"), "cache", CACHES_STORE)
    evict = word_argument(b, node.loc, keywords.get("evict"), "evict", EVICTIONS)
    access = part_of_memory(b, node.args[0], "store")
    value = b.expr(node.args[1])
    mask = _mask(b, keywords)
    order = word_argument(b, node.loc, keywords.get("order"), "order", ("none",))
    write(b, access, value, node.loc, mask, cache, evict, order)
    return ()


@function("copy")
@takes_syntax
def _copy(b: Expressions, node: ast.Call) -> tuple:

    if len(node.args) != 2:
        b.error("call", node.loc, "copy takes a shared tile and a part of a tensor", "copy(s[slot], x[i : i + N])")
    together(b, node.loc, "copy")
    keywords = _keywords(b, node, "copy", "mask cache")
    cache = word_argument(b, node.loc, keywords.get("cache"), "cache", ("all", "global"))
    to, source = part_of_memory(b, node.args[0], "copy"), part_of_memory(b, node.args[1], "copy")
    if not isinstance(to.memory, SharedTile) or not isinstance(source.memory, Tensor):
        b.error("type", node.loc, "copy goes from a tensor to a shared tile")
    mask = _mask(b, keywords)
    place, origin = resolve(b, to), resolve(b, source, mask is not None)
    if place.memory.dtype is not origin.memory.dtype:
        b.error("type", node.loc, f"copy from {origin.memory.dtype} to {place.memory.dtype}")
    if place.offset.tile.shape != origin.offset.tile.shape:
        b.error("shape", node.loc, f"copy from {list(origin.offset.tile.shape)} to {list(place.offset.tile.shape)}")
    if place.mask is not None:
        b.error("shape", node.loc, "the shared side of a copy must lie inside the tile")
    join_masks(b, place, None, node.loc)
    joined = join_masks(b, origin, mask, node.loc)
    b.place(node.loc)
    operands, has = operands_of(place, {"tensor": origin.memory, "source": origin.offset, "mask": joined})
    b.ir.op("copy", operands, has=has, cache=cache, bytes=0)
    return ()


@function("commit")
def _commit(b: Expressions, loc: Loc, args: list, keywords: dict) -> tuple:
    signature(b, loc, "commit", args, keywords, 0, 0)
    together(b, loc, "commit")
    b.ir.op("commit")
    return ()


@function("wait")
def _wait(b: Expressions, loc: Loc, args: list, keywords: dict) -> tuple:
    signature(b, loc, "wait", args, keywords, 1, 1)
    together(b, loc, "wait")
    groups = number_argument(b, loc, args[0], "the number of copies that may stay in flight")
    if groups < 0:
        b.error("constant", loc, f"wait({groups}): the number of groups that may stay in flight is not negative")
    b.ir.op("wait", groups=groups)
    return ()


@function("barrier")
@takes_syntax
def _barrier(b: Expressions, node: ast.Call) -> tuple:
    if len(node.args) > 1 or node.keywords:
        b.error("call", node.loc, "barrier takes 'block' or 'warp', or nothing")
    words = ("block", "warp")
    scope = word_argument(b, node.loc, node.args[0], "the scope of barrier", words) if node.args else "block"
    together(b, node.loc, "barrier", warp=scope == "warp")
    b.place(node.loc)
    b.ir.op("barrier", scope=scope)
    return ()


ATOMICS = {
    "add": "a number", "min": "a number", "max": "a number", "and": "an integer", "or": "an integer",
    "xor": "an integer", "exchange": "a number or i1", "cas": "a number or i1",
}  # fmt: skip
ORDERS = ("relaxed", "acquire", "release", "acq_rel")


def _atomic(action: str) -> Handler:
    @takes_syntax
    def handler(b: Expressions, node: ast.Call) -> Value:
        name = f"atomic_{action}"
        wanted = 3 if action == "cas" else 2
        if len(node.args) != wanted:
            what = "an access, the expected value and the new one" if action == "cas" else "an access and a value"
            b.error("call", node.loc, f"{name} takes {what}")
        keywords = _keywords(b, node, name, "mask order scope")
        order = word_argument(b, node.loc, keywords.get("order"), "order", ORDERS) or "relaxed"
        scope = word_argument(b, node.loc, keywords.get("scope"), "scope", ("block", "gpu", "system")) or "gpu"
        access = part_of_memory(b, node.args[0], name)
        place = resolve(b, access, "mask" in keywords)
        dtype = place.memory.dtype
        if not place.offset.tile.shape:
            together(b, node.loc, f"{name} of a scalar")
        if dtype.bits < 32 and not (action == "add" and dtype.is_float):
            b.error("type", node.loc, f"{name} works on 32 and 64 bits; the elements are {dtype}")
        if dtype.is_float and action not in ("add", "exchange", "cas"):
            b.error("type", node.loc, f"{name} works on integers; the elements are {dtype}")
        values = [stored_value(b, b.expr(v), dtype, place, v.loc) for v in node.args[1:]]
        mask = _mask(b, keywords)
        joined = join_masks(b, place, mask, node.loc)
        b.place(node.loc)
        named = {"value": values[-1], "expected": values[0] if action == "cas" else None, "mask": joined}
        operands, has = operands_of(place, named)
        return b.ir.op("atomic", operands, has=has, action=action, order=order, scope=scope).result

    return handler


for _action in ATOMICS:
    BUILTINS[f"atomic_{_action}"] = _atomic(_action)
