"""Converts IR text from the printer back to a kernel. The text may have been edited by hand. Each error has a location
in the text."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from dsl.lowering.building.verify import flaw
from dsl.lowering.ir.budget import MAX_OPERATIONS
from dsl.lowering.ir.function import Block, Function, Op, Value
from dsl.lowering.ir.location import Loc, Source, TileError, closest
from dsl.lowering.ir.nesting import MAX_REGIONS
from dsl.lowering.ir.plugins import current
from dsl.lowering.ir.types import TileType, Type
from dsl.lowering.ops import OPS
from dsl.lowering.ops.kinds import ATTRIBUTES
from dsl.lowering.text.head import FunctionHead, user_name
from dsl.lowering.text.level import FIRST, Level
from dsl.lowering.text.rows import TextRow


def read(text: str, name: str) -> Level:
    """Reads a kernel from IR text. Raises TileError `ir` with a location in `text`. `name` is the name of the text's
    file."""
    return _Reader(Source(name, text)).level()


class _Reader(FunctionHead):
    def __init__(self, source: Source):
        super().__init__(source)
        self.ops: list[tuple[Op, Loc]] = []  # all operations, with their locations in the text, for `check`

    def level(self) -> Level:
        lines = self.source.text.split("\n")
        # Sources are read first, although they come last in the text: locations in all other rows refer to them.
        quoted = next((i for i, line in enumerate(lines) if line.startswith("source ")), len(lines))
        self.read_sources(lines, quoted)
        rows = [TextRow(self.source, self.source.starts[i], line) for i, line in enumerate(lines[:quoted])]
        rows = [row for row in rows if row.kind != "end"]
        if not rows or rows[0].text.strip() != FIRST:
            where = rows[0].loc if rows else Loc(self.source, 0, 1)
            hint = "take one that 'dsl compile --after PASS' wrote, and edit it"
            raise TileError("ir", where, f"the first line of a text of the tile IR is '{FIRST}'", hint)
        for i, row in enumerate(rows[1:], 1):
            if row.has("body"):
                row.need("{")
                row.end()
                body = self.body(rows[i + 1 :], row)
                self.check()
                return self.made(body, row)
            self.head(row)
        rows[-1].fail("the text has no body", "a line 'body {' starts it, a line '}' ends it")

    def made(self, body: Block, row: TextRow) -> Level:
        for name in ("kernel", "passes", "grid"):
            if name not in self.rows:
                row.fail(f"the head has no row '{name}'")
        if 0 not in self.sources:
            row.fail("the text has no source 0, the file of the kernel")
        (name, target, warps, bits, loc), rows = self.rows["kernel"], self.rows
        # The arguments have the same order as in `Function.body`: pointers, scalars and tables, then strides, dims and
        # workspaces.
        body.args = [
            *(p.value for p in self.parameters if p.value is not None),
            *(stride for p in self.parameters for stride in p.strides),
            *self.dims.values(),
            *(workspace.value for workspace in self.workspaces),
        ]
        function = Function(name, self.parameters, self.dims, body, warps, bits, self.divisors)
        function.attrs = self.attributes
        function.choices.forced = self.choices
        function.pins, function.instructions, function.swizzles = self.pins, self.instructions, self.swizzles
        function.lines, function.void, function.loc = self.lines, self.void, loc
        function.in_branches = frozenset(rows.get("branches", ()))
        function.grid, function.constants, function.workspaces = rows["grid"], self.constants, self.workspaces
        equal = [each.expr for each in self.requires if each.expr[0] == "=="]
        function.extents = {dim: value for _, dim, value in equal if isinstance(dim, str) and isinstance(value, int)}
        function.holds = set(rows.get("holds", ()))
        schedule, passes = rows.get("schedule"), rows["passes"]
        return Level(function, target, self.sources[0], schedule, self.constants, self.requires, passes)

    # ---- the body ----

    def use(self, row: TextRow) -> Value:
        if row.kind == "value" and row.token not in self.names:
            row.fail(f"{row.token} is not known here", closest(row.token, self.names))
        return self.names[row.take("value", "a value such as %x")]

    def body(self, rows: list[TextRow], opening: TextRow) -> Block:
        """Reads the operations up to the end of the body, and returns their block."""
        block = Block()
        open: list[_Open] = []  # the enclosing operations, whose regions have not ended
        for i, row in enumerate(rows):
            if not row.has("}"):
                if len(self.ops) == MAX_OPERATIONS:  # the same limit as for a kernel that is built from a `.tile` file
                    row.fail(f"the body has more than {MAX_OPERATIONS} operations")
                op, results = self.op(row)
                block.ops.append(op)
                if row.has("{"):
                    if len(open) == MAX_REGIONS:
                        row.fail("regions are nested too deeply")
                    open.append(_Open(op, results, row, self.names, block))
                    block = self.region(row, open[-1])
                else:
                    self.name_results(results)
            elif not open:
                row.end()
                if i + 1 < len(rows):
                    rows[i + 1].fail("the body has ended: only sources follow it")
                return block
            elif row.has("{"):
                block = self.region(row, open[-1])
            else:
                ended = open.pop()
                block, self.names = ended.block, ended.names
                self.name_results(ended.results)
            row.end()
        (open[-1].row if open else opening).fail("this has no end", "a line '}' ends it")

    def region(self, row: TextRow, of: _Open) -> Block:
        """Begins the next region of an operation. In the text, the region's arguments follow the opening brace."""
        self.names = dict(of.names)  # a copy, because values of a region are not known behind the region
        region = Block(row.several("(", ")", lambda: self.argument(row)) if row.token == "(" else ())
        of.op.regions.append(region)
        return region

    def argument(self, row: TextRow) -> Value:
        token = self.new_value(row)
        row.need(":")
        self.names[token] = Value(self.type(row), None, user_name(token))
        return self.names[token]

    def op(self, row: TextRow) -> tuple[Op, list[tuple[str, Value]]]:
        """Reads an operation without its regions. Also returns its results, each with its name in the text."""
        results = row.listed(lambda: self.new_value(row)) if row.kind == "value" else []
        if results:
            row.need("=")
        loc, name = row.loc, row.take("word", "an operation")
        if name not in OPS:
            row.fail(f"there is no operation '{name}'", closest(name, OPS), loc)
        operands = row.several("(", ")", lambda: self.use(row))
        attrs: dict[str, Any] = {}
        while row.kind in ("word", "string"):
            attribute = self.new(row, attrs)
            attrs[attribute] = self.value(row)
        types: list[Type] = []
        if results:
            row.need(":")
            types = row.listed(lambda: self.type(row))
            if len(types) != len(results):  # checked here, because building the operation uses the number of types
                row.fail(f"{len(results)} results and {len(types)} types", None, loc)
        op = Op(OPS[name], operands, types, attrs, (), self.place_or_none(row))
        for token, result in zip(results, op.results, strict=True):
            result.name = user_name(token)
        self.ops.append((op, loc))
        return op, list(zip(results, op.results, strict=True))

    def name_results(self, results: list[tuple[str, Value]]) -> None:
        self.names.update(results)

    def check(self) -> None:
        """Raises TileError `ir` at the line of an operation that is malformed, for example because of a wrong
        attribute."""
        laid_out = any(isinstance(r.type, TileType) and r.type.layout for op, _ in self.ops for r in op.results)
        for op, loc in self.ops:
            if (flaws := flaw(op, laid_out)) is not None:
                raise TileError("ir", loc, f"{op.name}: {flaws}")
            unknown = [name for name in op.attrs if name not in ATTRIBUTES]
            if unknown and not current().added:  # plug-ins may add attributes
                found = f"no operation has an attribute '{unknown[0]}'"
                raise TileError("ir", loc, f"{op.name}: {found}", closest(unknown[0], ATTRIBUTES))


class _Open(Struct):
    """An operation whose region is being read. `names` are the values that were defined before the operation. `block`
    is the block that contains the operation."""

    op: Op
    results: list[tuple[str, Value]]
    row: TextRow
    names: dict[str, Value]
    block: Block
