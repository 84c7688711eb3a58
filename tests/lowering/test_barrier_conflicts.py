"""Whether accesses of two threads meet: the barrier pass's algebra against enumerating every thread and register."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from dsl.lowering.ir.function import Value
from dsl.lowering.ir.types import F32, SharedType
from dsl.lowering.known.affine import Affine
from dsl.lowering.layouts.layout import Layout
from dsl.lowering.passes.barriers.threads import images, owners, scope_by_algebra
from dsl.lowering.passes.barriers.touches import Touch
from tests.whole import draws

MEMORY = Value(SharedType((4096,), F32), name="s")
WARPS = 4


@st.composite
def touches(draw: st.DrawFn, shape: tuple[int, ...], coefficients: tuple[int, ...]) -> Touch:
    """An access of a random layout in which every element lies somewhere."""
    size = 1
    for extent in shape:
        size *= extent
    bits = size.bit_length() - 1
    order: list[int] = draw(st.permutations([1 << i for i in range(bits)]))
    lanes = draw(st.integers(0, min(5, bits)))
    warps = draw(st.integers(0, min(2, bits - lanes)))
    lane = draw(st.permutations([*order[:lanes], *[0] * (5 - lanes)]))
    warp = draw(st.permutations([*order[lanes : lanes + warps], *[0] * (2 - warps)]))
    register = order[lanes + warps :]
    if register and draw(st.booleans()):  # a lane's or warp's copy of what a register holds too
        lane = [b or draw(st.sampled_from([0, register[0]])) for b in lane]
    layout = Layout.registers(shape, register, lane, warp)
    affine = Affine(coefficients, (), draw(st.sampled_from([0, 0, 64])))
    is_write = draw(st.booleans())
    return Touch(MEMORY, is_write, None, affine, layout, one_thread=is_write)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Touch, Touch]:
    formulas = st.sampled_from(
        [((8, 16), (16, 1)), ((16, 8), (1, 16)), ((8, 16), (20, 1)), ((8, 16), (0, 1)), ((64,), (1,))]
    )
    return tuple(draw(touches(*draw(formulas))) for _ in range(2))  # type: ignore[return-value]


def enumerated(a: Touch, b: Touch) -> str | None:
    mine, theirs = owners(a, WARPS), owners(b, WARPS)
    met = {(s, t) for offset in mine.keys() & theirs.keys() for s in mine[offset] for t in theirs[offset] if s != t}
    if not met:
        return None
    return "block" if any(s >> 5 != t >> 5 for s, t in met) else "warp"


@settings(max_examples=draws(150))
@given(pairs())
def test_algebra_equals_enumeration(pair: tuple[Touch, Touch]) -> None:
    both = images(*pair)
    if both is not None:
        assert scope_by_algebra(both) == enumerated(*pair)


def test_owners_hold_each_element_once_where_a_store_is_replicated() -> None:
    layout = Layout.blocked((32,), (1,), (32,), (4,))
    touch = Touch(MEMORY, True, None, Affine((1,), (), 0), layout, one_thread=True)
    assert owners(touch, WARPS) == {i: [i] for i in range(32)}


def test_padded_rows_are_compared_by_element() -> None:
    """A pitch of 20 carries; the same formula on both sides is still decided without enumerating."""
    layout = Layout.blocked((8, 16), (1, 1), (2, 16), (4, 1))
    touch = Touch(MEMORY, True, None, Affine((20, 1), (), 0), layout, one_thread=True)
    both = images(touch, touch)
    assert both is not None and scope_by_algebra(both) is None
