"""The server's side of the process that checks texts: starts it, sends jobs, and waits for answers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec import json

from dsl.editors.server.messages import CheckAnswer, Job

COMMAND = (sys.executable, "-m", "dsl.editors.server.check_process")
PATIENCE = 20.0
"""Seconds that a superseded check may take to end. It ends between two variants, of which the slowest take a second. If
it does not, it may be endless, and its process is replaced."""
LONGEST_LINE = 64 << 20


class Worker:
    """A process that is started at the first job, and again after it has died."""

    def __init__(self, command: Sequence[str] = COMMAND, log: Callable[[str], None] = lambda text: None):
        self.command, self.log = command, log
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._waiting: dict[int, asyncio.Future[CheckAnswer]] = {}
        self._checks: list[int] = []  # numbers of checks without an answer, in order
        self._starting = asyncio.Lock()
        self._finished = asyncio.Event()
        self._patience: asyncio.TimerHandle | None = None
        self.last = 0

    def number(self) -> int:
        self.last += 1
        return self.last

    async def ask(self, job: Job) -> CheckAnswer:
        """Sends a job and returns its answer. It is `superseded`, too, if the process has died."""
        async with self._starting:
            process = await self._running()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[CheckAnswer] = loop.create_future()
        self._waiting[job.number] = answer
        if job.kernel is None:
            if self._checks and self._patience is None:
                self._patience = loop.call_later(PATIENCE, self._replace, self._checks[0])
            self._checks.append(job.number)
        assert process.stdin is not None
        with suppress(ConnectionError):  # the reader finds that it has died
            process.stdin.write(json.encode(job) + b"\n")
            await process.stdin.drain()
        return await answer

    async def _running(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            pipe = asyncio.subprocess.PIPE
            # Its standard error is the server's, which editors show.
            self._process = await asyncio.create_subprocess_exec(
                *self.command, stdin=pipe, stdout=pipe, limit=LONGEST_LINE
            )
            self._reader = asyncio.create_task(self._read(self._process))
        return self._process

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            self._answered(json.decode(line, type=CheckAnswer))
        await process.wait()
        if self._process is process:
            self._process = None
            for number in [*self._waiting]:
                self._answered(CheckAnswer(number, superseded=True))

    def _answered(self, answer: CheckAnswer) -> None:
        if answer.number in self._checks:
            self._checks.remove(answer.number)
            self._finished.set()
            if self._patience is not None:
                self._patience.cancel()
                self._patience = None
        waiting = self._waiting.pop(answer.number, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)
        if answer.failure:
            self.log(answer.failure)

    def _replace(self, number: int) -> None:
        """Ends the process if it still does the check of this number."""
        self._patience = None
        if number in self._checks and self._process is not None:
            self.log(f"a check did not end in {PATIENCE:g} s: its process is replaced")
            self._process.kill()

    async def idle(self) -> None:
        """Waits until no check runs."""
        while self._checks:
            self._finished.clear()
            await self._finished.wait()

    async def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if self._reader is not None:
            await self._reader
        for number in [*self._waiting]:
            self._answered(CheckAnswer(number, superseded=True))
