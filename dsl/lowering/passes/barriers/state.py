"""The state of a walk: sets of accesses that no barrier has ordered yet, and functions that change these sets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache, reduce
from itertools import zip_longest
from operator import or_

from msgspec import Struct
from msgspec.structs import replace

from dsl.lowering.ir.function import Value
from dsl.lowering.passes.barriers.touches import Touch

PART_BITS = 5  # log2 of the number of accesses in a part of a set: the results of changes are cached part by part


class Flight(Struct, frozen=True):
    """The sets of accesses in flight, either of copies into shared memory or of TMA stores out of it."""

    groups: tuple[int, ...] = ()  # committed groups, oldest first
    open: int = 0  # accesses that are not committed yet
    committed: bool = False  # whether any group was committed, even if a wait has covered it since

    def joined(self, other: Flight) -> Flight:
        # `wait(n)` counts groups from the newest, so the groups of the two flights are matched from the newest on.
        pairs = zip_longest(reversed(self.groups), reversed(other.groups), fillvalue=0)
        groups = tuple(mine | theirs for mine, theirs in pairs)[::-1]
        return Flight(groups, self.open | other.open, self.committed or other.committed)

    def each(self, change: Callable[[int], int]) -> Flight:
        return Flight(tuple(map(change, self.groups)), change(self.open), self.committed)

    def begun(self, accesses: int) -> Flight:
        return replace(self, open=self.open | accesses)

    def ended(self, most: int) -> Flight:
        """Commits the open accesses as a group. If there are then more than `most` groups, the two oldest are
        merged."""
        groups = (*self.groups, self.open)
        if len(groups) > most:
            groups = (groups[0] | groups[1], *groups[2:])
        return Flight(groups, 0, True)

    def waited(self, left: int) -> tuple[Flight, int]:
        """Completes all groups except the newest `left` groups. Returns the remaining groups and the accesses of the
        completed groups."""
        done = self.groups[: max(0, len(self.groups) - left)]
        return replace(self, groups=self.groups[len(done) :]), reduce(or_, done, 0)

    @property
    def all(self) -> int:
        return reduce(or_, self.groups, self.open)


class State(Struct):
    """The unordered accesses (`pending`) and the accesses in flight, as sets (see `OpenAccesses`).

    `copies`: the accesses of copies into shared memory.
    `stores`: the reads of shared memory by TMA stores.
    `sent`: the writes of TMA stores to global memory. No instruction of the kernel waits for these writes, so they stay
        in flight to its end.
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
        """Completes all groups of copies or TMA stores (`stores`) except the newest `left` groups. The accesses of the
        completed groups become pending, as if each thread had done them just now."""
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
    """Numbers all accesses of a function. A set of accesses is an integer whose bit i is 1 if access i is in the set.
    So union and intersection take one operation, even for sets with thousands of accesses."""

    def __init__(self) -> None:
        self.touches: list[Touch] = []
        self.numbers: dict[Touch, int] = {}
        self.of_memory: dict[Value, int] = defaultdict(int)
        self.of_global = 0
        self.acquires = 0
        # maps an access to the accesses that a loop or a barrier changed into it
        self.earlier: dict[int, list[int]] = defaultdict(list)
        self.followed: set[tuple[int, int]] = set()  # pairs (old, new): `new` is `old` in the next iteration
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
        """Returns the accesses that may conflict with the later access `touch`: accesses to the same memory and, if
        `touch` is global, all acquires."""
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
        """Yields sets of accesses: the access itself, then the accesses that became it by one change, then those that
        became it by two changes, and so on."""
        seen, now = set(), {number}
        while now:
            yield now
            seen |= now
            now = {old for new in now for old in self.earlier[new]} - seen

    def changing(self, change: Callable[[Touch], Touch], follows: bool = False) -> Callable[[int], int]:
        """Turns `change`, a function of one access, into a cached function of sets of accesses. `follows` is true if
        the change leads to the next iteration of a loop."""

        @cache
        def changed(accesses: int) -> int:
            if not accesses & (accesses - 1):
                return 1 << self.changed(accesses.bit_length() - 1, change, follows) if accesses else 0
            # Part by part: most parts stay the same from iteration to iteration, so the cache has their results.
            return reduce(or_, map(changed, _parts(accesses)))

        return changed


def members(accesses: int) -> Iterator[int]:
    """Yields the numbers of the accesses in a set."""
    while accesses:
        lowest = accesses & -accesses
        yield lowest.bit_length() - 1
        accesses ^= lowest


def _parts(accesses: int) -> Iterator[int]:
    """Divides a set into parts of 32 neighbouring numbers. A set within one part is divided into its members."""
    low, high = (accesses & -accesses).bit_length() - 1, accesses.bit_length() - 1
    if low >> PART_BITS == high >> PART_BITS:
        yield from (1 << i for i in members(accesses))
        return
    while accesses:
        first = (accesses & -accesses).bit_length() - 1 >> PART_BITS << PART_BITS
        part = accesses & (1 << first + (1 << PART_BITS)) - 1
        yield part
        accesses ^= part
