"""Checks whether a program uses the results of its mbarrier waits and of its strong reads.

`mbarrier.test_wait` and `try_wait` may return false ("no") although the phase is complete: `test_wait` tests only once,
and `try_wait` has a time limit (PTX ISA 9.7.13.15.16). A thread that goes on after a "no" has not synchronised with the
phase's arrivals. So the emulator puts each wait instruction of the PTX text into one of three classes:

- REPEATS: after a "no", a thread can only repeat the wait or end the launch by a trap. So a "no" has no effect. The
  emulator suspends threads at the wait until the answer is "yes".
- DOUBTED: after a "no", a thread may also run other code. The emulator answers "no" many times before the first "yes".
- IGNORED: no instruction uses the answer. The emulator always answers "no".

If no instruction uses the value of a strong read (volatile, relaxed, acquire or atomic), that read synchronises nothing
either. `unheard` contains such reads. Their values depend on timing.
"""

from __future__ import annotations

from typing import Any

from .reader import Integer, Not, Operand, Register
from .step import RegisterStep

REPEATS, DOUBTED, IGNORED = "repeats", "doubted", "ignored"
READS = {"ld", "atom"}
STRONG = {"volatile", "relaxed", "acquire", "acq_rel", "mmio"}
AMONG_LANES = {"vote", "shfl", "elect", "match", "redux", "activemask"}  # these access no memory and order nothing
# Largest number of program points that the search from one wait visits. If a search needs more, the wait counts as
# DOUBTED, the stricter class.
MOST_PLACES = 500

Known = dict[str, int]  # registers whose values follow from the answer


class Answers:
    """The results of the analysis for one program. `waits` maps the number of each wait instruction (`Site.number`) to
    its class. `unheard` contains the numbers of strong reads whose values no instruction uses."""

    def __init__(self, segments: list[Any]):
        self.segments = segments
        self.waits: dict[int, str] = {}
        self.unheard: set[int] = set()
        waits, reads = [], []
        for segment in segments:
            for at, step in enumerate(segment.steps):
                if step.ins.opcode[0] == "mbarrier" and step.ins.opcode[1] in {"test_wait", "try_wait"}:
                    waits.append((segment, at, step))
                elif step.ins.opcode[0] in READS and (step.ins.opcode[0] == "atom" or STRONG & {*step.ins.opcode}):
                    reads.append(step)
        if waits or reads:
            asked = self.asked()
            self.unheard = {step.site.number for step in reads if asked.isdisjoint(step.writes)}
            for segment, at, step in waits:
                self.waits[step.site.number] = self.way(segment, at, step, asked)

    def asked(self) -> set[str]:
        """Returns the registers on which a branch, an address or a stored value depends, directly or through other
        registers."""
        found: set[str] = set()
        sources: dict[str, set[str]] = {}
        for segment in self.segments:
            for step in segment.steps:
                names = {*step.uses, step.guard} if step.guard is not None else {*step.uses}
                if step.site is segment.end.site:
                    # A branch whose targets are all the same decides nothing.
                    if len({*segment.end.targets}) > 1 or segment.end.kind not in {"branch", "jump"}:
                        found |= names
                elif step.effect:
                    found |= names
                else:
                    for name in step.writes:
                        sources.setdefault(name, set()).update(names)
        work = list(found)
        while work:
            fresh = sources.get(work.pop(), set()) - found
            found |= fresh
            work += fresh
        return found

    def way(self, segment: Any, at: int, step: RegisterStep, asked: set[str]) -> str:
        if asked.isdisjoint(step.writes):
            return IGNORED
        return REPEATS if self.comes_back(segment, at, step) else DOUBTED

    def comes_back(self, segment: Any, at: int, wait: RegisterStep) -> bool:
        """Checks whether every path after a "no" of `wait` leads back to `wait` or to a trap. Instructions on the path
        may change only registers, and not the operands of `wait`."""
        work: list[tuple[int, int, Known]] = [(segment.number, at + 1, dict.fromkeys(wait.writes, 0))]
        seen: set[tuple[int, int, frozenset[tuple[str, int]]]] = set()
        while work:
            number, first, known = work.pop()
            # A program point is visited again if the known registers have other values, since a branch may then jump
            # elsewhere.
            place = number, first, frozenset(known.items())
            if place in seen:
                continue
            seen.add(place)
            here = self.segments[number]
            for step in here.steps[first:]:
                if step is wait:
                    break
                if step.site is here.end.site:
                    continue
                if step.ins.opcode[0] == "trap":  # a trap ends the launch, so no thread continues after it
                    if step.guard is None:
                        break
                    continue
                if not passes(step, known) or not {*step.writes}.isdisjoint(wait.uses):
                    return False
            else:
                targets = targets_of(here.end, here, known)
                if targets is None or len(seen) > MOST_PLACES:
                    return False
                work += [(target, 0, dict(known)) for target in targets]
        return True


def targets_of(end: Any, segment: Any, known: Known) -> list[int] | None:
    """Returns the numbers of the segments (basic blocks) that may run after `segment`. Returns None if a thread may
    exit there, or if the next segment is unknown."""
    if end.kind in {"next", "jump"}:
        return end.targets
    if end.kind not in {"branch", "exit where"}:
        return None
    value = known.get(segment.steps[-1].code.entries[end.entry].name)
    if value is None:
        return end.targets if end.kind == "branch" else None
    if bool(value) != end.negated:
        return end.targets[:1] if end.kind == "branch" else None
    return end.targets[-1:]


def passes(step: RegisterStep, known: Known) -> bool:
    """Applies one instruction to `known`, the known register values. Returns False if the instruction affects more than
    registers."""
    guard = None if step.guard is None else known.get(step.guard)
    if guard is not None and bool(guard) == step.negated:
        return True  # the instruction is not executed
    if step.effect and step.ins.opcode[0] not in AMONG_LANES:
        return False
    is_certain = step.guard is None or guard is not None
    value = result(step, known) if is_certain and len(step.writes) == 1 else None
    for name in step.writes:
        known.pop(name, None)
    if value is not None:
        known[step.writes[0]] = value
    return True


def value_of(operand: Operand, step: RegisterStep, known: Known) -> int | None:
    if isinstance(operand, Integer):
        return operand.value
    if isinstance(operand, Not):
        inner = value_of(operand.operand, step, known)
        return None if inner is None else int(not inner)
    if isinstance(operand, Register):
        return known[operand.name] if operand.name in known else step.known.get(operand.name)
    return None


def result(step: RegisterStep, known: Known) -> int | None:
    """Returns the result of an instruction if `known` determines it, else None. Handles the instructions that compilers
    use to copy, negate or combine the result of a wait."""
    words, operands = step.ins.opcode, step.ins.operands
    values = [value_of(operand, step, known) for operand in operands[1:]]
    first = values[0] if values else None
    if words[0] == "selp":
        return None if values[2] is None else values[0 if values[2] else 1]
    if words[0] == "and" and 0 in values:
        return 0
    if None in values or first is None:
        return None
    if words[0] in {"mov", "cvt"}:
        return first
    if words[0] == "not" and words[1] == "pred":
        return int(not first)
    if words[0] in {"and", "or", "xor"}:
        second = values[1]
        assert second is not None
        return {"and": first & second, "or": first | second, "xor": first ^ second}[words[0]]
    if words[0] == "setp" and len(values) == 2 and words[1] in {"eq", "ne"}:
        return int((first == values[1]) == (words[1] == "eq"))
    return None
