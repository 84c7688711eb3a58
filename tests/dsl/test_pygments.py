"""Colours of `.tile` text by the lexer of Pygments."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from importlib.metadata import entry_points
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from coloured import FILES, classes, lexer, pieces
from lark.exceptions import LarkError
from pygments.lexers import get_lexer_by_name, get_lexer_for_filename
from pygments.token import Error
from rich.console import Console
from rich.syntax import Syntax

from dsl.editors.pygments_lexer import TileLexer
from dsl.editors.words import words
from dsl.lowering.ir.location import TileError
from dsl.text import grammar_tables
from dsl.text import tree as ast
from dsl.text.syntax import _Indentation, _Reading, parse

ROOT = Path(__file__).parents[2]
WRONG = sorted((ROOT / "tests" / "errors").rglob("*.tile"))


def test_the_lexer_is_an_entry_point() -> None:
    (entry,) = entry_points(group="pygments.lexers", name="tile")
    assert entry.load() is TileLexer
    assert isinstance(get_lexer_by_name("tile"), TileLexer)
    assert isinstance(get_lexer_for_filename("softmax.tile"), TileLexer)


def test_rich_colours_by_name() -> None:
    out = StringIO()
    Console(file=out, force_terminal=True, color_system="truecolor").print(Syntax("kernel k(y: f32[n]):\n", "tile"))
    assert re.search(r"\x1b\[[\d;]+mkernel\x1b", out.getvalue())


@pytest.mark.parametrize(
    ("module", "absent"), [("dsl", "pygments"), ("dsl.editors.pygments_lexer", "dsl.values.functions")]
)
def test_an_import_loads_only_what_it_needs(module: str, absent: str) -> None:
    """Pygments imports our lexer when it looks for that of any file: tables of functions take 0.3 s."""
    command = f"import sys, {module}\nassert {module!r} in sys.modules\nsys.exit({absent!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", command], cwd=ROOT, timeout=60).returncode == 0


def test_every_file_is_coloured_without_an_error() -> None:
    assert len(FILES) > 50
    for path in FILES:
        found = list(lexer().get_tokens(path.read_text()))
        assert "".join(piece for _, piece in found) == path.read_text(), path
        assert not [piece for token, piece in found if token is Error], path


def test_a_sign_that_the_language_lacks_is_an_error() -> None:
    assert [piece for token, piece in lexer().get_tokens("x = $y!") if token is Error] == ["$", "!"]


def test_wrong_files_keep_their_text() -> None:
    assert len(WRONG) > 200
    for path in WRONG:
        text = path.read_text(encoding="utf-8").replace("\r", "")
        assert "".join(piece for _, piece in lexer().get_tokens(text)) == text, path


@cache
def parser() -> Any:
    return grammar_tables.load(postlex=_Indentation(_Reading()))


def tokens(text: str) -> list[Any]:
    """Those of the compiler's parser; none of a text that it refuses."""
    try:
        return list(parser().parse_interactive(text).iter_parse())
    except (LarkError, TileError):
        return []


def test_keywords_are_those_of_the_parser() -> None:
    """The parser tells by its state whether `in`, `ring` or `layout` is a keyword; the rules by the neighbours."""
    apart, count = [], 0
    for path in (*FILES, *WRONG):
        text = path.read_text(encoding="utf-8").rstrip() + "\n"
        coloured = {at: name for at, name, _ in pieces(text)}
        for token in tokens(text):
            # A part of `ref.softmax` begins no piece of its own. `require` is a directive, and a keyword of dispatches.
            name = coloured.get(token.start_pos)
            if name in (None, "directive") or not token.isidentifier() or token.type in ("OPERATOR", "PREFIX"):
                continue
            is_keyword = name in ("keyword", "head")
            count += token.type != "NAME"
            if is_keyword != (token.type != "NAME"):
                apart.append(f"{path}: {token.line}: {token} is {token.type}, coloured as {name}")
    assert not apart and count > 3000


def directive_lines(text: str) -> set[int]:
    """The lines of a text that the parser takes for directives, but for those of plug-ins."""
    found = set()
    for node in (line for block in parse(text).blocks for line in getattr(block, "lines", [])):
        if isinstance(node, ast.LayoutLine) or (isinstance(node, ast.Property) and node.name in words().directives):
            found.add(node.loc.line)
    requires = re.finditer(r"^ *require ", text, re.M)  # also a line of dispatches
    return found | {text.count("\n", 0, each.start()) + 1 for each in requires}


def test_directives_are_those_of_the_parser() -> None:
    count = 0
    for path in FILES:
        text = path.read_text()
        coloured = {text.count("\n", 0, at) + 1 for at, name, _ in pieces(text) if name == "directive"}
        assert coloured == directive_lines(text), path
        count += len(coloured)
    assert count > 300


USES = {
    "callable_heads": ("{} k(x):", "head"),
    "other_heads": ("{} k:", "head"),
    "directives": ("    {} p: 4", "directive"),
    "types": ("v.to({})", "type"),
    "values": ("x = {}", "value"),
    "functions": ("x = {}(y)", "function"),
    "dotted": ("x = {}(y)", "function"),
    "methods": ("v.{}", "function"),
    "operators": ("x {} y", "word operator"),
}
"""Kind of words: a line with one, and its class there."""


@pytest.mark.parametrize("kind", USES)
def test_each_word_has_its_class(kind: str) -> None:
    line, wanted = USES[kind]
    known = getattr(words(), kind)
    assert known
    assert {word: classes(line.format(word)).get(word) for word in known} == dict.fromkeys(known, wanted)


def test_each_keyword_has_its_class() -> None:
    known = words()
    heads = known.callable_heads | known.other_heads
    for word in known.keywords - heads - known.directives:
        first = "x " if word in known.after_operands else ""
        assert classes(f"    {first}{word} y")[word] == "keyword", word
    assert known.keywords >= {"kernel", "grid", "static", "within", "tune"} and len(known.keywords) > 30


def test_words_come_from_all_tables() -> None:
    known = words()
    assert known.callable_heads == {"kernel", "def", "dispatch"} and known.other_heads == {"schedule", "example"}
    assert known.after_operands >= {"in", "of", "on", "with", "within", "as", "and", "or"}
    assert known.directives >= {"stage", "layout", "like", "choose"} and known.types >= {"f16", "e4m3", "index"}
    assert known.functions >= {"exp", "load", "workspace", "fits"} and known.methods == {"to", "T"}
    assert known.dotted >= {"ref.softmax", "shfl.xor", "ex2.approx.ftz"} and known.families == {"mma.sync."}


def test_names_are_coloured_where_they_are_defined() -> None:
    for head, name in {"kernel": "callable name", "dispatch": "callable name", "def": "callable name"}.items():
        assert classes(f"{head} rows(y, x):")["rows"] == name
    assert classes("schedule fast of rows:") == {
        "schedule": "head", "fast": "other name", "of": "keyword", "rows": "name", ":": "punctuation"
    }  # fmt: skip
    assert classes("example long:")["long"] == "other name" and classes("example:")["example"] == "head"


def test_other_classes() -> None:
    assert classes('t = -0x1F + 1.5e-3 * COLS # "x" in f16') == {
        "t": "name", "=": "operator", "-": "operator", "0x1F": "number", "+": "operator", "1.5e-3": "number",
        "*": "operator", "COLS": "constant", '# "x" in f16': "comment",
    }  # fmt: skip
    assert classes('import "a # b.tile" as lines') == {
        "import": "keyword", '"a # b.tile"': "string", "as": "keyword", "lines": "name"
    }  # fmt: skip
    assert classes("expect y ~= ref.max(x) within 1e-3")["~="] == "operator"
    assert classes("f(v, ...)")["..."] == "punctuation" and classes("lines.edges(x)")["edges"] == "attribute"
    assert classes("mma.sync.m16n8k16(a)")["mma.sync.m16n8k16"] == "function"


@pytest.mark.parametrize("line", ["x = {} + 1", "x = a[{}]", "f({}, y)", "f(x={} == 1)", "x = {} and y", "x = y.{}"])
@pytest.mark.parametrize("word", ["table", "ring", "on", "option", "stage", "kernel"])
def test_a_name_may_be_a_keyword_elsewhere(line: str, word: str) -> None:
    assert classes(line.format(word))[word] in ("name", "attribute")


def test_blocks_of_pages_are_coloured_without_an_error() -> None:
    """Those that say they are `tile`."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("**/*.md")]
    blocks = [each for page in pages for each in re.findall(r"^```tile\n(.*?)^```", page.read_text(), re.M | re.S)]
    assert len(blocks) > 10
    assert not [piece for block in blocks for token, piece in lexer().get_tokens(block) if token is Error]
