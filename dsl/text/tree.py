"""The syntax tree: one small class a construct. Every node knows its place; nothing here knows what a name means."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Union, dataclass_transform

from dsl.lowering.ir.location import Loc, Source, TileError

MAX_BYTES = 1 << 20
# Readers of the tree recurse, some with several frames a level. 200 levels are more than anybody writes.
MAX_NESTING = 200


@dataclass_transform()
def node(cls: type) -> Any:
    """A class of the tree: a slotted dataclass, compared by identity."""
    cls.__doc__ = cls.__doc__ or cls.__name__
    # Nothing uses `==` and `repr`. Leaving them out makes importing this file 10 ms faster.
    made: type = dataclass(slots=True, eq=False, repr=False)(cls)
    PARTS[made] = [each.name for each in fields(made) if each.name != "loc"]
    return made


PARTS: dict[type, list[str]] = {}
"""The fields of each class, but for the place."""


# ---- expressions --------------------------------------------------------------------------------


@node
class Name:
    loc: Loc
    id: str


@node
class Number:
    loc: Loc
    value: int | float


@node
class String:
    loc: Loc
    value: str


@node
class Unary:
    loc: Loc
    op: str
    value: Expr


@node
class Binary:
    loc: Loc
    op: str
    left: Expr
    right: Expr


@node
class Compare:
    """`a < b <= c`: n operators between n + 1 operands, true when each comparison is."""

    loc: Loc
    ops: list[str]
    operands: list[Expr]


@node
class Attribute:
    loc: Loc
    value: Expr
    name: str


@node
class WithSchedule:
    """`kernel with schedule`, an argument of `fits`."""

    loc: Loc
    kernel: Expr
    schedule: str


@node
class Call:
    """A call. rest: the place of `...`, which passes on all other constants of the caller."""

    loc: Loc
    function: Expr
    args: list[Expr]
    keywords: dict[str, Expr]
    rest: Loc | None = None


@node
class Slice:
    loc: Loc
    start: Expr | None
    stop: Expr | None


@node
class Index:
    loc: Loc
    value: Expr
    subscripts: list[Expr | Slice]


@node
class Sequence:
    """A tuple `a, b` or a list `[a, b]`."""

    loc: Loc
    items: list[Expr]
    is_list: bool = False


Expr = Union[Name, Number, String, Unary, Binary, Compare, Attribute, WithSchedule, Call, Index, Sequence]  # noqa: UP007


# ---- statements of kernels and defs ---------------------------------------------------------------


@node
class Assign:
    """`targets = value`; `op` is set for `target op= value`."""

    loc: Loc
    targets: list[Expr]
    value: Expr
    op: str | None = None


@node
class ExprStatement:
    loc: Loc
    value: Expr


@node
class Return:
    loc: Loc
    value: Expr


@node
class Grid:
    loc: Loc
    extents: list[Expr]


@node
class Assert:
    loc: Loc
    condition: Expr
    message: str | None


@node
class Shared:
    """`shared names: dtype[ring R, extents …]`; `ring`: the first extent counts the stages of a ring."""

    loc: Loc
    names: list[str]
    dtype: str
    extents: list[Expr]
    ring: bool


@node
class If:
    loc: Loc
    condition: Expr
    then: list[Statement]
    otherwise: list[Statement]


@node
class For:
    loc: Loc
    name: str
    static: bool
    iterable: Expr
    body: list[Statement]


@node
class While:
    loc: Loc
    condition: Expr
    body: list[Statement]


@node
class ConstantParameter:
    """A constant after `;`: `NAME`, `NAME in f16|f32` (a type parameter) or `NAME = default`."""

    loc: Loc
    name: str
    types: list[str] | None = None
    default: Expr | None = None


@node
class Def:
    loc: Loc
    name: str
    params: list[str]
    constants: list[ConstantParameter]
    body: list[Statement]


Statement = Union[Assign, ExprStatement, Return, Grid, Assert, Shared, If, For, While, Def]  # noqa: UP007


# ---- blocks ---------------------------------------------------------------------------------------


@node
class TensorAnnotation:
    loc: Loc
    dtype: str
    dims: list[Expr]
    strided: bool = False
    optional: bool = False


@node
class ScalarType:
    loc: Loc
    dtype: str


@node
class TableAnnotation:
    loc: Loc
    dtype: str
    length: Expr


@node
class KernelParameter:
    loc: Loc
    name: str
    type: TensorAnnotation | ScalarType | TableAnnotation

    @property
    def is_optional(self) -> bool:
        """Whether it is a tensor that a call may leave out."""
        return isinstance(self.type, TensorAnnotation) and self.type.optional


@node
class KernelDef:
    loc: Loc
    name: str
    params: list[KernelParameter]
    constants: list[ConstantParameter]
    body: list[Statement]


@node
class Tune:
    loc: Loc
    name: str
    values: list[Expr]


@node
class LayoutLine:
    """`layout a, b.copy: vector [1, 8], lanes [1, 32]`: names with their suffix, parts by key."""

    loc: Loc
    names: list[str]
    parts: dict[str, Sequence]


@node
class Property:
    """`maxnreg 64`, `evict x: first`: the values before and after the colon. is_static: the values follow `static`."""

    loc: Loc
    name: str
    subject: list[Expr]
    values: list[Expr]
    is_static: bool = False


@node
class Contract:
    """`expect sectors(y) <= 1.05 on "H200"`: the term, its subject (`of`), its bound, and a part of the devices' names.
    In `expect choice KEY == OPTION` the key is the subject and the option the bound."""

    loc: Loc
    term: str
    of: str | None
    op: str
    bound: Expr
    device: str | None = None

    @property
    def name(self) -> str:
        """`registers`, `sectors(y)`, `choice swizzle.sa`."""
        return f"choice {self.of}" if self.term == "choice" else self.term + (f"({self.of})" if self.of else "")

    @property
    def text(self) -> str:
        """The source text, on one line."""
        return self.loc.text


@node
class Schedule:
    loc: Loc
    name: str
    kernels: list[str]
    lines: list[Assign | Tune | LayoutLine | Property | Contract]


@node
class WithItem:
    loc: Loc
    name: str
    value: Expr | None


@node
class Launch:
    loc: Loc
    name: str
    args: list[Expr] | None
    keywords: dict[str, Expr]
    items: list[WithItem]


@node
class Option:
    loc: Loc
    name: str
    values: list[Expr]


@node
class Require:
    loc: Loc
    condition: Expr


@node
class When:
    """A branch of a dispatch; `condition` is None in `otherwise`. name: by which a caller selects it. bound: in a
    branch made from a `match`, the arguments of the choice by parameter, which the condition reads. guards: in a branch
    made from a call of another dispatch, the conditions that must hold first."""

    loc: Loc
    condition: Expr | None
    steps: list[Launch | Assign]
    name: str | None = None
    bound: dict[str, Expr] | None = None
    guards: tuple[Expr, ...] = ()


@node
class Case:
    """`when CONDITION: NAME` of a choice; `condition` is None in `otherwise`."""

    loc: Loc
    condition: Expr | None
    name: str


@node
class ChoiceBlock:
    """A choice among names that several dispatches share."""

    loc: Loc
    name: str
    params: list[str]
    cases: list[Case]


@node
class Arm:
    """`NAMES: launches` of a `match`; without names it takes all that is left."""

    loc: Loc
    names: list[str]
    steps: list[Launch | Assign]


@node
class Match:
    """`match CHOICE(arguments):` with its arms. `branches.py` makes branches of it."""

    loc: Loc
    name: str
    args: list[Expr]
    arms: list[Arm]


@node
class Dispatch:
    loc: Loc
    name: str
    params: list[str]
    lines: list[Option | Require | Assign | When | Match]


@node
class Expect:
    """`expect actual ~= wanted within bound`, or `expect condition` with `wanted` None."""

    loc: Loc
    actual: Expr
    wanted: Expr | None
    bound: Expr | None


@node
class Cost:
    """`moves bytes` or `computes operations` of the launch above."""

    loc: Loc
    kind: str
    value: Expr


@node
class Example:
    loc: Loc
    name: str | None
    lines: list[Assign | Launch | Expect | Contract | Cost]


@node
class Import:
    """`import "path" as alias`; without an alias its blocks are the file's own."""

    loc: Loc
    path: str
    alias: str | None = None


@node
class File:
    source: Source
    blocks: list[KernelDef | Def | Schedule | ChoiceBlock | Dispatch | Example | Import] = field(default_factory=list)


def is_none(node: Any) -> bool:
    """Whether this is `None`: a new axis of a tile, an optional tensor that is left out."""
    return isinstance(node, Name) and node.id == "None"


def choice_key(node: Expr) -> str:
    """The key of a choice as text: `swizzle.s`, `vector.x.load[1]`. TileError for another expression."""
    match node:
        case Name():
            return node.id
        case Attribute():
            return f"{choice_key(node.value)}.{node.name}"
        case Index(subscripts=[Number(value=int(number))]):
            return f"{choice_key(node.value)}[{number}]"
    raise TileError("schedule", node.loc, "the key of a choice is made of names", "swizzle.s, or vector.x.load[1]")


def walk(tree: Any) -> Iterator[Any]:
    """All nodes of a tree, or of the trees in a list or dict, each before its parts."""
    open_parts = [tree]
    while open_parts:
        part = open_parts.pop()
        if isinstance(part, list | dict):
            open_parts += part if isinstance(part, list) else part.values()
        elif (names := PARTS.get(type(part))) is not None:
            yield part
            open_parts += [getattr(part, name) for name in names]


def names_in(node: Expr) -> set[str]:
    """All names that an expression reads. The name of a function that it calls is not among them."""
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
    """`a.b` as text, if it is names all through."""
    if isinstance(node, Name):
        return node.id
    if isinstance(node, Attribute) and (base := dotted(node.value)) is not None:
        return f"{base}.{node.name}"
    return None
