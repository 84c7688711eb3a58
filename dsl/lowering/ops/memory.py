"""Declares accesses to memory, and the operations that order them.

The operands of an access to a tensor are the tensor and a tile of element offsets. The operands of an access to a
shared tile are this tile, an optional stage, and a tile of element offsets within the stage. Other operands are
optional, so the attribute `has` contains the names of all operands that are present, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from typing import Any

from msgspec.structs import replace

from dsl import ptx_templates
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.types import SharedType, TableType, TensorType, TileType, Type
from dsl.lowering.layouts.layout import Layout
from dsl.lowering.ops.placing import Exchanging, Placed, Placing, alike, in_one, plain
from dsl.lowering.ops.spec import AccessEffect, ElementFacts, MemoryAccess, Placement, nothing, row, same_axis
from dsl.ptx_templates import instruction


def space_of(memory: Value) -> str:
    return {TensorType: "global", SharedType: "shared", TableType: "param"}[type(memory.type)]  # type: ignore[index]


def operand(op: Op, name: str) -> Value | None:
    """Returns the operand of a memory operation with this name in the attribute `has`, or None."""
    names = op.attrs["has"]
    return op.operands[names.index(name)] if name in names else None


def required(op: Op, name: str) -> Value:
    """Returns the operand of a memory operation with this name, which must be present."""
    return op.operands[op.attrs["has"].index(name)]


def leave_out(op: Op, *names: str) -> None:
    """Removes the operands with these names from a memory operation."""
    kept = [(name, value) for name, value in zip(op.attrs["has"], op.operands, strict=True) if name not in names]
    op.attrs["has"] = [name for name, _ in kept]
    op.operands = [value for _, value in kept]


def _infer_moved(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    return [TileType(operands[attrs["has"].index("offset")].shape, operands[0].dtype)]


_KINDS = {"reads": ("read",), "writes": ("write",), "updates": ("read", "write")}
BONDS = ("acquire", "release")
"""Kinds of effects that do not access memory themselves, but order the accesses of other operations."""
_BONDS_OF = {"acquire": ("acquire",), "release": ("release",), "acq_rel": BONDS}


def of_instruction(op: Op) -> list[AccessEffect]:
    """Returns the effects in the table row of the operation's PTX instruction. Each effect is paired with the operand
    whose memory it accesses.

    Acquire and release are included only if they order accesses of other blocks: in global memory, with a wider scope
    than a block.
    """
    becomes = op.spec.becomes
    return _effects_of(op, becomes if isinstance(becomes, str) else becomes(op))


def _effects_of(op: Op, name: str) -> list[AccessEffect]:
    rows, memory = _kinds_of(name), op.operands[0]
    if len(rows) == 1:
        by, kinds = rows[0]
        return [AccessEffect(kind, memory, by.space or "", by) for kind in kinds]
    return [AccessEffect(kind, _operand_in(op, by.space), by.space or "", by) for by, kinds in rows for kind in kinds]


@cache
def _kinds_of(name: str) -> tuple[tuple[ptx_templates.Effect, tuple[str, ...]], ...]:
    """Returns the effects in an instruction's table row. Each effect is paired with its kinds, such as "read" and
    "acquire"."""
    found = []
    for by in instruction(name).effects:
        bonds = _BONDS_OF.get(by.order, ()) if by.space == "global" and by.scope != "cta" else ()
        found.append((by, _KINDS[by.action] + bonds))
    return tuple(found)


def _operand_in(op: Op, space: str | None) -> Value:
    return next(o for o in op.operands if not isinstance(o.type, TileType) and space_of(o) == space)


_PARAM = ptx_templates.Effect("reads", space="param", order="constant")


def _load_effects(op: Op) -> list[AccessEffect]:
    """Returns the effects of a load. A table is read by LLVM's `load`, which has no row in `dsl.ptx_templates`."""
    table = op.operands[0]
    return [AccessEffect("read", table, "param", _PARAM)] if space_of(table) == "param" else of_instruction(op)


def _access_row(verb: str) -> Callable[[Op], str]:
    def row(op: Op) -> str:
        volatile = ".volatile" if op.attrs["cache"] == "volatile" else ""
        return f"{verb}{volatile}.{space_of(op.operands[0])}.b32"

    return row


_SCOPES = {"block": "cta", "gpu": "gpu", "system": "sys"}


def atomic_row(op: Op, action: str = "exch.b32") -> str:
    """Returns the name of the PTX instruction for an atomic with this action."""
    return f"atom.{op.attrs['order']}.{_SCOPES[op.attrs['scope']]}.{space_of(op.operands[0])}.{action}"


def tma_store_row(op: Op, rank: int = 2) -> str:
    """Returns the name of the PTX instruction for a TMA store of boxes with `rank` axes."""
    action = op.attrs.get("action")
    name, reduces = ("cp.async", "") if action is None else ("cp.reduce.async", f".{action}")
    return f"{name}.bulk.tensor.{rank}d.global.shared::cta{reduces}.tile.bulk_group"


def writes(op: Op) -> bool:
    """Returns whether an operation writes memory."""
    return op.spec.access.touches and any(e.kind == "write" for e in op.spec.access.effects(op))


def clears(op: Op) -> bool:
    """Returns whether threads set elements of a TMA box to 0 that the mask of its load excludes."""
    return op.spec.access.kind == "write" and bool(op.attrs.get("clears"))


def only_copies(op: Op) -> bool:
    """Returns whether all writes of an operation are asynchronous, so that they complete later than the operation."""
    effects = op.spec.access.effects(op)
    return all(e.by.completion != "at once" for e in effects if e.kind == "write")


def by_threads(op: Op) -> bool:
    """Returns whether each thread accesses its own elements of memory, at offsets."""
    return op.spec.access.touches and "offset" in op.attrs.get("has", ())


def place_of(op: Op, effect: AccessEffect) -> tuple[Value, Value | None]:
    """Returns the offsets of an access, and its stage or None. A copy reads at its `source`, and a TMA store writes at
    its `target`. A wgmma reads at the offsets of its views."""
    op = effect.view or op
    if op.spec.leaves:
        return required(op, "place" if effect.space == "shared" else "target"), None
    if op.spec.in_flight and effect.kind == "read":
        return required(op, "source"), None
    return required(op, "offset"), operand(op, "stage")


def commutes(op: Op, used: AbstractSet[Value]) -> str | None:
    """Returns the action of an access, such as "add", if accesses with the same action may run in any order. This holds
    for atomics whose result is unused, and for stores with `order=none`, whose action is "store". Returns None for any
    other access."""
    action = op.attrs.get("action")
    if action is not None and action not in ("exchange", "cas") and used.isdisjoint(op.results):
        return str(action)
    return "store" if op.attrs.get("order") == "none" else None


def counts_iterations(op: Op) -> bool:
    """Returns whether an atomic in a loop may run in any order of the iterations, if each thread runs the loop for
    itself. The atomic must be relaxed, and its action must leave the same value in memory in any order. The values that
    it returns may depend on the order."""
    return op.attrs.get("action") not in (None, "exchange", "cas") and op.attrs.get("order") == "relaxed"


def moved_by(op: Op) -> Value:
    """Returns the tile that an access loads or stores."""
    return op.results[0] if op.results else required(op, "value")


def _place_access(a: Placing, op: Op) -> Placed:
    moved = moved_by(op)
    if moved in a.layouts:
        return in_one(op, a.widest(op, a.chosen(moved)))
    value = operand(op, "value")
    if value is None:
        return plain(a, op)
    return in_one(op, a.widest(op, a.chosen(value) or a.access_layout(op)) if value.tile.shape else None)


def _place_copy(a: Placing, op: Op) -> Placed:
    return [a.copy_layout(op)] * len(op.operands), []


def _place_tma_store(a: Placing, op: Op) -> Placed:
    """Lets one thread issue the store. `lower_copies` changes this if each warp can issue its own part of the store."""
    tiles = [o.tile.shape if isinstance(o.type, TileType) else () for o in op.operands]
    return [Layout.of_one(shape, a.warps) if shape else None for shape in tiles], []


def _exchange_load(a: Exchanging, op: Op) -> bool:
    """Lets one thread execute a volatile load of global memory for all threads. Otherwise, threads could read different
    values, because other blocks may write the memory at the same time."""
    changing = op.attrs["cache"] == "volatile" and space_of(op.operands[0]) == "global"
    return changing and a.share(op, one_thread=True)


def _takes(needs: str, **named: str) -> dict[str, Any]:
    """Returns two fields of a row: `named`, the kinds of the named operands, and `needs`, the names of operands that
    are always present. `corner` and `tap` mean one operand per axis."""
    return {"named": {"memory": "writable", **named}, "needs": ("memory", *needs.split())}


BOX = {"corner": "index", "tap": "index"}
BOXES = {"corner": "places", "tap": "index"}
"""The operands of several boxes below each other: where each begins is an element of a tile."""
_PLACED = {"offset": "places", "stage": "index", "mask": "flag"}
_WHOLE = {"there": "flag"}
"""The operand of a TMA box without a mask: a flag that decides whether the box is accessed."""
CUT = "cut"
"""The operand of a load whose TMA box contains elements that its mask excludes: this part of the mask."""
ACCESS = Placement(alike, place=_place_access)
_SAME_AXES = ElementFacts(along=same_axis)

row(
    "load", (2, 14), _infer_moved, "has cache evict", becomes=_access_row("ld"), elements=_SAME_AXES,
    access=MemoryAccess(_load_effects, "read", under_mask="convex"), placement=replace(ACCESS, exchange=_exchange_load),
    **_takes("offset", **_PLACED | {"memory": "memory", "other": "tile"}, **_WHOLE, **{CUT: "flag"}, **BOXES),
)  # fmt: skip
row(
    "store", (3, 11), nothing, "has cache evict", becomes=_access_row("st"), elements=_SAME_AXES,
    access=MemoryAccess(of_instruction, "write", under_mask="convex"), placement=ACCESS,
    **_takes("offset value", **_PLACED, value="tile", **_WHOLE, **BOX),
)  # fmt: skip
row(
    "ldmatrix", (2, 3), _infer_moved, "has trans", becomes="ldmatrix.sync.m8n8.x1.shared.b16",
    access=MemoryAccess(of_instruction), **_takes("offset", memory="shared", stage="index", offset="places"),
)  # fmt: skip
row(
    "stmatrix", (3, 4), nothing, "has trans", becomes="stmatrix.sync.m8n8.x1.shared.b16",
    access=MemoryAccess(of_instruction),
    **_takes("offset value", memory="shared", stage="index", offset="places", value="tile"),
)  # fmt: skip
row(
    "atomic", (3, 12), _infer_moved, "has action order scope", becomes=atomic_row,
    access=MemoryAccess(of_instruction, "update"), placement=replace(ACCESS, exchange=lambda a, op: a.share(op)),
    **_takes("offset value", **_PLACED, value="tile", expected="tile", **_WHOLE, **BOX),
)  # fmt: skip
row(
    "copy", (4, 14), nothing, "has cache bytes", becomes="cp.async.ca.shared.global.4",
    access=MemoryAccess(of_instruction, under_mask="falls"),  # `cp.async` can be limited to the first bytes of a vector
    placement=Placement(place=_place_copy),
    **_takes("offset tensor", **_PLACED | {"memory": "shared", "tensor": "tensor", "source": "places"}, **BOX),
)  # fmt: skip
# Stores elements of a shared tile to a tensor, in TMA boxes. `place` contains the offsets in the shared tile, and
# `target` contains the offsets in the tensor. `corner` is the start of the box along each axis of the tensor. The edges
# of the tensor clip the box. `mask` is a scalar flag that decides whether anything is stored. The threads that have
# elements of `place` issue the store.
# With an `action`, each element of the tensor becomes the sum, minimum, … of itself and the stored one.
row(
    "tma_store", (5, 10), nothing, "has box at", becomes="cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group",
    access=MemoryAccess(lambda op: _effects_of(op, tma_store_row(op))), placement=Placement(place=_place_tma_store),
    **_takes("place tensor target", memory="shared", place="places", tensor="tensor", target="places", mask="flag",
             stage="index", **BOX),
)  # fmt: skip


def _synchronizes(name: str, becomes: str, waits: str = "", attrs: str = "") -> None:
    row(name, 0, nothing, attrs, acts="synchronizes", becomes=becomes, access=MemoryAccess(waits=waits))


_synchronizes("tma_commit", "cp.async.bulk.commit_group")
# Waits until all groups of TMA stores except the newest `groups` have read their shared memory.
_synchronizes("tma_wait", "cp.async.bulk.wait_group.read", "wait for stores", "groups")
# Makes a thread's earlier writes to shared memory visible to the TMA stores behind the next barrier.
_synchronizes("tma_fence", "fence.proxy.async.shared::cta")
# The attribute `own` is true if the compiler made the tile. The source of the kernel does not access such a tile. The
# compiler therefore inserts the barriers between accesses to the tile, even with `barriers manual`. Other blocks of the
# cluster may write a `remote` tile at any time, so it shares its bytes with no other tile. A `computed` tile is an
# operand of wgmma that threads store.
row("shared_alloc", 0, lambda o, a: [a["type"]], "type name", acts="allocates")
_synchronizes("commit", "cp.async.commit_group")
_synchronizes("wait", "cp.async.wait_group", "wait for copies", "groups")
_synchronizes("barrier", "bar.sync", "barrier of the {scope}", "scope")
# `wait_for_launches` waits for the preceding launches. `let_next_start` permits the next launch to start. That launch
# starts when all blocks have permitted it (`passes/overlap.py`).
_synchronizes("wait_for_launches", "griddepcontrol.wait", "wait for launches")
_synchronizes("let_next_start", "griddepcontrol.launch_dependents")
