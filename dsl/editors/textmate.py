"""The grammar of TextMate for `.tile` text, which VS Code, GitHub and other editors read.

`editors/vscode/` contains it. After a change of the grammar or of a table of words, write it again with `python -m
dsl.editors.textmate > editors/vscode/syntaxes/tile.tmLanguage.json`. Until then, a test fails.
"""

from __future__ import annotations

import json
from typing import Any

from dsl.editors.rules import COLOURS, ColourRule, rules

LANGUAGE = "tile"


def grammar() -> dict[str, Any]:
    """Returns the grammar as data. TextMate takes the rule that matches first in a line, and of several at the same
    place the first one, as Pygments does."""
    return {
        "$schema": "https://raw.githubusercontent.com/martinring/tmlanguage/master/tmlanguage.json",
        "name": LANGUAGE,
        "scopeName": f"source.{LANGUAGE}",
        "fileTypes": [LANGUAGE],
        "patterns": [_pattern(rule) for rule in rules()],
    }


def _pattern(rule: ColourRule) -> dict[str, Any]:
    scopes = [COLOURS[colour].scope for colour in rule.colours]
    named = {str(group): {"name": f"{scope}.{LANGUAGE}"} for group, scope in enumerate(scopes, 1) if scope}
    if len(scopes) > 1:
        return {"match": rule.regex, "captures": named}
    # A name without a scope is still matched: no rule may begin inside it.
    return {"match": rule.regex} | named.get("1", {})


def text() -> str:
    """Returns the grammar as the text of a file."""
    return json.dumps(grammar(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(text(), end="")
