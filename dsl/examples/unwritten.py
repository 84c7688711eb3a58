"""Tracks which arrays of an example have been written by launches. On the emulator, it also tracks each element of
arrays that `empty(…)` made. Elements that nothing has written have undefined values.

If a kernel reads unwritten elements, its arguments are probably swapped, or it adds to a sum that was never
initialised. An `expect` on unwritten elements compares nothing. An `expect` on numbers and inputs alone compares no
results either."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from dsl.lowering.ir.location import Loc, TileError
from dsl.text import tree as ast
from dsl.text.tree import names_in

if TYPE_CHECKING:
    from dsl.runtime.emulator.scratch import Scratch


def owner_of(value: Any) -> Any:
    """Returns the array that owns the memory of an array or view."""
    while hasattr(getattr(value, "base", None), "dtype"):  # an array, not another owner of memory
        value = value.base
    return value


def is_same(a: Any, b: Any) -> bool:
    """Returns whether two arrays are the same memory with the same shape, strides and type."""
    interfaces = [getattr(each, "__array_interface__", None) for each in (a, b)]
    keys = [each and (each["data"], each["shape"], each["strides"], each["typestr"]) for each in interfaces]
    return a is b or (keys[0] is not None and keys[0] == keys[1])


class EmptyArray(Struct):
    """An array that `empty` made. `scratch` is the emulator's record of its bytes. `is_written` is True if some launch
    writes the array."""

    array: weakref.ref[Any]
    scratch: Scratch | None = None
    is_written: bool = False


class EmptyArrays:
    """The tracked arrays of an example.

    `known` holds the arrays that `empty` made. `derived` maps the name of a value that was computed from an unwritten
    array to that array's name. `results` holds memory that launches have written, whether or not `empty` made it.
    `computed` holds names of values computed from results.

    `writes` is the number of writes so far. `bound` maps a name to the value of `writes` when the name was bound.
    `written` maps memory to the value of `writes` after the last write to it."""

    def __init__(self) -> None:
        self.known: dict[int, EmptyArray] = {}
        self.derived: dict[str, str] = {}
        self.results: dict[int, weakref.ref[Any]] = {}
        self.computed: set[str] = set()
        self.writes = 0
        self.bound: dict[str, int] = {}
        self.written: dict[int, int] = {}

    def add(self, array: Any) -> None:
        self.known[id(array)] = EmptyArray(weakref.ref(array))

    def find(self, value: Any) -> EmptyArray | None:
        """Returns the array from `empty` that owns a value's memory, or None. The value may be a view of this array."""
        while value is not None:
            found = self.known.get(id(value))
            # The array may have been deleted, and its id may now belong to another object.
            if found is not None and found.array() is value:
                return found
            value = getattr(value, "base", None)
        return None

    # ---- launches ----

    def tracked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arguments of a launch on the emulator. Arrays are wrapped so that the emulator finds reads of
        unwritten elements."""
        return {name: self._tracked(value) for name, value in given.items()}

    def _tracked(self, value: Any) -> Any:
        found = None if value is None else self.find(value)
        owner: Any = None if found is None else found.array()
        # The record covers all bytes of the array, starting with its first byte. Views are not tracked.
        if found is None or owner is not value or not owner.flags.c_contiguous:
            return value
        from dsl.runtime.emulator.scratch import Scratch
        from dsl.runtime.scratch import ScratchArray

        if found.scratch is None:
            found.scratch = Scratch(owner.nbytes, False, is_argument=True)
            found.scratch.begin()
        view: ScratchArray = owner.view(ScratchArray)
        view.scratch = found.scratch
        return view

    def wrote(self, values: Iterable[Any]) -> None:
        """Records that launches have written these arrays, or parts of them."""
        for value in values:
            if value is not None:
                owner = owner_of(value)
                self.results[id(owner)] = weakref.ref(owner)
                self.writes += 1
                self.written[id(owner)] = self.writes
            found = self.find(value)
            if found is not None:
                found.is_written = True
                if found.array() is not value:  # a view: it is not known which elements were written
                    found.scratch = None

    def wrote_all(self) -> None:
        """Records that unknown arrays have been written. All arrays then count as written."""
        for each in self.known.values():
            each.is_written = True
        self.derived.clear()

    # ---- lines ----

    def unwritten_in(self, nodes: Iterable[ast.Expr], names: Mapping[str, Any]) -> str | None:
        """Returns the name of an unwritten array that these expressions read, directly or through values computed from
        it. Returns None if there is no such array."""
        for name in sorted(set().union(*map(names_in, nodes))):
            if name in self.derived:
                return self.derived[name]
            found = self.find(names.get(name))
            if found is not None and not found.is_written:
                return name
        return None

    def is_result(self, nodes: Iterable[ast.Expr], names: Mapping[str, Any]) -> bool:
        """Returns whether these expressions read results of launches, or values computed from results."""
        return any(
            name in self.computed or self.is_written(names.get(name)) for name in set().union(*map(names_in, nodes))
        )

    def is_written(self, value: Any) -> bool:
        owner = owner_of(value)
        return id(owner) in self.results and self.results[id(owner)]() is owner

    def assigned(self, line: ast.Assign, names: Mapping[str, Any], source: str | None, is_result: bool) -> None:
        """Records the names that a line has bound. `source` is the name of an unwritten array from which their values
        were computed, or None. `is_result` is True if the values were computed from results of launches."""
        bound = [each.id for target in line.targets for each in ast.walk(target) if isinstance(each, ast.Name)]
        self.computed = self.computed.union(bound) if is_result else self.computed.difference(bound)
        for name in bound:
            self.derived.pop(name, None)
            self.bound[name] = self.writes
            value = names.get(name)
            if source is not None and hasattr(value, "dtype") and self.find(value) is None:
                self.derived[name] = source

    def check(self, nodes: Iterable[ast.Expr], names: Mapping[str, Any], loc: Loc) -> None:
        """Raises TileError for an `expect` that reads an unwritten array. Also raises it if two names refer to the same
        memory, and a launch has changed the memory since both were bound. Then the comparison would not see the old
        values."""
        name = self.unwritten_in(nodes, names)
        if name is not None:
            message = f"no launch has written '{name}', which empty(…) made: there is nothing to compare"
            raise TileError("expect", loc, message, "are the arguments of a launch in their order? outputs come first")
        read = [name for name in self.bound if name in set().union(*map(names_in, nodes))]
        for one, other in combinations(read, 2):
            if self.has_changed_with(names.get(one), names.get(other), max(self.bound[one], self.bound[other])):
                message = f"'{other}' is memory of '{one}', and a launch has written it since: the old values are gone"
                hint = "copy ahead of the launch: .to(TYPE) copies; parts, reshape, transpose, flat, broadcast do not"
                raise TileError("expect", loc, message, hint)

    def has_changed_with(self, one: Any, other: Any, bound: int) -> bool:
        """Returns whether two arrays share memory that a launch has written since the later array was bound."""
        owner = owner_of(other)
        if not self.is_written(owner) or owner_of(one) is not owner or self.written[id(owner)] <= bound:
            return False
        import numpy as np

        from dsl.runtime.arrays import MOST_TRIED

        try:
            # Views with strides may interleave without sharing an element, as q and k do in one packed array. Deciding
            # this is NP-hard in general, so the work is bounded.
            return bool(np.shares_memory(one, other, max_work=MOST_TRIED))  # type: ignore[arg-type]
        except np.exceptions.TooHardError:
            return bool(np.may_share_memory(one, other))
