"""The form of an operation's declaration, called its row: operands, attributes, result types, effects on memory, and
rules for layouts and facts.

The verifier, dead-code removal and barrier insertion read the rows. Therefore no pass contains a list of operations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from dsl import ptx_templates
from dsl.lowering.ir.fold import Compute
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.types import DType, TileType, Type
from dsl.lowering.known.facts import Analysis, Facts
from dsl.lowering.known.forms import Forms
from dsl.lowering.layouts.layout import Layout
from dsl.lowering.ops.placing import Exchange, Place, Spread, Takes, alike, apart, plain, same


class Mismatch(Exception):
    """Raised for operands that an operation does not accept. The message is for the user. `hint` describes what is
    accepted."""

    def __init__(self, message: str, hint: str | None = None):
        super().__init__(message)
        self.hint = hint


class AccessEffect(NamedTuple):
    """One access to memory. `by` is the corresponding effect in the table row of the PTX instruction, with order,
    scope, proxy and completion. The effects of a `copy` happen between its issue and a `wait`.

    An "acquire" or a "release" does not access memory itself. It orders the block's accesses to global memory with
    those of other blocks (PTX ISA 8, "Memory Consistency Model").

    `view`: for a wgmma, the `shared_view` whose elements it accesses. None if the offsets are operands of the operation
        itself.
    """

    kind: str  # "read", "write", "acquire" or "release"
    memory: Value
    space: str  # "global", "shared" or "param"
    by: ptx_templates.Effect
    view: Op | None = None


class Makes(Protocol):
    """The methods of the IR builder that folding rules call. `facts` is None if no facts are known."""

    facts: Analysis | None

    def value(self, name: str, /, *operands: Value, **attrs: Any) -> Value:
        """Adds a pure operation, and returns its result."""

    def constant(self, value: int | float | bool, dtype: DType, shape: tuple[int, ...] = ()) -> Value:
        """Adds a constant tile or scalar, and returns it."""

    def reshape(self, value: Value, shape: tuple[int, ...]) -> Value:
        """Reshapes a value, and returns the result."""


Picks = Callable[[Op, Layout, Layout], list[int] | None]
"""A function that returns, for each register of the result, the number of the operand's register with the same element.
It returns None if elements move to other threads."""

Infer = Callable[[Sequence[Value], dict[str, Any]], list[Type]]
Effects = Callable[[Op], list[AccessEffect]]

Fold = Callable[[Makes, Sequence[Value], dict[str, Any]], Value | None]
"""A function that finds a simpler value equal to an operation with these operands and attributes, or returns None."""
FactsOf = Callable[[Analysis, Op, tuple[int, ...]], Facts]
"""A function that returns the facts about an operation's result, whose shape is the last argument."""
Along = Callable[[Op, Value, int], dict[Value, int] | None]
"""A function of an operation, one of its values, and an axis of this value. It maps the operation's values to the
corresponding axes, or returns None if the operation mixes elements along the axis."""
Form = Callable[[Forms, Op], Any]
"""A function that calls the method of `Forms` for an operation. It describes the result in terms of the operands."""


def untouched(op: Op) -> list[AccessEffect]:
    """Returns the effects of an operation that does not access memory: none."""
    return []


class Control(Struct, frozen=True, dict=True):
    """The regions of an operation, and how values pass through them (`ops/control.py`).

    `kind`: what the operation does with its regions:
        "counts": the body runs for each number of a range;
        "repeats": in each iteration, the first region decides whether the second region runs;
        "chooses": one of the regions runs;
        "parallel": the regions run at the same time, each in different threads;
        "joins": the region combines two elements into one;
        "ends": the operation has no region, but ends one.
    `leading`: the number of leading operands that do not pass through the regions, such as bounds or a condition.
    """

    kind: Literal["", "counts", "repeats", "chooses", "parallel", "joins", "ends"] = ""
    leading: int = 0

    @cached_property
    def regions(self) -> int:
        """The number of regions."""
        return {"counts": 1, "joins": 1, "repeats": 2, "chooses": 2, "parallel": 2}.get(self.kind, 0)

    @cached_property
    def flows(self) -> bool:
        """Whether values pass through the operation's regions: from iteration to iteration, or along one of several
        paths."""
        return self.kind in ("counts", "repeats", "chooses", "parallel")

    @cached_property
    def loops(self) -> bool:
        """Whether the operation's regions run repeatedly. The loop may end after any region except the last."""
        return self.kind in ("counts", "repeats")

    @cached_property
    def concurrent(self) -> bool:
        """Whether the operation's regions run at the same time, each in different threads."""
        return self.kind == "parallel"

    @cached_property
    def counters(self) -> int:
        """The number of region arguments before the carried values: 1 for a loop with a counter, otherwise 0."""
        return 1 if self.kind == "counts" else 0

    @cached_property
    def ends(self) -> bool:
        """Whether the operation ends a region."""
        return self.kind == "ends"


class MemoryAccess(Struct, frozen=True, dict=True):
    """How an operation accesses memory, and what its threads wait for.

    `effects`: a function that returns the accesses to memory.
    `kind`: "read", "write", or "update" (both), if each thread moves its own elements between memory and registers.
    `under_mask`: which masks one wide access allows, as the name of a field of `Facts`. "convex": if the first and the
        last flag are on, all flags are on. "falls": all flags after an off flag are off. "same": all flags are equal.
    `waits`: a text that names what the threads wait for. Fields in braces are replaced by attributes.
    `at_pipeline`: what the operation does in a pipeline. It may "fill" a stage, "wait" for one, or "free" it. With
        `pingpong`, where warp groups take turns, it may "begin" or "end" the turn of a warp group.
    """

    effects: Effects = untouched
    kind: Literal["", "read", "write", "update"] = ""
    under_mask: Literal["convex", "falls", "same"] = "same"
    waits: str = ""
    at_pipeline: Literal["", "fill", "wait", "free", "begin", "end"] = ""

    @cached_property
    def touches(self) -> bool:
        """Whether the operation accesses memory."""
        return self.effects is not untouched


class Placement(Struct, frozen=True):
    """How layouts propagate through an operation (`ops/placing.py`).

    `spread`: a function that computes the layouts of the operation's other values from the layout of one value.
    `takes`: a function that returns the layout of an operand if the operation is executed in a given layout.
    `place`: a function that returns the layouts of the operands and results.
    `anywhere`: True if the operation can be executed in any layout, provided that it is pure.
    `exchange`: a function that replaces the operation if elements move to other threads.
    `picks`: for operations that only rename registers, a function that returns the operand's register for each register
        of the result.
    """

    spread: Spread = apart
    takes: Takes = same
    place: Place = plain
    anywhere: bool = True
    exchange: Exchange | None = None
    picks: Picks | None = None


class Algebra(Struct, frozen=True):
    """The function that an operation computes, and its algebraic laws.

    `computes`: computes the result for constants.
    `fold`: finds a simpler value that equals the operation.
    `commutes`: True if the two operands may be swapped.
    `mirror`: the name of the operation that computes the same result with swapped operands (> for <).
    `sums`: (operand, name), if the operation can accumulate. `operand` is the number of the operand that may be the
        running total (None: any operand). `name` is the operation that combines partial results.
    `idempotent`: True if combining a number twice is the same as combining it once.
    `starts`: a function that returns the neutral element of a type, or None if it is not known.
    `unordered`: True if the operation reduces elements in an order that the language does not define.
    `masks`: "all" if the result is true where all operand masks are true, "any" if it is true where any operand mask is
        true.
    `selects`: True if the first operand is a flag that selects one of the other operands.
    `keeps`: "number" if the result is the same number in another type, "bits" if it has the same bits in another type.
    `rounds`: the rounding mode, if the operation rounds to whole numbers: "rn", "rz", "rp" or "rm".
    `lowest`: the result for -∞, if it is a number, such as 0 for 2^x.
    `divides`: True if the operation divides integers, which takes tens of instructions unless the divisor is constant.
    """

    computes: Compute | None = None
    fold: Fold | None = None
    commutes: bool = False
    mirror: str | None = None
    sums: tuple[int | None, str] | None = None
    idempotent: bool = False
    starts: Callable[[DType], int | float | bool | None] | None = None
    unordered: bool = False
    masks: Literal["", "all", "any"] = ""
    selects: bool = False
    keeps: Literal["", "number", "bits"] = ""
    rounds: str | None = None
    lowest: float | None = None
    divides: bool = False


class ElementFacts(Struct, frozen=True, dict=True):
    """What is known at compile time about the elements of an operation's result.

    `facts`: a function that returns divisibility, runs and ranges.
    `form`: a function that describes the result in terms of the operands (`Forms`).
    `along`: a function that maps an axis of one value to the corresponding axes of the other values. None if no axis of
        an operand corresponds to an axis of the result.
    `remainder`: a function that returns (value, constant) if the result is value % constant.
    `kind`: "number": each element is the attribute `value`. "equal": all elements are equal if the operand is a scalar.
        "places": each element is its own index along the only axis, whose extent is the attribute `extent`.
    `reshapes`: True if the result has the elements of the operand in another shape.
    `of_grid`: the meaning of the result, if it describes the grid along the attribute `axis`. "block": the index of the
        block. "blocks": the number of blocks. "cluster": the index of the cluster. "rank": the index of the block in
        its cluster.
    """

    facts: FactsOf | None = None
    form: Form | None = None
    along: Along | None = None
    remainder: Callable[[Op], tuple[Value, int] | None] | None = None
    kind: Literal["", "number", "equal", "places"] = ""
    reshapes: bool = False
    of_grid: Literal["", "block", "blocks", "cluster", "rank"] = ""

    @cached_property
    def splat(self) -> bool:
        """Whether all elements of the result are equal if no operand is a tile."""
        return self.kind in ("number", "equal")


Acts = Literal[
    "", "allocates", "checks", "joins", "records", "prints", "synchronizes", "awaits", "meets", "exchanges", "runs text"
]


class OpSpec(Struct, frozen=True, dict=True):
    """The row of one operation: its operands, results and attributes. The last five fields contain groups of further
    properties.

    `arity`: the number of operands, or (least, most). `most` is None if there is no limit.
    `infer`: computes the result types from operands and attributes, or raises Mismatch.
    `attrs`: the names of the attributes that the operation must have.
    `operands`: the kind of each operand (`ops/kinds.py`). The last kind applies to all further operands.
    `named`: the kind of each operand that has a name. The attribute `has` of an `Op` lists the names of the operands
        that this `Op` has. `needs`: the names of the operands that every such `Op` must have.
    `symbol`: the operation's operator in a program, such as `+`, if programs do not call it by name.
    `elementwise`: True if register i of the result depends only on register i of the operands, all in the same layout.
    `becomes`: the name of the operation's PTX instruction in `dsl.ptx_templates`. If the operation has several
        instructions with the same effects, `becomes` names one of them. If the instruction depends on operands or
        attributes, `becomes` is a function of the operation.
    `acts`: an effect other than a memory access. An operation with `acts` is never removed or merged. It "allocates" a
        shared tile, "checks" a condition, "joins" the parts of a split loop, "records" the time for a timeline,
        "prints", "synchronizes" threads or accesses, or "awaits" wgmma products. It "exchanges" values with the other
        blocks of a cluster, or prepares for that. "meets" means that all lanes of a warp must execute the operation
        together. "runs text" means that the operation is inline PTX with unknown effects.
    """

    name: str
    arity: int | tuple[int, int | None]
    infer: Infer
    attrs: tuple[str, ...] = ()
    operands: tuple[str, ...] = ("tile",)
    named: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    symbol: str = ""
    elementwise: bool = False
    becomes: str | Callable[[Op], str] | None = None
    acts: Acts = ""
    control: Control = Control()
    access: MemoryAccess = MemoryAccess()
    placement: Placement = Placement()
    algebra: Algebra = Algebra()
    elements: ElementFacts = ElementFacts()

    @cached_property
    def keep(self) -> bool:
        """Whether the operation must never be removed or merged, because it has an effect other than a memory
        access."""
        return bool(self.acts) or self.control.flows or self.control.ends

    @cached_property
    def pure(self) -> bool:
        """Whether the operation only computes its results."""
        return not self.access.touches and not self.keep and not self.control.regions

    @cached_property
    def allocates(self) -> bool:
        """Whether the operation allocates a tile in shared memory."""
        return self.acts == "allocates"

    @cached_property
    def product(self) -> bool:
        """Whether the operation is a matrix product on tensor cores. Its operands are a, b and the accumulator. Its
        attribute `instruction` names the instruction."""
        return "instruction" in self.attrs

    @cached_property
    def wgmma(self) -> bool:
        """Whether the operation is a matrix product by wgmma."""
        return "form" in self.attrs

    @cached_property
    def _row(self) -> ptx_templates.Instruction | None:
        return ptx_templates.instruction(self.becomes) if isinstance(self.becomes, str) else None

    @cached_property
    def joins_lanes(self) -> bool:
        """Whether all lanes of a warp must execute the operation together."""
        return self._row is not None and self._row.convergent

    @cached_property
    def joint(self) -> bool:
        """Whether the lanes of a warp access memory together, as in `ldmatrix`. Then a lane also accesses elements of
        other lanes."""
        return (self.joins_lanes or self.leaves) and self.access.touches

    @cached_property
    def in_flight(self) -> bool:
        """Whether the operation is an asynchronous copy into shared memory. Its accesses may happen at any time until
        the threads wait for the group of the copy."""
        return self._completes_by("commit group")

    @cached_property
    def leaves(self) -> bool:
        """Whether the operation is a TMA store. Its accesses happen later, like those of asynchronous copies. Groups of
        TMA stores are separate from groups of copies. One lane issues a store for its whole warp."""
        return self._completes_by(_STORES)

    def _completes_by(self, groups: str) -> bool:
        row = self._row if self.access.touches else None
        return row is not None and any(e.completion == groups for e in row.effects)

    @cached_property
    def orders(self) -> str | None:
        """What the operation orders, or None. "threads": it is a barrier. "group": it ends a group of copies. "end": it
        waits for groups of copies. "stores": it ends a group of TMA stores. "their end": it waits for groups of TMA
        stores."""
        effects = self._row.effects if self._row is not None else ()
        found = (_ORDERS.get((e.action, e.completion == _STORES)) for e in effects)
        return next((each for each in found if each is not None), None)


_STORES = "bulk group"
_ORDERS = {
    ("synchronizes", False): "threads",
    ("commits", False): "group",
    ("waits", False): "end",
    ("commits", True): "stores",
    ("waits", True): "their end",
}
OPS: dict[str, OpSpec] = {}


def row(
    name: str, arity: int | tuple[int, int | None], infer: Infer, attrs: str = "", *, operands: str = "tile",
    placement: Placement = Placement(), elements: ElementFacts = ElementFacts(), **more: Any,
) -> None:  # fmt: skip
    """Declares an operation. `more` contains further fields of `OpSpec`. For an elementwise operation, all values have
    the same layout and the same axes."""
    if more.get("elementwise"):
        placement, elements = replace(placement, spread=alike), replace(elements, along=same_axis)
    fields = (name, arity, infer, tuple(attrs.split()), tuple(operands.split()))
    OPS[name] = OpSpec(*fields, placement=placement, elements=elements, **more)


def same_axis(op: Op, value: Value, axis: int) -> dict[Value, int]:
    """Maps each tile with the same shape as `value` to the same axis."""
    tiles = (v for v in (*op.operands, *op.results) if isinstance(v.type, TileType))
    return {v: axis for v in tiles if v.shape == value.shape}


def nothing(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    """Returns the result types of an operation without results."""
    return []


def same_types(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    """Returns the result types of an operation that has one result for each operand, of the operand's type."""
    return [o.tile for o in operands]
