"""`dsl inspect`: an HTML page of a kernel at all its levels, linked line by line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from dsl.command.failures import reporting
from dsl.command.options import choices_of, said_plugins, shared
from dsl.command.sides import applied
from dsl.examples.overrides import resolve
from dsl.lowering.ir.location import TileError
from dsl.text.files import write_text

if TYPE_CHECKING:
    from dsl.studies.inspect.counts import CountedCode
    from dsl.studies.why import ExplainedKernel

OTHER = "another variant: KEY=OPTION of a choice, schedule=NAME, or a value"


@click.command(epilog="For example: dsl inspect samples/softmax.tile --counters -o page.html")
@shared("file values kernel schedule example tuned_device arch choose skip_pass seed time_limit")
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False), help="Write the page to this file.")
@click.option("--counters", is_flag=True, help="Run the example on the emulator: what each line costs.")
@click.option("--vs", multiple=True, metavar="NAME=VALUE", help=f"Beside it {OTHER}; repeatable.")
@reporting
def command(file: str, values: tuple[str, ...], output: str, **options: Any) -> int:
    """Write an HTML page that shows a kernel of FILE (.tile) as source, IR after each pass, LLVM IR, PTX and machine
    code. What is under the cursor is marked at all levels. Choices, layouts and counters are shown beside the source.
    The page needs no network."""
    from dsl.studies.inspect.page import page

    if not file.endswith(".tile"):
        raise TileError("option", None, f"{file} is not a .tile file: a page begins with the source")
    text = page(page_data(file, values, options))
    write_text(Path(output), text)
    click.echo(f"{output}: {len(text) / 1000:,.0f} KB")
    return 0


def page_data(file: str, values: Sequence[str], options: dict[str, Any]) -> dict[str, Any]:
    """The data of the page: the source files, and one or two variants."""
    from dsl.studies.inspect.kernel import inspected
    from dsl.studies.inspect.rows import Places

    # Both variants use the same `Places` object, so that equal places get equal numbers. The page compares the numbers.
    places = Places()
    given = {"A" if options["vs"] else "": (values, options)}
    # Raises TileError for a text that is not NAME=VALUE.
    for text in options["vs"]:
        given["B"] = applied(text, *given.get("B", (values, options)))
    variants = []
    for label, (each, asked) in given.items():
        kernel = the_kernel(file, each, asked)
        places.source(kernel.program.source)
        counted = counters(kernel, each, asked) if options["counters"] else None
        variants.append(inspected(kernel, label, places, counted))
    words = [f"dsl inspect {file}", *values, *said_plugins(), *(f"--vs {text}" for text in options["vs"])]
    return {
        "title": " ".join(words),
        "files": [{"name": name, "text": source} for name, source in places.sources],
        "places": places.rows,
        "variants": variants,
    }


def the_kernel(file: str, values: Sequence[str], options: dict[str, Any]) -> ExplainedKernel:
    """Compiles the kernel to show. Raises TileError unless the options select exactly one variant of one kernel."""
    from dsl.command.why import kernels

    if options["kernel"] is not None and (kernel := launched(file, values, options)) is not None:
        return kernel
    found = kernels(file, tuple(values), options)
    if len(found) != 1:
        names = dict.fromkeys(kernel.request.kernel for kernel in found)
        words = " or ".join(f"--kernel {name}" for name in names) or "--kernel NAME"
        raise TileError("option", None, f"the example launches {len(found)} kernels, a page shows one", words)
    return found[0]


def launched(file: str, values: Sequence[str], options: dict[str, Any]) -> ExplainedKernel | None:
    """Compiles the kernel that --kernel names, in the variant of its first launch in the example. --schedule replaces
    the variant's schedule. Returns None if the example does not launch the kernel."""
    from dsl.command.compile import planned_requests, schedules_of
    from dsl.examples.shapes import find_example
    from dsl.kernels.compile import compile_variant
    from dsl.studies.why import ExplainedKernel
    from dsl.text.program import load

    program = load(file)
    node = program.kernel(options["kernel"])
    if not program.examples:
        return None
    schedules_of(program, node, options["schedule"])
    example = find_example(program, options["example"])
    overrides = resolve(program, example, list(values), node)
    planned = planned_requests(program, example, overrides, options["arch"], None, must=False)
    request = next((request for request in planned if request.kernel == node.name), None)
    if request is None:
        return None
    if options["schedule"] not in (None, request.schedule):
        request = replace(request, schedule=options["schedule"], constants=overrides.constants)
    chosen = choices_of(options["choose"], options["skip_pass"])  # an unknown constant is an error
    request = replace(request, constants={**request.constants, **chosen})
    return ExplainedKernel(program, request, None, compile_variant(program, request))


def counters(kernel: ExplainedKernel, values: Sequence[str], options: dict[str, Any]) -> CountedCode:
    """Runs the example on the emulator and returns the counters of the kernel's code."""
    from dsl.examples.one_kernel import LaunchSettings
    from dsl.examples.shapes import find_example
    from dsl.lowering.ir.choices import Asked
    from dsl.studies.inspect.counts import counted_code

    program = kernel.program
    example = find_example(program, options["example"])
    settings = LaunchSettings(
        # With --kernel, --schedule belongs to that kernel and not to the dispatch.
        schedule=options["schedule"] if options["kernel"] is None else None,
        seed=options["seed"],
        time_limit=options["time_limit"],
        arch=options["arch"],
        choose=Asked(choices_of(options["choose"], options["skip_pass"])),
    )
    return counted_code(program, example, resolve(program, example, list(values)), settings, kernel.compiled)
