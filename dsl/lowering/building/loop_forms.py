"""Describes loop-carried scalars as linear forms of iteration numbers.

If each iteration adds the same number to a carried value, its value is start + step · iteration. After the loop, its
value is start + step · number of iterations. With these forms, the compiler can compare loop counters and pipeline
stage numbers, even if a stage number continues from tile to tile or runs ahead. The result does not depend on names, on
the nesting of loops, or on unrolling.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Block, Function, Op, Value, carried_integers
from dsl.lowering.ir.types import INDEX, S32, TileType
from dsl.lowering.known.facts import Analysis, in_order
from dsl.lowering.known.forms import linear
from dsl.lowering.known.forms import plus as terms_plus

Form = tuple[dict[int, int], int]
"""Σ factor · value + constant, as ({identity of a value: factor}, constant)."""

EXACT = 0
"""The modulus of forms that are exact. It is 0, which is a multiple of each modulus."""


def number(constant: int) -> Form:
    return {}, constant


def plus(a: Form, b: Form, times: int = 1) -> Form:
    return terms_plus(a[0], b[0], times), a[1] + b[1] * times


def reduced(form: Form, modulus: int) -> Form:
    """Reduces the factors and the constant of a form modulo `modulus`."""
    if modulus == EXACT:
        return form
    return {v: k % modulus for v, k in form[0].items() if k % modulus}, form[1] % modulus


def substituted(form: Form, forms: dict[int, Form]) -> Form:
    """Replaces each value of a form with its form in `forms`, if there is one."""
    out: Form = number(form[1])
    for value, factor in form[0].items():
        out = plus(out, forms.get(value, ({value: 1}, 0)), factor)
    return out


def iterations_of(start: int, stop: int, step: int) -> int:
    """Counts the iterations of a loop with constant bounds. `len(range(…))` would fail for 2^63 iterations or more."""
    return max(0, -(-(stop - start) // step))


def remainder(value: Value) -> tuple[Value, int | None]:
    """Returns (i, n) for an index `i % n` or `i & (n - 1)`, which agree also for negative i. Returns (value, None) for
    other values."""
    rule = value.op.spec.elements.remainder if value.op is not None else None
    return (rule(value.op) if rule is not None else None) or (value, None)  # type: ignore[arg-type]


class Carried(Struct, frozen=True):
    """A loop-carried integer, or the loop's iteration number. `start` is its form in the first iteration, and `behind`
    its form after the loop. `inside` is the `id` of its value in the body. `next` is its form in the next iteration,
    which is correct modulo `modulus`."""

    start: Form
    inside: int
    behind: Form | None  # None for a counter whose final value is unknown
    next: Form
    modulus: int = EXACT


class _Scalar(Struct, frozen=True):
    """The IR values of one loop-carried scalar."""

    start: Value
    inside: list[Value]  # in each region of the loop
    following: Value | int  # for a counter, the step
    behind: Value | None


class LoopForms(Struct):
    """The linear forms of the loop-carried scalars of one function.

    `forms` maps the `id` of a value to its form in iteration numbers, and the modulus for which this form is correct.
    `carried` maps a loop to a list: first its iteration number, then the carried values without an entry in `forms`.
    `names` maps a loop to two placeholder values: its iteration number and its number of iterations. `values` maps each
    `id` in a form to its value.
    """

    analysis: Analysis
    forms: dict[int, tuple[Form, int]] = field(default_factory=dict)
    carried: dict[Op, list[Carried]] = field(default_factory=dict)
    names: dict[Op, tuple[Value, Value]] = field(default_factory=dict)
    values: dict[int, Value] = field(default_factory=dict)

    def form(self, value: Value) -> Form:
        """Returns the form of a scalar integer. Sums and products with constants are expanded."""
        terms, constant = linear(value)
        self.values.update((id(v), v) for v in terms)
        return {id(v): k for v, k in terms.items()}, constant

    def canonical(self, form: Form, modulus: int = EXACT) -> Form:
        """Replaces the values of a form by their entries in `forms`, and reduces the result modulo `modulus`."""
        while True:
            known = {v: found for v in form[0] if (found := self._told(v, modulus)) is not None}
            if not known:
                break
            form = substituted(form, known)
        return reduced(form, modulus)

    def _told(self, value: int, modulus: int) -> Form | None:
        """Returns the entry of a value in `forms`, or the form of `i` if the value is `i % n` and `modulus` divides n.
        Returns None otherwise."""
        form, under = self.forms.get(value, (None, EXACT))
        if form is not None and holds(under, modulus):
            return form
        whole, divisor = remainder(self.values[value]) if modulus != EXACT and value in self.values else (None, None)
        return self.form(whole) if whole is not None and divisor is not None and divisor % modulus == 0 else None

    def of(self, value: Value, modulus: int = EXACT) -> Form:
        return self.canonical(self.form(value), modulus)

    def enter(self, block: Block) -> None:
        """Computes the forms of all loop-carried values in a block, inner loops first."""
        for op in block.ops:
            for region in op.regions:
                self.enter(region)
            if op.spec.control.loops:
                self._loop(op)

    def _loop(self, loop: Op) -> None:
        iteration, count = Value(TileType((), INDEX), name="iteration"), Value(TileType((), INDEX), name="iterations")
        self.names[loop] = iteration, count
        total = self._total(loop) or ({id(count): 1}, 0)
        carried = [Carried(number(0), id(iteration), total, ({id(iteration): 1}, 1))]
        # Maps a run-time number to the first value to which each iteration adds it. Other values with the same number
        # differ from this first value by the same amount in all iterations.
        alike: dict[tuple, _Scalar] = {}
        for scalar in _scalars(loop):
            inside = id(scalar.inside[-1])
            following, modulus = self._following(scalar)
            start, behind = self.form(scalar.start), None if scalar.behind is None else self.form(scalar.behind)
            added = plus(following, ({inside: 1}, 0), -1)
            counts = scalar.inside[-1].dtype.kind == "index" or scalar.inside[-1].dtype is S32
            if counts and not added[0]:
                self._set(scalar, modulus, plus(start, ({id(iteration): 1}, 0), added[1]), plus(start, total, added[1]))
                continue
            # A carried value of a `while` has different identities in the condition and in the body, so the code below
            # does not apply.
            if not loop.spec.control.counters:
                continue
            if counts and behind is not None and inside not in added[0]:
                first = alike.setdefault((tuple(sorted(added[0].items())), added[1], modulus), scalar)
                if first is not scalar:
                    assert first.behind is not None
                    apart = plus(start, self.form(first.start), -1)
                    self._set(
                        scalar, modulus, plus(self.form(first.inside[-1]), apart), plus(self.form(first.behind), apart)
                    )
                    continue
            carried.append(Carried(start, inside, behind, following, modulus))
        self.carried[loop] = carried

    def _set(self, scalar: _Scalar, modulus: int, inside: Form, behind: Form) -> None:
        for value in scalar.inside:
            self.forms[id(value)] = inside, modulus
        if scalar.behind is not None and not isinstance(scalar.following, int):  # for counters, `behind` is the stop
            self.forms[id(scalar.behind)] = behind, modulus

    def _following(self, scalar: _Scalar) -> tuple[Form, int]:
        """Returns the form of a scalar in the next iteration, and the modulus for which this form is correct."""
        inside = id(scalar.inside[-1])
        if isinstance(scalar.following, int):
            return ({inside: 1}, scalar.following), EXACT
        exact = self.of(scalar.following)
        if inside in exact[0]:
            return exact, EXACT
        whole, modulus = remainder(scalar.following)
        if modulus is None and exact[1] == 0 and list(exact[0].values()) == [1]:  # the modulus of an inner loop
            (value,) = exact[0]
            modulus = self.forms.get(value, (exact, None))[1]
        if modulus is not None:
            form = self.of(whole, modulus)
            if form[0].get(inside) == 1:
                return form, modulus
        return exact, EXACT

    def _total(self, loop: Op) -> Form | None:
        """Returns the number of iterations as a linear form, or None if it is not linear."""
        if not loop.spec.control.counters:
            return None
        start, stop = loop.operands[:2]
        step = constant_of(loop.operands[2])
        if not step:
            return None
        first, end = constant_of(start), constant_of(stop)
        if first is not None and end is not None:
            return number(iterations_of(int(first), int(end), int(step)))
        distance = plus(self.of(stop), self.of(start), -1)
        # A loop with a step of 1 or -1 ends exactly at its bound, if it does not begin behind the bound. Other loops
        # need the attribute `exact`.
        if not loop.attrs.get("exact"):
            low, high = (start, stop) if step > 0 else (stop, start)
            if abs(step) != 1 or start.dtype.kind != "index" or not in_order(low, high, self.analysis):
                return None
        if any(k % step for k in (*distance[0].values(), distance[1])):
            return None
        return {v: k // int(step) for v, k in distance[0].items()}, distance[1] // int(step)


def loop_forms_of(function: Function, analysis: Analysis) -> LoopForms:
    forms = LoopForms(analysis)
    forms.enter(function.body)
    return forms


def holds(modulus: int, wanted: int) -> bool:
    """Whether a form that is correct modulo `modulus` is also correct modulo `wanted`."""
    return modulus == EXACT if wanted == EXACT else modulus % wanted == 0


def _scalars(loop: Op) -> Iterator[_Scalar]:
    """Yields the counter of a loop, if it has one with a constant step, and then its loop-carried scalar integers."""
    if loop.spec.control.counters:
        step = constant_of(loop.operands[2])
        if step is not None:
            end = loop.operands[1] if loop.attrs.get("exact") else None
            yield _Scalar(loop.operands[0], [loop.regions[0].args[0]], int(step), end)
        for start, inside, following, behind in carried_integers(loop):
            yield _Scalar(start, [inside], following, behind)
        return
    test, body = loop.regions
    scalars = zip(
        loop.operands, test.args, test.ops[-1].operands[1:], body.args, body.ops[-1].operands, loop.results, strict=True
    )
    for start, tested, passed, inside, following, behind in scalars:
        if passed is tested and not inside.tile.shape and inside.dtype.is_int:
            yield _Scalar(start, [tested, inside], following, behind)
