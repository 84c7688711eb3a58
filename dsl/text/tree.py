"""The syntax tree, with one small class for each construct. Every node has its source location `loc`. This module does
not resolve names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Union

from msgspec import Struct, field

from dsl.lowering.ir.location import Loc, Source, TileError

# Code that walks the tree is recursive, and some of it takes several stack frames per level. No program in practice
# has 200 levels.
MAX_NESTING = 200
NOTHING = "None"
"""The name of a new axis of a tile, and of an optional tensor that a caller omits."""
BITS = frozenset({"&", "|", "^"})
"""Operators on flags and bits. They bind more tightly than comparisons, unlike && and || of C++."""


PARTS: dict[type, list[str]] = {}
"""Node class → the names of its fields, without `loc`."""


class Node(Struct, eq=False):
    """The base class of nodes, which are compared by identity."""

    loc: Loc

    def __init_subclass__(cls) -> None:
        PARTS[cls] = list(cls.__annotations__)


# ---- expressions --------------------------------------------------------------------------------


class Name(Node):
    id: str


class Number(Node):
    value: int | float


class String(Node):
    value: str


class Unary(Node):
    op: str
    value: Expr


class Binary(Node):
    op: str
    left: Expr
    right: Expr


class Compare(Node):
    """A chain of comparisons such as `a < b <= c`. A chain has n operators between n + 1 operands, and is true if every
    comparison is true."""

    ops: list[str]
    operands: list[Expr]


class Attribute(Node):
    value: Expr
    name: str


class WithSchedule(Node):
    """The expression `kernel with schedule`, which is an argument of `fits`."""

    kernel: Expr
    schedule: str


class Call(Node):
    """A call. `rest` is the location of the argument `...`, or None. The argument `...` passes on all other constants
    of the caller."""

    function: Expr
    args: list[Expr]
    keywords: dict[str, Expr]
    rest: Loc | None = None


class Slice(Node):
    start: Expr | None
    stop: Expr | None


class Index(Node):
    value: Expr
    subscripts: list[Expr | Slice]


class Sequence(Node):
    """A tuple `a, b` or a list `[a, b]`."""

    items: list[Expr]
    is_list: bool = False


Expr = Union[Name, Number, String, Unary, Binary, Compare, Attribute, WithSchedule, Call, Index, Sequence]  # noqa: UP007


# ---- statements of kernels and defs ---------------------------------------------------------------


class Assign(Node):
    """An assignment `targets = value`. `op` is None except in `target op= value`."""

    targets: list[Expr]
    value: Expr
    op: str | None = None


class ExprStatement(Node):
    value: Expr


class Return(Node):
    value: Expr


class Grid(Node):
    extents: list[Expr]


class Assert(Node):
    condition: Expr
    message: str | None


class Shared(Node):
    """The declaration `shared names: dtype[ring R, extents …]`. If `ring` is True, the tile is a ring buffer, and the
    first extent is its number of stages."""

    names: list[str]
    dtype: str
    extents: list[Expr]
    ring: bool


class If(Node):
    condition: Expr
    then: list[Statement]
    otherwise: list[Statement]


class For(Node):
    name: str
    static: bool
    iterable: Expr
    body: list[Statement]


class While(Node):
    condition: Expr
    body: list[Statement]


class ConstantParameter(Node):
    """A constant after the `;` of a parameter list: `NAME`, `NAME = default`, or the type parameter
    `NAME in f16|f32`. The default of a type parameter, `NAME in f16|f32 = TYPE`, is its type where no array of the call
    has one."""

    name: str
    types: list[str] | None = None
    default: Expr | None = None


class Def(Node):
    name: str
    params: list[str]
    constants: list[ConstantParameter]
    body: list[Statement]


Statement = Union[Assign, ExprStatement, Return, Grid, Assert, Shared, If, For, While, Def]  # noqa: UP007


# ---- blocks ---------------------------------------------------------------------------------------


class TensorAnnotation(Node):
    """The type of a tensor parameter. `rules` holds the extents that are declared, as in `f32[n = m - 2]`."""

    dtype: str
    dims: list[Expr]
    strided: bool = False
    optional: bool = False
    rules: dict[str, Expr] = field(default_factory=dict)


class RuledDim(Node):
    """The dim `n = m - 2` of a tensor parameter, until the tensor's type is made of it."""

    name: str
    value: Expr


class ScalarType(Node):
    dtype: str


class TableAnnotation(Node):
    dtype: str
    length: Expr


class KernelParameter(Node):
    name: str
    type: TensorAnnotation | ScalarType | TableAnnotation

    @property
    def is_optional(self) -> bool:
        """Whether the parameter is a tensor that a call may omit."""
        return isinstance(self.type, TensorAnnotation) and self.type.optional


class KernelDef(Node):
    name: str
    params: list[KernelParameter]
    constants: list[ConstantParameter]
    body: list[Statement]


class Tune(Node):
    name: str
    values: list[Expr]


class LayoutLine(Node):
    """A line such as `layout a, b.copy: vector [1, 8], lanes [1, 32]`. `names` include the suffix, as in `b.copy`.
    `parts` maps each word, such as `vector`, to its list."""

    names: list[str]
    parts: dict[str, Sequence]


class Property(Node):
    """A property line such as `maxnreg 64` or `evict x: first`. `subject` comes before the colon, and `values` come
    after it. Without a colon, there is no subject. `is_static` tells whether the word `static` precedes the values."""

    name: str
    subject: list[Expr]
    values: list[Expr]
    is_static: bool = False


class Contract(Node):
    """A contract such as `expect sectors(y) <= 1.05 on "H200"`. Here `of` is y, and `device` is "H200". A contract
    applies to devices whose names contain `device`. In `expect choice KEY == OPTION`, `of` is the key, and `bound` is
    the option."""

    term: str
    of: str | None
    op: str
    bound: Expr
    device: str | None = None

    @property
    def name(self) -> str:
        """The term with its subject, such as `registers`, `sectors(y)` or `choice swizzle.sa`."""
        return f"choice {self.of}" if self.term == "choice" else self.term + (f"({self.of})" if self.of else "")

    @property
    def text(self) -> str:
        """The source text of the contract, on one line."""
        return self.loc.text


class Schedule(Node):
    name: str
    kernels: list[str]
    lines: list[Assign | Tune | LayoutLine | Property | Contract]


class WithItem(Node):
    name: str
    value: Expr | None


class Launch(Node):
    name: str
    args: list[Expr] | None
    keywords: dict[str, Expr]
    items: list[WithItem]


class Option(Node):
    name: str
    values: list[Expr]


class Require(Node):
    condition: Expr


class Test(Node):
    """A condition on the way to a launch: an `if` of a dispatch, and whether its first branch is taken."""

    condition: Expr
    wanted: bool


class Branch(Node):
    """The steps of one way through a dispatch, without the first ones that all ways share. If a launch names several
    schedules, each makes a branch. `way` is the number of the way."""

    steps: list[Launch | Assign | Require | Test]
    way: int

    @property
    def launches(self) -> list[Launch]:
        return [step for step in self.steps if isinstance(step, Launch)]


class Dispatch(Node):
    """A dispatch. The parser puts all its statements into `lines`. `branches.py` makes `branches` of them, and leaves
    in `lines` those before the first condition or launch."""

    name: str
    params: list[str]
    lines: list[Option | Require | Assign | Launch | If]
    branches: list[Branch] = field(default_factory=list)

    @property
    def launches(self) -> list[Launch]:
        """The launches of all branches."""
        return [launch for branch in self.branches for launch in branch.launches]


class Expect(Node):
    """The line `expect actual ~= wanted within bound`, or `expect condition`. In the second form, `actual` is the
    condition and `wanted` is None."""

    actual: Expr
    wanted: Expr | None
    bound: Expr | None


class Cost(Node):
    """The line `moves BYTES` or `computes OPERATIONS`, which states a cost of the launch above it."""

    kind: str
    value: Expr


class Example(Node):
    name: str | None
    lines: list[Assign | Launch | Expect | Contract | Cost]


class Import(Node):
    """The line `import "path" as alias`. Without an alias, the imported blocks become blocks of the importing file."""

    path: str
    alias: str | None = None


class File(Struct, eq=False):
    source: Source
    blocks: list[KernelDef | Def | Schedule | Dispatch | Example | Import] = field(default_factory=list)


def is_none(node: Any) -> bool:
    """Whether the node is the name `None`."""
    return isinstance(node, Name) and node.id == NOTHING


def choice_key(node: Expr) -> str:
    """Formats a choice's key as text, such as `swizzle.s` or `vector.x.load[1]`. Raises TileError for an expression
    that is not a key."""
    match node:
        case Name():
            return node.id
        case Attribute():
            return f"{choice_key(node.value)}.{node.name}"
        case Index(subscripts=[Number(value=int(number))]):
            return f"{choice_key(node.value)}[{number}]"
    raise TileError("schedule", node.loc, "the key of a choice is made of names", "swizzle.s, or vector.x.load[1]")


def rebuilt(part: Any, change: Callable[[Any], Any]) -> Any:
    """Returns a copy of a node, list, tuple or dict, in which `change` was applied to each part. Any other value is
    returned unchanged."""
    # A location is a tuple as well, but no part of the tree.
    if isinstance(part, Loc):
        return part
    if isinstance(part, list | tuple):
        return type(part)(map(change, part))
    if isinstance(part, dict):
        return {key: change(each) for key, each in part.items()}
    if (names := PARTS.get(type(part))) is None:
        return part
    return type(part)(part.loc, *(change(getattr(part, name)) for name in names))


def walk(tree: Any) -> Iterator[Any]:
    """Yields all nodes of a tree, or of the trees in a list or dict. A node comes before its children."""
    open_parts = [tree]
    while open_parts:
        part = open_parts.pop()
        if (names := PARTS.get(type(part))) is not None:
            yield part
            open_parts += [getattr(part, name) for name in names]
        elif isinstance(part, list | dict):
            open_parts += part if isinstance(part, list) else part.values()


def names_in(node: Expr) -> set[str]:
    """Returns all names that an expression reads. The names of called functions are not included."""
    found: set[str] = set()
    open_parts: list[Any] = [node]
    while open_parts:
        part = open_parts.pop()
        if isinstance(part, Name):
            found.add(part.id)
        elif isinstance(part, list):
            open_parts += part
        elif isinstance(part, Call):
            open_parts += [*part.args, *part.keywords.values(), getattr(part.function, "value", None)]
        else:
            open_parts += [getattr(part, name) for name in PARTS.get(type(part), ())]
    return found


def dotted(node: Expr) -> str | None:
    """Returns the text of a dotted name such as `a.b`, and None for any other expression."""
    if isinstance(node, Name):
        return node.id
    if isinstance(node, Attribute) and (base := dotted(node.value)) is not None:
        return f"{base}.{node.name}"
    return None
