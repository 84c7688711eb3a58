"""Marks of a timeline: which operations have them, that they nest, and that they leave all else as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from sample_variants import ABSENT, images, program, square

from dsl.kernels.compile import Lowered, generate, lower
from dsl.kernels.launch_header import make_header
from dsl.kernels.variant import Request
from dsl.lowering.emit import emit
from dsl.lowering.ir.function import Block, Function, Op, walk
from dsl.lowering.ir.location import TileError
from dsl.lowering.passes.marks import BARRIERS, EMPTY, EMPTY_PAIRS, LIFE, LINES, LOOPS, line_of, parse_marks
from dsl.lowering.text.printer import printed
from dsl.lowering.text.reader import read
from dsl.runtime.errors import LaunchError
from dsl.runtime.header import parse, to_json
from dsl.studies.verify import verify_kernel

PRODUCT = Request(
    "product",
    "wgmma",
    square(4096),
    {"T": "bf16", "O": "bf16"},
    strides={"a": (16, 1), "b": (16, 1)},
    arch="sm_90a",
    sms=132,
    absent=frozenset(ABSENT["product"]),
)
CASES = {
    "softmax": ("softmax.tile", Request("softmax_rows", "lanes", {"rows": 8, "cols": 1000})),
    "product": ("matmul.tile", PRODUCT),
    "convolution": (
        "int8_conv.tile",
        Request("conv", "blocks", images(64, 14, 64, 3), absent=frozenset(ABSENT.get("conv", ()))),
    ),
}


@cache
def lowered(case: str, marks: str) -> Lowered:
    file, request = CASES[case]
    return lower(program(file), replace(request, marks=marks))


def function_of(case: str, marks: str) -> Function:
    return lowered(case, marks).variant.function


def blocks(block: Block) -> Iterator[Block]:
    yield block
    for op in block.ops:
        for region in op.regions:
            yield from blocks(region)


def is_edge(op: Op, kind: str, begins: bool) -> bool:
    return op.name == "mark" and (op.attrs["kind"], op.attrs["begins"]) == (kind, begins)


@pytest.mark.parametrize("case", CASES)
def test_marks_are_all_that_they_add(case: str) -> None:
    """But for their own lines and the argument, LLVM IR is that of the kernel without marks."""

    def lines(marks: str) -> list[str]:
        text, _ = emit(function_of(case, marks), lowered(case, marks).variant.target)
        kept = [line for line in text.splitlines() if "dsl_at" not in line and not line.startswith("!")]
        return [
            re.sub(r", !dbg !\d+|, ptr addrspace\(1\) align 16 %timeline|!llvm.loop !\d+|!\d+", "", line)
            for line in kept
        ]

    plain, marked = lines(""), lines("barriers,loops")
    assert not any("timeline" in line for line in plain)
    assert marked == plain


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("marks", ["barriers,loops", "barriers,loops,10-60,15,30-40"])
def test_marks_of_a_block_nest(case: str, marks: str) -> None:
    for block in blocks(function_of(case, marks).body):
        open_ones: list[int] = []
        for op in block.ops:
            if op.name == "mark" and op.attrs["begins"]:
                open_ones.append(op.attrs["number"])
            elif op.name == "mark":
                assert open_ones.pop() == op.attrs["number"]
        assert not open_ones
        assert not block.ops or block.ops[-1].spec.control.ends or block is function_of(case, marks).body


@pytest.mark.parametrize("case", ["product", "convolution"])
def test_each_wait_stands_between_marks(case: str) -> None:
    found = set()
    for block in blocks(function_of(case, "barriers").body):
        for before, op, behind in zip(block.ops, block.ops[1:], block.ops[2:], strict=False):
            if op.spec.access.waits:
                found.add(before.attrs["name"])
                assert is_edge(before, BARRIERS, True) and is_edge(behind, BARRIERS, False)
                assert before.attrs["line"] == line_of(function_of(case, "barriers"), op) > 0
    wanted = {
        "product": {
            "wait for a free stage",
            "wait for a full stage",
            "wait for products",
            "barrier of the warp",
            "wait for stores",
        },
        "convolution": {"barrier of the block", "wait for copies"},
    }
    assert found == wanted[case]


def test_in_ptx_nothing_but_the_wait_stands_between_its_clocks() -> None:
    """LLVM moves nothing there but a copy of the timeline's address."""
    body = generate(lowered("convolution", "barriers").level(program("int8_conv.tile"))).body
    body = re.sub(r"\t?//.*|\t\.loc.*|\t?\.reg .*", "", body[body.index("dsl_at") :])
    mark = re.compile(r"\{\s*mov\.u32 time, %clock;(?:[^{}]|\{[^}]*\})*?mov\.b32 what, (\d+);(?:[^{}]|\{[^}]*\})*\}")
    marks = [*mark.finditer(body)][2 * EMPTY_PAIRS :]
    assert marks
    for begin, end in zip(marks[::2], marks[1::2], strict=True):
        assert int(end[1]) == int(begin[1]) + 1
        between = [text.split()[0] for text in body[begin.end() : end.start()].split(";") if text.strip()]
        assert [name for name in between if name != "mov.b64"] in (["bar.sync"], ["cp.async.wait_group"])


def test_each_loop_and_its_rounds_have_marks() -> None:
    function = function_of("product", "loops")
    names = set()
    for block in blocks(function.body):
        for before, op, behind in zip(block.ops, block.ops[1:], block.ops[2:], strict=False):
            if op.spec.control.loops:
                body = op.regions[-1].ops
                assert is_edge(before, LOOPS, True) and is_edge(behind, LOOPS, False)
                assert is_edge(body[0], LOOPS, True) and is_edge(body[-2], LOOPS, False)
                names |= {before.attrs["name"], body[0].attrs["name"]}
    assert {"loop tile", "iteration of loop tile", "loop p", "iteration of loop p"} <= names
    assert not any(op.name == "mark" and op.attrs["kind"] in (BARRIERS, LINES) for op in walk(function.body))


def test_operations_of_lines_stand_between_marks() -> None:
    """All of line 24 that touches memory, and nothing of line 30."""
    function, inside = function_of("softmax", "24"), False
    seen: dict[bool, set[int]] = {True: set(), False: set()}
    for op in function.body.ops:
        if op.name == "mark" and op.attrs["kind"] == LINES:
            assert (op.attrs["name"], op.attrs["line"], op.attrs["begins"]) == ("line 24", 24, not inside)
            inside = not inside
        elif op.spec.access.touches:
            seen[inside].add(line_of(function, op))
    assert seen == {True: {24}, False: {30}}


def test_lines_that_hold_a_loop_hold_it_whole() -> None:
    function = function_of("convolution", "45-59,48-54")
    outer = [op for op in function.body.ops if op.name == "mark" and op.attrs["name"] == "lines 45-59"]
    assert outer
    for block in blocks(function.body):
        if block is not function.body:
            assert not any(op.name == "mark" and op.attrs["name"] == "lines 45-59" for op in block.ops)
    assert any(op.name == "mark" and op.attrs["name"] == "lines 48-54" for op in walk(function.body))


def test_the_life_of_a_warp_is_around_all_else_and_empty_marks_at_its_begin() -> None:
    ops = function_of("softmax", "loops").body.ops
    assert is_edge(ops[0], LIFE, True) and is_edge(ops[-1], LIFE, False)
    head = ops[1 : 1 + 2 * EMPTY_PAIRS]
    assert [is_edge(op, EMPTY, at % 2 == 0) for at, op in enumerate(head)] == [True] * len(head)
    assert not any(op.name == "mark" for op in ops[1 + len(head) : -1])


@pytest.mark.parametrize(
    ("marks", "words"),
    [
        ("barrier", "'barrier' is nothing that can have marks"),
        ("12-", "'12-' is nothing that can have marks"),
        ("-3", "'-3' is nothing that can have marks"),
        ("0", "the lines 0 are none"),
        ("9-3", "the lines 9-3 are none"),
        ("12-20,15-30", "the lines 12-20 and 15-30 overlap"),
        (" , ", "no marks are requested"),
    ],
)
def test_wrong_marks_are_refused(marks: str, words: str) -> None:
    with pytest.raises(TileError, match=re.escape(words)) as error:
        parse_marks(marks)
    assert error.value.code == "option"


def test_marks_are_part_of_the_text_of_a_stage() -> None:
    made = generate(lowered("softmax", "loops,24").level(program("softmax.tile")))
    again = generate(read(printed(lowered("softmax", "loops,24").level(program("softmax.tile"))), "k.ir"))
    assert again.ptx == made.ptx
    assert made.header.timeline[2:] and made.header.arguments[-1].kind == "timeline"


def test_the_header_says_what_marks_are_of() -> None:
    header = make_header(lowered("product", "barriers").level(program("matmul.tile")))
    record: dict[str, Any] = json.loads(json.dumps(to_json(header)))
    assert parse(record) == header
    kinds = [mark.kind for mark in header.timeline]
    assert kinds == [LIFE, EMPTY, *[BARRIERS] * (len(kinds) - 2)]
    del record["timeline"]
    with pytest.raises(LaunchError, match="is a timeline, whose marks are missing"):
        parse(record)
    assert "timeline" not in to_json(make_header(lowered("product", "").level(program("matmul.tile"))))


def test_marks_change_nothing_that_a_kernel_means() -> None:
    file, request = CASES["softmax"]
    x = np.random.default_rng(1).standard_normal((8, 1000)).astype(np.float16)
    given = {"y": np.zeros_like(x), "x": x}
    found = verify_kernel(program(file), replace(request, marks="barriers,loops,12,22"), given)
    assert found.divergence is None and found.undecided is None
