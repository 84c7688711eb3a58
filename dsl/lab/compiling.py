"""Compiles variants to PTX, in other processes or in this one. On request, also assembles the PTX for figures such as
registers."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, suppress
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from dsl.calls.plan import Plan
from dsl.kernels.edited import Edited
from dsl.kernels.plugin_files import load_plugins
from dsl.kernels.variant import Request
from dsl.kernels.variants import request_key
from dsl.lowering.ir.location import TileError
from dsl.runtime.errors import DeviceError, RuntimeFault
from dsl.text.files import resolved
from dsl.text.program import Program, load

Code = Literal["none", "assembled", "counted"]
"""What is known of the code. `assembled` runs ptxas for registers and spills. `counted` also counts the instructions of
the machine code."""


class Made(Struct, frozen=True):
    """A compiled variant. Either `ptx` is its text, or `error` explains why it did not compile.

    `registers` and `spills` (in bytes) are per thread. `instructions` is the number of machine instructions. A figure
    is None if it was not requested or its tool is not installed. `entry` is the kernel's name in the PTX. `taken` maps
    the keys of choices to the options taken.
    """

    ptx: str | None = None
    error: str | None = None
    registers: int | None = None
    spills: int | None = None
    entry: str | None = None
    instructions: int | None = None
    taken: Mapping[str, str] = field(default_factory=dict)


class Compiler(AbstractContextManager["Compiler"]):
    """Compiles kernels of a file in `jobs` processes, each request once. With 0 jobs, this process compiles.

    `code` selects the tools that run on the PTX. `elsewhere` is an executor that replaces the processes of this host.
    The compiler is a context manager. On exit, requests that have not begun are dropped.
    """

    def __init__(self, program: Program, jobs: int, code: Code, elsewhere: Executor | None = None):
        assert program.path is not None
        # A worker on another host has another current folder, so its path is absolute.
        path = program.path if elsewhere is None else resolved(program.path)
        self.task = (str(path), digest_of(program), program.plugins.files)
        self.jobs, self.code = jobs, code
        # This process has the program already and need not load it again.
        if not jobs:
            _programs[self.task] = program
        self.elsewhere = elsewhere
        self.pool: Executor | None = elsewhere
        self.futures: dict[Any, Future[Made]] = {}

    def __exit__(self, *error: object) -> None:
        if self.pool is not None and self.pool is not self.elsewhere:
            self.pool.shutdown(wait=True, cancel_futures=True)

    def begin(self, request: Request) -> None:
        """Starts to compile a request, unless it was submitted before."""
        key = request_key(request)
        if key in self.futures:
            return
        if not self.jobs and self.pool is None:
            self.futures[key] = Future()
            # Without processes, a request is compiled at once.
            self.futures[key].set_result(compile_request(self.task, request, self.code))
            return
        if self.pool is None:  # not forked, since a GPU's driver does not survive a fork
            self.pool = ProcessPoolExecutor(self.jobs, get_context("spawn"), begin_compiling)
        self.futures[key] = self.pool.submit(compile_request, self.task, request, self.code)

    def made(self, request: Request) -> Made:
        """Waits for the result of a request. Raises a TileError if the file has changed or a process has died."""
        self.begin(request)
        try:
            return self.futures[request_key(request)].result()
        except ChangedError as error:
            raise error.told() from None
        except BrokenExecutor:
            raise TileError("limit", None, "a compiling process died", "give it more memory, or --jobs 1") from None

    def begin_plan(self, plan: Plan, edited: Edited | None = None) -> None:
        """Submits the plan's kernels for compilation, except kernels that the edited file contains."""
        for step in plan.steps:
            if edited is None or step.request.kernel not in edited.headers:
                self.begin(step.request)

    def made_plan(self, plan: Plan, edited: Edited | None = None) -> list[Made]:
        """Returns the code for each step of the plan. A kernel that the edited file contains gets the file's code.
        Other kernels are compiled."""
        found: list[Made] = []
        for step in plan.steps:
            if edited is not None and step.request.kernel in edited.headers:
                header = edited.headers[step.request.kernel]
                found.append(made_of(edited.ptx, header, self.code))
            else:
                found.append(self.made(step.request))
        return found


def begin_compiling() -> None:
    """Initializes a process of the pool. It ignores Ctrl-C, and has a lower priority than the process that measures
    times."""
    # Ctrl-C reaches every process of the terminal's group. The parent handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(10)


Task = tuple[str, str, tuple[str, ...]]
"""Identifies a program by its file, the digest of all its texts, and the files of its plug-ins."""
_programs: dict[Task, Program] = {}


def digest_of(program: Program) -> str:
    """A digest of the program's source files and its plug-ins."""
    return " ".join((program.digest(), *program.plugins.digests.values()))


def program_of(task: Task) -> Program:
    """Loads a program once in this process. Raises ChangedError if the files' digest differs from the task's."""
    if task not in _programs:
        path, digest, plugins = task
        program = load(Path(path), plugins=load_plugins(plugins))
        if digest_of(program) != digest:
            raise ChangedError(path)
        _programs[task] = program
    return _programs[task]


def compile_request(task: Task, request: Request, code: Code) -> Made:
    """Compiles a request, usually in a process of the pool. Raises ChangedError."""
    from dsl.kernels.compile import compile_variant

    program = program_of(task)
    try:
        compiled = compile_variant(program, request)
    # A refused variant is a result and not a failure of the compiler.
    except TileError as error:
        return Made(error=error.render())
    made = made_of(compiled.ptx, compiled.header, code)
    choices = compiled.variant.function.choices.keyed()
    return replace(made, taken={name: choice.taken for name, choice in choices.items()})


def made_of(ptx: str, header: Any, code: Code) -> Made:
    """Makes a `Made` from a PTX text, with the requested figures of ptxas."""
    try:
        figures = assembled(ptx, header.arch, header.entry, header.maxnreg, code)
    except RuntimeFault as error:
        return Made(error=error.message)
    return Made(ptx, entry=header.entry, **figures)


class ChangedError(Exception):
    """Raised if the `.tile` file was edited after the start, or differs on a worker's host."""

    def __init__(self, path: str):
        super().__init__(path)
        self.path = path

    def told(self) -> TileError:
        message = f"{self.path} changed meanwhile, or differs where workers run"
        return TileError("file", None, message, "run the command again")


@lru_cache(maxsize=64)
def assembled(ptx: str, arch: str, entry: str, maxnreg: int | None, code: Code) -> dict[str, Any]:
    """Returns registers and spilled bytes per thread from ptxas, and the number of instructions.

    The figures are missing if ptxas is not installed. Results are cached, because many trials have the same PTX.
    Raises LaunchError for illegal PTX.
    """
    from dsl.runtime.machine_code import instruction_count
    from dsl.runtime.tools import assemble

    found: dict[str, Any] = {}
    with suppress(DeviceError):
        if code != "none":
            figures = assemble(ptx, arch, entry, maxnreg)
            found |= {"registers": figures.registers, "spills": figures.spill_stores + figures.spill_loads}
        if code == "counted":
            found["instructions"] = instruction_count(figures.cubin, entry)
    return found
