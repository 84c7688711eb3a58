"""Programs with random damage: each is accepted or refused with a place, in bounded time and memory, and never crashes.

The damage is drawn from a fixed seed, one for each number, so that a number that fails is its own reproduction.
"""

from __future__ import annotations

import os
import random
import re
import resource
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from dsl.examples.one_kernel import LaunchSettings
from dsl.examples.overrides import Overrides
from dsl.examples.run import run_example
from dsl.kernels.compile import compile_variant
from dsl.kernels.variant import Request
from dsl.lowering.ir.location import TileError
from dsl.runtime import DeviceError, LaunchError
from dsl.studies.check import check_file
from dsl.text.program import dim_names, load
from tests.whole import is_whole

COUNT = int(os.environ.get("DSL_MUTATIONS", "250" if is_whole() else "125"))  # 8 s
BATCH = 125
HANG = 120  # seconds, after which a batch is stopped; a quiet core takes 3
COMPILED = min(25, COUNT // 6)  # survivors that go through LLVM as well; of 125 programs, 22 survive
BUDGET = 200_000  # instructions of a warp that one launch may run on the emulator
MEBIBYTES = 512  # that all of a batch may add

SAMPLES = Path(__file__).parents[2] / "samples"
PIPELINE = """\
def grouped(t, tm, tn; GROUP):
    first = t // (GROUP * tn) * GROUP
    high = minimum(tm - first, GROUP)
    return first + t % (GROUP * tn) % high, t % (GROUP * tn) // high

kernel product(c: f32[m, n], a: T[m, k], b: T[k, n]; T in f16|f32, TM, TN, TK, STAGES, GROUP = 4):
    grid cdiv(m, TM) * cdiv(n, TN)
    bi, bj = grouped(block(0), cdiv(m, TM), cdiv(n, TN), GROUP=GROUP)
    i, j = bi * TM, bj * TN
    shared sa: T[ring STAGES, TM, TK]
    shared sb: T[ring STAGES, TK, TN]
    def fetch(s):
        copy(sa[s], a[i : i + TM, s * TK : s * TK + TK])
        copy(sb[s], b[s * TK : s * TK + TK, j : j + TN])
        commit()
    for static s in range(STAGES - 1):
        fetch(s)
    acc = zeros(f32[TM, TN])
    for s in range(cdiv(k, TK)):
        wait(STAGES - 2)
        fetch(s + STAGES - 1)
        for static q in range(TK):
            acc = fma(sa[s, :, q].to(f32)[:, None], sb[s, q, :].to(f32), acc)
    store(c[i : i + TM, j : j + TN], acc)

schedule wide of product:
    TM, TN, TK, STAGES = 16, 32, 4, 3
    tune warps in 2, 4
    layout acc: vector [1, 4], lanes [4, 8], warps [2, 1]

example:
    m, n, k = 40, 50, 30
    a = randn(f16[m, k])
    b = randn(f16[k, n])
    c = empty(f32[m, n])
    product(c, a, b)
    expect c ~= a.to(f32) @ b.to(f32) within 1
    computes 2 * m * n * k
"""
ATOMICS = """\
kernel histogram(h: u32[bins], x: u8[n], edges: table s32[3], scale: f32, mask: u8[n]?; BLOCK = 256, MODE in s32|u32):
    grid minimum(cdiv(n, BLOCK), 2 * sms)
    assert bins >= 4, "too few bins"
    shared counts: u32[256]
    t = arange(BLOCK)
    counts[t] = 0
    barrier()
    for i in range(block(0) * BLOCK, n, grid(0) * BLOCK):
        v = x[i : i + BLOCK].to(MODE)
        if given(mask):
            v = where(mask[i : i + BLOCK] != 0, v, 0)
        k = where(v < edges[0].to(MODE), 0, where(v < edges[1].to(MODE), 1, 2))
        w = (v.to(f32) * scale) ** 2
        w = w + shfl.xor(w, 1)
        if w > 1.0e3:
            atomic_add(counts[k], 1)
        elif n > 3 and not (n == 5):
            v = v + 1
        else:
            v = v ^ 0x7f
    d = 1
    while d < 4:
        d = d << 1
    s = cumsum(counts[t], axis=0)
    m = argmax(s)
    atomic_add(h[t], s + m.to(u32) * 0, mask=t < bins)

schedule plain of histogram:
    BLOCK = 256
    warps = 8
    evict x: first
    maxnreg 64
    layout v: vector [1], lanes [32], warps [8]

dispatch count(h, x):
    option EXACT in true, false
    require n > 0
    p = workspace(u32[4 * sms], zero)
    if n < 100000 and EXACT: histogram(h, x, [10, 20, 30], 1.5) with plain
    else: histogram(h, x, [10, 20, 30], 1.5, x) with plain, BLOCK=128

example ones:
    x = randint(0, 255, u8[1000])
    h = zeros(u32[256])
    count(h, x)
    expect h >= 0
    moves bytes(x) + bytes(h)
"""

TOKEN = re.compile(r'\s+|#[^\n]*|"[^"\n]*"|\d[\w.]*|\w+|\*\*|//|<<|>>|[<>=!]=|.', re.S)
NUMBERS = ["0", "-1", "3", "7", "2147483648", "1e400", "0x", "1000", "0.5", "1" * 5000, "18446744073709551616", "true"]
TEXTS = ["\0", "é", "\u202e", "\t", "\r", "  ", "\n", "\n\n    ", '"', "'", "#", "\\", ";", "inf", "nan", "None", "f32",
         "T", "x", "(", ")", "[", "]", ":", ",", "=", "==", "-", "not ", "@", "**", "?", " if ", "return 1\n",
         "\ufeff", "\U0001f600", "\x1b[31m"]  # fmt: skip


KINDS = (2, 1, 2, 2, 4, 4, 6, 1, 1, 3, 2, 2, 1, 1, 1, 1)  # how often each kind of damage is done
WEIGHTS = {"add": 3, "gelu": 3, "softmax": 1, "pipeline": 6, "atomics": 6}


@cache
def seeds() -> dict[str, str]:
    texts = {"pipeline": PIPELINE, "atomics": ATOMICS}
    return {name: texts.get(name) or (SAMPLES / f"{name}.tile").read_text() for name in WEIGHTS}


def mutated(text: str, draw: random.Random) -> str:
    """`text` with one to three mistakes."""
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        tokens = TOKEN.findall(text) or [" "]
        words = [i for i, t in enumerate(tokens) if t.strip()] or [0]
        at, other = draw.choice(words), draw.choice(words)
        kind = draw.choices(range(16), KINDS)[0]
        lines = text.split("\n")
        line, line2 = draw.randrange(len(lines)), draw.randrange(len(lines))
        if kind == 0:
            tokens[at] = ""
        elif kind == 1:
            tokens[at] *= 2
        elif kind == 2:
            tokens[at], tokens[other] = tokens[other], tokens[at]
        elif kind == 3:
            tokens[at] = tokens[other]
        elif kind in (4, 5):
            numbers = [i for i in words if tokens[i][0].isdigit()] or [at]
            tokens[draw.choice(numbers)] = draw.choice(NUMBERS)
        elif kind == 6:
            names = [i for i in words if tokens[i].isidentifier()] or [at]
            tokens[draw.choice(names)] = draw.choice([tokens[draw.choice(names)], "unknown", "x", "n", "T"])
        elif kind in (7, 8):
            tokens.insert(at, draw.choice(TEXTS))
        elif kind == 9:
            del lines[line]
        elif kind == 10:
            lines.insert(line2, lines[line])
        elif kind == 11:
            lines[line], lines[line2] = lines[line2], lines[line]
        elif kind == 12:
            lines[line] = " " * draw.choice((1, 2, 4, 8)) + lines[line] if draw.random() < 0.5 else lines[line].lstrip()
        elif kind == 13:
            tokens[at] = (
                draw.choice(("(", "[", "-", "not ", "1 + ", "f(", "x[", "x.")) * draw.choice((3, 150, 1000))
                + tokens[at]
            )
        elif kind == 14:
            tokens[at] = draw.choice((tokens[at] * 2000, "y" * 100000, " " * 100000 + tokens[at], "+1" * 1000))
        else:
            position = draw.randrange(len(text) + 1)
            noise = "".join(chr(draw.randrange(256)) for _ in range(draw.choice((1, 4, 30))))
            text = text[:position] + noise + text[position + draw.choice((0, 1, 20)) :]
            continue
        text = "\n".join(lines) if 9 <= kind <= 12 else "".join(tokens)
    return text


def program(number: int) -> str:
    draw = random.Random(number)
    name = draw.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    return mutated(seeds()[name], draw)


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    """A program that does not end fails its test, which names it in the traceback's `number`."""

    def fail(*_: object) -> None:
        raise TimeoutError(f"no end within {HANG} s")

    outer = signal.signal(signal.SIGALRM, fail)
    signal.alarm(HANG)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, outer)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mutated.tile"


REFUSED: dict[int, bool] = {}
"""Of the programs that this worker has checked."""


def is_refused(number: int, path: Path) -> bool:
    if number not in REFUSED:
        path.write_text(program(number))
        REFUSED[number] = bool(check_file(path).errors)
    return REFUSED[number]


@pytest.mark.parametrize("first", range(0, COUNT, BATCH))
def test_damage_is_refused_with_a_place(first: int, path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(first, first + BATCH):
        path.write_text(program(number))
        errors = check_file(path).errors
        REFUSED[number] = bool(errors)
        for error in errors:
            assert error.loc is not None, f"program {number}: {error}"
            assert "\x1b" not in error.render()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEBIBYTES << 10


def test_survivors_compile(path: Path) -> None:
    """What the check accepts goes through LLVM, and half of it runs on the emulator or ends in an error of its own."""
    compiled = 0
    for number in range(COUNT):
        if is_refused(number, path):
            continue
        path.write_text(program(number))
        parsed = load(path)
        for kernel in list(parsed.kernels.values())[:1]:
            schedule = next(iter(parsed.schedules_of(kernel.name)), None)
            try:
                compile_variant(parsed, Request(kernel.name, schedule, dict.fromkeys(dim_names(kernel), 64)))
            except TileError as error:
                assert error.loc is not None, f"program {number}: {error}"
        compiled += 1
        for example in parsed.examples if compiled % 2 else ():
            try:
                run_example(parsed, example, "emulator", "", Overrides(), LaunchSettings(budget=BUDGET))
            except TileError as error:
                assert error.loc is not None, f"program {number}: {error}"
            except (LaunchError, DeviceError) as error:
                assert error.message, f"program {number}"
        if compiled == COMPILED:
            break
    assert compiled == COMPILED


def test_the_programs_are_right(path: Path) -> None:
    for text in seeds().values():
        path.write_text(text)
        assert not check_file(path).errors, text
