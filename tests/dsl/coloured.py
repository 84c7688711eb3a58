"""Pieces of `.tile` text as the lexer of Pygments has them, and the files whose colours are tested."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from pygments.lexers import get_lexer_by_name

from dsl.editors.rules import COLOURS

ROOT = Path(__file__).parents[2]
FOLDERS = ("samples", "docs", "dsl", "benchmarks")
FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.tile"))
CLASSES = {colour.token: name for name, colour in COLOURS.items()} | {"Error": "error"}
Piece = tuple[int, str, str]
"""Where a piece of text begins, its class (a key of `COLOURS`, or `error`), the text."""


@cache
def lexer() -> Any:
    return get_lexer_by_name("tile", stripnl=False, ensurenl=False)


def pieces(text: str) -> list[Piece]:
    found = lexer().get_tokens_unprocessed(text)
    return [(at, CLASSES[str(token).removeprefix("Token.")], piece) for at, token, piece in found]


def classes(text: str) -> dict[str, str]:
    """The class of each piece of a text that is not white space."""
    return {piece: name for _, name, piece in pieces(text) if name != "space"}
