"""Finds registers that are used without having been written, if this matters.

Compilers leave values undefined if the values do not matter. A register may be set and used on one path only. It may be
copied and never used. It may be a part of a wider register whose other part is used. So reading an unwritten register
is no fault. Results that are computed from such a register are undefined, too, bit by bit (`undefined_bits.py`).

An undefined bit is a fault if it is stored, or decides a branch or the guard of a store. It is a fault in an address
and in a barrier's operand. It is also a fault as an operand of an instruction that exchanges data between threads.

The result of an integer division by 0 is undefined as well. But masked lanes may divide by 0 and ignore the result. So
a launch first runs without tracking such results. If a division by 0 has occurred, the launch runs again and tracks
them (`divisions`).

A register is always defined if every path to each of its uses assigns it. For all other registers, the wave has a
table. The table has each thread's undefined bits, and the number of the unwritten register that they come from (0:
none). Before each instruction that uses such a register, an extra operation propagates or checks the bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from msgspec import Struct

from .code import Code, Op, Record, Site, Values
from .findings import Kind
from .instructions.memory_access import vector_items
from .instructions.warp import source_lanes
from .liveness import Living, exposed_and_written
from .reader import Integer, Not, Operand, PtxAddress, PtxInstruction
from .step import RegisterStep
from .undefined_bits import Bits, Masks, Transfer, if_any, looked_at, name_of, ones, transfer

# Instructions that only compute, but read registers of the whole warp.
WARP_WIDE = {"mma", "movmatrix"}
ORIGIN = np.uint16


def step_of(code: Code, record: Record, ins: PtxInstruction, site: Site, effect: bool, at: int) -> RegisterStep:
    guard = ins.guard.name if ins.guard is not None else None
    uses = tuple(record.uses)
    if guard is not None:
        uses = tuple(name for name in uses if name != guard or uses_of(ins, name))
    writes = tuple(record.writes)
    passed = passed_variable(code, ins) if ins.opcode[0] in {"ld", "st"} else ""
    if passed:
        effect = False
        uses, writes = ((passed,), writes) if ins.opcode[0] == "ld" else (uses, (passed,))
    return RegisterStep(at, ins, site, effect, uses, writes, guard, ins.guard_negated, code, record)


def register_bits(code: Code, name: str) -> int:
    """Returns the number of bits of a register. A predicate has one bit. A value that a call passes in memory counts as
    64 bits."""
    size = 8 if name[0] == "[" else code.bytes_of(name)
    return 1 if size == 1 else 8 * size


def passed_variable(code: Code, ins: PtxInstruction) -> str:
    """Returns a name for the memory location through which a call passes a value, such as `[name+0] 32`. The location
    is tracked like a register. The name is empty if the instruction accesses no such location."""
    address = ins.operands[0 if ins.opcode[0] == "st" else 1] if len(ins.operands) == 2 else None
    if "param" not in ins.opcode[1] or not isinstance(address, PtxAddress):
        return ""
    name = getattr(address.base, "name", "")
    if name not in code.variables or code.variables[name].space != "param":
        return ""
    return f"[{name}+{address.offset}] {'.'.join(word for word in ins.opcode[2:-1])}{ins.opcode[-1][1:]}"


def uses_of(ins: PtxInstruction, name: str) -> bool:
    """Returns whether the register is one of the source operands."""
    return any(name_of(operand) == name for operand in ins.operands[1:])


class UndefinedTable(Struct):
    """The undefined bits of each tracked register and thread. `origins` has the number of the unwritten register that
    they come from, counted from 1.

    `in_warps` has a bool for each register and warp: does any thread have undefined bits? In most cases no thread does,
    and an instruction checks only `in_warps`. This reduced the time of attention with TMA (512 queries, 4 heads) from
    0.385 to 0.245 s.
    """

    bits: Any
    origins: Any
    in_warps: Any

    def is_known(self, rows: Any, g: Any) -> bool:
        """Returns whether these registers have no undefined bits in any thread of the group's warps."""
        if g.threads is None:
            return not self.in_warps[rows].any()
        return not self.in_warps[rows[:, None], g.warp_rows[0]].any()

    def put(self, row: int, at: Any, bits: Any, origins: Any, g: Any) -> None:
        self.bits[row, at] = bits
        self.origins[row, at] = origins
        warps = slice(None) if g.threads is None else g.warp_rows[0]
        self.in_warps[row, warps] = self.bits[row].reshape(-1, 32)[warps].any(1)


class Undefined:
    """The registers of a program that may be undefined when they are used. `names` has their names, in the order of the
    table's rows."""

    def __init__(self, segments: list[Any], start: int, code: Code, divisions: bool = False):
        self.segments = segments
        self.quotients = quotients(segments) if divisions else {}
        self.passed = {name for segment in segments for step in segment.steps for name in step.writes if name[0] == "["}
        self.names = sorted(self.reached(self.suspects(start) | self.quotients.keys()))
        self.row = {name: number for number, name in enumerate(self.names)}
        self.ones = np.array([ones(register_bits(code, name)) for name in self.names], Bits)
        if self.names:
            for segment in segments:
                self.instrument(segment)

    def table(self, lanes: int) -> UndefinedTable:
        """Returns the table at the start of a wave, when no register has been written."""
        origins = np.arange(1, len(self.names) + 1, dtype=ORIGIN)
        bits, of = (np.repeat(column[:, None], lanes, axis=1) for column in (self.ones, origins))
        return UndefinedTable(bits, of, np.ones((len(self.names), lanes // 32), bool))

    # Which registers

    def suspects(self, start: int) -> set[str]:
        """Returns the registers that may be used before they are assigned. These are the registers that are live at the
        start of the program."""

        def access(step: RegisterStep) -> tuple[tuple[str, ...], tuple[str, ...]]:
            # A guarded write may not be executed, so it does not count as a write.
            return (step.uses, step.writes) if step.guard is None else ((*step.uses, step.guard), ())

        exposed, assigned = exposed_and_written(map(access, segment.steps) for segment in self.segments)
        living = Living(exposed, assigned, [segment.end.targets for segment in self.segments])
        found = living.names_in(living.at_starts[start])
        # A memory location that passes a value is not tracked if it is written with one type and read with another.
        # Then only the shadow memory checks it.
        return {name for name in found if name[0] != "[" or name in self.passed}

    def reached(self, suspects: set[str]) -> set[str]:
        """Returns these registers, and all registers that are computed from them."""
        if not suspects:
            return suspects
        flows: dict[str, set[str]] = {}
        for segment in self.segments:
            for step in segment.steps:
                sources = set(step.uses) if passes_on(step) else set()
                if step.guard is not None and not step.effect:
                    sources.add(step.guard)
                for name in sources:
                    flows.setdefault(name, set()).update(step.writes)
        found, work = set(suspects), list(suspects)
        while work:
            for name in flows.get(work.pop(), ()):
                if name not in found:
                    found.add(name)
                    work.append(name)
        return found

    # Operations

    def instrument(self, segment: Any) -> None:
        added: dict[int, list[Op]] = {}
        for step in segment.steps:
            op = self.operation(step)
            if op is None:
                continue
            # The operations of a barrier's segment do not run if its threads arrive in several groups. So the added
            # operations run at the arrival.
            if segment.sync == "barrier":
                segment.arrival.append(op)
            else:
                added.setdefault(step.at, []).append(op)
            if segment.sync == "warp" and step is segment.steps[0]:
                check = self.mask_check(segment, step)
                if check is not None:
                    segment.arrival.append(check)
        ops: list[Op] = []
        places: list[int] = []
        for at, op in enumerate([*segment.ops, None]):
            here = [*added.get(at, []), *([] if op is None else [op])]
            ops += here
            places += [segment.places[at] if op is not None else segment.size] * len(here)
        segment.ops, segment.places = ops, places

    def operation(self, step: RegisterStep) -> Op | None:
        """Returns the operation to run before the instruction, or None if the instruction uses no tracked register."""
        rows = [self.row[name] for name in dict.fromkeys(step.uses) if name in self.row]
        targets = [name for name in step.writes if name in self.row]
        if not rows and not targets and step.guard not in self.row:
            return None
        return self.built(step, self.matter(step), targets)

    def matter(self, step: RegisterStep) -> dict[str, int]:
        """Returns the registers that must be defined for this instruction, each with a mask of the bits that must be
        defined."""
        if not step.effect:
            return {}
        names = step.uses
        # The first wgmma of a loop nest has unwritten accumulators. Its operand scale-d is the constant 0, so they are
        # not read.
        if adds_never(step.ins):
            names = tuple(each for each in names if each not in sums_of(step.ins))
        if passes_on(step):
            passed = name_of(step.ins.operands[1]) if step.ins.opcode[0] == "shfl" else None
            names = tuple(each for each in names if passed is not None and each != passed)
        return looked_at(step.ins, [name for name in names if name in self.row])

    def mask_check(self, segment: Any, step: RegisterStep) -> Op | None:
        """Returns an operation that checks the member mask of a warp instruction. It must run before the lanes of the
        mask wait for each other."""
        name = segment.mask_name
        return self.built(step, {name: ones(32)}, []) if name in self.row else None

    def built(self, step: RegisterStep, matter: dict[str, int], targets: list[str]) -> Op:
        site, guard, negated = step.site, step.guard_entry, step.negated
        guard_row = self.row.get(step.guard or "")
        lanes_of, sums = matters_for(step.ins), sums_of(step.ins)
        asked = {self.row[name] for name in sums if name in self.row}
        adds, unless = adds_where(step) if asked else (None, False)
        looked = [(self.row[name], Bits(bits)) for name, bits in matter.items()]
        flow = self.flow(step) if targets and passes_on(step) else None
        divides = bool(self.quotients) and is_division(step)
        touched = [self.row[name] for name in (*step.uses, *matter, *targets, step.guard) if name in self.row]
        rows = np.array(sorted(set(touched)))

        def run(v: Values, g: Any) -> None:
            table = g.wave.undefined
            if not divides and table.is_known(rows, g):
                return  # nearly always; then the results are defined, too
            at = slice(None) if g.threads is None else g.threads
            active = None if guard is None or v[guard] is None else np.broadcast_to(v[guard] ^ negated, g.n)
            unsure = None if guard_row is None else np.array(table.origins[guard_row, at])
            if unsure is not None and step.effect and unsure.any():
                self.report(unsure, f"decides whether `{step.ins.opcode[0]}` runs", g, site)
                self.settle(table, guard_row, at, slice(None))
                unsure = None
            for row, bits in looked:
                used = np.where(table.bits[row, at] & bits != 0, table.origins[row, at], 0)
                if used.any():
                    if active is not None:
                        used = np.where(active, used, 0)
                    if lanes_of is not None:
                        used = np.where(g.index() & 31 < lanes_of, used, 0)
                    if adds is not None and row in asked:
                        used = np.where(v[adds] ^ unless, used, 0)
                    if used.any():
                        self.report(used, purpose(step.ins), g, site)
                        # The bits are reported once. Results that depend on them are not reported again.
                        self.settle(table, row, at, used > 0)
            if not targets:
                return
            masks, origins = ({}, ORIGIN(0)) if flow is None else flow(v, g, Reading(self, table, at))
            for name in targets:
                row = self.row[name]
                new: Any = np.broadcast_to(masks.get(name, masks.get("", Bits(0))) & self.ones[row], g.n)
                found = np.where(new != 0, origins, 0)
                if active is not None:
                    new = np.where(active, new, table.bits[row, at])
                    found = np.where(active, found, table.origins[row, at])
                if unsure is not None:
                    new = new | if_any(unsure) & self.ones[row]
                    found = np.maximum(found, unsure)
                table.put(row, at, new, found, g)

        return run

    def settle(self, table: UndefinedTable, row: Any, at: Any, reported: Any) -> None:
        """Marks undefined bits that have been reported as written."""
        for column in (table.bits, table.origins):
            kept = np.array(column[row, at])
            kept[reported] = 0
            column[row, at] = kept

    def report(self, origins: Any, use: str, g: Any, site: Site) -> None:
        lane = int(np.flatnonzero(origins)[0])
        name = self.names[int(origins[lane]) - 1]
        if (division := self.quotients.get(name)) is not None:
            place = division.location or f"PTX line {division.ptx_line}"
            message = f"{use} by the result of an integer division by 0, which is undefined"
            g.launch.report(Kind.DIVISION, message, g, lane, site, f"divided at {place}")
            return
        name = name.split("/")[0].split("@")[0]
        what = "the carry flag" if name == "%carry" else f"register {name}"
        if name[0] == "[":
            what = f"the variable {name[1:].split('+')[0]} of a call"
        message = f"{use} by a value of {what}, which nobody has written"
        g.launch.report(Kind.UNINITIALISED, message, g, lane, site)

    def divided(self, step: RegisterStep, through: Transfer, names: tuple[str, ...]) -> Flow:
        """Returns the flow of a division (see `flow`). The quotient is also undefined if the divisor is 0."""
        divisor, origin = divisor_of(step), max(self.row[name] for name in step.writes) + 1
        assert divisor is not None

        def run(v: Values, g: Any, reading: Reading) -> tuple[Masks, Any]:
            masks = through(v, reading.bits) if names else {}
            by_zero = np.broadcast_to(v[divisor] == 0, g.n)
            bits = if_any(by_zero)
            found = {name: bits | masks.get(name, masks.get("", Bits(0))) for name in step.writes}
            return found, np.where(by_zero, ORIGIN(origin), reading.largest(names))

        return run

    # How values go through instructions

    def flow(self, step: RegisterStep) -> Flow:
        """Returns the *flow* of an instruction: a function that computes the undefined bits of the results, and the
        unwritten register that they come from."""
        if step.ins.opcode[0] == "shfl":
            return shuffled(step)
        names = tuple(name for name in dict.fromkeys(step.uses) if name in self.row)
        if step.ins.opcode[0] in WARP_WIDE:
            return over_warps(names)
        through: Transfer = transfer(step)
        if self.quotients and is_division(step):
            return self.divided(step, through, names)

        def run(v: Values, g: Any, reading: Reading) -> tuple[Masks, Any]:
            return through(v, reading.bits), reading.largest(names)

        return run


def quotients(segments: Iterable[Any]) -> dict[str, Site]:
    """Returns the registers that may contain the result of an integer division by 0. Each has the site of one such
    division."""
    steps = (step for segment in segments for step in segment.steps if is_division(step))
    return {name: step.site for step in steps for name in step.writes}


def is_division(step: RegisterStep) -> bool:
    """Returns whether the instruction divides integers by a divisor that is not a constant."""
    is_integer = step.ins.opcode[0] in ("div", "rem") and step.ins.opcode[-1][0] in "su"
    return is_integer and divisor_of(step) is not None


def divisor_of(step: RegisterStep) -> int | None:
    """Returns the entry of the divisor. Returns None if the divisor is a constant, or a register that always contains
    one nonzero constant."""
    name = name_of(step.ins.operands[2]) if not isinstance(step.ins.operands[2], Integer) else ""
    return None if step.known.get(name) else step.entries.get(name)


class Reading:
    """Reads the table for the threads of one group."""

    def __init__(self, undefined: Undefined, table: UndefinedTable, at: Any):
        self.row, self.table, self.at = undefined.row, table, at

    def bits(self, name: str) -> Any:
        row = self.row.get(name)
        return np.zeros(1, Bits) if row is None else self.table.bits[row, self.at]

    def origins(self, name: str) -> Any:
        row = self.row.get(name)
        return np.zeros(1, ORIGIN) if row is None else self.table.origins[row, self.at]

    def largest(self, names: Iterable[str]) -> Any:
        found = np.zeros(1, ORIGIN)
        for name in names:
            found = np.maximum(found, self.origins(name))
        return found


Flow = Callable[[Values, Any, Reading], tuple[Masks, Any]]


def passes_on(step: RegisterStep) -> bool:
    """Returns whether undefined operands only make the results undefined, and are no fault. This holds for instructions
    that only compute, and for `shfl`."""
    return not step.effect or step.ins.opcode[0] in WARP_WIDE | {"shfl"}


def matters_for(ins: PtxInstruction) -> int | None:
    """Returns how many lanes of each warp give an address to the instruction, counted from lane 0. Returns None for all
    lanes."""
    if ins.opcode[0] == "ldmatrix":
        return 8 * int(next(word for word in ins.opcode if word in {"x1", "x2", "x4"})[1:])
    return None


def sums_of(ins: PtxInstruction) -> tuple[str, ...]:
    """Returns the accumulators of a `wgmma.mma_async`, which it reads only if its fourth operand, scale-d, is true."""
    if ins.opcode[:2] != ("wgmma", "mma_async"):
        return ()
    return tuple(name_of(item) for item in vector_items(ins.operands[0]))


def adds_never(ins: PtxInstruction) -> bool:
    """Returns whether the scale-d of a `wgmma` is the constant 0, so that the accumulators are not read. Triton uses
    this."""
    return bool(sums_of(ins)) and isinstance(ins.operands[3], Integer) and not ins.operands[3].value


def adds_where(step: RegisterStep) -> tuple[int | None, bool]:
    """Returns the entry of the `wgmma` operand scale-d, and whether the operand is negated. The entry is None for a
    constant."""
    operand = step.ins.operands[3]
    return step.entries.get(name_of(operand)), isinstance(operand, Not)


def purpose(ins: PtxInstruction) -> str:
    """Returns a text about how the instruction uses a value that must be defined. The caller appends "by …"."""
    root = ins.opcode[0]
    if root in {"bra", "brx", "exit", "ret"}:
        return "control flow is decided"
    if root == "st":
        return "memory is written, or its address given,"
    if root in {"ld", "ldu", "ldmatrix"}:
        return "an address is given"
    return f"`{'.'.join(ins.opcode)}` is controlled"


def over_warps(names: tuple[str, ...]) -> Flow:
    """Returns a flow (see `Undefined.flow`) for instructions of a whole warp. If an operand of any lane has an
    undefined bit, the results of all lanes are undefined."""

    def run(v: Values, g: Any, reading: Reading) -> tuple[Masks, Any]:
        _, rows = g.warp_rows
        origins = np.ascontiguousarray(np.broadcast_to(reading.largest(names), g.n)).astype(np.int32)
        found = g.by_warp(origins, 0).max(1)[rows].astype(ORIGIN)
        return {"": if_any(found)}, found

    return run


def shuffled(step: RegisterStep) -> Flow:
    """Returns a flow (see `Undefined.flow`) in which each lane gets the undefined bits of its source lane."""
    ins = step.ins
    mode, source, b, c = ins.opcode[2], name_of(ins.operands[1]), ins.operands[2], ins.operands[3]
    # the second destination, the predicate, is always defined
    target = getattr(ins.operands[0], "first", ins.operands[0])

    def value(operand: Operand, v: Values, g: Any) -> Any:
        if isinstance(operand, Integer):
            return np.full(g.n, operand.value, np.int64)
        if name_of(operand) in step.known:
            return np.full(g.n, step.known[name_of(operand)], np.int64)
        return np.broadcast_to(v[step.entries[name_of(operand)]], g.n).astype(np.int64)

    def flow(v: Values, g: Any, reading: Reading) -> tuple[Masks, Any]:
        where, _ = source_lanes(mode, g.index() & 31, value(b, v, g), value(c, v, g))
        _, rows = g.warp_rows

        def taken(column: Any) -> Any:
            return g.by_warp(np.ascontiguousarray(np.broadcast_to(column, g.n)), 0)[rows, where]

        return {name_of(target): taken(reading.bits(source))}, taken(reading.origins(source))

    return flow
