"""The rules that colour `.tile` text: regular expressions and the class of what each of their groups matches.

The lexer of Pygments and the grammar of TextMate use the same rules, so both colour alike. Their first rule that
matches at a place wins. No rule matches across lines, because TextMate reads text line by line.

The parser knows by its state whether a word such as `in`, `table` or `stage` is a keyword or a name of the user. The
rules find out by the neighbours: two operands never stand side by side, so a word before an operand is a keyword, if
the operand is no infix word. A variable may therefore be called `table`, as in `x = table + 1`.
"""

from __future__ import annotations

from functools import cache

from msgspec import Struct

from dsl.editors.words import LanguageWords, one_of, words


class Colour(Struct, frozen=True):
    """A class of text: its type of token in Pygments and its scope in TextMate, without the suffix `.tile`. The scope
    is empty for text that editors leave in the colour of the page."""

    token: str
    scope: str


COLOURS = {
    "space": Colour("Text.Whitespace", ""),
    "comment": Colour("Comment.Single", "comment.line.number-sign"),
    "string": Colour("Literal.String.Double", "string.quoted.double"),
    "number": Colour("Literal.Number", "constant.numeric"),
    "head": Colour("Keyword.Declaration", "storage.type"),
    "callable name": Colour("Name.Function", "entity.name.function"),
    "other name": Colour("Name.Class", "entity.name.type"),
    "keyword": Colour("Keyword", "keyword.control"),
    "directive": Colour("Name.Decorator", "keyword.other.directive"),
    "type": Colour("Keyword.Type", "support.type"),
    "function": Colour("Name.Builtin", "support.function"),
    "attribute": Colour("Name.Attribute", "variable.other.member"),
    "value": Colour("Keyword.Constant", "constant.language"),
    "constant": Colour("Name.Constant", "variable.other.constant"),
    "name": Colour("Name", ""),
    "word operator": Colour("Operator.Word", "keyword.operator.word"),
    "operator": Colour("Operator", "keyword.operator"),
    "punctuation": Colour("Punctuation", "punctuation"),
}


class ColourRule(Struct, frozen=True):
    """A regular expression and the classes of its groups, by the keys of `COLOURS`. If there is only one class, it is
    that of the whole match."""

    regex: str
    colours: tuple[str, ...]


@cache
def rules() -> tuple[ColourRule, ...]:
    """Returns all rules. Between them, only white space is left."""
    known = words()
    return (*_literals(known), *_at_line_starts(known), *_words(known), *_signs(known))


def _literals(known: LanguageWords) -> list[ColourRule]:
    return [
        ColourRule(known.patterns["COMMENT"], ("comment",)),
        ColourRule(known.patterns["STRING"], ("string",)),
    ]


def _before_operand(known: LanguageWords) -> str:
    """Matches where an operand begins after spaces. A sign that another space follows is an infix operator."""
    return rf'(?=[ \t]+(?!{one_of(known.after_operands)}\b)(?:[\w"(\[]|\.\d|[-~](?=[\w"(\[])))'


def _at_line_starts(known: LanguageWords) -> list[ColourRule]:
    """Rules for the first word of a line. Words that are both keywords and directives, as `layout`, are directives."""
    name, operand = known.patterns["NAME"], _before_operand(known)
    head = r"^([ \t]*)({})([ \t]+)(?!{}\b)({})"
    infix = one_of(known.after_operands)
    # `grid(0)` may begin a line inside of parentheses.
    called = one_of(known.statements - known.functions)
    return [
        ColourRule(head.format(one_of(known.callable_heads), infix, name), ("space", "head", "space", "callable name")),
        ColourRule(head.format(one_of(known.other_heads), infix, name), ("space", "head", "space", "other name")),
        ColourRule(rf"^([ \t]*)({one_of(known.directives)})\b{operand}", ("space", "directive")),
        ColourRule(rf"^([ \t]*)({one_of(known.other_heads)})\b(?=[ \t]*:)", ("space", "head")),
        ColourRule(rf"^([ \t]*)({one_of(known.keywords)})\b(?=[ \t]*:)", ("space", "keyword")),
        ColourRule(rf"^([ \t]*)({called})(?=\()", ("space", "keyword")),
    ]


def _words(known: LanguageWords) -> list[ColourRule]:
    name = known.patterns["NAME"]
    dotted = rf"(?:{one_of(known.dotted)}|{one_of(known.families)}[\w.]*\w)"
    return [
        ColourRule(r"\.\.\.", ("punctuation",)),
        ColourRule(known.patterns["NUMBER"], ("number",)),
        ColourRule(rf"(\.)({one_of(known.methods)})\b", ("punctuation", "function")),
        ColourRule(rf"(\.)({name})", ("punctuation", "attribute")),
        ColourRule(rf"\b{one_of(known.operators)}\b", ("word operator",)),
        ColourRule(rf"\b{one_of(known.keywords)}\b{_before_operand(known)}", ("keyword",)),
        ColourRule(rf"\b{dotted}(?=\()", ("function",)),
        ColourRule(rf"\b{one_of(known.functions)}(?=\()", ("function",)),
        # A type's name before `=` is a variable or an argument's name: `index = 3`.
        ColourRule(rf"\b{one_of(known.types)}\b(?![ \t]*=(?!=))", ("type",)),
        ColourRule(rf"\b{one_of(known.values)}\b", ("value",)),
        ColourRule(r"\b[A-Z][A-Z0-9_]*\b", ("constant",)),
        ColourRule(name, ("name",)),
    ]


def _signs(known: LanguageWords) -> list[ColourRule]:
    """Rules for operators and punctuation. A sign of the grammar itself is an operator if it assigns, compares or marks
    a type."""
    operators = {sign for sign in known.signs if set(sign) & set("=?")}
    regexes = [known.patterns[name] for name in ("AUGMENTED", "OPERATOR", "PREFIX")]
    return [
        ColourRule(one_of(sign for sign in operators if len(sign) > 1), ("operator",)),
        *(ColourRule(regex, ("operator",)) for regex in regexes),
        ColourRule(one_of(operators), ("operator",)),
        ColourRule(one_of(known.signs - operators), ("punctuation",)),
    ]
