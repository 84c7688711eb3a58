"""`dsl verify`: checks that no compiler pass, nor the PTX, changes the results of the kernels that an example
launches."""

from __future__ import annotations

import json
from typing import Any

import click

from dsl.command.failures import DIFFERS, failed
from dsl.command.options import shared


@click.command()
@shared("file values schedule seed arch_of_device as_json")
@click.option("--example", metavar="NAME", help="The example to verify; without it, all.")
@click.option("--blocks", type=click.IntRange(1), default=8, metavar="N", help="Execute the first N blocks.")
@click.option("--given-only", is_flag=True, help="Leave out the boundary shapes.")
def command(file: str, values: tuple[str, ...], as_json: bool, **options: Any) -> int:
    """Execute in numpy the IR of each kernel that the examples of FILE launch, before the passes and after each pass.
    Then run its PTX on the emulator. The first difference is reported: pass, value, line, element, register, lane and
    warp.

    Exit status: 0 all agree, 1 something differs, 2 the input is wrong, 3 the device failed.
    """
    from dsl.examples.one_kernel import LaunchSettings
    from dsl.examples.shapes import find_example
    from dsl.studies.verify import BOUNDARIES, verify_example
    from dsl.text.program import load

    try:
        program = load(file)
        named = find_example(program, options["example"])
        settings = LaunchSettings(**{name: options[name] for name in ("schedule", "seed", "arch")})
        boundaries = () if options["given_only"] else BOUNDARIES
        found = []
        for each in program.examples if options["example"] is None else [named]:
            found.append(verify_example(program, each, values, settings, options["blocks"], boundaries))
            if not as_json:
                _show(found[-1])
    except Exception as error:
        return failed(error, file, as_json, passed=False)
    passed = all(one.divergence is None for one in found)
    if as_json:
        records: list[dict[str, Any]] = [
            {"example": one.example, "kernels": [k.as_json() for k in one.kernels], "refused": one.refused}
            for one in found
        ]
        click.echo(json.dumps({"file": file, "passed": passed, "examples": records}))
    return 0 if passed else DIFFERS


def _show(found: Any) -> None:
    """Prints one line for each kernel, with its first difference."""
    click.echo(f"example {found.example or ''}".rstrip())
    for one in found.kernels:
        dims = " ".join(f"{name}={extent}" for name, extent in one.dims.items())
        name = one.kernel if one.schedule is None else f"{one.kernel} with {one.schedule}"
        said = f"{one.levels} passes and the PTX agree: {one.values} values of {one.blocks} blocks"
        if one.undecided is not None:
            said = f"not decided: {one.undecided}"
        elif one.divergence is not None:
            said = f"first diverging pass {one.divergence}"
        elif not one.blocks:
            said = "no blocks"
        click.echo(f"  {name}, {dims}: {said}")
    for line in found.refused:
        click.echo(f"  left out: {line}")
