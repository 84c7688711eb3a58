"""The IR's text is MLIR: an independent reader parses it, verifies it and finds in it what we wrote."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sample_variants import Case, cases
from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    Builtin,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
    i1,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir import Block as ReadBlock
from xdsl.parser import Parser

from dsl.lowering.building.builder import Builder
from dsl.lowering.ir.function import Block, Function, Op, Value, walk
from dsl.lowering.ir.location import Loc, Source
from dsl.lowering.ir.types import DTYPES, F32, I1, INDEX, DType, SharedType, TableType, TensorType, TileType
from dsl.lowering.layouts.layout import Layout
from dsl.lowering.passes import PASSES, run_passes
from dsl.lowering.text.mlir import to_mlir
from tests.whole import some

GOLDEN = Path(__file__).with_name("golden")
CASES = cases()
GOLDENS = (("lanes", 1000), ("whole", 20000), ("stream", 70000))


def read(text: str) -> ModuleOp:
    context = Context(allow_unregistered=True)
    context.load_dialect(Builtin)
    module = Parser(context, text).parse_module()
    module.verify()
    return module


def plain(attribute: Attribute | None) -> Any:
    """An attribute as Python has it; types by their text."""
    match attribute:
        case IntegerAttr():
            value = attribute.value.data
            return bool(value) if attribute.type == i1 else value
        case FloatAttr():
            return struct.pack(">d", attribute.value.data)
        case StringAttr():
            return attribute.data
        case ArrayAttr():
            return [plain(each) for each in attribute]
        case DictionaryAttr():
            return {key: plain(each) for key, each in attribute.data.items()}
        case UnitAttr():
            return None
    return type(attribute)


def expected(value: Any) -> Any:
    """What `plain` must find of an attribute of ours; None for types, which the reader checks where they are used."""
    if isinstance(value, float):
        return struct.pack(">d", value)
    if isinstance(value, list | tuple):
        return [expected(each) for each in value]
    if isinstance(value, dict):
        return {key: expected(each) for key, each in value.items()}
    if isinstance(value, Layout):
        return {row: list(value.bases[row]) for row in ("register", "lane", "warp")}
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return (value + (1 << 63)) % (1 << 64) - (1 << 63)  # 64 bits without a sign
    return str(value)


class Comparison:
    """One walk through what the reader made of a function's text, beside the function: the same operations with the
    same operands, results and attributes, blocks with the same arguments."""

    def __init__(self) -> None:
        self.values: dict[Value, SSAValue] = {}

    def define(self, ours: Sequence[Value], read: Sequence[SSAValue]) -> None:
        assert len(ours) == len(read)
        self.values.update(zip(ours, read, strict=True))

    def block(self, ours: Block, read: ReadBlock) -> None:
        self.define(ours.args, read.args)
        for op, found in zip(ours.ops, read.ops, strict=True):
            self.op(op, found)

    def op(self, ours: Op, read: Operation) -> None:
        attributes = dict(read.attributes)
        assert attributes.pop("op_name__").data == f"tile.{ours.name}"
        assert [self.values[v] for v in ours.operands] == list(read.operands)
        assert attributes.keys() == ours.attrs.keys()
        for name, value in ours.attrs.items():
            if not is_type(value):
                assert plain(attributes[name]) == expected(value), name
        self.define(ours.results, read.results)
        for block, region in zip(ours.regions, read.regions, strict=True):
            if block.ops or block.args:
                self.block(block, region.block)


def is_type(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(is_type(each) for each in value)
    if isinstance(value, dict):
        return any(is_type(each) for each in value.values())
    return isinstance(value, DType | TileType | TensorType | SharedType | TableType)


def round_trip(function: Function, annotate: bool = False) -> ModuleOp:
    """An independent reader finds in the text what the function is."""
    module = read(to_mlir(function, annotate))
    (kernel,) = module.ops
    assert kernel.attributes["op_name__"].data == "tile.kernel"
    Comparison().block(function.body, kernel.regions[0].block)
    return module


FIRST = list({(case.kernel, case.schedule): case for case in reversed(CASES)}.values())[::-1]
SMALL = 150  # operations; the independent reader takes seconds for a thousand


@pytest.mark.parametrize("case", some(FIRST, 3), ids=str)
def test_kernels_of_the_samples_before_and_after_each_pass(case: Case) -> None:
    """After each pass that changes it where the kernel is small, and after all of them."""
    variant = case.build()
    round_trip(variant.function, annotate=True)
    read_last = ""
    for row in PASSES:
        run_passes(variant.function, variant.target, (row,))
        if len(walk(variant.function.body)) < SMALL and (text := to_mlir(variant.function)) != read_last:
            round_trip(variant.function)
            read_last = text
    if len(walk(variant.function.body)) < 10 * SMALL and to_mlir(variant.function) != read_last:
        round_trip(variant.function)


def test_every_kind_of_attribute_and_type() -> None:
    ir = Builder(Loc(Source('a "name"\nof two lines.tile', "x"), 0, 1))
    layout = Layout.blocked((4, 8), (1, 2), (4, 8), (1, 1))
    args = [
        Value(TensorType(2, DTYPES["bf16"]), name="x"),
        Value(TensorType(0, F32), name="x"),
        Value(TableType(9, DTYPES["s32"]), name="délta"),
        Value(SharedType((4, 2), DTYPES["u8"], ring=True), name="3"),
        Value(TileType((4, 8), DTYPES["f16"], layout), name="v"),
    ]
    ir.block.args = args
    for number in (0.1, -0.0, float("inf"), float("-inf"), float("nan"), 1e300):
        ir.op("constant", value=number, dtype=DTYPES["f64"])
    ir.op("constant", value=2**64 - 1, dtype=DTYPES["u64"])
    ir.op("constant", value=-(2**63), dtype=DTYPES["s64"])
    ir.op("constant", value=True, dtype=I1)
    ir.op("convert_layout", [args[4]], layout=layout)
    ir.op("asm", text='mov.b32 $0, "\\\n\t";', types=[F32, INDEX])
    ir.op("shared_alloc", type=args[3].type, name="s", more=[[1, [2.5, None]], {"a": F32, "b": ()}])
    function = Function("k", [], {}, ir.block, 4, attrs={"unroll": {"i": 4}, "maxnreg": None})
    printed = str(round_trip(function))
    assert str(read(printed)) == printed
    assert str(round_trip(function, annotate=True)) == printed


@pytest.mark.parametrize(
    "case",
    [
        c
        for c in CASES
        if c.file == "softmax.tile" and c.types == (("T", "f16"),) and (c.schedule, c.dims[-1][1]) in GOLDENS
    ],
    ids=str,
)
def test_golden(case: Case, update_golden: bool) -> None:
    """Three schedules after all passes, to be read; `--update-golden` writes them anew."""
    variant = case.build()
    run_passes(variant.function, variant.target)
    text = to_mlir(variant.function, annotate=True)
    path = GOLDEN / f"{case.kernel}.{case.schedule}.mlir"
    if update_golden:
        GOLDEN.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), "the IR has changed: if it is meant to, run pytest with --update-golden"
    read(text)
