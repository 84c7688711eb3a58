"""Constants, carries and calls: what an instruction or a function gets is the value that the text names."""

from __future__ import annotations

import numpy as np
import pytest
from handwritten import kernel, run

from dsl.runtime.emulator import emulate


def first_words(body: str, count: int, module: str = "") -> list[int]:
    """Runs a body with one thread that stores to y."""
    _, y = run(body, 1, module=module)
    return [int(word) for word in y[:count]]


def test_constants_that_compare_equal_keep_their_bits() -> None:
    """-0 and +0, two NaNs, and a 0 of each type, of one text."""
    bits = [0x00000000, 0x80000000, 0x7FC00001, 0xFFC00002, 0x7F800001, 0x00000001]
    stores = [f"mov.f32 %f{i}, 0f{each:08x};" for i, each in enumerate(bits)]
    stores += ["selp.f32 %f6, 0f80000000, 0f00000000, %p0;", "selp.f32 %f7, 0f00000000, 0f80000000, %p0;"]
    stores += [f"st.global.f32 [%rd1+{4 * i}], %f{i};" for i in range(8)]
    stores += ["st.global.f32 [%rd1+32], 0f80000000;", "st.global.f32 [%rd1+36], 0f00000000;"]
    stores += ["st.global.u32 [%rd1+40], 0;", "st.global.f32 [%rd1+44], -0.0;", "st.global.f32 [%rd1+48], 0.0;"]
    expected = [*bits, 0x80000000, 0, 0x80000000, 0, 0, 0x80000000, 0]
    assert first_words("\n".join(stores), len(expected)) == expected


def test_constants_of_64_bits_keep_their_bits() -> None:
    bits = [0, 1 << 63, 0x7FF8000000000001, 0xFFF4000000000003]
    stores = [f"st.global.f64 [%rd1+{8 * i}], 0d{each:016x};" for i, each in enumerate(bits)]
    stores += [f"st.global.b64 [%rd1+{8 * i + 32}], 0d{each:016x};" for i, each in enumerate(bits)]
    words = first_words("\n".join(stores), 16)
    assert [words[2 * i] | words[2 * i + 1] << 32 for i in range(8)] == bits * 2


def test_only_cc_writes_the_carry() -> None:
    """Each `addc`, `subc` and `madc` without `.cc` would clear or set it otherwise."""
    for plain in ("addc.u32 %r10, 1, 1", "subc.u32 %r10, 1, 2", "madc.lo.u32 %r10, 1, 1, 1", "madc.hi.u32 %r10, 1,1,1"):
        body = f"""
        add.cc.u32 %r11, 0xffffffff, 1;
        {plain};
        addc.u32 %r12, 0, 0;
        sub.cc.u32 %r11, 2, 1;
        {plain};
        subc.u32 %r13, 5, 0;
        st.global.u32 [%rd1], %r12;
        st.global.u32 [%rd1+4], %r13;
        """
        assert first_words(body, 2) == [1, 5], plain


@pytest.mark.parametrize(("a", "b"), [(5, 7), (7, 5), (0x627ADF75, 0x864CCEF5), (0xFFFFFFFF, 1), (0, 0)])
def test_a_borrow_is_a_carry_that_is_missing(a: int, b: int) -> None:
    """The machine has one flag for chains of both kinds: `sub.cc` adds ~b and 1, and sets it where nothing is borrowed.
    ptxas gives the predicate of one IADD3 to the next as it is."""
    first = ("sub.cc", "add.cc")
    chains = [(one, other) for one in first for other in ("addc.u32", "subc.u32", "madc.lo.u32", "madc.hi.u32")]
    body, expected = "", []
    for at, (one, other) in enumerate(chains):
        flag = int(a >= b if one == "sub.cc" else a + b >= 1 << 32)
        more = ", 0" if other.startswith("madc") else ""
        body += f"{one}.u32 %r10, {a}, {b};\n{other} %r11, 0, 0{more};\nst.global.u32 [%rd1+{4 * at}], %r11;\n"
        expected.append((flag - (other == "subc.u32")) % (1 << 32))
    assert first_words(body, len(chains)) == expected


@pytest.mark.parametrize("saturates", [False, True])
def test_mad24_saturates(saturates: bool) -> None:
    rng = np.random.default_rng(3)
    edges = [0, 1, 0x7FFFFF, 0x800000, 0xFFFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]
    rows = [[int(each) for each in rng.choice(edges, 3)] for _ in range(60)]
    sat = ".sat" if saturates else ""
    body = "".join(
        f"mad24.hi{sat}.s32 %r10, {a}, {b}, {c};\nst.global.u32 [%rd1+{4 * i}], %r10;\n"
        for i, (a, b, c) in enumerate(rows)
    )

    def signed(value: int, bits: int) -> int:
        value &= (1 << bits) - 1
        return value - (1 << bits) if value >> (bits - 1) else value

    expected = []
    for a, b, c in rows:
        total = (signed(a, 24) * signed(b, 24) >> 16) % (1 << 32)
        total = signed(total, 32) + signed(c, 32)
        expected.append((min(max(total, -(2**31)), 2**31 - 1) if saturates else total) & 0xFFFFFFFF)
    assert first_words(body, len(rows)) == expected


REG_FUNCTIONS = """
.func (.reg .b32 out) changes(.reg .b32 in)
{ add.u32 in, in, 1; add.u32 out, in, 100; ret; }
.func (.reg .b32 first, .reg .b32 second) swapped(.reg .b32 a, .reg .b32 b)
{ mov.b32 first, b; mov.b32 second, a; ret; }
.func (.param .b32 out) late(.param .b32 a, .param .b32 b)
{ .reg .b32 %x<4>; ld.param.b32 %x0, [a]; st.param.b32 [out], %x0; ld.param.b32 %x1, [b]; add.u32 %x2, %x1, %x1;
  st.param.b32 [out], %x2; ret; }
.func (.reg .f32 out) halves(.reg .f32 in)
{ mul.f32 out, in, 0.5; ret; }
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("mov.u32 %r10, 5; call (%r11), changes, (%r10);", [5, 106]),
        ("mov.u32 %r10, 7; call (%r10), changes, (%r10); mov.u32 %r11, %r10;", [108, 108]),
        ("call (%r10), changes, (41); mov.u32 %r11, 0;", [142, 0]),
        ("mov.u32 %r10, 1; mov.u32 %r11, 2; call (%r10, %r11), swapped, (%r10, %r11);", [2, 1]),
        ("mov.u32 %r10, 1; mov.u32 %r11, 2; call (%r11, _), swapped, (%r10, %r11);", [1, 2]),
        (
            "{ .param .b32 v; .param .b32 w; st.param.b32 [v], 3; st.param.b32 [w], 9; call (w), late, (v, w); "
            "ld.param.b32 %r10, [w]; ld.param.b32 %r11, [v]; }",
            [18, 3],
        ),
        ("mov.u32 %r10, 4; mov.u32 %r11, 6; call (%r10), late, (%r10, %r11);", [12, 6]),
        ("{ .param .b32 v; st.param.b32 [v], 3; call (%r10), changes, (v); ld.param.b32 %r11, [v]; }", [104, 3]),
        ("mov.u32 %r10, 3; mov.u32 %r11, 1; @!%p0 call (%r10), changes, (%r11);", [3, 1]),
        ("mov.f32 %f1, 3.0; call (%f1), halves, (%f1); mov.b32 %r10, %f1; mov.u32 %r11, 0;", [0x3FC00000, 0]),
    ],
)
def test_calls_are_by_value(body: str, expected: list[int]) -> None:
    stores = "st.global.u32 [%rd1], %r10;\nst.global.u32 [%rd1+4], %r11;"
    assert first_words(f"{body}\n{stores}", 2, REG_FUNCTIONS) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("st.u32 [buffer+8], 5; ld.u32 %r10, [buffer+8]; ld.shared.u32 %r11, [%r2+8];", [5, 5]),
        ("atom.add.u32 %r10, [word], 3; atom.add.u32 %r10, [word], 4; ld.u32 %r11, [word];", [12, 16]),
        (".local .align 4 .b32 own; st.u32 [own], 6; ld.u32 %r10, [own]; ld.const.u32 %r11, [fixed];", [6, 77]),
        (
            "st.shared.f32 [buffer], 1.5; ld.shared.f32 %rd10, [%r2]; "
            "shr.u64 %rd11, %rd10, 32; cvt.u32.u64 %r10, %rd10; cvt.u32.u64 %r11, %rd11;",
            [0x3FC00000, 0],
        ),
        ("cvt.rn.f16.u32 %r10, 3; cvt.f16.f16 %r11, %r10;", [0x4200, 0x4200]),
        ("cvt.rn.bf16.f32 %h1, 1.5; cvt.u32.u16 %r10, %h1; cvt.s32.s8 %r11, 255;", [0x3FC0, 0xFFFFFFFF]),
        ("ld.u32 %r10, [fixed]; ld.shared.b32 %rd10, [%r2]; mov.u32 %r11, 1;", [77, 1]),
    ],
)
def test_generic_accesses_name_variables(body: str, expected: list[int]) -> None:
    module = ".global .align 4 .u32 word = 9;\n.const .align 4 .u32 fixed = 77;"
    stores = "st.global.u32 [%rd1], %r10;\nst.global.u32 [%rd1+4], %r11;"
    assert first_words(f"st.shared.u32 [%r2], 0;\n{body}\n{stores}", 2, module) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (".reg .v4 .b32 %v; mov.v4.b32 %v, {1, 2, 3, 4}; add.u32 %r10, %v.x, %v.a; mov.b32 %r11, %v.y;", [5, 2]),
        (".reg .v2 .b32 %v<2>; mov.b32 %v1.r, 7; mov.b32 %v1.y, 8; mov.v2.b32 {%r11, %r10}, %v1;", [8, 7]),
        (".reg .v2 .b32 %v; mov.v2.b32 %v, {5, 6}; mov.v2.b32 {%r10, %r11}, %v;", [5, 6]),
        ("mov.b32 %r10, 1; mov.b32 %r11, 2; mov.v2.b32 {%r10, %r11}, {%r11, %r10};", [2, 1]),
        (".reg .v4 .u32 %v; ld.global.v4.u32 %v, [%rd0+16]; mov.b32 %r10, %v.x; mov.b32 %r11, %v.w;", [4, 7]),
        (".reg .v2 .u32 %v; ld.global.v2.u32 %v, [%rd0+8]; st.shared.v2.u32 [%r2], %v; ld.shared.b32 %r10, [%r2]; "
         "ld.shared.u32 %r11, [%r2+4];", [2, 3]),
        ("mov.v4.u32 {%r10, _, %r11, _}, %ntid;", [1, 1]),
        (".reg .v2 .b64 %w; mov.b64 %w.x, 9; cvt.u32.u64 %r10, %w.x; { .reg .v2 .b32 %w; mov.b32 %w.x, 3; "
         "mov.b32 %r11, %w.x; }", [9, 3]),
    ],
)  # fmt: skip
def test_vector_registers_and_their_members(body: str, expected: list[int]) -> None:
    stores = "st.global.u32 [%rd1], %r10;\nst.global.u32 [%rd1+4], %r11;"
    assert first_words(f"{body}\n{stores}", 2) == expected


def video(name: str, words: str, values: list[int], parts: list[str]) -> int:
    """One scalar video instruction in Python integers, after the ISA's pseudocode."""
    d_type, a_type, b_type, *rest = words.split(".")

    def read(value: int, kind: str, part: str) -> int:
        start, width = (int(part[1]) * (8 if part[0] == "b" else 16), 8 if part[0] == "b" else 16) if part else (0, 32)
        value = value >> start & ((1 << width) - 1)
        return value - (1 << width) if kind == "s32" and value >> (width - 1) else value

    a, b = read(values[0], a_type, parts[1]), read(values[1], b_type, parts[2])
    b = b & 31 if "wrap" in rest else min(b, 32) if "clamp" in rest else b
    d = {"vadd": a + b, "vsub": a - b, "vabsdiff": abs(a - b), "vmin": min(a, b), "vmax": max(a, b)}.get(name)
    if d is None:
        d = a << b if name == "vshl" else a >> b
    width = {"": 32, "b": 8, "h": 16}[parts[0][:1]]
    if "sat" in rest:
        low, high = (-(1 << width - 1), (1 << width - 1) - 1) if d_type == "s32" else (0, (1 << width) - 1)
        d = min(max(d, low), high)
    c = values[2]
    if parts[0]:
        start = int(parts[0][1]) * width
        mask = ((1 << width) - 1) << start
        return (c & ~mask) | (d << start & mask)
    second = {"add": lambda x, y: x + y, "min": min, "max": max}.get(rest[-1] if rest else "")
    if second:
        d = second(read(d & 0xFFFFFFFF, d_type, ""), read(c, d_type, ""))
    return d & 0xFFFFFFFF


@pytest.mark.parametrize("name", ["vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr"])
def test_video_instructions(name: str) -> None:
    rng = np.random.default_rng(len(name))
    edges = [0, 1, 7, 31, 32, 33, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x12345678]
    kinds, choices = ["u32", "s32"], ["", "", "b0", "b3", "h0", "h1"]
    body, expected = [], []
    for at in range(120):
        values = [int(rng.choice(edges)) for _ in range(3)]
        shift = name in {"vshl", "vshr"}
        words = [str(rng.choice(kinds)), str(rng.choice(kinds)), "u32" if shift else str(rng.choice(kinds))]
        words += ["sat"] * int(rng.integers(2)) + [str(rng.choice(["clamp", "wrap"]))] * shift
        parts = [str(rng.choice(choices)) for _ in range(3)]
        second = [] if parts[0] else [str(rng.choice(["", "add", "min", "max"]))]
        words += [word for word in second if word]
        third = ", %r13" if parts[0] or second[0] else ""
        operands = [f"%r{10 + i}{'.' + part if part else ''}" for i, part in enumerate(parts)]
        body += [f"mov.u32 %r{11 + i}, {value};" for i, value in enumerate(values)]
        body += [f"{name}.{'.'.join(words)} {', '.join(operands)}{third};", f"st.global.u32 [%rd1+{4 * at}], %r10;"]
        expected.append(video(name, ".".join(words), values, parts))
    assert first_words("\n".join(body), 120) == expected


@pytest.mark.parametrize("last", ["@%p3 ret;", "@%p3 exit;", "@%p3 bra BACK;"])
def test_threads_that_run_off_the_end_return(last: str) -> None:
    body = f"""
    mov.u32 %r10, 0;
    BACK: add.u32 %r10, %r10, 1;
    st.global.u32 [%rd1], %r10;
    setp.lt.u32 %p3, %r10, 3;
    {last}
    """
    text = kernel(body)
    text = text[: text.rindex("ret;")] + "}\n"
    y = np.zeros(64, np.uint32)
    emulate(text, "kernel", 1, 1, [y, y])
    assert y[0] == (3 if "bra" in last else 1)
