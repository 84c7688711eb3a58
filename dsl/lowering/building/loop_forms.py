"""Linear forms of scalars that loops count, in terms of iterations.

If each iteration adds the same number to a carried value, the value is start + step · iteration. After the loop the
value is start + step · number of iterations. Such forms make several kinds of values comparable: a counter, a stage
that continues from tile to tile, and a stage that runs ahead. The comparison does not depend on names, on the nesting
of loops, or on unrolling.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Block, Function, Op, Value, carried_integers
from dsl.lowering.ir.types import INDEX, S32, TileType
from dsl.lowering.known.facts import Analysis, in_order
from dsl.lowering.known.forms import linear

Form = tuple[dict[int, int], int]
"""Σ factor · value + constant: ({identity of a value: factor}, constant)."""

EXACT = 0
"""The modulus of forms that hold exactly. It is 0, which is a multiple of each modulus."""


def number(constant: int) -> Form:
    return {}, constant


def plus(a: Form, b: Form, times: int = 1) -> Form:
    out = dict(a[0])
    for value, factor in b[0].items():
        out[value] = out.get(value, 0) + factor * times
    return {v: k for v, k in out.items() if k}, a[1] + b[1] * times


def reduced(form: Form, modulus: int) -> Form:
    """The form, reduced modulo `modulus`."""
    if modulus == EXACT:
        return form
    return {v: k % modulus for v, k in form[0].items() if k % modulus}, form[1] % modulus


def substituted(form: Form, forms: dict[int, Form]) -> Form:
    """The form with values replaced by their forms in `forms`."""
    out: Form = number(form[1])
    for value, factor in form[0].items():
        out = plus(out, forms.get(value, ({value: 1}, 0)), factor)
    return out


def iterations_of(start: int, stop: int, step: int) -> int:
    """The number of iterations of a loop with constant bounds. `len(range(…))` would fail from 2^63 on."""
    return max(0, -(-(stop - start) // step))


def remainder(value: Value) -> tuple[Value, int | None]:
    """Returns (i, n) for an index `i % n` or `i & (n - 1)`. Both operations round down, as stages do. Returns (value,
    None) for other values."""
    rule = value.op.spec.elements.remainder if value.op is not None else None
    return (rule(value.op) if rule is not None else None) or (value, None)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Carried:
    """An integer that a loop carries, or the loop's iteration number. An entry has the form in the first iteration, the
    identity in the body, the form behind the loop, and the form in the next iteration. That last form holds under
    `modulus`."""

    start: Form
    inside: int
    behind: Form | None  # None for a counter whose end is unknown
    next: Form
    modulus: int = EXACT


@dataclass(frozen=True, slots=True)
class _Scalar:
    """A scalar that a loop carries, as values."""

    start: Value
    inside: list[Value]  # in each region of the loop
    following: Value | int  # for a counter, the step
    behind: Value | None


@dataclass(slots=True)
class LoopForms:
    """The forms of one function's scalars.

    `forms` maps the identity of a value that loops count to its form, and to the modulus under which the form holds.
    `carried` maps a loop to its iteration, followed by the carried values without such a form. `names` maps a loop to
    its iteration and its number of iterations, as values of their own. `values` maps the identities in forms to their
    values.
    """

    analysis: Analysis
    forms: dict[int, tuple[Form, int]] = field(default_factory=dict)
    carried: dict[Op, list[Carried]] = field(default_factory=dict)
    names: dict[Op, tuple[Value, Value]] = field(default_factory=dict)
    values: dict[int, Value] = field(default_factory=dict)

    def form(self, value: Value) -> Form:
        """The form of a scalar integer, as far as its definitions are known."""
        terms, constant = linear(value)
        self.values.update((id(v), v) for v in terms)
        return {id(v): k for v, k in terms.items()}, constant

    def canonical(self, form: Form, modulus: int = EXACT) -> Form:
        """The form with all counted values replaced by iterations. Factors are reduced by `modulus`."""
        while True:
            known = {v: found for v in form[0] if (found := self._told(v, modulus)) is not None}
            if not known:
                break
            form = substituted(form, known)
        return reduced(form, modulus)

    def _told(self, value: int, modulus: int) -> Form | None:
        """The form of a value under a modulus, in terms of the operands that it depends on. Returns None if there is no
        such form."""
        form, under = self.forms.get(value, (None, EXACT))
        if form is not None and holds(under, modulus):
            return form
        whole, divisor = remainder(self.values[value]) if modulus != EXACT and value in self.values else (None, None)
        return self.form(whole) if whole is not None and divisor is not None and divisor % modulus == 0 else None

    def of(self, value: Value, modulus: int = EXACT) -> Form:
        return self.canonical(self.form(value), modulus)

    def enter(self, block: Block) -> None:
        """Finds the values that the loops of a block count, inner loops first."""
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
        # Maps the run-time number that an iteration adds to the first value to which it is added. Other values with the
        # same number differ from the first value by a constant.
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
            # The values of a `while` have one identity in the condition and another in the body, so they get no form
            # below.
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
        """The form of a scalar in the next iteration, and the modulus under which it holds."""
        inside = id(scalar.inside[-1])
        if isinstance(scalar.following, int):
            return ({inside: 1}, scalar.following), EXACT
        exact = self.of(scalar.following)
        if inside in exact[0]:
            return exact, EXACT
        whole, modulus = remainder(scalar.following)
        if modulus is None and exact[1] == 0 and list(exact[0].values()) == [1]:  # counted modulo by an inner loop
            (value,) = exact[0]
            modulus = self.forms.get(value, (exact, None))[1]
        if modulus is not None:
            form = self.of(whole, modulus)
            if form[0].get(inside) == 1:
                return form, modulus
        return exact, EXACT

    def _total(self, loop: Op) -> Form | None:
        """The number of iterations as a linear form. Returns None if the number is not linear."""
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
        # A loop in steps of one ends exactly at its bound, unless it begins behind the bound. Other loops need `exact`.
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
    """Whether a form that holds under `modulus` also holds under `wanted`."""
    return modulus == EXACT if wanted == EXACT else modulus % wanted == 0


def _scalars(loop: Op) -> Iterator[_Scalar]:
    """The scalar integers of a loop. The counter comes first if the loop has one."""
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
