"""Defines how instructions access their operands: as *entries* of a frame, which is a list of numpy arrays.

The emulator compiles each instruction to a closure `op(values, group)`. `group` contains the threads that run the
instruction, and `values` is their frame. An entry is a constant, a kernel parameter, the address of a symbol, a special
register, or a register viewed as one type. The function that builds the closure requests its entries from `Code`.
`Code` then records which registers the instruction reads and writes. `program.py` computes liveness from these records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct, field

from .findings import Location, PtxError
from .reader import TYPE_BYTES as DECLARED_BYTES
from .reader import Float, Integer, Not, Operand, PtxAddress, PtxFunction, PtxInstruction, Register, Symbol
from .stamps import SITE_BITS
from .sums_in_flight import WarpgroupStep

Values = list[Any]
Op = Callable[[Values, Any], None]

# The numpy type that stores each PTX type. numpy has no bf16, so bf16 values are stored as bit patterns. A tf32 is a
# float32 whose last 13 bits are zero.
DTYPES: dict[str, type] = {
    **{f"u{bits}": getattr(np, f"uint{bits}") for bits in (8, 16, 32, 64)},
    **{f"b{bits}": getattr(np, f"uint{bits}") for bits in (8, 16, 32, 64)},
    **{f"s{bits}": getattr(np, f"int{bits}") for bits in (8, 16, 32, 64)},
    **{"f16": np.float16, "bf16": np.uint16, "f32": np.float32, "f64": np.float64, "tf32": np.float32},
    "pred": np.bool_,
}
# Types with two 16-bit elements in a register. Their entries have two columns.
PACKED = {"f16x2": ("f16", 4), "bf16x2": ("bf16", 4), "u16x2": ("u16", 4), "s16x2": ("s16", 4)}
TYPE_BYTES = {name: np.dtype(each).itemsize for name, each in DTYPES.items()} | dict.fromkeys(PACKED, 4)
REGISTER_DTYPE = {1: np.bool_, 2: np.uint16, 4: np.uint32, 8: np.uint64}
# An 8-bit register occupies two bytes, so that a register of one byte is always a predicate.
REGISTER_BYTES = {name: 2 if name[1:] == "8" else size for name, size in DECLARED_BYTES.items() if name != "b128"}
# Special registers that differ between threads of a launch. All others are constants of the launch (PTX ISA 10).
THREAD_SPECIALS = {
    *(f"%{name}.{axis}" for name in ("tid", "ctaid", "clusterid", "cluster_ctaid") for axis in "xyz"),
    *("%laneid", "%warpid", "%smid", "%cluster_ctarank", "%gridid"),
    *(f"%lanemask_{relation}" for relation in ("eq", "le", "lt", "ge", "gt")),
}
LAUNCH_SPECIALS = {
    *(f"%{name}.{axis}" for name in ("ntid", "nctaid", "nclusterid", "cluster_nctaid") for axis in "xyz"),
    *("%nwarpid", "%nsmid", "%cluster_nctarank", "%is_explicit_cluster", "%dynamic_smem_size", "%total_smem_size"),
    *("%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"),
}


# All memory instructions after the first 4,095 share this stamp. The emulator still finds races with such an
# instruction. If its access is the earlier one of the race, the report cannot name the instruction.
LAST_STAMP = (1 << SITE_BITS) - 1


class OperandEntry(NamedTuple):
    """One frame entry.  `kind` is "register", "constant", "bits", "parameter", "symbol" or "special"."""

    kind: str
    name: Any
    type: str
    register_bytes: int = 0


class Site(Struct, eq=False):
    """Identifies an instruction in findings and counters. `number` is unique in the program.

    `stamp` is the instruction's number in the stamps of its accesses (`stamps.py`). The first 4,095 instructions with
    side effects have a unique stamp, and all others share `LAST_STAMP`. `in_loop` is true if the instruction may run
    more than once in a thread.
    """

    number: int
    stamp: int
    ins: PtxInstruction
    in_loop: bool = False

    @property
    def text(self) -> str:
        return str(self.ins)

    @property
    def ptx_line(self) -> int:
        return self.ins.ptx_line

    @property
    def location(self) -> Location | None:
        return self.ins.location


class BarrierOperands(Struct, frozen=True):
    """The operands of a barrier instruction. `mode` is "sync", "arrive", "red", "cluster.arrive", "cluster.wait" or
    "try_wait".

    `number`, `count` and `flag` are indices of frame entries. `count` is None if all threads of the block take part.
    """

    mode: str
    aligned: bool = True
    number: int | None = None
    count: int | None = None
    flag: int | None = None
    flag_negated: bool = False
    reduction: str = ""
    result: str = ""
    orders: bool = True
    ready: Callable[..., Any] | None = None
    missing: Callable[..., str] | None = None


class Record(Struct):
    """The registers and frame entries that one built instruction uses.

    `uses` contains all registers that the instruction reads. `reads` omits registers that only ever contain one
    constant, which need no storage.
    """

    reads: list[str] = field(default_factory=list)
    uses: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    entries: list[int] = field(default_factory=list)
    written_entries: list[int] = field(default_factory=list)
    mask: int | None = None
    barrier: BarrierOperands | None = None
    product: WarpgroupStep | None = None


class Code:
    """Collects the frame entries of one program while the closures of its instructions are built. The methods return
    entries as indices."""

    def __init__(self, registers: dict[str, str], variables: dict[str, Any], parameters: PtxFunction):
        self.registers = registers
        self.variables = variables
        self.parameter_names = {variable.name for variable in parameters.params}
        self.entries: list[OperandEntry] = []
        self.index: dict[OperandEntry, int] = {}
        self.index_of_registers: dict[tuple[str, str], int] = {}  # by name and type; answers most requests
        self.sites: list[Site] = []
        self.record = Record()
        self.ins: PtxInstruction = PtxInstruction((), (), None, False, 0, None)
        self.site = Site(0, 0, self.ins)
        self.stamped: list[Site] = []
        self.uses: Counter[str] = Counter()
        self.known: dict[str, tuple[int, int]] = {}
        self.hidden = 0
        self.in_loop = False

    def begin(self, ins: PtxInstruction, effect: bool) -> None:
        self.ins, self.record = ins, Record()
        stamp = min(len(self.stamped), LAST_STAMP) if effect else LAST_STAMP
        self.site = Site(len(self.sites), stamp, ins, self.in_loop)
        self.sites.append(self.site)
        if effect and stamp < LAST_STAMP:
            self.stamped.append(self.site)

    def error(self, message: str) -> PtxError:
        return PtxError(f"{message} in `{self.ins}`", self.ins.ptx_line)

    def entry(self, entry: OperandEntry) -> int:
        number = self.index.get(entry)
        if number is None:
            number = self.index[entry] = len(self.entries)
            self.entries.append(entry)
        return self.used(number)

    def used(self, number: int) -> int:
        if number not in self.record.entries:
            self.record.entries.append(number)
        return number

    def bytes_of(self, name: str) -> int:
        kind = self.registers[name]
        if kind not in REGISTER_BYTES:
            raise self.error(f"registers of type .{kind} are not supported")
        return REGISTER_BYTES[kind]

    def is_register(self, operand: Operand) -> bool:
        return isinstance(operand, Register) and operand.name in self.registers

    def scratch(self, kind: str) -> Register:
        """Declares a new register that does not occur in the PTX text."""
        self.hidden += 1
        name = f"hidden {self.hidden}"
        self.registers[name] = kind
        return Register(name)

    def read(self, operand: Operand, type_name: str) -> int:
        """Returns the frame entry for a source operand of type `type_name`. For a packed type such as f16x2, it has two
        columns."""
        if not isinstance(operand, Register):
            if isinstance(operand, Integer):
                return self.constant(operand.value, type_name)
            if isinstance(operand, Float):
                return self.float_constant(operand, type_name)
            if isinstance(operand, Symbol):
                return self.symbol(operand.name, operand.offset, type_name)
            raise self.error(f"unexpected operand {operand}")
        name = operand.name
        if name in self.registers:
            self.record.uses.append(name)
            if name in self.known:
                return self.known_constant(*self.known[name], type_name)
            self.record.reads.append(name)
            return self.register(name, type_name)
        if name in THREAD_SPECIALS or name in LAUNCH_SPECIALS:
            return self.entry(OperandEntry("special", name, type_name))
        return self.symbol(name, 0, type_name)

    def register(self, name: str, type_name: str) -> int:
        """Returns the frame entry that views the register `name` as `type_name`."""
        number = self.index_of_registers.get((name, type_name))
        if number is not None:
            return self.used(number)
        held, wanted = self.bytes_of(name), TYPE_BYTES[type_name]
        if wanted > held or (type_name == "pred") != (held == 1):
            raise self.error(f"register {name} of type .{self.registers[name]} cannot hold .{type_name}")
        number = self.index_of_registers[name, type_name] = len(self.entries)
        self.entries.append(OperandEntry("register", name, type_name, held))
        return self.used(number)

    def write(self, operand: Operand, type_name: str) -> int:
        """Returns the frame entry for a destination. The operand `_` becomes a new register that no instruction
        reads."""
        if isinstance(operand, Register) and operand.name == "_":
            operand = self.scratch(type_name if type_name in REGISTER_BYTES else "b32")
        if not isinstance(operand, Register) or operand.name not in self.registers:
            raise self.error(f"destination {operand} is not a register")
        name = operand.name
        self.record.writes.append(name)
        number = self.register(name, type_name)
        # A narrower result would leave the upper bits of the register unchanged. `write_extended` sets those bits, too.
        if type_name not in PACKED and TYPE_BYTES[type_name] != self.entries[number].register_bytes:
            raise self.error(f"register {name} of type .{self.registers[name]} is wider than .{type_name}")
        self.record.written_entries.append(number)
        return number

    def write_extended(self, operand: Operand, type_name: str) -> int:
        """Returns the frame entry for a destination that may be wider than `type_name`. Signed integers are
        sign-extended, and all other types, floats included, are zero-extended (PTX ISA 9.4.1)."""
        if isinstance(operand, Register) and operand.name in self.registers and type_name in DTYPES:
            held = self.bytes_of(operand.name)
            if held > TYPE_BYTES[type_name]:
                sign = "s" if type_name[0] == "s" else "u"
                return self.write(operand, f"{sign}{8 * held}")
        return self.write(operand, type_name)

    def constant(self, value: int, type_name: str) -> int:
        if type_name in PACKED:
            return self.entry(OperandEntry("constant", value & 0xFFFFFFFF, type_name))
        if type_name == "pred":
            return self.entry(OperandEntry("constant", bool(value), "pred"))
        dtype = np.dtype(DTYPES[type_name])
        wrapped = int(np.array([value & (1 << 8 * dtype.itemsize) - 1], np.uint64).astype(dtype)[0])
        return self.entry(OperandEntry("constant", wrapped, type_name))

    def float_constant(self, operand: Float, type_name: str) -> int:
        """Returns the frame entry for a floating constant. Entries are identified by bits, since -0 and +0 are equal by
        value."""
        if type_name in FLOATS:
            return self.entry(OperandEntry("bits", float_bits(operand, type_name), type_name))
        width = 8 * TYPE_BYTES[type_name]
        bits = float_bits(operand, f"f{width}") if width in {32, 64} else None
        if bits is None or (width == 32 and operand.width != 32):
            raise self.error(f"the constant {operand} has no .{type_name} bits")
        return self.constant(bits, type_name)

    def fixed_value(self, operand: Operand) -> int | None:
        """Returns the value of an integer operand if the PTX text determines it, else None."""
        if isinstance(operand, Register) and operand.name in self.known:
            return self.known[operand.name][0]
        return operand.value if isinstance(operand, Integer) else None

    def known_constant(self, bits: int, width: int, type_name: str) -> int:
        """Returns the frame entry for a register that only ever contains one constant, viewed as `type_name`."""
        wanted = 8 * TYPE_BYTES[type_name]
        if wanted > width:
            raise self.error(f"a constant of {width} bits cannot be read as .{type_name}")
        return self.entry(OperandEntry("bits", bits & ((1 << wanted) - 1), type_name))

    def symbol(self, name: str, offset: int, type_name: str) -> int:
        if name in self.variables or name in self.parameter_names:
            return self.entry(OperandEntry("symbol", (name, offset), type_name))
        if name.startswith("%"):
            raise self.error(f"unknown register {name}")
        raise self.error(f"unknown name {name}")

    def address(self, operand: Operand) -> tuple[int, int]:
        """Returns (entry of the base address, offset in bytes) of a memory operand. If the base is a symbol or a
        constant, the entry already includes the offset, and the returned offset is 0."""
        assert isinstance(operand, PtxAddress)  # as the legal forms state
        if operand.base is None:
            return self.constant(operand.offset, "u64"), 0
        if self.is_register(operand.base):
            width = 8 * self.bytes_of(operand.base.name)
            return self.read(operand.base, f"u{width}"), operand.offset
        return self.symbol(operand.base.name, operand.offset, "u64"), 0

    def meet(self, operand: Operand) -> int:
        """Records the member mask of a `.sync` instruction, and returns its frame entry."""
        self.record.mask = self.read(operand, "u32")
        return self.record.mask

    def predicate(self, operand: Operand) -> tuple[int, bool]:
        """Returns (frame entry, whether it is negated) of a predicate source."""
        if isinstance(operand, Not):
            return self.read(operand.operand, "pred"), True
        return self.read(operand, "pred"), False


FLOATS = {"f16", "bf16", "f32", "tf32", "f64"}


def float_bits(operand: Float, type_name: str) -> int:
    """Returns the bits of a floating constant in the type `type_name`. `0f` constants in f32 and `0d` constants in f64
    are exact. Constants in bf16 are truncated, and all others are rounded to nearest."""
    width = 8 * TYPE_BYTES[type_name]
    if operand.bits is not None and operand.width == width:
        return operand.bits
    if type_name == "bf16":
        return int(np.array([operand.value], np.float32).view(np.uint32)[0] >> 16)
    return int(np.array([operand.value], np.float64).astype(DTYPES[type_name]).view(f"u{width // 8}")[0])


def seen_as(row: Any, type_name: str, register_bytes: int) -> Any:
    """Returns a register's row (one element for each thread), viewed as the type `type_name`. A narrower type gives the
    low bits, and a packed type two columns."""
    if type_name in PACKED:
        return row.view(DTYPES[PACKED[type_name][0]]).reshape(-1, 2)
    dtype = np.dtype(DTYPES[type_name])
    # The result is a strided view, not a copy, so that a write to it changes the register.
    step = register_bytes // dtype.itemsize
    return row.view(dtype)[::step] if step > 1 else row.view(dtype)


def array_of_bits(bits: int, type_name: str) -> Any:
    """Returns a constant as an array of one element. `bits` is its bit pattern."""
    if type_name in PACKED:
        return constant_array(bits, type_name)
    dtype = np.dtype(DTYPES[type_name])
    return np.array([bits], f"u{dtype.itemsize}").view(dtype)


def constant_array(value: Any, type_name: str) -> Any:
    """Returns a constant as an array of one element. A packed constant becomes one row of two elements."""
    if type_name in PACKED:
        return np.array([value], np.uint32).view(DTYPES[PACKED[type_name][0]]).reshape(1, 2)
    return np.array([value], DTYPES[type_name])
