"""Parses text into the syntax tree (`tree.py`) with Lark and the rules of `grammar.lark`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import islice
from threading import Lock
from typing import Any

from lark import Token, Transformer
from lark.exceptions import UnexpectedInput, VisitError
from lark.indenter import Indenter
from msgspec import Struct

from dsl.lowering.ir.location import Errors, Loc, Source, TileError, closest
from dsl.text import contracts, grammar_tables
from dsl.text import tree as ast
from dsl.text.files import MAX_BYTES
from dsl.text.syntax_errors import blank, block_of, explain, mismatched_indentation, names_of_block, without_line

# The limit admits every double, whose integral part has at most 309 digits. Without the limit, Python would raise its
# own exception for integers of more than 4,300 digits.
MAX_DIGITS = 400
# These limits are needed because the parser runs once more for each broken block or line.
MAX_BROKEN_BLOCKS = 10
MAX_BROKEN_LINES = 5
# `dsl check` took more than 25 s for 10,000 kernels, since the compilation of each kernel takes 2 to 3 ms.
MAX_DEFINITIONS = 1000
HEAD = re.compile(r"^(?:kernel|def|schedule|dispatch|example)\b", re.M)
"""Matches the first word of each block that counts towards MAX_DEFINITIONS."""
# Files with more characters are not parsed again after their first error. Recovery blanks the broken block and parses
# the rest again, up to MAX_BROKEN_BLOCKS times.
MAX_RECOVERED = 1 << 16


# ---- operators --------------------------------------------------------------------------------------

# The precedence of the infix operators, as in Python. A higher number binds more tightly. Comparisons form chains.
PRECEDENCE = {
    "or": 1, "and": 2,
    "==": 4, "!=": 4, "<": 4, "<=": 4, ">": 4, ">=": 4,
    "|": 5, "^": 6, "&": 7, "<<": 8, ">>": 8,
    "+": 9, "-": 9, "*": 10, "/": 10, "//": 10, "%": 10, "@": 10, "**": 12,
}  # fmt: skip
PREFIX = {"not": 3, "-": 11, "~": 11}
COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})


def fold_chain(reading: _Reading, items: list) -> ast.Expr:
    """Converts a flat sequence of operands and operator tokens to a tree, by operator precedence. Uses one stack for
    operands and one stack for operators."""
    operands: list = []
    operators: list[tuple[int, Token, bool]] = []  # (precedence, token, whether it is a prefix operator)
    joined: dict[int, str] = {}  # the id of each a & b that stands in no brackets → its operator

    def reduce_top() -> None:
        _, token, prefix = operators.pop()
        right = operands.pop()
        if prefix:
            loc, right = reading.at(token).to(right.loc), _bare(right)
            operands.append(reading.nested(ast.Unary(loc, str(token), right), right))
            return
        left = operands.pop()
        loc, right = left.loc.to(right.loc), _bare(right)
        if token in COMPARISONS and isinstance(left, ast.Compare):
            left.ops.append(str(token))
            left.operands.append(right)
            check_bits(left, joined)
            left.loc = loc
            operands.append(reading.nested(left, *left.operands))
            return
        left = _bare(left)
        op = str(token)
        node = ast.Compare(loc, [op], [left, right]) if op in COMPARISONS else ast.Binary(loc, op, left, right)
        if op in ast.BITS:
            joined[id(node)] = op
        operands.append(reading.nested(node, left, right))

    for item in items:
        kind = getattr(item, "type", None)
        if kind == "PREFIX":
            operators.append((PREFIX[item], item, True))
        elif kind == "OPERATOR":
            strength = PRECEDENCE[item]
            # As in Python, only `**` is right-associative: 2 ** 3 ** 2 is 2 ** 9.
            while operators and (operators[-1][0] > strength or (operators[-1][0] == strength and item != "**")):
                reduce_top()
            operators.append((strength, item, False))
        else:
            operands.append(item)
    while operators:
        reduce_top()
    return _bare(operands[0])


def check_bits(chain: ast.Compare, joined: dict[int, str]) -> None:
    """Raises TileError `syntax` for `a < b & c > d`, which would compare a < (b & c) and (b & c) > d. In C++ it would
    join two comparisons."""
    met = next((joined[id(operand)] for operand in chain.operands if id(operand) in joined), None)
    if met is not None:
        message = f"'{met}' binds more tightly than '{chain.ops[0]}', so this is one chain of comparisons"
        raise TileError("syntax", chain.loc.to(chain.operands[-1].loc), message, f"(a < b) {met} (c < d)")


def _bare(item: Any) -> ast.Expr:
    return item.value if isinstance(item, _Parenthesis) else item


class _Parenthesis(ast.Node):
    """Marks an operand in parentheses until `fold_chain` removes the mark. So `(a < b) < c` does not become a chained
    comparison."""

    value: ast.Expr


# ---- tree construction, while the parser runs ---------------------------------------------------------


class _Reading:
    """Stores the file that is being parsed, and the depth of each syntax-tree node, keyed by `id(node)`."""

    def __init__(self) -> None:
        self.begin(Source("", ""))

    def begin(self, source: Source) -> None:
        self.source = source
        # The depths are kept outside of the nodes, since a field in each node class would burden all code that uses the
        # tree.
        self.depths: dict[int, int] = {}

    def nested(self, node: Any, *children: Any) -> Any:
        """Records the depth of `node` with the given children, and returns `node`. Raises TileError `limit` if the
        depth exceeds MAX_NESTING. The limit prevents a stack overflow in recursive functions on the tree."""
        depth = 1 + max((self.depths.get(id(c), 0) for c in children), default=0)
        if depth > ast.MAX_NESTING:
            what = "blocks" if isinstance(node, ast.If | ast.For | ast.While | ast.Def) else "expressions"
            raise TileError("limit", node.loc, f"{what} are nested more than {ast.MAX_NESTING} deep")
        self.depths[id(node)] = depth
        return node

    def at(self, token: Token) -> Loc:
        return Loc(self.source, token.start_pos or 0, token.end_pos or 0)

    def span(self, items: list) -> Loc:
        """Returns the source range from the first to the last of `items`. Items that are None are skipped."""
        placed = [c for c in items if c is not None]
        first, last = placed[0], placed[-1]
        start = self.at(first) if isinstance(first, Token) else first.loc
        end = self.at(last) if isinstance(last, Token) else last.loc
        return start.to(end)


def _items(node: ast.Expr) -> list[ast.Expr]:
    return node.items if isinstance(node, ast.Sequence) and not node.is_list else [node]


class _Keyword(ast.Node):
    name: Token
    value: ast.Expr


class _Ellipsis(ast.Node):
    """`...` as the last argument of a call."""


def _split_arguments(items: list | None) -> tuple[list[ast.Expr], dict[str, ast.Expr], Loc | None]:
    """Splits the arguments of a call into positional arguments, keyword arguments and the location of `...`."""
    args: list[ast.Expr] = []
    keywords: dict[str, ast.Expr] = {}
    rest: Loc | None = None
    for item in items or ():
        if rest is not None:
            raise TileError("syntax", item.loc, "an argument after '...'", "'...' stands last")
        if isinstance(item, _Ellipsis):
            rest = item.loc
        elif isinstance(item, _Keyword):
            if item.name in keywords:
                raise TileError("syntax", item.loc, f"argument '{item.name}' is given twice")
            keywords[str(item.name)] = item.value
        elif keywords:
            raise TileError("syntax", item.loc, "a positional argument after a named one")
        else:
            args.append(item)
    return args, keywords, rest


def _contracts(pin: Token | None, condition: ast.Expr, on: Token | None) -> list[ast.Contract]:
    """Converts an `expect` line to contracts. A line such as `expect choice swizzle.s == 3, 4, 4` is a single contract,
    whose option consists of several numbers."""
    device = None if on is None else str(on)[1:-1]
    items = _items(condition)
    if pin is None:
        return [contracts.read(item, device) for item in items]
    match items[0]:
        case ast.Compare(ops=["=="], operands=[key, first]) if not any(isinstance(x, ast.Compare) for x in items[1:]):
            values = [first, *items[1:]]
            option = first if len(values) == 1 else ast.Sequence(first.loc.to(values[-1].loc), values)
            return [ast.Contract(key.loc.to(option.loc), contracts.CHOICE, ast.choice_key(key), "==", option, device)]
    hint = "expect choice swizzle.s == 3, 4, 4; other contracts stand on lines of their own"
    raise TileError("expect", condition.loc, "a contract about a choice is KEY == OPTION", hint)


def _told_apart(lines: list) -> list:
    """Converts `expect` lines that begin with a term of contracts, as in `expect registers <= 128`, to contracts.
    Returns all lines of the example."""
    assigned = [target for line in lines if isinstance(line, ast.Assign) for target in line.targets]
    bound = {target.id for target in assigned if isinstance(target, ast.Name)}
    out: list[Any] = []
    for line in lines:
        items = _items(line.actual) if isinstance(line, ast.Expect) and line.wanted is None else []
        others = [item for item in items if not contracts.is_contract(item, bound)]
        if others and len(items) > 1:
            known = "only contracts share one: expect spills == 0, registers <= 128"
            hint = closest(contracts.head_of(others[0]), contracts.NAMES) or known
            raise TileError("expect", others[0].loc, "a condition stands on a line of its own", hint)
        out += _contracts(None, line.actual, None) if items and not others else [line]
    return out


def _lines(items: list) -> list:
    """Returns the lines of a block. A line that was parsed to a list, such as a line of contracts, becomes several
    lines."""
    found = [x for x in items if x is not None and not isinstance(x, Token)]
    return [line for x in found for line in (x if isinstance(x, list) else [x])]


def _names(items: list | None) -> list[str]:
    return [str(t) for t in items or ()]


def _alternatives(node: ast.Expr) -> list[str]:
    """Returns the names in an expression such as `f16|bf16|f32`."""
    if isinstance(node, ast.Binary) and node.op == "|":
        return _alternatives(node.left) + _alternatives(node.right)
    if isinstance(node, ast.Name):
        return [node.id]
    raise TileError("syntax", node.loc, "a type parameter takes type names", "write 'T in f16|bf16|f32'")


class _Builder(Transformer):
    """Builds the syntax tree. Lark calls the method that is named after a rule when it has parsed this rule. Each
    method returns a node."""

    def __init__(self, reading: _Reading):
        super().__init__()
        self._reading, self._at, self._span, self._nested = reading, reading.at, reading.span, reading.nested

    def _child_list(self, c: list) -> list:
        return [x for x in c if x is not None]

    names = params = consts = dims = shape = _child_list

    def _nodes(self, c: list) -> list:
        return [x for x in c if x is not None and not isinstance(x, Token)]

    args = suite = suite_line = steps = start = _nodes

    # expressions
    def chain(self, c: list) -> Any:
        return _bare(c[0]) if len(c) == 1 else fold_chain(self._reading, c)

    def parenthesis(self, c: list) -> _Parenthesis:
        return _Parenthesis(self._at(c[0]).to(self._at(c[2])), c[1])

    def name(self, c: list) -> ast.Name:
        return ast.Name(self._at(c[0]), str(c[0]))

    def number(self, c: list) -> ast.Number:
        text = str(c[0])
        if len(text) > MAX_DIGITS:
            raise TileError("limit", self._at(c[0]), f"a number of {len(text)} characters; the limit is {MAX_DIGITS}")
        hexadecimal = text[:2] in ("0x", "0X")
        value = int(text, 16) if hexadecimal else float(text) if any(k in text for k in ".eE") else int(text)
        # Without this check, 1e400 would silently become infinity.
        if value == float("inf"):
            raise TileError("limit", self._at(c[0]), f"{text} is beyond every type", "infinity is written inf")
        return ast.Number(self._at(c[0]), value)

    def string(self, c: list) -> ast.String:
        return ast.String(self._at(c[0]), str(c[0])[1:-1])

    def attribute(self, c: list) -> ast.Attribute:
        value = _bare(c[0])
        return self._nested(ast.Attribute(c[0].loc.to(self._at(c[1])), value, str(c[1])), value)

    def call(self, c: list) -> ast.Call:
        function = _bare(c[0])
        args, keywords, rest = _split_arguments(c[1])
        loc = c[0].loc.to(self._at(c[2]))
        return self._nested(ast.Call(loc, function, args, keywords, rest), function, *args, *keywords.values())

    def index(self, c: list) -> ast.Index:
        value = _bare(c[0])
        return self._nested(ast.Index(c[0].loc.to(self._at(c[2])), value, c[1]), value, *c[1])

    def subscripts(self, c: list) -> list:
        return [_bare(x) for x in c]

    def slice_(self, c: list) -> ast.Slice:
        start, _, stop = c
        return self._nested(ast.Slice(self._span(c), start, stop), start, stop)

    def keyword(self, c: list) -> _Keyword:
        return _Keyword(self._at(c[0]).to(c[1].loc), c[0], c[1])

    def ellipsis(self, c: list) -> _Ellipsis:
        return _Ellipsis(self._at(c[0]))

    def with_schedule(self, c: list) -> ast.WithSchedule:
        return ast.WithSchedule(self._span(c), c[0], c[1].id)

    def list_(self, c: list) -> ast.Sequence:
        items = self._nodes(c)
        return self._nested(ast.Sequence(self._at(c[0]).to(self._at(c[-1])), items, True), *items)

    def tuple_(self, c: list) -> ast.Sequence:
        items = self._nodes(c)
        return self._nested(ast.Sequence(self._span(items), items), *items)

    # statements
    def assign(self, c: list) -> ast.Assign:
        return ast.Assign(self._span(c), _items(c[0]), c[1])

    def augmented(self, c: list) -> ast.Assign:
        return ast.Assign(self._span(c), [c[0]], c[2], str(c[1])[:-1])

    def expr_statement(self, c: list) -> ast.ExprStatement:
        return ast.ExprStatement(c[0].loc, c[0])

    def return_(self, c: list) -> ast.Return:
        return ast.Return(c[0].loc, c[0])

    def grid(self, c: list) -> ast.Grid:
        return ast.Grid(c[0].loc, _items(c[0]))

    def assert_(self, c: list) -> ast.Assert:
        return ast.Assert(c[0].loc, c[0], str(c[1])[1:-1] if c[1] else None)

    def ring(self, c: list) -> tuple:
        return ("ring", c[0])

    def shared(self, c: list) -> ast.Shared:
        extents = c[2]
        ring = isinstance(extents[0], tuple)
        bare = [e[1] if isinstance(e, tuple) else e for e in extents]
        for extra in extents[1:]:
            if isinstance(extra, tuple):
                raise TileError("syntax", extra[1].loc, "only the first extent of a shared tile can be a ring")
        return ast.Shared(self._at(c[0][0]).to(bare[-1].loc), _names(c[0]), str(c[1]), bare, ring)

    def elif_(self, c: list) -> tuple:
        return (c[0], c[1])

    def if_(self, c: list) -> ast.If:
        condition, then, *rest = c
        # An `elif` becomes an `if` in the `else` branch of the previous condition, so that every If has just two
        # branches.
        otherwise = rest.pop() or []
        for test, body in reversed(rest):
            otherwise = [self._nested(ast.If(test.loc, test, body, otherwise), *body, *otherwise)]
        return self._nested(ast.If(condition.loc, condition, then, otherwise), *then, *otherwise)

    def for_(self, c: list) -> ast.For:
        return self._nested(ast.For(self._at(c[1]).to(c[2].loc), str(c[1]), c[0] is not None, c[2], c[3]), *c[3])

    def while_(self, c: list) -> ast.While:
        return self._nested(ast.While(c[0].loc, c[0], c[1]), *c[1])

    # kernels and defs
    def const(self, c: list) -> ast.ConstantParameter:
        return ast.ConstantParameter(self._at(c[0]), str(c[0]))

    def const_in(self, c: list) -> ast.ConstantParameter:
        return ast.ConstantParameter(self._span(c), str(c[0]), types=_alternatives(c[1]), default=c[2])

    def const_default(self, c: list) -> ast.ConstantParameter:
        return ast.ConstantParameter(self._span(c), str(c[0]), default=c[1])

    def scalar_type(self, c: list) -> ast.ScalarType:
        return ast.ScalarType(self._at(c[0]), str(c[0]))

    def table_type(self, c: list) -> ast.TableAnnotation:
        return ast.TableAnnotation(self._at(c[0]).to(c[1].loc), str(c[0]), c[1])

    def tensor_type(self, c: list) -> ast.TensorAnnotation:
        dtype, dims, word, optional = c
        if word is not None and word != "strided":
            raise TileError("syntax", self._at(word), f"unknown tensor property '{word}'", "known: strided")
        loc = self._at(dtype).to(dims[-1].loc)
        rules = {dim.name: dim.value for dim in dims if isinstance(dim, ast.RuledDim)}
        if rules and optional is not None:
            message = "an optional tensor declares no extents: without it, its dims have no values"
            raise TileError("syntax", loc, message, "declare the extent at a tensor that is always given")
        names = [ast.Name(dim.loc, dim.name) if isinstance(dim, ast.RuledDim) else dim for dim in dims]
        return ast.TensorAnnotation(loc, str(dtype), names, word is not None, optional is not None, rules)

    def ruled(self, c: list) -> ast.RuledDim:
        return ast.RuledDim(self._span(c), str(c[0]), c[1])

    def param(self, c: list) -> ast.KernelParameter:
        return ast.KernelParameter(self._at(c[0]), str(c[0]), c[1])

    def kernel(self, c: list) -> ast.KernelDef:
        name, params, constants, body = str(c[0]), c[1] or [], c[2] or [], c[3]
        # A launch checks a declared extent as it checks an assert. The grid stays the first statement.
        checks = [
            ast.Assert(dim.loc, ast.Compare(dim.loc, ["=="], [dim, p.type.rules[dim.id]]), None)
            for p in params
            if isinstance(p.type, ast.TensorAnnotation)
            for dim in p.type.dims
            if isinstance(dim, ast.Name) and dim.id in p.type.rules
        ]
        return ast.KernelDef(self._at(c[0]), name, params, constants, [*body[:1], *checks, *body[1:]])

    def def_(self, c: list) -> ast.Def:
        return self._nested(ast.Def(self._at(c[0]), str(c[0]), _names(c[1]), c[2] or [], c[3]), *c[3])

    # schedules
    def tune(self, c: list) -> ast.Tune:
        name, key, values = c
        if key is not None and str(name) != "choose":
            raise TileError("syntax", self._at(name), "tune NAME in …, or tune choose KEY in …")
        return ast.Tune(self._span(c), str(name) if key is None else key, _items(values))

    def key(self, c: list) -> str:
        names = [f"[{each}]" if each.type == "NUMBER" else f".{each}" for each in c if each.type != "RSQB"]
        return "".join(names)[1:]

    def dotted(self, c: list) -> ast.Name:
        last = c[1] if c[1] is not None else c[0]
        return ast.Name(self._at(c[0]).to(self._at(last)), ".".join(str(t) for t in c if t is not None))

    def layout_part(self, c: list) -> tuple:
        return (c[0], c[1])

    def layout(self, c: list) -> ast.LayoutLine:
        names = [x for x in c if isinstance(x, ast.Name)]
        parts: dict[str, ast.Sequence] = {}
        for key, value in (x for x in c if isinstance(x, tuple)):
            if key in parts:
                raise TileError("syntax", self._at(key), f"'{key}' is given twice")
            parts[str(key)] = value
        return ast.LayoutLine(self._span(names), [n.id for n in names], parts)

    def property_(self, c: list) -> ast.Property | list[ast.Property]:
        name, first, static, second = c
        if name == "like" and second is None:  # `like A, B` is two lines
            return [ast.Property(self._at(name).to(each.loc), "like", [], [each]) for each in _items(first)]
        subject, values = ([], first) if second is None else (_items(first), second)
        span = self._at(name).to((second or first).loc)
        return ast.Property(span, str(name), subject, _items(values), static is not None)

    def schedule(self, c: list) -> ast.Schedule:
        return ast.Schedule(self._at(c[0]), str(c[0]), _names(c[1]), _lines(c[2:]))

    def contracts(self, c: list) -> list[ast.Contract]:
        return _contracts(*c)

    # dispatch and example
    def with_item(self, c: list) -> ast.WithItem:
        name, value = c
        if value is not None and "." in name.id:
            raise TileError("syntax", name.loc, "a launch sets constants of its kernel, NAME=VALUE")
        return ast.WithItem(name.loc if value is None else name.loc.to(value.loc), name.id, value)

    def launch(self, c: list) -> ast.Launch:
        name, args, *items = c
        given, keywords, rest = _split_arguments(args)
        if rest is not None:
            raise TileError("syntax", rest, "'...' stands in calls of a def", "a launch has its schedule's constants")
        items = [i for i in items if i is not None]
        loc = self._span([name, *(args or ()), *items])
        return ast.Launch(loc, str(name), None if args is None else given, keywords, items)

    def option(self, c: list) -> ast.Option:
        return ast.Option(self._span(c), str(c[0]), _items(c[1]))

    def require(self, c: list) -> ast.Require:
        return ast.Require(c[0].loc, c[0])

    def dispatch(self, c: list) -> ast.Dispatch:
        return ast.Dispatch(self._at(c[0]), str(c[0]), _names(c[1]), c[2])

    def expect(self, c: list) -> ast.Expect | list[ast.Contract]:
        pin, actual, wanted, bound, device = c
        if wanted is None and bound is None and (pin is not None or device is not None):
            return _contracts(pin, actual, device)
        if pin is not None or device is not None or (wanted is not None and len(_items(actual)) > 1):
            hint = "expect y ~= wanted within 1e-3; contracts stand on lines of their own"
            raise TileError("expect", self._span(c), "a comparison stands on a line of its own", hint)
        return ast.Expect(self._span(c[1:4]), actual, wanted, bound)

    def moves(self, c: list) -> ast.Cost:
        return ast.Cost(c[0].loc, "moves", c[0])

    def computes(self, c: list) -> ast.Cost:
        return ast.Cost(c[0].loc, "computes", c[0])

    def example(self, c: list) -> ast.Example:
        lines = _told_apart(_lines(c[1:]))
        loc = self._at(c[0]) if c[0] is not None else lines[0].loc
        return ast.Example(loc, str(c[0]) if c[0] is not None else None, lines)

    def import_(self, c: list) -> ast.Import:
        return ast.Import(self._at(c[0]), str(c[0])[1:-1], None if c[1] is None else str(c[1]))


for _word in (
    *("if", "elif", "for", "while", "return", "assert", "def", "import"),  # words of Python
    *("list", "tuple", "slice", "property"),  # names that annotations need
):
    setattr(_Builder, _word, getattr(_Builder, _word + "_"))


class _Indentation(Indenter):
    def __init__(self, reading: _Reading):
        super().__init__()
        self._reading = reading

    NL_type = "_NL"
    OPEN_PAREN_types = ["LPAR", "LSQB"]  # noqa: RUF012 (the names are Lark's)
    CLOSE_PAREN_types = ["RPAR", "RSQB"]  # noqa: RUF012
    INDENT_type = "_INDENT"
    DEDENT_type = "_DEDENT"
    tab_len = 8
    # The contextual lexer tries only tokens that the grammar allows next. Without NAME in this list, the lexer would
    # look only for keywords and read `kernelk` as `kernel k`. Half of the 38 keywords were accepted without a following
    # space. The others begin no longer token, so the parser reports them as the lexer would. They make the patterns of
    # many states the same: the sample softmax compiles 35 patterns in place of 48, 1.1 ms less.
    always_accept = ("_NL", "NAME", *("LPAR", "RPAR", "LSQB", "RSQB", "COMMA", "COLON", "SEMICOLON", "STRING"))

    def handle_NL(self, token: Token) -> Iterator[Token]:
        width = len(str(token).rsplit("\n", 1)[1].expandtabs(self.tab_len))
        if self.paren_level == 0 and width < self.indent_level[-1] and width not in self.indent_level:
            end = token.end_pos or 0
            raise mismatched_indentation(self._reading.source, end)
        return super().handle_NL(token)


class _Parser:
    """Lark's parser, together with the state of its callbacks. A lock ensures that only one file is parsed at a
    time."""

    def __init__(self) -> None:
        self._reading = _Reading()
        postlex, transformer = _Indentation(self._reading), _Builder(self._reading)
        self._lark = grammar_tables.load(postlex=postlex, transformer=transformer)
        self._lock = Lock()

    def blocks(self, source: Source, text: str) -> Any:
        """Parses `text` and returns its blocks. `text` is the text of `source`, perhaps with broken blocks blanked.
        Locations refer to `source`."""
        # The state of Lark's callbacks belongs to one file, and several threads may load programs.
        with self._lock:
            self._reading.begin(source)
            # In the grammar, each line ends with a line break. The last line of a file may lack this line break.
            return self._lark.parse(text if text.endswith("\n") else text + "\n")

    def tokens(self, source: Source) -> list[Token]:
        """Returns the tokens of a text that parses, with those of the indentation, as the parser reads them."""
        with self._lock:
            self._reading.begin(source)
            text = source.text
            return [*self._lark.parse_interactive(text if text.endswith("\n") else text + "\n").iter_parse()]


# The parser is made at the first parse. So commands that parse no file save the 8 ms for reading the parser's tables.
_parser = cache(_Parser)


# ---- parsing ------------------------------------------------------------------------------------------


class Read(Struct):
    """The result of parsing a file that may have errors. `file` contains the blocks without errors. `errors` contains
    the errors of the other blocks. `broken` contains the names that these other blocks may define. It is None if too
    little of the file parses to check names."""

    file: ast.File
    errors: list[TileError]
    broken: set[str] | None


def parse(text: str, name: str = "<text>") -> ast.File:
    """Parses the text of a `.tile` file. Errors are TileErrors with code 'syntax' or 'limit'."""
    found = read(text, name)
    if found.errors:
        raise Errors(found.errors)
    return found.file


def tokens(text: str) -> list[Token]:
    """Returns the tokens of a text that parses. The parser decides their types: `table` may be a keyword or a name, and
    `-` may be `PREFIX` or `OPERATOR`. Comments are in the gaps between them."""
    return _parser().tokens(Source("", text))


def read(text: str, name: str = "<text>") -> Read:
    """Parses a `.tile` text. Returns the blocks that parse and the errors of the other blocks. Raises TileError `limit`
    for a text that is too large."""
    source = Source(name, text)
    if len(text) > MAX_BYTES:
        message = f"the file has {len(text)} characters; the limit is {MAX_BYTES}"
        raise TileError("limit", Loc(source, 0, 1), message)
    heads = list(islice(HEAD.finditer(text), MAX_DEFINITIONS + 1))
    if len(heads) > MAX_DEFINITIONS:
        message = f"the file has more than {MAX_DEFINITIONS} kernels, functions, schedules, dispatches and examples"
        raise TileError("limit", Loc(source, *heads[-1].span()), message, "several files, and import")
    errors: list[TileError] = []
    broken: set[str] = set()
    blocks: list[Any] | None = None
    rest, count = text, 0
    while True:
        blocks, wrong = _blocks(source, rest)
        if wrong is None:
            break
        errors.append(wrong)
        start, end = block_of(rest, wrong.loc.start if wrong.loc else 0)
        # Spaces replace the broken block, so the locations of all other blocks stay the same.
        left = blank(rest, start, end)
        count += 1
        if left == rest or count == MAX_BROKEN_BLOCKS or len(text) > MAX_RECOVERED:
            break
        errors += _others(source, blank(blank(rest, end, len(rest)), 0, start), start, wrong)
        broken |= names_of_block(text[start:end])
        rest = left
    return Read(ast.File(source, blocks or []), errors, broken if blocks is not None else None)


def _blocks(source: Source, text: str) -> tuple[list[Any] | None, TileError | None]:
    """Parses a text. Returns (blocks, None) if the text is valid, and otherwise (None, the first error)."""
    try:
        return _parser().blocks(source, text), None
    except UnexpectedInput as error:
        return None, explain(source, error)
    except VisitError as error:
        if not isinstance(error.orig_exc, TileError):
            raise
        return None, error.orig_exc
    except TileError as error:
        return None, error


def _others(source: Source, block: str, start: int, wrong: TileError | None) -> list[TileError]:
    """Returns the further errors in a block after its first error `wrong`. In each step, a valid line replaces the line
    with the error, and the block is parsed again."""
    found: list[TileError] = []
    while wrong is not None and wrong.loc is not None and len(found) < MAX_BROKEN_LINES:
        rest = without_line(block, start, wrong.loc.start)
        if rest is None:
            break
        block, before = rest, wrong
        _, wrong = _blocks(source, block)
        # An error that stays at the same location is not in the line's text. The error may be in the indentation.
        if wrong is not None and wrong.loc == before.loc:
            break
        found += [] if wrong is None else [wrong]
    return found
