"""Arrays of an example: which of them launches have written, and of those that `empty(…)` made, on the emulator, what
of them.

What stands where nothing has written is nobody's: a kernel that reads it has its arguments swapped, or adds to what was
never set; an `expect` over it compares nothing. Nor does one over numbers and inputs alone.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

from dsl.lowering.ir.location import Loc, TileError
from dsl.text import tree as ast
from dsl.text.tree import names_in

if TYPE_CHECKING:
    from dsl.runtime.emulator.scratch import Scratch


def owner_of(value: Any) -> Any:
    """The array whose memory an array is a part of."""
    while hasattr(getattr(value, "base", None), "dtype"):  # an array, not what lent it memory
        value = value.base
    return value


def is_same(a: Any, b: Any) -> bool:
    """Whether two arrays are the same memory, seen alike."""
    interfaces = [getattr(each, "__array_interface__", None) for each in (a, b)]
    keys = [each and (each["data"], each["shape"], each["strides"], each["typestr"]) for each in interfaces]
    return a is b or (keys[0] is not None and keys[0] == keys[1])


@dataclass(slots=True)
class EmptyArray:
    """One of them. scratch: what the emulator knows of its bytes; is_written: some launch writes it."""

    array: weakref.ref[Any]
    scratch: Scratch | None = None
    is_written: bool = False


class EmptyArrays:
    """Those of an example. derived: names of values that were computed of such as nothing has written, with the array's
    name; only they and the arrays themselves are known, not what a function keeps. results: memory that launches have
    written, made by `empty` or not; computed: names of values that were computed of it; bound: how many arrays had been
    written when a name was bound, written: and when the memory was, last."""

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
        """That whose memory an array is: the array itself, or what it is a view of."""
        while value is not None:
            found = self.known.get(id(value))
            if found is not None and found.array() is value:
                return found
            value = getattr(value, "base", None)
        return None

    # ---- launches ----

    def tracked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a launch on the emulator: it says where a kernel reads what nothing has written."""
        return {name: self._tracked(value) for name, value in given.items()}

    def _tracked(self, value: Any) -> Any:
        found = None if value is None else self.find(value)
        owner: Any = None if found is None else found.array()
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
        """Launches have written these arrays, or parts of them."""
        for value in values:
            if value is not None:
                owner = owner_of(value)
                self.results[id(owner)] = weakref.ref(owner)
                self.writes += 1
                self.written[id(owner)] = self.writes
            found = self.find(value)
            if found is not None:
                found.is_written = True
                if found.array() is not value:  # a view: which elements is not known
                    found.scratch = None

    def wrote_all(self) -> None:
        """Something has that does not say what."""
        for each in self.known.values():
            each.is_written = True
        self.derived.clear()

    # ---- lines ----

    def unwritten_in(self, nodes: Iterable[ast.Expr], names: Mapping[str, Any]) -> str | None:
        """The name of an array that these expressions read, or that what they read was computed of, though no launch
        has written it."""
        for name in sorted(set().union(*map(names_in, nodes))):
            if name in self.derived:
                return self.derived[name]
            found = self.find(names.get(name))
            if found is not None and not found.is_written:
                return name
        return None

    def is_result(self, nodes: Iterable[ast.Expr], names: Mapping[str, Any]) -> bool:
        """Whether these expressions read what launches have written, or what was computed of it."""
        return any(
            name in self.computed or self.is_written(names.get(name)) for name in set().union(*map(names_in, nodes))
        )

    def is_written(self, value: Any) -> bool:
        owner = owner_of(value)
        return id(owner) in self.results and self.results[id(owner)]() is owner

    def assigned(self, line: ast.Assign, names: Mapping[str, Any], source: str | None, is_result: bool) -> None:
        """A line has bound names, to something computed of the array `source`, if there is one, or to views of it.
        is_result: to something computed of what launches have written."""
        bound = {each.id for target in line.targets for each in ast.walk(target) if isinstance(each, ast.Name)}
        self.computed = self.computed | bound if is_result else self.computed - bound
        for target in line.targets:
            for each in ast.walk(target):
                if isinstance(each, ast.Name):
                    self.derived.pop(each.id, None)
                    self.bound[each.id] = self.writes
                    value = names.get(each.id)
                    if source is not None and hasattr(value, "dtype") and self.find(value) is None:
                        self.derived[each.id] = source

    def check(self, nodes: Iterable[ast.Expr], names: Mapping[str, Any], loc: Loc) -> None:
        """TileError where an `expect` reads what nothing has written."""
        name = self.unwritten_in(nodes, names)
        if name is not None:
            message = f"no launch has written '{name}', which empty(…) made: there is nothing to compare"
            raise TileError("expect", loc, message, "are the arguments of a launch in their order? outputs come first")
        read = [name for name in self.bound if name in set().union(*map(names_in, nodes))]
        for one, other in combinations(read, 2):
            if self.has_changed_with(names.get(one), names.get(other), self.bound[other]):
                message = f"'{other}' is memory of '{one}', and a launch has written it since: the old values are gone"
                hint = "copy ahead of the launch: .to(TYPE) copies; parts, reshape, transpose, flat, broadcast do not"
                raise TileError("expect", loc, message, hint)

    def has_changed_with(self, one: Any, other: Any, bound: int) -> bool:
        """Whether two arrays share memory that a launch has written since the later one was bound."""
        owner = owner_of(other)
        if not self.is_written(owner) or owner_of(one) is not owner or self.written[id(owner)] <= bound:
            return False
        import numpy as np

        from dsl.runtime.arrays import MOST_TRIED

        try:
            return bool(np.shares_memory(one, other, max_work=MOST_TRIED))  # type: ignore[arg-type]
        except np.exceptions.TooHardError:
            return bool(np.may_share_memory(one, other))
