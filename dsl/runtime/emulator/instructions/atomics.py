"""Implements `atom` and `red` (PTX ISA 9.7.13.8, 9.7.13.10)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..code import DTYPES, Code, Op, Site, Values
from ..reader import Operand, PtxInstruction, Register, Vector
from ..reductions import OPERATIONS, performer
from ..shadow import STRONG_WRITE, SpacePlace
from ..spaces import Space
from .memory_access import VECTORS, access, as_heard, state_space, strong_access
from .registry import instruction


@instruction("atom", effect=True, counts="atomics")
def atom(code: Code, ins: PtxInstruction) -> Op:
    return atomic(code, ins, ins.operands[0], ins.operands[1:])


@instruction("red", effect=True, counts="atomics")
def red(code: Code, ins: PtxInstruction) -> Op:
    return atomic(code, ins, None, ins.operands)


def unchanged(step: Any, cells: Any, operand: Any, new: Any) -> Any:
    """Returns a mask of the elements of `cells` that the operation would not change."""
    after = np.where(cells == operand, new, cells) if new is not None else step(cells, operand)
    # Bits are compared, since a NaN does not equal itself.
    bits = f"u{cells.dtype.itemsize}"
    return after.view(bits) == cells.view(bits)


def note_changes(memory: Space, place: SpacePlace, g: Any, site: Site, before: Any) -> None:
    """Records that an atomic operation has run. If later loads may still return old values (`delays.py`), `before`
    contains the old values. Otherwise, it is None."""
    if memory.delays is None or before is None:
        memory.changes += 1
        return
    changed = np.flatnonzero(memory.load(place, before.dtype, 1) != before)
    if len(changed):
        memory.changes += 1
        memory.delays.wrote(place.restricted(changed), g.part(changed), site, before[changed], before.dtype, 1)


def parts_of(operand: Operand | None, count: int) -> list[Operand | None]:
    """Returns the elements of a vector operand. If the operand is missing or `_`, each element is None."""
    if isinstance(operand, Vector):
        return list(operand.items)
    return [operand] if count == 1 else [None] * count


def result_entry(code: Code, target: Operand | None, held: str) -> int | None:
    """Returns the frame entry for the old value, or None if no instruction reads the old value."""
    # A register that occurs only once in the text is never read.
    if target is None or (isinstance(target, Register) and (target.name == "_" or code.uses[target.name] == 1)):
        return None
    return code.write(target, held)


def atomic(code: Code, ins: PtxInstruction, target: Operand | None, operands: tuple[Operand, ...]) -> Op:
    """Builds `atom` or `red`. Each element of a vector is a separate atomic operation (PTX ISA "atom"), and they run
    one after another."""
    words = ins.opcode[1:]
    name = next(word for word in words if word in OPERATIONS or word == "cas")
    type_name = words[-1]
    count = next((VECTORS[word] for word in words if word in VECTORS), 1)
    packed = type_name.endswith("x2")
    held = "u32" if packed else type_name
    dtype = np.dtype(DTYPES[held])
    is_sink = getattr(target, "name", None) == "_"
    sources = [code.read(item, held) for item in parts_of(operands[1], count) if item is not None]
    c = code.read(operands[2], held) if name == "cas" else None
    targets = [result_entry(code, item, held) for item in parts_of(target, count)]
    size = dtype.itemsize // 2 if packed else dtype.itemsize
    strong = strong_access(words, size, observes=ins.opcode[0] == "atom" and not is_sink)
    site = code.site
    one = Element(site, dtype, strong, name, type_name)

    def body(v: Values, g: Any, memory: Space, address: Any) -> None:
        given = [np.broadcast_to(v[source], g.n) for source in sources]
        if count > 1:
            memory.place(address, count * dtype.itemsize, g, site, True, None)  # reports misaligned vectors
            # the old value of one element may overwrite the operand of a later element
            given = [np.array(each) for each in given]
        for number, (operand, d) in enumerate(zip(given, targets, strict=True)):
            at = address + address.dtype.type(number * dtype.itemsize) if number else address
            one.run(v, g, memory, at, operand, None if c is None else np.broadcast_to(v[c], g.n), d)

    return access(code, state_space(words), operands[0], body)


class Element:
    """An atomic operation on one word of each lane."""

    def __init__(self, site: Site, dtype: Any, strong: Any, name: str, type_name: str):
        self.site, self.dtype, self.strong = site, dtype, strong
        self.step, self.perform = performer(name, type_name)

    def run(
        self, v: Values, g: Any, memory: Space, address: Any, operand: Any, replacement: Any, d: int | None
    ) -> None:
        """Runs the operation for all lanes. `replacement` is the new value of a compare-and-swap. `d` is the frame
        entry for the old value, or None."""
        site, dtype, strong = self.site, self.dtype, self.strong
        place = memory.place(address, dtype.itemsize, g, site, True, None)
        memory.shadow.access(STRONG_WRITE, place, g, site, strong, read_modify=True)
        index = place.index if place.index is not None else place.start + np.arange(g.n)
        memory.count_atomic(index, dtype.itemsize, g, site)
        # The ISA leaves the order of the lanes open. With a seed, the order is random.
        order = g.wave.atomic_order(g.n)
        earlier: Any = None
        late: Any = None
        delays = memory.delays
        if delays is not None and d is not None:
            earlier, late = delays.polled(
                place, g, dtype, lambda cells: unchanged(self.step, cells, operand, replacement)
            )
            if late is not None:
                order = np.arange(g.n)[order]
                # A lane with the old value counts as executed before the last write. It changed nothing then, so it is
                # skipped now.
                order = order[~late[order]]
        before = None if delays is None else memory.load(place, dtype, 1).copy()
        new = None if replacement is None else replacement[order]
        old = self.perform(memory.elements(dtype, 1), index[order], operand[order], new, d is not None)
        if d is not None:
            result = np.empty(g.n, dtype)
            result[order] = old
            if late is not None:
                result[late] = earlier[late]
            v[d][...] = result
        wrote: Any = True
        if replacement is not None:
            wrote = np.zeros(g.n, bool)
            wrote[order] = old == operand[order]
        note_changes(memory, place, g, site, before)
        if d is not None:
            g.launch.spins.read(site, place, memory, g)
        strong = as_heard(strong, site, g)
        if late is not None:
            # These operations count as executed before the last write, and changed nothing.
            lanes = np.flatnonzero(late)
            before_last = np.ones((len(lanes), place.size // strong.size), bool)
            g.wave.observe(place.restricted(lanes), g.part(lanes), memory, strong, before_last)
        g.wave.modify(place, g, memory, order, wrote, strong)
