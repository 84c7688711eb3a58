"""The algebra of layouts against brute force over all places and elements."""

from __future__ import annotations

import doctest
from itertools import product
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsl.lowering.layouts import layout
from dsl.lowering.layouts.layout import BasisSpan, Layout, LayoutError, apply, bits_of
from tests.whole import draws

SHAPES = [(1,), (2,), (64,), (4, 8), (8, 1, 4), (2, 2, 2, 2), (16, 4), (1, 1)]
Thread = tuple[int, int]


@st.composite
def layouts(draw: st.DrawFn, shapes: list[tuple[int, ...]] = SHAPES, onto: bool = False, warps: int = 2) -> Layout:
    """Any bases at all; with `onto`, some of them together reach every element."""
    shape = draw(st.sampled_from(shapes))
    bits = bits_of(prod(shape))
    basis = st.integers(0, (1 << bits) - 1)
    lane = draw(st.lists(basis, min_size=5, max_size=5))
    warp = draw(st.lists(basis, min_size=warps, max_size=warps))
    register = draw(st.lists(basis, max_size=3))
    layout = Layout.registers(shape, register, lane, warp)
    if onto:
        span = BasisSpan(layout.flat)
        register += [1 << b for b in range(bits) if span.add(1 << b)]
        layout = Layout.registers(shape, register, lane, warp)
    return layout


@st.composite
def permutations(draw: st.DrawFn, shape: tuple[int, ...] = (8, 8)) -> Layout:
    """One place `offset` with a basis for every bit, invertible: a swizzle of any kind."""
    bits = bits_of(prod(shape))
    bases: list[int] = []
    span = BasisSpan()
    for _ in range(bits):
        basis = draw(st.integers(1, (1 << bits) - 1).filter(lambda b: b not in span))
        span.add(basis)
        bases.append(basis)
    return Layout(shape, (("offset", tuple(bases)),))


def places(layout: Layout) -> list[dict[str, int]]:
    """Every combination of places."""
    names = [n for n, _ in layout.places]
    return [dict(zip(names, at, strict=True)) for at in product(*(range(1 << len(b)) for _, b in layout.places))]


def held(layout: Layout) -> dict[Thread, list[int]]:
    """(lane, warp) → the element in each register."""
    threads = product(range(32), range(1 << len(layout.warp)))
    return {(l, w): [layout.place(register=r, lane=l, warp=w) for r in range(layout.count)] for l, w in threads}


def index(shape: tuple[int, ...], coordinates: tuple[int, ...]) -> int:
    out = 0
    for extent, c in zip(shape, coordinates, strict=True):
        out = out * extent + c
    return out


def test_examples_in_docstrings() -> None:
    assert doctest.testmod(layout) == (0, doctest.testmod(layout).attempted)
    assert doctest.testmod(layout).attempted >= 8


# ---- spans -------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 127), max_size=8), st.integers(0, 127))
def test_span_solves_exactly_what_it_contains(vectors: list[int], wanted: int) -> None:
    span = BasisSpan(vectors)
    reachable = {apply(vectors, choice) for choice in range(1 << len(vectors))}
    assert len(reachable) == 1 << span.rank
    combination = span.solve(wanted)
    assert (wanted in span) == (combination is not None) == (wanted in reachable)
    if combination is not None:
        assert apply(vectors, combination) == wanted


# ---- making --------------------------------------------------------------------------------------------------------


@given(st.data())
def test_blocked_puts_neighbours_in_vectors_then_lanes_then_warps(data: st.DataObject) -> None:
    """Coordinate by coordinate: the digit of each axis is vector + V·(lane + L·(warp + W·repeat))."""
    rank = data.draw(st.integers(1, 2))
    split = lambda total: data.draw(st.integers(0, total)) if rank == 2 else total  # noqa: E731
    lane_bits, warp_bits = split(5), split(2)
    lanes = (1 << lane_bits, 32 >> lane_bits)[:rank]
    warps = (1 << warp_bits, 4 >> warp_bits)[:rank]
    vector = tuple(1 << data.draw(st.integers(0, 2)) for _ in range(rank))
    shape = tuple(v << data.draw(st.integers(0, 4)) for v in vector)
    layout = Layout.blocked(shape, vector, lanes, warps)
    assert layout.invert() is not None
    for at in places(layout):
        got = layout.coordinates(layout.place(**at))
        rest = {
            "lane": at["lane"],
            "warp": at["warp"],
            "vector": at["register"],
            "more": at["register"] // prod(vector),
        }
        for axis in reversed(range(rank)):
            digit = unit = 0
            have = 1
            repeat = shape[axis] // min(shape[axis], vector[axis] * lanes[axis] * warps[axis])
            rows = (("vector", vector[axis]), ("lane", lanes[axis]), ("warp", warps[axis]), ("more", repeat))
            for name, extent in rows:
                unit, rest[name] = rest[name] % extent, rest[name] // extent
                room = min(extent, shape[axis] // have)
                digit += unit % room * have
                have *= room
            assert got[axis] == digit


@given(st.sampled_from(SHAPES), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4, 8]), st.data())
def test_default_reaches_every_element_and_orders_the_fast_axis(
    shape: tuple[int, ...], warps: int, vector: int, data: st.DataObject
) -> None:
    fast = data.draw(st.integers(-1, len(shape) - 1))
    layout = Layout.default(shape, warps, vector, fast)
    assert set(layout.offsets) | set(layout.flat) <= set(range(prod(shape)))
    assert {layout.place(**at) for at in places(layout)} == set(range(prod(shape)))
    assert len(layout.warp) == bits_of(warps)
    assert layout.vectors[fast % len(shape)] >= min(vector, shape[fast])


@pytest.mark.parametrize("extent", [0, 3, -4, 12])
def test_extents_are_powers_of_two(extent: int) -> None:
    with pytest.raises(LayoutError, match="no power of two"):
        Layout((extent,), ())


def test_a_basis_lies_in_the_tile_and_a_warp_has_32_lanes() -> None:
    with pytest.raises(LayoutError, match="outside a tile"):
        Layout((4,), (("register", (4,)),))
    with pytest.raises(LayoutError, match="32 lanes"):
        Layout.registers((4,), [], [1, 2], [])


# ---- reading ---------------------------------------------------------------------------------------------------------


@given(layouts())
def test_replicated_bits_change_nothing_and_no_more_can_be_cleared(layout: Layout) -> None:
    """Threads with all those bits 0 hold every element once as a set; clearing them keeps what a thread holds."""
    by_thread = held(layout)
    free = layout.replicated
    sets = {t: frozenset(e) for t, e in by_thread.items()}
    keepers = [(l, w) for l, w in sets if not l & free["lane"] and not w & free["warp"]]
    assert set(sets.values()) == {sets[t] for t in keepers}
    assert sum(len(sets[t]) for t in keepers) == len({e for t in keepers for e in sets[t]})
    assert layout.is_replicated == (len(keepers) < len(sets))


@given(layouts(), st.data())
def test_vector_counts_neighbours_in_the_first_registers(layout: Layout, data: st.DataObject) -> None:
    axis = data.draw(st.integers(0, len(layout.shape) - 1))
    stride = prod(layout.shape[axis + 1 :])

    def in_order(n: int) -> bool:
        """Every n registers of every thread, from a multiple of n on, go from a multiple of n up."""
        if n > min(layout.count, layout.shape[axis]):
            return False
        places = [layout.apply(i) for i in range(1 << len(layout.flat))]
        firsts = [p for i, p in enumerate(places) if i % n == 0]
        return all(layout.coordinates(p)[axis] % n == 0 for p in firsts) and all(
            p == firsts[i // n] + i % n * stride for i, p in enumerate(places)
        )

    width = layout.vectors[axis]
    assert in_order(width) and not in_order(2 * width)


@given(layouts(), st.data())
def test_pure_axes_move_apart_from_the_others(layout: Layout, data: st.DataObject) -> None:
    """The coordinate along a pure axis depends on bits that change no other coordinate."""
    axis = data.draw(st.integers(0, len(layout.shape) - 1))
    mixed = False
    for bit in range(len(layout.flat)):
        moved = layout.coordinates(layout.apply(1 << bit))
        mixed |= moved[axis] != 0 and any(c for i, c in enumerate(moved) if i != axis)
    assert layout.is_pure(axis) == (not mixed)


def test_ordered_axes_rise_through_registers_lanes_and_warps() -> None:
    assert Layout.blocked((128,), (2,), (32,), (2,)).is_ordered(0)
    assert not Layout.blocked((256,), (2,), (32,), (2,)).is_ordered(0)  # repeats after the warps
    assert not Layout.registers((4,), [2], [1, 0, 0, 0, 0], []).is_ordered(0)
    assert not Layout.registers((4, 4), [], [5, 2, 4, 8, 0], []).is_ordered(1)  # 5 moves along both axes


@given(layouts(shapes=[(64,)]))
def test_ordered_means_that_places_count_upwards(layout: Layout) -> None:
    """Walking registers, then lanes, then warps, copies aside, meets the elements in order."""
    met = [layout.apply(i) for i in range(1 << len(layout.flat))]
    firsts = list(dict.fromkeys(met))
    moving = [b for b in layout.flat if b]
    copies = len(moving) != len(set(moving))
    assert not layout.is_ordered(0) or (firsts == sorted(firsts) and not copies)


# ---- algebra ---------------------------------------------------------------------------------------------------------


@given(layouts(onto=True))
def test_a_place_after_the_inverse_is_the_element(layout: Layout) -> None:
    inverse = layout.invert()
    assert inverse.shape == (1 << len(layout.flat),)
    assert all(layout.apply(inverse.apply(e)) == e for e in range(prod(layout.shape)))


@given(permutations())
def test_the_inverse_of_a_permutation_inverts_both_ways(layout: Layout) -> None:
    inverse = layout.invert()
    assert all(inverse.apply(layout.apply(o)) == o for o in range(64))
    back = inverse.invert()
    assert all(back.apply(o) == layout.apply(o) for o in range(64))


@given(layouts())
def test_only_layouts_that_reach_every_element_have_an_inverse(layout: Layout) -> None:
    onto = {layout.apply(i) for i in range(1 << len(layout.flat))} == set(range(prod(layout.shape)))
    if onto:
        layout.invert()
    else:
        with pytest.raises(LayoutError, match="lies nowhere"):
            layout.invert()


@given(layouts(), st.booleans(), st.data())
def test_drop_forgets_one_coordinate(layout: Layout, keep: bool, data: st.DataObject) -> None:
    """Each thread holds the remaining coordinates of what it held, in as few registers as that takes."""
    axis = data.draw(st.integers(0, len(layout.shape) - 1))
    dropped = layout.drop(axis, keep)
    assert dropped.shape == (*layout.shape[:axis], *([1] if keep else []), *layout.shape[axis + 1 :])
    after = held(dropped)
    for thread, elements in held(layout).items():
        rest = set()
        for element in elements:
            c = layout.coordinates(element)
            rest.add(index(dropped.shape, (*c[:axis], *([0] if keep else []), *c[axis + 1 :])))
        assert set(after[thread]) == rest and len(after[thread]) == len(rest)


@given(layouts(shapes=[(4, 8), (16, 4), (64,), (2, 2, 2, 2)]), st.sampled_from(SHAPES))
def test_reshape_keeps_the_row_major_index(layout: Layout, shape: tuple[int, ...]) -> None:
    if prod(shape) != prod(layout.shape):
        with pytest.raises(LayoutError, match="cannot reshape"):
            layout.reshape(shape)
        return
    assert held(layout.reshape(shape)) == held(layout)
    assert layout.reshape(shape).reshape(layout.shape) == layout


@given(layouts(), st.data())
def test_transpose_permutes_coordinates(layout: Layout, data: st.DataObject) -> None:
    axes = tuple(data.draw(st.permutations(range(len(layout.shape)))))
    turned = layout.transpose(axes)
    for at in places(layout):
        before = layout.coordinates(layout.place(**at))
        assert turned.coordinates(turned.place(**at)) == tuple(before[a] for a in axes)
    assert turned.transpose(tuple(axes.index(i) for i in range(len(axes)))) == layout


@given(layouts(), st.sampled_from([1, 2, 4]), st.data())
def test_expand_adds_an_axis_in_new_registers(layout: Layout, extent: int, data: st.DataObject) -> None:
    axis = data.draw(st.integers(0, len(layout.shape)))
    wide = layout.expand(axis, extent, tuple(1 << i for i in range(bits_of(extent))))
    assert wide.shape == (*layout.shape[:axis], extent, *layout.shape[axis:])
    for at in places(wide):
        new, old = divmod(at["register"], layout.count)
        c = layout.coordinates(layout.place(**{**at, "register": old}))
        assert wide.coordinates(wide.place(**at)) == (*c[:axis], new, *c[axis:])


@st.composite
def relatives(draw: st.DrawFn) -> tuple[Layout, Layout]:
    """Two layouts with the same threads more often than not."""
    have = draw(layouts(shapes=[(4, 8), (16,)]))
    bits = bits_of(prod(have.shape))
    kind = draw(st.sampled_from(["registers", "threads", "any"]))
    if kind == "registers":
        pool = [apply(have.register, c) for c in range(have.count)]
        register = draw(st.lists(st.sampled_from(pool), max_size=3))
        return have, Layout.registers(have.shape, register, have.lane, have.warp)
    if kind == "threads":  # a lane's basis moved by what its registers hold
        lane = [b ^ apply(have.register, draw(st.integers(0, have.count - 1))) for b in have.lane]
        return have, Layout.registers(have.shape, have.register, lane, have.warp)
    register = draw(st.lists(st.integers(0, (1 << bits) - 1), max_size=3))
    return have, Layout.registers(have.shape, register, have.lane, have.warp)


@settings(max_examples=draws(200))
@given(relatives())
def test_registers_of_finds_each_element_in_its_own_thread(pair: tuple[Layout, Layout]) -> None:
    """One renaming of registers for all threads, where there is one."""
    have, wanted = pair
    mine, theirs = held(have), held(wanted)
    picked = have.registers_of(wanted)
    if picked is not None:
        assert all(theirs[t] == [mine[t][r] for r in picked] for t in mine)
        return

    def same(r: int, i: int) -> bool:
        return all(mine[t][r] == theirs[t][i] for t in mine)

    renamings = [{r for r in range(have.count) if same(r, i)} for i in range(wanted.count)]
    assert not all(renamings), "there is a renaming"


def test_text_shows_coordinates() -> None:
    assert str(Layout((4, 4), (("offset", (1, 5)),))) == "offset [[0, 1], [1, 1]]"
