"""The IR's text is whole: what is read of what is printed has the same text and gives the same code."""

from __future__ import annotations

import os
import random
import re
from functools import cache

import pytest
from msgspec.structs import replace
from sample_variants import Case, cases, program

import dsl
from dsl.kernels.compile import Generated, Lowered, finish, generate, lower
from dsl.kernels.variant import Request, record_access
from dsl.lowering.ir.function import walk
from dsl.lowering.ir.location import TileError
from dsl.lowering.passes import PASSES, run_passes
from dsl.lowering.text.printer import printed
from dsl.lowering.text.reader import read
from tests.compile_and_run import through

SEEDS = 400
CHOSEN = (
    "softmax_rows-whole",  # shared memory, a loop
    "product-mma_sync",  # products, a ring with a swizzle
    "matmul_shared-cooperative",  # pins
    "conv_nhwc-pixels",
    "v0-ladder",
    "fused_rows-lanes",
)


def chosen() -> list[Case]:
    """The least variant of each: most of what text can hold. All variants of the samples with DSL_TEXTS=all."""
    if os.environ.get("DSL_TEXTS") == "all":
        return list(dict.fromkeys(cases()))
    found = []
    for name in CHOSEN:
        matching = [case for case in cases() if str(case).startswith(name)]
        found.append(min(matching, key=lambda case: sum(extent for _, extent in case.dims)))
    return found


def levels(case: Case) -> tuple[list[str], Generated]:
    """The text of a variant as built and after each pass, and its code."""
    variant = case.build()
    lowered = Lowered(variant, {})
    texts = [printed(lowered.level(program(case.file)))]
    for row in PASSES:
        lowered.passes += run_passes(variant.function, variant.target, (row,))
        texts.append(printed(lowered.level(program(case.file))))
    record_access(variant.function)
    return texts, generate(lowered.level(program(case.file)))


@pytest.mark.long
@pytest.mark.parametrize("case", chosen(), ids=str)
def test_what_is_read_after_any_pass_gives_the_same_code(case: Case) -> None:
    texts, wanted = levels(case)
    for text in texts:
        level = read(text, "k.ir")
        assert printed(level) == text
        found = finish(level)
        assert (found.llvm, found.ptx) == (wanted.llvm, wanted.ptx), level.passes
    assert len(set(texts)) == len(PASSES) + 1  # each says which passes have run


@cache
def text_of() -> str:
    case = chosen()[0]
    variant = case.build()
    run = run_passes(variant.function, variant.target, through("assign_layouts"))
    return printed(Lowered(variant, {}, list(run)).level(program(case.file)))


def test_the_text_has_a_line_for_each_operation() -> None:
    level = read(text_of(), "k.ir")
    body = text_of().partition("body {\n")[2].partition("\n}\n")[0].splitlines()
    operations = [line for line in body if not line.lstrip().startswith("}")]
    assert len(operations) == len(walk(level.function.body))
    row = next(line for line in operations if " = load(" in line)
    assert re.fullmatch(r" +%\S+ = load\(%x, .*\) has=\[.*\] .* : f16\[\d+, \d+\] #\d+ @\S+", row), row


def test_places_and_quotations_survive() -> None:
    variant = chosen()[0].build()
    level = Lowered(variant, {}).level(program(chosen()[0].file))
    again = read(printed(level), "k.ir")
    for op, other in zip(walk(level.function.body), walk(again.function.body), strict=True):
        assert op.loc is not None and other.loc is not None
        assert TileError("x", op.loc, "here").render() == TileError("x", other.loc, "here").render()
    assert again.source.text == level.source.text


def test_comments_and_space_mean_nothing() -> None:
    text = text_of()
    head, body, rest = text.partition("body {\n")
    edited = head + "\n// by hand\n" + body + "   // a note: %x { }\n\n" + rest.replace(" = ", "  =  ")
    edited = edited.partition("\nsource 0")[0] + "\nsource 0" + text.partition("\nsource 0")[2]
    assert printed(read(edited, "k.ir")) == text


FLOATS = ("nan", "-inf", "inf", "-0.0", "1e-45", "1.0", "bits(0x7ff8000000000001)", "bits(0xfff0000000000001)")


@pytest.mark.parametrize("number", FLOATS)
def test_all_bits_of_floats_survive(number: str) -> None:
    edited = text_of().replace("body {\n", f"body {{\n  %n = constant() value={number} dtype=f64 : f64\n")
    assert f"value={number} dtype" in printed(read(edited, "k.ir"))


def test_names_of_all_kinds_survive() -> None:
    level = read(text_of(), "k.ir")
    values = [op.results[0] for op in walk(level.function.body) if op.results]
    values[0].name, values[1].name, values[2].name = 'a "b" é\n', "x#2", "1"
    found = [op.results[0] for op in walk(read(printed(level), "k.ir").function.body) if op.results]
    assert [value.name for value in found] == [value.name for value in values]


WRONG = (
    (r"\Atile-ir 1", "tile-ir 2", "the first line of a text of the tile IR is 'tile-ir 1'"),
    (r"arch sm_90", "arch sm_9", "unknown target 'sm_9'"),
    (r" warps \d+", " warps 7", "7 warps: 1, 2, 4, 8, 16 or 32"),
    (r"\ngrid ", "\ngrit ", "'grit' is no row of the head"),
    (r"\ngrid .*", "", "the head has no row 'grid'"),
    (r"\ngrid .*", r"\g<0>\g<0>", "a second row 'grid'"),
    (r"= floordiv\(", "= floordif(", "there is no operation 'floordif'"),
    (r"= cast\(%\d+\)", "= cast(%nowhere)", "%nowhere is not known here"),
    (r"= exp\b|= sub\(%", "= sub(%x, %", "sub: 3 operands"),
    (r" to=f32", " to=f23", "'f23' is no element type"),
    (r" axis=0", " axes=0", "block_id: no attribute 'axis'"),
    (r" axis=0", " axis=0 axis=0", "a second row of 'axis'"),
    (r'(store\(.*has=\[)"memory", ', r"\1", "'has' names each of its"),
    (r" extent=(\d+)", ' extent="x"', "arange: its 'extent' is 'x'; it is a whole number from 1 to"),
    (r" shape=\(", " shape=none to=(", "broadcast: its 'shape' is none; it is extents from 1 on"),
    (r": f32\[(\d+, \d+)\] #(\d+)", r": f16[\1] #\2", "its rule says"),
    (r": f32\[(\d+, \d+)\] #(\d+)", r": f32[2, 2] #\2", "the layout is of a tile of"),
    (r"(layout #0 = .*)lane \[\[", r"\1lane [[99999, ", "bases are coordinates in"),
    (r"(layout #0 = .*lane )\[\[.*?\], ", r"\1[", "a layout has 5 bases of lanes, and here"),
    (r"(layout #\d+ = .*: register \[)\[0, [1-9]\d*\]", r"\1[0, 0]", "lies nowhere"),
    (r"@\d+:\d+\+\d+", "@99999:1+1", "has no line 99999"),
    (r"\n  }\n", "\n", "this has no end"),
    (r"\n}\n", "\n", "this has no end"),
    (r"\n}\nsource", "\n}\n}\nsource", "the body has ended: only sources follow it"),
    (r"\nsource [\s\S]*", "\n", "there is no source 0"),
)


VIEWS = (
    (r"axes=\(1, 0\) to=f16", "axes=(1, 5) to=f16", "a view has the axes 0 and 1"),
    (r" to=f16 atoms", " to=f32 atoms", "a view of shared f16"),
    (r"atoms=\(128, ", "atoms=(", "shared_view: its 'atoms'"),
    (r"(= wgmma\(%[\w#]+, )%[\w#]+, ", r"\1", "wgmma: 2 operands"),
    (r"(= wgmma\(%[\w#]+, )(%[\w#]+, )(%[\w#]+)", r"\1\3, \3", "takes a, then views b"),
    (r"view\(f16\[(\d+), ", r"view(f16[7\1, ", "its rule says"),
)
PRODUCT = """
kernel f(c: f32[m, n], a: f16[m, k], b: f16[n, k]):
    grid cdiv(m, 64), cdiv(n, 64)
    i, j, acc = block(0) * 64, block(1) * 64, zeros(f32[64, 64])
    for p in range(0, k, 64):
        acc = dot(a[i : i + 64, p : p + 64], b[j : j + 64, p : p + 64].T, acc)
    c[i : i + 64, j : j + 64] = acc
"""


@pytest.mark.parametrize(("pattern", "edit", "message"), VIEWS)
def test_mistakes_in_products_of_warp_groups_have_places(pattern: str, edit: str, message: str) -> None:
    module = dsl.parse(PRODUCT, device="emulator", arch="sm_90a")
    request = Request("f", None, {"m": 64, "n": 64, "k": 256}, arch="sm_90a", strides={"a": (16, 1), "b": (16, 1)})
    text = printed(lower(module.program, request).level(module.program))
    assert printed(read(text, "k.ir")) == text
    edited, count = re.subn(pattern, edit, text, count=1)
    assert count == 1 and edited != text
    with pytest.raises(TileError) as raised:
        read(edited, "k.ir")
    assert raised.value.code == "ir" and message in raised.value.message, raised.value.render()


@pytest.mark.parametrize(("pattern", "edit", "message"), WRONG)
def test_mistakes_have_places(pattern: str, edit: str, message: str) -> None:
    text = text_of()
    edited, count = re.subn(pattern, edit, text, count=1)
    assert count == 1 and edited != text
    with pytest.raises(TileError) as raised:
        read(edited, "k.ir")
    error = raised.value
    assert error.code == "ir" and message in error.message, error.render()
    assert error.loc is not None and error.loc.source.name == "k.ir"


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
def test_damaged_texts_are_read_or_refused_with_a_place(part: int) -> None:
    text = text_of()
    short = text.partition("\nsource 0")[0]
    rest = text[len(short) :]
    draw = random.Random(part)
    refused = 0
    for _ in range(SEEDS // 4):
        at, length = draw.randrange(len(short)), draw.choice((1, 1, 2, 8, 40))
        other = draw.randrange(len(short))
        edited = short[:at] + draw.choice(("", short[other : other + length])) + short[at + length :] + rest
        try:
            read(edited, "k.ir")
        except TileError as error:
            assert error.code == "ir" and error.loc is not None and error.loc.source.name == "k.ir"
            assert "error[ir]" in error.render()
            refused += 1
    assert refused > SEEDS // 16


def test_a_lowered_variant_knows_its_passes() -> None:
    case = chosen()[0]
    lowered = lower(program(case.file), replace(case.build().request, choices={"pass.simplify": "off"}))
    assert lowered.passes == [row.name for row in PASSES if row.name != "simplify"]
