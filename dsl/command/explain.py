"""`dsl explain`: about an error code, or a property of schedules."""

from __future__ import annotations

import json

import click

from dsl.command.failures import show
from dsl.error_codes import read_codes
from dsl.schedules.properties import PROPERTIES
from lowering.location import TileError, closest


@click.command(short_help="Tell about an error code, or a property of schedules.")
@click.argument("name", metavar="[CODE|PROPERTY]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(name: str | None, as_json: bool) -> int:
    """Say what an error CODE means, and what leads to it, or what a PROPERTY of schedules does; all without a name."""
    if name is not None and name.startswith("error[") and name.endswith("]"):
        name = name[6:-1]
    codes = read_codes()
    if name is not None and name not in codes and name not in PROPERTIES:
        message = f"there is no error code or property '{name}'"
        return show(TileError("argument", None, message, closest(name, [*codes, *PROPERTIES])))
    chosen = {code: row for code, row in codes.items() if name in (None, code)}
    properties = [row for row in PROPERTIES.values() if name in (None, row.name)]
    if as_json:
        rows: dict[str, dict[str, str]] = {
            code: {"meaning": row.meaning, "example": row.example} for code, row in chosen.items()
        }
        for each in properties:
            said = {"property": each.usage, "does": each.doc, "line": each.example}
            rows[each.name] = {**rows.get(each.name, {}), **said}
        click.echo(json.dumps(rows))
    elif name is None:
        for code, row in codes.items():
            click.echo(f"{code:<14} {row.meaning.split('. ')[0].rstrip('.')}")
        click.echo("\nproperties of schedules:")
        for each in properties:
            click.echo(f"{each.name:<14} {each.usage}")
    else:
        for code, row in chosen.items():
            click.echo(f"error[{code}]\n\n{click.wrap_text(row.meaning, 100)}\n")
            click.echo(f"For example: {row.example}")
        for each in properties:
            click.echo(f"{each.usage}\n\n{click.wrap_text(each.doc, 100)}\n\nFor example: {each.example}")
    return 0
