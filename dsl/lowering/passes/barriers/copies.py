"""Checks asynchronous copies. It is an error to access elements that a copy in flight touches. It is also an error if a
`wait` never waits."""

from __future__ import annotations

from typing import NoReturn

from dsl.lowering.building.loop_forms import LoopForms, remainder
from dsl.lowering.ir.function import Op, Value, walk
from dsl.lowering.ir.location import TileError
from dsl.lowering.ops import operand
from dsl.lowering.passes.barriers.conflicts import Comparisons, collision
from dsl.lowering.passes.barriers.state import State, members
from dsl.lowering.passes.barriers.steps import Steps
from dsl.lowering.passes.barriers.touches import Touch, stage_of

NEVER = "wait(n) for it"  # the hint for a copy that no wait in the text would cover


def groups_kept(ops: list[Op]) -> dict[str, int]:
    """Returns how many copy groups in flight a walk tracks: two more than any `wait` leaves in flight. Copies and TMA
    stores are counted separately. After any `wait`, all older groups have completed. The second extra group lets an
    error message name the group."""
    return {
        kind: max((op.attrs["groups"] for op in ops if op.spec.orders == kind), default=0) + 2
        for kind in ("end", "their end")
    }


class CopiesInFlight:
    """Checks the asynchronous copies of one function."""

    def __init__(self, steps: Steps, forms: LoopForms, most: dict[str, int]):
        self.steps, self.forms, self.most = steps, forms, most
        self.comparisons = Comparisons(steps.accesses, collision)
        self.waited_for: dict[Op, int] = {}  # for each `wait`: the maximum number of groups in flight before it

    def check(self, access: int, flying: int, state: State, op: Op) -> None:
        """Raises TileError `hazard` if an access touches elements that a copy in flight touches."""
        if self.comparisons.scope(access, flying):
            self._fail(access, state, op)

    def waited(self, op: Op, state: State) -> None:
        copies = state.copies
        # A wait(0) behind earlier copies is never an error, even if all of them have completed: it tells a reader that
        # they have completed.
        drains = copies.committed and not op.attrs["groups"]
        self.waited_for[op] = max(self.waited_for.get(op, 0), len(copies.groups), drains)

    def check_waits(self) -> None:
        """Raises TileError `hazard` for a `wait(n)` if at most n groups can be in flight before it. Such a `wait` never
        waits, so data that is read after it may not have arrived. If one statement became several `wait` operations, it
        is enough that one of them waits."""
        waits: dict[tuple[int, int], list[Op]] = {}
        for op in self.waited_for:
            if op.loc is not None:
                waits.setdefault((id(op.loc.source), op.loc.start), []).append(op)
        for ops in waits.values():
            if any(self.waited_for[op] > op.attrs["groups"] for op in ops):
                continue
            op = max(ops, key=lambda o: self.waited_for[o])
            groups, most = op.attrs["groups"], self.waited_for[op]
            if not most:
                message = f"wait({groups}) never waits: no copies were committed on any way here"
                hint = "copy(s, x[…]), then commit(), then wait(n)"
            else:
                number = "1 group of copies is" if most == 1 else f"{most} groups of copies are"
                message = f"wait({groups}) never waits: at most {number} in flight here"
                hint = f"wait({most - 1}) or less"
            raise TileError("hazard", op.loc, message, hint)

    def _fail(self, access: int, state: State, op: Op) -> NoReturn:
        touches = self.steps.accesses.touches
        touch, hit = touches[access], self.comparisons.met(access, state.in_flight)
        copies = state.copies
        if not hit & copies.all:
            self._fail_of_store(touch, next(members(hit)), op)
        if hit & copies.open:
            first, met = "commit() the copy and wait(0)", hit & copies.open
        else:
            newer, met = next((i, hit & group) for i, group in enumerate(reversed(copies.groups)) if hit & group)
            first = NEVER if newer + 1 == self.most["end"] else f"wait({newer})"
        flying = next(members(met))
        other, copy = touches[flying], self._begun_by(flying)
        line = "" if copy is None or copy.loc is None else f" of {told_line(copy, op)}"
        if touch.bond is not None:
            copied = f"the copy{line} from '{other.memory.name}'"
            message = f"this releases what the block did while {copied} may be in flight"
            raise TileError("hazard", op.loc, message, f"{first} first")
        does, way = ("writes" if touch.write else "reads"), ("into" if other.write else "from")
        message = f"this {does} '{touch.memory.name}' while the copy{line} {way} it may be in flight"
        same = None if copy is None else self._same_stage(copy, other, op, touch)
        others = "" if first == NEVER else ", or a ring of more stages" if same else ", or use another stage"
        raise TileError("hazard", op.loc, message + (f": {same}" if same else ""), f"{first} first{others}")

    def _fail_of_store(self, touch: Touch, flying: int, op: Op) -> NoReturn:
        other, store = self.steps.accesses.touches[flying], self._begun_by(flying)
        line = "" if store is None or store.loc is None else f" of {told_line(store, op)}"
        tensor = other.memory if store is None else operand(store, "tensor")
        name = "" if tensor is None else tensor.name
        does = f"{'stores to' if op.spec.leaves else 'accesses'} '{touch.memory.name}'"
        does = "releases what the block did" if touch.bond is not None else does
        message = f"this {does} while the store{line} of '{name}' by TMA may be in flight"
        hint = f"stage {name}: shared, or store({name}[…], …, order=none) where no element is stored twice"
        raise TileError("hazard", op.loc, message, hint)

    def _begun_by(self, flying: int) -> Op | None:
        """Returns the copy or TMA store that started an access in flight. If several qualify, returns the nearest
        one."""
        begun = [op for op in walk(self.steps.function.body) if op.spec.in_flight or op.spec.leaves]
        return self.steps.origin(flying, begun)

    def _same_stage(self, copy: Op, flying: Touch, op: Op, touch: Touch) -> str | None:
        """Returns a text for an error message: the stage indices of a copy in flight and of an access select the same
        stage of a ring. The copy's index is expressed in values of the access's iteration. Returns None if an index is
        unknown, or if both indices have the same text."""
        ring = touch.stage.modulus if touch.stage is not None else None
        index, to = operand(op, "stage"), operand(copy, "stage")
        if not ring or flying.stage is None or index is None or to is None:
            return None
        began = stage_of(self.forms, copy.operands[0], to)
        began = began.of(self.forms.canonical(began.form, began.holds))
        if [factor for _, factor in began.terms] != [1]:
            return None
        order = [each for each in walk(self.steps.function.body) if each is op or each is copy]
        iterations = (began.constant - flying.stage.constant) % ring
        # the copy comes after the access in the text, so it is from an earlier iteration
        if not iterations and order[0] is op:
            iterations = ring
        here, there = self._stage_text(index), self._stage_text(to, iterations)
        if here is None or there is None or here == there:
            return None
        before = f", {iterations} iteration{'s' * (iterations > 1)} before," if iterations else ""
        return f"stage {here} here and stage {there} of the copy{before} are the same in a ring of {ring}"

    def _stage_text(self, index: Value, less: int = 0) -> str | None:
        """Returns the text of a stage index minus `less`, for example `i - 2`. Returns None if a part of the index has
        no name."""
        index, _ = remainder(index)
        factors, constant = self.forms.form(index)
        constant -= less
        names = [(self.forms.values[value].name, factor) for value, factor in factors.items()]
        if any(name is None for name, _ in names):
            return None
        parts = [f"{name}" if factor == 1 else f"{factor} * {name}" for name, factor in names]
        parts += [str(constant)] * (constant != 0 or not parts)
        return " + ".join(parts).replace("+ -", "- ")


def told_line(op: Op, near: Op) -> str:
    """Returns the location of an operation as text, for a message about the operation `near`. The text contains the
    file name only if `near` is in another file."""
    assert op.loc is not None
    is_near = near.loc is not None and near.loc.source is op.loc.source
    return f"line {op.loc.line}" if is_near else str(op.loc)
