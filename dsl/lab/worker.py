"""Runs a station in another process, possibly on another host."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from dsl.examples.overrides import Overrides
from dsl.lab.case import TuningCase
from dsl.lab.compiling import Task, program_of
from dsl.lab.place import TuningPlace, find_place
from dsl.lab.provenance import versions
from dsl.lab.runner import LazyCase, with_arguments
from dsl.lab.space import SpaceChoice, calls
from dsl.lab.station import Batch, Entrant, Station
from dsl.lab.trial import Trial
from dsl.runtime.errors import LASTING, DeviceError

POISONED = 3
"""The exit status of a process that ends because its device is poisoned."""


class LaunchAtCase(Struct, frozen=True):
    """Describes a launch to a station in another process.

    `task` identifies the program with its plug-ins. `example` is the example's position in the file. `overrides`
    contains the example's values. `call` is the launch's position in the example. `counters` is as in `Station`, and
    `choice` as in `TuningCase`.
    """

    task: Task
    example: int
    overrides: Overrides
    call: int
    seed: int
    counters: bool
    choice: SpaceChoice


class Answer(Struct):
    """The results of a batch, which a station returns to the tuner.

    `trials` maps indices of points to completed trials. `poisoned` is the message of a fault that made the station's
    process unusable, or None. `moves` is the number of bytes that the launch moves, or None if unknown.
    """

    trials: dict[int, Trial]
    poisoned: str | None = None
    moves: float | None = None


class Here:
    """A worker whose station is in this process. A fault that makes the GPU unusable ends the command."""

    def __init__(self, station: Station):
        self.station = station

    def submit(self, batch: Batch, settled: Callable[[int, Trial], None]) -> Future[Answer]:
        self.station.go(batch, settled)
        done: Future[Answer] = Future()
        done.set_result(Answer({}))
        return done

    def renew(self) -> None:
        raise NotImplementedError

    def is_dead(self, error: BaseException) -> bool:
        return False


# ---- here ----


def sent(batch: Batch) -> Batch:
    """A batch that can be sent to another process. Waits until the code of all points is compiled, and drops their
    plans."""

    def alone(each: Entrant) -> Entrant:
        return replace(each, code=partial(list, each.code()), plan=None)

    reference = None if batch.reference is None else alone(batch.reference)
    return replace(batch, entrants=[*map(alone, batch.entrants)], reference=reference)


# ---- there: in a process that has a device ----

_cases: dict[str, LazyCase] = {}
_stations: dict[str, Station] = {}
"""State of this process. Only the last case and station are kept, since their arrays are large."""
_is_poisoned = False


def described(device: str) -> tuple[TuningPlace, dict[str, str]]:
    """The device of this process, and the versions that a trial depends on."""
    return find_place(device), versions()


def answer(launch: LaunchAtCase, device: str, batch: Batch) -> Answer:
    """Tries a batch, called in the worker process. Raises ChangedError if the `.tile` file differs from the caller's.

    If the GPU of this process became unusable in an earlier batch, the process exits. The batch is then given to
    another process.
    """
    global _is_poisoned
    # With Dask, a task may reach a poisoned process before the tuner knows. When this process exits, the scheduler
    # starts another process.
    if _is_poisoned:
        os._exit(POISONED)
    station, said = station_of(launch, device), Answer({})
    try:
        station.go(batch, said.trials.__setitem__)
    except DeviceError as fault:
        if fault.code not in LASTING:
            raise
        said.poisoned, _is_poisoned = fault.message, True
    said.moves = None if station.case.made is None else station.case.made.moves
    return said


def station_of(launch: LaunchAtCase, device: str) -> Station:
    """The station for a launch. Keeps only the last station, and the arrays of the last case."""
    key = json.dumps([to_builtins(launch), device])
    if key not in _stations:
        _stations.clear()
        program, place = program_of(launch.task), find_place(device)
        example, overrides = program.examples[launch.example], launch.overrides
        about = program, example, overrides, place, launch.seed, launch.choice
        # All launches of an example share its arrays.
        case_key = json.dumps([to_builtins(replace(launch, call=0)), device])
        if case_key not in _cases:
            _cases.clear()
            _cases[case_key] = LazyCase(partial(TuningCase, *about))
        case = _cases[case_key]
        call = with_arguments(calls(program, example, overrides, place)[launch.call], case)
        _stations[key] = Station(call, case, launch.seed, lambda trial: None, launch.counters)
    return _stations[key]
