"""Checks the registers of wgmma products in flight. Follows all paths through the text, and finds accesses that PTX
forbids.

The rules are in PTX ISA, "wgmma.fence" and "wgmma.mma_async". A product is in flight from its issue until a
`wgmma.wait_group` that covers its group. Meanwhile only products of the same shape may access its accumulators, and no
instruction may write its A registers. If any other instruction has accessed a register of a product, a `wgmma.fence`
must come between this access and the product. ptxas accepts violations and adds waits (C7514). The emulator raises an
error.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct, field

from .findings import PtxError

# The age of a product whose group is not committed yet. Otherwise the age is the number of groups committed after the
# product's group.
OPEN = -1
# Ages do not grow beyond this, so that a loop that never waits has finitely many states.
OLDEST = 64
# The role of a register that has two roles, on two paths to an instruction. No instruction may access it until a wait
# covers the products.
EITHER = "either"


class WarpgroupStep(Struct, frozen=True):
    """A `wgmma` instruction. `kind` is fence, commit, wait or multiply. `sums` are the registers of D, the
    accumulators. `fragments` are the registers of A."""

    kind: str
    sums: tuple[str, ...] = ()
    fragments: tuple[str, ...] = ()
    shape: str = ""
    left: int = 0


class FlyingSums(Struct):
    """The state before an instruction: all that may hold on some path to the instruction.

    `flying` has the age and the role of each register of a product in flight. The role is the product's shape for an
    accumulator, "A", or EITHER. `touched` has the registers of products that other instructions than wgmma have
    accessed since the last fence. `fenced` is true if there was a fence on every path.
    """

    flying: dict[str, tuple[int, str]] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)
    fenced: bool = False

    def copy(self) -> FlyingSums:
        return FlyingSums(dict(self.flying), set(self.touched), self.fenced)

    def joined(self, other: FlyingSums) -> bool:
        """Adds the state of another path. Returns whether this changed anything."""
        before = self.copy()
        for name, (age, role) in other.flying.items():
            known_age, known_role = self.flying.get(name, (age, role))
            # The lower age is kept, since a wait must cover the products of both paths.
            self.flying[name] = min(age, known_age), role if role == known_role else EITHER
        self.touched |= other.touched
        self.fenced &= other.fenced
        return self != before


def check_sums(segments: list[Any], start: int) -> None:
    """Raises PtxError at an instruction that illegally accesses a register of a product in flight."""
    names = {
        name
        for segment in segments
        for record in segment.records
        if record.product is not None
        for name in (*record.product.sums, *record.product.fragments)
    }
    # Most kernels have no wgmma.
    if not names:
        return
    states: dict[int, FlyingSums] = {start: FlyingSums()}
    todo = [start]
    while todo:
        number = todo.pop()
        state = states[number].copy()
        for record, (site, *_) in zip(segments[number].records, segments[number].counters, strict=True):
            step(state, record, site, names)
        for target in segments[number].end.targets:
            known = states.get(target)
            if known is None:
                states[target] = state.copy()
            if known is None or known.joined(state):
                todo.append(target)


def step(state: FlyingSums, record: Any, site: Any, names: set[str]) -> None:
    """Applies one instruction to the state. Raises PtxError for a forbidden access."""

    def refuse(name: str, why: str) -> PtxError:
        return PtxError(f"{name} {why} in `{site.text}`", site.ptx_line)

    product = record.product
    if product is None:
        touched = names & {*record.uses, *record.reads, *record.writes}
        for name in touched & state.flying.keys():
            # The registers of A may be read, since the product only reads them.
            if state.flying[name][1] != "A" or name in record.writes:
                raise refuse(name, "belongs to a product in flight: a wgmma.wait_group must stand before its use")
        state.touched |= touched
    elif product.kind == "fence":
        state.touched, state.fenced = set(), True
    elif product.kind == "commit":
        state.flying = {name: (min(age + 1, OLDEST), role) for name, (age, role) in state.flying.items()}
    elif product.kind == "wait":
        done = {name for name, (age, _) in state.flying.items() if age >= product.left}
        state.flying = {name: each for name, each in state.flying.items() if name not in done}
    else:
        multiply(state, product, refuse)


def multiply(state: FlyingSums, product: WarpgroupStep, refuse: Any) -> None:
    for name, role in each_register(product):
        if not state.fenced or name in state.touched:
            raise refuse(name, "is accessed before the product, and no wgmma.fence stands between")
        known = state.flying.get(name)
        if known is not None and known[1] != role:
            raise refuse(name, "belongs to another product in flight, which uses it in another way")
    state.flying.update({name: (OPEN, role) for name, role in each_register(product)})


def each_register(product: WarpgroupStep) -> Iterable[tuple[str, str]]:
    """Yields the name and the role of each register of a product."""
    yield from ((name, product.shape) for name in product.sums)
    yield from ((name, "A") for name in product.fragments)
