"""The workers that try batches of one launch, side by side, and what becomes of a batch whose worker dies."""

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
    """Workers, what they are at, and the batches that are `ahead` of them.

    prepare: completes a batch when a worker is about to begin it; settled: gets the trials of a worker in this process,
    heard: those of others, with the point's index. moves: bytes of the launch, as a worker says, None if unknown.
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
        """Whether more should be ahead: for each idle worker a batch, and one more for every worker, whose code is
        compiled meanwhile."""
        return len(self.ahead) < len(self.workers) + len(self.idle())

    def turn(self) -> bool:
        """Idle workers begin what is ahead, and the first that ends is heard; False where none is at work."""
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
        """What a worker says of its batch. Where its device was poisoned, the point that did it is settled, and the
        others are tried anew. Where nobody knows which it was, as when the process died, halves of the batch are, until
        a point stands alone. Raises what a worker raises, and TileError where the file is another one there."""
        error = future.exception()
        if isinstance(error, ChangedError):
            raise error.told()
        if error is not None and not worker.is_dead(error):
            raise error
        said = Answer({}, "the process that tried it died") if error else future.result()
        for index, trial in said.trials.items():
            self.heard(index, trial)
        self.moves = said.moves or self.moves
        if said.poisoned is not None:
            worker.renew()
            self.again([each for each in batch.entrants if each.index not in said.trials], batch, said.poisoned)

    def again(self, rest: Sequence[Entrant], batch: Batch, fault: str) -> None:
        """Puts what is not settled of a batch in front; a point that nothing else can have done it fails."""
        if len(rest) < len(batch.entrants):
            if rest:
                self.ahead.appendleft(replace(batch, entrants=[*rest]))
        elif len(rest) > 1:
            middle = len(rest) // 2
            for part in (rest[middle:], rest[:middle]):
                self.ahead.appendleft(replace(batch, entrants=[*part], is_retried=True))
        else:
            trial = rest[0].trial
            trial.status, trial.reason = "failed", f"poisoned: {fault}"
            self.heard(rest[0].index, trial)
