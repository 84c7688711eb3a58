"""Reads values in an IR text: locations, numbers, types, layouts."""

from __future__ import annotations

import math
import struct
from typing import Any

from msgspec.structs import replace

from dsl.lowering.ir.location import Loc, Source, closest
from dsl.lowering.ir.nesting import MAX_REGIONS
from dsl.lowering.ir.types import DType, SharedType, TableType, TensorType, TileType, Type, ViewType
from dsl.lowering.layouts.layout import Layout
from dsl.lowering.machine.tensor_cores import NEAR, OPERANDS, Mma, instructions
from dsl.lowering.text.rows import TextRow

WORDS = {"none": None, "true": True, "false": False, "inf": float("inf"), "nan": float("nan")}
MAX_EXTENT = 1 << 31
MOST_DIGITS = 40  # the maximum number of digits of an integer


class Values:
    """Reads values. `sources` maps the number of a source in locations to the file. `layouts` maps names such as `#0`
    to layouts."""

    def __init__(self, source: Source):
        self.source = source
        self.sources: dict[int, Source] = {}
        self.layouts: dict[str, Layout] = {}

    # ---- files of locations ----

    def read_sources(self, lines: list[str], first: int) -> None:
        texts: list[str] = []
        name, number = "", -1
        for i in range(first, len(lines)):
            line = lines[i].removesuffix("\r")
            row = TextRow(self.source, self.source.starts[i], line if not line.startswith("|") else "")
            if line.startswith("| "):
                texts.append(line[2:])
            elif line.startswith("|"):
                row = TextRow(self.source, self.source.starts[i] + 1, line[1:])
                texts.append(row.string())
            elif row.has("source"):
                if number >= 0:
                    self.sources[number] = Source(name, "\n".join(texts))
                number, texts = row.integer(), []
                name = row.string()
            row.end()
        if number >= 0:
            self.sources[number] = Source(name, "\n".join(texts))

    def place(self, row: TextRow) -> Loc:
        loc = self.place_or_none(row)
        if loc is None:
            row.wanted("a place such as @12:5+18")
        return loc

    def place_or_none(self, row: TextRow) -> Loc | None:
        if row.kind != "place":
            return None
        loc: Loc | None = None
        if row.token.count("<") >= MAX_REGIONS:
            row.fail(f"a place has at most {MAX_REGIONS} places around it")
        # the outermost call comes first, because each location refers to its caller
        for part in reversed(row.token[1:].split("<")):
            place, length = part.split("+")
            *of, line, column = map(int, place.split(":"))
            source = self.sources.get(of[0] if of else 0)
            if source is None:
                row.fail(f"there is no source {of[0] if of else 0}")
            if not 1 <= line <= len(source.starts):
                row.fail(f"{source.name} has no line {line}")
            # The location is clamped to the file, because it may have been edited by hand.
            start = min(source.starts[line - 1] + column - 1, len(source.text))
            loc = Loc(source, start, min(start + int(length), len(source.text)), loc)
        row.next()
        return loc

    # ---- values of all kinds ----

    def value(self, row: TextRow) -> Any:
        row.depth += 1
        if row.depth > MAX_REGIONS:  # report an error with a location before Python's recursion limit is reached
            row.fail("values are nested too deeply")
        try:
            return self.one(row)
        finally:
            row.depth -= 1

    def one(self, row: TextRow) -> Any:
        token = row.token
        match row.kind, token:
            case "string", _:
                return row.string()
            case "number", _:
                return self.number(row)
            case "place", _:
                return self.place(row)
            case "layout", _:
                return self.layout(row)
            case "mark", "[":
                return row.several("[", "]", lambda: self.value(row))
            case "mark", "(":
                return tuple(row.several("(", ")", lambda: self.value(row)))
            case "mark", "{":
                return dict(row.several("{", "}", lambda: self.pair(row)))
            case "word", ("none" | "true" | "false" | "inf" | "nan"):
                row.next()
                return WORDS[token]
            case "word", "bits":
                row.next()
                return row.bracketed(lambda: self.bits(row))
            case "word", "mma":
                row.next()
                return row.bracketed(lambda: self.mma(row))
            case "word", "tile":
                row.next()
                return row.bracketed(lambda: self.type(row))
            case "word", ("shared" | "tensor" | "table" | "view"):
                return self.type(row)
            case "word", _:
                return self.dtype(row)
        row.wanted("a value")

    def pair(self, row: TextRow) -> tuple[str, Any]:
        name = row.name()
        row.need(":")
        return name, self.value(row)

    def number(self, row: TextRow) -> int | float:
        loc, token = row.loc, row.take("number", "a number")
        if token.removeprefix("-").isdigit():
            return int(token) if len(token) < MOST_DIGITS else row.fail("a number of too many digits", None, loc)
        number = float(token)
        if math.isinf(number) and "inf" not in token:  # 1e999 is an error instead of silently becoming infinity
            row.fail(f"no float is as large as {token:.40}", "inf", loc)
        return number

    def tree(self, row: TextRow) -> Any:
        """Reads an expression that the launch evaluates: a number, a name, or an operation with its operands."""
        loc, value = row.loc, self.value(row)
        if not is_tree(value):
            row.fail('an expression is a finite number, a name, or ["+", "n", 1]', None, loc)
        return value

    def bits(self, row: TextRow) -> float:
        if len(row.token) != 18:
            row.wanted("0x and 16 digits, the bits of an f64,")
        (number,) = struct.unpack(">d", bytes.fromhex(row.take("bits", "hexadecimal digits")[2:]))
        return float(number)

    def mma(self, row: TextRow) -> Mma:
        loc, name = row.loc, row.string()
        found = next((i for i in instructions() if i.name == name), None)
        if found is None:
            row.fail(f"there is no instruction '{name}'", closest(name, [i.name for i in instructions()]), loc)
        if not row.has(","):
            return found
        loc, near = row.loc, row.string()
        if not found.takes_bytes or near not in NEAR:
            row.fail(f"'{name}' takes no bytes that are neighbours along '{near}'", ", ".join(NEAR), loc)
        return replace(found, near=near)

    def dtype(self, row: TextRow) -> DType:
        if row.kind != "word" or row.token not in OPERANDS:
            row.fail(f"'{row.token}' is no element type", closest(row.token, OPERANDS))
        return OPERANDS[row.take("word", "an element type")]

    def layout(self, row: TextRow) -> Layout:
        if row.token not in self.layouts:
            row.fail(f"there is no layout {row.token}", "the head has a row 'layout #0 = …' for each")
        return self.layouts[row.take("layout", "a layout")]

    def shape(self, row: TextRow) -> tuple[int, ...]:
        return tuple(row.several("[", "]", lambda: self.extent(row)))

    def extent(self, row: TextRow) -> int:
        loc, extent = row.loc, row.integer(1)
        if extent > MAX_EXTENT:
            row.fail(f"an extent is at most {MAX_EXTENT}", None, loc)
        return extent

    def type(self, row: TextRow) -> Type:
        if row.has("shared"):
            row.need("(")
            made = SharedType(dtype=self.dtype(row), shape=self.shape(row))
            while row.has(","):
                if row.has("ring"):
                    made = replace(made, ring=True)
                elif row.has("fixed"):
                    made = replace(made, fixed=True)
                else:
                    row.need("swizzle")
                    made = replace(made, swizzle=self.swizzle(row))
            row.need(")")
            return made
        if row.has("view"):
            return row.bracketed(lambda: ViewType(dtype=self.dtype(row), shape=self.shape(row)))
        if row.has("tensor"):
            dtype, rank = self.counted(row, "rank")
            return TensorType(rank, dtype)
        if row.has("table"):
            dtype, length = self.counted(row, "length")
            return TableType(length, dtype)
        dtype = self.dtype(row)
        shape = self.shape(row) if row.token == "[" else ()
        if row.kind != "layout":
            return TileType(shape, dtype)
        loc, layout = row.loc, self.layout(row)
        if layout.shape != shape:
            row.fail(f"the layout is of a tile of {list(layout.shape)}, not of {list(shape)}", None, loc)
        return TileType(shape, dtype, layout)

    def counted(self, row: TextRow, what: str) -> tuple[DType, int]:
        """Reads `(TYPE, WHAT COUNT)`, for example `(f16, rank 2)`, and returns the type and the count."""
        row.need("(")
        dtype = self.dtype(row)
        row.need(",")
        row.need(what)
        count = row.integer(1)
        row.need(")")
        return dtype, count

    def swizzle(self, row: TextRow) -> tuple[tuple[int, int], ...]:
        loc, pairs = row.loc, self.value(row)
        if not isinstance(pairs, tuple) or any(not integers(pair, 2) for pair in pairs):
            row.fail("a swizzle has pairs of a bit and a mask: ((7, 16), (8, 32))", None, loc)
        return pairs


def is_tree(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and isinstance(value[0], str) and all(map(is_tree, value[1:]))
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, str) or (isinstance(value, int) and -(1 << 63) <= value < 1 << 63)


def integers(value: Any, count: int) -> bool:
    """Returns whether a value is a tuple of `count` whole numbers that are at least 0."""
    return (
        isinstance(value, tuple)
        and len(value) == count
        and all(type(each) is int and 0 <= each < 1 << 31 for each in value)
    )


def inside(basis: Any, shape: tuple[int, ...]) -> bool:
    return (
        isinstance(basis, list)
        and len(basis) == len(shape)
        and all(type(c) is int and 0 <= c < e for c, e in zip(basis, shape, strict=True))
    )


def flat(basis: list[int], shape: tuple[int, ...]) -> int:
    """Returns the row-major index of a coordinate."""
    index = 0
    for coordinate, extent in zip(basis, shape, strict=True):
        index = index * extent + coordinate
    return index
