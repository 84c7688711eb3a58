"""The tile IR, which is in SSA form like MLIR. Operations have operands, results, attributes and regions. Each region
is one block.

`ops/` defines the operations: their meaning, requirements and effects on memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, field

from dsl.lowering.ir.choices import Choices
from dsl.lowering.ir.location import Loc
from dsl.lowering.ir.schedule import Named, Pin, SwizzlePin
from dsl.lowering.ir.targets import WARP
from dsl.lowering.ir.types import DType, SharedType, TensorType, TileType, Type, ViewType


class Value:
    """A result of an operation, or an argument of a block.

    `name`: the user's name for the value, or None.
    `tile`: an alias of `type`, for values that are known to be tiles or scalars.
    `origin`: the value of the previous IR that this value replaces, set by `stands_for`.
    """

    __slots__ = ("in_turn", "name", "op", "origin", "type")
    if TYPE_CHECKING:
        tile: TileType

    def __init__(self, type: Type, op: Op | None = None, name: str | None = None):
        self.type, self.op, self.name = type, op, name
        self.origin: Value | None = None
        self.in_turn = False

    def stands_for(self, old: Value, in_turn: bool = False) -> Value:
        """Marks this value as the replacement or a copy of `old`, and gives it the name of `old`.

        `in_turn`: True if this value replaces `old` only in some iterations of a loop. Other values replace `old` in
            the remaining iterations, in order.
        """
        self.name, self.origin, self.in_turn = old.name, old, in_turn
        return self

    def take_name(self, equal: Value) -> None:
        """Gives this value the name of the equal value that it replaces, unless this value already has a name. Schedule
        lines refer to values by their names."""
        if self.name is None:
            self.name = equal.name

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        assert isinstance(self.type, TileType | SharedType | ViewType)
        return self.type.shape

    @property
    def registers(self) -> int:
        """The number of 32-bit registers of a thread that hold the tile. It is 0 for values without a layout."""
        layout = self.type.layout if isinstance(self.type, TileType) else None
        return 0 if layout is None else layout.count * self.dtype.bits // 32

    def __repr__(self) -> str:
        return f"<Value {self.name or ''} {self.type}>"


if not TYPE_CHECKING:
    Value.tile = Value.type  # an alias, because a property took a twentieth of the compile time


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
    """Yields (initial value, argument of the body, value for the next iteration, result) for each loop-carried scalar
    integer of a `for`."""
    body = loop.regions[0]
    ends = body.ops[-1].operands
    for start, inside, following, behind in zip(loop.operands[3:], body.args[1:], ends, loop.results, strict=True):
        if not inside.tile.shape and inside.dtype.is_int:
            yield start, inside, following, behind


class Reason(Struct, frozen=True):
    """Why a barrier is needed before an access, or why it was removed.

    `earlier`, `later`: the two accesses that need a barrier between them.
    `earlier_iteration`: True if `earlier` is from an earlier iteration of a loop around both accesses.
    `scope`: "warp" if only threads of the same warp conflict, otherwise "block".
    `doubt`: why the accesses may not conflict after all, or "" if they certainly conflict.
    `order`: "acquire" or "release" if the barrier orders accesses as other blocks observe them. Otherwise "".
    `superfluous`: True if the barrier was removed because other barriers order the two accesses. `by`: these other
        barriers.
    `once`: True if the barrier is before the loop that contains the accesses.
    """

    earlier: Op
    later: Op
    scope: str
    doubt: str = ""
    earlier_iteration: bool = False
    order: str = ""
    once: bool = False
    superfluous: bool = False
    by: tuple[Op, ...] = ()

    def __str__(self) -> str:
        before = f"{access_text(self.earlier)}{' of an iteration before' if self.earlier_iteration else ''}"
        where = "within a warp" if self.scope == "warp" else "across warps"
        said = f"{before} and {access_text(self.later)} {'may meet' if self.doubt else 'meet'} {where}"
        if self.order:
            what = "is released" if self.order == "release" else "is acquired"
            said = f"{before} and {access_text(self.later)}: what {what} for other blocks is so for all threads"
        if self.doubt:
            said += f": {self.doubt}"
        if self.once:
            said += "; once before the loop"
        if not self.superfluous:
            return said
        lines = list(dict.fromkeys(str(op.loc.line) for op in self.by if op.loc is not None))
        others = f" before line{'s' * (len(lines) > 1)} {', '.join(lines)}" if lines else "s between"
        return f"superfluous with the barrier{others}: {said}"


def access_text(op: Op) -> str:
    """Formats an access, for example `s.load in line 12`."""
    return f"{subject_of(op)}{in_line(op)}"


def subject_of(op: Op) -> str:
    """Returns the name of an access in messages, for example `x.load`. For an operand that wgmma reads in shared
    memory, the text of the kernel contains a `load`."""
    verb = "load" if op.results and isinstance(op.result.type, ViewType) else op.name
    return f"{op.operands[0].name}.{verb}"


def in_line(op: Op) -> str:
    """Formats a line, for example ` in line 12`. Returns "" if the line is not known."""
    return "" if op.loc is None else f" in line {op.loc.line}"


class Parameter(Struct):
    """A parameter of a kernel: a tensor (with named or literal dims), a scalar or a table.

    `value`: the value in the IR, or None for an optional tensor that is absent.
    """

    kind: str  # "tensor", "scalar", "table"
    name: str
    dtype: DType
    value: Value | None
    dims: list[str | int] = field(default_factory=list)
    strided: bool = False
    optional: bool = False
    length: int = 0
    align: int = 16  # the pointer is known to be a multiple of this many bytes
    strides: list[Value] = field(default_factory=list)  # the strides of a strided tensor, one for each axis
    access: str = ""  # "r", "w" or "rw"; `record_access` sets it
    loc: Loc | None = None


class FunctionWorkspace(Struct):
    """Memory that the launcher provides for communication between blocks.

    `each`: the number of elements for each block of the grid.
    `zero`: if True, the memory contains zeros before each launch, and the launch must leave zeros in it. If False, the
        contents are undefined until a block of the launch writes them.
    `align`: the alignment of the address in bytes.
    """

    name: str
    dtype: DType
    each: int
    zero: bool
    value: Value
    align: int = 16


def stride_name(tensor: str, axis: int) -> str:
    """Returns the name of a strided tensor's stride (in elements). Divisors and conditions in the PTX header use this
    name."""
    return f"{tensor}.stride{axis}"


Said = TypeVar("Said", int, str, Loc, tuple[Any, ...])
Attribute = bool | int | str | Loc | tuple[int, ...] | dict[str, bool | int | str | Loc | tuple[Any, ...]]
"""The value of a schedule property: one value for the kernel, or one value for each named subject."""
Tree = bool | int | float | str | None | list["Tree"]
"""An expression that a launch evaluates: a number, a name, or an operation and its operands."""


class Function(Struct):
    """One variant of a kernel. The arguments of `body` are pointers of tensors, strides of tensors, scalars, tables,
    dims, and workspaces."""

    name: str
    params: list[Parameter]
    dims: dict[str, Value]
    body: Block
    warps: int
    index_bits: int = 32
    divisors: dict[str, int] = field(default_factory=dict)  # maps a dim, scalar or `x.stride0` to a known divisor
    extents: dict[str, int] = field(default_factory=dict)  # maps a specialised dim to its value
    attrs: dict[str, Attribute] = field(default_factory=dict)  # schedule properties: barriers, contract, maxnreg …
    pins: dict[str, Pin] = field(default_factory=dict)  # maps a value name to its `layout` line in the schedule
    instructions: dict[str, Named] = field(default_factory=dict)  # maps a value name to the instruction of its product
    swizzles: dict[str, SwizzlePin] = field(default_factory=dict)  # maps a shared tile to its pinned swizzle
    # maps (property, subject) to the location of the schedule line
    lines: dict[tuple[str, str], Loc] = field(default_factory=dict)
    choices: Choices = field(default_factory=Choices)
    reasons: dict[Op, Reason] = field(default_factory=dict)  # the reasons for barriers, including superfluous ones
    grid: list[Tree] = field(default_factory=list)  # the extents of the grid, as the trees that a launch evaluates
    constants: dict[str, Any] = field(default_factory=dict)  # the values of names in those trees, except dims
    workspaces: list[FunctionWorkspace] = field(default_factory=list)  # workspaces, which the launcher provides
    deals: int = 0  # number of passes that redistributed work among blocks, which changes the values in a block
    facts: object = None  # the cache of `facts_of`
    # the properties that passes have established: see `Pass` in passes/__init__.py
    holds: set[str] = field(default_factory=set)
    loc: Loc | None = None
    in_branches: frozenset[str] = frozenset()  # names that may be missing: of branches, and of parts that fold
    written_out: set[str] = field(default_factory=set)  # counters of the loops that `unroll NAME: all` removed
    void: list[tuple[str, Loc]] = field(default_factory=list)  # names in the schedule that do not exist in this variant

    @property
    def cluster(self) -> tuple[int, int]:
        """The number of blocks of a cluster along the first and second axis of the grid."""
        value = self.attrs.get("cluster", (1, 1))
        assert isinstance(value, tuple) and not isinstance(value, Loc)  # checked when the schedule is resolved
        rows, columns = value
        return rows, columns

    @property
    def blocks_of_cluster(self) -> int:
        return prod(self.cluster)

    def extents_of(self, memory: Value) -> list[int | str]:
        """Returns the extents of a contiguous tensor: numbers, and dims that are not specialised. For other memory, it
        returns nothing."""
        found = [each.dims for each in self.params if each.value is memory and not each.strided]
        return [self.extents.get(dim, dim) if isinstance(dim, str) else dim for dims in found for dim in dims]

    def number(self, name: str, default: int = 0) -> int:
        """Returns the value of an attribute that is a number."""
        value = self.attrs.get(name, default)
        assert isinstance(value, int), name  # checked when the schedule is resolved or the IR text is read
        return value

    def word(self, name: str) -> str | None:
        """Returns the value of an attribute that is a word, or None."""
        value = self.attrs.get(name)
        assert value is None or isinstance(value, str), name
        return value

    def by_subject(self, name: str, kind: type[Said]) -> dict[str, Said]:
        """Returns the values of an attribute by subject, for example the swizzle of each shared tile."""
        value = self.attrs.get(name, {})
        assert isinstance(value, dict), name
        return {subject: said for subject, said in value.items() if isinstance(said, kind)}

    def workspace(self, name: str, dtype: DType, each: int, zero: bool = False) -> Value:
        """Adds a workspace and returns its pointer. Underscores are appended to its name until the name is unique."""
        taken = {p.name for p in self.params} | {w.name for w in self.workspaces} | set(self.dims)
        while name in taken:  # the name becomes a `.param` of the entry, next to the user's names
            name += "_"
        value = Value(TensorType(1, dtype), name=name)
        self.workspaces.append(FunctionWorkspace(name, dtype, each, zero, value))
        self.body.args.append(value)
        return value

    @property
    def threads(self) -> int:
        """The number of threads over which tiles are distributed."""
        return WARP * self.warps

    @property
    def launched(self) -> int:
        """The number of threads of a block, including producer warps."""
        return self.threads + WARP * self.number("producers")

    @property
    def laid_out(self) -> Collection[str]:
        """The names of values whose layouts the schedule specifies."""
        return {*self.pins, *self.instructions}

    @property
    def scheduled(self) -> Collection[str]:
        """The names of values to which schedule lines refer."""
        said = (key.partition("[")[0].partition(".") for key in self.choices.forced)
        return {*self.laid_out, *(subject for kind, _, subject in said if kind == "recompute" and subject)}


def walk(block: Block) -> list[Op]:
    """Returns all operations of a block and of its nested regions. An operation precedes the operations in its
    regions."""
    found: list[Op] = []
    _walk(block, found)
    return found


def _walk(block: Block, found: list[Op]) -> None:
    # Operations without regions are added together: passes walk the body of a kernel about 100 times.
    ops, start = block.ops, 0
    for end, op in enumerate(ops, 1):
        if op.regions:
            found += ops[start:end]
            start = end
            for region in op.regions:
                _walk(region, found)
    found += ops[start:]


def parents(block: Block) -> dict[Op, Op]:
    """Maps each operation inside a region to the operation that contains the region."""
    return {inner: op for op in walk(block) for region in op.regions for inner in region.ops}


def blocks_of(block: Block) -> Iterator[Block]:
    """Yields a block and all blocks nested in it."""
    yield block
    for op in block.ops:
        for inner in op.regions:
            yield from blocks_of(inner)


def put(body: Block, op: Op, ops: list[Op]) -> None:
    """Replaces an operation with `ops`, wherever it is in `body`."""
    for block in blocks_of(body):
        if op in block.ops:
            at = block.ops.index(op)
            block.ops[at : at + 1] = ops
            return


def uses(block: Block) -> dict[Value, list[Op]]:
    """Maps each value to the operations that use it. An operation is listed once for each of its operands that is this
    value."""
    out: defaultdict[Value, list[Op]] = defaultdict(list)
    for op in walk(block):
        for operand in op.operands:
            out[operand].append(op)
    return dict(out)


def replace_uses(block: Block, mapping: dict[Value, Value]) -> None:
    """Replaces each use of a key of `mapping` by the value that the key maps to. If this value is a key too, it is
    replaced again."""

    if not mapping:
        return

    def final(value: Value) -> Value:
        while value in mapping:
            value = mapping[value]
        return value

    for op in walk(block):
        for i, operand in enumerate(op.operands):
            if operand in mapping:
                op.operands[i] = final(operand)


def clone(block: Block, arguments: list[Value], into: list[Op]) -> list[Value]:
    """Appends a copy of a region's operations to `into`. `arguments` replace the region's own arguments. Returns the
    values that the region yields."""
    mapping: dict[Value, Value] = dict(zip(block.args, arguments, strict=True))
    for op in block.ops[:-1]:
        into.append(copied(op, mapping))
    return [mapping.get(v, v) for v in block.ops[-1].operands]


def copied(op: Op, mapping: dict[Value, Value]) -> Op:
    """Copies an operation with its regions. `mapping` replaces operands, and gets the results."""
    regions = []
    for region in op.regions:
        inner = dict(mapping)
        made = Block()
        for arg in region.args:
            inner[arg] = Value(arg.type, name=arg.name)
            made.args.append(inner[arg])
        made.ops = [copied(o, inner) for o in region.ops]
        regions.append(made)
    operands, types = [mapping.get(o, o) for o in op.operands], [r.type for r in op.results]
    out = Op(op.spec, operands, types, dict(op.attrs), regions, op.loc)
    for old, new in zip(op.results, out.results, strict=True):
        new.stands_for(old, in_turn=True)  # most copies are iterations of an unrolled loop
        mapping[old] = new
    return out


class Rewriter:
    """Rebuilds the blocks of a function, operation by operation. It is the base class of passes that replace
    operations.

    `visit(op)` either replaces an operation or returns False to keep it. To replace it, `visit` calls `emit` for the
    new operations, sets `map` for the old results, and returns True. Operands of kept operations are mapped.
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
        """Returns a new block with the rewritten operations and the same argument values."""
        outer, self.out = self.out, Block(block.args)
        for op in block.ops:
            if not visit(op):
                self.copy(op, visit)
        done, self.out = self.out, outer
        return done

    def copy(self, op: Op, visit: Callable[[Op], bool]) -> Op:
        if self.map:
            get = self.map.get
            op.operands = [get(v, v) for v in op.operands]
        if op.regions:
            op.regions = [self.block(r, visit) for r in op.regions]
        return self.emit(op)
