"""`dsl check`: reports all errors of files."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import click

from dsl.command.failures import DIFFERS, WRONG_INPUT, record
from dsl.command.options import shared
from dsl.lowering.ir.location import TileError
from dsl.studies.findings import Findings
from dsl.studies.kept_checks import kept_findings


def checked(file: str, assemble: bool) -> Findings:
    """Checks a file. If it was checked before, and is as it was, the compiler is not imported."""
    with suppress(TileError):  # the check reports that a file cannot be read
        if not assemble and (kept := kept_findings(Path(file))) is not None:
            return kept
    from dsl.studies.check import check_file

    return check_file(file, assemble)


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="FILE...")
@shared("as_json")
@click.option("--assemble", is_flag=True, help="Assemble each variant, and report those that spill registers.")
def command(files: tuple[str, ...], assemble: bool, as_json: bool) -> int:
    """Report all errors of the files. Every kernel is compiled up to LLVM, with every schedule and type.

    Contracts ('expect' lines on costs) are judged for all launches in examples. Contracts on machine code are judged
    only with --assemble.

    Exit status: 0 no errors, 1 contracts that do not hold, 2 other errors.
    """
    errors: list[TileError] = []
    records = []
    for file in files:
        # Each file is checked separately, so that an error in a file hides nothing in another file.
        found = checked(file, assemble)
        errors += found.errors
        said = {"errors": [*map(record, found.sorted())], "notes": [*map(record, found.notes)]}
        records.append({"file": file, "variants": found.variants, **said})
        if as_json:
            continue
        for error in found.sorted():
            click.echo(error.render(), err=True)
        for note in found.notes:
            # `render` prints the code of each error. A note is not an error, so its prefix is replaced.
            click.echo(note.render().replace("error[check]", "note", 1), err=True)
        if not found.errors:
            click.echo(f"{file}: no errors in {found.variants} variant{'s' * (found.variants != 1)}")
    if as_json:
        click.echo(json.dumps({"passed": not errors, "files": records}))
    elif errors:
        click.echo(f"{len(errors)} error{'s' * (len(errors) > 1)}", err=True)
    # A contract that fails is a result, as in `dsl run`, so the status is 1.
    if errors and all(error.code == "contract" for error in errors):
        return DIFFERS
    return WRONG_INPUT if errors else 0
