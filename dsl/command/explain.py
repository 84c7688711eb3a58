"""`dsl explain`: about an error code, a property of schedules, an elementwise operation or a reduction."""

from __future__ import annotations

import json
from textwrap import indent

import click

import dsl.values.functions  # noqa: F401 (the rows)
from dsl.command.error_codes import read_codes
from dsl.command.failures import show
from dsl.schedules.properties import PROPERTIES
from dsl.values.table import ROWS
from lowering.location import TileError, closest


@click.command(short_help="Tell about an error code, a property of schedules, or an operation.")
@click.argument("name", metavar="[CODE|PROPERTY|OPERATION]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(name: str | None, as_json: bool) -> int:
    """Say what an error CODE means, and what leads to it, what a PROPERTY of schedules does, or what an elementwise
    OPERATION or a reduction makes of its operands; all without a name."""
    if name is not None and name.startswith("error[") and name.endswith("]"):
        name = name[6:-1]
    codes = read_codes()
    known = {name: (each.usage, each.means, each.types, each.error) for name, each in ROWS.items()}
    if name is not None and name not in codes and name not in PROPERTIES and name not in known:
        message = f"there is no error code, property or operation '{name}'"
        return show(TileError("option", None, message, closest(name, [*codes, *PROPERTIES, *known])))
    chosen = {code: row for code, row in codes.items() if name in (None, code)}
    properties = [row for row in PROPERTIES.values() if name in (None, row.name)]
    operations = {each: row for each, row in known.items() if name in (None, each)}
    if as_json:
        rows: dict[str, dict[str, str]] = {
            code: {"meaning": row.meaning, "example": row.example, "mend": row.mend} for code, row in chosen.items()
        }
        for each in properties:
            said = {"property": each.usage, "does": each.doc, "line": each.example}
            rows[each.name] = {**rows.get(each.name, {}), **said}
        for operation, (usage, means, types, error) in operations.items():
            said = {"operation": usage, "means": means, "types": types, "error": error}
            rows[operation] = {**rows.get(operation, {}), **said}
        click.echo(json.dumps(rows))
    elif name is None:
        for code, row in codes.items():
            click.echo(f"{code:<14} {row.meaning.split('. ')[0].rstrip('.')}")
        click.echo("\nproperties of schedules:")
        for each in properties:
            click.echo(f"{each.name:<14} {each.usage}")
        click.echo("\nelementwise operations and reductions:")
        for usage, means, _, _ in operations.values():
            click.echo(f"{usage:<28} {means}")
    else:
        for code, row in chosen.items():
            click.echo(f"error[{code}]\n\n{click.wrap_text(row.meaning, 100)}\n")
            click.echo(f"For example:\n\n{indent(row.example.strip(), '    ')}\n\nInstead: {row.mend}")
        for each in properties:
            click.echo(f"{each.usage}\n\n{click.wrap_text(each.doc, 100)}\n\nFor example: {each.example}")
        for usage, means, types, error in operations.values():
            click.echo(f"{usage}\n\n{means}\n\ntakes: {types}" + (f"\nerror: at most {error}" if error else ""))
    return 0
