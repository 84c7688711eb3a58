"""How instructions name their operands: entries of a frame, and the views of registers that they stand for.

An instruction becomes a closure `op(values, group)`. `values` is the frame of the group of threads that runs it: a list
of numpy arrays, one for each *entry*. An entry is a register seen as one type, a constant, a kernel parameter, the
address of a symbol, or a special register. While an instruction is built, it requests its entries from `Code`. These
requests also record which registers it reads and writes, from which `program.py` derives liveness.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .findings import Location, PtxError
from .reader import Float, Integer, Not, Operand, PtxAddress, PtxFunction, PtxInstruction, Register, Symbol
from .stamps import SITE_BITS
from .sums_in_flight import WarpgroupStep

Values = list[Any]
Op = Callable[[Values, Any], None]

# How numpy holds each type. It has no bf16, so these are bit patterns. A tf32 is a float32 whose last 13 bits are zero.
DTYPES: dict[str, type] = {
    **{f"u{bits}": getattr(np, f"uint{bits}") for bits in (8, 16, 32, 64)},
    **{f"b{bits}": getattr(np, f"uint{bits}") for bits in (8, 16, 32, 64)},
    **{f"s{bits}": getattr(np, f"int{bits}") for bits in (8, 16, 32, 64)},
    **{"f16": np.float16, "bf16": np.uint16, "f32": np.float32, "f64": np.float64, "tf32": np.float32},
    "pred": np.bool_,
}
# Two elements of 16 bits in a register: an entry of two columns.
PACKED = {"f16x2": ("f16", 4), "bf16x2": ("bf16", 4), "u16x2": ("u16", 4), "s16x2": ("s16", 4)}
TYPE_BYTES = {name: np.dtype(each).itemsize for name, each in DTYPES.items()} | dict.fromkeys(PACKED, 4)
REGISTER_DTYPE = {1: np.bool_, 2: np.uint16, 4: np.uint32, 8: np.uint64}
# A register of 8 bits takes two bytes, so that a row of one byte is always a predicate.
REGISTER_BYTES = {
    "pred": 1,
    **{f"{kind}{bits}": bits // 8 for kind in "bsu" for bits in (16, 32, 64)},
    **{f"{kind}8": 2 for kind in "bsu"},
    **{"f16": 2, "bf16": 2, "f16x2": 4, "bf16x2": 4, "f32": 4, "f64": 8},
}
# Special registers that differ between threads of a launch; the others are constants of the launch (PTX ISA 10).
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


# The stamp of all memory instructions beyond 4,095: their races are found, but the other instruction is not named.
LAST_STAMP = (1 << SITE_BITS) - 1


class OperandEntry(NamedTuple):
    """One frame entry.  `kind` is "register", "constant", "bits", "parameter", "symbol" or "special"."""

    kind: str
    name: Any
    type: str
    register_bytes: int = 0


@dataclass(eq=False, slots=True)
class Site:
    """An instruction as findings and counters see it. `number` is unique in the program.

    `stamp` numbers the instructions that access memory, as far as a stamp has room (`ordering.py`). `in_loop`: control
    may return to it.
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


@dataclass(frozen=True)
class BarrierOperands:
    """What a barrier instruction names. `mode` is sync, arrive, red, cluster.arrive, cluster.wait or try_wait.

    `number`, `count` and `flag` are entries. `count` is None if all threads of the block take part.
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


@dataclass(slots=True)
class Record:
    """The registers that one built instruction reads and writes, and the frame entries it uses.

    `uses` are all registers that it reads. `reads` leaves out those with a known value: they need no row.
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
    """The frame layout of one program while its instructions are built."""

    def __init__(self, registers: dict[str, str], variables: dict[str, Any], parameters: PtxFunction):
        self.registers = registers
        self.variables = variables
        self.parameter_names = {variable.name for variable in parameters.params}
        self.entries: list[OperandEntry] = []
        self.index: dict[OperandEntry, int] = {}
        self.index_of_registers: dict[tuple[str, str], int] = {}  # by name and type: most requests
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
        """A new register that no instruction of the text names."""
        self.hidden += 1
        name = f"hidden {self.hidden}"
        self.registers[name] = kind
        return Register(name)

    def read(self, operand: Operand, type_name: str) -> int:
        """The entry of a source operand, seen as `type_name`. Packed types give two columns."""
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
        """The entry of a register seen as a type."""
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
        """The entry of a destination. `_` becomes a register that nobody reads."""
        if isinstance(operand, Register) and operand.name == "_":
            operand = self.scratch(type_name if type_name in REGISTER_BYTES else "b32")
        if not isinstance(operand, Register) or operand.name not in self.registers:
            raise self.error(f"destination {operand} is not a register")
        name = operand.name
        self.record.writes.append(name)
        number = self.register(name, type_name)
        # A narrower result would leave the rest of the register as it was: `write_extended` fills it.
        if type_name not in PACKED and TYPE_BYTES[type_name] != self.entries[number].register_bytes:
            raise self.error(f"register {name} of type .{self.registers[name]} is wider than .{type_name}")
        self.record.written_entries.append(number)
        return number

    def write_extended(self, operand: Operand, type_name: str) -> int:
        """A destination that may be wider than the type: signed integers extend by their sign, others by 0 (PTX ISA
        9.4.1).

        The bits of a float are written there as an integer's.
        """
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
        """A floating constant by its bits. As values, -0 would be +0 and all NaN would be one."""
        if type_name in FLOATS:
            return self.entry(OperandEntry("bits", float_bits(operand, type_name), type_name))
        width = 8 * TYPE_BYTES[type_name]
        bits = float_bits(operand, f"f{width}") if width in {32, 64} else None
        if bits is None or (width == 32 and operand.width != 32):
            raise self.error(f"the constant {operand} has no .{type_name} bits")
        return self.constant(bits, type_name)

    def fixed_value(self, operand: Operand) -> int | None:
        """The value of an integer operand that is the same for all threads and known from the text; else None."""
        if isinstance(operand, Register) and operand.name in self.known:
            return self.known[operand.name][0]
        return operand.value if isinstance(operand, Integer) else None

    def known_constant(self, bits: int, width: int, type_name: str) -> int:
        """A register that is set to one constant only, seen as a type."""
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
        """(entry of the base, offset in bytes) of a memory operand. Symbols and constants include their offset."""
        if isinstance(operand, Register | Symbol | Integer):
            operand = (
                PtxAddress(operand) if isinstance(operand, Register) else PtxAddress(None, getattr(operand, "value", 0))
            )
        if not isinstance(operand, PtxAddress):
            raise self.error(f"{operand} is not an address")
        if operand.base is None:
            return self.constant(operand.offset, "u64"), 0
        if self.is_register(operand.base):
            assert isinstance(operand.base, Register)
            width = 8 * self.bytes_of(operand.base.name)
            return self.read(operand.base, f"u{width}"), operand.offset
        return self.symbol(operand.base.name, operand.offset, "u64"), 0

    def meet(self, operand: Operand) -> int:
        """The member mask of a `.sync` instruction."""
        self.record.mask = self.read(operand, "u32")
        return self.record.mask

    def predicate(self, operand: Operand) -> tuple[int, bool]:
        """(entry, negated) of a predicate source."""
        if isinstance(operand, Not):
            return self.read(operand.operand, "pred"), True
        return self.read(operand, "pred"), False


FLOATS = {"f16", "bf16", "f32", "tf32", "f64"}


def float_bits(operand: Float, type_name: str) -> int:
    """The bits of a floating constant in a type. `0f` in f32 and `0d` in f64 are exact, others are rounded."""
    width = 8 * TYPE_BYTES[type_name]
    if operand.bits is not None and operand.width == width:
        return operand.bits
    if type_name == "bf16":
        return int(np.array([operand.value], np.float32).view(np.uint32)[0] >> 16)
    return int(np.array([operand.value], np.float64).astype(DTYPES[type_name]).view(f"u{width // 8}")[0])


def seen_as(row: Any, type_name: str, register_bytes: int) -> Any:
    """A register's row seen as a type: reinterpreted, its low part if narrower, two columns if packed."""
    if type_name in PACKED:
        return row.view(DTYPES[PACKED[type_name][0]]).reshape(-1, 2)
    dtype = np.dtype(DTYPES[type_name])
    # A strided view: a write through it changes the register, without a copy.
    step = register_bytes // dtype.itemsize
    return row.view(dtype)[::step] if step > 1 else row.view(dtype)


def array_of_bits(bits: int, type_name: str) -> Any:
    """A constant given by its bits."""
    if type_name in PACKED:
        return constant_array(bits, type_name)
    dtype = np.dtype(DTYPES[type_name])
    return np.array([bits], f"u{dtype.itemsize}").view(dtype)


def constant_array(value: Any, type_name: str) -> Any:
    """A constant as an array of one element (one row of two when packed)."""
    if type_name in PACKED:
        return np.array([value], np.uint32).view(DTYPES[PACKED[type_name][0]]).reshape(1, 2)
    return np.array([value], DTYPES[type_name])
