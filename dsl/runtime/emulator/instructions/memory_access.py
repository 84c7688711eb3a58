"""Implements ld, st, fences and prefetches (PTX ISA 9.7.9, 9.7.13)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ..causality import Strong
from ..code import DTYPES, TYPE_BYTES, Code, Op, OperandEntry, Site, Values
from ..knowledge import scope_of
from ..memory import LOCAL_WINDOW, SHARED_WINDOW
from ..reader import Operand, PtxAddress, PtxInstruction, Vector
from ..shadow import GUESS_READ, PLAIN_READ, PLAIN_WRITE, STRONG_READ, STRONG_WRITE
from ..spaces import BadLanes, Space
from .registry import instruction

SPACES = {"global", "shared", "local", "const", "param"}
STRONG = {"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"}
VECTORS = {"v2": 2, "v4": 4, "v8": 8}
Body = Callable[[Values, Any, Space, Any], None]


def state_space(words: tuple[str, ...]) -> str:
    """Returns the state space that an opcode names: global, shared, local, const or param, or "generic" if it names
    none."""
    return next((space for word in words if (space := word.split("::")[0]) in SPACES), "generic")


def strong_access(words: tuple[str, ...], size: int, observes: bool = True) -> Strong:
    """Returns the strong access that an opcode describes. `size` is the size of one element in bytes."""
    orders = set(words)
    acquires, releases = bool(orders & {"acquire", "acq_rel"}), bool(orders & {"release", "acq_rel"})
    return Strong(scope_of(words), size, acquires, releases, observes)


def access(code: Code, space: str, operand: Operand, body: Body) -> Op:
    """Returns a closure that computes the space and the lanes' addresses, then calls `body(values, group, space,
    address)`."""
    if space == "generic":
        space = space_of_symbol(code, operand)
    return SpaceAccess(space, *code.address(operand), body, code.record.entries, code.record.written_entries)


class SpaceAccess(Struct, frozen=True):
    """A memory access in any state space. If the generic addresses of the lanes lie in several spaces, each space is
    accessed separately. If the access of a lane is invalid, it is reported, and the lane gets zeros. The other lanes
    continue.

    This is a class, since a closure that refers to itself would keep the whole program alive until a garbage
    collection.
    """

    space: str
    base: int
    offset: int
    body: Body
    entries: list[int]
    written: list[int]

    def __call__(self, v: Values, g: Any) -> None:
        address = v[self.base]
        if self.offset:
            address = address + address.dtype.type(self.offset % (1 << 8 * address.dtype.itemsize))
        try:
            if self.space != "generic":
                self.body(v, g, g.wave.spaces[self.space], address)
                return
            # The windows lie in the order global, shared, local (`memory.py`).
            kinds = np.where(address >= LOCAL_WINDOW, 2, np.where(address >= SHARED_WINDOW, 1, 0))
            kind = int(kinds[0])
            if (kinds == kind).all():
                name, window = (("global", 0), ("shared", SHARED_WINDOW), ("local", LOCAL_WINDOW))[kind]
                self.body(v, g, g.wave.spaces[name], address - np.uint64(window))
                return
            for each in np.unique(kinds):
                g.run_on(np.flatnonzero(kinds == each), self, v, self.entries, self.written)
        except BadLanes as fault:
            for entry in self.written:
                v[entry][np.broadcast_to(fault.bad, g.n)] = 0
            rest = np.flatnonzero(~fault.bad)
            if len(rest):
                g.run_on(rest, self, v, self.entries, self.written)


def space_of_symbol(code: Code, operand: Operand) -> str:
    """Returns the state space of the variable that a generic address names, or "generic" if the address names no
    variable."""
    name = getattr(operand.base, "name", "") if isinstance(operand, PtxAddress) else ""
    variable = code.variables.get(name)
    return "generic" if variable is None else {"param": "local"}.get(variable.space, variable.space)


def vector_items(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


def parameters(code: Code, operand: Operand, type_name: str, count: int) -> list[int]:
    """Returns the frame entries of `count` adjacent values in a kernel parameter, or [] if the address names no
    parameter."""
    assert isinstance(operand, PtxAddress)
    if operand.base is None or operand.base.name not in code.parameter_names:
        return []
    places = [operand.offset + index * TYPE_BYTES[type_name] for index in range(count)]
    return [code.entry(OperandEntry("parameter", (operand.base.name, place), type_name)) for place in places]


@instruction("ld", "ldu", effect=True)
def load(code: Code, ins: PtxInstruction) -> Op:
    words = ins.opcode[1:]
    type_name, count = words[-1], next((VECTORS[word] for word in words if word in VECTORS), 1)
    space = state_space(words)
    type_name = {"f32": "b32", "f64": "b64"}.get(type_name, type_name)  # bits are copied, also into wider registers
    dtype = np.dtype(DTYPES[type_name])
    size = dtype.itemsize * count
    items = vector_items(ins.operands[0])
    if space == "param":
        if constants := parameters(code, ins.operands[1], type_name, count):
            return load_parameter([code.write_extended(item, type_name) for item in items], constants)
        space = "local" if names_variable(code, ins.operands[1]) else "const"
    strong = strong_access(words, dtype.itemsize) if STRONG & set(words) else None
    read_only = "nc" in words
    targets = [code.write_extended(item, type_name) for item in items]
    site = code.site
    kind, volatile = STRONG_READ if strong else PLAIN_READ, "volatile" in words

    def body(v: Values, g: Any, memory: Space, address: Any) -> None:
        place = memory.place(address, size, g, site, False, g.launch.counters_of(site))
        if memory.shadow is not None and not place.unwritten:
            # In old code, the lanes of a warp exchange data by volatile accesses to shared memory, without a barrier.
            if volatile and memory.shadow.name == "shared":
                memory.shadow.volatile(kind, place, g, site)
            guesses = kind == PLAIN_READ and site.number in g.launch.program.guesses
            memory.shadow.access(GUESS_READ if guesses else kind, place, g, site, strong)
            if read_only:
                memory.shadow.read_only(place, g, site)
        values, late = memory.load(place, dtype, count), None
        if strong is not None and memory.delays is not None:
            values, late = memory.delays.read(place, g, values, dtype, count)
        if count == 1:
            v[targets[0]][...] = values
        else:
            for index, target in enumerate(targets):
                v[target][...] = values[:, index]
        if strong is not None:
            g.wave.observe(place, g, memory, as_heard(strong, site, g), late)
            g.launch.spins.read(site, place, memory, g)

    return access(code, space, ins.operands[1], body)


def as_heard(strong: Strong, site: Site, g: Any) -> Strong:
    """Returns the access `strong`. Sets `heard` to false if no instruction uses the value that is read, since such a
    read alone synchronises nothing."""
    return replace(strong, heard=False) if site.number in g.launch.program.answers.unheard else strong


def names_variable(code: Code, operand: Operand) -> bool:
    """Checks whether the operand is the address of a `.param` variable of a call. These variables lie in local
    memory."""
    return isinstance(operand, PtxAddress) and getattr(operand.base, "name", None) in code.variables


def load_parameter(targets: list[int], constants: list[int]) -> Op:
    def run(v: Values, g: Any) -> None:
        for target, constant in zip(targets, constants, strict=True):
            v[target][...] = v[constant]

    return run


@instruction("st", effect=True)
def store(code: Code, ins: PtxInstruction) -> Op:
    words = ins.opcode[1:]
    type_name, count = words[-1], next((VECTORS[word] for word in words if word in VECTORS), 1)
    space = state_space(words)
    dtype = np.dtype(DTYPES[type_name])
    size = dtype.itemsize * count
    sources = [code.read(item, type_name) for item in vector_items(ins.operands[1])]
    if space == "param":
        space = "local"
    strong = strong_access(words, dtype.itemsize) if STRONG & set(words) else None
    kind, site, volatile = STRONG_WRITE if strong else PLAIN_WRITE, code.site, "volatile" in words

    def body(v: Values, g: Any, memory: Space, address: Any) -> None:
        place = memory.place(address, size, g, site, True, g.launch.counters_of(site))
        if count == 1:
            values = v[sources[0]]
        else:
            values = np.empty((g.n, count), dtype)
            for index, source in enumerate(sources):
                values[:, index] = v[source]
        if volatile and memory.shadow.name == "shared":
            memory.shadow.volatile(kind, place, g, site)
        memory.shadow.access(kind, place, g, site, strong, values=values)
        if strong is not None:
            if memory.delays is not None:
                memory.delays.wrote(place, g, site, memory.load(place, dtype, count), dtype, count)
            g.wave.publish(place, g, memory, strong)
        memory.store(place, values, dtype, count)

    return access(code, space, ins.operands[0], body)


@instruction("membar", "fence", effect=True)
def fence(code: Code, ins: PtxInstruction) -> Op:
    """Implements `fence` and `membar`. A fence orders the earlier accesses of the thread before its later strong
    operations. `fence.proxy.async` orders earlier writes before the accesses of wgmma and TMA (`products.py`). Fences
    of other proxies have no effect here.

    `fence.mbarrier_init` must precede relaxed arrivals at a cluster barrier. The emulator lets it order all earlier
    accesses before such arrivals.
    """
    if "proxy" in ins.opcode:
        return proxy_fence(".".join(ins.opcode[2:]))
    scope = scope_of(ins.opcode)
    words, is_whole = ins.opcode, "mbarrier_init" not in ins.opcode
    acquires, releases = "release" not in words, "acquire" not in words
    sequential = words[0] == "membar" or "sc" in words

    def run(v: Values, g: Any) -> None:
        if acquires:
            g.wave.relaxed.acquire(g)
        if not is_whole:
            g.launch.init_fences.fence(g)
        else:
            g.wave.causality.fence(g.index(), scope, acquires, releases, sequential)
        if releases:
            g.wave.relaxed.release(g, words)

    return run


def proxy_fence(name: str) -> Op:
    # A fence that names no space affects shared and global memory (PTX ISA, "fence.proxy.async").
    is_shared, is_global = name.startswith("async") and name != "async.global", name in {"async", "async.global"}

    def run(v: Values, g: Any) -> None:
        if is_shared:
            g.launch.proxies.fence(g)
        if is_global:
            g.launch.global_proxies.fence(g)

    return run


def nothing(v: Values, g: Any) -> None:
    """Does nothing, for instructions that do not affect the results of a program."""


@instruction("prefetch", "prefetchu", "applypriority", "discard", "pmevent", "createpolicy")
def hint(code: Code, ins: PtxInstruction) -> Op:
    if ins.opcode[0] == "createpolicy":
        d = code.write(ins.operands[0], "b64")

        def policy(v: Values, g: Any) -> None:
            v[d][...] = 0

        return policy
    return nothing


@instruction("griddepcontrol", effect=True)
def grid_control(code: Code, ins: PtxInstruction) -> Op:
    """Implements `griddepcontrol`. `launch_dependents` lets the next launch start early, and orders no accesses.
    `overlap.py` explains `wait`."""
    if "wait" not in ins.opcode:
        return nothing
    site = code.site

    def run(v: Values, g: Any) -> None:
        if g.launch.overlap is not None:
            g.launch.overlap.wait(g, site)

    return run
