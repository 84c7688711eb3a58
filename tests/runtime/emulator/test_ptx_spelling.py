"""PTX as people write it: modifiers in any order, constant expressions, versions by feature, as ptxas takes them."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from handwritten import kernel, words
from ptx_mutations import FENCE, GENERATED, WAITED, generated, legal_lines
from ptx_operands import refused

from dsl.runtime.emulator import PtxError, emulate
from dsl.runtime.emulator.legal import check_module
from dsl.runtime.emulator.legal.check import check_instruction, forms_of, scope_of, usual_order
from dsl.runtime.emulator.reader import PtxInstruction, PtxModule, read_module
from dsl.runtime.errors import LaunchError
from dsl.runtime.foreign import ForeignKernel
from dsl.runtime.tools import assemble
from dsl.text.files import read_text

CHANCE = 0.25  # of a form to be asked about: of all of them it takes ptxas 1.2 s


def single_lines(target: str, rng: random.Random) -> list[str]:
    """A legal instruction of each of some forms."""
    lines = (line.removeprefix(FENCE).removesuffix(WAITED) for line in legal_lines(target, rng, 1))
    return [line for line in lines if rng.random() < CHANCE]


def in_other_orders(line: str, rng: random.Random) -> Iterator[tuple[str, str]]:
    """The words of an opcode, two neighbours changed or in any order, each with its instruction."""
    name, space, rest = line.partition(" ")
    root, *words = name.rstrip(";").split(".")
    orders = [[*words[:at], words[at + 1], words[at], *words[at + 2 :]] for at in range(len(words) - 1)]
    orders += [rng.sample(words, len(words)) for _ in range(2)]
    for order in orders:
        if order != words:
            other = ".".join([root, *order])
            yield other, f"{other}{space}{rest}" if space else f"{other};"


@pytest.mark.parametrize("target", ["sm_90a", "sm_120a"])
def test_modifiers_stand_in_any_order_that_ptxas_takes(target: str) -> None:
    rng = random.Random(target)
    asked = {}
    for line in single_lines(target, rng):
        original = tuple(line.partition(" ")[0].rstrip(";").split("."))
        for other, changed in in_other_orders(line, rng):
            words = usual_order(tuple(other.split(".")))
            if words == original or not forms_of(".".join(words)):  # else it is another instruction, of other operands
                asked[changed] = words == original
    wrong = refused(target, list(asked))
    assert len(asked) > 200 and len(wrong) > 50
    differ = [f"{line}  {wrong.get(line, 'taken')}" for line, taken in asked.items() if taken == (line in wrong)]
    assert not differ


LOAD = "{%r20, %r21, %r22, %r23}, [%r2];"
STORE = "[%r2], {%r20, %r21, %r22, %r23}; bar.sync 0; ld.shared.v4.u32 {%r20, %r21, %r22, %r23}, [%r2];"
SPELLINGS = [
    (f"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {LOAD}",
     f"ldmatrix.sync.aligned.trans.x4.m8n8.shared.b16 {LOAD}"),
    (f"stmatrix.sync.aligned.m8n8.x4.shared.b16 {STORE}", f"stmatrix.sync.aligned.x4.m8n8.shared.b16 {STORE}"),
    ("fma.rn.ftz.f32 %f1, %f1, %f2, %f1; mov.b32 %r20, %f1;", "fma.f32.ftz.rn %f1, %f1, %f2, %f1; mov.b32 %r20, %f1;"),
    ("ld.volatile.global.v2.u32 {%r20, %r21}, [%rd0];", "ld.v2.u32.volatile.global {%r20, %r21}, [%rd0];"),
    ("shfl.sync.bfly.b32 %r20, %r20, 1, 31, -1;", "shfl.bfly.b32.sync %r20, %r20, 1, 31, -1;"),
    ("setp.lt.and.u32 %p2, %r20, %r21, %p0; selp.u32 %r20, 1, 2, %p2;",
     "setp.u32.and.lt %p2, %r20, %r21, %p0; selp.u32 %r20, 1, 2, %p2;"),
    ("cvt.rzi.sat.s32.f32 %r20, %f1;", "cvt.sat.s32.rzi.f32 %r20, %f1;"),
]  # fmt: skip


@pytest.mark.parametrize(("usual", "other"), SPELLINGS)
def test_an_opcode_in_another_order_does_the_same(usual: str, other: str) -> None:
    def results(line: str) -> list[int]:
        body = f"""
        shl.b32 %r19, %r0, 4;
        add.u32 %r2, %r2, %r19;
        mul.wide.u32 %rd9, %r0, 16;
        add.u64 %rd0, %rd0, %rd9;
        add.u64 %rd1, %rd1, %rd9;
        ld.global.v4.u32 {{%r20, %r21, %r22, %r23}}, [%rd0];
        st.shared.v4.u32 [%r2], {{%r20, %r21, %r22, %r23}};
        bar.sync 0;
        mov.b32 %f1, %r20;
        mov.b32 %f2, %r21;
        {line}
        st.global.v4.u32 [%rd1], {{%r20, %r21, %r22, %r23}};
        """
        x = np.random.default_rng(9).uniform(1, 9, 128).astype(np.float32).view(np.uint32)
        y = np.zeros(128, np.uint32)
        emulate(kernel(body), "kernel", 1, 32, [x, y])
        return y.tolist()

    assert results(other) == results(usual)


NEEDS = [
    ("sm_75", "6.4"), ("sm_80", "7.0"), ("sm_80", "7.5"), ("sm_89", "7.8"), ("sm_90", "7.8"), ("sm_90a", "8.0"),
    ("sm_100", "8.8"), ("sm_103a", "8.8"), ("sm_110f", "9.0"), ("sm_120a", "8.7"), ("sm_121f", "9.0"),
]  # fmt: skip


@pytest.fixture(scope="module")
def some_lines() -> list[str]:
    rng = random.Random(5)
    return list(dict.fromkeys(line for target in ("sm_90a", "sm_100", "sm_120a") for line in single_lines(target, rng)))


@pytest.mark.parametrize(("target", "version"), NEEDS)
def test_forms_need_the_versions_that_ptxas_asks_for(
    target: str, version: str, some_lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = read_module(generated("sm_90a", some_lines))
    module.target, module.version = target, version
    monkeypatch.setattr("ptx_mutations.GENERATED", GENERATED.replace("9.0", version))
    wrong = refused(target, some_lines)
    differ = [
        f"{line}  {wrong.get(line, 'taken')}"
        for line, taken in zip(some_lines, takes(module, len(some_lines)), strict=True)
        if taken == (line in wrong)
    ]
    assert not differ


def takes(module: PtxModule, count: int) -> Iterator[bool]:
    """Whether each of so many lines of a generated kernel is legal."""
    function = module.functions["kernel"]
    scope = scope_of(function, {}, set(module.functions))
    scope.labels.add("END")
    scope.tables.add("TABLE")
    for ins in [item for item in function.body if isinstance(item, PtxInstruction)][2 : 2 + count]:
        try:
            check_instruction(ins, scope, module, function)
        except PtxError:
            yield False
        else:
            yield True


# ---- constants ----

NUMBERS = ["0", "1", "3", "63", "70", "0x7fffffffffffffff", "0x8000000000000000", "0xffffffffffffffff", "5U", "WARP_SZ"]
NUMBERS += ["010", "0b101"]
SIGNS = ["+", "-", "*", "/", "% ", "<<", ">>", "&", "|", "^", "==", "!=", "<", "<=", ">", ">=", "&&", "||"]


def expression(depth: int, rng: random.Random) -> str:
    kind = rng.randrange(10) if depth else 0
    inner = [expression(depth - 1, rng) for _ in range(3)] if kind else []
    if kind < 2:
        return rng.choice(NUMBERS)
    if kind < 4:
        return rng.choice(["-", "~", "!", "+", "(.s64)", "(.u64)"]) + inner[0]
    if kind == 4:
        return f"({inner[0]} ? {inner[1]} : {inner[2]})"
    return f"({inner[0]})" if kind == 5 else f"{inner[0]} {rng.choice(SIGNS)} {inner[1]}"


def table_of(texts: list[str]) -> str:
    values = ",\n".join(texts)
    return f".version 8.0\n.target sm_90\n.address_size 64\n.visible .global .u64 table[] = {{ {values} }};\n"


def test_constant_expressions_come_to_what_ptxas_makes_of_them() -> None:
    """Integers of 64 bits with a sign or without, where C's types and PTX's differ, too: `~0 > 1`, `1 << 70`."""
    rng = random.Random(3)
    texts: list[str] = []
    values: list[bytes] = []
    while len(texts) < 150:
        text = expression(3, rng)
        try:
            values.append(read_module(table_of([text])).variables["table"].data)
        except PtxError as error:
            assert "0 is no constant" in str(error)  # a division by it, which ptxas refuses, too
        else:
            texts.append(text)
    code = assemble(f"{table_of(texts)}.visible .entry kernel() {{ ret; }}", "sm_90")
    assert b"".join(values) in code.cubin


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("mov.u32 %r10, 3 * (4 + 5);", 27),
        ("add.u32 %r10, 7 | 8, 1 ? 2 : 3;", 17),
        ("mov.u32 %r10, - -WARP_SZ * 2;", 64),
        ("ld.global.u32 %r10, [%rd0 + 4 * 2 - 4];", 1),
        ("ld.global.u32 %r10, [%rd0 + (1 << 3)];", 2),
        ("st.shared.u32 [%r3], %r0; bar.sync 0; ld.shared.u32 %r10, buffer[4 * 3];", 3),
        ("mov.b64 %rd9, {%r0, 1 + 2}; shr.u64 %rd9, %rd9, 32; cvt.u32.u64 %r10, %rd9;", 3),
        ("mov.u32 %r10, buffer + 2 * 4; sub.u32 %r10, %r10, %r2;", 8),
        ("mov.f32 %f1, -(1.5 + 2.0 * 3.0); cvt.rzi.s32.f32 %r10, %f1; neg.s32 %r10, %r10;", 7),
        ("bar.sync 2 - 1; mov.u32 %r10, 5 % 3;", 2),
    ],
)
def test_constants_stand_where_numbers_do(body: str, expected: int) -> None:
    y = np.zeros(1, np.uint32)
    text = kernel(f"@%p0 bra GO;\nGO: {body}\n@%p0 st.global.u32 [%rd1], %r10;")
    emulate(text, "kernel", 1, 32, [np.arange(9, dtype=np.uint32), y])
    assert y.tolist() == [expected]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("5 / (3 - 3)", "5 / 0 is no constant"),
        ("3 + 1.0", "both are integers, or both floats"),
        ("~1.5", "for integers"),
        ("1 ? 2.0 : 3.0", "a choice between constants"),
        ("3 + %r1", "expected a constant, found '%r1'"),
        ("(3", "expected ')'"),
        ("1e400", "larger than a .f64"),
        ("0f3f800000 + 0f3f800000", "expected ';'"),
        ("(.u64)1.5", "no integer"),
        ("(" * 99999, "signs and brackets in each other"),
        ("1 ? " * 99999, "signs and brackets in each other"),
    ],
)
def test_what_is_no_constant_is_told(text: str, reason: str) -> None:
    with pytest.raises(PtxError, match=rf"PTX line \d+: .*{re.escape(reason)}"):
        check_module(read_module(kernel(f"mov.u32 %r10, {text};")))


def test_initial_values_are_constant_expressions() -> None:
    module = read_module(
        ".version 8.0\n.target sm_90\n.address_size 64\n"
        ".global .u32 g[4] = { 1 + 2, 3 * 4, (7), -1 };\n.global .f32 f[] = { 1.0 + 2.0, -(1.0) };\n"
        ".global .u64 p = generic(g) + 8 - 4;\n"
    )
    assert struct.unpack("<4I", module.variables["g"].data) == (3, 12, 7, 0xFFFFFFFF)
    assert struct.unpack("<2f", module.variables["f"].data) == (3.0, -1.0)
    assert module.variables["p"].pointers == [(0, "g", 4)]


ARRAYS = ".shared .align 4 .u32 w[8]; .shared .u64 d[4]; .shared .v2 .u32 p[4]; .shared .u32 one;\n"
ELEMENTS = [
    ("st.shared.u32 [w+12], 7; ld.shared.u32 %r10, w[3];", 7),
    ("st.shared.u64 d[1], 9; ld.shared.u32 %r10, [d+8];", 9),
    ("st.shared.v2.u32 [p+8], {5, 6}; ld.shared.u32 %r10, p[3];", 6),
    ("mov.u32 %r11, w[2]; st.shared.u32 [%r11], 8; ld.shared.u32 %r10, [w+8];", 8),
    ("{ .shared .u16 w[4]; st.shared.u16 w[3], 4; ld.shared.u16 %r10, [w+6]; }", 4),
    ("ld.const.u32 %r10, c[(1 + 1)];", 13),
    ("cvta.shared.u64 %rd9, w[5]; st.u32 [%rd9], 2; ld.shared.u32 %r10, [w+20];", 2),
]
NO_ELEMENTS = [
    "ld.shared.u32 %r10, one[0];",
    "ld.global.u32 %r10, %rd0[0];",
    "ld.shared.u32 %r10, %r2[4];",
    "atom.shared.add.u32 %r10, w[1], 3;",
    "mbarrier.init.shared.b64 d[1], 3;",
]


def test_an_index_counts_elements() -> None:
    """Whatever the instruction's type is: `w[3]` of words is at byte 12 (by ptxas' machine code), not at byte 3."""
    stores = [f"{body} st.global.u32 [%rd1+{4 * at}], %r10;" for at, (body, _) in enumerate(ELEMENTS)]
    text = kernel("\n".join([ARRAYS, *stores]), module=".const .u32 c[] = {11, 12, 13};")
    y = np.zeros(len(ELEMENTS), np.uint32)
    emulate(text, "kernel", 1, 1, [words(), y])
    assert y.tolist() == [expected for _, expected in ELEMENTS]
    assemble(text, "sm_90")
    for line in NO_ELEMENTS:
        with pytest.raises(PtxError, match=r"elements of arrays have|element of an array is no operand"):
            read_module(kernel(ARRAYS + line))
        with pytest.raises(LaunchError):
            assemble(kernel(ARRAYS + line), "sm_90")
    with pytest.raises(PtxError, match="an index of w that is no constant is not read here"):
        read_module(kernel(ARRAYS + "ld.shared.u32 %r10, w[%r0];"))


BLANKS = [
    ("mov .u32 %r10, 7;", 7),
    ("mov/* a ; */.u32 %r10, 7;", 7),
    ("st /* a */ .shared		/**/ .u32 [%r2], 6; bar .sync 0; ld .shared .u32 %r10, [%r2];", 6),
    ("mov.f32 %f1, .5; mul.f32 %f1, %f1, -.25e2; cvt.rni .s32.f32 %r10, %f1; neg.s32 %r10, %r10;", 12),
    ('.pragma "a\\"; mov.u32 %r10, 5;', 5),
]


def test_blanks_and_comments_stand_before_modifiers() -> None:
    """And numbers begin with their point, and a string ends at the next quotation mark."""
    stores = [f"{body} st.global.u32 [%rd1+{4 * at}], %r10;" for at, (body, _) in enumerate(BLANKS)]
    text, y = kernel("\n".join(stores)), np.zeros(len(BLANKS), np.uint32)
    emulate(text, "kernel", 1, 1, [words(), y])
    assert y.tolist() == [expected for _, expected in BLANKS]
    assemble(text, "sm_90")


@pytest.mark.parametrize(
    "body",
    [
        "mov.u32 z, 7; .reg .u32 z;",
        "@z mov.u32 %r10, 7; .reg .pred z;",
        "mov.u32 %r10, z; .shared .u32 z;",
        ".shared .u32 .align 8 z;",
        ".shared .v2 .align 8 .u32 z;",
        ".reg .u32 .v2 z;",
        'mov.u32 %r10, 7; .pragma "a\\"b";',
    ],
)
def test_what_is_declared_in_another_order_is_told(body: str) -> None:
    """As ptxas does."""
    with pytest.raises(PtxError):
        read_module(kernel(body))
    with pytest.raises(LaunchError):
        assemble(kernel(body), "sm_90")


def test_a_text_may_begin_with_a_mark_of_its_byte_order(tmp_path: Path) -> None:
    """Windows' editors write one. ptxas refuses it, so that it goes where a text comes in."""
    y = np.zeros(1, np.uint32)
    emulate("\ufeff" + kernel("@%p0 st.global.u32 [%rd1], 5;"), "kernel", 1, 32, [np.zeros(1, np.uint32), y])
    assert y.tolist() == [5]
    text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 x) { ret; }\n"
    assert ForeignKernel("\ufeff" + text).ptx == text
    path = tmp_path / "k.ptx"
    path.write_text(text, encoding="utf-8-sig")
    assert read_text(path) == text


WIDE = ".reg .b128 %q<3>; .reg .b64 %w<4>;\n"
WIDE_BODIES = [
    ("ld.global.b128 %q0, [%rd0]; st.global.b128 [%rd1], %q0;", [0, 1, 2, 3]),
    ("ld.b128.global %q0, [%rd0+16]; st.shared.b128 [%r2], %q0; ld.shared.b128 %q1, [%r2]; st.b128 [%rd1], %q1;",
     [4, 5, 6, 7]),
    ("ld.global.nc.L1::no_allocate.b128 %q0, [%rd0]; mov.b128 %q1, %q0; mov.b128 {%w0, %w1}, %q1;"
     "st.global.v2.b64 [%rd1], {%w1, %w0};", [2, 3, 0, 1]),
    ("mov.b128 %q0, {%r7, 1, 2, 3}; mov.b128 {_, %w1}, %q0; mov.b128 %q1, {%w1, 5}; st.global.b128 [%rd1], %q1;",
     [2, 3, 5, 0]),
    ("mov.b128 %q0, -1; @!%p1 mov.b128 %q0, 0; st.global.b128 [%rd1], %q0;", [0xFFFFFFFF] * 4),
]  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), WIDE_BODIES)
def test_registers_of_128_bits(body: str, expected: list[int]) -> None:
    text = kernel(WIDE + body)
    assemble(text, "sm_90")
    y = np.zeros(4, np.uint32)
    emulate(text, "kernel", 1, 1, [np.arange(8, dtype=np.uint32), y])
    assert y.tolist() == expected


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("add.u64 %w0, %q0, %w1;", "go through ld, st and mov of .b128 only"),
        ("atom.global.exch.b128 %q0, [%rd0], %q1;", "go through ld, st and mov of .b128 only"),
        ("ld.global.b128 %w0, [%rd0];", "%w0 is no register of 128 bits"),
        ("ld.global.v2.b128 {%q0, %q1}, [%rd0];", "no register of 128 bits"),
        ("mov.b128 %q0, {%w0, %w1, %w2};", "no register of 128 bits"),
        ("mov.b128 %q0, {%r1, %r2};", "does not fit .b64"),
        ("mov.b128 %q0;", "go through ld, st and mov"),
    ],
)
def test_what_is_no_access_of_128_bits_is_told(line: str, reason: str) -> None:
    with pytest.raises(PtxError, match=rf"PTX line \d+: .*{re.escape(reason)}"):
        check_module(read_module(kernel(WIDE + line)))
    with pytest.raises(LaunchError):
        assemble(kernel(WIDE + line), "sm_80" if "atom" in line else "sm_90")
    older = kernel(WIDE + "ld.global.b128 %q0, [%rd0];").replace("8.6", "8.2")
    with pytest.raises(PtxError, match=r"PTX \.version 8\.3 or later"):
        check_module(read_module(older))
