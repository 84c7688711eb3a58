"""Converts the instructions of a kernel to segments of closures. Inlines calls, orders the segments, and assigns
registers to slots."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping
from functools import cached_property, partial

from msgspec import Struct, field
from msgspec.structs import replace

from .alike import constant_stores
from .answers import Answers
from .code import PACKED, REGISTER_BYTES, REGISTER_DTYPE, BarrierOperands, Code, Op, Record, Site
from .counters import Counters
from .findings import Location, PtxError
from .forward import may_wait
from .guesses import guesses, updates
from .inlining import Inliner
from .instructions import build
from .instructions.registry import merged_by_guard, restricted_by_guard, row_of
from .knowledge import GPU, scope_of
from .legal.forms import number_of
from .limits import MOST_SHARED, MOST_VARIABLE
from .liveness import Living, exposed_and_written
from .logical_time import CLOCKS
from .matrix import NO_PRODUCT, WarpProduct, warp_product
from .order import components, weak_topological_order
from .provenance import accessed_through, stored_through
from .reader import (
    TYPE_BYTES,
    Float,
    Integer,
    Label,
    PtxAddress,
    PtxInstruction,
    PtxModule,
    Register,
    TensorAddress,
    Vector,
    names_in,
)
from .step import RegisterStep
from .sums_in_flight import check_sums
from .tensor_maps import TYPES, bytes_of_type
from .undefined import Undefined, is_division, step_of

# Maximum number of bytes of each space in one kernel (CUDA C++ guide, compute capability). For `.shared`, this is the
# limit of ptxas. For targets with an `a`, the limit is a block's maximum shared memory (ptxas 13.0 to 13.5; 64 KiB were
# launched on an H200).
MOST_STATIC = {"global": MOST_VARIABLE, "shared": 48 << 10, "const": 64 << 10, "local": 512 << 10}


# A block's maximum shared memory in bytes, for each target with an `a`. The keys are the numbers of the targets.
MOST_OF_ONE_MACHINE = {**dict.fromkeys((90, 100, 103, 110), MOST_SHARED), **dict.fromkeys((120, 121), 99 << 10)}


def most_static(space: str, target: str) -> int:
    """Returns the maximum number of bytes of a state space that a kernel may declare or name."""
    if space == "shared" and target.endswith("a"):
        return MOST_OF_ONE_MACHINE.get(number_of(target), MOST_STATIC[space])
    return MOST_STATIC[space]


class End(Struct):
    """The end of a segment. `kind` is "next", "jump", "branch", "switch", "exit" or, for a guarded exit, "exit where".
    A "branch" jumps to `targets[0]` if its guard is true, and otherwise continues at `targets[1]`."""

    kind: str
    targets: list[int] = field(default_factory=list)
    entry: int = 0
    negated: bool = False
    site: Site | None = None
    uniform: bool = False


class Segment(Struct, dict=True):
    """A basic block or a part of one. A barrier or `.sync` instruction (`rendezvous.py`) starts a new segment."""

    number: int
    ops: list[Op] = field(default_factory=list)
    places: list[int] = field(default_factory=list)  # the position of each op among the segment's instructions
    end: End = field(default_factory=lambda: End("exit"))
    sync: str = ""
    mask: int | None = None
    barrier: BarrierOperands | None = None
    site: Site | None = None
    records: list[Record] = field(default_factory=list)
    entries: list[int] = field(default_factory=list)
    exposed_slots: tuple[int, ...] = ()
    written_slots: frozenset[int] = frozenset()
    counters: list[tuple[Site, str, WarpProduct]] = field(default_factory=list)
    steps: list[RegisterStep] = field(default_factory=list)
    arrival: list[Op] = field(default_factory=list)  # these run when threads arrive at the barrier
    mask_name: str = ""
    size: int = 0
    only_leaves: bool = False
    living: Living | None = None
    slots: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def alike(self) -> list[tuple[Location | None, Counter[tuple[str, WarpProduct]]]]:
        """Counts the instructions of each kind at each source location. In one kernel, 10,581 instructions have 1,137
        such counts."""
        found: dict[int, tuple[Location | None, Counter[tuple[str, WarpProduct]]]] = {}
        for site, kind, product in self.counters:
            found.setdefault(id(site.location), (site.location, Counter()))[1][kind, product] += 1
        return list(found.values())

    @cached_property
    def live_slots(self) -> frozenset[int]:
        """The slots of the registers that are live at the segment's start. They are needed only when threads
        diverge."""
        if self.living is None:
            return frozenset()
        return frozenset(self.slots[name] for name in self.living.names_in(self.living.at_starts[self.number]))


class Raw(Struct):
    """A segment before ordering: its instructions, and the labels at which execution may continue."""

    instructions: list[PtxInstruction] = field(default_factory=list)
    end: PtxInstruction | None = None
    targets: list[str] = field(default_factory=list)
    falls: bool = True


class EmulatedProgram:
    """One kernel of a module, prepared to run: segments in execution order, entries, and register slots.

    If `divisions` is true, the program tracks all values that depend on the result of a division by 0.
    """

    def __init__(self, module: PtxModule, entry: str, divisions: bool = False):
        if entry not in module.functions or not module.functions[entry].is_entry:
            known = ", ".join(name for name, each in module.functions.items() if each.is_entry)
            raise PtxError(f"there is no entry {entry!r}; the module has {known or 'none'}")
        self.module = module
        self.function = module.functions[entry]
        inliner = Inliner(module)
        body = inliner.expand(self.function, {}, "")
        self.variables = {**module.variables, **inliner.variables}
        self.code = Code(inliner.registers, self.variables, self.function)
        self.code.uses = count_uses(body)
        self.code.known = constant_registers(body, inliner.registers)
        # Shared variables that no instruction uses take no memory, as with ptxas.
        self.variables = {
            name: variable
            for name, variable in self.variables.items()
            if variable.space != "shared" or variable.external or self.code.uses[name] or name in inliner.variables
        }
        self.check_static_memory()
        self.branch_targets = inliner.targets
        raws, labels = self.split(body)
        successors = [self.successors(raws, labels, number) for number in range(len(raws))]
        order = weak_topological_order(successors)
        self.place = {raw: number for number, raw in enumerate(order)}
        self.start = self.place[0]
        looping = in_loops(successors)
        self.segments = []
        for number, raw in enumerate(order):
            self.code.in_loop = raw in looping
            self.segments.append(self.build_segment(number, raws[raw]))
        for number, raw in enumerate(order):
            self.close(self.segments[number], raws[raw], raw, labels)
        self.slots: dict[str, int] = {}
        self.slot_bytes: list[int] = []
        check_sums(self.segments, self.start)
        self.guesses, self.constant_stores = guesses(self.segments), constant_stores(self.segments)
        self.updates = updates(self.segments)
        self.divisions = divisions
        self.divides = any(map(is_division, (step for each in self.segments for step in each.steps)))
        self.undefined = Undefined(self.segments, self.start, self.code, divisions)
        self.answers = Answers(self.segments)
        self.allocate_slots()
        self.reads_clocks = any(self.code.uses[name] for name in CLOCKS)
        self.special_entries = [each for each in enumerate(self.code.entries) if each[1].kind in ("special", "symbol")]
        self.granules = self.smallest_accesses(body)
        self.reads_maps, self.element_sizes = maps_in_memory(body)
        self.stored_through = stored_through(body, self.function, inliner.registers)
        self.accessed_through = partial(
            accessed_through, body=body, function=self.function, registers=inliner.registers
        )
        self.note_instructions(body)
        self.needs_clocks = self.has_partial_synchronisation(body)
        self.may_wait = self.waits_for_memory and may_wait(self.segments)

    def note_instructions(self, body: list[PtxInstruction | Label]) -> None:
        """Notes which kinds of instructions the program contains. Launches skip the work for kinds that do not
        occur."""
        instructions = [item for item in body if isinstance(item, PtxInstruction)]
        opcodes = {item.opcode for item in instructions}
        self.tracks_copies = any(map(is_tracked, opcodes))
        self.relaxes = any({"mbarrier", "cluster"} & {*each[:2]} and "relaxed" in each for each in opcodes)
        self.has_mbarriers = any(each[0] == "mbarrier" for each in opcodes)
        self.has_chains = any(map(orders_memory, opcodes))
        self.names_narrow_scopes = any(map(names_narrow_scope, opcodes))
        self.waits_for_memory = any(can_wait(item, self.code.uses) for item in instructions)

    def check_static_memory(self) -> None:
        """Checks that the kernel's `.shared` memory (declared or named), `.const` memory and local memory do not exceed
        their limits. Checks the module's other kernels, too, since ptxas refuses the whole module for one of them."""
        kernels = [each for each in self.module.functions.values() if each.is_entry and each is not self.function]
        for function, variables in (
            *((each, each.variables) for each in kernels),
            (self.function, self.variables),
        ):
            totals = dict.fromkeys(MOST_STATIC, 0)
            for name, variable in variables.items():
                counts = variable.space != "shared" or name in function.variables or self.code.uses[name]
                if variable.space in totals and counts:
                    total = -(-totals[variable.space] // variable.align) * variable.align
                    totals[variable.space] = total + variable.size
            for space in MOST_STATIC:
                if totals[space] > (most := most_static(space, self.module.target)):
                    message = f"{function.name} has {totals[space]} bytes of .{space} memory, of {most} at most"
                    hint = "; declare more as .extern .shared, for the launch to size" if space == "shared" else ""
                    raise PtxError(message + hint, function.ptx_line)

    # Control flow

    def split(self, body: list[PtxInstruction | Label]) -> tuple[list[Raw], dict[str, int]]:
        """Cuts the instructions into segments: at labels, after jumps, and before each barrier or `.sync`
        instruction."""
        raws, labels = [Raw()], {}
        wanted = {
            str(item.operands[0]) for item in body if isinstance(item, PtxInstruction) and item.opcode[0] == "bra"
        }
        wanted.update(label for targets in self.branch_targets.values() for label in targets)
        for item in body:
            if isinstance(item, Label):
                if item.name not in wanted:
                    continue  # debug information has many labels that no instruction jumps to
                if raws[-1].instructions or raws[-1].end or not raws[-1].falls:
                    raws.append(Raw())
                labels[item.name] = len(raws) - 1
                continue
            if raws[-1].end is not None:
                raws.append(Raw())
            if item.opcode[0] in {"bra", "brx", "ret", "exit"}:
                self.finish(raws[-1], item)
                continue
            row = row_of(item)
            if row is not None and row.sync:
                if item.guard is not None:
                    # A guarded barrier becomes a jump around an unguarded one, which then starts a new segment.
                    label = f"after {len(raws)}"
                    around = replace(item, opcode=("bra",), operands=(Register(label),))
                    self.finish(raws[-1], replace(around, guard_negated=not item.guard_negated))
                    raws.append(Raw([replace(item, guard=None)]))
                    raws.append(Raw())
                    labels[label] = len(raws) - 1
                    continue
                if raws[-1].instructions:
                    raws.append(Raw())
                raws[-1].instructions.append(item)
                if row.sync == "barrier":
                    raws.append(Raw())
                continue
            raws[-1].instructions.append(item)
        if raws[-1].end is not None and raws[-1].falls:
            raws.append(Raw())  # a thread whose guard is false reaches the end and returns
        raws[-1].falls = False
        return raws, labels

    def finish(self, raw: Raw, ins: PtxInstruction) -> None:
        raw.end = ins
        raw.falls = ins.guard is not None
        if ins.opcode[0] == "bra":
            raw.targets = [str(ins.operands[0])]
        elif ins.opcode[0] == "brx":
            name = str(ins.operands[1])
            if name not in self.branch_targets:
                raise PtxError(f"unknown branch targets {name}", ins.ptx_line)
            raw.targets = list(self.branch_targets[name])

    def successors(self, raws: list[Raw], labels: dict[str, int], number: int) -> list[int]:
        raw = raws[number]
        for label in raw.targets:
            if label not in labels:
                raise PtxError(f"unknown label {label}", raw.end.ptx_line if raw.end else None)
        found = [labels[label] for label in raw.targets]
        if raw.falls and number + 1 < len(raws):
            found.append(number + 1)
        return found

    # Building

    def build_segment(self, number: int, raw: Raw) -> Segment:
        segment = Segment(number, only_leaves=not raw.instructions and raw.end is not None)
        for ins in raw.instructions:
            self.add(segment, ins)
        return segment

    def add(self, segment: Segment, ins: PtxInstruction) -> None:
        row = row_of(ins)
        self.code.begin(ins, row is not None and row.effect)
        if row is None:
            raise PtxError(f"unknown instruction `{ins}`", ins.ptx_line)
        op = build(self.code, ins, row)
        record, site = self.code.record, self.code.site
        if row.sync:
            segment.sync, segment.mask, segment.barrier, segment.site = row.sync, record.mask, record.barrier, site
            if record.mask is not None and self.code.entries[record.mask].kind == "register":
                segment.mask_name = self.code.entries[record.mask].name
        if ins.guard is not None:
            guard = self.code.read(ins.guard, "pred")
            if row.effect:
                op = restricted_by_guard(op, guard, ins.guard_negated, record.entries, record.written_entries)
            else:
                op = merged_by_guard(op, guard, ins.guard_negated, list(record.written_entries))
            record.reads += record.writes  # if the guard is false, the old value is kept
        segment.steps.append(step_of(self.code, record, ins, site, row.effect, len(segment.ops)))
        # If a register only ever contains one constant, its reads use the constant. So the register's `mov` is counted,
        # but does not run.
        if not (ins.opcode[0] == "mov" and str(ins.operands[0]) in self.code.known):
            segment.ops.append(op)
            segment.places.append(segment.size)
        segment.records.append(record)
        product = NO_PRODUCT
        if row.counts == "mma":
            product = warp_product(ins.opcode, isinstance(ins.operands[1], Vector))
        segment.counters.append((site, "moves" if self.is_move(ins) else row.counts, product))
        segment.size += 1

    def is_move(self, ins: PtxInstruction) -> bool:
        """Returns whether the instruction is an unguarded copy of a register or a constant into a register. A read of a
        special register does not count."""
        if ins.opcode[0] != "mov" or ins.guard is not None or not isinstance(ins.operands[0], Register):
            return False
        source = ins.operands[1]
        return isinstance(source, Integer | Float) or self.code.is_register(source)

    def close(self, segment: Segment, raw: Raw, number: int, labels: dict[str, int]) -> None:
        """Adds a segment's end and its branch targets. All segments must already have been ordered."""
        following = self.place.get(number + 1)
        ins = raw.end
        if ins is None:
            segment.end = End("exit") if following is None else End("next", [following])
            return
        self.code.begin(ins, effect=False)
        record, site = self.code.record, self.code.site
        targets = [self.place[labels[label]] for label in raw.targets]
        kind = {"bra": "jump", "brx": "switch"}.get(ins.opcode[0], "exit")
        entry = self.code.read(ins.operands[0], "u32") if kind == "switch" else 0
        if ins.guard is not None:
            if kind == "switch":
                raise PtxError("a guarded brx is not supported", ins.ptx_line)
            entry = self.code.read(ins.guard, "pred")
            kind = "branch" if kind == "jump" else "exit where"
        if raw.falls:
            assert following is not None
            targets.append(following)
        segment.end = End(kind, targets, entry, ins.guard_negated, site, "uni" in ins.opcode)
        segment.steps.append(step_of(self.code, record, replace(ins, guard=None), site, True, len(segment.ops)))
        segment.records.append(record)
        segment.counters.append((site, "branches" if ins.opcode[0] in {"bra", "brx"} else "", NO_PRODUCT))
        segment.size += 1

    def end_behind(self, segment: Segment) -> Site | None:
        """Returns the `ret` or `exit` that threads reach from this segment through instructions without an effect.
        Returns None if there is no such exit."""
        seen = {segment.number}
        while segment.end.kind in {"next", "jump"} and segment.end.targets[0] not in seen:
            segment = self.segments[segment.end.targets[0]]
            seen.add(segment.number)
            if any(step.effect and step.site is not segment.end.site for step in segment.steps):
                return None
        return segment.end.site if segment.end.kind == "exit" else None

    # Registers

    def allocate_slots(self) -> None:
        """Computes liveness and assigns slots to registers by a linear scan. Registers whose live ranges do not overlap
        share a slot. The registers of a wave may take 12 MiB, so fewer slots leave room for more threads."""
        accesses = (((record.reads, record.writes) for record in segment.records) for segment in self.segments)
        exposed, written = exposed_and_written(accesses)
        living = Living(exposed, written, [segment.end.targets for segment in self.segments])
        first, last = self.lives(living)
        free: dict[int, list[int]] = {size: [] for size in REGISTER_DTYPE}
        active: list[tuple[int, int, int]] = []
        for name in sorted(first, key=first.__getitem__):
            size = self.code.bytes_of(name)
            while active and active[0][0] < first[name]:
                _, slot, width = heapq.heappop(active)
                heapq.heappush(free[width], slot)
            if free[size]:
                slot = heapq.heappop(free[size])
            else:
                slot = len(self.slot_bytes)
                self.slot_bytes.append(size)
            self.slots[name] = slot
            heapq.heappush(active, (last[name], slot, size))
        kinds = {"register", "special", "symbol"}
        for number, segment in enumerate(self.segments):
            segment.exposed_slots = tuple(sorted(set(map(self.slots.__getitem__, exposed[number]))))
            segment.written_slots = frozenset(map(self.slots.__getitem__, written[number]))
            segment.living, segment.slots = living, self.slots
            entries = dict.fromkeys(each for record in segment.records for each in record.entries)
            segment.entries = [each for each in entries if self.code.entries[each].kind in kinds]

    def lives(self, living: Living) -> tuple[dict[str, int], dict[str, int]]:
        """Returns the first and the last position where each register is live. Positions number the instructions of all
        segments, in the segments' order."""
        first: dict[str, int] = {}
        last: dict[str, int] = {}
        places: list[tuple[int, int]] = []  # the start and end of each segment, and the registers live there
        position = 0
        for segment in self.segments:
            places.append((position, living.at_starts[segment.number]))
            for record in segment.records:
                position += 1
                for name in (*record.reads, *record.writes):
                    last[name] = position
                    if name not in first:
                        first[name] = position
            position += 1
            behind = 0
            for target in segment.end.targets:
                behind |= living.at_starts[target]
            places.append((position, behind))
            position += 1
        # Most registers that are live at one position are also live at the next position. So only registers that become
        # live are visited.
        for ends, better, order in ((first, min, places), (last, max, reversed(places))):
            known = 0
            for position, found in order:
                for name in living.names_in(found & ~known):
                    ends[name] = better(ends.get(name, position), position)
                known |= found
        return first, last

    # Facts about the text

    def smallest_accesses(self, body: list[PtxInstruction | Label]) -> dict[str, int]:
        """Returns the size in bytes of the smallest access to each space: the granule of its shadow memory. An access
        by a generic address counts for all spaces."""
        smallest = {"global": 16, "shared": 16, "local": 16}
        for item in body:
            if not isinstance(item, PtxInstruction) or item.opcode[0] not in ACCESSES:
                continue
            size = access_bytes(item)
            if size is None:
                continue
            named = {space.split("::")[0] for space in item.opcode} & {"global", "shared", "local", "param", "const"}
            if item.opcode[0] in {"ldmatrix", "stmatrix", "mbarrier"}:
                named = {"shared"}
            if item.opcode[:2] in {("cp", "async"), ("cp", "reduce")}:
                named = {"global", "shared"}
            for space in named or set(smallest):
                if space in smallest:
                    smallest[space] = min(smallest[space], size)
        # An argument that a call passes by reference may be copied byte by byte (`inlining.py`).
        for variable in self.variables.values():
            if variable.space == "param":
                smallest["local"] = min(smallest["local"], 1)
        return smallest

    def has_partial_synchronisation(self, body: list[PtxInstruction | Label]) -> bool:
        """Returns whether an instruction synchronises only some threads of a block or a warp. Then each thread needs a
        vector clock."""
        for item in body:
            if not isinstance(item, PtxInstruction):
                continue
            if "mbarrier" in item.opcode or ("cluster" in item.opcode and item.opcode[0] == "barrier"):
                return True
            if item.opcode[:2] in {("bar", "warp"), ("barrier", "warp")}:
                if getattr(item.operands[0], "value", None) not in {0xFFFFFFFF, -1}:
                    return True
            elif item.opcode[0] in {"bar", "barrier"}:
                has_count = len(item.operands) > (3 if "red" in item.opcode else 1)
                if has_count or "arrive" in item.opcode:
                    return True
        return False


def in_loops(successors: list[list[int]]) -> set[int]:
    """Returns the nodes of a graph that lie on a cycle."""
    circles = components([*range(len(successors))], successors)
    return {node for circle in circles for node in circle if len(circle) > 1 or node in successors[node]}


def can_wait(ins: PtxInstruction, uses: Counter[str]) -> bool:
    """Returns whether a loop around this instruction could wait for another thread, as a loop around `ld.acquire`
    could."""
    if ins.opcode[0] == "atom":
        targets = ins.operands[0].items if isinstance(ins.operands[0], Vector) else ins.operands[:1]
        return any(isinstance(target, Register) and uses[target.name] > 1 for target in targets)
    strong = {"volatile", "relaxed", "acquire", "mmio"}
    return ins.opcode[:2] == ("mbarrier", "test_wait") or (ins.opcode[0] == "ld" and bool(strong & set(ins.opcode)))


def is_tracked(opcode: tuple[str, ...]) -> bool:
    """Returns whether an opcode is a copy that completes at an mbarrier, or the arrival of such copies."""
    return opcode[:3] == ("cp", "async", "mbarrier") or "mbarrier::complete_tx::bytes" in opcode


def orders_memory(opcode: tuple[str, ...]) -> bool:
    """Returns whether an opcode is a fence, a release or an acquire."""
    return opcode[0] in {"fence", "membar"} or not {"acquire", "release", "acq_rel"}.isdisjoint(opcode)


def names_narrow_scope(opcode: tuple[str, ...]) -> bool:
    """Returns whether an opcode is a strong operation or a fence with the scope .cta or .cluster."""
    return opcode[0] in {"ld", "st", "atom", "red", "fence", "membar", "tensormap"} and scope_of(opcode) != GPU


ACCESSES = {"ld", "ldu", "st", "atom", "red", "ldmatrix", "stmatrix", "cp", "mbarrier"}


def access_bytes(ins: PtxInstruction) -> int | None:
    """Returns the number of bytes that one lane accesses at once, or None if the instruction does not access memory."""
    root = ins.opcode[0]
    if root in {"ld", "ldu", "st", "atom", "red"}:
        kind = ins.opcode[-1]
        lanes = next((int(word[1:]) for word in ins.opcode if word in {"v2", "v4", "v8"}), 1)
        if root in {"atom", "red"}:
            lanes = 1  # each element of a vector is a separate operation
        return lanes * (4 if kind in PACKED else TYPE_BYTES.get(kind, 1))
    if root in {"ldmatrix", "stmatrix"}:
        return 16
    if ins.opcode[:2] == ("cp", "async") and len(ins.opcode) > 2 and ins.opcode[2] in {"ca", "cg"}:
        return getattr(ins.operands[2], "value", 16)
    if root == "mbarrier":
        return 8
    if ins.opcode[:4] == ("cp", "reduce", "async", "bulk") and ins.opcode[4] != "tensor":
        return TYPE_BYTES.get(ins.opcode[-1], 1)
    return None


def maps_in_memory(body: list[PtxInstruction | Label]) -> tuple[bool, set[int]]:
    """Returns whether the text acquires tensor maps in memory, and which element sizes in bytes `tensormap.replace`
    writes into maps."""
    instructions = [item for item in body if isinstance(item, PtxInstruction)]
    acquires = any("tensormap::generic" in ins.opcode and "acquire" in ins.opcode for ins in instructions)
    values = [
        ins.operands[1]
        for ins in instructions
        if ins.opcode[:2] == ("tensormap", "replace") and "elemtype" in ins.opcode
    ]
    return acquires, {bytes_of_type(TYPES[value.value]) for value in values if isinstance(value, Integer)}


def count_uses(body: list[PtxInstruction | Label]) -> Counter[str]:
    """Counts how often each name occurs in the text, as a destination or a source."""
    uses: list[str] = []
    for item in body:
        if isinstance(item, PtxInstruction):
            if item.guard is not None:
                uses.append(item.guard.name)
            for operand in item.operands:
                if isinstance(operand, Register):  # as most are
                    uses.append(operand.name)
                else:
                    uses += names_in(operand)
    return Counter(uses)


def constant_registers(body: list[PtxInstruction | Label], registers: dict[str, str]) -> dict[str, tuple[int, int]]:
    """Finds the registers that always contain one constant: their only definition is an unguarded `mov`. Returns the
    bits and the width of each."""
    defined: list[str] = []
    found: dict[str, tuple[int, int]] = {}
    for item in body:
        if not isinstance(item, PtxInstruction) or not item.operands:
            continue
        target = item.operands[0]
        if not isinstance(target, PtxAddress | TensorAddress):
            defined += names_in(target)
        if item.opcode[0] == "mov" and item.guard is None and isinstance(target, Register) and target.name in registers:
            width = 8 * REGISTER_BYTES.get(registers[target.name], 0)
            source = item.operands[1]
            if isinstance(source, Integer) and item.opcode[1] not in {"f32", "f64", "pred"} and width > 8:
                found[target.name] = (source.value & ((1 << width) - 1), width)
            elif isinstance(source, Float) and source.bits is not None and source.width == width:
                found[target.name] = (source.bits, width)
    definitions = Counter(defined)
    return {name: bits for name, bits in found.items() if definitions[name] == 1}


def count_alike(counters: Counters, kind: str, product: WarpProduct, warps: int, lanes: int) -> None:
    """Adds the counts of instructions of one kind to `counters`. `warps` and `lanes` are the numbers of warps and
    threads that have run them. `product` is what each warp multiplies in one of them."""
    counters.instructions += warps
    counters.thread_instructions += lanes
    if product is not NO_PRODUCT:
        counters.products += product.products * warps
        counters.operand_bytes += product.operand_bytes * warps
    if kind:
        setattr(counters, kind, getattr(counters, kind) + warps)
