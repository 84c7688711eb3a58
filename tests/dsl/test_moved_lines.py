"""Lines that a schedule speaks of, moved into a `def` under other names: its lines stay, and so does the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dsl.kernels.compile import compile_variant
from dsl.kernels.variant import Request
from dsl.lowering.ir.location import TileError
from dsl.text.program import parse_program

SAMPLES = Path(__file__).parents[2] / "samples"
CENTRED = """
kernel centred(y: f16[m, n], x: f16[m, n]):
    grid 1
    v = load(x[0 : 16, 0 : 64]).to(f32)
    shared s: f32[16, 64]
    s[:, :] = v
    for k in range(8):
        v = v + s[:, :]
    y[0 : 16, 0 : 64] = (v - max(v, axis=1, keepdims=true)).to(f16)

schedule all of centred:
    warps = 4
    layout v: vector [1, 8], lanes [4, 8], warps [4, 1]
    choose recompute.v: anew
    unroll k: 2
    swizzle s: 2, 4, 3
"""
PRODUCT = """
kernel product(c: f32[64, 64], a: f16[64, 64], b: f16[64, 64]):
    grid 1
    acc = dot(load(a[0 : 64, 0 : 64]), load(b[0 : 64, 0 : 64]), zeros(f32[64, 64]))
    store(c[0 : 64, 0 : 64], acc)

schedule all of product:
    warps = 4
    instruction acc: mma.sync.m16n8k8
    layout acc: warps [4, 1]
"""
CONV = """\
    total = zeros(f32[BLOCK])
    for static k in range(3):
        total = total + load(x[i + k : i + k + BLOCK])
"""
SQUARES = """\
    squares = zeros(f32[CHUNK])
    for i in range(0, cols, CHUNK):
        v = load(x[r, i : i + CHUNK]).to(f32)
        squares = squares + v * v
"""
STREAMED = f"""
kernel streamed(y: f32[rows], x: f16[rows, cols]; CHUNK):
    grid rows
    r = block(0)
{SQUARES}    y[r] = sum(squares)

schedule stream of streamed:
    warps = 16
    CHUNK = warps * 256
    layout v, squares: vector [8], lanes [32], warps [warps]
"""
FIRST = "    v = load(x[0 : 16, 0 : 64]).to(f32)\n"
DOT = "    acc = dot(load(a[0 : 64, 0 : 64]), load(b[0 : 64, 0 : 64]), zeros(f32[64, 64]))\n"
CENTRED_LINES = CENTRED[CENTRED.index(FIRST) : CENTRED.index("    y[0")]


def moved(text: str, lines: str, call: str, old: str, new: str) -> str:
    """The text with these lines in a def that `call` calls, where `old` is called `new`, in the lines' place."""
    assert text.count(lines) == 1
    body = re.sub(rf"\b{old}\b", new, lines)
    place = text.replace(lines, f"    {old} = {call}\n")
    return (
        f"def {call.replace(', ...', '; BLOCK' if 'BLOCK' in lines else '; CHUNK')}:\n{body}    return {new}\n{place}"
    )


def code(text: str, request: Request) -> str:
    """PTX without places and what names them."""
    ptx = compile_variant(parse_program(text), request).ptx
    return "\n".join(
        row for row in ptx.splitlines() if not re.match(r"//|\s*\.(loc|file)\b|\$L__tmp", row) and "L__info" not in row
    ).partition("\t.section")[0]


@pytest.mark.parametrize(
    ("text", "lines", "call", "old", "new", "variant"),
    [
        ("conv1d", CONV, "three(x, i, ...)", "total", "part", Request("naive", "lanes", {"n": 1024, "m": 1026}, {})),
        (
            STREAMED,
            SQUARES,
            "powers(x, r, cols, ...)",
            "squares",
            "sums",
            Request("streamed", "stream", {"rows": 8, "cols": 32760}, {}),
        ),
        (CENTRED, FIRST, "first(x)", "v", "w", Request("centred", "all", {"m": 16, "n": 64}, {})),
        (CENTRED, CENTRED_LINES, "summed(x)", "v", "v", Request("centred", "all", {"m": 16, "n": 64}, {})),
        (PRODUCT, DOT, "multiplied(a, b)", "acc", "sums", Request("product", "all", {}, {})),
    ],
)
def test_lines_moved_into_a_def_keep_what_the_schedule_says(
    text: str, lines: str, call: str, old: str, new: str, variant: Request
) -> None:
    if not text.startswith("\n"):
        text = (SAMPLES / f"{text}.tile").read_text()
    assert code(moved(text, lines, call, old, new), variant) == code(text, variant)


def test_recompute_names_the_elements_of_a_tuple() -> None:
    text = """
def parts(x):
    return load(x[0 : 512]).to(f32), load(x[512 : 1024]).to(f32)

kernel halves(y: f16[n], x: f16[n]):
    grid 1
    v = parts(x)
    for static k in range(2):
        y[k * 512 : k * 512 + 512] = (v[k] - max(v[k])).to(f16)

schedule held of halves:
    warps = 4
schedule anew of halves:
    like held
    choose recompute.v: anew
"""
    counts = [code(text, Request("halves", name, {"n": 1024}, {})).count("cvt.f32.f16") for name in ("held", "anew")]
    assert counts == [8, 16]


def test_a_name_that_is_inside_alone_is_the_one_inside() -> None:
    """A def's own name goes on to be one: what it returns is called otherwise only where the schedule says so."""
    text = moved(CENTRED, FIRST, "first(x)", "v", "w")
    inside = text.replace("layout v:", "layout w:").replace("choose recompute.v: anew", "choose recompute.w: anew")
    code(inside, Request("centred", "all", {"m": 16, "n": 64}, {}))
    with pytest.raises(TileError, match="no value 'u' to lay out"):
        code(inside.replace("layout w:", "layout u:"), Request("centred", "all", {"m": 16, "n": 64}, {}))
