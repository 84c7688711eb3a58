"""Devices that try points in parallel. Each device has one worker process, which an executor of `concurrent.futures`
runs."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import Any, Protocol

from dsl.lab.place import TuningPlace
from dsl.lab.provenance import versions
from dsl.lab.station import Batch
from dsl.lab.trial import Trial
from dsl.lab.worker import Answer, LaunchAtCase, answer, described, sent
from dsl.lowering.ir.location import TileError
from dsl.runtime.errors import LaunchError

MAX_DEVICES = 64
"""The limit of devices for one host. Each device has a process, and --devices with 5,000 names once started 5,000
processes."""


class Process(Protocol):
    """Runs functions one after another in a separate process, which owns a device."""

    def executor(self) -> Executor: ...

    def renew(self) -> None:
        """Replaces a process that died, or whose GPU became unusable."""

    def close(self, now: bool) -> None:
        """Ends the process after its queued tasks, or at once if `now` is set."""

    def is_dead(self, error: BaseException) -> bool:
        """Whether `error`, raised by a future, means that the process died."""


class OwnProcess:
    """A process of this host."""

    def __init__(self) -> None:
        self.start()

    def renew(self) -> None:
        self.close(now=True)
        self.start()

    def start(self) -> None:
        # spawn, since the CUDA driver does not survive a fork
        self.pool = ProcessPoolExecutor(1, get_context("spawn"), begin_worker)
        # The process may have to be killed, but an executor does not reveal the process ID.
        self.number = self.pool.submit(os.getpid)

    def executor(self) -> Executor:
        return self.pool

    def close(self, now: bool) -> None:
        # SIGTERM, since a launch on a GPU may never end, and the executor would wait for it.
        if now and self.number.done() and self.number.exception() is None:
            with suppress(ProcessLookupError):
                os.kill(self.number.result(), signal.SIGTERM)
        self.pool.shutdown(wait=not now, cancel_futures=True)

    def is_dead(self, error: BaseException) -> bool:
        return isinstance(error, BrokenExecutor)


def begin_worker() -> None:
    """Initializes a worker process. The worker ignores Ctrl-C, which the parent handles. The worker ends whenever its
    parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None

    # A killed parent cannot end its workers. The workers would keep the GPU.
    def watch() -> None:
        parent.join()
        os._exit(1)

    Thread(target=watch, daemon=True).start()


class Machine:
    """A device that is used by a separate process.

    `device` is the device's name in that process. `place` describes the device, and is set by `meet`. `first` is the
    future that returns this description.
    """

    def __init__(self, process: Process, device: str, first: Any = None):
        self.process, self.device = process, device
        self.first = first or process.executor().submit(described, device)
        self.place: TuningPlace

    def meet(self) -> None:
        """Waits until the process has described its device, and sets `place`.

        Raises a TileError if the process dies or has another compiler, and the errors of `find_place`.
        """
        try:
            self.place, theirs = self.first.result()
        except Exception as error:
            if not self.process.is_dead(error):
                raise
            raise TileError(
                "device", None, f"the process for {self.device} died before it had tried anything"
            ) from None
        # Another compiler makes other code. The times of this code would be wrong in the log.
        mine = versions()
        if theirs != mine:
            differ = sorted(name for name in mine.keys() | theirs if theirs.get(name) != mine[name])
            hint = "install the same project and packages where workers run"
            raise TileError("device", None, f"a worker differs in its versions: {', '.join(differ)}", hint)


class There:
    """A worker that tries points of one launch in another process."""

    def __init__(self, machine: Machine, launch: LaunchAtCase):
        self.machine, self.launch = machine, launch

    def submit(self, batch: Batch, settled: Callable[[int, Trial], None]) -> Future[Answer]:
        return self.machine.process.executor().submit(answer, self.launch, self.machine.device, sent(batch))

    def renew(self) -> None:
        self.machine.process.renew()

    def is_dead(self, error: BaseException) -> bool:
        return self.machine.process.is_dead(error)


class Machines:
    """All devices of a session, which are of one kind. On exit from the context manager, their processes end, after an
    error or Ctrl-C at once.

    `compiling` is an executor for compilation. If `compiling` is None, processes of this host compile. `leave` is
    called last.
    """

    def __init__(
        self, machines: Sequence[Machine], compiling: Executor | None = None, leave: Callable[[], None] = lambda: None
    ):
        self.all, self.compiling, self.leave = list(machines), compiling, leave

    def __enter__(self) -> Machines:
        try:
            for machine in self.all:
                machine.meet()
            self.check()
        # BaseException, since Ctrl-C must also end the workers.
        except BaseException:
            self.close(now=True)
            raise
        return self

    def check(self) -> None:
        """Raises a TileError for devices of several kinds, whose times cannot be compared."""
        kinds = {(machine.place.name, machine.place.driver) for machine in self.all}
        if len(kinds) > 1:
            named = ", ".join(sorted(f"{name} (driver {driver})" for name, driver in kinds))
            hint = "tune each kind by itself; --write keeps an entry for each"
            raise TileError("device", None, f"the devices are of several kinds: {named}", hint)

    @property
    def place(self) -> TuningPlace:
        return self.all[0].place

    def __exit__(self, kind: object, *error: object) -> None:
        self.close(now=kind is not None)

    def close(self, now: bool) -> None:
        for machine in self.all:
            machine.process.close(now)
        self.leave()


def device_names(text: str) -> list[str]:
    """Parses `--devices`: names separated by commas, or `all` for all GPUs that the driver reports. Raises TileError,
    LaunchError."""
    if text == "all":
        from dsl.runtime.backend import gpu_reason
        from dsl.runtime.cuda.driver import device_count

        if (reason := gpu_reason()) is not None:
            raise LaunchError("no-gpu", f"--devices all: {reason}")
        return [f"cuda:{ordinal}" for ordinal in range(device_count())]
    names = text.split(",")
    if len(names) > MAX_DEVICES:
        raise TileError("limit", None, f"--devices names {len(names)} devices; the limit is {MAX_DEVICES}")
    # Several emulators are separate processes, but a GPU named twice would disturb its own times.
    twice = [name for name in names if names.count(name) > 1 and name != "emulator"]
    if "" in names or twice:
        wrong = f"{twice[0]} is there twice" if twice else "a name is empty"
        raise TileError("option", None, f"'--devices {text}': {wrong}", "--devices cuda:0,cuda:1, or all")
    return names


def own_processes(devices: Sequence[str]) -> Machines:
    """Starts one process on this host for each device."""
    return Machines([Machine(OwnProcess(), device) for device in devices])
