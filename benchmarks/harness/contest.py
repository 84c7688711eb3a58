"""One problem, checked and timed: ours from a `.tile` file, the peers, and a copy of the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import dsl

from .clocks import Clocks
from .intervals import Interval
from .launches import Call, facts_of
from .replay import replayed
from .rows import COPY, OURS, Row
from .timing import ROUNDS, LeftOut, copy_of, interleaved

Launch = Callable[[], object]


class Problem(Protocol):
    """An operation at one shape, with its arrays on the GPU. `name` stands in the tables; `moves` counts bytes, and
    `computes` operations: 0 where bytes are what matters.

    `error` launches on a poisoned output and gives its greatest error, which `bound` bounds.
    """

    name: str
    call: Call
    dtype: str
    shape: dict[str, int]
    bound: float

    @property
    def moves(self) -> int: ...

    @property
    def computes(self) -> int: ...

    @property
    def arguments(self) -> tuple[Any, ...]: ...

    def error(self, launch: Launch) -> float: ...


Peer = Callable[[Any], tuple[Launch, str]]
"""A peer's launch for a problem, and in words what it was tuned to. Raises LeftOut or ImportError."""


@dataclass(frozen=True, slots=True)
class Yardstick:
    """What a problem takes at least: its bytes if nothing is done with them, its products of operands at hand."""

    name: str
    launch: Callable[[Any], Launch]


A_COPY = Yardstick(COPY, lambda problem: copy_of(problem.moves))


@dataclass(slots=True)
class Contest:
    """Ours, from the first of `files` that has the dispatch, against peers by name; `rest` as in timing.interleaved.
    `replay`: variants that are timed in CUDA graphs, too. `left_out` tells what was not measured, and why."""

    files: Mapping[Path, dsl.Module]
    peers: Mapping[str, Peer]
    rounds: int = ROUNDS
    yardstick: Yardstick = A_COPY
    rest: float = 0.0
    replay: Sequence[str] = ()
    left_out: dict[str, list[str]] = field(default_factory=dict)

    def file_of(self, name: str) -> Path | None:
        """The file that has the dispatch; if there is none, that is noted."""
        for file, module in self.files.items():
            if name in module.program.dispatches:
                return file
        self.leave_out(f"no dispatch {name} in {', '.join(map(str, self.files))}", OURS)
        return None

    def leave_out(self, reason: str, where: str) -> None:
        places = self.left_out.setdefault(reason, [])
        if where not in places:
            places.append(where)

    def measure(self, problem: Problem) -> Row:
        """Every variant is checked, then all are timed in one interleaved run."""
        row = Row(problem.name, problem.dtype, problem.shape, problem.moves)
        row.bound, row.yardstick, row.computes = problem.bound, self.yardstick.name, problem.computes
        launches: dict[str, Launch] = {}
        if (file := self.file_of(problem.call.dispatch)) is not None:
            module = self.files[file]
            function = getattr(module, problem.call.dispatch)
            launches[OURS] = lambda: function(*problem.arguments, **problem.call.constants)
            row.launches = facts_of(module, problem.call, problem.arguments)
        where = " ".join([problem.name, problem.dtype, *(f"{name}={extent}" for name, extent in problem.shape.items())])
        for name, peer in self.peers.items():
            try:
                launches[name], row.notes[name] = peer(problem)
            except (LeftOut, ImportError) as reason:
                self.leave_out(f"{name}: {reason}", where)
        row.errors = {name: problem.error(launch) for name, launch in launches.items()}
        launches[self.yardstick.name] = self.yardstick.launch(problem)
        clocks = Clocks()
        measured = interleaved(launches, self.rounds, rest=self.rest, watch=clocks.read)
        row.times = {name: Interval.of(times) for name, times in measured.items()}
        row.clocks = clocks.interval
        graphs = replayed({name: launches[name] for name in self.replay if name in launches}, self.rounds)
        row.replayed = {name: Interval.of(times) for name, times in graphs.items()}
        return row
