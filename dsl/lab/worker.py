"""A station in another process, which may be on another host."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from dsl.examples.overrides import Overrides
from dsl.kernels.plugin_files import load_plugins
from dsl.lab.case import TuningCase
from dsl.lab.compiling import ChangedError, digest_of
from dsl.lab.place import TuningPlace, find_place
from dsl.lab.provenance import versions
from dsl.lab.runner import LazyCase, with_arguments
from dsl.lab.space import calls
from dsl.lab.station import Batch, Entrant, Station
from dsl.lab.trial import Trial
from dsl.runtime.errors import LASTING, DeviceError
from dsl.text.program import Program, load

POISONED = 3
"""The status of a process that ends since its device is poisoned."""


@dataclass(frozen=True, slots=True)
class LaunchAtCase:
    """What a station is for. file, digest: of the program, with plugins; example: its place among the file's; names,
    types, options: the case; call: the launch's place in the example; counters: as `Station` has it."""

    file: str
    digest: str
    example: int
    names: Mapping[str, Any]
    types: Mapping[str, str]
    options: Mapping[str, Any]
    call: int
    seed: int
    counters: bool
    plugins: Sequence[str] = ()


@dataclass(slots=True)
class Answer:
    """What a station did with a batch. trials: those that are settled, by the point's index; poisoned: the fault after
    which its process is of no use; moves: bytes of the launch, None if unknown."""

    trials: dict[int, Trial]
    poisoned: str | None = None
    moves: float | None = None


class Worker(Protocol):
    """Tries batches of one launch, one at a time."""

    def submit(self, batch: Batch, settled: Callable[[int, Trial], None]) -> Future[Answer]:
        """Begins a batch; `settled` gets the trials that are settled when this returns, the answer has the others."""
        ...

    def renew(self) -> None:
        """A fresh process, after one that died or whose device was poisoned."""
        ...

    def is_dead(self, error: BaseException) -> bool:
        """Whether a future has this error since the process died."""
        ...


class Here:
    """A station in this process: a poisoned device ends the command."""

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
    """A batch as it goes to another process: with the code of its points, for which it waits, and without plans."""

    def alone(each: Entrant) -> Entrant:
        return replace(each, code=partial(list, each.code()), plan=None)

    reference = None if batch.reference is None else alone(batch.reference)
    return replace(batch, entrants=[*map(alone, batch.entrants)], reference=reference)


# ---- there: in a process that has a device ----

_programs: dict[tuple[str, ...], Program] = {}
_cases: dict[str, LazyCase] = {}
_stations: dict[str, Station] = {}
"""Of this process. Of cases and stations the last alone: their arrays are large."""
_is_poisoned = False


def described(device: str) -> tuple[TuningPlace, dict[str, str]]:
    """The device of a process, and the versions of what decides trials."""
    return find_place(device), versions()


def answer(launch: LaunchAtCase, device: str, batch: Batch) -> Answer:
    """Tries a batch. Raises ChangedError where the file is not the one that is meant. A process whose device is
    poisoned ends: who gave it a batch gives that to another."""
    global _is_poisoned
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
    """That of a launch; the one before is dropped if it is another's, and so are the arrays of another case."""
    key = json.dumps([asdict(launch), device])
    if key not in _stations:
        _stations.clear()
        program, place = program_of(launch), find_place(device)
        example = program.examples[launch.example]
        overrides = Overrides(dict(launch.names), dict(launch.types), {}, dict(launch.options))
        case_key = json.dumps([asdict(replace(launch, call=0)), device])
        if case_key not in _cases:
            _cases.clear()
            _cases[case_key] = LazyCase(partial(TuningCase, program, example, overrides, place, launch.seed))
        case = _cases[case_key]
        call = with_arguments(calls(program, example, overrides, place)[launch.call], case)
        _stations[key] = Station(call, case, launch.seed, lambda trial: None)
        _stations[key].counters = launch.counters
    return _stations[key]


def program_of(launch: LaunchAtCase) -> Program:
    key = launch.file, launch.digest, *launch.plugins
    if key not in _programs:
        program = load(Path(launch.file), plugins=load_plugins(launch.plugins))
        if digest_of(program) != launch.digest:
            raise ChangedError(launch.file)
        _programs[key] = program
    return _programs[key]
