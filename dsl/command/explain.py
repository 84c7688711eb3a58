"""`dsl explain`: explains an error code, a property of schedules, a function of the language, or a word of messages."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from textwrap import indent

import click
from msgspec import Struct

import dsl.values.functions  # noqa: F401 (defines the rows)
from dsl.calls.line_names import OWN
from dsl.command.error_codes import ErrorCode, read_codes
from dsl.command.failures import show
from dsl.command.options import shared
from dsl.lowering.ir.location import TileError, closest
from dsl.lowering.ir.plugins import current
from dsl.schedules.properties import PROPERTIES, PropertyRow, rows_of
from dsl.text.contracts import KNOWN, NAMES, TERMS, Term
from dsl.text.elsewhere import instead_of
from dsl.text.program import library_names
from dsl.values.table import PLACES, ROWS, Builtin

FUNCTIONS = {**ROWS, **{name: each for name, each in OWN.items() if name not in ROWS}}
"""The functions of the language, with those that only dispatches have."""
WORDS = Path(__file__).with_name("words.toml")


def read_words() -> dict[str, str]:
    """Returns the meanings of words that appear in messages and schedules but are not part of the language."""
    return tomllib.loads(WORDS.read_text(encoding="utf-8"))


class Explained(Struct, frozen=True):
    """Everything that has the given name: error codes, properties of schedules, terms of contracts, functions and
    words."""

    codes: dict[str, ErrorCode]
    properties: list[PropertyRow]
    terms: list[Term]
    functions: dict[str, Builtin]
    words: dict[str, str]


def names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Completions for the shell."""
    known = (*read_codes(), *PROPERTIES, *NAMES, *FUNCTIONS, *read_words())
    return [name for name in known if name.startswith(incomplete)]


def places_of(function: Builtin) -> list[str]:
    library = ("tiles", "arrays") if function.name in library_names() else ()
    return [place for domain, place in PLACES.items() if function.stands_in(domain) or domain in library]


def said_of(function: Builtin) -> dict[str, str]:
    return {"takes": function.types, "error": function.error}


@click.command()
@click.argument("name", metavar="[CODE|PROPERTY|TERM|FUNCTION|WORD]", required=False, shell_complete=names)
@shared("as_json")
def command(name: str | None, as_json: bool) -> int:
    """Explain an error CODE and how to fix it, a PROPERTY of schedules, a TERM of contracts, a FUNCTION of the language
    or a WORD of messages; or say what stands here for a word of CUDA C++ or Triton. Without a name, list all of them.
    """
    # Accepts the code in the form that messages print, so that the code can be pasted.
    if name is not None and name.startswith("error[") and name.endswith("]"):
        name = name[6:-1]
    codes, words = read_codes(), read_words()
    try:
        rows_known = rows_of(current())
    except Exception as error:
        return show(error)
    known = [*codes, *rows_known, *NAMES, *FUNCTIONS, *words]
    # "bank conflict" and "in flight" stand in messages with a space.
    name = "-".join(name.split()) if name is not None and name not in known else name
    if name is not None and name not in known:
        if (instead := instead_of(name, FUNCTIONS)) is not None:
            click.echo(json.dumps({name: {"instead": instead}}) if as_json else f"{name}\n\nhere: {instead}")
            return 0
        message = f"there is no error code, property, term, function or word '{name}'"
        return show(TileError("option", None, message, closest(name, known)))
    found = Explained(
        {code: row for code, row in codes.items() if name in (None, code)},
        [row for row in rows_known.values() if name in (None, row.name)],
        [row for row in TERMS.values() if name in (None, row.name)],
        {each: row for each, row in FUNCTIONS.items() if name in (None, each)},
        {word: meaning for word, meaning in words.items() if name in (None, word)},
    )
    if as_json:
        click.echo(json.dumps(rows_told(found)))
    elif name is None:
        show_all(found)
    else:
        show_each(found)
    return 0


def rows_told(found: Explained) -> dict[str, dict[str, str]]:
    """The data that `--json` prints."""
    rows: dict[str, dict[str, str]] = {
        code: {"meaning": row.meaning, "example": row.example, "mend": row.mend} for code, row in found.codes.items()
    }
    for each in found.properties:
        said = {"property": each.usage, "does": each.doc, "line": each.example}
        # A code and a property may have the same name (`layout`, `shared`), and so may a property and a word. Their
        # rows are merged.
        rows[each.name] = {**rows.get(each.name, {}), **said}
    for term in found.terms:
        said = {"unit": term.unit, "counts": term.doc, "from": term.source, "known": term.known}
        rows[term.name] = {**rows.get(term.name, {}), term.usage: f"expect {term.example}", **said}
    for function, made in found.functions.items():
        said = {"operation": made.usage, "means": made.means, "types": made.types, "error": made.error}
        rows[function] = {**rows.get(function, {}), **said, "stands in": ", ".join(places_of(made))}
    for word, meaning in found.words.items():
        rows[word] = {**rows.get(word, {}), "word": meaning}
    return rows


def show_all(found: Explained) -> None:
    """Prints a line for each name."""
    from dsl.text.terminal import Terminal, table

    def brief(text: str) -> str:
        # Takes the first sentence.
        return text.split(". ")[0].rstrip(".")

    parts = {
        "codes of errors": [(code, brief(row.meaning)) for code, row in found.codes.items()],
        "properties of schedules": [(each.name, each.usage) for each in found.properties],
        "terms of contracts": [(term.usage, f"{term.doc} In {term.unit}.") for term in found.terms],
        "functions": [(made.short, made.means) for made in found.functions.values()],
        "words": [(word, brief(meaning.split(": ")[0])) for word, meaning in found.words.items()],
    }
    for title, rows in parts.items():
        click.echo(f"{title}:")
        Terminal().show(table(["", ""], rows))


def show_each(found: Explained) -> None:
    """Prints all rows in full. `stage`, for example, is both a property and a word."""
    for code, row in found.codes.items():
        click.echo(f"error[{code}]\n\n{click.wrap_text(row.meaning, 100)}\n")
        click.echo(f"For example:\n\n{indent(row.example.strip(), '    ')}\n\nInstead: {row.mend}")
    for each in found.properties:
        click.echo(f"{each.usage}\n\n{click.wrap_text(each.doc, 100)}\n\nFor example: {each.example}")
    for term in found.terms:
        click.echo(f"{term.usage}, in {term.unit}\n\n{click.wrap_text(term.doc, 100)}\n")
        click.echo(f"{term.known}: {KNOWN[term.known]}; from {term.source}\n\nFor example: expect {term.example}\n")
    for made in found.functions.values():
        click.echo(f"{made.usage}\n\n{made.means}\n\nstands in: {', '.join(places_of(made))}")
        click.echo("".join(f"{what}: {said}\n" for what, said in said_of(made).items() if said), nl=False)
    for word, meaning in found.words.items():
        click.echo(f"{word}\n\n{click.wrap_text(meaning, 100)}")
