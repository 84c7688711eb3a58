"""LLVM IR as text, for one thread: names, constants, debug places, calls of instruction templates.

Text is written directly: building llvmlite's object tree costs ten times as much as the text, and llvmlite parses text
anyway.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from lowering.facts import facts_of
from lowering.ir import Block, Function, Op, Value
from lowering.layout import Layout
from lowering.location import Loc, Source, TileError
from lowering.shared_map import SharedMap, SharedMaps
from lowering.targets import Target
from lowering.types import DType
from ptx_templates import Instruction, UnknownInstruction, instruction

if TYPE_CHECKING:
    from lowering.emit.global_address import GlobalMap


Text = list[Any]
"""Lines, and texts that are put between them later."""


def flat(text: Text) -> Iterator[str]:
    for line in text:
        if isinstance(line, str):
            yield line
        else:
            yield from flat(line)


def float_constant(value: float, llvm: str) -> str:
    """A float as LLVM writes it, rounded to the type."""
    if llvm == "double":
        return f"0x{struct.unpack('>Q', struct.pack('>d', value))[0]:016X}"
    try:
        single = struct.unpack(">f", struct.pack(">f", value))[0]
    except OverflowError:
        single = float("inf") if value > 0 else float("-inf")
    if llvm == "float":
        return f"0x{struct.unpack('>Q', struct.pack('>d', single))[0]:016X}"
    if llvm == "bfloat":
        return f"0xR{struct.unpack('>I', struct.pack('>f', _as_bf16(value)))[0] >> 16:04X}"
    try:
        return f"0xH{struct.unpack('>H', struct.pack('>e', value))[0]:04X}"
    except OverflowError:
        return "0xH7C00" if value > 0 else "0xHFC00"


def _as_bf16(value: float) -> float:
    """The bf16 nearest to `value`, ties to even, rounded once."""
    if not math.isfinite(value):
        return value
    unit = max(math.frexp(value)[1], -125) - 8  # the exponent of the last of its 8 bits; subnormals share one
    nearest = math.copysign(math.ldexp(round(math.ldexp(value, -unit)), unit), value)
    return nearest if abs(nearest) < 2.0**128 else math.copysign(math.inf, value)


MAX_COLUMN = 65535
"""LLVM keeps columns in 16 bits."""


class DebugInfo:
    """Metadata that carries `.tile` lines into PTX."""

    def __init__(self, function: Function):
        self.lines: list[str] = []
        self.files: dict[int, tuple[int, int]] = {}  # source → its file and the scope of code inlined from it
        self.sources: list[Source] = []
        self.known: dict[tuple, int] = {}
        self.count = 0
        assert function.loc is not None
        # The unit is node 0 and its file node 1.
        self.unit = self.add(
            "distinct !DICompileUnit(language: DW_LANG_C, file: !1, emissionKind: DebugDirectivesOnly)"
        )
        file, _ = self.file_of(function.loc.source)
        self.function_scope = self.subprogram(function.name, file, function.loc.line)
        self.head = self.add(f"!DILocation(line: {function.loc.line}, column: 1, scope: !{self.function_scope})")

    def add(self, text: str) -> int:
        number = self.count
        self.count += 1
        self.lines.append(f"!{number} = {text}")
        return number

    def subprogram(self, name: str, file: int, line: int) -> int:
        kind = self.add("!DISubroutineType(types: !{})")
        return self.add(
            f'distinct !DISubprogram(name: "{name}", file: !{file}, line: {line}, scopeLine: {line}, type: !{kind}, '
            f"spFlags: DISPFlagDefinition, unit: !{self.unit})"
        )

    def file_of(self, source: Source) -> tuple[int, int]:
        if id(source) not in self.files:
            name = source.name.replace("\\", "\\5C").replace('"', "\\22")
            file = self.add(f'!DIFile(filename: "{name}", directory: "")')
            scope = self.subprogram("inlined", file, 1)
            self.files[id(source)] = (file, scope)
            self.sources.append(source)  # keeps id() unique
        return self.files[id(source)]

    def place(self, loc: Loc) -> int:
        """The number of the metadata node of a place; an inlined one hangs below its caller."""
        key = (id(loc.source), loc.start, id(loc.caller.source) if loc.caller else 0, _chain(loc.caller))
        known = self.known.get(key)
        if known is None:
            line, column = loc.source.position(loc.start)
            column = min(column, MAX_COLUMN)
            if loc.caller is None:
                text = f"!DILocation(line: {line}, column: {column}, scope: !{self.function_scope})"
            else:
                outer = self.place(loc.caller)
                scope = self.file_of(loc.source)[1]
                text = f"!DILocation(line: {line}, column: {column}, scope: !{scope}, inlinedAt: !{outer})"
                text = "distinct " + text
            known = self.known[key] = self.add(text)
        return known


def _chain(loc: Loc | None) -> tuple:
    out = []
    while loc is not None:
        out.append(loc.start)
        loc = loc.caller
    return tuple(out)


class _Registers(dict[Value, list[str]]):
    """Of a value that is held in words, the elements are made anew wherever they are asked for."""

    def __init__(self, writer: Writer):
        super().__init__()
        self.writer = writer

    def __missing__(self, value: Value) -> list[str]:
        from lowering.emit.tensor import unpacked

        if value not in self.writer.words:
            raise KeyError(value)
        return unpacked(self.writer, value)


class Writer:
    """Collects the text of one function. `registers[value]` are the LLVM names of a value's elements in this thread.

    What matrix instructions give and take is in `words` instead, as 32-bit registers with several elements each, and
    is taken apart where something asks for its elements. `packed` knows elements that came or were made as one word.
    """

    def __init__(self, function: Function, target: Target):
        self.function, self.target = function, target
        self.index = f"i{function.index_bits}"
        self.words: dict[Value, list[str]] = {}
        self.packed: dict[tuple[str, ...], str] = {}
        self.bytes: dict[str, tuple[str, int]] = {}  # register of a byte → the word that it is of, and its bits there
        self.byte_flags: dict[str, tuple[str, int, bool]] = {}  # such a byte compared with zero → …, true if not zero
        self.registers: dict[Value, list[str]] = _Registers(self)
        self.body: Text = []
        self.lines = self.body
        self.entry: Text = []  # computed once, at the head of this stretch of the function
        self.entry_known: dict[str, str] = {}
        self.stretches = 0
        self.stretch_of: Block | None = None  # the block in which loops end stretches
        self.behind: list[str] = []  # blocks that are rarely entered, behind the others
        self.declarations: dict[str, str] = {}
        self.globals: list[str] = []
        self.count = 0
        self.label = "entry"
        self.loops = 0  # around what is emitted now
        self.debug = DebugInfo(function)
        self.dbg = ""
        self.facts = facts_of(function)
        self.maps = SharedMaps(self.facts)
        self.given: set[Value] = set()  # parameters, strides and dims: known at the head
        self.global_maps: dict[Value, GlobalMap | None] = {}
        self.shared_maps: dict[Op, SharedMap | None] = {}
        self.known_here: dict[tuple, Any] = {}
        self.needed: dict[Value, set[int]] = {}
        self.contract = " contract" if function.attrs.get("contract") == "fast" else ""
        self.ptx = target.ptx

    # ---- text ----

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def at(self, op: Op) -> None:
        """Following instructions belong to this operation's line."""
        self.dbg = f", !dbg !{self.debug.place(op.loc)}" if op.loc is not None else ""

    def do(self, text: str) -> None:
        self.lines.append(f"  {text}{self.dbg}")

    def let(self, text: str) -> str:
        """A new value. Those that follow each other in the text have numbers, which LLVM reads faster than names."""
        self.count += 1
        name = f"%{self.count}" if self.lines is self.body else f"%v{self.count}"
        self.lines.append(f"  {name} = {text}{self.dbg}")
        return name

    def once(self, text: str) -> str:
        """A value that depends on nothing but the thread, the block and the parameters: computed at the head, once."""
        known = self.entry_known.get(text)
        if known is None:
            known = self.name()
            self.entry.append(f"  {known} = {text}, !dbg !{self.debug.head}")
            self.entry_known[text] = known
        return known

    def anew(self) -> None:
        """Begins a stretch: what follows computes once more what `once` has computed, from a thread's number that is
        read again, so that none of it is kept in registers meanwhile. All that follows in the block must pass here."""
        self.entry, self.entry_known = [], {}
        self.lines.append(self.entry)
        self.stretches += 1

    @contextmanager
    def stretches_of(self, block: Block) -> Iterator[None]:
        """Meanwhile loops of this block end stretches, the first of which begins here."""
        kept = self.entry, self.entry_known, self.stretch_of
        self.stretch_of = block
        self.anew()
        try:
            yield
        finally:
            self.entry, self.entry_known, self.stretch_of = kept

    def here(self, key: tuple, make: Callable[[], Any]) -> Any:
        """What `make` gives, made once in each stretch of straight code."""
        place = (self.label, *key)
        if place not in self.known_here:
            self.known_here[place] = make()
        return self.known_here[place]

    @contextmanager
    def nothing_ahead(self) -> Iterator[None]:
        """Meanwhile what `once` would add to the head of the function is computed in place."""
        entry, known = self.entry, self.entry_known
        self.entry, self.entry_known = self.lines, dict(known)
        try:
            yield
        finally:
            self.entry, self.entry_known = entry, known

    def start(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.label = label

    @contextmanager
    def aside(self, label: str) -> Iterator[None]:
        """Meanwhile instructions go to a block behind the others, so that the way that is mostly taken is straight."""
        lines, here, self.lines = self.lines, self.label, self.behind
        self.start(label)
        try:
            yield
        finally:
            self.lines, self.label = lines, here

    def fresh_label(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def llvm(self, dtype: DType) -> str:
        return self.index if dtype.kind == "index" else dtype.llvm

    def bits(self, dtype: DType) -> int:
        return self.function.index_bits if dtype.kind == "index" else dtype.bits

    def constant(self, value: int | float | bool, dtype: DType) -> str:
        if dtype.is_float:
            return float_constant(float(value), dtype.llvm)
        if dtype.kind == "bool":
            return "true" if value else "false"
        number = int(value)
        if dtype.kind == "unsigned" and number >= 1 << (dtype.bits - 1):
            number -= 1 << dtype.bits
        return str(number)

    def intrinsic(self, name: str, result: str, arguments: Iterable[tuple[str, str]], attributes: str = "") -> str:
        """A call of an LLVM intrinsic; arguments are (type, value)."""
        arguments = list(arguments)
        types = ", ".join(t for t, _ in arguments)
        self.declarations[name] = f"declare {result} @{name}({types}){attributes}"
        return self.let(f"call {result} @{name}({', '.join(f'{t} {v}' for t, v in arguments)})")

    # ---- threads ----

    def thread(self) -> str:
        """This thread's number in its block, i32."""
        if self.stretches > 1:
            return self.once('call i32 asm sideeffect "mov.u32 $0, %tid.x;", "=r"()')
        self.declarations["llvm.nvvm.read.ptx.sreg.tid.x"] = "declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()"
        return self.once("call i32 @llvm.nvvm.read.ptx.sreg.tid.x()")

    def special(self, register: str) -> str:
        """A special register, as index."""
        name = f"llvm.nvvm.read.ptx.sreg.{register}"
        self.declarations[name] = f"declare i32 @{name}()"
        value = self.once(f"call i32 @{name}()")
        return value if self.index == "i32" else self.once(f"zext i32 {value} to i64")

    def coordinate(self, layout: Layout) -> str:
        """The part of an element's coordinate that the thread's number decides, as index; XOR a register's offset."""
        total = self.linear(layout.thread)
        return total if total == "0" or self.index == "i32" else self.once(f"zext i32 {total} to i64")

    def linear(self, bases: tuple[int, ...]) -> str:
        """The XOR of the bases of the set bits of the thread's number, i32."""
        groups: list[tuple[int, int, int]] = []  # first thread bit, number of bits, shift of the image
        bit = 0
        while bit < len(bases):
            basis = bases[bit]
            if not basis:
                bit += 1
                continue
            if basis & (basis - 1):  # several bits: one at a time
                groups.append((bit, 1, basis))
                bit += 1
                continue
            run = 1
            while bit + run < len(bases) and bases[bit + run] == basis << run:
                run += 1
            groups.append((bit, run, basis))
            bit += run
        total: str | None = None
        thread = self.thread()
        all_bits = len(bases)
        joint = "or disjoint" if sum(bases) == reduce(or_, bases, 0) else "xor"
        for first, run, basis in groups:
            part = thread
            if first:
                part = self.once(f"lshr i32 {part}, {first}")
            if first + run < all_bits:
                part = self.once(f"and i32 {part}, {(1 << run) - 1}")
            if basis & (basis - 1):
                part = self.once(f"mul nuw nsw i32 {part}, {basis}")
            elif basis > 1:
                part = self.once(f"shl nuw nsw i32 {part}, {basis.bit_length() - 1}")
            total = part if total is None else self.once(f"{joint} i32 {total}, {part}")
        return "0" if total is None else total

    def chosen(self, layout: Layout | None) -> str | None:
        """An i1: this thread is the one that stores elements held by several. None if each lies in one thread."""
        if layout is None:
            return self.once(f"icmp eq i32 {self.thread()}, 0")
        free = layout.replicated["lane"] | layout.replicated["warp"] << 5
        if not free:
            return None
        masked = self.once(f"and i32 {self.thread()}, {free}")
        return self.once(f"icmp eq i32 {masked}, 0")

    # ---- instruction templates ----

    def template(self, name: str, inputs: list[str], op: Op | None = None) -> list[str]:
        """A call of a row of `ptx_templates`; its outputs."""
        try:
            row = instruction(name)
        except UnknownInstruction as error:
            raise TileError("instruction", op.loc if op else None, f"there is no instruction '{name}'") from error
        if not row.available(self.target.arch):
            raise TileError(
                "target", op.loc if op else None, f"{self.target.arch} has no '{name}': it needs {row.target}"
            )
        return self.asm(row, inputs)

    def asm(self, row: Instruction, inputs: list[str]) -> list[str]:
        self.ptx = max(self.ptx, row.ptx)
        call, result, outputs = _asm_call(row)
        if not outputs:
            self.do(call % tuple(inputs))
            return []
        value = self.let(call % tuple(inputs))
        if outputs == 1:
            return [value]
        return [self.let(f"extractvalue {result} {value}, {i}") for i in range(outputs)]


@cache
def _asm_call(row: Instruction) -> tuple[str, str, int]:
    """The call of an instruction with `%s` for each argument, the type of its result, and how many values that has."""
    text, constraints = row.llvm()
    arguments = ", ".join(f"{o.llvm_type} %s" for o in row.inputs for _ in range(o.registers))
    outputs = [o.llvm_type for o in row.outputs for _ in range(o.registers)]
    effect = "sideeffect " if row.effects or row.convergent else ""
    marks = " #1" if row.convergent else ""
    result = "void" if not outputs else outputs[0] if len(outputs) == 1 else "{" + ", ".join(outputs) + "}"
    call = f'call {result} asm {effect}"{text.replace("%", "%%")}", "{constraints}"({arguments}){marks}'
    return call, result, len(outputs)
