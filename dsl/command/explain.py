"""`dsl explain`: about an error code."""

from __future__ import annotations

import json

import click

from dsl.command.failures import show
from dsl.error_codes import read_codes
from lowering.location import TileError, closest


@click.command(short_help="Tell about an error code.")
@click.argument("code", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(code: str | None, as_json: bool) -> int:
    """Say what the error CODE means, and what leads to it; all codes without one."""
    if code is not None and code.startswith("error[") and code.endswith("]"):
        code = code[6:-1]
    codes = read_codes()
    if code is not None and code not in codes:
        return show(TileError("argument", None, f"there is no error code '{code}'", closest(code, codes)))
    chosen = codes if code is None else {code: codes[code]}
    if as_json:
        rows = {name: {"meaning": row.meaning, "example": row.example} for name, row in chosen.items()}
        click.echo(json.dumps(rows))
    elif code is None:
        for name, row in codes.items():
            click.echo(f"{name:<14} {row.meaning.split('. ')[0].rstrip('.')}")
    else:
        click.echo(f"error[{code}]\n\n{click.wrap_text(codes[code].meaning, 100)}\n")
        click.echo(f"For example: {codes[code].example}")
    return 0
