"""What no barrier has ordered yet, as sets of accesses, and how such sets change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, reduce
from itertools import zip_longest
from operator import or_

from dsl.lowering.ir.function import Value
from dsl.lowering.passes.barriers.touches import Touch

PART_BITS = 5  # accesses of a set that are changed as one


@dataclass(frozen=True, slots=True)
class Flight:
    """Accesses in flight, as sets: of copies into shared memory, or of TMA stores out of it."""

    groups: tuple[int, ...] = ()  # committed, oldest first
    open: int = 0  # not committed
    committed: bool = False  # some were, waited for or not

    def joined(self, other: Flight) -> Flight:
        # Groups are matched from the newest: what may be in flight on either way.
        pairs = zip_longest(reversed(self.groups), reversed(other.groups), fillvalue=0)
        groups = tuple(mine | theirs for mine, theirs in pairs)[::-1]
        return Flight(groups, self.open | other.open, self.committed or other.committed)

    def each(self, change: Callable[[int], int]) -> Flight:
        return Flight(tuple(map(change, self.groups)), change(self.open), self.committed)

    def begun(self, accesses: int) -> Flight:
        return replace(self, open=self.open | accesses)

    def ended(self, most: int) -> Flight:
        """Open accesses become a group. Of more than `most` groups, the oldest become one."""
        groups = (*self.groups, self.open)
        if len(groups) > most:
            groups = (groups[0] | groups[1], *groups[2:])
        return Flight(groups, 0, True)

    def waited(self, left: int) -> tuple[Flight, int]:
        """All groups but the newest have landed: what is left, and their accesses."""
        done = self.groups[: max(0, len(self.groups) - left)]
        return replace(self, groups=self.groups[len(done) :]), reduce(or_, done, 0)

    @property
    def all(self) -> int:
        return reduce(or_, self.groups, self.open)


@dataclass(slots=True)
class State:
    """What no barrier has ordered and what is in flight, as sets of accesses (see `OpenAccesses`).

    copies: into shared memory. stores: by TMA, as far as they read shared memory; sent: what they write, of which
    nothing tells in the kernel that it is there.
    """

    pending: int = 0
    copies: Flight = Flight()
    stores: Flight = Flight()
    sent: int = 0

    def copy(self) -> State:
        return replace(self)

    def merge(self, other: State) -> None:
        self.pending |= other.pending
        self.copies, self.stores = self.copies.joined(other.copies), self.stores.joined(other.stores)
        self.sent |= other.sent

    def each(self, change: Callable[[int], int]) -> State:
        return State(change(self.pending), self.copies.each(change), self.stores.each(change), change(self.sent))

    def land(self, left: int, stores: bool) -> None:
        """All groups but the newest have landed: what copies have written, or stores have read, is as if each thread
        had done it just now."""
        if stores:
            self.stores, done = self.stores.waited(left)
        else:
            self.copies, done = self.copies.waited(left)
        self.pending |= done

    @property
    def flying(self) -> tuple[Flight, Flight, int]:
        return self.copies, self.stores, self.sent

    @property
    def in_flight(self) -> int:
        return self.copies.all | self.stores.all | self.sent


class OpenAccesses:
    """All accesses met, numbered: a set of them is an integer, whose bit i says that access i is in it."""

    def __init__(self) -> None:
        self.touches: list[Touch] = []
        self.numbers: dict[Touch, int] = {}
        self.of_memory: dict[Value, int] = defaultdict(int)
        self.of_global = 0
        self.acquires = 0
        self.earlier: dict[int, list[int]] = defaultdict(list)  # by number: as what a loop or a barrier changed it from
        self.followed: set[tuple[int, int]] = set()  # those of `earlier`, old and new, that an iteration is between
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
        are in the next iteration of a loop."""

        @cache
        def changed(accesses: int) -> int:
            if not accesses & (accesses - 1):
                return 1 << self.changed(accesses.bit_length() - 1, change, follows) if accesses else 0
            return reduce(or_, map(changed, _parts(accesses)))  # from iteration to iteration, most parts stay the same

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
