"""Emits wide accesses whose mask may be on for only some elements, for example at the ends of unaligned rows.

A thread first tests the mask only at the ends of its contiguous elements. If it is on there, it is on for all elements
of the thread. Otherwise, the thread tests each wide access. It accesses elements one by one if the mask is on for only
some of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import chain

from dsl.lowering.emit.access import AccessAddress, access_name, guard
from dsl.lowering.emit.accesses import Way
from dsl.lowering.emit.masks import Flags, anew, ends, span
from dsl.lowering.emit.shifted import inside, shifted_words
from dsl.lowering.emit.words import count_of, layout_of
from dsl.lowering.emit.writer import Writer
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.layouts.layout import Layout
from dsl.lowering.ops import space_of


def whole_flags(w: Writer, mask: Value) -> Flags:
    """Returns the flags that a thread tests first. If all of them are on, the mask is on for all elements of the
    thread."""
    count, step = count_of(mask), span(w, mask, layout_of(mask))
    return [f for first in range(0, count, step) for f in ends(w, mask, first, first + step - 1).all]


def _all(w: Writer, flags: list[str]) -> str:
    return reduce(lambda a, b: w.let(f"and i1 {a}, {b}"), dict.fromkeys(flags))


def _any(w: Writer, flags: list[str]) -> str:
    return reduce(lambda a, b: w.let(f"or i1 {a}, {b}"), flags)


class _Access:
    """One wide access. Its first element is in register `first`.

    The constructor emits two flags of type i1. If `chosen` is off, both flags are off.
    `whole`: True if the mask is on for all elements, and the flags in `fits` are on.
    `cut`: True if the mask may be on for some elements, but is not on for all.
    """

    def __init__(self, w: Writer, mask: Value, first: int, width: int, chosen: str | None, fits: list[str]):
        self.first, self.elements = first, range(first, first + width)
        at, mine = ends(w, mask, first, first + width - 1), [] if chosen is None else [chosen]
        self.whole = _all(w, [*(anew(w, v, [r])[0] for v, r in at.all), *mine, *fits])
        not_whole = w.let(f"xor i1 {self.whole}, true")
        self.cut = _all(w, [not_whole, *(anew(w, v, [r])[0] for v, r in at.some), *mine])


def _in_parts(
    w: Writer,
    mask: Value,
    width: int,
    layout: Layout | None,
    whole: Callable[[int], list[str]],
    guarded: Callable[[_Access], list[str]],
    elements: Callable[[_Access, list[str]], list[str]],
    kind: str = "i32",
    fits: Callable[[int], list[str]] = lambda first: [],
) -> list[list[str]]:
    """Emits accesses of `width` elements under a mask. Returns the result registers of each access, of type `kind`.

    The first block runs if the mask is on for all elements. It contains `whole(first register)` for each access,
    without branches between them, so that loads are in flight together. The second block contains `guarded(access)` for
    each access, predicated on `access.whole`. Then it contains `elements(access, masks)` for each access, in a branch
    that is taken if `access.cut` is on.
    `layout`: the layout of a stored value. If several threads hold the same element, one of them stores it.
    `fits(first register)`: flags that are on if an access can be done whole. By default, each can.
    """
    firsts = range(0, count_of(mask), width)
    label, part, cut, done = (w.fresh_label(s) for s in ("whole", "part", "cut", "done"))
    # One test covers all accesses of a thread, because most threads have no partial access.
    possible = {first: fits(first) for first in firsts}
    every = _all(w, [*(w.registers[v][r] for v, r in whole_flags(w, mask)), *chain(*possible.values())])
    if layout is not None:
        every = guard(w, every, layout) or every
    w.do(f"br i1 {every}, label %{label}, label %{part}")
    w.start(label)
    plain = [whole(first) for first in firsts]
    w.do(f"br label %{done}")
    with w.text.aside(part):
        chosen = None if layout is None else w.head.chosen(layout)
        accesses = [_Access(w, mask, first, width, chosen, possible[first]) for first in firsts]
        some = [guarded(a) for a in accesses]
        w.do(f"br i1 {_any(w, [a.cut for a in accesses])}, label %{cut}, label %{done}")
        w.start(cut)
        mended = []
        for a, registers in zip(accesses, some, strict=True):
            before, inside, behind = w.text.label, w.fresh_label("elements"), w.fresh_label("mended")
            w.do(f"br i1 {a.cut}, label %{inside}, label %{behind}")
            w.start(inside)
            single = elements(a, anew(w, mask, a.elements))
            w.do(f"br label %{behind}")
            w.start(behind)
            mended.append(_phis(w, kind, [(single, inside), (registers, before)]))
        last = w.text.label
        w.do(f"br label %{done}")
    w.start(done)
    ways = zip(plain, some, mended, strict=True)
    return [_phis(w, kind, [(a, label), (b, part), (c, last)]) for a, b, c in ways]


def _phis(w: Writer, kind: str, ways: list[tuple[list[str], str]]) -> list[str]:
    return [
        w.let(f"phi {kind} " + ", ".join(f"[ {r}, %{label} ]" for r, (_, label) in zip(column, ways, strict=True)))
        for column in zip(*(registers for registers, _ in ways), strict=True)
    ]


def load_partly(w: Writer, op: Op, address: AccessAddress, mask: Value, fill: list[str], width: int) -> list[str]:
    """Emits a load under a mask, and returns the elements. Elements whose mask is off are taken from `fill`."""
    dtype, space = op.result.dtype, space_of(op.operands[0])
    name, single = (access_name(op, "ld", space, n, dtype.bytes) for n in (width, 1))
    places = [address.of(first) if first % width == 0 else "" for first in range(len(fill))]
    shifted = w.accesses[op].shifted

    def whole(first: int) -> list[str]:
        return shifted_words(w, op, places[first], width) if shifted else w.template(name, [places[first]], op)

    def guarded(a: _Access) -> list[str]:
        nothing = w.words.pack([fill[e] for e in a.elements], dtype)
        if shifted:
            words = shifted_words(w, op, places[a.first], width, a.whole)
            both = zip(words, nothing, strict=True)
            return [w.let(f"select i1 {a.whole}, i32 {word}, i32 {other}") for word, other in both]
        return w.template("@" + name, [*nothing, places[a.first], a.whole], op)

    def elements(a: _Access, masks: list[str]) -> list[str]:
        out = []
        for k, on in enumerate(masks):
            inputs = [*w.words.pack([fill[a.first + k]], dtype), address.behind(places[a.first], k), on]
            out += w.words.unpack(w.template("@" + single, inputs, op), dtype, 1)
        return w.words.pack(out, dtype)

    fits = lambda first: inside(w, op, places[first]) if shifted else []  # noqa: E731
    kind = "i64" if dtype.bytes == 8 else "i16" if width * dtype.bytes <= 2 else "i32"
    registers = _in_parts(w, mask, width, None, whole, guarded, elements, kind, fits)
    return [e for r in registers for e in w.words.unpack(r, dtype, width)]


def store_partly(w: Writer, op: Op, address: AccessAddress, mask: Value, value: Value, width: int) -> None:
    """Emits a store of the elements whose mask is on."""
    dtype, space, data = value.dtype, space_of(op.operands[0]), w.registers[value]
    name, single = (access_name(op, "st", space, n, dtype.bytes) for n in (width, 1))
    firsts = range(0, len(data), width)
    inputs = {first: [address.of(first), *w.words.pack(data[first : first + width], dtype)] for first in firsts}

    def elements(a: _Access, masks: list[str]) -> list[str]:
        for k, on in enumerate(masks):
            place = address.behind(inputs[a.first][0], k)
            w.template("@" + single, [place, *w.words.pack([data[a.first + k]], dtype), on], op)
        return []

    whole = lambda first: w.template(name, inputs[first], op)  # noqa: E731
    guarded = lambda a: w.template("@" + name, [*inputs[a.first], a.whole], op)  # noqa: E731
    _in_parts(w, mask, width, value.tile.layout, whole, guarded, elements)


def source_bytes(w: Writer, op: Op, mask: Value, way: Way) -> list[str]:
    """Returns the number of bytes that each asynchronous copy reads. A copy reads the elements whose mask is on, which
    come before the other elements."""
    size, width = op.operands[0].dtype.bytes, way.width

    def added(masks: list[str]) -> str:
        bytes = [w.let(f"select i1 {on}, i32 {size}, i32 0") for on in masks]
        return reduce(lambda x, y: w.let(f"add i32 {x}, {y}"), bytes)

    if not way.branches:
        flags = w.registers[mask]
        return [added(flags[first : first + width]) for first in range(0, len(flags), width)]
    whole = lambda first: [str(width * size)]  # noqa: E731
    guarded = lambda a: [w.let(f"select i1 {a.whole}, i32 {width * size}, i32 0")]  # noqa: E731
    return [count for (count,) in _in_parts(w, mask, width, None, whole, guarded, lambda a, masks: [added(masks)])]
