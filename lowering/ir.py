"""The tile IR: SSA, MLIR-shaped. Operations with operands, results, attributes and regions of one block each.

What an operation means, needs and does to memory is stated once, in `ops/`.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from lowering.choices import Choices
from lowering.layout import Layout
from lowering.location import Loc, printable
from lowering.nesting import deep_recursion
from lowering.reasons import Reason
from lowering.schedule import Named, Pin, SwizzlePin
from lowering.targets import WARP
from lowering.types import DType, SharedType, TableType, TensorType, TileType, Type

if TYPE_CHECKING:
    from lowering.facts import Analysis


class Value:
    """A result of an operation or an argument of a block. `name` is what the user called it, if anything.

    `tile` is the type of a value that is known to be a tile or a scalar. `origin` is the value that this one equals,
    of the IR before the pass that made it: see `stands_for`.
    """

    __slots__ = ("in_turn", "name", "op", "origin", "type")
    if TYPE_CHECKING:
        tile: TileType

    def __init__(self, type: Type, op: Op | None = None, name: str | None = None):
        self.type, self.op, self.name = type, op, name
        self.origin: Value | None = None
        self.in_turn = False

    def stands_for(self, old: Value, in_turn: bool = False) -> Value:
        """This value is what `old` was, which a rewriter replaces or makes once more, and has its name.

        `in_turn`: it is so in some of the rounds, and others are in the rest, in the order in which they are done.
        """
        self.name, self.origin, self.in_turn = old.name, old, in_turn
        return self

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        assert isinstance(self.type, TileType | SharedType)
        return self.type.shape

    def __repr__(self) -> str:
        return f"<Value {self.name or ''} {self.type}>"


if not TYPE_CHECKING:
    Value.tile = Value.type  # asked for so often that a property took a twentieth of a compile


class Block:
    __slots__ = ("args", "ops")

    def __init__(self, args: Iterable[Value] = ()):
        self.args: list[Value] = list(args)
        self.ops: list[Op] = []


class Op:
    __slots__ = ("attrs", "loc", "name", "operands", "regions", "results", "spec")

    def __init__(
        self,
        spec: Any,
        operands: Iterable[Value],
        types: Iterable[Type],
        attrs: dict[str, Any] | None = None,
        regions: Iterable[Block] = (),
        loc: Loc | None = None,
    ):
        self.spec = spec
        self.name: str = spec.name
        self.operands: list[Value] = list(operands)
        self.attrs: dict[str, Any] = attrs or {}
        self.regions: list[Block] = list(regions)
        self.loc = loc
        self.results: list[Value] = [Value(t, self) for t in types]

    @property
    def result(self) -> Value:
        return self.results[0]

    def __repr__(self) -> str:
        return f"<Op {self.name}>"


def carried_integers(loop: Op) -> Iterator[tuple[Value, Value, Value, Value]]:
    """The scalar integers that a `for` carries: at its start, in its body, what the next round has, behind it."""
    body = loop.regions[0]
    ends = body.ops[-1].operands
    for start, inside, following, behind in zip(loop.operands[3:], body.args[1:], ends, loop.results, strict=True):
        if not inside.tile.shape and inside.dtype.is_int:
            yield start, inside, following, behind


@dataclass(slots=True)
class Parameter:
    """What a caller passes: a tensor (with named or literal dims), a scalar or a table.

    `value` is None for an absent optional tensor.
    """

    kind: str  # "tensor", "scalar", "table"
    name: str
    dtype: DType
    value: Value | None
    dims: list[str | int] = field(default_factory=list)
    strided: bool = False
    optional: bool = False
    length: int = 0
    align: int = 16  # bytes that the pointer is known to be a multiple of
    strides: list[Value] = field(default_factory=list)  # of a strided tensor, one an axis
    access: str = ""  # "r", "w" or "rw", filled by `record_access`
    loc: Loc | None = None


def stride_name(tensor: str, axis: int) -> str:
    """The stride of a strided tensor, in elements, as divisors and the header's conditions name it."""
    return f"{tensor}.stride{axis}"


Said = TypeVar("Said", int, str, Loc)
Attribute = bool | int | str | Loc | dict[str, bool | int | str | Loc]
"""What a property of a schedule says: of the kernel, or of subjects by name."""
Tree = bool | int | float | str | None | list["Tree"]
"""An expression that a launch evaluates: a number, a name, or an operation and its operands."""


@dataclass(slots=True)
class Function:
    """One kernel variant. `body`'s arguments are, pointers of tensors, their strides, scalars and tables, dims."""

    name: str
    params: list[Parameter]
    dims: dict[str, Value]
    body: Block
    warps: int
    index_bits: int = 32
    divisors: dict[str, int] = field(default_factory=dict)  # dim, scalar or `x.stride0` → a divisor that is known
    attrs: dict[str, Attribute] = field(default_factory=dict)  # of the schedule: barriers, contract, maxregs …
    pins: dict[str, Pin] = field(default_factory=dict)  # value name → its `layout` line in the schedule
    instructions: dict[str, Named] = field(default_factory=dict)  # value name → the instruction of its product
    swizzles: dict[str, SwizzlePin] = field(default_factory=dict)  # shared tile → its swizzle as the schedule pins it
    unrolled: dict[str, Loc] = field(default_factory=dict)  # counter of a loop → where the schedule unrolls or peels it
    choices: Choices = field(default_factory=Choices)
    reasons: dict[Op, Reason] = field(default_factory=dict)  # of barriers, those that others made superfluous too
    grid: list[Tree] = field(default_factory=list)  # its extents, as the trees that a launch evaluates
    facts: Analysis | None = None  # what `facts_of` found
    holds: set[str] = field(default_factory=set)  # what passes have made of it: see `Pass` in passes/__init__.py
    loc: Loc | None = None
    in_branches: frozenset[str] = frozenset()  # names that branches define, which constants may leave out
    void: list[tuple[str, Loc]] = field(default_factory=list)  # those that the schedule names and this variant has not

    def number(self, name: str, default: int = 0) -> int:
        """An attribute that is a number."""
        value = self.attrs.get(name, default)
        assert isinstance(value, int), name
        return value

    def word(self, name: str) -> str | None:
        """An attribute that is one of some words."""
        value = self.attrs.get(name)
        assert value is None or isinstance(value, str), name
        return value

    def by_subject(self, name: str, kind: type[Said]) -> dict[str, Said]:
        """An attribute that says something of several subjects."""
        value = self.attrs.get(name, {})
        assert isinstance(value, dict), name
        return {subject: said for subject, said in value.items() if isinstance(said, kind)}

    @property
    def threads(self) -> int:
        return WARP * self.warps

    @property
    def laid_out(self) -> Collection[str]:
        """The names of values whose layouts the schedule says."""
        return {*self.pins, *self.instructions}

    @property
    def scheduled(self) -> Collection[str]:
        """The names of values that the schedule says something of."""
        return {*self.laid_out, *self.by_subject("recompute", Loc)}


def walk(block: Block) -> list[Op]:
    """Every operation of a block and of the regions in it, outer ones first."""
    found: list[Op] = []
    _walk(block, found)
    return found


def _walk(block: Block, found: list[Op]) -> None:
    for op in block.ops:
        found.append(op)
        for region in op.regions:
            _walk(region, found)


def uses(block: Block) -> dict[Value, list[Op]]:
    """Who uses each value (an op once for each operand place)."""
    out: defaultdict[Value, list[Op]] = defaultdict(list)
    for op in walk(block):
        for operand in op.operands:
            out[operand].append(op)
    return dict(out)


def replace_uses(block: Block, mapping: dict[Value, Value]) -> None:
    """Every use of a key becomes its (final) replacement."""

    def final(value: Value) -> Value:
        while value in mapping:
            value = mapping[value]
        return value

    for op in walk(block):
        for i, operand in enumerate(op.operands):
            if operand in mapping:
                op.operands[i] = final(operand)


class Rewriter:
    """Rebuilds a function's blocks op by op: `visit(op)` emits replacements through `emit` and maps the old results.

    What `visit` does not handle is copied with its operands mapped. This is the skeleton of every pass that changes
    operations rather than attributes.
    """

    def __init__(self) -> None:
        self.map: dict[Value, Value] = {}
        self.out: Block = Block()

    def __getitem__(self, value: Value) -> Value:
        return self.map.get(value, value)

    def emit(self, op: Op) -> Op:
        self.out.ops.append(op)
        return op

    def block(self, block: Block, visit: Callable[[Op], bool]) -> Block:
        """A copy of `block` with each op through `visit`; the same argument values."""
        outer, self.out = self.out, Block(block.args)
        for op in block.ops:
            if not visit(op):
                self.copy(op, visit)
        done, self.out = self.out, outer
        return done

    def copy(self, op: Op, visit: Callable[[Op], bool]) -> Op:
        op.operands = [self[v] for v in op.operands]
        op.regions = [self.block(r, visit) for r in op.regions]
        return self.emit(op)


# ---- MLIR's generic form --------------------------------------------------------------------------------


def _quoted(text: str) -> str:
    """A string literal: what is not printable ASCII becomes its UTF-8 bytes in hexadecimal."""
    safe = (chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in text.encode())
    return '"' + "".join(safe) + '"'


class Printer:
    """Collects the lines of a function; layouts get names, which stand before it."""

    def __init__(self, annotate: bool = False):
        self.annotate = annotate
        self.names: dict[Value, str] = {}
        self.taken: set[str] = set()
        self.count = 0
        self.layouts: dict[str, str] = {}  # text → alias
        self.lines: list[str] = []

    def attribute(self, value: Any) -> str:
        """None (what an operation may have and does not) is `unit`."""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int):
            return f"{value} : i64"
        if isinstance(value, float):
            return f"0x{struct.pack('>d', value).hex().upper()} : f64"
        if isinstance(value, list | tuple):
            return "[" + ", ".join(self.attribute(v) for v in value) + "]"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{k} = {self.attribute(v)}" for k, v in sorted(value.items())) + "}"
        if isinstance(value, DType):
            return value.mlir
        if isinstance(value, TileType | TensorType | SharedType | TableType):
            return self.type(value)
        if isinstance(value, Layout):
            return self.layouts.setdefault(value.mlir, f"#layout{len(self.layouts)}")
        if value is None:
            return "unit"
        return _quoted(str(value))

    def type(self, type: Type) -> str:
        if isinstance(type, TileType) and type.shape and type.layout:
            return f"{type.mlir[:-1]}, {self.attribute(type.layout)}>"
        return type.mlir

    def name(self, value: Value) -> str:
        """`%` and the user's name for it, numbered where another value has it; a number if it has none."""
        known = self.names.get(value)
        if known is None:
            stem = "".join(c if c.isascii() and (c.isalnum() or c in "_.") else "_" for c in value.name or "")
            stem = f"_{stem}" if stem[:1].isdigit() else stem
            known = stem or str(self.count)
            while known in self.taken:
                known = f"{stem}_{self.count}"
                self.count += 1
            self.count += not stem
            self.taken.add(known)
            self.names[value] = known
        return "%" + known

    def op(self, op: Op, indent: str) -> None:
        head = ", ".join(self.name(r) for r in op.results)
        head = f"{head} = " if head else ""
        operands = ", ".join(self.name(v) for v in op.operands)
        attrs = ", ".join(f"{k} = {self.attribute(v)}" for k, v in sorted(op.attrs.items()))
        signature = "(" + ", ".join(self.type(v.type) for v in op.operands) + ") -> "
        results = [self.type(r.type) for r in op.results]
        signature += results[0] if len(results) == 1 else "(" + ", ".join(results) + ")"
        line = f'{indent}{head}"tile.{op.name}"({operands})'
        tail = (f" {{{attrs}}}" if attrs else "") + f" : {signature}"
        if self.annotate and op.loc is not None:
            tail += f"  // {printable(op.loc.source.name)}:{op.loc.line}".replace("\n", " ")
        if not op.regions:
            self.lines.append(line + tail)
            return
        self.lines.append(line + " ({")
        for i, region in enumerate(op.regions):
            if i:
                self.lines.append(f"{indent}}}, {{")
            self.block(region, indent + "  ")
        self.lines.append(f"{indent}}}){tail}")

    def block(self, block: Block, indent: str) -> None:
        if block.args:
            args = ", ".join(f"{self.name(a)}: {self.type(a.type)}" for a in block.args)
            self.lines.append(f"{indent[:-2]}^bb0({args}):")
        for op in block.ops:
            self.op(op, indent)


@deep_recursion()
def to_mlir(function: Function, annotate: bool = False) -> str:
    """MLIR's generic form of a function; with `annotate`, each op's `.tile` line as a comment."""
    printer = Printer(annotate)
    attrs = {"name": function.name, "warps": function.warps, "index_bits": function.index_bits} | function.attrs
    printer.lines.append('"builtin.module"() ({')
    printer.lines.append('  "tile.kernel"() ({')
    printer.block(function.body, "    ")
    rows = ", ".join(f"{k} = {printer.attribute(v)}" for k, v in sorted(attrs.items()))
    printer.lines.append(f"  }}) {{{rows}}} : () -> ()")
    printer.lines.append("}) : () -> ()")
    aliases = [f"{alias} = {layout}" for layout, alias in printer.layouts.items()]
    return "\n".join([*aliases, *printer.lines]) + "\n"


__all__ = [
    "Block",
    "Function",
    "Op",
    "Parameter",
    "Rewriter",
    "SharedType",
    "TableType",
    "TensorType",
    "TileType",
    "Value",
    "replace_uses",
    "to_mlir",
    "uses",
    "walk",
]
