"""The words of the language by kind. They are read from the grammar and from the compiler's tables, so a new keyword,
property, type or function is coloured without a change here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from lark import Lark
from lark.grammar import NonTerminal
from lark.lexer import PatternStr
from msgspec import Struct

import dsl.values.functions  # noqa: F401 (defines the rows)
from dsl.calls.line_names import OWN
from dsl.lowering.ir.types import DTYPES, OPERAND_TYPES
from dsl.schedules.properties import OTHER_LINES, PROPERTIES
from dsl.text import grammar_tables
from dsl.text.syntax import PRECEDENCE, PREFIX
from dsl.text.tree import NOTHING
from dsl.values import walk
from dsl.values.table import FAMILIES, ROWS


class LanguageWords(Struct, frozen=True):
    """The words of each kind.

    `callable_heads` begin a definition with parameters, such as `kernel k(…):`, and `other_heads` begin one without, as
    `schedule` does. `keywords` are all words of the grammar, with the heads. `after_operands` are those that may follow
    a whole expression, as `in`, `on` and `and` do. `statements` are keywords that give their name to a rule of the
    grammar, as `if` does: they may precede a parenthesis without a space. `directives` begin lines of schedules.
    `methods` follow a dot. `dotted` are the functions with dots in their names, and `families` are the beginnings of
    such names. `signs` are the punctuation of the grammar. `patterns` are the regular expressions of its terminals, by
    the terminals' names.
    """

    callable_heads: frozenset[str]
    other_heads: frozenset[str]
    keywords: frozenset[str]
    after_operands: frozenset[str]
    statements: frozenset[str]
    operators: frozenset[str]
    directives: frozenset[str]
    types: frozenset[str]
    values: frozenset[str]
    functions: frozenset[str]
    methods: frozenset[str]
    dotted: frozenset[str]
    families: frozenset[str]
    signs: frozenset[str]
    patterns: dict[str, str]


@cache
def words() -> LanguageWords:
    """Returns the words of the language. Takes 0.3 s at its first call, mostly for importing the tables of functions,
    so it is not called on import."""
    grammar = grammar_tables.load()
    fixed = {each.name: each.pattern.value for each in grammar.terminals if isinstance(each.pattern, PatternStr)}
    keywords = {name: word for name, word in fixed.items() if word.isidentifier()}
    callable_heads, other_heads = _heads(grammar, keywords)
    operators = frozenset(word for word in (*PRECEDENCE, *PREFIX) if word.isidentifier())
    functions = ROWS.keys() | OWN.keys()
    methods = {name for name in functions if name.startswith(".")}
    return LanguageWords(
        callable_heads=callable_heads,
        other_heads=other_heads,
        keywords=frozenset(keywords.values()),
        after_operands=_after_operands(grammar, keywords) | (operators - PREFIX.keys()),
        statements=frozenset(rule.origin.name for rule in grammar.rules) & frozenset(keywords.values()),
        operators=operators,
        directives=frozenset((*PROPERTIES, *OTHER_LINES)),
        types=frozenset((*DTYPES, *OPERAND_TYPES)),
        values=frozenset((*walk.WORDS, NOTHING)),
        functions=frozenset(name for name in functions if name.isidentifier()),
        methods=frozenset(name[1:] for name in methods),
        dotted=frozenset(name for name in functions - methods if "." in name),
        families=frozenset(FAMILIES),
        signs=frozenset(fixed.values()) - frozenset(keywords.values()),
        # Patterns of the grammar hold characters of new lines, which a regular expression may also write as `\n`.
        patterns={
            each.name: each.pattern.value.replace("\n", r"\n")
            for each in grammar.terminals
            if not isinstance(each.pattern, PatternStr)
        },
    )


def _heads(grammar: Lark, keywords: dict[str, str]) -> tuple[frozenset[str], frozenset[str]]:
    """Returns the words that begin a block with a name: those of blocks with parameters, and the others."""
    blocks = {rule.expansion[0].name for rule in grammar.rules if rule.origin.name == "block"}
    with_name: dict[bool, set[str]] = {True: set(), False: set()}
    for rule in grammar.rules:
        names = [symbol.name for symbol in rule.expansion]
        if rule.origin.name in blocks and names[0] in keywords and names[1] == "NAME":
            with_name[names[2] == "LPAR"].add(keywords[names[0]])
    return frozenset(with_name[True]), frozenset(with_name[False])


def _after_operands(grammar: Lark, keywords: dict[str, str]) -> frozenset[str]:
    """Returns the keywords that follow an operand somewhere in the grammar."""
    found = set()
    for rule in grammar.rules:
        for before, symbol in zip(rule.expansion, rule.expansion[1:], strict=False):
            if symbol.name in keywords and (isinstance(before, NonTerminal) or before.name in ("NAME", "STRING")):
                found.add(keywords[symbol.name])
    return frozenset(found)


def one_of(words: Iterable[str]) -> str:
    """Returns a regular expression that matches one of `words`, the longest one first.

    >>> one_of(["ex2.approx", "ex2.approx.ftz"])
    '(?:ex2\\\\.approx\\\\.ftz|ex2\\\\.approx)'
    """
    return f"(?:{'|'.join(re.escape(word) for word in sorted(words, key=lambda word: (-len(word), word)))})"
