"""Variants compiled in other processes: text to PTX, and where `ptxas` is asked for, registers and spills."""

from __future__ import annotations

import signal
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from types import TracebackType
from typing import Any

from dsl.kernels.variant import Request
from dsl.kernels.variants import request_key
from dsl.text.program import Program, load
from lowering.location import TileError


@dataclass(frozen=True, slots=True)
class Made:
    """A compiled variant, or why there is none: `ptx` or `error`. registers, spills: of a thread, in bytes the latter;
    None where ptxas was not asked or is not installed. entry: where the PTX has several."""

    ptx: str | None = None
    error: str | None = None
    registers: int | None = None
    spills: int | None = None
    entry: str | None = None


class Compiler:
    """Compiles requests of a program from a file in `jobs` processes, each request once. A context manager: leaving it
    drops what is not yet begun."""

    def __init__(self, program: Program, jobs: int, assemble: bool):
        assert program.path is not None
        self.task = (str(program.path), program.digest())
        self.jobs, self.assemble = jobs, assemble
        self.pool: ProcessPoolExecutor | None = None
        self.futures: dict[Any, Future[Made]] = {}

    def __enter__(self) -> Compiler:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        if self.pool is not None:
            self.pool.shutdown(wait=True, cancel_futures=True)

    def begin(self, request: Request) -> None:
        """Queues a request."""
        key = request_key(request)
        if key not in self.futures:
            if self.pool is None:  # not forked: a GPU's driver does not survive it
                self.pool = ProcessPoolExecutor(self.jobs, get_context("spawn"), ignore_interrupts)
            self.futures[key] = self.pool.submit(compile_request, *self.task, request, self.assemble)

    def made(self, request: Request) -> Made:
        """Waits for a request. Raises TileError where the file has changed or a process has died."""
        self.begin(request)
        try:
            return self.futures[request_key(request)].result()
        except ChangedError:
            raise TileError("file", None, f"{self.task[0]} was changed while it was tuned", "tune again") from None
        except BrokenProcessPool:
            raise TileError("limit", None, "a compiling process died", "give it more memory, or --jobs 1") from None


def ignore_interrupts() -> None:
    """In a process of the pool: Ctrl-C is the parent's to take."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


_programs: dict[tuple[str, str], Program] = {}


def compile_request(path: str, digest: str, request: Request, assemble: bool) -> Made:
    """In a process of the pool. Raises TileError `file` if the file is not the one that the digest is of."""
    from dsl.kernels.compile import compile_variant

    if (path, digest) not in _programs:
        program = load(Path(path))
        if program.digest() != digest:
            raise ChangedError(path)
        _programs[path, digest] = program
    try:
        compiled = compile_variant(_programs[path, digest], request)
    except TileError as error:
        return Made(error=error.render())
    return made_of(compiled.ptx, compiled.header, assemble)


def made_of(ptx: str, header: Any, assemble: bool) -> Made:
    """A PTX text that is there, with what ptxas says of it."""
    from runtime.errors import RuntimeFault

    try:
        registers, spills = assembled(ptx, header) if assemble else (None, None)
    except RuntimeFault as error:
        return Made(error=error.message)
    return Made(ptx, None, registers, spills, header.entry)


class ChangedError(Exception):
    """The file was edited while it was tuned."""

    def __init__(self, path: str):
        super().__init__(path)


def assembled(ptx: str, header: Any) -> tuple[int | None, int | None]:
    """(registers, spilled bytes) of a thread by ptxas; None where it is not installed. LaunchError for illegal PTX."""
    from runtime.errors import DeviceError
    from runtime.tools import assemble

    try:
        figures = assemble(ptx, header.arch, header.entry, header.maxregs)
    except DeviceError:
        return None, None
    return figures.registers, figures.spill_stores + figures.spill_loads
