"""The workers that try batches of one launch side by side, and how a batch is retried after its worker dies."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from typing import Any

from dsl.lab.compiling import ChangedError
from dsl.lab.station import Batch, Entrant
from dsl.lab.trial import Trial
from dsl.lab.worker import Answer, Worker


class Crew:
    """Workers, their running batches, and the batches that wait `ahead` of them.

    prepare: completes a batch just before a worker begins it; settled: gets the trials of a worker in this process,
    heard: those of other processes, with the point's index. moves: bytes that the launch moves, as a worker reports;
    None: unknown."""

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
        """Whether more batches should wait: one for each idle worker, and one more for every worker, whose code is
        compiled meanwhile."""
        return len(self.ahead) < len(self.workers) + len(self.idle())

    def turn(self) -> bool:
        """Starts waiting batches on idle workers, and handles the first that ends. False if none is running."""
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
        """Handles the end of a batch. If the point that poisoned the device is known, it is settled and the others are
        retried. If not, since the process died, halves of the batch are retried, until a point stands alone. Raises
        what a worker raises, and TileError if the file differs there."""
        error = future.exception()
        if isinstance(error, ChangedError):
            raise error.told()
        if error is not None and not worker.is_dead(error):
            raise error
        said = Answer({}, "the process that tried it died") if error else future.result()
        for index, trial in said.trials.items():
            self.heard(index, trial)
        self.moves = said.moves or self.moves
        # The other points have done nothing wrong, but their process is of no use any more.
        if said.poisoned is not None:
            worker.renew()
            self.again([each for each in batch.entrants if each.index not in said.trials], batch, said.poisoned)

    def again(self, rest: Sequence[Entrant], batch: Batch, fault: str) -> None:
        """Queues the unsettled part of a batch first. A single point of a batch is at fault, and fails."""
        # The point at fault is among the settled ones.
        if len(rest) < len(batch.entrants):
            if rest:
                self.ahead.appendleft(replace(batch, entrants=[*rest]))
        # Both halves, the first one in front: with 64 points at most 6 more tries of the point at fault.
        elif len(rest) > 1:
            middle = len(rest) // 2
            for part in (rest[middle:], rest[:middle]):
                self.ahead.appendleft(replace(batch, entrants=[*part], is_retried=True))
        else:
            trial = rest[0].trial
            trial.status, trial.reason = "failed", f"poisoned: {fault}"
            self.heard(rest[0].index, trial)
