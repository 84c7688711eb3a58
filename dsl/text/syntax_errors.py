"""Makes messages for syntax errors, and edits the text so that the parser can continue after an error."""

from __future__ import annotations

import re
from collections.abc import Callable

from lark import Token
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken
from msgspec import Struct

from dsl.lowering.ir.location import Loc, Source, TileError, closest
from dsl.text.elsewhere import INSTEAD

LINES_OF_SCHEDULES = frozenset(
    ("align", "barriers", "blocks_per_sm", "cache", "choose", "cluster", "contract", "evict", "instruction", "l2_group",
     "layout", "like", "loop", "math", "maxnreg", "peel", "persistent", "pipeline", "prefetch_fragments", "require",
     "specialize", "split", "stage", "subtile", "swizzle", "tune", "unroll")
)  # fmt: skip
"""First words of lines that stand in schedules alone."""

BLOCKS = ("kernel", "def", "schedule", "dispatch", "example", "import")

_EXPECTED = {
    "NAME": "a name", "NUMBER": "a number", "STRING": "a string", "OPERATOR": "an operator", "_NL": "a new line",
    "_INDENT": "an indented block", "_DEDENT": "the end of the block", "LPAR": "'('", "RPAR": "')'", "LSQB": "'['",
    "RSQB": "']'", "COLON": "':'", "COMMA": "','", "EQUAL": "'='", "SEMICOLON": "';'", "DOT": "'.'",
    "PREFIX": "an operand", "AUGMENTED": "an assignment", "$END": "the end of the file", "__ANON_0": "'~='",
    "OPTIONAL": "'?'", "ELLIPSIS": "'...'",
}  # fmt: skip
_FOUND = {"_NL": "end of the line", "$END": "end of the file", "_DEDENT": "end of the block"}
_EXPRESSION = {"PREFIX", "NAME", "NUMBER", "STRING", "LPAR", "LSQB"}
_POSTFIX = {"LPAR", "LSQB", "DOT", "OPERATOR"}
_CONDITIONS = ("if", "elif", "while", "assert", "require", "expect")
_CLOSING = {"(": ")", "[": "]"}
_CHARACTERS = {
    "'": 'strings take double quotes: "…"', "!": "'not' negates; '!=' compares", "{": "lists take '[…]'",
    "×": "'*' multiplies", "÷": "'/' divides", "−": "'-' subtracts", "≤": "write '<='", "≥": "write '>='",
    "≠": "write '!='", "“": 'strings take straight quotes: "…"', "”": 'strings take straight quotes: "…"',
    "\\": "a line goes on inside brackets", "\ufeff": "save the file without a byte order mark",
}  # fmt: skip


def explain(source: Source, error: UnexpectedInput) -> TileError:
    """Converts Lark's error to a TileError with a hint. The TileError describes the tokens in words."""
    if isinstance(error, UnexpectedCharacters):
        return _character(source, error.pos_in_stream or 0)
    assert isinstance(error, UnexpectedToken)
    end = len(source.text)
    token = error.token
    at = min(token.start_pos if token.start_pos is not None else end, end)
    stop = min(token.end_pos or at + 1, end)
    if token.type == "_INDENT":
        hint = "a block follows only a line that ends in ':'"
        return TileError("syntax", line_loc(source, source.position(stop)[0]), "unexpected indentation", hint)
    if token.type in _FOUND:
        found, stop = _FOUND[token.type], at + 1
    else:
        # A token such as a string may be as long as a line, so it is shortened.
        found = f"'{token}'" if len(token) <= 40 else f"'{token[:40]}…'"
    expected = set(error.accepts or error.expected)
    where = Loc(source, at, max(stop, at + 1))
    if expected == {"_INDENT"}:
        hint = "the lines of a block stand four columns further in, and a block has at least one"
        # The next block is valid. An error located in the next block would drop the block and all names that it
        # defines. So the error is reported at the line before the block.
        if token.type in _FOUND or (str(token) in BLOCKS and source.position(at)[1] == 1):
            message = "this line begins a block, but no indented lines follow"
            return TileError("syntax", _line_before(source, at), message, hint)
        return TileError("syntax", where, f"unexpected {found}; expected an indented block", hint)
    # Within an open bracket, line breaks are ignored, so the parser may fail several lines below. The error is then
    # reported at the bracket.
    bracket = _bracket(source, at, str(token))
    if bracket is not None:
        return bracket
    message = f"unexpected {found}; expected {_words(expected)}"
    return TileError("syntax", where, message, _hint(source, token, at, expected))


def _character(source: Source, at: int) -> TileError:
    char = source.text[at] if at < len(source.text) else ""
    loc = Loc(source, at, at + 1)
    if char == '"':
        return TileError("syntax", loc, "this string does not end on its line")
    hint = _CHARACTERS.get(char)
    if char == "{" and re.search(r"(\)|\belse)\s*$", source.line(source.position(at)[0])[: source.position(at)[1] - 1]):
        hint = "a block begins with ':', and its lines are indented"
    if hint is None and char.isalpha():
        hint = "names are of A to Z, a to z, 0 to 9 and _"
    return TileError("syntax", loc, f"unexpected character {char!r}", hint)


def _words(expected: set[str]) -> str:
    first: list[str] = []
    if {b.upper() for b in BLOCKS} <= expected:
        first, expected = ["a block"], expected - {b.upper() for b in BLOCKS} - {"_NL", "$END"}
    elif {"PREFIX", "NAME", "NUMBER"} <= expected:
        first, expected = ["an expression"], expected - _EXPRESSION
    elif expected >= _POSTFIX:
        first, expected = ["an operator"], expected - _POSTFIX
    words = first + sorted({_EXPECTED.get(t, f"'{t.lower()}'") for t in expected})
    if len(words) > 6:
        return ", ".join(words[:6]) + ", …"
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


class _Unexpected(Struct, frozen=True):
    """An unexpected token. `kind` and `word` are the token's type and text, and `at` is the token's offset. `before` is
    the text before the token on its line. `expected` contains the tokens that the grammar allows at this offset."""

    source: Source
    kind: str
    word: str
    at: int
    before: str
    expected: set[str]

    @property
    def first(self) -> str:
        """The first word of the token's line. It is empty if the token itself is the first word."""
        return self.before.split(None, 1)[0] if self.before.strip() else ""

    def is_in(self, block: str) -> bool:
        text = self.source.text
        return text.startswith(block, block_start(text, self.at))

    def follows(self, pattern: str, kind: str = "NAME") -> bool:
        return self.kind == kind and re.search(pattern, self.before) is not None


_HINTS: tuple[tuple[Callable[[_Unexpected], bool], str], ...] = (
    (lambda u: u.word == "//" or u.follows(r"//\s+\w+\s+$"), "a comment begins with '#'"),
    (lambda u: u.first == "return" and u.is_in("kernel"),
     "a kernel has no 'return': put the rest of its body in an 'if'"),
    (lambda u: u.first in ("for", "while", "if", "else") and u.is_in("example"),
     "an example has no loops and branches; a def that it calls may have"),
    (lambda u: u.first in ("when", "otherwise") and u.is_in("dispatch"),
     "a dispatch chooses by 'if', 'elif' and 'else'"),
    (lambda u: u.kind == "NAME" and not u.before, ""),
    (lambda u: u.kind == "EQUAL" and (u.first in _CONDITIONS or "OPERATOR" in u.expected), "'==' compares"),
    (lambda u: u.word in ("&", "|") and u.before.endswith(u.word), "'and', 'or' and 'not' join conditions"),
    (lambda u: u.word in ("+", "-") and u.before.endswith(u.word), "write '{}= 1'"),
    (lambda u: u.word == "if" and u.before.strip() != "", "where(condition, a, b) chooses a value"),
    (lambda u: u.word == ";" and "_NL" in u.expected, "a line holds one statement"),
    (lambda u: u.kind == "COLON" and u.is_in("schedule") and u.before.strip() == u.first,
     "a property is '{first} VALUE', a constant '{first} = VALUE'"),
    (lambda u: u.expected == {"EQUAL"} and u.is_in("schedule") and u.follows(r"^\s*\w+\s+[-~]", "_NL"),
     "a value that begins with a sign stands in brackets: {first} (…)"),
    (lambda u: u.kind == "COLON" and {"EQUAL", "IN"} <= u.expected,
     "a constant has no type: NAME, or NAME = default"),
    (lambda u: u.kind == "COLON" and "RSQB" in u.expected,
     "a slice has no step: index by a tile, start + STEP * arange(N)"),
    (lambda u: u.follows(r"\b0$") and u.word[0] in "bBoO", "integers are decimal or hexadecimal: 0xff"),
    (lambda u: u.follows(r"\d\.?$"), "a number has no suffix; .to(f32) converts"),
    (lambda u: u.word == ")" and u.before.rstrip().endswith(";"), "constants follow ';': without one it is left out"),
    (lambda u: u.word in (")", "]") and not _opened(u.source.text, u.at), "no bracket is open here"),
    (lambda u: u.kind == "OPTIONAL" and not u.before.lstrip().startswith(("kernel", "dispatch")),
     "where(condition, a, b) chooses a value"),
    (lambda u: u.kind == "OPTIONAL", "only tensors are optional: x: f32[n]?"),
    (lambda u: (u.word == "&" and "PREFIX" in u.expected) or (u.word == "*" and not u.before.strip()),
     "memory has no address here: x[i] is a part of x"),
    (lambda u: u.first == "tune" and u.kind == "EQUAL", "tune NAME in 4, 8"),
    (lambda u: u.first in LINES_OF_SCHEDULES and u.is_in("kernel"),
     "'{first}' is a line of a schedule: schedule NAME of KERNEL:"),
)  # fmt: skip
"""Pairs of a condition on the unexpected token and a hint. The hint of the first true condition is used. An empty hint
stands for the block keyword that is closest to the token."""


def _hint(source: Source, token: Token, at: int, expected: set[str]) -> str | None:
    before = source.text[source.text.rfind("\n", 0, at) + 1 : at]
    unexpected = _Unexpected(source, token.type, str(token), at, before, expected)
    said = next((said for is_meant, said in _HINTS if is_meant(unexpected)), None)
    if said == "":
        return closest(str(token), list(BLOCKS)) or "a file holds blocks: " + ", ".join(BLOCKS)
    if said is None and (unexpected.first or unexpected.word) in INSTEAD:
        return INSTEAD[unexpected.first or unexpected.word]
    return said and said.format(token, first=unexpected.first)


def _bracket(source: Source, at: int, found: str) -> TileError | None:
    """Returns the error for a bracket that causes the syntax error at offset `at`. Such a bracket is closed by a
    bracket of another kind, or is still open on a later line. Returns None if no bracket is the cause."""
    opened = _opened(source.text, at)
    if not opened:
        return None
    last = opened[-1]
    bracket = source.text[last]
    wanted = _CLOSING[bracket]
    if found in (")", "]"):
        if found == wanted:
            return None
        line, column = source.position(last)
        hint = f"it was opened at {line}:{column}"
        message = f"'{found}' does not close '{bracket}'; expected '{wanted}'"
        return TileError("syntax", Loc(source, at, at + 1), message, hint)
    # If the bracket is on the same line as the error, the error's own location is good enough.
    if source.position(last)[0] < source.position(at)[0]:
        line, column = source.position(at)
        hint = f"the first error behind it is at {line}:{column}"
        return TileError("syntax", Loc(source, last, last + 1), f"this '{bracket}' is never closed", hint)
    return None


def _opened(text: str, at: int) -> list[int]:
    """Returns the offsets of the brackets that are open at offset `at`, the outermost first."""
    # The search begins at the start of the block. A bracket that an earlier block left open is an error of the earlier
    # block.
    start = block_start(text, at)
    opened: list[int] = []
    for match in re.finditer(r'"[^"\n]*"|#[^\n]*|[()\[\]]', text[start:at]):
        if match[0] in _CLOSING:
            opened.append(start + match.start())
        elif match[0] in (")", "]") and opened:
            opened.pop()
    return opened


_PIECE = re.compile(r'"[^"\n]*"|#[^\n]*|[()\[\]]|^[A-Za-z_]\w*', re.M)


def block_starts(text: str) -> list[int]:
    """Returns the offsets at which blocks start. A block starts at an unindented line that begins with a block keyword.
    Outside of brackets, a misspelt keyword counts as well."""
    starts: list[int] = []
    depth = 0
    for match in _PIECE.finditer(text):
        if match[0] in _CLOSING:
            depth += 1
        elif match[0] in (")", "]"):
            depth -= depth > 0
        elif match[0] in BLOCKS or (not depth and match[0][0] not in '"#' and _is_meant(match[0])):
            starts.append(match.start())
            depth = 0
    return starts


def _is_meant(word: str) -> bool:
    return word.startswith(BLOCKS) or closest(word, BLOCKS) is not None


def block_of(text: str, at: int) -> tuple[int, int]:
    """Returns the start and end offsets of the block that contains offset `at`."""
    starts = block_starts(text)
    later = [start for start in starts if start > at]
    return max((start for start in starts if start <= at), default=0), later[0] if later else len(text)


def block_start(text: str, at: int) -> int:
    """Returns the start offset of the block that contains offset `at`."""
    return block_of(text, at)[0]


def blank(text: str, start: int, end: int) -> str:
    """Replaces the characters from `start` to `end` by spaces. Line breaks stay, so the locations of the rest do not
    change."""
    return text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]


def names_of_block(block: str) -> set[str]:
    """Returns the names that a block with syntax errors may define. These are the words before the parameters in the
    block's first line. For a schedule, they include the constants that the schedule sets. For `kernelk(…)`, they
    include k."""
    words = re.findall(r"\w+", re.split(r"[(:\n]", block, maxsplit=1)[0])
    glued = {word.removeprefix(head) for word in words for head in BLOCKS}
    if block.startswith("schedule"):
        lines = re.findall(r"^[ \t]+(?:tune[ \t]+)?([\w, \t]+?)[ \t]*(?:=|\bin\b)", block, re.M)
        words += [word for line in lines for word in re.findall(r"\w+", line)]
    return {word for word in {*words, *glued} if word and word not in BLOCKS}


def without_line(text: str, start: int, at: int) -> str | None:
    """Returns `text` with a valid line in place of the wrong line, which contains offset `at`. Parsing the result finds
    further errors in the block that begins at `start`. Returns None if the error may extend beyond its line."""
    first = text.rfind("\n", 0, at) + 1
    last = text.find("\n", at)
    last = len(text) if last < 0 else last
    line = re.sub(r"#[^\n]*", "", text[first:last]).rstrip()
    body = line.lstrip()
    whole = not _opened(text, first) and not _opened(text, last) and line.count('"') % 2 == 0
    if first <= start or not body or not whole or re.search(r"^[^(\[]*[)\]]", body):
        return None
    width = len(line) - len(body)
    # If indented lines follow, the new line opens a block. With any other new line, each indented line would be an
    # error.
    following = re.compile(r"^([ \t]*)([^\s#]\w*)", re.M).search(text, last)
    opens = following is not None and len(following[1]) > width  # The wrong line may be a block's head without ':'.
    # An `elif` or `else` goes on from an `if`.
    goes_on = following is not None and len(following[1]) == width and following[2] in ("elif", "else")
    instead = "if 0:" if opens else "if 0:x=0" if goes_on else "x=0"
    has_conditions = text.startswith(("kernel", "def", "dispatch"), start)
    if len(instead) > len(body) or ((opens or goes_on) and not has_conditions):
        return None
    return text[: first + width] + instead + " " * (last - first - width - len(instead)) + text[last:]


def mismatched_indentation(source: Source, end: int) -> TileError:
    """Returns the error for the line at offset `end`. The line is indented less than its block, but is aligned with no
    outer block."""
    loc = line_loc(source, source.position(end)[0])
    return TileError("syntax", loc, "this line's indentation fits no block above", "align it with a line above")


def _line_before(source: Source, at: int) -> Loc:
    """Returns the location of the last line before offset `at` that is neither empty nor a comment."""
    *_, last = re.finditer(r"^[ \t]*[^\s#]", source.text[:at], re.M)
    return line_loc(source, source.position(last.end() - 1)[0])


def line_loc(source: Source, line: int) -> Loc:
    """Returns the location of line number `line`, without its indentation."""
    start = source.starts[min(line, len(source.starts)) - 1]
    text = source.line(min(line, len(source.starts)))
    return Loc(source, start + len(text) - len(text.lstrip()), start + len(text))
