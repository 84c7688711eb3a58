"""`python -m tests.reference_pages`: writes docs/reference/ from the compiler's tables, commands and docstrings.

tests/test_reference_pages.py fails if a page is not what this writes. `pytest --update-golden` writes them, too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from inspect import cleandoc
from pathlib import Path
from textwrap import wrap

import click

import dsl
from dsl.command import COMMANDS, cli
from dsl.command.error_codes import read_codes
from dsl.command.explain import read_words
from dsl.lab.log_schema import schema_text
from dsl.lab.trial import Trial
from dsl.lowering.passes import PASSES
from dsl.schedules.properties import PROPERTIES

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "reference"
WRITTEN = "<!-- tests/reference_pages.py writes this page -->"
SCHEMA = "trial.schema.json"
OPERATORS = {"torch.op": "dsl.torch.operators", "jax.op": "dsl.jax.functions"}
"""Public functions of subpackages that import a framework: the module that defines each."""


def wrapped(text: str, first: str = "", later: str = "") -> str:
    """A paragraph of Markdown. The options keep code and links whole."""
    kept = {"break_on_hyphens": False, "break_long_words": False}
    return "\n".join(wrap(" ".join(text.split()), 120, initial_indent=first, subsequent_indent=later, **kept))


def prose(text: str, first: str = "", later: str = "") -> str:
    """A paragraph of plain text. What is not code between backticks loses its meaning as markup."""
    parts = re.split(r"(`[^`]*`)", text)
    safe = "".join(each if each.startswith("`") else re.sub(r"([*<\[\]_])", r"\\\1", each) for each in parts)
    return wrapped(safe, first, later)


def code(text: str, language: str) -> str:
    return f"```{language}\n{text.strip()}\n```"


def language_of(example: str) -> str:
    """`tile` only for what is wholly of the language: an example of an error may be only described."""
    from pygments.token import Error

    from dsl.editors.pygments_lexer import TileLexer

    if example.startswith("$ "):
        return "console"
    if example.startswith(">>> "):
        return "pycon"
    is_tile = all(token is not Error for token, _ in TileLexer().get_tokens(example)) and re.search(r"[=(:]", example)
    return "tile" if is_tile else "text"


# ---- tables of the compiler ----


def errors() -> Iterator[str]:
    yield "# Error codes and words"
    yield "`dsl explain NAME` shows a row of this page: what is wrong, what leads to it, and what to write instead."
    yield "## Codes"
    for name, row in read_codes().items():
        yield f"### {name}"
        yield prose(row.meaning)
        yield code(row.example, language_of(row.example))
        yield prose(f"Instead: {row.mend}")
    yield "## Words of messages and schedules"
    yield "\n".join(prose(f"`{word}`: {meaning}", "- ", "  ") for word, meaning in read_words().items())


def properties() -> Iterator[str]:
    yield "# Properties of schedules"
    yield wrapped(
        "A property is a line of a schedule. Those that rewrite the kernel are its directives: "
        "[directives.md](../directives.md) gives the defaults and the order. Below each property are its form, what it "
        "does, an example, and the passes that read it."
    )
    for row in PROPERTIES.values():
        yield f"## {row.name}"
        yield code(row.usage, "text")
        yield prose(row.doc)
        yield code(row.example, "tile")
        if readers := [f"`{each.name}`" for each in PASSES if row.name in each.reads]:
            yield prose(f"Read by: {', '.join(readers)}.")


# ---- commands ----


def form_of(parameter: click.Parameter) -> str:
    """An option or argument as one writes it."""
    if isinstance(parameter, click.Argument):
        return parameter.metavar or (parameter.name or "").upper()
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    if getattr(parameter, "is_flag", False):
        return names
    kind = parameter.type.name.partition(" ")[0].upper()
    if isinstance(parameter.type, click.Choice):
        kind = "|".join(map(str, parameter.type.choices))
    return f"{names} {parameter.metavar or {'INTEGER': 'N', 'FLOAT': 'X'}.get(kind, kind)}"


def commands() -> Iterator[str]:
    yield "# Commands"
    yield wrapped(
        "`dsl COMMAND --help` prints the same. The [README](../../README.md) has examples, and "
        "[notebooks.md](../notebooks.md) the functions of Python."
    )
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        yield f"## dsl {name}"
        arguments = [form_of(each) for each in command.params if isinstance(each, click.Argument)]
        yield code(" ".join(["dsl", name, "[OPTIONS]", *arguments]), "text")
        for paragraph in cleandoc(command.help or "").replace("\b\n", "").split("\n\n"):
            yield prose(paragraph)
        options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
        if options:
            yield "\n".join(prose(f"`{form_of(each)}`: {each.help or ''}", "- ", "  ") for each in options)


# ---- Python ----


def definition(module: str, name: str) -> ast.FunctionDef | ast.ClassDef:
    """Of a function or class, read from the source: nothing is imported."""
    tree = ast.parse(Path(ROOT, *module.split(".")).with_suffix(".py").read_text(encoding="utf-8"))
    (node,) = (each for each in tree.body if isinstance(each, ast.FunctionDef | ast.ClassDef) and each.name == name)
    return node


def parameters(node: ast.FunctionDef) -> list[str]:
    """As one writes them, with annotations and defaults."""
    given = node.args
    found = [ast.unparse(each) for each in (*given.posonlyargs, *given.args)]
    for place, default in enumerate(reversed(given.defaults), 1):
        found[-place] += f" = {ast.unparse(default)}"
    if given.vararg is not None:
        found.append(f"*{ast.unparse(given.vararg)}")
    elif given.kwonlyargs:
        found.append("*")
    for each, named in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        found.append(ast.unparse(each) + (f" = {ast.unparse(named)}" if named is not None else ""))
    return found + ([f"**{ast.unparse(given.kwarg)}"] if given.kwarg is not None else [])


def signature(name: str, node: ast.FunctionDef, is_method: bool = False) -> str:
    """A call as Python writes it, a parameter a line if it is long."""
    result = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    taken = parameters(node)[1 if is_method else 0 :]
    short = f"{name}({', '.join(taken)}){result}"
    return short if len(short) <= 100 else "\n".join([f"{name}(", *(f"    {each}," for each in taken), f"){result}"])


def is_property(node: ast.FunctionDef) -> bool:
    return any(ast.unparse(each) in ("property", "cached_property") for each in node.decorator_list)


def documentation(node: ast.FunctionDef | ast.ClassDef) -> Iterator[str]:
    yield from map(prose, filter(None, (ast.get_docstring(node) or "").split("\n\n")))


def described(name: str, node: ast.FunctionDef | ast.ClassDef) -> Iterator[str]:
    """A public function, or a class with its public methods and properties that have a docstring."""
    yield f"## dsl.{name}"
    if isinstance(node, ast.FunctionDef):
        yield code(signature(f"dsl.{name}", node), "python")
    yield from documentation(node)
    for each in node.body if isinstance(node, ast.ClassDef) else []:
        if isinstance(each, ast.FunctionDef) and not each.name.startswith("_") and ast.get_docstring(each):
            yield f"### {name}.{each.name}"
            if not is_property(each):
                yield code(signature(each.name, each, is_method=True), "python")
            yield from documentation(each)


def python() -> Iterator[str]:
    yield "# The Python API"
    yield "The public names of `dsl`, with their docstrings. [python.md](../python.md) explains how they work together."
    for name in sorted(dsl.HOME, key=str.lower):
        yield from described(name, definition(dsl.HOME[name], name))
    for name, module in OPERATORS.items():
        yield from described(name, definition(module, name.partition(".")[2]))


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "commands.md": commands,
    "errors.md": errors,
    "properties.md": properties,
    "python.md": python,
}


def page(name: str) -> str:
    if name == SCHEMA:
        return schema_text(Trial)
    return "\n\n".join([WRITTEN, *PAGES[name]()]) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in (*PAGES, SCHEMA):
        (FOLDER / each).write_text(page(each), encoding="utf-8")
