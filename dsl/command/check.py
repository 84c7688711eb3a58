"""`dsl check`: all errors of files."""

from __future__ import annotations

import json

import click

from dsl.command.failures import DIFFERS, WRONG_INPUT, record
from dsl.command.options import shared
from dsl.lowering.ir.location import TileError
from dsl.studies.check import check_file


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="FILE...")
@shared("as_json")
@click.option("--assemble", is_flag=True, help="Assemble each variant, and report those that spill registers.")
def command(files: tuple[str, ...], assemble: bool, as_json: bool) -> int:
    """Report all errors of the files: every kernel with every schedule and type, all stages of compilation up to LLVM.

    Contracts of all that examples launch are judged; those on machine code with --assemble.

    Exit status: 0 no errors, 1 contracts that do not hold, 2 other errors.
    """
    errors: list[TileError] = []
    records = []
    for file in files:
        # Each file is checked by itself: an error in one hides nothing in another.
        found = check_file(file, assemble)
        errors += found.errors
        said = {"errors": [*map(record, found.sorted())], "notes": [*map(record, found.notes)]}
        records.append({"file": file, "variants": found.variants, **said})
        if as_json:
            continue
        for error in found.sorted():
            click.echo(error.render(), err=True)
        for note in found.notes:
            # `render` prints each with its code; notes are no errors.
            click.echo(note.render().replace("error[check]", "note", 1), err=True)
        if not found.errors:
            click.echo(f"{file}: no errors in {found.variants} variant{'s' * (found.variants != 1)}")
    if as_json:
        click.echo(json.dumps({"passed": not errors, "files": records}))
    elif errors:
        click.echo(f"{len(errors)} error{'s' * (len(errors) > 1)}", err=True)
    # A contract that fails is a result, as one of `dsl run`: status 1.
    if errors and all(error.code == "contract" for error in errors):
        return DIFFERS
    return WRONG_INPUT if errors else 0
