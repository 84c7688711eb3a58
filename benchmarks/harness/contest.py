"""One problem, checked and timed: our kernels from a `.tile` file, the peers, and a copy of the same bytes."""

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
    """An operation at one shape, with its arrays on the GPU.

    `name` appears in the tables. `moves` counts bytes. `computes` counts operations, or is 0 if only bytes matter.
    `error` launches on a poisoned output and returns the greatest error of the result, which must not exceed `bound`.
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
"""Makes a peer's launch for a problem, and describes the peer's tuning in words. Raises LeftOut or ImportError."""


@dataclass(frozen=True, slots=True)
class Yardstick:
    """A lower limit of a problem's time. The launch only moves the problem's bytes, or only computes its products, from
    operands in registers."""

    name: str
    launch: Callable[[Any], Launch]


A_COPY = Yardstick(COPY, lambda problem: copy_of(problem.moves))


@dataclass(slots=True)
class Contest:
    """Measures our kernels against peers. Our kernels come from the first of `files` that has the problem's dispatch.

    `rest` is as in timing.interleaved. `replay` names variants that are also timed in CUDA graphs. `left_out` maps each
    reason for leaving out a variant to the problems at which it was left out.
    """

    files: Mapping[Path, dsl.Module]
    peers: Mapping[str, Peer]
    rounds: int = ROUNDS
    yardstick: Yardstick = A_COPY
    rest: float = 0.0
    replay: Sequence[str] = ()
    left_out: dict[str, list[str]] = field(default_factory=dict)

    def file_of(self, name: str) -> Path | None:
        """The file that has the dispatch `name`. A missing dispatch is added to `left_out`."""
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
        """Checks every variant, then times all variants in one interleaved run."""
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
