"""`dsl server`: a language server for editors."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import click

from dsl.command.failures import show
from dsl.lowering.ir.location import TileError


@click.command()
def command() -> int:
    """Answer an editor on standard input and output, by the Language Server Protocol (docs/editors.md).

    It needs pygls: pip install 'dsl[server]'.
    """
    from dsl.command.error_codes import read_codes
    from dsl.command.explain import FUNCTIONS, Explained, read_words, rows_told
    from dsl.schedules.properties import PROPERTIES
    from dsl.text.contracts import TERMS

    try:
        from dsl.editors.server.protocol import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        hint = "pip install 'dsl[server]'"
        return show(TileError("option", None, "the language server needs pygls, which is not installed", hint))
    words = {name: meaning for name, meaning in read_words().items() if name not in read_codes()}
    rows = Explained({}, [*PROPERTIES.values()], [*TERMS.values()], FUNCTIONS, words)
    try:
        number = version("dsl")
    except PackageNotFoundError:
        number = "of a source tree"
    serve(rows_told(rows), number)
    return 0
