"""`dsl schedule`: prints the complete schedule of a call."""

from __future__ import annotations

from typing import Any

import click

from dsl.command.failures import reporting
from dsl.command.options import shared
from dsl.command.why import kernels
from dsl.lowering.ir.location import printable


@click.command()
@shared("file")
@click.argument("values", nargs=-1, metavar="[KERNEL] [NAME=VALUE]...")
@shared("schedule example tuned_device arch choose skip_pass")
@click.option("--name", default="all", show_default=True, metavar="NAME", help="The name of the printed schedule.")
@reporting
def command(file: str, values: tuple[str, ...], name: str, **options: Any) -> int:
    """Print the complete schedule of each kernel that the example of FILE launches, or of KERNEL. It contains the
    constants, the properties (also those from `like`), and a `choose` line for each choice that has another option. If
    the printed schedule is added to the file, it gives the same code for these dims and types."""
    from dsl.studies.schedule_text import schedule_text

    # KERNEL comes before all NAME=VALUE.
    kernel = values[0] if values and "=" not in values[0] else None
    # The same kernels, in the same variants, as `dsl why` shows.
    found = kernels(file, values[kernel is not None :], {**options, "kernel": kernel})
    for each in found:
        request = each.request
        reasons = [each.title, *(each.plan.reasons if each.plan is not None else ())]
        label = name if len(found) == 1 else f"{name}_{request.kernel}"
        click.echo(printable(schedule_text(each.program, each.compiled.variant, label, reasons)))
    return 0
