"""Prints a kernel after any pass as IR text, with one line for each operation."""

from __future__ import annotations

import json
import re
import struct
from typing import Any

from dsl.lowering.ir.function import Block, FunctionWorkspace, Parameter, Value, walk
from dsl.lowering.ir.location import Loc, Source
from dsl.lowering.ir.nesting import deep_recursion
from dsl.lowering.ir.types import DType, SharedType, TableType, TensorType, TileType, Type, ViewType
from dsl.lowering.layouts.layout import Layout
from dsl.lowering.machine.tensor_cores import Mma
from dsl.lowering.text.level import FIRST, Level

WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
INDENT = "  "
COMMON_NAN = struct.pack(">d", float("nan"))


class PrintedNames:
    """The names of values, layouts and sources. One instance can be used for several texts of a kernel, after different
    passes. Then values, layouts and sources that occur in several texts have the same name in each text. A value that
    replaces another value takes over its name."""

    def __init__(self) -> None:
        self.sources: dict[Source, int] = {}
        self.layouts: dict[Layout, str] = {}
        self.values: dict[Value, str] = {}
        self.same: dict[str, int] = {}  # maps a name to the number of values that have had it
        self.unnamed = 0
        self.present: set[Value] = set()  # the values of the printed level, which keep their names

    def of(self, value: Value) -> str:
        """Returns the name of a value. The first value called x is `%x`, and the second is `%x#2`. A value that the
        user has not named gets a number: `%7`."""
        known = self.values.get(value)
        if known is None:
            known = self.values[value] = self.inherited(value) or self.new(value)
        return known

    def inherited(self, value: Value) -> str | None:
        origin = value.origin
        while origin is not None and origin not in self.values:
            origin = origin.origin
        if origin is None or origin in self.present or origin.name != value.name:
            return None  # the original value still exists and keeps its name, or the two user names differ
        return self.values.pop(origin)

    def new(self, value: Value) -> str:
        if value.name is None:
            self.unnamed += 1
            return f"%{self.unnamed - 1}"
        known = f"%{word(value.name)}"
        count = self.same[known] = self.same.get(known, 0) + 1
        return known + (f"#{count}" if count > 1 else "")


def printed(level: Level, names: PrintedNames | None = None) -> str:
    """Prints a kernel as text. `read` converts the text back to an equal kernel."""
    return _Printer(level, names or PrintedNames()).text()


def quoted(text: str) -> str:
    # Letters stay readable. Text with control characters is escaped, so that a row of the text stays on one line.
    return json.dumps(text, ensure_ascii=False) if text.isprintable() else json.dumps(text)


def word(name: str) -> str:
    """Returns a name as text, in quotes unless it is a word."""
    return name if WORD.fullmatch(name) else quoted(name)


class _Printer:
    def __init__(self, level: Level, names: PrintedNames):
        self.level = level
        self.sources, self.layouts, self.name = names.sources, names.layouts, names.of
        self.sources.setdefault(level.source, 0)
        body = level.function.body
        ops = walk(body)
        blocks = [body, *(region for op in ops for region in op.regions)]
        names.present = {r for op in ops for r in op.results} | {a for block in blocks for a in block.args}

    def text(self) -> str:
        with deep_recursion():
            head = [*self.kernel(), *map(self.parameter, self.level.function.params)]
            head += [f"dim {word(name)} as {self.name(value)}" for name, value in self.level.function.dims.items()]
            head += map(self.workspace, self.level.function.workspaces)
            body: list[str] = []
            self.block(self.level.function.body, INDENT, body)
        # The head is printed after the body, because printing the body adds layouts to the table. In the text, the
        # layouts come first.
        layouts = [f"layout {name} = {list(layout.shape)}: {layout}" for layout, name in self.layouts.items()]
        return "\n".join([FIRST, *head, *layouts, "body {", *body, "}", *self.quoted_sources()]) + "\n"

    # ---- values of all kinds ----

    def value(self, value: Any) -> str:
        match value:
            case None:
                return "none"
            case bool():  # before int, because a bool is an int in Python
                return "true" if value else "false"
            case int():
                return str(value)
            case float():
                return self.number(value)
            case str():
                return quoted(value)
            case list():
                return f"[{', '.join(map(self.value, value))}]"
            case tuple() if not isinstance(value, Loc):
                return f"({', '.join(map(self.value, value))}{',' if len(value) == 1 else ''})"
            case dict():
                return "{" + ", ".join(f"{word(key)}: {self.value(each)}" for key, each in value.items()) + "}"
            case Loc():
                return self.place(value)
            case DType():
                return value.name
            case TileType():
                return f"tile({self.type(value)})"
            case TensorType() | SharedType() | TableType() | ViewType():
                return self.type(value)
            case Layout():
                return self.layout(value)
            case Mma():
                return f"mma({', '.join(map(quoted, filter(None, (value.name, value.near))))})"
        raise TypeError(f"the IR's text has no form for {type(value).__name__}")

    def number(self, value: float) -> str:
        """Prints a float. The text contains a point, an exponent or a word, so that the reader does not mistake it for
        an integer. A NaN other than the default NaN is printed with all its bits."""
        raw = struct.pack(">d", value)
        return repr(value) if value == value or raw == COMMON_NAN else f"bits(0x{raw.hex()})"

    def type(self, type: Type) -> str:
        match type:
            case TileType():
                shape = str(list(type.shape)) if type.shape else ""
                return f"{type.dtype}{shape}" + (f" {self.layout(type.layout)}" if type.layout else "")
            case SharedType():
                marks = [f"shared({type.dtype}{list(type.shape)}"] + ["ring"] * type.ring
                marks += [f"swizzle {self.value(type.swizzle)}"] if type.swizzle else []
                marks += ["fixed"] * type.fixed
                return ", ".join(marks) + ")"
            case ViewType():
                return f"view({type.dtype}{list(type.shape)})"
            case TensorType():
                return f"tensor({type.dtype}, rank {type.rank})"
            case TableType():
                return f"table({type.dtype}, length {type.length})"

    def layout(self, layout: Layout) -> str:
        return self.layouts.setdefault(layout, f"#{len(self.layouts)}")

    def place(self, loc: Loc) -> str:
        """Prints a location as LINE:COLUMN+LENGTH. If it is not in the kernel's file, the number of the source precedes
        it. The locations of inlined calls follow."""
        parts = []
        for each in (loc, *loc.callers):
            source = self.sources.setdefault(each.source, len(self.sources))
            mark = f"{source}:" if source else ""
            parts.append(f"{mark}{each.line}:{each.column}+{each.end - each.start}")
        return "@" + "<".join(parts)

    def placed(self, row: str, loc: Loc | None) -> str:
        return row if loc is None else f"{row} {self.place(loc)}"

    # ---- rows ----

    def kernel(self) -> list[str]:
        level, f = self.level, self.level.function
        head = f"kernel {word(f.name)} arch {level.target.arch} warps {f.warps} index {f.index_bits}"
        rows = [self.placed(head, f.loc), f"passes [{', '.join(level.passes)}]"]
        # The sets here and in `branches` are sorted, because their order differs between processes, and texts must be
        # comparable.
        rows += [f"holds [{', '.join(map(quoted, sorted(f.holds)))}]"] if f.holds else []
        rows += [f"schedule {quoted(level.schedule)}"] if level.schedule is not None else []
        rows += [f"constant {word(name)} = {self.value(value)}" for name, value in level.constants.items()]
        rows.append(f"grid {self.value(f.grid)}")
        for c in level.requires:
            hint = "" if c.hint is None else f" hint {quoted(c.hint)}"
            file = "" if c.file is None else f" of {quoted(c.file)}"
            rows.append(f"requires {self.value(c.expr)} text {quoted(c.text)} line {c.line}{file}{hint}")
        rows += [f"divisor {word(name)} = {divisor}" for name, divisor in f.divisors.items()]
        rows += [f"attribute {word(name)} = {self.value(value)}" for name, value in f.attrs.items()]
        rows += [f"pin {word(name)} = {self.value(pin.parts)} {self.place(pin.loc)}" for name, pin in f.pins.items()]
        for name, named in f.instructions.items():
            rows.append(f"instruction {word(name)} = {self.value(named.name)} {self.place(named.loc)}")
        for name, swizzle in f.swizzles.items():
            rows.append(f"swizzle {word(name)} = {self.value(swizzle.bits)} {self.place(swizzle.loc)}")
        rows += [f"line {word(row)} {word(name)} {self.place(loc)}" for (row, name), loc in f.lines.items()]
        for key, forced in f.choices.forced.items():
            marks = " anywhere" * (not forced.must) + " met" * forced.met
            row = f"choose {word(key)} = {quoted(forced.option)} by {quoted(forced.by)}{marks}"
            rows.append(self.placed(row, forced.loc))
        rows += [f"branches [{', '.join(map(word, sorted(f.in_branches)))}]"] if f.in_branches else []
        rows += [f"void {word(name)} {self.place(loc)}" for name, loc in f.void]
        return rows

    def parameter(self, p: Parameter) -> str:
        row = f"{p.kind} {word(p.name)}: {p.dtype}"
        if p.kind == "tensor":
            row += f"[{', '.join(str(d) if isinstance(d, int) else word(d) for d in p.dims)}]"
            row += " strided" * p.strided + " optional" * p.optional + f" align {p.align}"
            row += f" access {p.access}" if p.access else ""
        elif p.kind == "table":
            row += f"[{p.length}]"
        if p.value is not None:
            row += f" as {self.name(p.value)}"
        if p.strides:
            row += f" strides [{', '.join(map(self.name, p.strides))}]"
        return self.placed(row, p.loc)

    def workspace(self, w: FunctionWorkspace) -> str:
        zero = " zero" * w.zero
        return f"workspace {word(w.name)}: {w.dtype} each {w.each}{zero} align {w.align} as {self.name(w.value)}"

    def block(self, block: Block, indent: str, out: list[str]) -> None:
        for op in block.ops:
            row = f"{op.name}({', '.join(map(self.name, op.operands))})"
            row += "".join(f" {word(name)}={self.value(value)}" for name, value in op.attrs.items())
            if op.results:
                row = f"{', '.join(map(self.name, op.results))} = {row} : "
                row += ", ".join(self.type(result.type) for result in op.results)
            row = indent + self.placed(row, op.loc)
            for region in op.regions:
                arguments = ", ".join(f"{self.name(a)}: {self.type(a.type)}" for a in region.args)
                out.append(f"{row} {{" + (f" ({arguments})" if arguments else ""))
                self.block(region, indent + INDENT, out)
                row = indent + "}"
            out.append(row)

    def quoted_sources(self) -> list[str]:
        """Prints the texts of all files to which locations refer. After the IR is read back, error messages can quote
        these files."""
        out = []
        for source, number in self.sources.items():
            out.append(f"source {number} {quoted(source.name)}")
            out += [f"| {row}" if row.isprintable() else f"|{quoted(row)}" for row in source.text.split("\n")]
        return out
