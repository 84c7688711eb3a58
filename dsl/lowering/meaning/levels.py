"""Runs the reference semantics of a kernel before and after each pass, and finds the first value that differs.

A level is the kernel after a pass. Values of two levels are matched by identity (`Value.origin`). Sums of floats may
differ within a bound, because the language does not define their order. After such a difference, the run continues with
the sum of the previous level, so that later values can be compared exactly.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import asdict

from dsl.lowering.building.verify import Known, Malformed, are_same, verify
from dsl.lowering.ir.function import Block as Region
from dsl.lowering.ir.function import Function, Value, uses, walk
from dsl.lowering.ir.location import Loc
from dsl.lowering.ir.targets import WARP, Target
from dsl.lowering.ir.types import DType, TileType
from dsl.lowering.layouts.layout import Layout
from dsl.lowering.machine.formats import as_float, from_fp8, least, load, unit
from dsl.lowering.meaning.cuts import cut_runs, told
from dsl.lowering.meaning.matrix import elements_of
from dsl.lowering.meaning.run import (
    MeaningMemory,
    Outside,
    Run,
    Undecided,
    Watch,
    arguments_of,
    blocks_of,
    carried_blocks,
)
from dsl.lowering.ops import operand
from dsl.lowering.ops.matrix import factors_of
from dsl.lowering.passes import Pass, passes_of

Array = Any
Block = tuple[int, int, int]
MOST_KEPT = 1 << 28
"""The maximum number of bytes of one level's values that are kept for the next level. Sums of floats are always
kept."""
UNITS = 8.0
"""How much a sum of floats may change with the order of its additions, in units in the last place of the sum of
magnitudes."""


class Divergence(Struct):
    """The first difference. `level` is the pass that caused it, or `emission`."""

    level: str
    message: str
    value: str | None = None
    loc: Loc | None = None
    block: Block | None = None
    element: tuple[int, ...] | None = None
    register: int | None = None
    lane: int | None = None
    warp: int | None = None
    before: Any = None
    after: Any = None

    def __str__(self) -> str:
        where = "" if self.loc is None else f" ({self.loc.source.name}:{self.loc.line})"
        text = f"{self.level}: {self.message}{where}"
        if self.element:
            text += f", element {list(self.element)}"
        if self.lane is not None:
            register = "" if self.register is None else f"register {self.register} of "
            text += f", {register}lane {self.lane} of warp {self.warp}"
        if self.block is not None:
            text += f" in block {self.block}"
        if self.before is not None:
            text += f": {self.before} became {self.after}"
        return text

    def at(self, layout: Layout | None, shape: Sequence[int], function: Function) -> None:
        """Sets the register, lane and warp that hold the element. If several threads hold it, the first is used. A
        scalar is in all threads, so all three are 0."""
        if not shape:
            if any(r.tile.layout for op in walk(function.body) for r in op.results if is_tile(r)):
                self.register, self.lane, self.warp = 0, 0, 0
        elif layout is not None and self.element is not None:
            at = layout.invert().apply(int(np.ravel_multi_index(self.element, tuple(shape))))
            bits = len(layout.register)
            self.register, self.lane, self.warp = at & (1 << bits) - 1, at >> bits & WARP - 1, at >> bits + 5

    def as_json(self) -> dict[str, Any]:
        """Returns the divergence as JSON data."""
        out = asdict(self)
        del out["loc"]
        out |= {name: None if out[name] is None else str(out[name]) for name in ("before", "after")}
        loc = self.loc
        return out | {"file": None if loc is None else loc.source.name, "line": None if loc is None else loc.line}


def is_tile(value: Value) -> bool:
    """Returns whether a value is a tile, not a scalar or a memory."""
    return isinstance(value.type, TileType) and bool(value.type.shape)


def equal(a: Array, b: Array) -> np.ndarray:
    """Compares elements, and returns flags. All NaNs are equal, and zeros with different signs differ."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.kind != "f":
        return np.asarray(a == b)
    return np.asarray(((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b)))


class LevelTrace(Struct):
    """All values that a level computed in one block, in order.

    `most`: maps each sum to the sum of the magnitudes of its elements. If a sum replaces another sum, it gets at least
        the number of the replaced sum, because partial sums may cancel.
    """

    values: defaultdict[Value, list[Array]] = field(default_factory=lambda: defaultdict(list))
    size: int = 0
    most: dict[Value, Array] = field(default_factory=dict)

    def keep(self, value: Value, made: Array) -> None:
        # sums are always kept, because later values are compared based on them
        if self.size < MOST_KEPT or is_sum(value):
            self.values[value].append(made)
            self.size += getattr(made, "nbytes", 0)


def is_sum(value: Value) -> bool:
    """Returns whether a value is a sum of floats. The language does not define the order of its additions."""
    op = value.op
    return op is not None and (op.spec.algebra.unordered or op.spec.product) and value.dtype.is_float


class LevelOutcome(Struct):
    """The results of a level's run: memories by name, lines of failed asserts, whether a result was inexact, and
    traces."""

    memories: dict[str, MeaningMemory]
    failed: set[int]
    inexact: bool
    traces: dict[Block, LevelTrace] = field(default_factory=dict)


class LevelComparison:
    """Receives the values of one level while it runs, and compares them with the values of the previous level."""

    def __init__(self, before: LevelOutcome | None):
        self.before = before
        self.first: tuple[Block, Value, Array, Array] | None = None
        self.traces: dict[Block, LevelTrace] = {}

    def begin(self, run: Run, block: Block) -> None:
        self.run, self.block = run, block
        self.trace = self.traces[block] = LevelTrace()
        self.known = None if self.before is None else self.before.traces.get(block)
        self.counts: defaultdict[Value, int] = defaultdict(int)

    def apart(self, run: Run, block: Block) -> Watch:
        """Returns the function `watch` for a run whose differences are not reported."""
        other = LevelComparison(self.before)
        other.begin(run, block)
        return other.watch

    def watch(self, value: Value, made: Array) -> Array:
        """Compares a value with the previous level. Returns the value with which the run continues: the previous one
        for a sum that differs only by rounding, otherwise `made`."""
        if is_sum(value):
            size, earlier = self.size_of(value), self.sized_before(value)
            self.trace.most[value] = np.maximum(size, earlier) if np.shape(earlier) == np.shape(size) else size
        wanted = self.expected(value)
        if wanted is not None and np.shape(wanted) == np.shape(made):
            same = equal(made, wanted)
            if not same.all():
                if is_sum(value) and self.is_near(value, made, wanted):
                    made = wanted
                elif self.first is None:
                    self.first = self.block, value, wanted, made
        self.trace.keep(value, made)
        return made

    def expected(self, value: Value) -> Array | None:
        """Returns the array with which `value` is compared: that of the same value in the previous level, or of the
        value that it replaces. Returns None if neither exists."""
        if self.known is None:
            return None
        origin, in_turn = value, False
        while origin not in self.known.values:
            if origin.origin is None:
                return None
            in_turn |= origin.in_turn
            origin = origin.origin
            if not in_turn and origin in self.run.values:
                return self.run.values[origin]  # compare the copy with the original, which still exists
        counter = origin if in_turn else value
        number = self.counts[counter]
        self.counts[counter] += 1
        made = self.known.values[origin]
        return made[number] if number < len(made) else None

    def is_near(self, value: Value, made: Array, wanted: Array) -> bool:
        """Returns whether another order of additions may explain the difference."""
        most = self.trace.most[value]
        bound = UNITS * unit(value.dtype) * np.maximum(most, np.abs(np.asarray(wanted, np.float64)))
        with np.errstate(invalid="ignore"):
            near = np.abs(np.asarray(made, np.float64) - np.asarray(wanted, np.float64)) <= bound
        return bool((near | equal(made, wanted)).all())

    def size_of(self, value: Value) -> Array:
        """Returns the sum of the magnitudes of all numbers that a sum adds."""
        op = value.op
        assert op is not None
        if op.spec.product:
            a, b, c = (np.abs(as_float(elements_of(self.run, o), o.dtype)) for o in factors_of(op, value))
            return a @ b + c
        joined = self.run.values[op.operands[op.results.index(value)]]
        return np.abs(np.asarray(joined, np.float64)).sum(op.attrs["axis"])

    def sized_before(self, value: Value) -> Array:
        """Returns the sum of magnitudes in the previous level, for the same sum or the sum that it replaces."""
        known = {} if self.known is None else self.known.most
        seen: Value | None = value
        while seen is not None and seen not in known:
            seen = seen.origin
        return 0.0 if seen is None else known[seen]

    def divergence(self, level: str, function: Function) -> Divergence | None:
        """Returns the divergence at the first value that differs, or None."""
        if self.first is None:
            return None
        block, value, wanted, made = self.first
        wrong = ~equal(made, wanted)
        element = tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.ndim else ()
        op = value.op
        name, message = name_of(value), f"value '{name_of(value)}' differs"
        if name is None:
            name = leads_to(function, value)
            message = f"a result of {op.name if op else '?'}{f', which leads to {name!r},' if name else ''} differs"
        found = Divergence(level, message, name, None if op is None else op.loc, block, element)
        found.before, found.after = np.asarray(wanted)[element], np.asarray(made)[element]
        found.at(value.tile.layout, value.tile.shape, function)
        return found


def name_of(value: Value) -> str | None:
    """Returns the name of a value or, if it has none, of the value that it replaces."""
    seen: Value | None = value
    while seen is not None:
        if seen.name:
            return seen.name
        seen = seen.origin
    return None


def run_level(
    function: Function,
    given: Mapping[str, Any],
    grid: Sequence[int],
    blocks: Iterable[Block],
    comparison: LevelComparison | None = None,
    noise: np.random.Generator | None = None,
    watched: bool = False,
) -> LevelOutcome:
    """Runs `blocks` on copies of the arguments, and returns the results. May raise Undecided or Outside."""
    arguments = arguments_of(function, given, watched)
    run = Run(function, arguments, grid, None if comparison is None else comparison.watch, noise)
    run.watch_of = None if comparison is None else comparison.apart
    for block in blocks:
        if comparison is not None:
            comparison.begin(run, block)
        run.do(block)
    return outcome_of(run, comparison)


def outcome_of(run: Run, comparison: LevelComparison | None = None) -> LevelOutcome:
    """Returns the results of a run after all of its blocks."""
    given = [p for p in run.function.params if p.kind == "tensor" and p.value is not None]
    memories = {p.name: run.arguments.memories[p.value] for p in given if p.value is not None}
    return LevelOutcome(memories, run.failed, run.inexact, {} if comparison is None else comparison.traces)


class Levels(Struct):
    """The result of `compare_levels`: the results after the last pass, the divergence if there is one, and the numbers
    of passes and values that were compared."""

    last: LevelOutcome
    divergence: Divergence | None = None
    passes: int = 0
    values: int = 0


def compare_levels(
    function: Function,
    target: Target,
    given: Mapping[str, Any],
    grid: Sequence[int],
    blocks: Sequence[Block],
    passes: Sequence[Pass] | None = None,
    grid_of: Callable[[], Sequence[int]] | None = None,
) -> Levels:
    """Applies the passes one by one, runs the kernel after each pass, and compares it with the previous level. Raises
    Undecided if the kernel's semantics are not defined.

    If a pass changes which work each block does, only the results of all blocks together are compared after that pass.
    Later passes are compared value by value again. `passes` defaults to all passes of the function. `grid_of` returns
    the current grid of the function.
    """
    comparison = LevelComparison(None)
    before = run_level(function, given, grid, blocks, comparison)
    found, known = Levels(before), Known()
    for each in passes_of(function.choices.plugins) if passes is None else passes:
        # These runs precede the pass, because the pass changes the function in place.
        name, deals = each.name, function.deals
        may_deal = each.deals is not None and each.deals(function)
        whole = run_level(function, given, grid, blocks_of(grid)) if may_deal else before
        others = shaken_sums(function, given, grid) if may_deal and each.resums else []
        found.divergence = cut_divergence(name, function, given, grid, whole, others)
        if found.divergence is not None:
            return found
        parts = parts_of(function)
        each.apply(function, target)
        found.passes += 1
        comparison = LevelComparison(before)
        try:
            verify(function, name, known)
            if function.deals > deals:
                grid = grid if grid_of is None else grid_of()
                blocks = carried_blocks(function, grid, len(blocks))
                dealt = run_level(function, given, grid, blocks_of(grid))
                found.divergence = memory_divergence(name, function, whole, dealt, others)
                if found.divergence is not None:
                    return found
                comparison = LevelComparison(None)
                before = found.last = run_level(function, given, grid, blocks, comparison)
                continue
            if are_same(parts, parts_of(function)):  # the pass changed nothing
                found.values = sum(len(t.values) for t in before.traces.values())
                continue
            now = run_level(function, given, grid, blocks, comparison)
        except (Malformed, Outside) as error:  # prefer the first value that differs, which comes before the failure
            loc = error.op.loc if isinstance(error, Outside) else None
            found.divergence = comparison.divergence(name, function) or Divergence(name, str(error), loc=loc)
            return found
        found.values = sum(len(t.values) for t in now.traces.values())
        changed = memory_divergence(name, function, before, now)
        if changed is not None:
            found.divergence = comparison.divergence(name, function) or changed
            return found
        before.traces.clear()  # free up to MOST_KEPT bytes, which later levels do not need
        found.last = before = now
    return found


def parts_of(function: Function) -> list[object]:
    """Returns all objects that determine the semantics of a kernel. If a pass does not change this list, the kernel
    need not run again. 16 of 30 passes change nothing in a matrix product, and 26 change nothing in a softmax."""
    found: list[object] = [*function.attrs, *function.attrs.values(), *function.dims.values()]
    for p in function.params:
        found += (p.value, *p.strides)
    found += (w.value for w in function.workspaces)

    def add(region: Region) -> None:
        found.extend((*region.args, *(arg.type for arg in region.args)))
        for op in region.ops:
            found.extend((op, op.spec, *op.operands, None, *op.results, *(r.type for r in op.results)))
            found.extend((*op.attrs, *op.attrs.values(), None))
            for inner in op.regions:
                add(inner)
        found.append(None)

    add(function.body)
    return found


def shaken_sums(function: Function, given: Mapping[str, Any], grid: Sequence[int]) -> list[LevelOutcome]:
    """Runs the kernel several times with random rounding in each step of a sum of floats. The results show how much
    they may differ if sums are added in another order. If parts of a loop join by a function, all operations on floats
    round at random, since each part scales its values in its own way."""
    out, joins = [], any(op.spec.acts == "joins" for op in walk(function.body))
    for seed in range(ROUNDS):
        noise = np.random.default_rng(seed)
        run = Run(function, arguments_of(function, given), grid, noise=noise)

        def shake(value: Value, made: Array, run: Run = run) -> Array:
            op = value.op
            rounds = op is not None and (op.spec.algebra.sums is not None or (joins and op.spec.elementwise))
            return run.shaken(made, value.dtype) if rounds and value.dtype.is_float else made

        run.watch = shake
        for block in blocks_of(grid):
            run.do(block)
        out.append(outcome_of(run))
    return out


def cut_divergence(
    level: str,
    function: Function,
    given: Mapping[str, Any],
    grid: Sequence[int],
    whole: LevelOutcome,
    others: Sequence[LevelOutcome],
) -> Divergence | None:
    """Returns the first tensor element that differs if loops run in parts that join by a function of the text.
    `others` contains further correct outcomes, and none ahead of passes that divide no loop."""
    for run in cut_runs(function, given, grid) if others else ():
        cut = outcome_of(run)
        found = memory_divergence(level, function, whole, cut, others)
        if found is not None:
            by = None if found.element is None else (cut.memories[found.value or ""].by or {}).get(found.element[0])
            found.block = None if by is None else by[2]
            sentence, found.loc = told(run, found.block or (0, 0, 0))
            found.message = f"{sentence}: {found.message}"
            return found
    return None


def memory_divergence(
    level: str, function: Function, before: LevelOutcome, now: LevelOutcome, others: Sequence[LevelOutcome] = ()
) -> Divergence | None:
    """Returns the first tensor element that differs between two outcomes, or an assert that failed in only one of them.
    `others` contains further correct outcomes, for passes that change the order of sums."""
    for p in function.params:
        if p.name not in now.memories:
            continue
        a, b = (load(o.memories[p.name].data, p.dtype) for o in (before, now))
        same = equal(a, b)
        if others and not same.all():
            alike = [load(o.memories[p.name].data, p.dtype) for o in others]
            same = ~allowed(a, alike, p.dtype, inexact=True).wrong(b)
        if not same.all():
            at = int(np.argmin(same))
            message = f"tensor '{p.name}' differs"
            return Divergence(level, message, p.name, p.loc, None, (at,), before=a[at], after=b[at])
    if before.failed != now.failed:  # asserts are results, too
        line = min(before.failed ^ now.failed)
        return Divergence(level, f"the assert of line {line} fails in one of the two alone")
    return None


def leads_to(function: Function, value: Value) -> str | None:
    """Returns the name of the nearest named value or memory that depends on this value."""
    users, parents = uses(function.body), {r: op for op in walk(function.body) for r in op.regions}
    ends = {op: parents[r] for r in parents for op in r.ops[-1:]}
    work, seen = [value], {value}
    while work:
        for op in users.get(work.pop(0), ()):
            results = ends[op].results if op in ends else op.results
            for result in results:
                if name_of(result):
                    return name_of(result)
            if not results and op.spec.access.touches:
                return op.operands[0].name
            work += [r for r in results if r not in seen]
            seen.update(results)
    return None


# ---- PTX against the reference semantics ----

ROUNDS = 3
"""The number of runs with noise, which show how far results may differ."""
MOST = 0.9
"""Which quantile of the relative differences is their bound. It is not the maximum, because the relative difference of
a sum that cancels may be arbitrarily large."""


class Allowed(Struct):
    """The allowed difference of each element from the reference. It is 0 if the language defines the element
    exactly."""

    wanted: np.ndarray
    bound: np.ndarray

    def wrong(self, made: np.ndarray) -> np.ndarray:
        """Returns flags: True for each element that differs too much."""
        wide = np.float64 if self.wanted.dtype.kind == "f" else np.longdouble
        with np.errstate(all="ignore"):
            near = np.abs(made.astype(wide) - self.wanted.astype(wide)) <= self.bound
        # Unlike for `equal`, zeros with different signs are equal.
        return ~(near | equal(made, self.wanted) | (made == self.wanted))


def allowed(wanted: np.ndarray, others: Sequence[np.ndarray], dtype: DType, inexact: bool) -> Allowed:
    """Computes the allowed difference of each element from `others`, the results of runs with noise. It is 0 if the
    language defines all elements exactly. Otherwise, an element may differ by four times its largest difference in
    these runs, plus a unit of the type.

    These few runs may agree at an element by chance. So two terms are added: the average difference of all elements,
    and a quantile (`MOST`) of the relative differences.
    """
    bound = np.zeros(wanted.shape)
    if not inexact or not others:
        return Allowed(wanted, bound)
    with np.errstate(all="ignore"):
        values = wanted.astype(np.float64)
        spread = np.max([np.abs(o.astype(np.float64) - values) for o in others], axis=0)
    spread = np.where(np.isfinite(spread), spread, 0.0)
    if not spread.any() and not dtype.has_fractions:
        return Allowed(wanted, bound)
    size = np.abs(np.where(np.isfinite(values), values, 0.0))
    with np.errstate(all="ignore"):
        differing = (spread > 0) & (size > 0)
        relative = np.quantile(spread[differing] / size[differing], MOST) if differing.any() else 0.0
    typical = float(np.mean(spread))
    one = np.maximum(unit(dtype) * size, least(dtype)) if dtype.has_fractions else 1.0
    return Allowed(wanted, 4 * spread + 4 * min(relative, 1e-3) * size + 4 * typical + one)


def compare_ptx(
    function: Function,
    given: Mapping[str, Any],
    made: Mapping[str, np.ndarray],
    grid: Sequence[int],
    blocks: Sequence[Block],
    failed: Any = None,
) -> Divergence | None:
    """Compares `made`, the tensors that PTX computed, with the reference semantics of its IR. Tensors are passed as
    flat arrays of bits.

    `failed`: the error of an assert that failed in PTX, with its `line`. If there is one, tensors are not compared.
    """
    last = run_level(function, given, grid, blocks, watched=True)
    if failed is not None:
        return None if failed.line in last.failed else Divergence("emission", str(failed))
    if last.failed:
        return Divergence("emission", f"the assert of line {min(last.failed)} holds, and should not")
    others = []
    if last.inexact:  # otherwise the result is exact, and one run is sufficient
        others = [run_level(function, given, grid, blocks, noise=np.random.default_rng(s)) for s in range(ROUNDS)]
    for p in function.params:
        if p.name not in made or p.name not in last.memories:
            continue
        memory = last.memories[p.name]
        wanted = as_numbers(memory.data, p.dtype)
        alike = [as_numbers(o.memories[p.name].data, p.dtype) for o in others]
        got = as_numbers(made[p.name], p.dtype)
        wrong = allowed(wanted, alike, p.dtype, last.inexact).wrong(got)
        if wrong.any():
            return _emitted(function, p.name, memory, int(np.argmax(wrong)), wanted, got)
    return None


def met(function: Function, given: Mapping[str, Any], grid: Sequence[int], blocks: Sequence[Block]) -> str | None:
    """Returns a message if two blocks store to the same element, or None. The order of such stores is undefined,
    whatever the compiler does."""
    memories = run_level(function, given, grid, blocks, watched=True).memories
    return next((m.met for m in memories.values() if m.met is not None), None)


def as_numbers(bits: np.ndarray, dtype: DType) -> np.ndarray:
    """Converts the bits of elements to numbers that can be compared."""
    return from_fp8(bits, dtype) if dtype.name in ("e4m3", "e5m2") else np.asarray(load(bits, dtype))


def _emitted(
    function: Function, name: str, memory: MeaningMemory, at: int, wanted: np.ndarray, got: np.ndarray
) -> Divergence:
    """Returns the divergence for a wrong element of a tensor. It names the value that the reference run stored there,
    and the storing thread."""
    found = Divergence("emission", f"tensor '{name}' differs at {at}", name, before=wanted[at], after=got[at])
    written = None if memory.by is None else memory.by.get(at)
    if written is None:
        found.message += ", which nothing stores"
        return found
    op, index, found.block = written
    found.loc = op.loc
    value = operand(op, "value") or operand(op, "place")  # a TMA store has no value, but `place` has its layout
    assert value is not None
    shape = value.tile.shape
    found.element = tuple(int(i) for i in np.unravel_index(index, shape)) if shape else ()
    found.at(value.tile.layout, shape, function)
    if name_of(value):
        found.value = name_of(value)
        found.message += f", to which '{found.value}' is stored"
    return found


__all__ = ["Divergence", "LevelOutcome", "Levels", "Undecided", "compare_levels", "compare_ptx", "run_level"]
