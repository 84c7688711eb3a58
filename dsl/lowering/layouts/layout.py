"""Layouts: linear maps over F2 from the bits of a position (register, lane and warp, or offset) to the bits of an
element's coordinate.

Source: "Linear Layouts: Robust Code Generation of Efficient Tensor Computation Using F2" (arXiv 2505.23819).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate
from math import prod
from operator import mul
from typing import Any, ClassVar, Final, TypeVar


class LayoutError(ValueError):
    """Raised for an impossible layout. The message states the violated requirement."""


def bits_of(extent: int) -> int:
    """Returns the binary logarithm of a power of two. Raises LayoutError for other numbers."""
    if extent <= 0 or extent & (extent - 1):
        raise LayoutError(f"{extent} is no power of two")
    return extent.bit_length() - 1


def apply(bases: Iterable[int], value: int) -> int:
    """Returns the XOR of the bases that belong to the set bits of `value`."""
    out = 0
    for basis in bases:
        if value & 1:
            out ^= basis
        value >>= 1
    return out


def flaw_of_layout(layout: object, shape: tuple[int, ...], warps: int) -> str:
    """Returns the reason why `layout` cannot be the register layout of a tile with this shape. Returns "" if it can
    be."""
    if not isinstance(layout, Layout) or layout.shape != shape or [*layout.bases] != ["register", "lane", "warp"]:
        return f"it takes a Layout of {list(shape)}, by register, lane and warp"
    if len(layout.lane) != 5 or 1 << len(layout.warp) != warps:
        return f"the block has {warps} warps of 32 lanes; this is for {1 << len(layout.warp)}"
    try:
        layout.invert()
    except LayoutError as error:
        return str(error)
    return ""


class BasisSpan:
    """The vector space over F2 that the inserted vectors span, as rows in echelon form. Each row is stored with a bit
    mask of the inserted vectors whose XOR is the row.

    `solve(v)` returns a bit mask of the inserted vectors whose XOR is v, or None if there are no such vectors.
    """

    __slots__ = ("rows",)

    def __init__(self, vectors: Iterable[int] = ()):
        self.rows: list[tuple[int, int]] = []  # (vector, combination); all vectors have different leading bits
        for i, vector in enumerate(vectors):
            self.add(vector, 1 << i)

    def reduce(self, vector: int, combination: int = 0) -> tuple[int, int]:
        for row, made in self.rows:
            if vector ^ row < vector:
                vector, combination = vector ^ row, combination ^ made
        return vector, combination

    def add(self, vector: int, combination: int = 0) -> bool:
        """Inserts a vector. Returns False if the vector was already in the space."""
        vector, combination = self.reduce(vector, combination)
        if not vector:
            return False
        self.rows.append((vector, combination))
        self.rows.sort(reverse=True)
        return True

    def solve(self, vector: int) -> int | None:
        rest, combination = self.reduce(vector)
        return None if rest else combination

    def __contains__(self, vector: int) -> bool:
        return self.reduce(vector)[0] == 0

    @property
    def rank(self) -> int:
        return len(self.rows)


M = TypeVar("M", bound=Callable[..., Any])


def _cached(method: M) -> M:
    """Decorator that caches the results of a `Layout` method. Layouts are never freed, so the cache keeps nothing else
    alive."""
    return lru_cache(maxsize=8192)(method)  # type: ignore[return-value]


class _Interned(type):
    """Metaclass that creates only one object for equal layouts. So layouts are compared by identity and share cached
    results."""

    known: ClassVar[dict[tuple, Layout]] = {}

    def __call__(cls, shape: tuple[int, ...], places: tuple[tuple[str, tuple[int, ...]], ...]) -> Layout:
        found = cls.known.get((shape, places))
        return found if found is not None else cls.known.setdefault((shape, places), super().__call__(shape, places))


class Layout(metaclass=_Interned):
    """Maps positions, such as (register, lane, warp), to the elements of a tile of `shape`.

    `places` lists the inputs of the map, such as `register`. Each input has a name and one basis (an integer) for each
    of its bits. The XOR of the bases of all set bits is the coordinate of an element. A coordinate is one integer, the
    row-major index of the element. All extents are powers of two, so a coordinate contains the bits of the index along
    each axis side by side, with the last axis lowest. A bit with a zero basis does not change the coordinate: the
    element is replicated.

    In this example of a 4x8 tile, each lane holds 2 elements of a row, so 4 lanes hold a row. Two warps hold the same
    elements::

        >>> a = Layout.registers((4, 8), register=[1], lane=[2, 4, 8, 16, 0], warp=[0])
        >>> a.place(register=1, lane=5)     # 1 ^ 2 ^ 8 = 11: row 1, column 3
        11
        >>> a.coordinates(11)
        (1, 3)
        >>> a.replicated["lane"], a.replicated["warp"]   # bits that change nothing
        (16, 1)

    A layout in shared memory has one input, `offset`, which counts elements. In an XOR swizzle, a basis may have two
    set bits::

        >>> s = Layout((4, 4), (("offset", (1, 2, 5, 10)),))   # row r starts at column r: 5 = row 1 ^ column 1
        >>> s.place(offset=4)
        5
        >>> s.invert().apply(5)   # which offset holds element 5
        4
    """

    def __init__(self, shape: tuple[int, ...], places: tuple[tuple[str, tuple[int, ...]], ...]):
        self.shape: Final = shape
        self.places: Final = places
        size = prod(1 << bits_of(e) for e in shape)
        for name, bases in places:
            for basis in bases:
                if not 0 <= basis < max(size, 1):
                    raise LayoutError(f"basis {basis} of {name} is outside a tile of shape {shape}")

    # ---- construction ----

    @staticmethod
    def registers(shape: tuple[int, ...], register: Iterable[int], lane: Iterable[int], warp: Iterable[int]) -> Layout:
        lane = tuple(lane)
        if len(lane) != 5:  # also for small tiles: bits that change nothing are zeros
            raise LayoutError(f"a warp has 32 lanes, 5 bits; got {len(lane)}")
        return Layout(tuple(shape), (("register", tuple(register)), ("lane", lane), ("warp", tuple(warp))))

    @staticmethod
    def blocked(
        shape: tuple[int, ...], vector: tuple[int, ...], lanes: tuple[int, ...], warps: tuple[int, ...]
    ) -> Layout:
        """Returns a blocked layout. Each lane holds a contiguous block of `vector` elements. In a warp, the blocks of
        `lanes` lanes are side by side. In a thread block, the parts of `warps` warps are side by side. Further
        registers hold the rest of the tile. The last axis varies fastest. Lanes and warps beyond the tile hold copies.

        >>> Layout.blocked((2, 64), (1, 2), (1, 32), (2, 1)).warp
        (64,)
        """
        strides = _strides(shape)
        used = [0] * len(shape)  # bits of each axis taken so far

        def take(extents: tuple[int, ...], copy: bool) -> list[int]:
            out = []
            for axis in reversed(range(len(shape))):
                for _ in range(bits_of(extents[axis])):
                    if (1 << used[axis]) < shape[axis]:
                        out.append(strides[axis] << used[axis])
                        used[axis] += 1
                    elif copy:  # beyond the tile: the lane or warp has a copy
                        out.append(0)
            return out

        # Registers have no copies: a second register with the same element would only cost space. A warp always has 5
        # bits of lanes.
        register = take(vector, copy=False)
        lane = take(lanes, copy=True)
        warp = take(warps, copy=True)
        register += take(tuple(e >> u for e, u in zip(shape, used, strict=True)), copy=False)
        return Layout.registers(shape, register, lane, warp)

    @staticmethod
    @lru_cache(maxsize=4096)
    def default(
        shape: tuple[int, ...], warps: int, vector: int = 1, fast: int = -1, apart: bool = False, run: int = 0
    ) -> Layout:
        """Returns the default layout of a tile. Axis `fast` varies fastest, followed by the other axes from last to
        first. The elements fill `vector` registers of a lane, then lanes, then warps, then further registers.

        If `apart` is true, warps are distributed along the axes other than `fast`, as far as these axes are long
        enough. If `run` is not 0, axis `fast` is divided into groups of `run` elements. Then the index within a group
        varies fastest, then the other axes, then the group number.
        """
        strides = _strides(shape)
        axes = list(reversed(range(len(shape))))
        axes.insert(0, axes.pop(axes.index(fast % len(shape))))
        order = [strides[axis] << bit for axis in axes for bit in range(bits_of(shape[axis]))]
        close, whole = bits_of(run or shape[fast]), bits_of(shape[fast])
        order = [*order[:close], *order[whole:], *order[close:whole]]
        head = min(bits_of(vector), bits_of(shape[fast]))
        register, rest = order[:head], order[head:]
        lane, rest = rest[:5], rest[5:]
        if apart:  # bits of `fast` come last: a row is within one warp if the other bits suffice
            along = {strides[fast % len(shape)] << bit for bit in range(bits_of(shape[fast]))}
            rest = [*(base for base in rest if base not in along), *(base for base in rest if base in along)]
        warp, rest = rest[: bits_of(warps)], sorted(rest[bits_of(warps) :], key=order.index)
        # If the tile has too few elements, the remaining lanes and warps have copies.
        lane += [0] * (5 - len(lane))
        warp += [0] * (bits_of(warps) - len(warp))
        return Layout.registers(shape, register + rest, lane, warp)

    @staticmethod
    def of_one(shape: tuple[int, ...], warps: int) -> Layout:
        """Returns a layout in which each thread holds all elements, in order."""
        register = [1 << bit for bit in range(bits_of(prod(shape)))]
        return Layout.registers(shape, register, [0] * 5, [0] * bits_of(warps))

    # ---- queries ----

    @cached_property
    def bases(self) -> dict[str, tuple[int, ...]]:
        return dict(self.places)

    @cached_property
    def register(self) -> tuple[int, ...]:
        return self.bases["register"]

    @cached_property
    def lane(self) -> tuple[int, ...]:
        return self.bases["lane"]

    @cached_property
    def warp(self) -> tuple[int, ...]:
        return self.bases["warp"]

    @cached_property
    def thread(self) -> tuple[int, ...]:
        """The bases of the bits of the thread index: first of the lane bits, then of the warp bits."""
        return self.lane + self.warp

    @property
    def count(self) -> int:
        """The number of elements that each thread holds, one in each register."""
        return 1 << len(self.register)

    @cached_property
    def flat(self) -> tuple[int, ...]:
        """The bases of all inputs in one tuple, starting with those of the first input."""
        return tuple(b for _, bases in self.places for b in bases)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """The coordinates of the elements in the registers of thread 0."""
        return tuple(apply(self.register, r) for r in range(self.count))

    def place(self, **at: int) -> int:
        """Returns the coordinate at a position, for example `place(register=1, lane=5)`. Omitted inputs are 0."""
        out = 0
        for name, value in at.items():
            out ^= apply(self.bases[name], value)
        return out

    def apply(self, value: int) -> int:
        """Returns the coordinate at a position. `value` contains the bits of all inputs, with those of the first input
        lowest."""
        return apply(self.flat, value)

    def coordinates(self, index: int) -> tuple[int, ...]:
        return tuple([index // s % e for s, e in zip(_strides(self.shape), self.shape, strict=True)])

    @_cached
    def weighed(self, coefficients: tuple[int, ...]) -> tuple[int, ...]:
        """Returns Σ coefficient · coordinate for each basis, in the order of `flat`. `coefficients` contains one number
        for each axis."""
        places = (self.coordinates(b) for b in self.flat)
        return tuple([sum([c * x for c, x in zip(coefficients, at, strict=True)]) for at in places])

    def axis_mask(self, axis: int) -> int:
        """Returns a mask of the bits of a coordinate that belong to `axis`."""
        return (self.shape[axis] - 1) * _strides(self.shape)[axis]

    @cached_property
    def replicated(self) -> dict[str, int]:
        """Masks of the lane bits and warp bits that do not change which elements a thread holds.

        Threads that differ only in these bits hold the same elements. The thread in which all these bits are 0 stores
        the elements to memory.
        """
        span = BasisSpan(self.register)  # registers come first, because they do not distinguish threads
        out = {}
        for name in ("lane", "warp"):
            free = 0
            for bit, basis in enumerate(self.bases[name]):
                if not span.add(basis):
                    free |= 1 << bit
            out[name] = free
        return out

    @property
    def is_replicated(self) -> bool:
        return any(self.replicated.values())

    @cached_property
    def vectors(self) -> tuple[int, ...]:
        """For each axis, the greatest n such that the first n registers of a thread contain n contiguous elements, in
        order and aligned."""
        return tuple(self._vector(axis) for axis in range(len(self.shape)))

    def _vector(self, axis: int) -> int:
        stride, n = _strides(self.shape)[axis], 0
        while n < len(self.register) and (1 << n) < self.shape[axis] and self.register[n] == stride << n:
            n += 1
        # No other bit may change the position within the vector. Otherwise the vector would not begin at a multiple of
        # its length.
        while n and any(b & ((stride << n) - stride) for b in (*self.register[n:], *self.thread)):
            n -= 1
        return 1 << n

    def with_first(self, axis: int) -> Layout:
        """Returns the layout with reordered registers: the first registers contain contiguous elements along `axis`.
        Each thread keeps its elements."""
        stride = _strides(self.shape)[axis]
        along = [stride << n for n in range(bits_of(self.shape[axis]))]
        first = [b for b in along if b in self.register]
        rest = [b for b in self.register if b not in first]
        return Layout.registers(self.shape, [*first, *rest], self.lane, self.warp)

    def is_pure(self, axis: int) -> bool:
        """Whether no basis changes both the index along `axis` and another index."""
        mask = self.axis_mask(axis)
        return all(not b & mask or not b & ~mask for b in self.flat)

    @cached_property
    def has_plain_copies(self) -> bool:
        """Whether elements are replicated only by lane or warp bits with a zero basis.

        In this case, all other bits select different elements, and a reduction over these bits combines each element
        once.
        """
        span = BasisSpan()
        return all(span.add(b) for b in (*self.register, *(b for b in self.thread if b)))

    def is_ordered(self, axis: int) -> bool:
        """Whether the bits of the index along `axis` are in ascending order: registers first, then lanes, then warps. A
        scan requires this order."""
        mask = self.axis_mask(axis)
        along = [b for b in self.flat if b & mask]
        return self.is_pure(axis) and along == [(mask & -mask) << k for k in range(len(along))]

    # ---- algebra ----

    def invert(self) -> Layout:
        """Returns the inverse, which maps coordinates back to positions. A replicated element is mapped to one of its
        positions.

        The inverse has the shape `(2^bits of all inputs,)`, and its only input is `coordinate`. Raises LayoutError if
        an element has no position.
        """
        span = BasisSpan(self.flat)
        bits = bits_of(prod(self.shape))
        # One solution for each bit of a coordinate is sufficient, because the map is linear.
        out = []
        for bit in range(bits):
            combination = span.solve(1 << bit)
            if combination is None:
                raise LayoutError(f"element {1 << bit} of {self.shape} lies nowhere: the layout has no inverse")
            out.append(combination)
        return Layout((1 << len(self.flat),), (("coordinate", tuple(out)),))

    @_cached
    def drop(self, axis: int, keep: bool = False) -> Layout:
        """Removes an axis. The bits of the axis are removed from all bases, and then redundant register bits are
        removed. If `keep` is true, the axis remains with extent 1."""
        strides = _strides(self.shape)
        extent, inner = self.shape[axis], strides[axis]
        shape = (*self.shape[:axis], *((1,) if keep else ()), *self.shape[axis + 1 :])

        def image(basis: int) -> int:
            return basis // (inner * extent) * inner + basis % inner

        places = []
        for name, bases in self.places:
            new = [image(b) for b in bases]
            if name == "register":  # lanes and warps keep bits with a zero basis, as there are always 32 lanes
                span = BasisSpan()
                new = [b for b in new if span.add(b)]
            places.append((name, tuple(new)))
        return Layout(shape, tuple(places))

    def reshape(self, shape: tuple[int, ...]) -> Layout:
        """Returns the layout of the same elements in another shape. Row-major indices do not change, so the bases stay
        the same."""
        if prod(shape) != prod(self.shape):
            raise LayoutError(f"cannot reshape {self.shape} to {shape}")
        return Layout(tuple(shape), self.places)

    @_cached
    def transpose(self, axes: tuple[int, ...]) -> Layout:
        """Returns the layout whose axis i is axis `axes[i]` of this layout."""
        shape = tuple(self.shape[a] for a in axes)
        strides = _strides(shape)

        def image(basis: int) -> int:
            coordinates = self.coordinates(basis)
            return sum(coordinates[a] * s for a, s in zip(axes, strides, strict=True))

        return Layout(shape, tuple((n, tuple(image(b) for b in bases)) for n, bases in self.places))

    def expand(self, axis: int, extent: int, bases: tuple[int, ...]) -> Layout:
        """Inserts an axis of length `extent`. Adds one register bit for each entry of `bases`, which is its basis along
        the new axis."""
        shape = (*self.shape[:axis], extent, *self.shape[axis:])
        narrow = (*self.shape[:axis], 1, *self.shape[axis:])
        places = []
        for name, old in self.places:
            moved = tuple(moved_index(b, narrow, shape) for b in old)
            if name == "register":
                moved += tuple(b * _strides(shape)[axis] for b in bases)
            places.append((name, moved))
        return Layout(shape, tuple(places))

    @_cached
    def repeated_in(self, wide: Layout) -> list[int] | None:
        """For a broadcast from this layout to `wide`, maps each register of the result to its source register. Returns
        None if a thread would need an element of another thread."""
        span, strides = BasisSpan(self.register), zip(_strides(self.shape), self.shape, strict=True)
        kept = [stride if extent > 1 else 0 for stride, extent in strides]

        def image(basis: int) -> int:
            return sum([x * s for x, s in zip(wide.coordinates(basis), kept, strict=True)])

        if tuple(map(image, wide.thread)) != tuple(self.thread):
            return None
        solved = [span.solve(image(basis)) for basis in wide.register]
        known = [each for each in solved if each is not None]
        # The solution is linear, so it is computed only for the bases. A tile of a TMA copy counts as up to 32,768
        # registers here.
        return [apply(known, register) for register in range(wide.count)] if None not in solved else None

    @_cached
    def registers_of(self, wanted: Layout) -> list[int] | None:
        """Returns, for each register of `wanted`, the register of this layout that contains the same element in the
        same thread.

        Returns None if an element is in another thread, or if its register differs between threads. The shapes must be
        equal.
        """
        span = BasisSpan(self.register)
        if self.thread != wanted.thread:  # some element would move to another thread
            return None
        out = []
        for coordinate in wanted.offsets:
            register = span.solve(coordinate)
            if register is None:
                return None
            out.append(register)
        return out

    # ---- text ----

    def __repr__(self) -> str:
        return f"Layout({self.shape}, {self.places})"

    def __str__(self) -> str:
        """Lists the bases of each input as coordinates."""
        parts = []
        for name, bases in self.places:
            parts.append(f"{name} [{', '.join(str(list(self.coordinates(b))) for b in bases)}]")
        return ", ".join(parts)


def row_major(extents: Sequence[Any], times: Callable[[Any, Any], Any] = mul) -> list[Any]:
    """Returns row-major strides in elements, without gaps: (2, 3, 4) → 12, 4, 1. `times` multiplies two extents, which
    may be expressions."""
    inward = accumulate(reversed(extents[1:]), times, initial=1)
    return [*inward][::-1][: len(extents)]


@lru_cache(maxsize=4096)
def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(row_major(shape))


def moved_index(index: int, old: tuple[int, ...], new: tuple[int, ...]) -> int:
    """Converts a row-major index of shape `old` to the index of the same coordinates in shape `new`."""
    return sum(index // s % e * t for s, e, t in zip(_strides(old), old, _strides(new), strict=True))
