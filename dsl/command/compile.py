"""`dsl compile`: shows any level of a kernel as text."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from dsl.command.failures import reporting
from dsl.command.options import choices_of, shared
from dsl.command.trace import write_trace
from dsl.examples.overrides import Overrides, resolve
from dsl.examples.shapes import UNKNOWN, LaunchFacts, examine, find_example
from dsl.kernels.compile import level_after
from dsl.kernels.levels import LEVELS, Lines, annotate_ir, level
from dsl.kernels.variant import Request
from dsl.lowering.ir.choices import Asked
from dsl.lowering.ir.location import TileError, closest
from dsl.lowering.ir.targets import target
from dsl.lowering.text.printer import printed
from dsl.studies.check import at, planner_of
from dsl.text import tree as ast
from dsl.text.files import write_text
from dsl.text.program import Program, dim_names, load, type_parameters


@click.command()
@shared("file values kernel schedule example arch choose skip_pass output")
@click.option("--emit", type=click.Choice(LEVELS), default="ptx", show_default=True, help="The level to show.")
@click.option("--annotate", is_flag=True, help="Put the source lines beside it.")
@click.option("--after", multiple=True, metavar="PASS", help="Show the IR after this pass, or 'build'; repeatable.")
@click.option("--trace", metavar="DIR", help="Write the IR after each pass to DIR, with differences.")
@reporting
def command(file: str, values: tuple[str, ...], output: str | None, **options: Any) -> int:
    """Compile the kernels of FILE (.tile) and print one level of their code. NAME=VALUE and the file's example set
    dims, types and constants."""
    emit, annotate = "ir" if options["after"] else options["emit"], options["annotate"]
    asked = Asked(choices_of(options["choose"], options["skip_pass"]))
    program = load(file)
    target(options["arch"])
    requests = requests_for(
        program, list(values), options["kernel"], options["schedule"], options["arch"], options["example"]
    )
    if len(requests) == 1:
        # With a single kernel, the compiler reports an option without a matching choice, with the option's
        # location.
        requests = [replace(requests[0], constants={**requests[0].constants, **asked.options})]
    else:
        requests = [replace(request, choices=asked.options) for request in requests]
    if (output or options["trace"]) is not None and len(requests) > 1:
        names = " or ".join(f"--kernel {request.kernel}" for request in requests)
        raise TileError("option", None, f"the example launches {len(requests)} kernels", f"choose one: {names}")
    if options["trace"] is not None:
        write_trace(program, requests[0], Path(options["trace"]))
        return 0
    texts = []
    for request in requests:
        if options["after"]:
            texts.append(texts_after(program, request, options["after"], annotate))
        else:
            texts.append(level(program, request, emit, annotate, asked))
    if len(requests) > 1 and not options["after"]:
        # With several kernels, each option must match a choice of at least one kernel.
        asked.check()
    if output is not None:
        write_text(Path(output), texts[0])
    else:
        for request, text in zip(requests, texts, strict=True):
            if len(texts) > 1:
                click.echo(f"{COMMENT.get(emit, '#')} {request.kernel} with {request.schedule or 'no schedule'}")
            click.echo(text, nl=False)
    return 0


def texts_after(program: Program, request: Request, names: Sequence[str], annotate: bool) -> str:
    """The IR after each of these passes. With a single pass, `dsl opt` and `--from` can read the text. Raises TileError
    for an unknown pass."""
    texts = []
    for name in names:
        text = printed(level_after(program, request, name))
        text = annotate_ir(text, Lines(program.source)) if annotate else text
        # A single text gets no heading, so that `dsl opt` and --from can read it.
        texts.append(f"// after {name}\n{text}" if len(names) > 1 else text)
    return "".join(texts)


COMMENT = {"ptx": "//", "sass": "//", "ir": "//", "llvm": ";"}


def requests_for(
    program: Program, values: list[str], kernel: str | None, schedule: str | None, arch: str, example: str | None
) -> list[Request]:
    """The variants to compile. If `kernel` is None, these are the variants of all kernels that the example launches."""
    node = None if kernel is None else program.kernel(kernel)
    chosen = find_example(program, example) if program.examples or example is not None else None
    overrides = resolve(program, chosen, values, node)
    asked = schedule if node is None else None  # with --kernel, --schedule belongs to that kernel, not to the example
    must = node is None
    planned = planned_requests(program, chosen, overrides, arch, asked, must) if chosen is not None else []
    if node is None:
        if planned:
            return planned
        if len(program.kernels) != 1:
            names = " or ".join(f"--kernel {name}" for name in program.kernels)
            raise TileError("option", None, f"{program.source.name} has no example that says what to compile", names)
        node = next(iter(program.kernels.values()))
    return [request_of(program, node, schedule, arch, overrides, planned, chosen)]


def planned_requests(
    program: Program, example: ast.Example, overrides: Overrides, arch: str, schedule: str | None, must: bool
) -> list[Request]:
    """The distinct variants of the example's launches. For some launches, only a run can tell the variant. With `must`,
    such a launch raises TileError; otherwise it is left out."""
    found: list[Request] = []
    for launch in launches_of(program, example, overrides, must):
        try:
            plan = planner_of(program, launch, arch, schedule).plan()
        except TileError as error:
            raise at(error, launch.line) from None
        found += [step.request for step in plan.steps if step.request not in found]
    return found


def launches_of(program: Program, example: ast.Example, overrides: Overrides, must: bool) -> list[LaunchFacts]:
    """The launches of an example. For some launches, only a run can tell the variant. With `must`, such a launch raises
    TileError; otherwise it is left out."""
    facts = examine(program, example, overrides)
    for error in facts.errors:
        raise error
    launches = facts.launches
    if not all(launch.is_known for launch in launches):
        from dsl.examples.plans import evaluated  # evaluates the example, which is needed only if shapes do not suffice

        launches = evaluated(program, example, overrides, launches)
    known = [launch for launch in launches if must or launch.is_known]
    for launch in known:
        try:
            check_known(launch)
        except TileError as error:
            raise at(error, launch.line) from None
    return known


def check_known(launch: LaunchFacts) -> None:
    """Raises TileError for an argument that only a run computes, because the variant may depend on it."""
    for name, value in launch.arguments.items():
        if value is UNKNOWN:
            message = f"'{name}' is a number that only a run can tell: it stands below another launch"
            raise TileError("option", launch.line.loc, message, "make it above all launches, or give it: NAME=VALUE")


def schedules_of(program: Program, kernel: ast.KernelDef, asked: str | None) -> Collection[str]:
    """The names of a kernel's schedules. Raises TileError if the kernel has no schedule `asked`."""
    known = program.schedules_of(kernel.name)
    if asked is not None and asked not in known:
        raise TileError("name", None, f"kernel '{kernel.name}' has no schedule '{asked}'", closest(asked, known))
    return known


def request_of(
    program: Program,
    kernel: ast.KernelDef,
    schedule: str | None,
    arch: str,
    overrides: Overrides,
    planned: list[Request],
    example: ast.Example | None,
) -> Request:
    """The variant to compile for `--kernel`. Values that the command line does not set are those of the example's
    launch."""
    known = schedules_of(program, kernel, schedule)
    # Dims and constants that the command line does not set come from the example's launch of this kernel.
    near = next((request for request in planned if request.kernel == kernel.name), None)
    numbers = {**(examine(program, example, overrides).numbers if example else {}), **(near.dims if near else {})}
    numbers |= overrides.names
    for dim in dim_names(kernel):
        if dim in overrides.names and type(numbers[dim]) is not int:
            raise TileError("option", None, f"'{dim}={numbers[dim]}': a dim is a count of elements")
    parameters = type_parameters([kernel])
    # If no launch gives a type parameter, its first type is taken.
    types = {name: overrides.types.get(name, choices[0]) for name, choices in parameters.items()}
    # The strides of views, too: rows of unknown strides have no boxes, so wgmma would be refused.
    about = Request(kernel.name, next(iter(known), None)) if near is None else near
    return Request(
        kernel.name,
        schedule or about.schedule,
        {dim: numbers[dim] for dim in dim_names(kernel) if dim in numbers},
        types,
        {**about.constants, **overrides.constants},
        about.scalars,
        about.align,
        about.absent,
        strides=about.strides,
        arch=arch,
    )
