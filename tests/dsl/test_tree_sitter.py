"""The grammar of tree-sitter: made from the compiler's grammar, it parses what the compiler parses, and its query
colours the words that the lexer of Pygments colours."""

from __future__ import annotations

import ctypes
import json
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from coloured import FILES, pieces

tree_sitter = pytest.importorskip("tree_sitter")

from dsl.editors import treesitter  # noqa: E402
from dsl.editors.words import words  # noqa: E402
from dsl.lowering.ir.location import TileError  # noqa: E402
from dsl.text.syntax import parse  # noqa: E402
from tests.random_kernels.kernels import kernel_of  # noqa: E402
from tests.whole import some  # noqa: E402

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "editors" / "tree-sitter-tile"
MISTAKEN = sorted((ROOT / "tests" / "errors").rglob("*.tile"))


@pytest.mark.parametrize("name", treesitter.files())
def test_the_files_are_up_to_date(name: str) -> None:
    assert (FOLDER / name).read_text() == treesitter.files()[name], (
        "python -m dsl.editors.treesitter editors/tree-sitter-tile"
    )


@pytest.fixture(scope="module")
def language(tmp_path_factory: pytest.TempPathFactory) -> Any:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler")
    library, source = tmp_path_factory.mktemp("parser") / "tile.so", FOLDER / "src"
    files = [str(source / "parser.c"), str(source / "scanner.c")]
    subprocess.run([compiler, "-shared", "-fPIC", "-I", str(source), *files, "-o", str(library)], check=True)
    function = ctypes.CDLL(str(library)).tree_sitter_tile
    function.restype = ctypes.c_void_p
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return tree_sitter.Language(capsule(function(), b"tree_sitter.Language", None))


def parses(language: Any, text: str) -> bool:
    return not tree_sitter.Parser(language).parse(text.encode()).root_node.has_error


def is_right(text: str) -> bool:
    try:
        parse(text)
    except TileError:
        return False
    return True


def test_the_parser_was_made_from_the_grammar(language: Any) -> None:
    """It has all names of nodes and all words of the grammar, and no others."""
    data = json.loads((FOLDER / "src" / "grammar.json").read_text())
    wanted = {name for name in data["rules"] if not name.startswith("_")}
    # A hidden rule of one word alone is a node with the name of its alias.
    todo: list[Any] = [each for each in data["rules"].values() if each["type"] != "STRING"]
    while todo:
        rule = todo.pop()
        wanted |= {rule["value"]} if rule["type"] in ("ALIAS", "STRING") else set()
        todo += [*rule.get("members", ()), *([rule["content"]] if "content" in rule else ())]
    kinds = range(language.node_kind_count)
    found = {language.node_kind_for_id(kind) for kind in kinds if language.node_kind_is_visible(kind)}
    assert found - {"ERROR", "end"} == wanted


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_files_parse(language: Any, path: Path) -> None:
    text = path.read_text()
    assert parses(language, text)
    assert parses(language, text.replace("\n", "\r\n"))
    assert parses(language, text.rstrip("\n"))


def test_mistaken_files_parse_if_the_compiler_parses_them(language: Any) -> None:
    texts = [path.read_text() for path in some(MISTAKEN, 3)]
    right = [text for text in texts if is_right(text)]
    assert len(right) > 30 and all(parses(language, text) for text in right)


def test_random_programs_parse(language: Any) -> None:
    for seed in some(range(1000), 20):
        assert parses(language, kernel_of(seed).text()), seed


def without_a_piece(text: str, draw: random.Random) -> str:
    """A text without one piece, or with one twice."""
    every = [each for each in pieces(text) if each[1] not in ("space", "comment")]
    at, _, piece = draw.choice(every)
    return text[:at] + draw.choice(["", f"{piece} {piece}"]) + text[at + len(piece) :]


def test_it_is_as_strict_as_the_compiler_s_parser(language: Any) -> None:
    """What the compiler parses, it parses. What the compiler refuses, it refuses, too, except a few: it knows neither
    what may be assigned to, nor the limits of the compiler, and follows two ways where Lark takes the first."""
    draw, wrong, passed = random.Random(7), 0, list[str]()
    short = [path.read_text() for path in FILES if path.stat().st_size < 4000]
    for _ in range(len(some(range(2000), 5))):
        text = without_a_piece(draw.choice(short), draw)
        if is_right(text):
            assert parses(language, text), text
        else:
            wrong += 1
            passed += [text] if parses(language, text) else []
    assert wrong > 100 and len(passed) < wrong / 20, passed[:3]


def coloured(language: Any, text: str) -> dict[int, str]:
    """The last capture at each place, as editors take it."""
    query = tree_sitter.Query(language, (FOLDER / "queries" / "highlights.scm").read_text())
    root = tree_sitter.Parser(language).parse(text.encode("latin-1", "replace")).root_node
    found: dict[int, tuple[int, str]] = {}
    for pattern, captures in tree_sitter.QueryCursor(query).matches(root):
        for name, nodes in captures.items():
            for node in nodes:
                found[node.start_byte] = max(found.get(node.start_byte, (-1, "")), (pattern, name))
    return {at: name for at, (_, name) in found.items()}


CAPTURES = {
    "comment": {"comment"},
    "string": {"string"},
    "number": {"number"},
    "head": {"keyword"},
    "keyword": {"keyword"},
    "word operator": {"keyword.operator"},
}
"""Classes of the lexer of Pygments, and the captures of the same text."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_query_colours_as_pygments_does(language: Any, path: Path) -> None:
    text = path.read_text()
    captures, count = coloured(language, text), 0
    named = {capture: name for name, several in CAPTURES.items() for capture in several}
    for at, name, piece in pieces(text):
        if name in CAPTURES:
            count += 1
            assert captures.get(at) in CAPTURES[name], (piece, text[:at].count("\n") + 1)
        elif name not in ("space", "directive"):  # words as `layout` are both keywords and directives
            assert captures.get(at) not in named, (piece, name, text[:at].count("\n") + 1)
    assert count > 3


def test_the_query_has_all_keywords_and_words() -> None:
    query = (FOLDER / "queries" / "highlights.scm").read_text()
    lists = re.findall(r"^\[(.*)\] @keyword$", query, re.M)
    assert {word for each in lists for word in re.findall(r'"(\w+)"', each)} == words().keywords
