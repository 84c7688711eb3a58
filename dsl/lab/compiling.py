"""Variants compiled in other processes, or here: text to PTX, and on request the assembler's figures."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from dsl.calls.plan import Plan
from dsl.kernels.edited import Edited
from dsl.kernels.plugin_files import load_plugins
from dsl.kernels.variant import Request
from dsl.kernels.variants import request_key
from dsl.lowering.ir.location import TileError
from dsl.text.files import resolved
from dsl.text.program import Program, load

Code = Literal["none", "assembled", "counted"]
"""What the assembler gives: nothing; registers and spills; or also the number of instructions."""


@dataclass(frozen=True, slots=True)
class Made:
    """A compiled variant: `ptx`, or the `error` that it ended in. registers: of a thread; spills: bytes of a thread;
    instructions: of the machine code; None if not requested, or the tool is not installed. entry: the kernel's, since
    the PTX may have several. taken: its choices by name."""

    ptx: str | None = None
    error: str | None = None
    registers: int | None = None
    spills: int | None = None
    entry: str | None = None
    instructions: int | None = None
    taken: Mapping[str, str] = field(default_factory=dict)


class Compiler:
    """Compiles requests of a file's program, each once, in `jobs` processes, or in this one for 0. `code`: what the
    assembler gives; `elsewhere`: an executor in place of processes of this host. A context manager: leaving it drops
    requests that have not begun."""

    def __init__(self, program: Program, jobs: int, code: Code, elsewhere: Executor | None = None):
        assert program.path is not None
        # A worker elsewhere has another current folder.
        path = program.path if elsewhere is None else resolved(program.path)
        self.task = (str(path), digest_of(program), program.plugins.files)
        self.jobs, self.code = jobs, code
        # The program is known here: it need not be loaded again.
        if not jobs:
            _programs[self.task] = program
        self.elsewhere = elsewhere
        self.pool: Executor | None = elsewhere
        self.futures: dict[Any, Future[Made]] = {}

    def __enter__(self) -> Compiler:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        if self.pool is not None and self.pool is not self.elsewhere:
            self.pool.shutdown(wait=True, cancel_futures=True)

    def begin(self, request: Request) -> None:
        """Queues a request, unless it is queued or done."""
        key = request_key(request)
        if key in self.futures:
            return
        if not self.jobs and self.pool is None:
            self.futures[key] = Future()
            # Without processes a request is compiled at once.
            self.futures[key].set_result(compile_request(self.task, request, self.code))
            return
        if self.pool is None:  # not forked: a GPU's driver does not survive it
            self.pool = ProcessPoolExecutor(self.jobs, get_context("spawn"), begin_compiling)
        self.futures[key] = self.pool.submit(compile_request, self.task, request, self.code)

    def made(self, request: Request) -> Made:
        """Waits for a request. TileError if the file has changed or a process has died."""
        self.begin(request)
        try:
            return self.futures[request_key(request)].result()
        except ChangedError as error:
            raise error.told() from None
        except BrokenExecutor:
            raise TileError("limit", None, "a compiling process died", "give it more memory, or --jobs 1") from None

    def begin_plan(self, plan: Plan, edited: Edited | None = None) -> None:
        """Begins to compile the plan's kernels, except those of an edited file."""
        for step in plan.steps:
            if edited is None or step.request.kernel not in edited.headers:
                self.begin(step.request)

    def made_plan(self, plan: Plan, edited: Edited | None = None) -> list[Made]:
        """The code of each step, compiled or from the edited file."""
        found: list[Made] = []
        for step in plan.steps:
            if edited is not None and step.request.kernel in edited.headers:
                header = edited.headers[step.request.kernel]
                found.append(made_of(edited.ptx, header, self.code))
            else:
                found.append(self.made(step.request))
        return found


def begin_compiling() -> None:
    """Begins a process of the pool. The parent handles Ctrl-C; the process that measures has priority."""
    # Ctrl-C reaches every process of the terminal's group.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(10)


Task = tuple[str, str, tuple[str, ...]]
"""A program: its file, the digest of all its texts, the files of its plug-ins."""
_programs: dict[Task, Program] = {}


def digest_of(program: Program) -> str:
    """A digest of the texts of a program's files and of its plug-ins."""
    return " ".join((program.digest(), *program.plugins.digests.values()))


def compile_request(task: Task, request: Request, code: Code) -> Made:
    """Compiles a request, mostly in a process of the pool. ChangedError if the files no longer have this digest."""
    from dsl.kernels.compile import compile_variant

    if task not in _programs:
        path, digest, plugins = task
        program = load(Path(path), plugins=load_plugins(plugins))
        if digest_of(program) != digest:
            raise ChangedError(path)
        _programs[task] = program
    try:
        compiled = compile_variant(_programs[task], request)
    # A refused variant is a result, not a failure of the compiler.
    except TileError as error:
        return Made(error=error.render())
    made = made_of(compiled.ptx, compiled.header, code)
    choices = compiled.variant.function.choices.keyed()
    return replace(made, taken={name: choice.taken for name, choice in choices.items()})


def made_of(ptx: str, header: Any, code: Code) -> Made:
    """An existing PTX text with the requested figures of the assembler."""
    from dsl.runtime.errors import RuntimeFault

    try:
        figures = assembled(ptx, header.arch, header.entry, header.maxnreg, code)
    except RuntimeFault as error:
        return Made(error=error.message)
    return Made(ptx, entry=header.entry, **figures)


class ChangedError(Exception):
    """The file was edited meanwhile, or differs on a worker's host."""

    def __init__(self, path: str):
        super().__init__(path)
        self.path = path

    def told(self) -> TileError:
        message = f"{self.path} changed meanwhile, or differs where workers run"
        return TileError("file", None, message, "run the command again")


@lru_cache(maxsize=64)
def assembled(ptx: str, arch: str, entry: str, maxnreg: int | None, code: Code) -> dict[str, Any]:
    """Registers and spilled bytes of a thread by ptxas, instructions by nvdisasm; nothing of a tool that is not
    installed. Cached by text: many choices lead to the same text. LaunchError for illegal PTX."""
    from dsl.runtime.errors import DeviceError
    from dsl.runtime.machine_code import machine_code
    from dsl.runtime.tools import assemble

    found: dict[str, Any] = {}
    with suppress(DeviceError):
        if code != "none":
            figures = assemble(ptx, arch, entry, maxnreg)
            found |= {"registers": figures.registers, "spills": figures.spill_stores + figures.spill_loads}
        if code == "counted":
            found["instructions"] = machine_code(figures.cubin, entry).instructions
    return found
