"""A station in another process: what is asked of it, and what it answers, are JSON; so it may be on another host."""

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
from dsl.lab.compiling import ChangedError, Made, digest_of
from dsl.lab.place import find_place
from dsl.lab.provenance import versions
from dsl.lab.runner import LazyCase, with_arguments
from dsl.lab.space import calls
from dsl.lab.station import Batch, Entrant, Station
from dsl.lab.trial import Trial, trial_of
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

    def submit(self, batch: Batch, settled: Callable[[int, Trial], None]) -> Future[Any]:
        """Begins a batch; `settled` gets the trials that are settled when this returns."""
        ...

    def heard(self, said: Any) -> Answer:
        """What such a future has."""
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

    def submit(self, batch: Batch, settled: Callable[[int, Trial], None]) -> Future[Any]:
        self.station.go(batch, settled)
        done: Future[Any] = Future()
        done.set_result(None)
        return done

    def heard(self, said: Any) -> Answer:
        return Answer({})

    def renew(self) -> None:
        raise NotImplementedError

    def is_dead(self, error: BaseException) -> bool:
        return False


# ---- here: what is asked and answered ----


def asked(launch: LaunchAtCase, device: str, batch: Batch) -> str:
    """A batch for the station of a launch at a device. Waits for the code of its points."""

    def record(each: Entrant) -> dict[str, Any]:
        return {"index": each.index, "trial": asdict(each.trial), "code": [asdict(made) for made in each.code()]}

    about = {"rungs": list(batch.rungs), "seconds": batch.seconds, "whole": batch.whole}
    reference = None if batch.reference is None else record(batch.reference)
    entrants = [record(each) for each in batch.entrants]
    return json.dumps(
        {"launch": asdict(launch), "device": device, **about, "reference": reference, "entrants": entrants}
    )


def answered(text: str) -> Answer:
    """What a station has answered."""
    record = json.loads(text)
    trials = {int(index): trial_of(trial) for index, trial in record.pop("trials").items()}
    return Answer(trials, **record)


# ---- there: in a process that has a device ----

_programs: dict[tuple[str, ...], Program] = {}
_cases: dict[str, LazyCase] = {}
_stations: dict[str, Station] = {}
"""Of this process. Of cases and stations the last alone: their arrays are large."""
_is_poisoned = False


def described(device: str) -> str:
    """The device of a process, and the versions of what decides trials."""
    return json.dumps({"place": asdict(find_place(device)), "versions": versions()})


def answer(text: str) -> str:
    """Tries a batch. Raises ChangedError where the file is not the one that is meant. A process whose device is
    poisoned ends: who gave it a batch gives that to another."""
    global _is_poisoned
    if _is_poisoned:
        os._exit(POISONED)
    record = json.loads(text)
    station = station_of(LaunchAtCase(**record["launch"]), record["device"])
    trials: dict[int, Trial] = {}
    said = Answer(trials)
    try:
        station.go(batch_of(record), trials.__setitem__)
    except DeviceError as fault:
        if fault.code not in LASTING:
            raise
        said.poisoned, _is_poisoned = fault.message, True
    said.moves = None if station.case.made is None else station.case.made.moves
    return json.dumps({**asdict(said), "trials": {index: asdict(trial) for index, trial in trials.items()}})


def batch_of(record: Mapping[str, Any]) -> Batch:
    def entrant(one: dict[str, Any]) -> Entrant:
        code = [Made(**made) for made in one["code"]]
        return Entrant(one["index"], trial_of(one["trial"]), lambda: code)

    reference = None if record["reference"] is None else entrant(record["reference"])
    entrants = [entrant(one) for one in record["entrants"]]
    return Batch(entrants, record["rungs"], reference, record["seconds"], record["whole"])


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
