"""The state that all launches of one `dsl tune` command share: file and example, device, log, settings, deadline."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct, field

from dsl.calls.tuned import CallFacts
from dsl.examples.overrides import Overrides
from dsl.kernels.edited import Edited
from dsl.lab.compiling import digest_of
from dsl.lab.model import Model
from dsl.lab.place import TuningPlace
from dsl.lab.space import SpaceChoice, TuningCall
from dsl.lab.trial import Log, Trial, blank_trial, example_facts
from dsl.lab.worker import LaunchAtCase
from dsl.text import tree as ast
from dsl.text.files import resolved
from dsl.text.program import Program, reached_kernels


class Progress(Protocol):
    """The interface of a progress bar."""

    def begin(self, title: str, count: int) -> None: ...

    def advance(self, what: str) -> None: ...


class Settings(Struct):
    """The settings of `dsl tune`.

    `choice` selects the points that exist, and `search` names the search. `budget` limits the new points of a launch.
    `model` orders the points. With `counters`, the emulator also counts the first blocks of launches on a GPU. `jobs`
    is the number of compiling processes. After `seconds`, no new point begins. With `fresh`, points in the log are
    tried again. `seed` seeds inputs and orders. `choose` maps keys of choices to options. `edited` lists files whose
    kernels are additional points. `command` contains the words of the command line.
    """

    choice: SpaceChoice
    search: str = "all"
    budget: int | None = None
    model: Model | None = None
    counters: bool = False
    jobs: int = 1
    seconds: float | None = None
    fresh: bool = False
    seed: int = 0
    choose: Mapping[str, str] = field(default_factory=dict)
    edited: Sequence[Edited] = ()
    command: Sequence[str] = ()


class Session:
    """One run of `dsl tune`. Raises a TileError if the example launches no kernel of an edited file."""

    def __init__(
        self,
        program: Program,
        example: ast.Example,
        place: TuningPlace,
        log: Log,
        settings: Settings,
        progress: Progress,
    ):
        self.program, self.example, self.place = program, example, place
        self.log, self.settings, self.progress = log, settings, progress
        self.deadline = None if settings.seconds is None else time.monotonic() + settings.seconds
        reached = [kernel.name for kernel in reached_kernels(program, example)]
        for edited in settings.edited:
            if not edited.headers.keys() & {*reached}:
                raise edited.not_launched(f"this example may launch {', '.join(reached) or 'none'}")

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the deadline, or None without a deadline."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def blank(self, facts: CallFacts, index: int, values: dict[str, Any]) -> Trial:
        """Makes an empty trial for a launch. `facts` describe the call; the point's steps are filled in later."""
        settings = self.settings
        about = {**example_facts(self.program, self.example), "index": index, "values": values}
        about["choices"] = dict(settings.choose)
        return blank_trial(self.program, self.place, facts, settings.seed, settings.command, steps=[], **about)

    def launch(self, call: TuningCall, overrides: Overrides) -> LaunchAtCase:
        """The description of a launch for a worker in another process."""
        example = next(at for at, each in enumerate(self.program.examples) if each is self.example)
        # Workers load the file themselves.
        assert self.program.path is not None
        file, settings, plugins = str(resolved(self.program.path)), self.settings, self.program.plugins.files
        about = example, overrides, call.index, settings.seed, settings.counters, settings.choice
        return LaunchAtCase((file, digest_of(self.program), plugins), *about)
