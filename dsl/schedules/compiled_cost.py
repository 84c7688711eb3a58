"""Keeps the costs of a program as Python functions of the dims.

The first call with new extents evaluates the costs of all schedules that a launch names. Walking the text of those of
samples/matmul.tile takes 2 ms. So a cost is walked at its first evaluation only. At the second one, it becomes a
function for all dims (`traced_cost.py`), and later functions for the dims with which its conditions have the same
values (`special_cost.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct, field

from dsl.schedules.all_points import Evaluated
from dsl.schedules.definitions import Said
from dsl.schedules.properties import Setting
from dsl.schedules.special_cost import SpecialTracer
from dsl.schedules.traced_cost import Tracer
from dsl.text.program import Program
from dsl.values.written import NO_VALUE, RecordedNames, made_for

MOST_KEPT, MOST_OF_KEY = 256, 16
"""The greatest number of costs of a program, for the constants that a caller gives and the dims that are known. Each is
compiled for at most so many combinations of types and other facts that it reads."""
MOST_SPECIAL, BEFORE_SPECIAL = 16, 3
"""The greatest number of functions of a cost for values of its conditions, and the number of evaluations without one
before each. Making one takes 10 ms."""


class CostFunction(Struct, frozen=True):
    """A function from dims to a cost at all points. `sets` names the sets that it reads, in their order."""

    function: Callable[[Mapping[str, int]], Any]
    sets: Sequence[str]

    def __call__(self, dims: Mapping[str, int]) -> Evaluated | None:
        """Returns the cost at all points, or None if it has to be computed in another way."""
        try:
            found = self.function(dims)
        except NO_VALUE:
            return None  # the walk raises the error with its place
        if found is None:
            return None
        cost, shape, *parts = found
        values, places, numbers = (dict(zip(self.sets, each, strict=False)) for each in parts)
        return Evaluated(cost, shape, values, places, numbers)


class CompiledCost(Struct):
    """A compiled cost. `general` is None if the cost is not compiled. `facts` has the known names that it depends on,
    with their values. `kept` keeps alive what its key names by its address. `special` has the functions for values of
    its conditions, the last one that served first. `others` counts the evaluations since the last of them was made."""

    general: CostFunction | None
    facts: Sequence[tuple[str, Any]]
    kept: Any
    special: list[CostFunction] = field(default_factory=list)
    others: int = 0

    def __call__(self, dims: Mapping[str, int], make: Callable[[], CostFunction | None]) -> Evaluated | None:
        """Returns the cost at all points, or None if it has to be walked. `make` compiles a special function for these
        dims."""
        if self.general is None:
            return None
        with np.errstate(all="ignore"):
            for place, each in enumerate(self.special):
                if (found := each(dims)) is not None:
                    if place:
                        self.special.insert(0, self.special.pop(place))
                    return found
            self.others += 1
            if self.others > BEFORE_SPECIAL and len(self.special) < MOST_SPECIAL:
                self.others = 0
                if (made := make()) is not None:
                    self.special.insert(0, made)
            return self.general(dims)


class CompiledCosts:
    """The compiled costs of a program. A cost is walked at its first evaluation, and compiled at the second one."""

    def __init__(self, program: Program):
        self.program = program
        self.found: dict[Any, list[CompiledCost]] = {}  # an empty list for a cost that was walked once

    def evaluated(
        self, setting: Setting, said: Said, known: Mapping[str, Any], given: Mapping[str, Any], dims: Collection[str]
    ) -> Evaluated | None:
        """Returns the cost at all points, or None if it has to be walked."""
        extents = [name for name in dims if type(known.get(name)) is int]
        constants = [(name, type(value), value) for name, value in given.items()]
        key = id(setting.values[0]), id(said.definitions), *constants, *extents
        try:
            compiled = self.found.get(key)
        except TypeError:
            return None  # a value that is no constant: the walk or the compiler reports it
        if compiled is None:
            self.found[key] = []
            if len(self.found) > MOST_KEPT:
                self.found.pop(next(iter([*self.found])), None)
            return None

        def made(tracer: Tracer) -> CostFunction | None:
            tracer.broken = {*said.mistakes.broken}
            function = tracer.function(setting, extents)
            return None if function is None else CostFunction(function, [*tracer.sets])

        def special() -> CostFunction | None:
            now = {name: known[name] for name in extents}
            return made(SpecialTracer(self.program, {**known}, said.definitions, given, dims, now=now))

        if (found := made_for(known, compiled)) is not None:
            return found(known, special)
        names = RecordedNames(known)
        function = made(Tracer(self.program, names, said.definitions, given, dims))
        compiled.append(CompiledCost(function, names.facts(extents), (setting, said.definitions)))
        if len(compiled) > MOST_OF_KEY:
            del compiled[0]
        return compiled[-1](known, special)
