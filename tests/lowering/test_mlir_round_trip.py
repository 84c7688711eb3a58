"""The IR's text is MLIR: an independent reader parses it, verifies it, prints it and reads that again."""

from __future__ import annotations

from pathlib import Path

import pytest
from sample_variants import Case, cases
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.parser import Parser

from lowering.builder import Builder
from lowering.ir import Function, Value, to_mlir, walk
from lowering.layout import Layout
from lowering.location import Loc, Source
from lowering.passes import PASSES, run_passes
from lowering.types import DTYPES, F32, I1, INDEX, SharedType, TableType, TensorType, TileType

GOLDEN = Path(__file__).with_name("golden")
CASES = cases()
GOLDENS = (("lanes", 1000), ("whole", 20000), ("stream", 70000))


def read(text: str) -> ModuleOp:
    context = Context(allow_unregistered=True)
    context.load_dialect(Builtin)
    module = Parser(context, text).parse_module()
    module.verify()
    return module


def round_trip(function: Function, annotate: bool = False) -> None:
    """As many operations of the same names, and the reader's own text reads as the same."""
    printed = str(read_as(function, to_mlir(function, annotate)))
    assert str(read(printed)) == printed


def read_as(function: Function, text: str) -> ModuleOp:
    module = read(text)
    names = [op.op_name.data for op in module.walk() if hasattr(op, "op_name")]
    assert names == ["tile.kernel", *(f"tile.{op.name}" for op in walk(function.body))]
    return module


FIRST = list({(case.kernel, case.schedule): case for case in reversed(CASES)}.values())[::-1]
SMALL = 150  # operations; the independent reader takes seconds for a thousand


@pytest.mark.parametrize("case", FIRST, ids=str)
def test_kernels_of_the_samples_before_and_after_each_pass(case: Case) -> None:
    """After each pass that changes it where the kernel is small, and after all of them."""
    variant = case.build()
    round_trip(variant.function, annotate=True)
    is_small = sum(1 for _ in walk(variant.function.body)) < SMALL
    read_last = ""
    for row in PASSES:
        run_passes(variant.function, variant.target, (row,))
        if is_small and (text := to_mlir(variant.function)) != read_last:
            read_as(variant.function, text)
            read_last = text
    if sum(1 for _ in walk(variant.function.body)) < 10 * SMALL:
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
    function = Function("k", [], {}, ir.block, 4, attrs={"unroll": {"i": 4}, "maxregs": None})
    round_trip(function)
    round_trip(function, annotate=True)


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
    """Three kernels after all passes, to be read; `--update-golden` writes them anew."""
    variant = case.build()
    run_passes(variant.function, variant.target)
    text = to_mlir(variant.function, annotate=True)
    path = GOLDEN / f"{case.kernel}.mlir"
    if update_golden:
        GOLDEN.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), "the IR has changed: if it is meant to, run pytest with --update-golden"
    read(text)
