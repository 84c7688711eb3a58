"""The grammar of tree-sitter for `.tile` text, which Neovim, Helix, Emacs and Zed read.

It is made from Lark's grammar, so it does not drift. `editors/tree-sitter-tile/` contains it. After a change of the
grammar or of a table of words, write it again with `python -m dsl.editors.treesitter editors/tree-sitter-tile`, and
the parser with `tree-sitter generate` in that folder. Until then, a test fails.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from lark.grammar import Rule, Symbol, Terminal
from lark.lexer import PatternStr

from dsl.editors.words import words
from dsl.text import grammar_tables

LANGUAGE = "tile"
START = "source_file"
EXTERNALS = {"_NL": "_newline", "_INDENT": "_indent", "_DEDENT": "_dedent"}
"""Terminals that `src/scanner.c` finds, in the order of its enumeration."""
CONFLICTS = (
    ("_postfix_name", "launch"),
    ("_postfix_name", "_schedule_line_property"),
)
"""Rules between which one word decides too little. Lark's parser takes the first of them in each state. That of
tree-sitter follows both until one fails."""
Node = dict[str, Any]


class TreeSitterGrammar:
    """Lark's rules, which have no `*`, `+` and `[]` any more, as rules of tree-sitter.

    A rule `?x` and one whose alternatives have names of their own (`-> y`) are hidden: their nodes do not appear in
    trees. Lark's own rules for `*` and `+`, which begin with `__`, become repetitions. A line ends with one token
    `_newline`, however many newlines and comments follow, so repetitions contain none.
    """

    def __init__(self) -> None:
        grammar = grammar_tables.load()
        self.terminals = {each.name: each.pattern for each in grammar.terminals}
        self.origins: dict[str, list[Rule]] = {}
        for rule in grammar.rules:
            self.origins.setdefault(str(rule.origin.name), []).append(rule)
        self.taken = {*self.origins} | {str(rule.alias) for rule in grammar.rules if rule.alias}
        self.rules: dict[str, Node] = {}
        self._fill()

    def _fill(self) -> None:
        own = {name: rules for name, rules in self.origins.items() if not name.startswith("__")}
        blocks = [self.symbol(each) for each in self._repeated("__start_star_0")]
        self.rules[START] = {"type": "REPEAT", "content": choice(blocks)}
        for name, rules in own.items():
            if name != "start":
                self._origin(name, rules)
        for name, pattern in self.terminals.items():
            if not isinstance(pattern, PatternStr) and name not in EXTERNALS:
                self.rules[self.token(name)] = of_pattern(pattern.value)

    def _origin(self, name: str, rules: Sequence[Rule]) -> None:
        named: dict[str, list[Node]] = {}
        plain = []
        for rule in rules:
            made = sequence([self.symbol(each) for each in rule.expansion])
            # A chain of one operand is this operand.
            if rule.alias and not (len(rule.expansion) == 1 and not isinstance(rule.expansion[0], Terminal)):
                named.setdefault(str(rule.alias), []).append(made)
            else:
                plain.append(made)
        for alias, several in named.items():
            hidden = f"_{name.strip('_')}_{alias}"
            self.rules[hidden] = choice(several)
            plain.append({"type": "ALIAS", "content": symbol(hidden), "named": True, "value": alias})
        self.rules[self.name(name)] = choice(plain)

    def name(self, origin: str) -> str:
        """The name of a rule: with `_` ahead if it is hidden."""
        rules = self.origins[origin]
        return f"_{origin}" if rules[0].options.expand1 or any(rule.alias for rule in rules) else origin

    def token(self, terminal: str) -> str:
        name = terminal.lower()
        return f"{name}_token" if name in self.taken else name

    def symbol(self, each: Symbol) -> Node:
        name = str(each.name)
        if name in EXTERNALS:
            return symbol(EXTERNALS[name])
        if isinstance(each, Terminal):
            pattern = self.terminals[name]
            is_word = isinstance(pattern, PatternStr)
            return {"type": "STRING", "value": pattern.value} if is_word else symbol(self.token(name))
        if not name.startswith("__"):
            return symbol(self.name(name))
        several = [sequence([*map(self.symbol, row)]) for row in self._rows(name)]
        newline = symbol(EXTERNALS["_NL"])
        return newline if several == [newline] else {"type": "REPEAT1", "content": choice(several)}

    def _rows(self, helper: str) -> Iterator[Sequence[Symbol]]:
        """What a rule of Lark's for `*` or `+` repeats."""
        rows = [rule.expansion for rule in self.origins[helper] if str(rule.expansion[0].name) != helper]
        many = [row for row in rows if [str(each.name) for each in row] != ["_NL"]]
        yield from many or rows

    def _repeated(self, helper: str) -> list[Symbol]:
        return [row[0] for row in self._rows(helper)]

    def data(self) -> Node:
        """Returns the grammar as `src/grammar.json` has it."""
        return {
            "name": LANGUAGE,
            "word": self.token("NAME"),
            "rules": self.rules,
            "extras": [{"type": "PATTERN", "value": r"\s"}, symbol(self.token("COMMENT"))],
            "conflicts": [list(each) for each in CONFLICTS],
            "precedences": [],
            "externals": [symbol(each) for each in EXTERNALS.values()],
            "inline": [],
            "supertypes": [],
        }


def symbol(name: str) -> Node:
    return {"type": "SYMBOL", "name": name}


def sequence(members: Sequence[Node]) -> Node:
    return members[0] if len(members) == 1 else {"type": "SEQ", "members": [*members]}


def choice(members: Iterable[Node]) -> Node:
    several: list[Node] = []
    for each in members:
        if each not in several:
            several.append(each)
    return several[0] if len(several) == 1 else {"type": "CHOICE", "members": several}


def of_pattern(pattern: str) -> Node:
    """Returns a token for a regular expression. Those that match finitely many texts, as operators do, become these
    texts: tree-sitter's expressions have neither `(?!…)` nor `\\b`, and it takes the longest match in any case."""
    texts = matched(pattern)
    if texts is None:
        return {"type": "PATTERN", "value": pattern}
    return choice({"type": "STRING", "value": each} for each in texts)


def matched(pattern: str) -> list[str] | None:
    """Returns all texts that a regular expression matches, or None if they are infinitely many."""
    import re._parser as parser  # type: ignore[import-not-found]

    def of(parts: Any) -> list[str] | None:
        found = [*map(one, parts)]
        several = [part for part in found if part is not None]
        return None if len(several) < len(found) else ["".join(each) for each in product(*several)]

    def one(part: Any) -> list[str] | None:
        kind, value = str(part[0]), part[1]
        if kind == "LITERAL":
            return [chr(value)]
        if kind == "IN" and all(str(each[0]) == "LITERAL" for each in value):
            return [chr(each[1]) for each in value]
        if kind == "BRANCH":
            several = [of(each) for each in value[1]]
            return None if None in several else [text for each in several for text in each or ()]
        if kind == "SUBPATTERN":
            return of(value[-1])
        return [""] if kind in ("ASSERT_NOT", "AT") else None

    return of(parser.parse(pattern))


# ---- grammar.js ----


def script(data: Node) -> str:
    """Returns the grammar as the text of `grammar.js`."""
    rules = [f"    {name}: $ => {written(rule)},\n" for name, rule in data["rules"].items()]
    lists = {
        "extras": ", ".join(map(written, data["extras"])),
        "conflicts": ", ".join(f"[{', '.join(f'$.{name}' for name in each)}]" for each in data["conflicts"]),
        "externals": ", ".join(map(written, data["externals"])),
    }
    heads = "".join(f"  {name}: $ => [{items}],\n" for name, items in lists.items())
    return (
        "// Made by `python -m dsl.editors.treesitter` from dsl/text/grammar.lark.\n"
        f'module.exports = grammar({{\n  name: "{data["name"]}",\n  word: $ => $.{data["word"]},\n'
        f"{heads}\n  rules: {{\n{''.join(rules)}  }},\n}});\n"
    )


def written(rule: Node) -> str:
    match rule["type"]:
        case "SYMBOL":
            return f"$.{rule['name']}"
        case "STRING":
            return json.dumps(rule["value"])
        case "PATTERN":
            return f"/{rule['value'].replace('/', chr(92) + '/')}/"
        case "ALIAS":
            return f"alias({written(rule['content'])}, $.{rule['value']})"
        case "SEQ" | "CHOICE":
            name = {"SEQ": "seq", "CHOICE": "choice"}[rule["type"]]
            return f"{name}({', '.join(map(written, rule['members']))})"
    return f"{rule['type'].lower()}({written(rule['content'])})"


# ---- queries/highlights.scm ----


def highlights(grammar: TreeSitterGrammar) -> str:
    """Returns the query that colours trees. Later lines win where several match."""
    known, name = words(), grammar.token("NAME")
    heads = known.callable_heads | known.other_heads
    fixed = {p.value for p in grammar.terminals.values() if isinstance(p, PatternStr)}
    patterns = [p.value for p in grammar.terminals.values() if not isinstance(p, PatternStr)]
    tokens = {text for each in patterns for text in matched(each) or () if text.isidentifier()}
    # A rule of one word alone is a node with the rule's name, as `ellipsis` is.
    alone = {rule["value"] for rule in grammar.rules.values() if rule["type"] == "STRING"}
    signs = (fixed & known.signs) - alone
    lines = [
        ";; Made by `python -m dsl.editors.treesitter` from the grammar and the tables of words.",
        f"({name}) @variable",
        f"((name ({name}) @constant.builtin) {_any_of('@constant.builtin', known.values)})",
        f"((name ({name}) @type.builtin) {_any_of('@type.builtin', known.types)})",
        f"((scalar_type ({name}) @type.builtin) {_any_of('@type.builtin', known.types)})",
        f"((tensor_type . ({name}) @type.builtin) {_any_of('@type.builtin', known.types)})",
        f"(attribute ({name}) @property)",
        f"(call . (name ({name}) @function.call))",
        f"((call . (name ({name}) @function.builtin)) {_any_of('@function.builtin', known.functions)})",
        f"(call . (attribute ({name}) @function.method.call))",
        f"(property . ({name}) @attribute)",
        f"(launch . ({name}) @function.call)",
        *(f'({head} "{head}" . ({name}) @function)' for head in sorted(known.callable_heads)),
        *(f'({head} "{head}" . ({name}) @type)' for head in sorted(known.other_heads) if _has_name(grammar, head)),
        f"[{_listed(fixed & heads)}] @keyword",
        f"[{_listed((fixed & known.keywords) - heads)}] @keyword",
        f"[{_listed(tokens & known.operators)}] @keyword.operator",
        f"[{_listed(signs)}] @punctuation",
        "(ellipsis) @punctuation",
        f"({grammar.token('STRING')}) @string",
        f"({grammar.token('NUMBER')}) @number",
        f"({grammar.token('COMMENT')}) @comment",
    ]
    return "\n".join(lines) + "\n"


def _has_name(grammar: TreeSitterGrammar, head: str) -> bool:
    """Whether a name follows the word that begins a block."""
    return any(
        len(rule.expansion) > 1 and str(rule.expansion[1].name) == "NAME" for rule in grammar.origins.get(head, ())
    )


def _any_of(capture: str, several: Iterable[str]) -> str:
    return f"(#any-of? {capture} {_listed(several)})"


def _listed(several: Iterable[str]) -> str:
    return " ".join(json.dumps(each) for each in sorted(several))


@cache
def files() -> Mapping[str, str]:
    """Returns the files of `editors/tree-sitter-tile/` that are made from the grammar, by their paths."""
    grammar = TreeSitterGrammar()
    data = grammar.data()
    return {
        "grammar.js": script(data),
        "src/grammar.json": json.dumps(data, indent=1) + "\n",
        "queries/highlights.scm": highlights(grammar),
    }


def main() -> None:
    for name, text in files().items():
        (Path(sys.argv[1]) / name).write_text(text)


if __name__ == "__main__":
    main()
