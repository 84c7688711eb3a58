"""MLIR's generic form of a function, which its own tools read."""

from __future__ import annotations

import struct
from typing import Any

from dsl.lowering.ir.function import Block, Function, Op, Value
from dsl.lowering.ir.location import printable
from dsl.lowering.ir.nesting import deep_recursion
from dsl.lowering.ir.types import DType, SharedType, TableType, TensorType, TileType, Type
from dsl.lowering.layouts.layout import Layout


def _quoted(text: str) -> str:
    """A string literal: what is not printable ASCII becomes its UTF-8 bytes in hexadecimal."""
    safe = (chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in text.encode())
    return '"' + "".join(safe) + '"'


class Printer:
    """Collects the lines of a function; layouts get names, which stand before it."""

    def __init__(self, annotate: bool = False):
        self.annotate = annotate
        self.names: dict[Value, str] = {}
        self.taken: set[str] = set()
        self.count = 0
        self.layouts: dict[str, str] = {}  # text → alias
        self.lines: list[str] = []

    def attribute(self, value: Any) -> str:
        """None (what an operation may have and does not) is `unit`."""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int):
            return f"{value} : i64"
        if isinstance(value, float):
            return f"0x{struct.pack('>d', value).hex().upper()} : f64"
        if isinstance(value, list | tuple):
            return "[" + ", ".join(self.attribute(v) for v in value) + "]"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{k} = {self.attribute(v)}" for k, v in sorted(value.items())) + "}"
        if isinstance(value, DType):
            return value.mlir
        if isinstance(value, TileType | TensorType | SharedType | TableType):
            return self.type(value)
        if isinstance(value, Layout):
            return self.layouts.setdefault(value.mlir, f"#layout{len(self.layouts)}")
        if value is None:
            return "unit"
        return _quoted(str(value))

    def type(self, type: Type) -> str:
        if isinstance(type, TileType) and type.shape and type.layout:
            return f"{type.mlir[:-1]}, {self.attribute(type.layout)}>"
        return type.mlir

    def name(self, value: Value) -> str:
        """`%` and the user's name for it, numbered where another value has it; a number if it has none."""
        known = self.names.get(value)
        if known is None:
            stem = "".join(c if c.isascii() and (c.isalnum() or c in "_.") else "_" for c in value.name or "")
            stem = f"_{stem}" if stem[:1].isdigit() else stem
            known = stem or str(self.count)
            while known in self.taken:
                known = f"{stem}_{self.count}"
                self.count += 1
            self.count += not stem
            self.taken.add(known)
            self.names[value] = known
        return "%" + known

    def op(self, op: Op, indent: str) -> None:
        head = ", ".join(self.name(r) for r in op.results)
        head = f"{head} = " if head else ""
        operands = ", ".join(self.name(v) for v in op.operands)
        attrs = ", ".join(f"{k} = {self.attribute(v)}" for k, v in sorted(op.attrs.items()))
        signature = "(" + ", ".join(self.type(v.type) for v in op.operands) + ") -> "
        results = [self.type(r.type) for r in op.results]
        signature += results[0] if len(results) == 1 else "(" + ", ".join(results) + ")"
        line = f'{indent}{head}"tile.{op.name}"({operands})'
        tail = (f" {{{attrs}}}" if attrs else "") + f" : {signature}"
        if self.annotate and op.loc is not None:
            tail += f"  // {printable(op.loc.source.name)}:{op.loc.line}".replace("\n", " ")
        if not op.regions:
            self.lines.append(line + tail)
            return
        self.lines.append(line + " ({")
        for i, region in enumerate(op.regions):
            if i:
                self.lines.append(f"{indent}}}, {{")
            self.block(region, indent + "  ")
        self.lines.append(f"{indent}}}){tail}")

    def block(self, block: Block, indent: str) -> None:
        if block.args:
            args = ", ".join(f"{self.name(a)}: {self.type(a.type)}" for a in block.args)
            self.lines.append(f"{indent[:-2]}^bb0({args}):")
        for op in block.ops:
            self.op(op, indent)


@deep_recursion()
def to_mlir(function: Function, annotate: bool = False) -> str:
    """MLIR's generic form of a function; with `annotate`, each op's `.tile` line as a comment."""
    printer = Printer(annotate)
    attrs = {"name": function.name, "warps": function.warps, "index_bits": function.index_bits} | function.attrs
    printer.lines.append('"builtin.module"() ({')
    printer.lines.append('  "tile.kernel"() ({')
    printer.block(function.body, "    ")
    rows = ", ".join(f"{k} = {printer.attribute(v)}" for k, v in sorted(attrs.items()))
    printer.lines.append(f"  }}) {{{rows}}} : () -> ()")
    printer.lines.append("}) : () -> ()")
    aliases = [f"{alias} = {layout}" for layout, alias in printer.layouts.items()]
    return "\n".join([*aliases, *printer.lines]) + "\n"
