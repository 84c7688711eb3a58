"""What the compiler has chosen for the launches of a text's examples: the constants beside the lines that set them, and
the tiles of a kernel with their layouts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dsl.editors.server.messages import CheckAnswer, Job, KernelSeen, Shown, TextPlaces, ValueSeen
from dsl.kernels.compile import lower
from dsl.kernels.request import Request
from dsl.kernels.variant import Variant, plain_of, resolve
from dsl.lowering.ir.function import Function
from dsl.lowering.ir.location import Loc, TileError
from dsl.lowering.ir.types import SharedType
from dsl.pictures.names import fragments, named_tiles
from dsl.pictures.tiles import summary
from dsl.schedules import ResolvedSchedule
from dsl.studies.check import UNNAMED, guessed_request, planned_requests
from dsl.studies.schedule_text import said, schedule_text
from dsl.text import tree as ast
from dsl.text.files import resolved
from dsl.text.program import Program, examine_program

Planned = Sequence[tuple[Loc, list[Request]]]
MOST_VARIANTS = 3
"""Of a kernel, that are looked at: each takes 20 to 300 ms."""
MOST_LABEL = 80
BITS_OF_REGISTER = 32


# ---- constants beside lines ----


def shown_of(program: Program, planned: Planned, encoding: str) -> tuple[Shown, ...]:
    """Returns what is shown behind launches and behind lines of schedules. A schedule that several launches use has the
    values of the first one."""
    places, found = TextPlaces(encoding), list[Shown]()
    seen: set[tuple[str, str | None]] = set()
    lines: dict[int, Shown] = {}  # by where the code of the line ends
    for loc, requests in planned:
        schedules = []
        for request in requests:
            try:
                schedule = resolve(program, request).schedule
            except TileError:
                continue  # the check reports it
            schedules.append((request, schedule))
            if (request.kernel, request.schedule) in seen:
                continue
            seen.add((request.kernel, request.schedule))
            why = f"{title_of(request)}, launched in line {loc.line}"
            for end, label in _set_by_lines(program, request, schedule):
                lines.setdefault(end, Shown(places.of(Loc(program.source, end, end)), label, why))
        if schedules and loc.source is program.source:
            label = "; ".join(_launched(program, *each) for each in schedules)
            tooltip = "\n".join(f"{title_of(request)}: {_values(known_of(each))}" for request, each in schedules)
            end = end_of_code(program.source.text, loc.end)
            found.append(Shown(places.of(Loc(program.source, end, end)), _short(f"→ {label}"), tooltip))
    return (*found, *lines.values())


def _set_by_lines(program: Program, request: Request, schedule: ResolvedSchedule) -> Iterable[tuple[int, str]]:
    """Yields where lines of the schedule end in the program's own file, and the values of the names that they set."""
    known = known_of(schedule)
    own = program.schedules.get((request.kernel, request.schedule or ""))
    for each in [] if own is None else program.family(request.kernel, own):
        for line in each.lines:
            names = names_set(line)
            if line.loc.source is program.source and any(name in known for name in names):
                values = {name: known[name] for name in names if name in known}
                yield end_of_code(program.source.text, line.loc.end), _short(_values(values))


def names_set(line: Any) -> list[str]:
    """Returns the names whose values a line of a schedule does not show."""
    if isinstance(line, ast.Tune):
        return [line.name]
    if not isinstance(line, ast.Assign):
        return []
    values = line.value.items if isinstance(line.value, ast.Sequence) and not line.value.is_list else [line.value]
    values = values if len(values) == len(line.targets) else [line.value] * len(line.targets)
    pairs = zip(line.targets, values, strict=True)
    return [name.id for name, value in pairs if isinstance(name, ast.Name) and not isinstance(value, ast.Number)]


def known_of(schedule: ResolvedSchedule) -> dict[str, Any]:
    """Returns the values of all names of a schedule. A function is its name."""
    known = {**schedule.derived, **schedule.constants, "warps": schedule.warps}
    plain = plain_of(known)
    return {name: plain.get(name, getattr(value, "name", str(value))) for name, value in known.items()}


def _launched(program: Program, request: Request, schedule: ResolvedSchedule) -> str:
    own = {c.name for c in program.kernels[request.kernel].constants if c.types is None} | {"warps"}
    values = _values({name: value for name, value in known_of(schedule).items() if name in own})
    return f"{request.kernel}{f' with {request.schedule}' if request.schedule else ''}: {values}"


def _values(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {said(value)}" for name, value in values.items())


def _short(text: str) -> str:
    return text if len(text) <= MOST_LABEL else text[: MOST_LABEL - 1] + "…"


def end_of_code(text: str, offset: int) -> int:
    """Returns where the code of the line at `offset` ends: ahead of its comment."""
    end = text.find("\n", offset)
    rest = text[offset : len(text) if end < 0 else end]
    return offset + len(rest.partition("#")[0].rstrip())


# ---- the tiles of a kernel ----


def kernels_seen(job: Job) -> CheckAnswer:
    """Looks at the variants of a kernel that examples launch, or at one with guessed dims. Raises TileError."""
    assert job.kernel is not None
    path = None if job.path is None else Path(job.path)
    texts = {Path(each): text for each, text in job.texts.items()}
    folder = None if path is None else resolved(path).parent
    program, _ = examine_program(job.text, UNNAMED if path is None else str(path), folder, texts)
    program.path = path
    kernel = program.kernels.get(job.kernel)
    if kernel is None:
        return CheckAnswer(job.number)
    launched = [(loc, each) for loc, found in planned_requests(program) for each in found if each.kernel == kernel.name]
    firsts: dict[str | None, tuple[Loc | None, Request]] = {}
    for loc, each in launched:
        firsts.setdefault(each.schedule, (loc, each))
    if not firsts:
        firsts[None] = None, guessed_request(program, kernel)
    return CheckAnswer(job.number, seen=tuple(_seen(program, *each) for each in [*firsts.values()][:MOST_VARIANTS]))


def _seen(program: Program, loc: Loc | None, request: Request) -> KernelSeen:
    variant = lower(program, request).variant
    function = variant.function
    spread = fragments(function)
    values = []
    for tile in named_tiles(function):
        registers = _registers(tile.value.type)
        values.append(ValueSeen(tile.name, tile.line, tile.kind, summary(function, tile, spread), registers))
    by = f"line {loc.line}" if loc is not None else "guessed dims: no example launches it"
    title = f"{title_of(variant.request)}, {by}"
    text = schedule_text(program, variant, request.schedule or "all", [])
    return KernelSeen(title, tuple(values), text, tuple(_facts(variant, function)))


def _registers(type: Any) -> int:
    """The registers of a thread that hold a tile, each of 32 bits."""
    if isinstance(type, SharedType) or type.layout is None:
        return 0
    return -(-type.layout.count * max(type.dtype.bits, 1) // BITS_OF_REGISTER)


def _facts(variant: Variant, function: Function) -> Iterable[str]:
    yield f"{function.warps} warps"
    if function.blocks_of_cluster > 1:
        yield f"clusters of {function.blocks_of_cluster} blocks"
    yield f"{function.number('shared_bytes')} bytes of shared memory"
    if "cost" in variant.schedule.costs:
        yield f"predicted {variant.schedule.costs['cost']:.1f} µs"


def title_of(request: Request) -> str:
    about = ", ".join([*request.types.values(), *(f"{name}={value}" for name, value in request.dims.items())])
    schedule = f" with {request.schedule}" if request.schedule else ""
    return f"{request.kernel}{schedule} ({about})"
