"""`dsl fuzz`: tries random options of the compiler's choices. Results must stay right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from dsl.command.failures import carried_out
from dsl.command.options import LAB, said_plugins, shared
from dsl.command.trials import Bar, experiments
from dsl.lowering.ir.location import TileError, printable

if TYPE_CHECKING:
    from dsl.lab.experiment import Experiment
    from dsl.lab.fuzz import Fuzzed


SHARE = click.FloatRange(0, 1, min_open=True)


@click.command()
@shared(LAB)
@click.option("--count", type=click.IntRange(1), default=50, show_default=True, metavar="N", help="Assignments to try.")
@click.option("--share", type=SHARE, default=0.25, show_default=True, help="Of choices varied.")
def command(file: str, values: tuple[str, ...], as_json: bool, **options: Any) -> int:
    """Try N random sets of options on the launches in the examples of FILE. Each set gives safe options to some of the
    compiler's choices. The seeds are --seed, --seed + 1 and so on. If the result is not right, the set is reduced, and
    printed as a command that repeats it. A launch that is wrong without options is reported, and not varied. NAME=VALUE
    as in dsl run.

    Exit status: 0 fine, 1 a result was wrong, 2 the input is wrong, 3 the device failed.
    """
    return carried_out(file, as_json, lambda: (found := fuzz(file, values, as_json, options), bool(found["failures"])))


def fuzz(file: str, values: tuple[str, ...], as_json: bool, options: dict[str, Any]) -> dict[str, Any]:
    """Returns the results of all trials as data. Also prints the results unless `as_json` is set."""
    from dsl.lab.fuzz import as_json as record
    from dsl.lab.fuzz import fuzz as fuzzed

    with Bar() as bar:
        found_all, left_out = launches(file, values, options)
        bar.begin(file, options["count"])
        found = fuzzed(found_all, options["seed"], options["count"], options["share"], bar.advance)
    if not as_json:
        show_found(file, values, found, left_out)
    return {"file": file, "left_out": left_out, **record(found)}


def launches(file: str, values: tuple[str, ...], options: dict[str, Any]) -> tuple[list[Experiment], list[str]]:
    """The launches of the named example, or of all examples whose results are checked. The second list explains why
    each other example is left out."""
    from dsl.examples.shapes import find_example
    from dsl.lab.experiment import Wanted
    from dsl.text.program import load

    program = load(file)
    # Raises TileError for an unknown name. Otherwise the list below would be empty.
    find_example(program, options["example"])
    wanted = [e for e in program.examples if options["example"] in (None, e.name)]
    found: list[Experiment] = []
    errors: list[tuple[str, TileError]] = []
    for example in wanted:
        # "none" tests only results. Counters and times would take most of a trial's time.
        for each in experiments(file, values, {**options, "index": program.examples.index(example)}, Wanted("none")):
            try:
                each.runner.case().expectation(each.call.index)
                found.append(each)
            except TileError as error:
                errors.append((f"example {example.name}" if example.name else "the example", error))
    # An example that cannot be judged must not hide the other examples. If no example can be judged, the first reason
    # is raised.
    if not found:
        raise errors[0][1]
    return found, [f"{name}: {error.message}" for name, error in errors]


def show_found(file: str, values: tuple[str, ...], found: Fuzzed, left_out: list[str]) -> None:
    total = sum(found.verdicts.values())
    counts = ", ".join(f"{count} {verdict}" for verdict, count in found.verdicts.most_common())
    click.echo(f"{total} assignments: {counts}")
    for line in left_out:
        click.echo(printable(f"  left out: {line}"))
    for reason, count in found.refusals.most_common():
        click.echo(printable(f"  refused {count} times: {reason}"))
    for each in found.failures:
        which = "as chosen" if each.number is None else f"number {each.number}"
        click.echo(printable(f"{which}: {each.verdict}: {each.reason}"))
        click.echo(printable(f"  dsl run {' '.join([file, *values, *said_plugins()])} {each.options}"))
        if each.number is not None:
            click.echo(f"  {len(each.choose)} of the {len(each.drawn)} that were drawn")
