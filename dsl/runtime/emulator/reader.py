"""Parses PTX text into a module of functions and variables. Checks syntax only, not the meaning of instructions (PTX
ISA chapters 4, 5 and 11).

Scopes are resolved here: each register or label of a `{ … }` block gets a unique name. So each function becomes one
flat list of instructions.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any, TypeVar

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from .constants import STARTS, integer, read_constant
from .findings import Location, PtxError
from .limits import MOST_ALIGNMENT, MOST_DEPTH, MOST_REGISTERS, MOST_TEXT, MOST_VARIABLE

# The most frequent kinds of tokens come first, since the pattern tries them in order. Only blanks lie between matches.
KINDS = {
    "word": r"[.]?[A-Za-z_$%][\w$]*(?:(?:\.|::)[\w$]+)*",
    "mark": r"<<|>>|[<>=!]=|&&|\|\||[-+!@|:;,{}()\[\]<>=*&~^?]|/(?![/*])",
    "newline": r"\n",
    "float": r"0[fF][0-9a-fA-F]{8}(?![0-9a-fA-F])|0[dD][0-9a-fA-F]{16}|(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|"
    r"\d+[eE][+-]?\d+",
    "int": r"0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?",
    "skip": r"//[^\n]*",
    "comment": r"/\*.*?\*/",
    "string": r'"[^"]*"',
    # A comment or string without an end. Without this kind, a text of 200,000 quotes took 40 s: each quote caused a
    # search to the end of the text.
    "open": r'/\*.*|"[^"]*',
    "wrong": r"[^ \t\r]",
}
PIECES = re.compile("|".join(KINDS.values()), re.DOTALL)
PIECE = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in KINDS.items()), re.DOTALL)


BYTE_ORDER_MARK = "\ufeff"
Item = TypeVar("Item")


class Register(Struct, frozen=True):
    name: str

    def __str__(self) -> str:
        return self.name


class Integer(Struct, frozen=True):
    value: int

    def __str__(self) -> str:
        return str(self.value)


class Float(Struct, frozen=True):
    """A floating constant. If the text gives its bits as `0f…` or `0d…`, `bits` has these bits, and `width` is 32 or
    64."""

    value: float
    bits: int | None = None
    width: int = 64

    def __str__(self) -> str:
        return str(self.value)


class Symbol(Struct, frozen=True):
    """The address of a variable, or a function's name."""

    name: str
    offset: int = 0

    def __str__(self) -> str:
        return self.name


class PtxAddress(Struct, frozen=True):
    """`[base + offset]`. `base` is a register, a variable, or None for an absolute address."""

    base: Register | Symbol | None
    offset: int = 0

    def __str__(self) -> str:
        return f"[{self.base}+{self.offset}]"


class Vector(Struct, frozen=True):
    items: tuple[Operand, ...]

    def __str__(self) -> str:
        return "{" + ", ".join(map(str, self.items)) + "}"


class Pair(Struct, frozen=True):
    """`d|p`, the two destinations of one instruction."""

    first: Operand
    second: Operand

    def __str__(self) -> str:
        return f"{self.first}|{self.second}"


class Not(Struct, frozen=True):
    """`!p`, a negated predicate source."""

    operand: Operand

    def __str__(self) -> str:
        return f"!{self.operand}"


class Part(Struct, frozen=True):
    """`r.b0` or `r.h1`: a byte or a half of a register, in a video instruction."""

    register: Register
    part: str

    def __str__(self) -> str:
        return f"{self.register}.{self.part}"


class TensorAddress(Struct, frozen=True):
    """`[map, {x, y}]`: the address of a tensor map, and the coordinates of the first element that the copy accesses."""

    map: PtxAddress
    coordinates: Vector

    def __str__(self) -> str:
        return f"[{self.map.base}, {self.coordinates}]"


class ArgumentList(Struct, frozen=True):
    """The parenthesised list of arguments or results of a call."""

    items: tuple[Operand, ...]

    def __str__(self) -> str:
        return "(" + ", ".join(map(str, self.items)) + ")"


Operand = Register | Integer | Float | Symbol | PtxAddress | TensorAddress | Vector | Pair | Not | Part | ArgumentList


def names_in(operand: Operand | None) -> list[str]:
    """Returns the names of the registers, variables and functions in an operand."""
    if isinstance(operand, Register | Symbol):
        return [operand.name]
    if isinstance(operand, PtxAddress):
        return names_in(operand.base)
    if isinstance(operand, Vector | ArgumentList):
        return [name for item in operand.items for name in names_in(item)]
    if isinstance(operand, TensorAddress):
        return names_in(operand.map) + names_in(operand.coordinates)
    if isinstance(operand, Pair):
        return names_in(operand.first) + names_in(operand.second)
    if isinstance(operand, Not | Part):
        return names_in(operand.operand if isinstance(operand, Not) else operand.register)
    return []


class PtxInstruction(Struct, frozen=True):
    """One instruction. The opcode is split at the dots: `ld.global.u32` becomes ("ld", "global", "u32")."""

    opcode: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Register | None
    guard_negated: bool
    ptx_line: int
    location: Location | None

    @property
    def name(self) -> str:
        return ".".join(self.opcode)

    def __str__(self) -> str:
        guard = f"@{'!' if self.guard_negated else ''}{self.guard} " if self.guard else ""
        return f"{guard}{self.name} {', '.join(map(str, self.operands))}"


ENDS = {",", ";", "}", "]"}  # one of these follows an operand that is only a name
MOVES, VECTORS = {"ld", "ldu", "st", "mov"}, {"v2", "v4", "v8"}


def without_braces(operand: Operand) -> Operand:
    """Replaces the operand `{x}` by `x`. ptxas accepts such braces in loads, stores and moves that are not vector
    instructions, and Triton writes them."""
    return operand.items[0] if isinstance(operand, Vector) and len(operand.items) == 1 else operand


@lru_cache(maxsize=1024)
def opcode_of(text: str) -> tuple[tuple[str, ...], bool]:
    """Returns the words of an opcode, and whether a vector of one element is kept as an operand (see
    `without_braces`)."""
    words = tuple(text.split("."))
    is_number = words[0] == "mov" and words[-1][:1] != "b"
    return words, words[0] not in MOVES or not VECTORS.isdisjoint(words) or is_number


class Label(Struct, frozen=True):
    name: str
    ptx_line: int = 0


class Variable(Struct):
    """A variable of a state space. `data` is its initial image. `pointers` has the (offset, symbol, addend) of each
    address in the image. `element` is the number of bytes of an array's element, or 0 if the variable is no array."""

    name: str
    space: str
    align: int
    size: int
    type: str
    data: bytes = b""
    pointers: list[tuple[int, str, int]] = field(default_factory=list)
    external: bool = False
    ptx_line: int = 0
    element: int = 0


class PtxFunction(Struct):
    name: str
    is_entry: bool
    params: list[Variable]
    results: list[Variable]
    registers: dict[str, str] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    body: list[PtxInstruction | Label] = field(default_factory=list)
    required_cluster: tuple[int, ...] | None = None
    required_block: tuple[int, ...] | None = None
    most_threads: tuple[int, ...] | None = None
    most_registers: int | None = None
    least_blocks: int = 1
    has_body: bool = False
    ptx_line: int = 0
    external: bool = False
    vectors: dict[str, int] = field(default_factory=dict)


class PtxModule(Struct):
    version: str = ""
    target: str = ""
    files: dict[int, str] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    functions: dict[str, PtxFunction] = field(default_factory=dict)


TYPE_BYTES = {
    **{f"{kind}{bits}": bits // 8 for kind in "bsu" for bits in (8, 16, 32, 64)},
    **{"b128": 16, "f16": 2, "f16x2": 4, "bf16": 2, "bf16x2": 4, "f32": 4, "f64": 8, "pred": 1},
}
EXTENTS = {".reqnctapercluster": "required_cluster", ".reqntid": "required_block", ".maxntid": "most_threads"}
MOST_EXTENT = (1 << 31) - 1
MOST_DIMENSIONS = 16
LINKAGE = {".visible", ".extern", ".weak", ".common"}
SPACES = {".global", ".const", ".shared", ".local", ".param"}
MODULE_SPACES = {".global", ".const", ".shared"}
REGISTER_TYPES = {*TYPE_BYTES} - {"bf16", "bf16x2"}
PARTS = {"b0", "b1", "b2", "b3", "h0", "h1"}
MEMBERS = {2: ("xy", "rg"), 4: ("xyzw", "rgba")}  # the members of a vector register (PTX ISA 5.4.2)
# Number of integers that a performance directive takes (PTX ISA 11.4). The directives in EXTENTS take one to three.
DIRECTIVES = {".minnctapersm": 1, ".maxnctapersm": 1, ".maxnreg": 1, ".maxclusterrank": 1, ".explicitcluster": 0}
# The PTX version that introduced each target: the first version with which ptxas 13.5 accepts the target (PTX ISA 13
# states the same version for most targets).
TARGETS = {
    **dict.fromkeys(("sm_10", "sm_11"), (1, 0)),
    **dict.fromkeys(("sm_12", "sm_13"), (1, 2)),
    **{"sm_20": (2, 0), "sm_21": (2, 0), "sm_30": (3, 0), "sm_32": (4, 0), "sm_35": (3, 1), "sm_37": (4, 1)},
    **{"sm_50": (4, 0), "sm_52": (4, 1), "sm_53": (4, 2)},
    **dict.fromkeys(("sm_60", "sm_61", "sm_62"), (5, 0)),
    **{"sm_70": (5, 1), "sm_72": (6, 1), "sm_75": (6, 3), "sm_80": (7, 0), "sm_86": (7, 1), "sm_87": (7, 4)},
    **{"sm_88": (9, 0), "sm_89": (7, 8), "sm_90": (7, 8), "sm_90a": (8, 0)},
    **{"sm_100": (8, 6), "sm_100a": (8, 6), "sm_100f": (8, 8), "sm_101": (8, 6), "sm_101a": (8, 6), "sm_101f": (8, 8)},
    **{"sm_103": (8, 8), "sm_103a": (8, 8), "sm_103f": (8, 8), "sm_107": (9, 4), "sm_107a": (9, 4), "sm_107f": (9, 4)},
    **{"sm_110": (9, 0), "sm_110a": (9, 0), "sm_110f": (9, 0)},
    **{"sm_120": (8, 7), "sm_120a": (8, 7), "sm_120f": (8, 8), "sm_121": (8, 8), "sm_121a": (8, 8), "sm_121f": (8, 8)},
}
TARGET_OPTIONS = {"texmode_unified", "texmode_independent", "debug", "map_f64_to_f32"}
# In the instructions `TAKES_ELEMENTS`, the operand `w[3]` is an element of the array w. In the instructions
# `TAKES_ADDRESSES`, it is the element's address. No other instruction accepts such an operand (ptxas 13.5).
TAKES_ELEMENTS = {"ld", "ldu", "st"}
TAKES_ADDRESSES = {"mov", "cvta"}
SUPPLIED = {"vprintf", "__assertfail"}  # functions that the driver provides


class Token(Struct):
    kind: str
    text: str
    line: int


class Tokens:
    """The tokens of a PTX text with their line numbers, which begin at 1. Two empty tokens follow the last one, so that
    a look ahead always finds a token.

    Tokens are stored in three lists and not as objects, since a line has ten tokens on average. This reduced the time
    of reading 14 kernels (82,000 lines) from 0.65 to 0.53 s.
    """

    def __init__(self, text: str):
        if len(text) > MOST_TEXT:
            raise PtxError(f"the text has {len(text)} characters; the emulator reads {MOST_TEXT} at most", 1)
        # ptxas refuses a byte order mark, so the mark is removed wherever the package receives a text.
        text = text.removeprefix(BYTE_ORDER_MARK)
        self.kinds: list[str] = []
        self.texts: list[str] = []
        self.lines: list[int] = []
        line = 1
        known: dict[str, str] = {}  # the kind of each distinct piece, since most pieces occur many times
        for piece in PIECES.findall(text):
            if piece == "\n":
                line += 1
                continue
            kind = known.get(piece)
            if kind is None:
                kind = known[piece] = kind_of(piece)
            if kind in PLAIN:
                self.kinds.append(kind)
                self.texts.append(piece)
                self.lines.append(line)
            elif kind == "directives":
                for word in piece[1:].split("."):
                    self.add("word", f".{word}", line)
            elif kind == "comment":
                line += piece.count("\n")
            elif kind == "open":
                raise PtxError(f"a {'comment' if piece[0] == '/' else 'string'} without an end", line)
            elif kind == "wrong":
                raise PtxError(f"cannot read {text[first_wrong(text) :][:20]!r}", line)
        self.end = len(self.texts)
        last = self.lines[-1] if self.lines else 1
        for _ in range(2):
            self.add("", "", last)

    def add(self, kind: str, text: str, line: int) -> None:
        self.kinds.append(kind)
        self.texts.append(text)
        self.lines.append(line)

    def at(self, index: int) -> Token:
        return Token(self.kinds[index], self.texts[index], self.lines[index])


PLAIN = {"word", "mark", "float", "int", "string"}


def kind_of(piece: str) -> str:
    """Returns the kind of a piece of text. The kind is "directives" for several directives without a space in between,
    such as `.reg.b16`."""
    match = PIECE.match(piece)
    assert match is not None and match.lastgroup is not None
    if match.lastgroup == "word" and piece[0] == "." and piece.count(".") > 1:
        return "directives"
    return match.lastgroup


def first_wrong(text: str) -> int:
    """Returns the position of the first character that no token can contain."""
    return next(match.start() for match in PIECE.finditer(text) if match.lastgroup == "wrong")


def floating(text: str) -> Float:
    prefix = text[:2].lower()
    if prefix == "0f":
        bits = int(text[2:], 16)
        return Float(struct.unpack("<f", struct.pack("<I", bits))[0], bits, 32)
    if prefix == "0d":
        bits = int(text[2:], 16)
        return Float(struct.unpack("<d", struct.pack("<Q", bits))[0], bits, 64)
    return Float(float(text))


def is_bits(text: str) -> bool:
    """Returns whether a text gives a floating constant by its bits, as `0f3f800000` does."""
    return text[:2] in {"0f", "0F", "0d", "0D"}


def rounded_f32(value: float) -> bytes:
    with np.errstate(all="ignore"):
        return np.float32(value).tobytes()


def negated(constant: Float) -> Float:
    """Returns the constant with its sign flipped, even if it is a NaN."""
    bits = None if constant.bits is None else constant.bits ^ 1 << (constant.width - 1)
    return Float(-constant.value, bits, constant.width)


class Reader:
    """A recursive-descent parser of one PTX module."""

    def __init__(self, text: str):
        self.tokens = Tokens(text)
        self.texts, self.kinds, self.lines = self.tokens.texts, self.tokens.kinds, self.tokens.lines
        self.end = self.tokens.end
        self.at = 0
        self.module = PtxModule()
        self.location: Location | None = None
        self.inlined: dict[tuple[int, int, int], tuple[int, int, int]] = {}
        self.scopes: list[dict[str, str]] = []
        self.scope_count = 0
        self.vectors: dict[str, int] = {}
        self.plain: dict[str, Register] = {}  # names that can only mean a register in the current scopes
        self.labels: dict[int, list[str]] | None = None
        self.in_call = False  # in a call, parentheses hold lists; elsewhere they hold constants
        self.root = ""  # the first word of the current opcode
        self.whose: PtxFunction | None = None  # the function whose body is being read
        self.used: set[str] = set()  # names in `whose` so far; a name must not be declared after its use

    # Tokens

    def peek_kind(self, ahead: int = 0) -> str:
        return self.kinds[self.at + ahead]

    def peek(self, ahead: int = 0) -> str:
        return self.texts[self.at + ahead]

    def next(self) -> Token:
        self.check_end()
        self.at += 1
        return self.tokens.at(self.at - 1)

    def check_end(self) -> None:
        """Raises PtxError if no token is left."""
        if self.at == self.end:
            raise PtxError("the text ends in the middle of a statement", self.lines[self.at])

    def accept(self, text: str) -> bool:
        if self.texts[self.at] == text:
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> int:
        """Reads a token, which must have this text. Returns its line number."""
        self.check_end()
        if self.texts[self.at] != text:
            raise PtxError(f"expected {text!r}, found {self.texts[self.at]!r}", self.lines[self.at])
        self.at += 1
        return self.lines[self.at - 1]

    def listed(self, read: Callable[[], Item]) -> list[Item]:
        """Reads one or more items, separated by commas."""
        items = [read()]
        while self.accept(","):
            items.append(read())
        return items

    def skip_to(self, *ends: str) -> None:
        while self.next().text not in ends:
            pass

    def skip_braces(self) -> None:
        self.expect("{")
        depth = 1
        while depth:
            depth += {"{": 1, "}": -1}.get(self.next().text, 0)

    def number(self) -> int:
        negative = self.accept("-")
        token = self.next()
        if token.kind != "int":
            raise PtxError(f"expected an integer, found {token.text!r}", token.line)
        value = integer(token.text, token.line)
        return -value if negative else value

    def whole(self) -> int:
        """Reads a constant expression, whose value must be an integer. Returns the value."""
        found = read_constant(self)
        if found.is_float:
            raise PtxError(f"expected an integer, found {found.value}", self.lines[self.at - 1])
        return int(found.value)

    # Module

    def read(self) -> PtxModule:
        self.read_file_names()
        self.header()
        while self.at < self.end:
            self.module_statement()
        self.check_symbols()
        return self.module

    def read_file_names(self) -> None:
        """Collects the file names of all `.file` directives before the rest is read, since a `.file` may come after its
        uses."""
        for index, text in enumerate(self.texts[: max(self.end - 2, 0)]):
            if text == ".file":
                number, name = self.tokens.at(index + 1), self.tokens.at(index + 2)
                if number.kind == "int" and name.kind == "string":
                    self.module.files[integer(number.text, number.line)] = name.text[1:-1]

    def header(self) -> None:
        """Reads `.version`, `.target` and `.address_size`. They must come in this order, before all other statements
        (PTX ISA 11.1)."""
        while self.peek() == ".file":  # debug information may come first
            self.next()
            self.file_directive()
        line = self.expect_directive(".version").line
        self.module.version = self.next().text
        if not re.fullmatch(r"[1-9]\.\d", self.module.version):
            raise PtxError(f"{self.module.version} is no version of PTX", line)
        line = self.expect_directive(".target").line
        self.module.target = self.next().text
        needed = TARGETS.get(self.module.target)
        if needed is None:
            raise PtxError(f"the emulator knows no target {self.module.target}", line)
        if tuple(map(int, self.module.version.split("."))) < needed:
            raise PtxError(f"{self.module.target} needs PTX .version {needed[0]}.{needed[1]} or later", line)
        while self.accept(","):
            option = self.next().text
            if option not in TARGET_OPTIONS:
                raise PtxError(f"the emulator knows no option {option} of .target", line)
        if self.accept(".address_size") and self.number() != 64:
            raise PtxError("only addresses of 64 bits are supported", self.lines[self.at - 1])

    def expect_directive(self, name: str) -> Token:
        token = self.next()
        if token.text != name:
            raise PtxError(f"expected {name} before {token.text!r}", token.line)
        return token

    def module_statement(self) -> None:
        token = self.next()
        if token.text == ".file":
            self.file_directive()
        elif token.text == ".section":
            self.next()
            self.skip_braces()
        elif token.text == ".pragma":
            self.pragma()
        elif token.text == ".alias":
            raise PtxError("aliases of functions are not supported", token.line)
        elif token.text == ".loc":
            self.location_directive(token)
        else:
            self.at -= 1
            self.declaration()

    def pragma(self) -> None:
        for token in self.listed(self.next):
            if token.kind != "string":
                raise PtxError(f"expected a string after .pragma, found {token.text!r}", token.line)
        self.expect(";")

    def check_symbols(self) -> None:
        """Checks the names in initial values, and that each function has a body. Call this function after the whole
        text is read."""
        for variable in self.module.variables.values():
            for _, name, _ in variable.pointers:
                aim = self.module.variables.get(name)
                if aim is None or aim is variable or aim.space not in {"global", "const"}:
                    raise PtxError(f"the initial value of {variable.name} is no variable: {name}", variable.ptx_line)
            if variable.external and variable.space != "shared":
                raise PtxError(f"the variable {variable.name} of another module is not supported", variable.ptx_line)
        for function in self.module.functions.values():
            if not function.has_body and not function.external and function.name not in SUPPLIED:
                raise PtxError(f"the function {function.name} has no body", function.ptx_line)

    def file_directive(self) -> None:
        self.number()
        self.next()
        while self.accept(","):
            self.number()

    def declaration(self) -> None:
        linkage = self.next().text if self.peek() in LINKAGE else ""
        token = self.next()
        if token.text in {".entry", ".func"}:
            self.function(token, linkage == ".extern")
        elif token.text in MODULE_SPACES:
            for variable in self.variables(token.text[1:], linkage == ".extern"):
                known = self.module.variables.get(variable.name)
                if variable.name in self.module.functions or (known and not known.external and not variable.external):
                    raise PtxError(f"{variable.name} is declared twice", variable.ptx_line)
                if known is None or known.external:
                    self.module.variables[variable.name] = variable
        else:
            raise PtxError(f"unknown directive {token.text!r}", token.line)

    def function(self, start: Token, external: bool) -> None:
        is_entry = start.text == ".entry"
        while self.peek() == ".attribute":
            self.next()
            self.skip_to(")")
        results = self.parameters() if not is_entry and self.peek() == "(" else []
        token = self.next()
        name = token.text
        if token.kind != "word" or name[0] == ".":
            raise PtxError(f"expected the name of a function, found {name!r}", token.line)
        params = self.parameters() if self.peek() == "(" else []
        function = PtxFunction(name, is_entry, params, results, ptx_line=start.line, external=external)
        self.check_parameters(function)
        while self.peek() not in {"{", ";", ""}:
            self.performance_directive(function)
        if function.required_block and function.most_threads:
            raise PtxError(f"{name} has both .maxntid and .reqntid", start.line)
        known = self.module.functions.get(name)
        if name in self.module.variables or (known and (known.has_body and self.peek() == "{")):
            raise PtxError(f"{name} is declared twice", start.line)
        if known and not known.has_body:
            self.check_prototype(known, function)
        if self.accept("{"):
            function.has_body = True
            self.body(function)
        else:
            self.expect(";")
        if function.has_body or known is None:
            self.module.functions[name] = function

    def check_prototype(self, known: PtxFunction, function: PtxFunction) -> None:
        def shape(each: PtxFunction) -> tuple[Any, ...]:
            formals = [(one.space, TYPE_BYTES[one.type], one.size) for one in (*each.results, *each.params)]
            return each.is_entry, len(each.results), formals

        if shape(known) != shape(function):
            raise PtxError(f"{function.name} is declared with other parameters before", function.ptx_line)

    def check_parameters(self, function: PtxFunction) -> None:
        seen: set[str] = set()
        total = 0
        for variable in (*function.results, *function.params):
            if variable.name in seen:
                raise PtxError(f"{function.name} has two parameters {variable.name}", variable.ptx_line)
            seen.add(variable.name)
            if variable.space != "param" and (function.is_entry or variable.space != "reg"):
                raise PtxError(f"the parameter {variable.name} cannot lie in .{variable.space}", variable.ptx_line)
            if variable.type == "pred" and variable.space == "param":
                raise PtxError(f"the parameter {variable.name} cannot be a predicate", variable.ptx_line)
            total = -(-total // variable.align) * variable.align + variable.size
        number = int("".join(filter(str.isdigit, self.module.target)) or 0)
        # PTX 8.1 raised the limit from 4,352 to 32,764 bytes, for sm_70 and later.
        modern = number >= 70 and tuple(map(int, self.module.version.split("."))) >= (8, 1)
        most = 32764 if modern else 4352
        if function.is_entry and total > most:
            raise PtxError(f"the parameters of {function.name} have {total} bytes of {most} at most", function.ptx_line)

    def performance_directive(self, function: PtxFunction) -> None:
        token = self.next()
        if token.text in EXTENTS:
            setattr(function, EXTENTS[token.text], self.extents(token))
        elif token.text == ".pragma":
            self.pragma()
        elif token.text == ".noreturn" and not function.is_entry:
            pass
        elif token.text in DIRECTIVES:
            for _ in range(DIRECTIVES[token.text]):
                number = self.number()
                if number <= 0:
                    raise PtxError(f"{token.text} takes a number from 1 on", token.line)
                if token.text == ".maxnreg":
                    function.most_registers = number
                elif token.text == ".minnctapersm":
                    function.least_blocks = number
        else:
            raise PtxError(f"unexpected {token.text!r} after the parameters of {function.name}", token.line)

    def extents(self, token: Token) -> tuple[int, ...]:
        """Reads one to three sizes. Missing sizes are 1."""
        sizes = self.listed(self.number)
        if len(sizes) > 3 or any(not 1 <= size <= MOST_EXTENT for size in sizes):
            raise PtxError(f"{token.text} takes one to three sizes from 1 to {MOST_EXTENT}", token.line)
        return tuple([*sizes, 1, 1][:3])

    def parameters(self) -> list[Variable]:
        self.expect("(")
        if self.accept(")"):
            return []
        found = self.listed(self.parameter)
        self.expect(")")
        return found

    def parameter(self) -> Variable:
        token = self.next()
        if token.text not in {".param", ".reg"}:
            raise PtxError(f"expected a parameter, found {token.text!r}", token.line)
        return self.variables(token.text[1:], external=False, single=True)[0]

    def variables(self, space: str, external: bool, single: bool = False) -> list[Variable]:
        """Reads the part of a declaration after the state space, such as `.align 4 .b8 name[12] = {…}, …;`. The
        declaration of a parameter (`single`) ends before a comma."""
        align, type_name, lanes = 0, "", 1
        while self.peek().startswith("."):
            token = self.next()
            word = token.text
            if word == ".align" and lanes == 1 and not type_name:
                align = self.alignment()
            elif word in {".v2", ".v4"} and not type_name:
                lanes = int(word[2:])
            elif word == ".attribute":
                self.skip_to(")")
            elif word[1:] in REGISTER_TYPES and not type_name:
                type_name = word[1:]
            elif word == ".ptr" and space == "param":
                self.pointer_attributes()
            else:
                raise PtxError(f"unknown attribute {word!r} of a variable", token.line)
        if not type_name:
            raise PtxError(f"a variable in .{space} needs a type", self.lines[self.at - 1])
        if type_name == "pred" and space != "reg":
            raise PtxError(f"a predicate cannot lie in .{space}", self.lines[self.at - 1])
        if type_name == "f16x2" and space == "param":  # ptxas: "cannot be allocated in .param state space"
            raise PtxError("a parameter is no .f16x2: .b32 has as many bits", self.lines[self.at - 1])
        if single:
            return [self.variable(space, align, type_name, lanes, external)]
        found = self.listed(lambda: self.variable(space, align, type_name, lanes, external))
        self.expect(";")
        return found

    def alignment(self) -> int:
        line = self.lines[self.at - 1]
        value = self.number()
        if value < 1 or value & (value - 1) or value > MOST_ALIGNMENT:
            raise PtxError(f"an alignment is a power of two, and here at most {MOST_ALIGNMENT}, not {value}", line)
        return value

    def pointer_attributes(self) -> None:
        while self.peek() in {".global", ".shared", ".const", ".local", ".align"}:
            if self.next().text == ".align":
                self.alignment()

    def variable(self, space: str, align: int, type_name: str, lanes: int, external: bool) -> Variable:
        token = self.next()
        name, width = token.text, TYPE_BYTES[type_name]
        if token.kind != "word" or "." in name:
            raise PtxError(f"expected the name of a variable, found {name!r}", token.line)
        dims = self.dimensions(name, token.line)
        unsized = bool(dims) and dims[0] is None
        count = prod(1 if extent is None else extent for extent in dims)
        size = 0 if unsized else count * width * lanes
        if size > MOST_VARIABLE:
            raise PtxError(f"{name} has {size} bytes; the emulator holds {MOST_VARIABLE} at most", token.line)
        result = Variable(name, space, align or width * lanes, size, type_name, external=external, ptx_line=token.line)
        result.element = width if dims else 0
        if self.accept("="):
            if space not in {"global", "const"} or type_name in {"f16", "bf16", "f16x2", "bf16x2", "b128"}:
                raise PtxError(f"{name}, of type .{type_name} in .{space}, cannot have an initial value", token.line)
            image = bytearray()
            self.initialiser(result, image, [*dims, lanes] if lanes > 1 else dims, width)
            if unsized:
                result.size = len(image)
            result.data = bytes(image)
        elif unsized and not external and space != "param":
            raise PtxError(f"{name} has no size", token.line)
        return result

    def dimensions(self, name: str, line: int) -> list[int | None]:
        dims: list[int | None] = []
        while self.accept("["):
            if self.accept("]"):
                if dims:
                    raise PtxError(f"only the first extent of {name} may be left out", line)
                dims.append(None)
                continue
            extent = self.number()
            if extent < 1 or len(dims) == MOST_DIMENSIONS:
                raise PtxError(f"{extent} is no extent of {name}", line)
            dims.append(extent)
            self.expect("]")
        return dims

    def initialiser(self, variable: Variable, image: bytearray, dims: list[int | None], width: int) -> None:
        """Reads initial values in nested braces, with one level of braces for each dimension of the variable. Missing
        values are 0."""
        if not dims:
            self.initial_value(variable, image, width)
            return
        start, line, count = len(image), self.expect("{"), 0
        inner = width * prod(extent or 1 for extent in dims[1:])
        while not (count == 0 and self.peek() == "}"):
            if dims[0] is not None and count == dims[0]:
                raise PtxError(f"{variable.name} has more initial values than elements", line)
            self.initialiser(variable, image, dims[1:], width)
            count += 1
            if not self.accept(","):
                break
        self.expect("}")
        if dims[0] is not None:
            image += bytes(start + dims[0] * inner - len(image))

    def initial_value(self, variable: Variable, image: bytearray, width: int) -> None:
        negative = self.peek() == "-" and is_bits(self.peek(1)) and self.accept("-")
        self.check_end()
        token = self.tokens.at(self.at)
        if token.kind == "word" and token.text != "WARP_SZ":
            if width != 8 or variable.type[0] not in "bsu":
                raise PtxError(f"the address of {token.text} does not fit .{variable.type}", token.line)
            image += self.initial_address(variable, len(image), width)
            return
        if is_bits(token.text):
            value = negated(floating(self.next().text)) if negative else floating(self.next().text)
        else:
            found = read_constant(self)
            if not found.is_float:
                if variable.type[0] == "f":
                    raise PtxError(f"{found.value} is no value of type .{variable.type}", token.line)
                image += (int(found.value) & ((1 << 8 * width) - 1)).to_bytes(width, "little")
                return
            value = Float(float(found.value))
        if variable.type[0] in "su" or width < 4:
            raise PtxError(f"{token.text} is no value of type .{variable.type}", token.line)
        if value.bits is not None and value.width == 8 * width:
            image += value.bits.to_bytes(width, "little")
        else:
            image += struct.pack("<d", value.value) if width == 8 else rounded_f32(value.value)

    def initial_address(self, variable: Variable, offset: int, width: int) -> bytes:
        name = self.next().text
        if name == "generic":
            self.expect("(")
            name = self.next().text
            self.expect(")")
        addend = self.whole() if self.accept("+") else 0
        variable.pointers.append((offset, name, addend))
        return bytes(width)

    # Function bodies

    def body(self, function: PtxFunction) -> None:
        self.location, self.whose, self.used = None, function, set()
        self.scopes = [{variable.name: variable.name for variable in (*function.params, *function.results)}]
        self.vectors = function.vectors
        self.plain.clear()
        while True:
            token = self.next()
            if token.text == "{":
                if len(self.scopes) > MOST_DEPTH:
                    raise PtxError(f"more than {MOST_DEPTH} braces in braces", token.line)
                self.scope_count += 1
                self.scopes.append({"": f"@{self.scope_count}"})
                self.plain.clear()
                self.declare_labels()
            elif token.text == "}":
                if len(self.scopes) == 1:
                    return
                self.scopes.pop()
                self.plain.clear()
            else:
                self.body_statement(function, token)

    def declare(self, name: str, line: int) -> str:
        """Declares a name in the current scope. Returns the name by which the whole function refers to it, which is
        unique."""
        if name in self.scopes[-1]:
            raise PtxError(f"{name} is declared twice", line)
        # All cached names are cleared, since a declaration of a vector `a` also changes the meaning of `a.x`.
        self.plain.clear()
        own = self.scopes[-1][name] = name + self.scopes[-1].get("", "")
        if own in self.used:
            raise PtxError(f"{name} is used before it is declared", line)
        return own

    def declare_labels(self) -> None:
        """Declares the labels of a nested scope, which are local to it. This happens before the scope is read, since a
        branch may precede its label."""
        for text in self.labels_of(self.at - 1):
            self.scopes[-1][text] = text + self.scopes[-1][""]

    def labels_of(self, brace: int) -> list[str]:
        """Returns the labels directly inside a pair of braces. `brace` is the index of the opening brace's token. The
        first call finds the labels of all braces in one pass over the tokens."""
        if self.labels is None:
            self.labels = {}
            opened: list[int] = []
            for index, text in enumerate(self.texts):
                if text == "{":
                    opened.append(index)
                elif text == "}" and opened:
                    opened.pop()
                elif text == ":" and opened and self.is_label(index - 1):
                    self.labels.setdefault(opened[-1], []).append(self.texts[index - 1])
        return self.labels.get(brace, [])

    def is_label(self, index: int) -> bool:
        starts = self.texts[index - 1] in {";", "{", "}", ":"} or self.kinds[index - 1] in {"int", "string"}
        return starts and self.kinds[index] == "word"

    def body_statement(self, function: PtxFunction, token: Token) -> None:
        if token.text[0] != ".":
            if token.kind == "word" and self.peek() == ":":
                self.at += 1
                self.label(function, token)
            else:
                function.body.append(self.instruction(token))
        elif token.text == ".loc":
            self.location_directive(token)
        elif token.text == ".reg":
            self.register_declaration(function)
        elif token.text in SPACES or token.text in LINKAGE:
            if token.text in LINKAGE:
                raise PtxError(f"{token.text} stands outside of functions only", token.line)
            for variable in self.variables(token.text[1:], external=False):
                name = self.declare(variable.name, variable.ptx_line)
                function.variables[name] = replace(variable, name=name)
        elif token.text == ".pragma":
            self.pragma()
        elif token.text == ".file":
            self.file_directive()
        else:
            raise PtxError(f"unknown directive {token.text!r}", token.line)

    def label(self, function: PtxFunction, token: Token) -> None:
        if self.peek() in {".branchtargets", ".calltargets"}:
            if self.resolve(token.text) in function.targets:
                raise PtxError(f"{token.text} is declared twice", token.line)
            self.next()
            names = self.listed(lambda: self.next().text)
            self.expect(";")
            function.targets[self.resolve(token.text)] = tuple(self.resolve(name) for name in names)
        elif self.peek() == ".callprototype":
            self.skip_to(";")
        else:
            function.body.append(Label(self.resolve(token.text), token.line))

    def register_declaration(self, function: PtxFunction) -> None:
        line, kind, lanes = self.lines[self.at - 1], "", 1
        while self.peek().startswith("."):
            word = self.next().text[1:]
            if word == "align" and lanes == 1 and not kind:
                self.alignment()
            elif word in {"v2", "v4"} and lanes == 1 and not kind:
                lanes = int(word[1:])
            elif word in REGISTER_TYPES and not kind:
                kind = word
            else:
                raise PtxError(f"a register cannot be .{word}", line)
        if not kind or lanes * TYPE_BYTES[kind] > 16 or (lanes > 1 and kind == "pred"):
            raise PtxError("a register has a type, and 16 bytes at most", line)
        while True:
            token = self.next()
            name = token.text
            if token.kind != "word" or name[0] == ".":
                raise PtxError(f"expected the name of a register, found {name!r}", token.line)
            names = [name]
            if self.accept("<"):
                count = self.number()
                self.expect(">")
                self.check_register_count(len(function.registers) + count * lanes, count, line)
                names = [f"{name}{index}" for index in range(count)]
            self.check_register_count(len(function.registers) + lanes, 1, line)
            for each in names:
                own = self.declare(each, token.line)
                if lanes == 1:
                    function.registers[own] = kind
                    continue
                function.vectors[own] = lanes
                for member in MEMBERS[lanes][0]:
                    function.registers[f"{own}.{member}"] = kind
            if not self.accept(","):
                break
        self.expect(";")

    def check_register_count(self, total: int, count: int, line: int) -> None:
        if count < 0 or total > MOST_REGISTERS:
            raise PtxError(f"a function has 0 to {MOST_REGISTERS} registers on the emulator, not {total}", line)

    def resolve(self, name: str) -> str:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return name

    def location_directive(self, token: Token) -> None:
        """Reads `.loc file line column [, function_name label, inlined_at file line column]`."""
        here = (self.number(), self.number(), self.number() if self.kinds[self.at] == "int" else 0)
        caller = None
        while self.accept(","):
            word = self.next().text
            if word == "function_name":
                self.next()
                if self.accept("+"):
                    self.number()
            elif word == "inlined_at":
                caller = (self.number(), self.number(), self.number())
            else:
                raise PtxError(f"unknown attribute {word!r} of .loc", token.line)
        if caller is not None:
            self.inlined[here] = caller
        self.location = self.build_location(here, caller)

    def build_location(self, here: tuple[int, int, int], caller: tuple[int, int, int] | None) -> Location:
        """Returns the location `here` with its chain of callers. If a caller was inlined itself, an earlier `.loc` of
        the caller's position names the next caller."""
        chain = [here]
        while caller is not None and caller not in chain:
            chain.append(caller)
            caller = self.inlined.get(caller)
        result: Location | None = None
        for file, line, column in reversed(chain):
            result = Location(self.module.files.get(file, f"file {file}"), line, column, result)
        assert result is not None
        return result

    def instruction(self, token: Token) -> PtxInstruction:
        """Reads the rest of an instruction. `token` is its first token, which has already been read."""
        guard, negated, line = None, False, token.line
        if token.text == "@":
            negated = self.accept("!")
            guard = Register(self.resolve(self.next().text))
            self.used.add(guard.name)
            token = self.next()
        if token.kind != "word" or not token.text[0].isalpha():
            raise PtxError(f"expected an instruction, found {token.text!r}", token.line)
        while self.texts[self.at][:1] == ".":  # `mov .u32`: ptxas accepts blanks and comments before each modifier
            token.text += self.next().text
        operands: list[Operand] = []
        self.root = token.text.partition(".")[0]
        self.in_call = self.root == "call"
        if not self.accept(";"):
            texts, plain, comma = self.texts, self.plain, True
            while comma:
                known = plain.get(texts[self.at])
                if known is not None and texts[self.at + 1] in ENDS:  # true for most operands
                    self.at += 1
                    operands.append(known)
                else:
                    operands.append(self.operand())
                comma = texts[self.at] == ","
                self.at += comma
            self.expect(";")
        opcode, takes_braces = opcode_of(token.text)
        if not takes_braces and sum(isinstance(each, Vector) for each in operands) == 1:
            operands = [without_braces(each) for each in operands]
        return PtxInstruction(opcode, tuple(operands), guard, negated, line, self.location)

    def operand(self) -> Operand:
        self.check_end()
        text = self.texts[self.at]
        if text == "{" or (text == "(" and self.in_call):
            self.at += 1
            return self.operand_list("}" if text == "{" else ")")
        first = self.simple_operand()
        if self.accept("|"):
            return Pair(first, self.simple_operand())
        return first

    def operand_list(self, end: str) -> Operand:
        items: list[Operand] = []
        if not self.accept(end):
            items = self.listed(self.simple_operand)
            self.expect(end)
        if any(isinstance(item, PtxAddress) for item in items):
            raise PtxError("an address stands in no list", self.lines[self.at - 1])
        return Vector(tuple(items)) if end == "}" else ArgumentList(tuple(items))

    def simple_operand(self) -> Operand:
        known = self.plain.get(self.texts[self.at])
        if known is not None and self.texts[self.at + 1] in ENDS:
            self.at += 1
            return known
        if self.starts_constant():
            return self.constant()
        token = self.next()
        if token.text == "[":
            return self.address()
        if token.text == "!" and self.peek_kind() == "word":
            return Not(self.named(self.next()))
        if token.kind == "word" and token.text[0] != ".":
            return self.named(token)
        raise PtxError(f"unexpected {token.text!r} among the operands", token.line)

    def starts_constant(self) -> bool:
        kind, text = self.kinds[self.at], self.texts[self.at]
        if text == "!":
            return self.kinds[self.at + 1] != "word" or self.texts[self.at + 1] == "WARP_SZ"
        return kind == "int" or kind == "float" or text in STARTS or text == "WARP_SZ"

    def constant(self) -> Operand:
        """Reads a constant expression, which is mostly a single number."""
        token = self.tokens.at(self.at)
        if is_bits(token.text):
            self.at += 1
            return floating(token.text)
        if token.kind == "int" and self.texts[self.at + 1] in ENDS:
            self.at += 1
            return Integer(integer(token.text, token.line))
        found = read_constant(self)
        return Float(float(found.value)) if found.is_float else Integer(int(found.value))

    def named(self, token: Token) -> Operand:
        name = self.resolve(token.text)
        self.used.add(name)
        if self.accept("+"):
            return Symbol(name, self.whole())
        if self.accept("["):
            offset = self.index(name, token)
            self.expect("]")
            return Symbol(name, offset) if self.root in TAKES_ADDRESSES else PtxAddress(Register(name), offset)
        if name in self.vectors:
            return Vector(tuple(Register(f"{name}.{member}") for member in MEMBERS[self.vectors[name]][0]))
        stem, dot, member = token.text.rpartition(".")
        vector = self.resolve(stem) if dot else ""
        if vector in self.vectors:
            for letters in MEMBERS[self.vectors[vector]]:
                if member in letters and len(member) == 1:
                    return Register(f"{vector}.{MEMBERS[self.vectors[vector]][0][letters.index(member)]}")
            raise PtxError(f"{stem} has no member {member}", token.line)
        if dot and member in PARTS:
            return Part(Register(vector), member)
        found = self.plain[token.text] = Register(name)
        return found

    def index(self, name: str, token: Token) -> int:
        """Reads the index in `name[index]`, which counts elements. Returns the element's offset in bytes (PTX ISA,
        "Arrays as Operands")."""
        if self.root not in TAKES_ADDRESSES | TAKES_ELEMENTS:
            raise PtxError(
                f"an element of an array is no operand of {self.root}: write [{token.text}+bytes]", token.line
            )
        if not self.starts_constant():
            raise PtxError(
                f"an index of {token.text} that is no constant is not read here: add to its address", token.line
            )
        function = self.whose
        assert function is not None
        known = (function.variables.get(name), *function.params, *function.results, self.module.variables.get(name))
        array = next((each for each in known if each is not None and each.name == name), None)
        if array is None or not array.element:
            raise PtxError(f"{token.text} is no array: only elements of arrays have an index", token.line)
        return self.whole() * array.element

    def address(self) -> PtxAddress | TensorAddress:
        if self.starts_constant():
            offset = self.whole()
            self.expect("]")
            return PtxAddress(None, offset)
        token = self.next()
        base, offset = self.plain.get(token.text), 0
        if base is not None and self.peek() != "[":
            pass
        elif token.kind == "word" and token.text[0] != ".":
            found = self.named(token)
            if isinstance(found, Symbol):
                base, offset = Register(found.name), found.offset
            elif isinstance(found, Register):
                base = found
            else:
                raise PtxError(f"{token.text} is no address", token.line)
        else:
            raise PtxError(f"unexpected {token.text!r} in an address", token.line)
        if self.accept("+"):
            offset += self.whole()
        if base is not None and not offset and self.accept(","):
            coordinates = self.operand()
            if not isinstance(coordinates, Vector):
                raise PtxError(f"the coordinates of a tensor are a vector, not {coordinates}", token.line)
            self.expect("]")
            return TensorAddress(PtxAddress(base), coordinates)
        self.expect("]")
        return PtxAddress(base, offset)


def read_module(text: str) -> PtxModule:
    """Parses one PTX module. Raises `PtxError` with the line of the first text that cannot be parsed."""
    return Reader(text).read()
