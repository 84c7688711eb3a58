"""Loads, stores, copies, atomics and barriers."""

from __future__ import annotations

from typing import Any

from dsl.lowering.ir.function import Value
from dsl.lowering.ir.location import Loc
from dsl.lowering.ir.types import I1
from dsl.values.access import Span, box_of_atomic, join_masks, operands_of, read, resolve, stored_value, whole, write
from dsl.values.bindings import Absent, Access, Binding, SharedTile, Tensor, describe
from dsl.values.building import Building
from dsl.values.functions.threads import together
from dsl.values.table import Meaning, rows

row = rows("Memory")

EVICTIONS = "first|last|normal|unchanged|no_allocate"


def part_of_memory(b: Building, number: int, loc: Loc, binding: Binding, what: str) -> Any:
    """Returns the access for an argument that names a part of a tensor or shared tile. `number` is the argument's
    position in the call."""
    loc = b.place_of(number, loc)
    if isinstance(binding, SharedTile):
        return whole(b, binding, loc)
    if isinstance(binding, Access):
        return binding
    if isinstance(binding, Absent):
        b.error("type", loc, f"'{binding.name}' was not given", f"ask with 'if given({binding.name}):'")
    if isinstance(binding, Tensor) and all(isinstance(d, int) for d in binding.dims):
        return Access(binding, [Span(0, d) for d in binding.dims if isinstance(d, int)], loc)
    hint = "index it: x[start : start + EXTENT]" if isinstance(binding, Tensor) else None
    b.error("type", loc, f"{what} takes a part of a tensor or of a shared tile; this is {describe(binding)}", hint)


def _masked(b: Building, loc: Loc, mask: Binding) -> Value | None:
    """Converts the `mask=` argument to an i1 value. Returns None if the argument is absent or true."""
    if mask is True or mask is None:
        return None
    if not isinstance(mask, Value | bool) or (isinstance(mask, Value) and mask.dtype is not I1):
        value = b.value_or_number(mask, loc)
        what = value.tile if isinstance(value, Value) else value
        b.error("type", b.place_of("mask", loc), f"mask= takes i1; this is {what}", "compare with '!= 0'")
    return b.as_value(mask, loc, I1)


def _load(b: Building, loc: Loc, part: Binding, mask: Binding = None, other: Binding = None, **words: Any) -> Value:
    access = part_of_memory(b, 0, loc, part, "load")
    loaded = read(b, access, loc, _masked(b, loc, mask), other, **words)
    if words.get("cache") == "volatile" and isinstance(access.memory, Tensor) and not loaded.tile.shape:
        together(b, loc, "a volatile load of a scalar")  # One thread loads the scalar and shares it with the block.
    return loaded


def _store(b: Building, loc: Loc, part: Binding, value: Binding, mask: Binding = None, **words: Any) -> tuple:
    access = part_of_memory(b, 0, loc, part, "store")
    write(b, access, value, loc, _masked(b, loc, mask), **words)
    return ()


def _copy(b: Building, loc: Loc, to: Binding, source: Binding, mask: Binding = None, cache: str | None = None) -> tuple:
    together(b, loc, "copy")
    shared, part = part_of_memory(b, 0, loc, to, "copy"), part_of_memory(b, 1, loc, source, "copy")
    if not isinstance(shared.memory, SharedTile) or not isinstance(part.memory, Tensor):
        b.error("type", loc, "copy goes from a tensor to a shared tile")
    masked = _masked(b, loc, mask)
    place, origin = resolve(b, shared), resolve(b, part, masked is not None)
    if place.memory.dtype is not origin.memory.dtype:
        hint = "a copy converts nothing: load(…).to(TYPE) does, or a shared tile of the tensor's type"
        b.error("type", loc, f"copy from {origin.memory.dtype} to {place.memory.dtype}", hint)
    if place.offset.tile.shape != origin.offset.tile.shape:
        shapes = f"{list(origin.offset.tile.shape)} to {list(place.offset.tile.shape)}"
        b.error("shape", loc, f"copy from {shapes}", "both parts of a copy have one shape")
    # cp.async can mask only its source: it writes zeros for masked-off elements. It cannot skip writing bytes of the
    # shared tile.
    if place.mask is not None:
        hint = "an index of stages counts modulo them in shared s: T[ring N, …]; otherwise write i % N"
        b.error("shape", loc, "the shared side of a copy must lie inside the tile", hint)
    join_masks(b, place, None, loc)
    joined = join_masks(b, origin, masked, loc)
    b.place(loc)
    named = operands_of(place, {"tensor": origin.memory, "source": origin.offset, "mask": joined})
    b.ir.access("copy", named, cache=cache, bytes=0)
    return ()


def _commit(b: Building, loc: Loc) -> tuple:
    together(b, loc, "commit")
    b.ir.op("commit")
    return ()


def _wait(b: Building, loc: Loc, count: Binding) -> tuple:
    together(b, loc, "wait")
    groups = b.whole(count, loc, "the number of copies that may stay in flight")
    if groups < 0:
        b.error("constant", loc, f"wait({groups}): the number of groups that may stay in flight is not negative")
    b.ir.op("wait", groups=groups)
    return ()


def _barrier(b: Building, loc: Loc, scope: str = "block") -> tuple:
    together(b, loc, "barrier", warp=scope == "warp")
    b.place(loc)
    b.ir.op("barrier", scope=scope)
    return ()


row(f"load(part, mask=, other=, cache=all|global|streaming|last_use|volatile, evict={EVICTIONS})",
    "reads part of a tensor or shared tile; `other` (else 0) where masked off", "any", tiles=_load,
    memory=(0,))  # fmt: skip
row(f"store(part, v, mask=, cache=write_back|global|streaming|write_through|volatile, evict={EVICTIONS}, order=none)",
    "writes v there; `order=none` promises different elements", "any",
    tiles=_store, memory=(0,))  # fmt: skip
row("copy(shared, part, mask=, cache=all|global)", "asynchronous copy from a tensor to a shared tile", "any",
    tiles=_copy, memory=(0, 1))  # fmt: skip
row("commit()", "closes a group of copies", tiles=_commit)
row("wait(groups)", "waits until at most so many groups are in flight", tiles=_wait)
row("barrier([block|warp])", "waits for all threads of the block or warp", tiles=_barrier)


ATOMICS = {
    "add": "numbers", "min": "numbers", "max": "numbers", "and": "integers", "or": "integers", "xor": "integers",
    "exchange": "numbers, i1", "cas": "numbers, i1",
}  # fmt: skip


def _atomic(action: str) -> Meaning:
    name = f"atomic_{action}"

    def tiles(b: Building, loc: Loc, part: Binding, *given: Binding, mask: Binding = None, **words: str) -> Value:
        places = [b.place_of(number, loc) for number in range(1, 1 + len(given))]
        access = part_of_memory(b, 0, loc, part, name)
        place = resolve(b, access, mask is not None)
        dtype = place.memory.dtype
        if not place.offset.tile.shape:
            together(b, loc, f"{name} of a scalar")
        if dtype.bits < 32 and not (action in ("add", "min", "max") and dtype.is_float):
            hint = f"use a tensor of {'f32' if dtype.is_float else 's32'}, and convert it in a later launch"
            b.error("type", loc, f"{name} works on 32 and 64 bits; the elements are {dtype}", hint)
        if dtype.is_float and action in ("and", "or", "xor"):
            hint = f"a tensor of s{dtype.bits} with the bits: bitcast(v, s{dtype.bits})"
            b.error("type", loc, f"{name} works on integers; the elements are {dtype}", hint)
        values = [stored_value(b, v, dtype, place, at) for v, at in zip(given, places, strict=True)]
        joined = join_masks(b, place, _masked(b, loc, mask), loc)
        b.place(loc)
        named = {"value": values[-1], "expected": values[0] if action == "cas" else None, "mask": joined}
        of_box, more = box_of_atomic(b, access, place, mask)
        words = {"order": "relaxed", "scope": "gpu"} | words
        return b.ir.access("atomic", operands_of(place, named | of_box), action=action, **words, **more).result

    return tiles


_WORDS = "mask=, order=relaxed|acquire|release|acq_rel, scope=block|gpu|system"
for _action, _of in ATOMICS.items():
    _values = "expected, v" if _action == "cas" else "v"
    row(f"atomic_{_action}(part, {_values}, {_WORDS})", "atomic; gives the value before", _of,
        tiles=_atomic(_action), memory=(0,))  # fmt: skip
