"""What no barrier has ordered yet, as sets of accesses, and how such sets change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, reduce
from itertools import zip_longest
from operator import or_

from lowering.ir import Value
from lowering.passes.barriers.touches import Touch

PART_BITS = 5  # accesses of a set that are changed as one


@dataclass(slots=True)
class State:
    """What no barrier has ordered and what copies are in flight, as sets of accesses (see `OpenAccesses`)."""

    pending: int = 0
    groups: tuple[int, ...] = ()  # committed copies, oldest first
    open: int = 0  # copies not committed
    committed: bool = False  # some were, waited for or not

    def copy(self) -> State:
        return replace(self)

    def merge(self, other: State) -> None:
        self.pending |= other.pending
        self.open |= other.open
        self.committed |= other.committed
        # Groups are matched from the newest: what may be in flight on either way.
        pairs = zip_longest(reversed(self.groups), reversed(other.groups), fillvalue=0)
        self.groups = tuple(mine | theirs for mine, theirs in pairs)[::-1]

    def each(self, change: Callable[[int], int]) -> State:
        return State(change(self.pending), tuple(map(change, self.groups)), change(self.open), self.committed)

    def commit(self, most: int) -> None:
        """Open copies become a group. Of more than `most` groups, the oldest become one."""
        self.groups += (self.open,)
        self.open, self.committed = 0, True
        if len(self.groups) > most:
            self.groups = (self.groups[0] | self.groups[1], *self.groups[2:])

    def wait(self, left: int) -> None:
        """All groups but the newest are there: what they wrote is as if each thread had written it just now."""
        done = self.groups[: max(0, len(self.groups) - left)]
        self.groups = self.groups[len(done) :]
        self.pending = reduce(or_, done, self.pending)

    @property
    def in_flight(self) -> int:
        return reduce(or_, self.groups, self.open)


class OpenAccesses:
    """All accesses met, numbered: a set of them is an integer, whose bit i says that access i is in it."""

    def __init__(self) -> None:
        self.touches: list[Touch] = []
        self.numbers: dict[Touch, int] = {}
        self.of_memory: dict[Value, int] = defaultdict(int)
        self.of_global = 0
        self.acquires = 0
        self.earlier: dict[int, list[int]] = defaultdict(list)  # by number: as what a loop or a barrier changed it from
        self.followed: set[tuple[int, int]] = set()  # those of `earlier`, old and new, that a round is between
        self.behind_warp_barrier = self.changing(lambda touch: replace(touch, warp_ordered=True))

    def number(self, touch: Touch) -> int:
        known = self.numbers.get(touch)
        if known is None:
            known = self.numbers[touch] = len(self.touches)
            self.touches.append(touch)
            if touch.bond is None:
                self.of_memory[touch.memory] |= 1 << known
                self.of_global |= touch.is_global << known
            self.acquires |= (touch.bond == "acquire") << known
        return known

    def before(self, touch: Touch) -> int:
        """The accesses that `touch` may meet when it comes behind them."""
        if touch.bond == "acquire":
            return 0
        if touch.bond == "release":
            return self.of_global | self.acquires
        return self.of_memory[touch.memory] | (self.acquires if touch.is_global else 0)

    def changed(self, number: int, change: Callable[[Touch], Touch], follows: bool) -> int:
        new = self.number(change(self.touches[number]))
        if new != number:
            self.earlier[new].append(number)
            if follows:
                self.followed.add((number, new))
        return new

    def generations(self, number: int) -> Iterator[set[int]]:
        """An access, what it was before one change, before two, and so on."""
        seen, now = set(), {number}
        while now:
            yield now
            seen |= now
            now = {old for new in now for old in self.earlier[new]} - seen

    def changing(self, change: Callable[[Touch], Touch], follows: bool = False) -> Callable[[int], int]:
        """`change` of accesses as a function of sets; of each set it is found once. follows: it makes of them what they
        are in the next round of a loop."""

        @cache
        def changed(accesses: int) -> int:
            if not accesses & (accesses - 1):
                return 1 << self.changed(accesses.bit_length() - 1, change, follows) if accesses else 0
            return reduce(or_, map(changed, _parts(accesses)))  # from round to round, most parts stay the same

        return changed


def members(accesses: int) -> Iterator[int]:
    """The numbers of a set of accesses."""
    while accesses:
        lowest = accesses & -accesses
        yield lowest.bit_length() - 1
        accesses ^= lowest


def _parts(accesses: int) -> Iterator[int]:
    """A set in parts of neighbouring numbers; a set that is one part, in its members."""
    low, high = (accesses & -accesses).bit_length() - 1, accesses.bit_length() - 1
    if low >> PART_BITS == high >> PART_BITS:
        yield from (1 << i for i in members(accesses))
        return
    while accesses:
        first = (accesses & -accesses).bit_length() - 1 >> PART_BITS << PART_BITS
        part = accesses & (1 << first + (1 << PART_BITS)) - 1
        yield part
        accesses ^= part
