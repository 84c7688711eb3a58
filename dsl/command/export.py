"""`dsl export`: writes a kernel or dispatch as C on the CUDA driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct
from msgspec.structs import replace

from dsl.command.compile import check_known
from dsl.command.failures import reporting
from dsl.command.options import shared
from dsl.examples.overrides import Overrides, resolve
from dsl.examples.shapes import LaunchFacts, examine
from dsl.lowering.ir.location import TileError, closest
from dsl.lowering.ir.targets import target
from dsl.studies.check import at, planner_of
from dsl.text import tree as ast
from dsl.text.files import tuned_path
from dsl.text.program import Program, load

if TYPE_CHECKING:
    from dsl.calls.planner import Planner
    from dsl.export.model import ExportedFunction


@click.command()
@shared("file")
@click.argument("values", nargs=-1, required=True, metavar="KERNEL... [NAME=VALUE]...")
@click.option("-o", "--output", required=True, type=click.Path(file_okay=False), help="Write to this folder.")
@click.option(
    "--call",
    "calls",
    multiple=True,
    metavar="NAME=VALUE,...",
    help="A call to export: the example's with these values; repeatable.",
)
@click.option(
    "--arch", "targets", multiple=True, default=("sm_90",), show_default=True, help="A target, sm_90a; repeatable."
)
@click.option("--name", metavar="NAME", help="The name in C; without it, the kernel's.")
@click.option("--no-cubin", is_flag=True, help="Export PTX alone, which the driver assembles; needs no ptxas.")
@shared("example schedule tuned_device")
@reporting
def command(file: str, values: tuple[str, ...], output: str, **options: Any) -> int:
    """Write each KERNEL of FILE (.tile), or dispatch, to a folder, for programs without Python: a C header, a C file
    on the CUDA driver, a program that calls it, a CMake file, and the PTX. A call is the example's launch, with the
    values of NAME=VALUE and of --call. The C function takes all calls that its variants take, which the header lists,
    and refuses others (docs/deployment.md)."""
    from dsl.export.files import write_files

    names = list(dict.fromkeys(word for word in values if "=" not in word))
    if not names:
        raise TileError("option", None, "no kernel or dispatch is named", f"dsl export {file} KERNEL -o {output}")
    if options["name"] is not None and len(names) > 1:
        raise TileError("option", None, f"--name is of one function; {len(names)} are exported")
    asked = ExportRequest(
        [word for word in values if "=" in word],
        options["calls"],
        options["targets"],
        options["example"],
        options["schedule"],
        options["name"],
        options["device"],
    )
    program = load(file)
    functions = [function_of_example(program, name, asked) for name in names]
    for path in write_files(functions, Path(output), not options["no_cubin"]):
        click.echo(path)
    return 0


class ExportRequest(Struct, frozen=True):
    """What the command line asks for: values for all calls, the texts of `--call`, targets, and so on. `name` is the
    name in C, by default that of the kernel. `device` is the name of a device whose tuned data is used."""

    values: Sequence[str]
    calls: Sequence[str]
    targets: Sequence[str]
    example: str | None = None
    schedule: str | None = None
    name: str | None = None
    device: str | None = None


def function_of_example(program: Program, name: str, asked: ExportRequest) -> ExportedFunction:
    """Plans and compiles the calls of a kernel or dispatch. Raises TileError."""
    from dsl.export.files import function_of

    if name not in program.dispatches and name not in program.kernels:
        known = [*program.dispatches, *program.kernels]
        raise TileError("name", None, f"{program.source.name} has no kernel or dispatch '{name}'", closest(name, known))
    targets = list(dict.fromkeys(target(arch).arch for arch in asked.targets))
    return function_of(program, name, asked.name or name, targets, planners_of(program, name, asked, targets))


def planners_of(
    program: Program, name: str, asked: ExportRequest, targets: Sequence[str]
) -> Iterator[tuple[Planner, int, int]]:
    """Yields the planner of each call for each target, with the number of the target and that of the call. What goes
    wrong with a planner is an error of the example's line."""
    from dsl.calls.tuned_file import usable

    path = program.path
    tuned = None if asked.device is None or path is None else usable(tuned_path(path))
    for number, text in enumerate(asked.calls or [""]):
        values = [*asked.values, *(each.strip() for each in text.split(",") if each.strip())]
        launch = passed(program, launch_of(program, name, asked.example, values))
        for place, arch in enumerate(targets):
            try:
                planner = planner_of(program, launch, arch, asked.schedule, asked.device, tuned)
                planner.check_schedule()
            except TileError as error:
                raise at(error, launch.line) from None
            yield planner, place, number


def passed(program: Program, launch: LaunchFacts) -> LaunchFacts:
    """Returns the launch with the numbers that a call from C passes."""
    from dsl.calls.called import Called
    from dsl.export.model import as_passed

    return replace(launch, arguments=as_passed(program.once(Called, launch.line.name), launch.arguments))


def launch_of(program: Program, name: str, example: str | None, values: Sequence[str]) -> LaunchFacts:
    """Returns the first launch of a kernel or dispatch in the examples, with these values. Raises TileError."""
    if example is not None and all(each.name != example for each in program.examples):
        known = [each.name for each in program.examples if each.name is not None]
        raise TileError("example", None, f"{program.source.name} has no example '{example}'", closest(example, known))
    for each in program.examples:
        if example not in (None, each.name) or not launches(each, name):
            continue
        overrides = resolve(program, each, list(values))
        found = next((one for one in known_launches(program, each, overrides) if one.line.name == name), None)
        if found is not None:
            check_known(found)
            return found
    hint = "add an example that launches it: its arrays say what a call looks like"
    raise TileError("example", None, f"no example of {program.source.name} launches '{name}'", hint)


def known_launches(program: Program, example: ast.Example, overrides: Overrides) -> list[LaunchFacts]:
    facts = examine(program, example, overrides)
    for error in facts.errors:
        raise error
    if all(launch.is_known for launch in facts.launches):
        return facts.launches
    from dsl.examples.plans import evaluated  # evaluates the example, which is needed only if shapes do not suffice

    return evaluated(program, example, overrides, facts.launches)


def launches(example: ast.Example, name: str) -> bool:
    return any(isinstance(line, ast.Launch) and line.name == name for line in example.lines)
