"""Reads the head of an IR text: the kernel with its launch and schedule, its parameters, and its layouts."""

from __future__ import annotations

import json
from typing import Any

from dsl.lowering.ir.choices import Forced
from dsl.lowering.ir.function import FunctionWorkspace, Parameter, Value
from dsl.lowering.ir.location import Loc, Source, TileError, closest
from dsl.lowering.ir.plugins import current
from dsl.lowering.ir.schedule import Named, Pin, SwizzlePin
from dsl.lowering.ir.targets import Target, target
from dsl.lowering.ir.types import INDEX, DType, TableType, TensorType, TileType, Type
from dsl.lowering.layouts.layout import Layout, LayoutError
from dsl.lowering.text.attributes import ATTRIBUTES
from dsl.lowering.text.level import LevelCondition
from dsl.lowering.text.rows import TextRow
from dsl.lowering.text.values import Values, flat, inside, integers

MAX_BASES = 16
"""The maximum number of register bases of a layout. 16 bases mean 65,536 elements per thread. Offsets that no code
computes have 13 bases."""


class FunctionHead(Values):
    """Reads the rows (lines) of the head, with one method for each kind of row. `names` maps names such as `%x` to
    values."""

    def __init__(self, source: Source):
        super().__init__(source)
        self.parameters: list[Parameter] = []
        self.dims: dict[str, Value] = {}
        self.workspaces: list[FunctionWorkspace] = []
        self.rows: dict[str, Any] = {}  # rows that may occur only once
        self.constants: dict[str, Any] = {}
        self.requires: list[LevelCondition] = []
        self.divisors: dict[str, int] = {}
        self.attributes: dict[str, Any] = {}
        self.pins: dict[str, Pin] = {}
        self.instructions: dict[str, Named] = {}
        self.swizzles: dict[str, SwizzlePin] = {}
        self.lines: dict[tuple[str, str], Loc] = {}
        self.choices: dict[str, Forced] = {}
        self.void: list[tuple[str, Loc]] = []
        self.names: dict[str, Value] = {}

    def head(self, row: TextRow) -> None:
        kind = row.token if row.kind == "word" else ""
        read = getattr(self, f"row_{kind}", None) if kind in ROWS else None
        if read is None:
            row.fail(f"'{row.token}' is no row of the head", closest(row.token, ROWS) or ", ".join(ROWS))
        if kind in ONCE and kind in self.rows:
            row.fail(f"a second row '{kind}'")
        row.next()
        read(row)
        row.end()

    def row_kernel(self, row: TextRow) -> None:
        name = row.name()
        row.need("arch")
        loc, arch = row.loc, row.take("word", "a target")
        try:
            chosen: Target = target(arch)
        except TileError as error:
            row.fail(error.message, error.hint, loc)
        row.need("warps")
        loc, warps = row.loc, row.integer(1)
        if warps & (warps - 1) or warps > 32:
            row.fail(f"{warps} warps: 1, 2, 4, 8, 16 or 32", None, loc)
        row.need("index")
        loc, bits = row.loc, row.integer()
        if bits not in (32, 64):
            row.fail("indices have 32 or 64 bits", None, loc)
        self.rows["kernel"] = name, chosen, warps, bits, self.place_or_none(row)

    def row_passes(self, row: TextRow) -> None:
        self.rows["passes"] = row.several("[", "]", row.name)

    def row_holds(self, row: TextRow) -> None:
        self.rows["holds"] = row.several("[", "]", row.string)

    def row_schedule(self, row: TextRow) -> None:
        self.rows["schedule"] = row.string()

    def row_constant(self, row: TextRow) -> None:
        name = self.new(row, self.constants)
        loc, value = row.loc, self.value(row)
        if not isinstance(value, bool | int | float | str):
            row.fail("a constant is a number or a name in quotes", None, loc)
        self.constants[name] = value

    def row_grid(self, row: TextRow) -> None:
        loc, grid = row.loc, row.several("[", "]", lambda: self.tree(row))
        if len(grid) != 3:
            row.fail("a grid has three extents", None, loc)
        self.rows["grid"] = grid

    def row_requires(self, row: TextRow) -> None:
        expr = self.tree(row)
        row.need("text")
        text = row.string()
        row.need("line")
        line = row.integer()
        file = row.string() if row.has("of") else None
        hint = row.string() if row.has("hint") else None
        self.requires.append(LevelCondition(expr, text, line, hint, file))

    def row_divisor(self, row: TextRow) -> None:
        name = self.new(row, self.divisors)
        self.divisors[name] = self.power(row)

    def power(self, row: TextRow) -> int:
        """Reads a power of two."""
        loc, number = row.loc, row.integer(1)
        if number & (number - 1):
            row.fail(f"{number} is no power of two", None, loc)
        return number

    def row_attribute(self, row: TextRow) -> None:
        loc, name = row.loc, self.new(row, self.attributes)
        at, value = row.loc, self.value(row)
        if name not in ATTRIBUTES and not current().added:  # directives of plug-ins may have other attributes
            row.fail(f"a kernel has no attribute '{name}'", closest(name, ATTRIBUTES) or ", ".join(ATTRIBUTES), loc)
        if name in ATTRIBUTES and not ATTRIBUTES[name][0](value):
            row.fail(f"the attribute '{name}' is {ATTRIBUTES[name][1]}", None, at)
        self.attributes[name] = value

    def row_pin(self, row: TextRow) -> None:
        name = self.new(row, self.pins)
        loc, parts = row.loc, self.value(row)
        if not isinstance(parts, dict):
            row.fail("a pin has rows: {vector: [1, 8], lanes: [1, 32], warps: [4, 1]}", None, loc)
        self.pins[name] = Pin(parts, self.place(row))

    def row_instruction(self, row: TextRow) -> None:
        name = self.new(row, self.instructions)
        loc, words = row.loc, self.value(row)
        if not isinstance(words, tuple) or len(words) != 2 or not all(isinstance(each, str) for each in words):
            row.fail('an instruction has a shape and a modifier: ("m16n8k16", "")', None, loc)
        self.instructions[name] = Named(words, self.place(row))

    def row_swizzle(self, row: TextRow) -> None:
        name = self.new(row, self.swizzles)
        loc, bits = row.loc, self.value(row)
        if bits is not None and not integers(bits, 3):
            row.fail("a swizzle has three numbers, or is none: (3, 4, 4)", None, loc)
        self.swizzles[name] = SwizzlePin(bits, self.place(row))

    def row_line(self, row: TextRow) -> None:
        said = row.name(), row.name()
        self.lines[said] = self.place(row)

    def row_choose(self, row: TextRow) -> None:
        key = self.new(row, self.choices)
        option = row.string()
        row.need("by")
        forced = Forced(option, row.string(), None, not row.has("anywhere"), row.has("met"))
        forced.loc = self.place_or_none(row)
        self.choices[key] = forced

    def row_branches(self, row: TextRow) -> None:
        self.rows["branches"] = row.several("[", "]", row.name)

    def row_void(self, row: TextRow) -> None:
        self.void.append((row.name(), self.place(row)))

    def row_layout(self, row: TextRow) -> None:
        # The whole layout is checked here. Otherwise, a wrong layout would cause an error in a later pass, without a
        # location in the text.
        name = row.take("layout", "a layout's name")
        row.need("=")
        loc, shape = row.loc, self.shape(row)
        row.need(":")
        said = row.listed(lambda: (row.name(), self.value(row)))
        if any(not isinstance(bases, list) or any(not inside(each, shape) for each in bases) for _, bases in said):
            row.fail(f"bases are coordinates in {list(shape)}", None, loc)
        places = [(place, tuple(flat(basis, shape) for basis in bases)) for place, bases in said]
        if [place for place, _ in places] != ["register", "lane", "warp"]:
            row.fail("a layout says register, lane and warp", None, loc)
        # The row `kernel` states the number of warps, so it must come first.
        bits = self.rows["kernel"][2].bit_length() - 1 if "kernel" in self.rows else row.fail("'kernel' stands first")
        if (len(places[1][1]), len(places[2][1])) != (5, bits):
            row.fail(f"a layout has 5 bases of lanes, and here {bits} of warps", None, loc)
        if len(places[0][1]) > MAX_BASES:
            row.fail(f"a layout has at most {MAX_BASES} bases of registers", None, loc)
        try:
            self.layouts[name] = Layout(shape, tuple(places))
            self.layouts[name].invert()  # raises LayoutError if an element has no position in the layout
        except LayoutError as error:
            row.fail(str(error), None, loc)

    def row_tensor(self, row: TextRow) -> None:
        name, dtype = self.typed(row)
        dims = row.several("[", "]", lambda: row.integer(1) if row.kind == "number" else row.name())
        p = Parameter("tensor", name, dtype, None, dims, row.has("strided"), row.has("optional"))
        row.need("align")
        p.align = self.power(row)
        p.access = row.take("word", "an access") if row.has("access") else ""
        self.parameter(row, p, TensorType(len(dims), dtype))

    def row_scalar(self, row: TextRow) -> None:
        name, dtype = self.typed(row)
        self.parameter(row, Parameter("scalar", name, dtype, None), TileType((), dtype))

    def row_table(self, row: TextRow) -> None:
        name, dtype = self.typed(row)
        row.need("[")
        length = row.integer(1)
        row.need("]")
        self.parameter(row, Parameter("table", name, dtype, None, length=length), TableType(length, dtype))

    def parameter(self, row: TextRow, p: Parameter, type: Type) -> None:
        if row.has("as"):
            p.value = self.define(row, type)
        if row.has("strides"):
            p.strides = row.several("[", "]", lambda: self.define(row, TileType((), INDEX)))
        p.loc = self.place_or_none(row)
        self.parameters.append(p)

    def row_dim(self, row: TextRow) -> None:
        name = row.name()
        row.need("as")
        self.dims[name] = self.define(row, TileType((), INDEX))

    def row_workspace(self, row: TextRow) -> None:
        name, dtype = self.typed(row)
        row.need("each")
        each, zero = row.integer(1), row.has("zero")
        row.need("align")
        align = self.power(row)
        row.need("as")
        value = self.define(row, TensorType(1, dtype))
        self.workspaces.append(FunctionWorkspace(name, dtype, each, zero, value, align))

    def typed(self, row: TextRow) -> tuple[str, DType]:
        """Reads `NAME: TYPE`."""
        name = row.name()
        row.need(":")
        return name, self.dtype(row)

    def new(self, row: TextRow, known: dict[str, Any]) -> str:
        """Reads a name and the following `=`. Reports an error if an earlier row of this kind has defined the name."""
        loc, name = row.loc, row.name()
        if name in known:
            row.fail(f"a second row of '{name}'", None, loc)
        row.need("=")
        return name

    def define(self, row: TextRow, type: Type) -> Value:
        token = self.new_value(row)
        self.names[token] = Value(type, None, user_name(token))
        return self.names[token]

    def new_value(self, row: TextRow) -> str:
        loc, token = row.loc, row.take("value", "a value such as %x")
        if token in self.names:
            row.fail(f"{token} is there already", "a value is made once; another one called x is %x#2", loc)
        return token


def user_name(token: str) -> str | None:
    """Returns the user's name of a value, given its token in the text. `%x#2` is the second value with the name x. For
    a number, such as `%7`, the result is None, because the user gave no name."""
    name = token[1:]
    if name[0].isdigit():
        return None
    if not name.startswith('"'):
        return name.partition("#")[0]
    return str(json.loads(name[: name.rindex('"') + 1]))


ROWS = tuple(name.removeprefix("row_") for name in vars(FunctionHead) if name.startswith("row_"))
ONCE = ("kernel", "passes", "holds", "schedule", "grid", "branches")
