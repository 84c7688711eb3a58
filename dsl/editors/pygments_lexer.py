"""The lexer of Pygments for `.tile` text. rich, MkDocs, Sphinx and nbconvert find it by the name `tile`.

Only Pygments imports this module, by the entry point in pyproject.toml. So the compiler does not depend on Pygments.
"""

from __future__ import annotations

from typing import Any

from pygments.lexer import RegexLexer, bygroups
from pygments.token import Whitespace, string_to_tokentype


class TileLexer(RegexLexer):
    """Splits `.tile` text into tokens by the rules of `dsl/editors/rules.py`."""

    name = "tile"
    aliases = ("tile",)
    filenames = ("*.tile",)

    @classmethod
    def get_tokendefs(cls) -> dict[str, list[Any]]:
        """Returns the rules. Pygments asks for them when it makes the first lexer. It also imports this module when it
        looks for the lexer of any other file, and then the compiler's tables, which take 0.3 s, are not needed."""
        from dsl.editors.rules import COLOURS, rules

        found: list[Any] = []
        for rule in rules():
            tokens = [string_to_tokentype(COLOURS[colour].token) for colour in rule.colours]
            found.append((rule.regex, tokens[0] if len(tokens) == 1 else bygroups(*tokens)))
        return {"root": [*found, (r"[ \t]+|\n", Whitespace)]}
