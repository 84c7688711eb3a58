"""Workers that try a launch's points in parallel, in batches. If a worker dies, its batch is tried again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any

from msgspec.structs import replace

from dsl.lab.compiling import ChangedError
from dsl.lab.machines import There
from dsl.lab.station import Batch, Entrant
from dsl.lab.trial import Trial
from dsl.lab.worker import Answer, Here

Worker = Here | There
"""Tries batches of one launch, one at a time.

`submit` begins a batch. Its `settled` receives the trials that are final when the method returns. The answer holds all
other trials. `renew` replaces the process after it died or its device was poisoned. `is_dead` says whether a future
failed with an error because the process died.
"""


class Crew:
    """The workers, their running batches, and the queue `ahead` of batches that wait for a worker.

    `prepare` is called on a batch just before a worker begins it. `settled(index, trial)` is called for each point that
    a worker in this process has tried, and `heard(index, trial)` for each point that another process has tried. `moves`
    is the number of bytes that the launch moves, as a worker reported it, or None.
    """

    def __init__(
        self,
        workers: Sequence[Worker],
        prepare: Callable[[Batch], None],
        settled: Callable[[int, Trial], None],
        heard: Callable[[int, Trial], None],
    ):
        self.workers, self.prepare, self.settled, self.heard = workers, prepare, settled, heard
        self.ahead: deque[Batch] = deque()
        self.running: dict[Future[Any], tuple[Worker, Batch]] = {}
        self.moves: float | None = None

    def idle(self) -> list[Worker]:
        busy = [worker for worker, _ in self.running.values()]
        return [worker for worker in self.workers if worker not in busy]

    @property
    def wants(self) -> bool:
        """Whether more batches should be queued.

        The queue should contain one batch for each idle worker, and one more for every worker. Queued batches are
        compiled while the workers run.
        """
        return len(self.ahead) < len(self.workers) + len(self.idle())

    def turn(self) -> bool:
        """Starts queued batches on idle workers. Then waits until a batch ends, and handles its results. Returns False
        if no batch is running."""
        for worker in self.idle():
            if self.ahead:
                batch = self.ahead.popleft()
                self.prepare(batch)
                self.running[worker.submit(batch, self.settled)] = worker, batch
        if not self.running:
            return False
        done, _ = wait(self.running, return_when=FIRST_COMPLETED)
        for future in done:
            self.end(*self.running.pop(future), future)
        return True

    def end(self, worker: Worker, batch: Batch, future: Future[Any]) -> None:
        """Handles the results of a batch.

        If a point made the GPU unusable, the remaining points are tried again. If the process died, the point at fault
        is unknown. Then halves of the batch are tried again, until a single point is left. Raises the errors of a
        worker, and a TileError if the file differs on the worker.
        """
        error = future.exception()
        if isinstance(error, ChangedError):
            raise error.told()
        if error is not None and not worker.is_dead(error):
            raise error
        said = Answer({}, "the process that tried it died") if error else future.result()
        for index, trial in said.trials.items():
            self.heard(index, trial)
        self.moves = said.moves or self.moves
        # The other points are not at fault, but the worker's process is unusable from now on.
        if said.poisoned is not None:
            worker.renew()
            self.again([each for each in batch.entrants if each.index not in said.trials], batch, said.poisoned)

    def again(self, rest: Sequence[Entrant], batch: Batch, fault: str) -> None:
        """Queues the points `rest`, which have no result, ahead of all other batches. If the batch had only one point,
        this point is at fault and its trial fails."""
        # If some points are settled, the point at fault is among the settled points.
        if len(rest) < len(batch.entrants):
            if rest:
                self.ahead.appendleft(replace(batch, entrants=[*rest]))
        # Queues both halves, the first half in front. With 64 points, the point at fault is tried at most 6 more times.
        elif len(rest) > 1:
            middle = len(rest) // 2
            for part in (rest[middle:], rest[:middle]):
                self.ahead.appendleft(replace(batch, entrants=[*part], is_retried=True))
        else:
            trial = rest[0].trial
            trial.status, trial.reason = "failed", f"poisoned: {fault}"
            self.heard(rest[0].index, trial)
