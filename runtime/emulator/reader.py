"""PTX text to a module of functions and variables: syntax only, no meaning of instructions (PTX ISA chapters 4, 5, 11).

Scopes are resolved here: a register or label of a `{ … }` block gets a name of its own, so that what follows sees one
flat list of instructions for each function.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field, replace

from .findings import Location, PtxError

TOKEN = re.compile(
    r"""
    (?P<skip>[ \t\r]+|//[^\n]*)
  | (?P<newline>\n)
  | (?P<comment>/\*.*?\*/)
  | (?P<string>"(?:\\.|[^"\\])*")
  | (?P<float>0[fF][0-9a-fA-F]{8}(?![0-9a-fA-F])|0[dD][0-9a-fA-F]{16}|\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
  | (?P<int>0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?)
  | (?P<word>[.]?[A-Za-z_$%][\w$]*(?:(?:\.|::)[\w$]+)*)
  | (?P<mark>[-+!@|:;,{}()\[\]<>=*&~])
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Register:
    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Integer:
    value: int

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True)
class Float:
    """A floating constant: its value, and for `0f…`/`0d…` the exact bits and their width."""

    value: float
    bits: int | None = None
    width: int = 64

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True)
class Symbol:
    """The address of a variable, or a function's name."""

    name: str
    offset: int = 0

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Address:
    """`[base + offset]`; base is a register, a symbol or None for an absolute address."""

    base: Register | Symbol | None
    offset: int = 0

    def __str__(self) -> str:
        return f"[{self.base}+{self.offset}]"


@dataclass(frozen=True)
class Vector:
    items: tuple[Operand, ...]

    def __str__(self) -> str:
        return "{" + ", ".join(map(str, self.items)) + "}"


@dataclass(frozen=True)
class Pair:
    """`d|p`, two destinations of one instruction."""

    first: Operand
    second: Operand

    def __str__(self) -> str:
        return f"{self.first}|{self.second}"


@dataclass(frozen=True)
class Not:
    """`!p`, a negated predicate source."""

    operand: Operand

    def __str__(self) -> str:
        return f"!{self.operand}"


@dataclass(frozen=True)
class Arguments:
    """The parenthesised list of a call."""

    items: tuple[Operand, ...]

    def __str__(self) -> str:
        return "(" + ", ".join(map(str, self.items)) + ")"


Operand = Register | Integer | Float | Symbol | Address | Vector | Pair | Not | Arguments


@dataclass(frozen=True)
class Instruction:
    """One instruction: `opcode` split at its dots, so `ld.global.u32` is ("ld", "global", "u32")."""

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


@dataclass(frozen=True)
class Label:
    name: str


@dataclass
class Variable:
    """A variable of a state space; `data` is its first image, `pointers` the (offset, symbol, addend) to put there."""

    name: str
    space: str
    align: int
    size: int
    type: str
    data: bytes = b""
    pointers: list[tuple[int, str, int]] = field(default_factory=list)
    external: bool = False


@dataclass
class Function:
    name: str
    is_entry: bool
    params: list[Variable]
    results: list[Variable]
    registers: dict[str, str] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    body: list[Instruction | Label] = field(default_factory=list)
    required_cluster: tuple[int, ...] | None = None
    has_body: bool = False
    ptx_line: int = 0


@dataclass
class Module:
    version: str = ""
    target: str = ""
    files: dict[int, str] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)


TYPE_BYTES = {
    **{f"{kind}{bits}": bits // 8 for kind in "bsu" for bits in (8, 16, 32, 64)},
    **{"b128": 16, "f16": 2, "f16x2": 4, "bf16": 2, "bf16x2": 4, "f32": 4, "f64": 8, "pred": 1},
}
LINKAGE = {".visible", ".extern", ".weak", ".common"}
SPACES = {".global", ".const", ".shared", ".local", ".param"}


@dataclass
class Token:
    kind: str
    text: str
    line: int


def tokens_of(text: str) -> list[Token]:
    """The tokens of a PTX text, with their line numbers (from 1)."""
    tokens, line, at = [], 1, 0
    for match in TOKEN.finditer(text):
        if match.start() != at:
            break
        kind, found = match.lastgroup or "", match.group()
        at = match.end()
        if kind == "newline":
            line += 1
        elif kind == "comment":
            line += found.count("\n")
        elif found[0] == "." and found.count(".") > 1:  # directives need no space between them: `.reg.b16`
            tokens += [Token(kind, f".{word}", line) for word in found[1:].split(".")]
        elif kind != "skip":
            tokens.append(Token(kind, found, line))
    if at != len(text):
        raise PtxError(f"cannot read {text[at : at + 20]!r}", line)
    return tokens


def integer(text: str) -> int:
    return int(text.rstrip("U"), 0) if not re.fullmatch(r"0[0-7]+U?", text) else int(text.rstrip("U"), 8)


def floating(text: str) -> Float:
    prefix = text[:2].lower()
    if prefix == "0f":
        bits = int(text[2:], 16)
        return Float(struct.unpack("<f", struct.pack("<I", bits))[0], bits, 32)
    if prefix == "0d":
        bits = int(text[2:], 16)
        return Float(struct.unpack("<d", struct.pack("<Q", bits))[0], bits, 64)
    return Float(float(text))


class Reader:
    """A recursive-descent reader over the tokens of one module."""

    def __init__(self, text: str):
        self.tokens = tokens_of(text)
        self.at = 0
        self.module = Module()
        self.location: Location | None = None
        self.inlined: dict[tuple[int, int, int], tuple[int, int, int]] = {}
        self.scopes: list[dict[str, str]] = []
        self.scope_count = 0

    # Tokens

    def peek(self, ahead: int = 0) -> str:
        return self.tokens[self.at + ahead].text if self.at + ahead < len(self.tokens) else ""

    def next(self) -> Token:
        if self.at >= len(self.tokens):
            raise PtxError("the text ends in the middle of a statement", self.tokens[-1].line if self.tokens else 1)
        self.at += 1
        return self.tokens[self.at - 1]

    def accept(self, text: str) -> bool:
        if self.peek() == text:
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> Token:
        token = self.next()
        if token.text != text:
            raise PtxError(f"expected {text!r}, found {token.text!r}", token.line)
        return token

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
        return -integer(token.text) if negative else integer(token.text)

    # Module

    def read(self) -> Module:
        self.read_file_names()
        while self.at < len(self.tokens):
            self.module_statement()
        return self.module

    def read_file_names(self) -> None:
        """`.file` may stand after its uses, so the names are collected first."""
        for index, token in enumerate(self.tokens):
            if token.text == ".file" and self.tokens[index + 2].kind == "string":
                self.module.files[int(self.tokens[index + 1].text)] = self.tokens[index + 2].text[1:-1]

    def module_statement(self) -> None:
        token = self.next()
        if token.text == ".version":
            self.module.version = self.next().text
        elif token.text == ".target":
            self.module.target = self.next().text
            while self.accept(","):
                self.next()
        elif token.text == ".address_size":
            self.next()
        elif token.text == ".file":
            self.file_directive()
        elif token.text == ".section":
            self.next()
            self.skip_braces()
        elif token.text in {".pragma", ".alias"}:
            self.skip_to(";")
        elif token.text == ".loc":
            self.location_directive(token)
        elif token.text == ";":
            pass
        else:
            self.at -= 1
            self.declaration()

    def file_directive(self) -> None:
        self.number()
        self.next()
        while self.accept(","):
            self.number()

    def declaration(self) -> None:
        external = False
        while self.peek() in LINKAGE:
            external |= self.next().text == ".extern"
        token = self.next()
        if token.text in {".entry", ".func"}:
            self.function(token)
        elif token.text in SPACES:
            for variable in self.variables(token.text[1:], external):
                self.module.variables[variable.name] = variable
        else:
            raise PtxError(f"unknown directive {token.text!r}", token.line)

    def function(self, start: Token) -> None:
        is_entry = start.text == ".entry"
        while self.peek() in {".noreturn", ".attribute"}:
            if self.next().text == ".attribute":
                self.skip_to(")")
        results = self.parameters() if not is_entry and self.peek() == "(" else []
        name = self.next().text
        params = self.parameters() if self.peek() == "(" else []
        function = Function(name, is_entry, params, results, ptx_line=start.line)
        while self.peek() not in {"{", ";", ""}:
            self.performance_directive(function)
        if self.accept("{"):
            function.has_body = True
            self.body(function)
        else:
            self.expect(";")
        if function.has_body or name not in self.module.functions:
            self.module.functions[name] = function

    def performance_directive(self, function: Function) -> None:
        token = self.next()
        if token.text == ".reqnctapercluster":
            sizes = [self.number()]
            while self.accept(","):
                sizes.append(self.number())
            function.required_cluster = tuple(sizes)
        elif token.text == ".pragma":
            self.skip_to(";")
        elif token.text.startswith("."):
            while self.tokens[self.at].kind == "int" or self.peek() == ",":
                self.at += 1
        else:
            raise PtxError(f"unexpected {token.text!r} after the parameters of {function.name}", token.line)

    def parameters(self) -> list[Variable]:
        self.expect("(")
        found: list[Variable] = []
        while not self.accept(")"):
            space = self.next().text
            found += self.variables(space[1:], external=False, single=True)
            self.accept(",")
        return found

    def variables(self, space: str, external: bool, single: bool = False) -> list[Variable]:
        """`.align 4 .b8 name[12] = {…}, …;` after its state space; a parameter ends at the comma."""
        align, type_name, lanes = 0, "", 1
        while self.peek().startswith("."):
            word = self.next().text
            if word == ".align":
                align = self.number()
            elif word in {".v2", ".v4", ".v8"}:
                lanes = int(word[2:])
            elif word == ".attribute":
                self.skip_to(")")
            elif word[1:] in TYPE_BYTES:
                type_name = word[1:]
            elif word == ".ptr":
                self.pointer_attributes()
            else:
                raise PtxError(f"unknown attribute {word!r} of a variable", self.tokens[self.at].line)
        found = []
        while True:
            found.append(self.variable(space, align, type_name, lanes, external))
            if single or not self.accept(","):
                break
        if not single:
            self.expect(";")
        return found

    def pointer_attributes(self) -> None:
        while self.peek() in {".global", ".shared", ".const", ".local", ".align"}:
            if self.next().text == ".align":
                self.number()

    def variable(self, space: str, align: int, type_name: str, lanes: int, external: bool) -> Variable:
        name = self.next().text
        width = TYPE_BYTES[type_name] if type_name else 8
        count, unsized = lanes, False
        while self.accept("["):
            if self.accept("]"):
                unsized = True
                continue
            count *= self.number()
            self.expect("]")
        size = 0 if unsized else count * width
        result = Variable(name, space, align or width * lanes, size, type_name, external=external)
        if self.accept("="):
            image = bytearray()
            self.initialiser(result, image, type_name, width)
            if unsized:
                result.size = len(image)
            result.data = bytes(image)
        return result

    def initialiser(self, variable: Variable, image: bytearray, type_name: str, width: int) -> None:
        if self.accept("{"):
            while not self.accept("}"):
                self.initialiser(variable, image, type_name, width)
                self.accept(",")
            return
        token = self.tokens[self.at]
        if token.kind == "float" or (self.peek() == "-" and self.tokens[self.at + 1].kind == "float"):
            sign = -1.0 if self.accept("-") else 1.0
            value = floating(self.next().text)
            image += struct.pack("<f" if width == 4 else "<d", sign * value.value)
        elif token.kind == "word":
            image += self.initial_address(variable, len(image), width)
        else:
            image += (self.number() & ((1 << 8 * width) - 1)).to_bytes(width, "little")

    def initial_address(self, variable: Variable, offset: int, width: int) -> bytes:
        name = self.next().text
        if name == "generic":
            self.expect("(")
            name = self.next().text
            self.expect(")")
        addend = self.number() if self.accept("+") else 0
        variable.pointers.append((offset, name, addend))
        return bytes(width)

    # Function bodies

    def body(self, function: Function) -> None:
        self.location = None
        self.scopes = [{}]
        prefix_depth = 0
        while True:
            token = self.next()
            if token.text == "{":
                self.scope_count += 1
                self.scopes.append({"": f"@{self.scope_count}"})
                self.declare_labels()
                prefix_depth += 1
            elif token.text == "}":
                if prefix_depth == 0:
                    return
                prefix_depth -= 1
                self.scopes.pop()
            else:
                self.body_statement(function, token)

    def declare_labels(self) -> None:
        """Labels of a nested scope are local to it: they are found ahead, because a branch may precede its label."""
        depth = 1
        for index in range(self.at, len(self.tokens) - 1):
            text = self.tokens[index].text
            depth += {"{": 1, "}": -1}.get(text, 0)
            if depth == 0:
                return
            is_start = self.tokens[index - 1].text in {";", "{", "}", ":"} or self.tokens[index - 1].kind in {
                "int",
                "string",
            }
            if depth == 1 and self.tokens[index].kind == "word" and self.tokens[index + 1].text == ":" and is_start:
                self.scopes[-1][text] = text + self.scopes[-1][""]

    def body_statement(self, function: Function, token: Token) -> None:
        if token.text == ".loc":
            self.location_directive(token)
        elif token.text == ".reg":
            self.register_declaration(function)
        elif token.text[0] == "." and (token.text in SPACES or token.text in LINKAGE):
            while token.text in LINKAGE:
                token = self.next()
            for variable in self.variables(token.text[1:], external=False):
                name = variable.name + self.scopes[-1].get("", "")
                self.scopes[-1][variable.name] = name
                function.variables[name] = replace(variable, name=name)
        elif token.text == ".pragma":
            self.skip_to(";")
        elif token.text == ".file":
            self.file_directive()
        elif token.text == ";":
            pass
        elif token.kind == "word" and self.peek() == ":":
            self.at += 1
            self.label(function, token)
        else:
            self.at -= 1
            function.body.append(self.instruction())

    def label(self, function: Function, token: Token) -> None:
        if self.peek() in {".branchtargets", ".calltargets"}:
            self.next()
            names = [self.next().text]
            while self.accept(","):
                names.append(self.next().text)
            self.expect(";")
            function.targets[self.resolve(token.text)] = tuple(self.resolve(name) for name in names)
        elif self.peek() == ".callprototype":
            self.skip_to(";")
        else:
            function.body.append(Label(self.resolve(token.text)))

    def register_declaration(self, function: Function) -> None:
        kinds = [self.next().text[1:]]
        while self.peek().startswith("."):
            kinds.append(self.next().text[1:])
        suffix = self.scopes[-1].get("", "")
        while True:
            name = self.next().text
            if self.accept("<"):
                count = self.number()
                self.expect(">")
                names = [f"{name}{index}" for index in range(count)]
            else:
                names = [name]
            for each in names:
                if suffix:
                    self.scopes[-1][each] = each + suffix
                function.registers[each + suffix] = kinds[-1]
            if not self.accept(","):
                break
        self.expect(";")

    def resolve(self, name: str) -> str:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return name

    def location_directive(self, token: Token) -> None:
        """`.loc file line column [, function_name label, inlined_at file line column]`."""
        here = (self.number(), self.number(), self.number() if self.tokens[self.at].kind == "int" else 0)
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
        """The chain of callers: a caller's own `inlined_at` is that of the `.loc` that named it before."""
        chain = [here]
        while caller is not None and caller not in chain:
            chain.append(caller)
            caller = self.inlined.get(caller)
        result: Location | None = None
        for file, line, column in reversed(chain):
            result = Location(self.module.files.get(file, f"file {file}"), line, column, result)
        assert result is not None
        return result

    def instruction(self) -> Instruction:
        guard, negated = None, False
        line = self.tokens[self.at].line
        if self.accept("@"):
            negated = self.accept("!")
            guard = Register(self.resolve(self.next().text))
        token = self.next()
        if token.kind != "word":
            raise PtxError(f"expected an instruction, found {token.text!r}", token.line)
        operands: list[Operand] = []
        if not self.accept(";"):
            operands.append(self.operand())
            while self.accept(","):
                operands.append(self.operand())
            self.expect(";")
        return Instruction(tuple(token.text.split(".")), tuple(operands), guard, negated, line, self.location)

    def operand(self) -> Operand:
        first = self.simple_operand()
        if self.accept("|"):
            return Pair(first, self.simple_operand())
        return first

    def simple_operand(self) -> Operand:
        token = self.next()
        if token.text == "[":
            return self.address()
        if token.text in {"{", "("}:
            end = "}" if token.text == "{" else ")"
            items = []
            while not self.accept(end):
                items.append(self.operand())
                self.accept(",")
            return Vector(tuple(items)) if end == "}" else Arguments(tuple(items))
        if token.text == "!":
            return Not(self.simple_operand())
        if token.text == "-":
            value = self.simple_operand()
            if isinstance(value, Integer):
                return Integer(-value.value)
            if isinstance(value, Float):
                return Float(-value.value)
        if token.kind == "int":
            return Integer(integer(token.text))
        if token.kind == "float":
            return floating(token.text)
        if token.kind == "word":
            return self.named(token)
        raise PtxError(f"unexpected {token.text!r} among the operands", token.line)

    def named(self, token: Token) -> Operand:
        if token.text == "WARP_SZ":
            return Integer(32)
        name = self.resolve(token.text)
        if self.accept("+"):
            return Symbol(name, self.number())
        return Register(name)

    def address(self) -> Operand:
        token = self.next()
        if token.text == "-" or token.kind == "int":
            self.at -= 1
            base: Register | None = None
            offset = self.number()
        else:
            base, offset = Register(self.resolve(token.text)), 0
        while self.peek() in {"+", "-"}:
            sign = -1 if self.next().text == "-" else 1
            offset += sign * self.number()
        if self.accept(","):
            raise PtxError("tensor coordinates in an address are not supported", token.line)
        self.expect("]")
        return Address(base, offset)


def read_module(text: str) -> Module:
    """Reads one PTX module; raises `PtxError` with the line of what cannot be read."""
    return Reader(text).read()
