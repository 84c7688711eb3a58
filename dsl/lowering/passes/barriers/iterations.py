"""Rewrites the descriptions of memory accesses when a walk enters a loop, goes to the next iteration, or leaves the
loop.

For example, the offset k * iteration + c becomes k * iteration + c - k in the next iteration, where `iteration` is
greater by 1 (`dsl/lowering/building/loop_forms.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import reduce
from operator import or_

from msgspec import Struct
from msgspec.structs import replace

from dsl.lowering.building.loop_forms import EXACT, Carried, Form, LoopForms, holds, plus, reduced, substituted
from dsl.lowering.directives.slices import inside
from dsl.lowering.ir.function import Block, Op, Value
from dsl.lowering.known.affine import Affine
from dsl.lowering.known.listed_offsets import Listed
from dsl.lowering.passes.barriers.conflicts import MAX_ROUNDS_BACK
from dsl.lowering.passes.barriers.steps import Steps
from dsl.lowering.passes.barriers.touches import Change, Stage, Touch, along, terms_of

# The maximum number of accesses before a loop that are described in terms of the loop's iterations. The number is
# limited because each iteration of an outer loop may add more.
MAX_ENTERED = 256
# After this many iterations, an unordered access stands for all earlier iterations, too. The number is small because
# the walk through a loop ends only when an iteration adds nothing new. Without a limit, each iteration would add its
# own accesses.
EXACT_ROUNDS = 2


class Iterations(Struct, frozen=True):
    """Three functions that rewrite a set of accesses: when a loop is entered, when its next iteration begins, and when
    it is left."""

    entering: Callable[[int], int]
    following: Callable[[int], int]
    leaving: Callable[[int], int]


class LoopIterations:
    """Computes the `Iterations` of each loop of one function."""

    def __init__(self, steps: Steps, forms: LoopForms):
        self.steps, self.forms = steps, forms
        self.known: dict[Op, Iterations] = {}

    def of(self, loop: Op) -> Iterations:
        known = self.known.get(loop)
        if known is None:
            changing = self.steps.accesses.changing
            inside = _defined_in(loop, self.forms)
            carried = self.forms.carried.get(loop, [])
            behind = {c.inside: c.behind for c in carried if c.behind is not None}

            def leave(form: Form, modulus: int) -> Form:
                return self.forms.canonical(substituted(form, behind), modulus)

            leaving = changing(lambda t: _renamed(t, leave).forget(inside))
            following = changing(next_iteration(carried, inside), follows=True)
            if loop.attrs.get("tiles"):
                following = self._next_tile(following)
            entering = changing(self._first_iteration(loop, carried))
            known = self.known[loop] = Iterations(entering, following, leaving)
        return known

    def _next_tile(self, following: Callable[[int], int]) -> Callable[[int], int]:
        """Adapts `following` to a persistent kernel's loop over tiles: the previous tile's accesses to tensors are
        dropped. In a kernel that is not persistent, different blocks compute the two tiles, and no barrier orders these
        accesses either."""
        given = [p.value for p in self.steps.function.params if p.value is not None]
        of_memory = self.steps.accesses.of_memory
        return lambda accesses: following(accesses & ~reduce(or_, (of_memory[memory] for memory in given), 0))

    def _at_first(self, block: Block) -> Iterator[Touch]:
        """Yields the accesses of a block. Accesses inside loops are described as in the first iteration."""
        for op in self.steps.of(block):
            for access in self.steps.accesses_of(op):
                yield self.steps.accesses.touches[access]
            starts = {c.inside: c.start for c in self.forms.carried.get(op, [])}
            for region in op.regions:
                for touch in self._at_first(region):
                    yield touch.expressed(lambda form, m: self.forms.canonical(substituted(form, starts), m))  # noqa: B023

    def _first_iteration(self, op: Op, carried: list[Carried]) -> Callable[[Touch], Touch]:
        """Returns the function that rewrites an access on entry to a loop. It expresses stages and offsets relative to
        the start values of loop-carried values."""
        starts = {c.inside: c.start for c in carried}
        # Maps a memory and a carried value to the factor of that value in the body's accesses to the memory.
        stages: dict[Value, dict[int, int]] = defaultdict(dict)
        offsets: dict[Value, dict[int, int]] = defaultdict(dict)
        for touch in (touch for region in op.regions for touch in self._at_first(region)):
            if touch.stage is not None:
                stages[touch.memory].update((v, k) for v, k in touch.stage.terms if v in starts)
            if touch.offsets is not None:
                offsets[touch.memory].update((v, k) for v, k in touch.offsets.terms if v in starts)

        def relative(form: Form, factors: dict[int, int], modulus: int) -> Form:
            for value, factor in factors.items():
                form = plus(plus(form, ({value: 1}, 0), factor), self.forms.canonical(starts[value], modulus), -factor)
            return form

        entered: set[Touch] = set()

        def change(touch: Touch) -> Touch:
            if touch.before is not None:
                return touch
            if len(entered) >= MAX_ENTERED:
                return touch.without(bool(stages.get(touch.memory)), bool(offsets.get(touch.memory)))
            if touch.stage is not None and (factors := stages.get(touch.memory)):
                if touch.stage.axes:
                    factors = {value: along(factor, touch.stage.axes) for value, factor in factors.items()}
                form = relative(touch.stage.form, factors, touch.stage.holds)
                touch = replace(touch, stage=touch.stage.of(form))
            if touch.offsets is not None and (factors := offsets.get(touch.memory)):
                terms, constant = relative((dict(touch.offsets.terms), touch.offsets.constant), factors, EXACT)
                touch = replace(touch, offsets=touch.offsets._replace(terms=terms_of(terms), constant=constant))
            entered.add(touch)
            return touch

        return change


def _defined_in(op: Op, forms: LoopForms) -> set[int]:
    """Returns the `id` of each value in an operation's regions, except values that are the same in each iteration."""
    out = {id(a) for region in op.regions for a in region.args}
    out |= {id(name) for name in forms.names.get(op, ())[:1]}
    for inner in inside(op):
        out |= {id(a) for region in inner.regions for a in region.args}
        out |= {id(name) for name in forms.names.get(inner, ())}
        if not inner.spec.pure or any(id(o) in out for o in inner.operands):
            out |= {id(r) for r in inner.results}
    return out


def _new(value: int) -> int:
    """Returns a temporary identity for a value in the next iteration. It is used while one form contains both the old
    and the new value."""
    return ~value


def next_iteration(carried: list[Carried], inside: set[int]) -> Callable[[Touch], Touch]:
    """Returns a function that expresses an access of one iteration in values of the next iteration. `inside` contains
    the values that each iteration recomputes."""
    # `steps`: values that keep their name, and the constant that an iteration adds to them. `renamed`: values that have
    # another name in the next iteration. `added`: values to which an iteration adds an amount known only at run time.
    steps = {c.inside: c.next[1] for c in carried if c.next[0] == {c.inside: 1} and c.modulus == EXACT}
    renamed: dict[int, Form] = {}
    added: dict[int, tuple[Form, int]] = {}
    for c in carried:
        if list(c.next[0].values()) == [1]:
            (value,) = c.next[0]
            if value in inside and value not in steps:
                renamed[value] = ({c.inside: 1}, -c.next[1])
        elif c.next[0].get(c.inside) == 1:
            added[c.inside] = plus(c.next, ({c.inside: 1}, 0), -1), c.modulus
    unknown = inside - steps.keys() - renamed.keys() - added.keys()

    def follow(form: Form, modulus: int) -> Form | None:
        """Expresses a form in values of the next iteration. Returns None if the form depends on a value that is unknown
        in the next iteration."""
        left: set[int] = set()
        for value, (more, under) in added.items():
            factor = form[0].get(value)
            if factor:
                if not holds(under, modulus):
                    return None
                before = plus(({_new(value): 1}, 0), more, -1)  # the old value is the new value minus the added amount
                form = reduced(plus(plus(form, ({value: 1}, 0), -factor), before, factor), modulus)
                left |= {value, *more[0]}
        if form[0].keys() & (unknown | left):
            return None
        return substituted(form, renamed | {_new(value): ({value: 1}, 0) for value in added})

    def change(touch: Touch) -> Touch:
        touch = _renamed(touch, follow)
        stage = sum(k * steps.get(v, 0) for v, k in touch.stage.terms) if touch.stage is not None else 0
        offset = sum(k * steps.get(v, 0) for v, k in touch.offsets.terms) if touch.offsets is not None else 0
        if not (stage or offset) or touch.before == (stage, offset):
            return touch
        # the access already stands for iterations of another loop, and an access can stand for only one loop's
        # iterations
        if touch.before is not None:
            return touch.without(bool(stage), bool(offset))
        ring = (stage and touch.stage is not None and touch.stage.modulus) or 0
        if 0 < ring <= MAX_ROUNDS_BACK and not offset:  # the stages repeat, so the walk ends without a limit
            return touch.shifted(stage, 0)
        before = (stage, offset) if touch.age + 1 >= min(ring or EXACT_ROUNDS, MAX_ROUNDS_BACK) else None
        return replace(touch.shifted(stage, offset), age=touch.age + 1, before=before)

    return change


def _renamed(touch: Touch, follow: Change) -> Touch:
    """Rewrites an access with `follow`: in values of the next iteration, or in values after the loop."""
    out = touch.expressed(follow)
    # If a loop swaps two carried values and counts them up, they have another constant in each iteration. For such
    # values, the walk would never end. So after EXACT_ROUNDS iterations, the place of such an access counts as unknown.
    # Stages of a ring repeat by themselves.
    known = touch.stage if out.stage is None or touch.stage is None else touch.stage.along(out.stage.axes)
    stage = out.stage is not None and not out.stage.modulus and _moved(known, out.stage)
    offsets = out.offsets is not None and _moved(touch.offsets, out.offsets)
    if not (stage or offsets):
        return out
    return replace(out, age=out.age + 1) if out.age < EXACT_ROUNDS else out.without(stage, offsets)


def _moved(old: Stage | Affine | Listed | None, new: Stage | Affine | Listed) -> bool:
    """Whether the constant or the factors of a stage or offset changed. If only the names of values changed, returns
    False."""
    assert old is not None
    return old.constant != new.constant or sorted(k for _, k in old.terms) != sorted(k for _, k in new.terms)
