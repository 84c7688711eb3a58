"""Which of a program's accesses race, by clocks of all threads kept whole: the emulator's twin, slow and plain.

A program is a list of steps.  A step is done by some threads in order, each at a word of its own choice.
"""

from __future__ import annotations

from dataclasses import dataclass, field

CTA, GPU = "cta", "gpu"
Event = tuple[int, int, int]  # word, thread, number of the step


@dataclass(frozen=True)
class Step:
    """`kind`: ld, st, atom, red, fence, bar or warp.  `order`: weak, relaxed, acquire, release or acq_rel."""

    kind: str
    order: str = "weak"
    scope: str = GPU
    threads: tuple[int, ...] = ()
    words: tuple[int, ...] = ()

    @property
    def strong(self) -> bool:
        return self.order != "weak"

    @property
    def acquires(self) -> bool:
        return self.order in ("acquire", "acq_rel")

    @property
    def releases(self) -> bool:
        return self.order in ("release", "acq_rel")


@dataclass
class Known:
    """The last step of each thread that is before, and single writes beyond that."""

    clock: list[int]
    writes: set[Event] = field(default_factory=set)

    def copy(self) -> Known:
        return Known(list(self.clock), set(self.writes))

    def learn(self, other: Known) -> None:
        self.clock = [max(pair) for pair in zip(self.clock, other.clock, strict=True)]
        self.writes |= other.writes


Item = tuple[Known, int, str]  # what a pattern publishes, its thread, the scope of its first operation


@dataclass
class Write:
    thread: int
    scope: str
    items: list[Item]
    own: list[Item]


class Machine:
    def __init__(self, blocks: int, threads: int) -> None:
        self.block = threads
        count = blocks * threads
        self.known = [Known([-1] * count) for _ in range(count)]
        self.fences: list[list[Item]] = [[] for _ in range(count)]
        self.pending: list[list[Item]] = [[] for _ in range(count)]
        self.last: dict[int, Write] = {}
        self.accesses: dict[int, list[tuple[int, int, Step]]] = {}

    def included(self, thread: int, scope: str, other: int, other_scope: str) -> bool:
        return thread // self.block == other // self.block or scope == other_scope == GPU

    def racy(self, program: list[Step]) -> int | None:
        """The first step at which an access races, if any."""
        for number, step in enumerate(program):
            if self.races(number, step):
                return number
            self.do(number, step)
        return None

    def races(self, number: int, step: Step) -> bool:
        if not step.words:
            return False
        done: list[tuple[int, int]] = []
        for thread, word in zip(step.threads, step.words, strict=True):
            for other, when, what in self.accesses.get(word, []):
                if step.kind == what.kind == "ld" or other == thread:
                    continue
                known = self.known[thread]
                if known.clock[other] >= when or (word, other, when) in known.writes:
                    continue
                if not (step.strong and what.strong and self.included(thread, step.scope, other, what.scope)):
                    return True
            for other, place in done:
                apart = not step.strong or not self.included(thread, step.scope, other, step.scope)
                if place == word and step.kind != "ld" and apart:
                    return True
            done.append((thread, word))
        return False

    def do(self, number: int, step: Step) -> None:
        for thread, word in zip(step.threads, step.words, strict=False):
            self.accesses.setdefault(word, []).append((thread, number, step))
        for thread in step.threads:
            self.known[thread].clock[thread] = number
        if step.kind in ("bar", "warp"):
            self.meet(self.block if step.kind == "bar" else 32)
        elif step.kind == "fence":
            for thread in step.threads:
                self.fence(thread, step.scope)
        elif step.strong:
            for thread, word in zip(step.threads, step.words, strict=True):
                self.access(number, step, thread, word)

    def meet(self, width: int) -> None:
        for start in range(0, len(self.known), width):
            together = self.known[start].copy()
            for thread in range(start, start + width):
                together.learn(self.known[thread])
            for thread in range(start, start + width):
                self.known[thread] = together.copy()

    def fence(self, thread: int, scope: str) -> None:
        left = []
        for item in self.pending[thread]:
            if self.included(thread, scope, item[1], item[2]):
                self.known[thread].learn(item[0])
            else:
                left.append(item)
        self.pending[thread] = left
        self.fences[thread].append((self.known[thread].copy(), thread, scope))

    def access(self, number: int, step: Step, thread: int, word: int) -> None:
        found = self.last.get(word)
        seen = found is not None and self.included(thread, step.scope, found.thread, found.scope)
        if found is not None and seen and step.kind in ("ld", "atom"):
            for item in found.items:
                if step.acquires and self.included(thread, step.scope, item[1], item[2]):
                    self.known[thread].learn(item[0])
                else:
                    self.pending[thread].append(item)
        if step.kind == "ld":
            return
        own: list[Item] = []
        if step.releases:
            own.append((self.known[thread].copy(), thread, step.scope))
        for known, _, scope in self.fences[thread]:
            published = known.copy()
            for who, when, what in self.accesses[word]:
                if who == thread and what.strong and what.kind != "ld":
                    published.writes.add((word, who, when))
            own.append((published, thread, scope))
        if step.kind == "st" and found is not None and found.thread == thread:
            own += found.own
        handed = found.items if found is not None and seen and step.kind != "st" else []
        self.last[word] = Write(thread, step.scope, [*own, *handed], own)
