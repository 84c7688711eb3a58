"""The process that checks whole texts. It reads jobs from its standard input, a JSON line each, and answers on its
standard output.

It is a process of its own because a check computes for seconds, and the server must answer meanwhile. It lives as long
as the server, so a check finds what earlier checks have kept (docs/cache.md). Between two variants it looks for a newer
job. If that is a check, it ends the one that runs. If it asks about a kernel, it is answered first.
"""

from __future__ import annotations

import gc
import os
import sys
import time
import traceback
from collections import deque
from pathlib import Path
from threading import Condition, Thread
from typing import BinaryIO

from msgspec import json
from msgspec.structs import replace

from dsl.editors.server.chosen import kernels_seen, shown_of
from dsl.editors.server.messages import CheckAnswer, Job, TextPlaces
from dsl.lowering.ir.location import TileError
from dsl.studies.check import check_text


class Superseded(Exception):
    """A newer check waits."""


class CheckProcess:
    def __init__(self, source: BinaryIO, sink: BinaryIO):
        self.source, self.sink = source, sink
        self.jobs: deque[Job] = deque()
        self.ended = False
        self.changed = Condition()

    def run(self) -> None:
        Thread(target=self._read, daemon=True).start()
        while (job := self._next()) is not None:
            self._do(job)

    def _read(self) -> None:
        for line in self.source:
            job = json.decode(line, type=Job)
            with self.changed:
                self.jobs.append(job)
                self.changed.notify()
        with self.changed:
            self.ended = True
            self.changed.notify()

    def _next(self) -> Job | None:
        with self.changed:
            self.changed.wait_for(lambda: self.jobs or self.ended)
            return self.jobs.popleft() if self.jobs else None

    def _do(self, job: Job) -> None:
        # Also when the job was not begun: a newer check waits behind it.
        if job.kernel is None and self._is_superseded():
            self._answer(CheckAnswer(job.number, superseded=True))
            return
        began = time.perf_counter()
        try:
            answer = self._checked(job) if job.kernel is None else kernels_seen(job)
        except Superseded:
            answer = CheckAnswer(job.number, superseded=True)
        except TileError:
            answer = CheckAnswer(job.number)  # the kernel has mistakes, which the check reports
        except Exception:
            answer = CheckAnswer(job.number, failure=traceback.format_exc())
        self._answer(replace(answer, seconds=time.perf_counter() - began))

    def _checked(self, job: Job) -> CheckAnswer:
        texts = {Path(path): text for path, text in job.texts.items()}
        found = check_text(job.text, None if job.path is None else Path(job.path), texts=texts, proceed=self._proceed)
        told = TextPlaces(job.encoding).all_told(found.sorted(), found.notes)
        shown = () if found.program is None else shown_of(found.program, found.planned, job.encoding)
        return CheckAnswer(job.number, told=told, shown=shown, variants=found.variants)

    def _proceed(self) -> None:
        if self._is_superseded():
            raise Superseded
        # What somebody looks at now comes first.
        while (job := self._asked()) is not None:
            self._do(job)

    def _is_superseded(self) -> bool:
        with self.changed:
            return self.ended or any(job.kernel is None for job in self.jobs)

    def _asked(self) -> Job | None:
        with self.changed:
            return self.jobs.popleft() if self.jobs and self.jobs[0].kernel is not None else None

    def _answer(self, answer: CheckAnswer) -> None:
        self.sink.write(json.encode(answer) + b"\n")
        self.sink.flush()


def main() -> None:
    gc.set_threshold(100_000)  # as in `dsl check`
    # What anything prints must not get into the answers.
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    CheckProcess(sys.stdin.buffer, sink).run()


if __name__ == "__main__":
    main()
