"""A run of an example as data. The command line makes a request. This process or a child process executes it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field, to_builtins

from dsl.examples.report import Report


class CommandRequest(Struct, frozen=True):
    """A file with an example, and how to run it. `example` (a name) or `index` selects the example. Without them, the
    first example runs. `most_bytes` limits the bytes in the arrays of a launch. `timeline` is the path of a timeline
    with these `marks`. `bound_seconds` and `bounds` are as in `LaunchSettings`."""

    file: str
    device: str
    why: str
    values: list[str] = field(default_factory=list)
    example: str | None = None
    index: int | None = None
    schedule: str | None = None
    counters: bool = False
    explain: bool = False
    ptx: str | None = None
    seed: int = 0
    budget: int | None = None
    time_limit: float | None = None
    most_bytes: int | None = None
    strict_bounds: bool = False
    arch: str | None = None
    choose: dict[str, str] = field(default_factory=dict)
    timeline: str | None = None
    marks: str = ""
    events: int = 0
    blocks: int | None = None
    bound_seconds: float | None = None
    bounds: bool = False


def execute(request: CommandRequest) -> Report:
    """Runs the request in this process. Raises TileError, LaunchError or DeviceError."""
    from dsl.examples.one_kernel import LaunchSettings
    from dsl.examples.timeline import TimelineSettings
    from dsl.kernels.edited import ptx_from
    from dsl.lowering.ir.choices import Asked

    timeline = None
    if request.timeline is not None:
        timeline = TimelineSettings(request.timeline, request.marks, request.events, request.blocks)
    # These four fields have other types in `LaunchSettings`. All other fields are copied by name.
    own = {"ptx", "choose", "timeline", "contracts"}
    same = {*LaunchSettings.__struct_fields__} & {*CommandRequest.__struct_fields__} - own
    settings = LaunchSettings(
        **{name: getattr(request, name) for name in same},
        ptx=None if request.ptx is None else ptx_from(request.ptx, request.choose),
        choose=Asked(request.choose),
        contracts=True,
        timeline=timeline,
    )
    from dsl.examples.overrides import resolve
    from dsl.examples.run import run_example
    from dsl.examples.shapes import find_example
    from dsl.text.program import load

    program = load(request.file)
    index = request.index
    example = find_example(program, request.example) if index is None else program.examples[index]
    overrides = resolve(program, example, request.values)
    report = run_example(program, example, request.device, request.why, overrides, settings)
    # Each `--choose` must have matched a choice of some launch.
    settings.choose.check()
    return report


def examples_of(file: str) -> list[tuple[str | None, int]]:
    """The name and line of each example in a file. Raises TileError."""
    from dsl.text.program import load

    return [(example.name, example.loc.line) for example in load(file).examples]


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Executes a request in the child process and returns its report. The request and the report are JSON."""
    return to_builtins(execute(CommandRequest(**request)))
