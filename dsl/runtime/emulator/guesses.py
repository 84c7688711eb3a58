"""Finds plain loads whose value is only a guess that a compare-and-swap checks, as in the usual loop around `atom.cas`.

    old = *word;  do { assumed = old;  old = atomicCAS(word, assumed, f(assumed)); } while (old != assumed);

The load `old = *word` races with the atomics of other threads. The race is harmless if the program uses the loaded
value in only two ways: as the compare operand of a compare-and-swap on the same word, and to compute the new value. If
the guess is wrong, the compare-and-swap stores nothing. This module finds such loads in the PTX text. The emulator
records their races as notes and reports no fault.

A register that depends on the loaded value has one of three states on each path from the load: COPY, COMPUTED (from the
value) or STALE. It is stale if it depends on an old guess. A guess becomes old at the next compare-and-swap, at the
next load, and if the address changes. If the compare-and-swap finds the guessed value in memory, the guess is right. On
that path, the program may use the guess like the result of the compare-and-swap.

`updates` finds stores that add to what the same thread has loaded from the same place, as `h[v] += 1` does. If several
lanes of a warp do so at one place, all of them load the same and store the same, and all counts but one are lost. So
such stores are no harmless races (`alike.py`). Updates that give the same when they are repeated (minimum, maximum,
and, or) lose nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from .reader import PtxAddress, Register, Symbol, Vector
from .step import RegisterStep
from .undefined_bits import name_of

COPY, COMPUTED, STALE = 1, 2, 3
State = dict[str, int]  # state of each register that depends on the guess
# A load whose opcode contains one of these words is no guess: it is strong, or read-only, or loads several words.
STRONG = {"volatile", "relaxed", "acquire", "mmio", "nc", "v2", "v4", "v8"}

ADDING = frozenset({"add", "sub", "mul", "mad", "fma", "xor", "shl"})
"""Operations that give another result if they are repeated."""


class Used(Exception):
    """Raised if the program uses the loaded value where no compare-and-swap checks it."""


def guesses(segments: list[Any]) -> frozenset[int]:
    """Returns the instruction numbers (`Site.number`) of the loads whose values are guesses."""
    steps = [step for segment in segments for step in segment.steps]
    # Most texts have no compare-and-swap.
    if not any(map(swaps, {step.ins.opcode for step in steps})):
        return frozenset()
    words = LoadedWords(steps)
    swapped = {words.of(step) for step in steps if is_swap(step)} - {None}
    loads = [step for step in steps if is_load(step) and words.of(step) in swapped]
    return frozenset(step.site.number for step in loads if Guess(segments, step, words).is_checked())


def is_swap(step: RegisterStep) -> bool:
    return swaps(step.ins.opcode)


def swaps(opcode: tuple[str, ...]) -> bool:
    return opcode[0] == "atom" and "cas" in opcode


def is_load(step: RegisterStep) -> bool:
    words = step.ins.opcode
    return words[0] == "ld" and not STRONG & set(words) and len(step.writes) == 1


class LoadedWords:
    """Names the memory word that an instruction accesses, as (register or symbol, offset, type size)."""

    def __init__(self, steps: list[RegisterStep]):
        definitions = Counter(name for step in steps for name in step.writes)
        self.symbols: dict[str, tuple[str, int]] = {}  # keys: registers that always have the address of one variable
        for step in steps:
            if step.ins.opcode[0] == "mov" and step.guard is None and not step.uses and len(step.writes) == 1:
                source, target = step.ins.operands[1], step.writes[0]
                if definitions[target] == 1 and isinstance(source, Register | Symbol):
                    self.symbols[target] = source.name, getattr(source, "offset", 0)

    def of(self, step: RegisterStep) -> tuple[str, int, str] | None:
        address = step.ins.operands[0 if step.ins.opcode[0] == "st" else 1]
        if not isinstance(address, PtxAddress) or address.base is None:
            return None
        base, offset = self.symbols.get(address.base.name, (address.base.name, 0))
        return base, offset + address.offset, step.ins.opcode[-1][1:]


class Guess:
    """Follows the value of one load through the program."""

    def __init__(self, segments: list[Any], load: RegisterStep, words: LoadedWords):
        self.segments, self.load, self.words = segments, load, words
        self.word = words.of(load)
        self.swaps = 0

    def is_checked(self) -> bool:
        before: dict[int, State] = {}
        work = [each.number for each in self.segments if any(step is self.load for step in each.steps)]
        try:
            while work:
                number = work.pop()
                segment = self.segments[number]
                state = dict(before.get(number, {}))
                for step in segment.steps:
                    self.follow(state, step)
                right = self.edge_where_right(segment)
                for edge, target in enumerate(segment.end.targets):
                    after = {} if edge == right else state
                    known = before.get(target)
                    met = after if known is None else joined(known, after)
                    if met != known:
                        before[target] = dict(met)
                        work.append(target)
        except Used:
            return False
        return self.swaps > 0

    def follow(self, state: State, step: RegisterStep) -> None:
        """Applies one instruction to `state`. Raises `Used` if the instruction uses the guess and no compare-and-swap
        checks it there."""
        if step is self.load:
            age(state)
            state[step.writes[0]] = COPY
            return
        held = [state[name] for name in (*step.uses, *([step.guard] if step.guard else [])) if name in state]
        if held and self.is_swap_here(step):
            self.swap(state, step)
        elif held and self.question(step) is not None:
            pass
        elif held and step.effect:
            raise Used
        elif held:
            kind = COPY if is_copy(step) and held == [COPY] else max(COMPUTED, *held)
            for name in step.writes:
                state[name] = kind
            return
        if step.guard is None:
            for name in step.writes:
                state.pop(name, None)
        if self.word is not None and self.word[0] in step.writes:
            age(state)

    def is_swap_here(self, step: RegisterStep) -> bool:
        return is_swap(step) and self.words.of(step) == self.word

    def swap(self, state: State, step: RegisterStep) -> None:
        """Checks a compare-and-swap. Its compare operand must be the guess, and its new value must not depend on an
        older guess. Raises `Used` otherwise."""
        others = [name for name in step.uses if name in state]
        expected, new = name_of(step.ins.operands[2]), name_of(step.ins.operands[3])
        if state.get(expected) != COPY or state.get(new) == STALE or set(others) - {expected, new}:
            raise Used
        if step.guard in state:
            raise Used
        self.swaps += 1
        age(state)

    def question(self, step: RegisterStep) -> tuple[str, bool] | None:
        """If `step` compares a guess with the result of the compare-and-swap, returns (predicate register, whether true
        means equal). Returns None otherwise."""
        words = step.ins.opcode
        if words[0] != "setp" or len(words) != 3 or words[1] not in {"eq", "ne"} or len(step.writes) != 1:
            return None
        sides = {name_of(operand) for operand in step.ins.operands[1:3]}
        for segment in self.segments:
            if any(each is step for each in segment.steps):
                swap = last_swap(segment.steps, step)
                if swap is not None and sides == {name_of(swap.ins.operands[0]), name_of(swap.ins.operands[2])}:
                    return step.writes[0], words[1] == "eq"
        return None

    def edge_where_right(self, segment: Any) -> int | None:
        """Returns the index of the branch target to which a thread jumps if the guess was right. Returns None if there
        is no such target."""
        if segment.end.kind != "branch" or len(segment.end.targets) != 2:
            return None
        *steps, branch = segment.steps
        if len(branch.uses) != 1:
            return None
        for step in reversed(steps):
            if branch.uses[0] in step.writes:
                asked = self.question(step)
                swap = last_swap(segment.steps, step)
                if asked is None or swap is None or not self.is_swap_here(swap):
                    return None
                return 0 if asked[1] != segment.end.negated else 1
        return None


def last_swap(steps: list[RegisterStep], before: RegisterStep) -> RegisterStep | None:
    """Returns the last compare-and-swap before the step `before`. Returns None if an instruction between the two
    overwrites the result or the compare operand of the compare-and-swap."""
    found: RegisterStep | None = None
    for step in steps:
        if step is before:
            return found
        if is_swap(step):
            found = step
        elif found is not None and set(step.writes) & {name_of(found.ins.operands[at]) for at in (0, 2)}:
            found = None
    return None


def is_copy(step: RegisterStep) -> bool:
    return step.ins.opcode[0] == "mov" and step.guard is None and name_of(step.ins.operands[1]) != ""


def age(state: State) -> None:
    for name in state:
        state[name] = STALE


def joined(first: State, second: State) -> State:
    """Merges the states of two paths that meet. If only the first path has a copy of the guess, registers that the
    second path has computed from a guess become stale."""
    found = {name: max(first.get(name, 0), second.get(name, 0)) for name in first.keys() | second.keys()}
    for mine, other in ((first, second), (second, first)):
        copies = {name for name, kind in mine.items() if kind == COPY}
        if copies <= {name for name, kind in other.items() if kind == COPY}:
            continue
        for name, kind in found.items():
            if kind == COMPUTED and (name in other or name not in mine):
                found[name] = STALE
    return found


def updates(segments: list[Any]) -> frozenset[int]:
    """Returns the instruction numbers (`Site.number`) of the `st` instructions that store a sum or product of what the
    same thread loaded from the same place."""
    steps = [step for segment in segments for step in segment.steps]
    words = LoadedWords(steps)
    loads = {step.site.number: words.of(step) for step in steps if is_load(step)}
    loaded = {word[:2] for word in loads.values() if word is not None}
    definitions: dict[str, list[RegisterStep]] = {}
    for step in steps:
        for name in step.writes:
            definitions.setdefault(name, []).append(step)
    found = set()
    for step in steps:
        place = words.of(step) if step.ins.opcode[0] == "st" and len(step.ins.operands) > 1 else None
        if place is None or place[:2] not in loaded:
            continue
        same = {number for number, word in loads.items() if word is not None and word[:2] == place[:2]}
        if adds_to(step, same, definitions):
            found.add(step.site.number)
    return frozenset(found)


def adds_to(store: RegisterStep, loads: set[int], definitions: dict[str, list[RegisterStep]]) -> bool:
    """Whether an operand of a store is computed from the result of one of `loads` by an operation of ADDING."""
    source = store.ins.operands[1]
    items = source.items if isinstance(source, Vector) else (source,)
    work = [(item.name, False) for item in items if isinstance(item, Register)]
    seen = set(work)
    while work:
        name, added = work.pop()
        for step in definitions.get(name, ()):
            if step.site.number in loads and added:
                return True
            adds = added or step.ins.opcode[0] in ADDING
            new = {(each, adds) for each in step.uses} - seen
            seen |= new
            work += new
    return False
