"""Kernels of one product of a warp group, written by hand: operands go to shared memory as a descriptor says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dsl.runtime.header import Argument, Header, HeaderTensor, SourceRecord, write

WIDTHS = {0: 16, 1: 128, 2: 64, 3: 32}
"""Bytes of a row of the layout, by the descriptor's swizzle."""
BITS = {0: 0, 1: 3, 2: 2, 3: 1}


@dataclass(frozen=True)
class Side:
    """One operand. mode: of the descriptor; across: its rows are neighbours in memory; first: the row of its tile that
    it begins with; eights: rows from eight of them to the next eight, where they do not lie across."""

    mode: int = 1
    across: bool = False
    first: int = 0
    eights: int = 8

    def rows_of_tile(self, rows: int) -> int:
        """How many rows its tile has, whole eights."""
        return -(-(self.first + rows // 8 * self.eights) // 8) * 8


@dataclass(frozen=True)
class Case:
    """d = a @ b.T + start. k: bytes along K of all products together, 32 each. in_registers: a."""

    d: str
    a: str
    b: str
    n: int
    left: Side = Side()
    right: Side = Side()
    k_bytes: int = 64
    in_registers: bool = False
    starts_at_zero: bool = False
    signs: tuple[int, int] = (1, 1)
    saturate: bool = False

    @property
    def is_integer(self) -> bool:
        return self.d == "s32"

    @property
    def size(self) -> int:
        """Bytes of an element of an operand."""
        return {"f16": 2, "bf16": 2, "tf32": 4}.get(self.a, 1)

    @property
    def k(self) -> int:
        return self.k_bytes // self.size

    @property
    def shape(self) -> str:
        return f"m64n{self.n}k{32 // self.size}"


def place(side: Side, rows: int, k_bytes: int, size: int) -> tuple[Any, int, int, int]:
    """([rows, k] byte offsets of elements, leading and stride distances, bytes) of an operand in shared memory.

    Written from the text of the PTX ISA, element by element.
    """
    width, k = WIDTHS[side.mode], k_bytes // size
    offsets = np.zeros((rows, k), np.int64)
    panels = -(-k_bytes // width)
    if not side.across:
        stride = side.eights * width if side.mode else 128
        panel = side.rows_of_tile(rows) * width
        leading = panel if side.mode == 0 else 16
        for r in range(rows):
            for e in range(k):
                byte = e * size
                at = byte // width * panel + r // 8 * stride + (side.first + r % 8) * width + byte % width
                offsets[r, e] = swizzled(at, side.mode)
        return offsets, leading, stride, panel * panels
    many = width // size  # rows side by side
    leading, stride = k * width, 8 * width
    for r in range(rows):
        for e in range(k):
            at = r // many * leading + r % many * size + e // 8 * stride + e % 8 * width
            offsets[r, e] = swizzled(at, side.mode)
    return offsets, leading, stride, -(-rows // many) * leading


def swizzled(at: int, mode: int) -> int:
    mask = (1 << BITS[mode]) - 1
    return at ^ ((at >> 7 & mask) << 4)


def step(side: Side, rows: int, i: int) -> int:
    """Bytes by which the start of product i is behind that of the first one."""
    width = WIDTHS[side.mode]
    if side.across:
        return i * 16 * width
    if side.mode == 0:
        return i * 2 * rows * width
    return 32 * i // width * side.rows_of_tile(rows) * width + 32 * i % width + side.first * width


def descriptor(side: Side, leading: int, stride: int) -> int:
    """Without the start."""
    return (leading >> 4) << 16 | (stride >> 4) << 32 | side.mode << 62


PTX = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry kernel(.param .u64 image, .param .u64 fragments, .param .u64 start, .param .u64 result)
.reqntid 128, 1, 1
.minnctapersm 1
{{
.reg .pred %p<4>;
.reg .b32 %r<300>;
.reg .f32 %f<130>;
.reg .b64 %rd<40>;
.shared .align 1024 .b8 tiles[{bytes}];
mov.u32 %r0, %tid.x;
cvt.u64.u32 %rd9, %r0;
ld.param.u64 %rd0, [image];
ld.param.u64 %rd1, [fragments];
ld.param.u64 %rd2, [start];
ld.param.u64 %rd3, [result];
mov.u32 %r1, tiles;
mul.lo.u32 %r2, %r0, 4;
FILL:
cvt.u64.u32 %rd4, %r2;
add.u64 %rd4, %rd0, %rd4;
ld.global.b32 %r3, [%rd4];
add.u32 %r4, %r1, %r2;
st.shared.b32 [%r4], %r3;
add.u32 %r2, %r2, 512;
setp.lt.u32 %p0, %r2, {bytes};
@%p0 bra FILL;
{proxy}
bar.sync 0;
{load}
setp.ne.u32 %p1, {adds}, 0;
{fence}
{products}
{commit}
{wait}
{store}
ret;
}}
"""


def text(case: Case, **parts: str) -> str:
    """The kernel; `parts` replace lines of it."""
    size = sides(case)[3]
    sums, address = registers(case), "mul.wide.u32 %rd{to}, %r0, {each};\nadd.u64 %rd{to}, %rd{base}, %rd{to};"
    load = [address.format(to=6, base=2, each=4 * len(sums)), address.format(to=7, base=3, each=4 * len(sums))]
    load += [f"ld.global.b32 {each}, [%rd6+{4 * i}];" for i, each in enumerate(sums)]
    load.append(address.format(to=8, base=1, each=case.k_bytes // 2))
    if case.in_registers:
        load += [f"ld.global.b32 %r{20 + i}, [%rd8+{4 * i}];" for i in range(case.k_bytes // 8)]
    load += ["setp.eq.u32 %p2, %r0, %r0;", "mov.u32 %r6, 0;"]
    given = {
        "proxy": "fence.proxy.async;",
        "load": "\n".join(load),
        "adds": "%r6" if case.starts_at_zero else "%r1",
        "fence": "wgmma.fence.sync.aligned;",
        "products": "\n".join(products(case)),
        "commit": "wgmma.commit_group.sync.aligned;",
        "wait": "wgmma.wait_group.sync.aligned 0;",
        "store": "\n".join(f"st.global.b32 [%rd7+{4 * i}], {each};" for i, each in enumerate(sums)),
        "bytes": str(size),
    }
    return PTX.format(**given | parts)


def sides(case: Case) -> tuple[int, int, int, int]:
    """(a's descriptor and b's, without starts, where b begins, bytes of all) in shared memory."""
    _, a_leading, a_stride, a_bytes = place(case.left, 64, case.k_bytes, case.size)
    _, b_leading, b_stride, b_bytes = place(case.right, case.n, case.k_bytes, case.size)
    b_at = -(-a_bytes // 1024) * 1024
    a, b = descriptor(case.left, a_leading, a_stride), descriptor(case.right, b_leading, b_stride)
    return a, b, b_at, -(-(b_at + b_bytes) // 512) * 512


def registers(case: Case) -> list[str]:
    """Of the sums."""
    count = case.n // 2 // (2 if case.d == "f16" else 1)
    return [f"%r{100 + i}" if case.d in ("s32", "f16") else f"%f{i}" for i in range(count)]


def products(case: Case) -> list[str]:
    """The descriptors of all steps along K, then the instructions."""
    a, b, b_at, _ = sides(case)
    lines, steps = [], range(case.k_bytes // 32)
    for i in steps:
        places = ((a, step(case.left, 64, i)), (b, b_at + step(case.right, case.n, i)))
        for register, (rest, at) in enumerate(places, 20 + 2 * i):
            lines += [f"add.u32 %r5, %r1, {at};", "shr.u32 %r5, %r5, 4;", "cvt.u64.u32 %rd10, %r5;"]
            lines.append(f"or.b64 %rd{register}, %rd10, {rest};")
    rest = "" if case.is_integer else f", {case.signs[0]}, {case.signs[1]}"
    if case.size == 2:
        rest += "" if case.in_registers else f", {int(case.left.across)}"
        rest += f", {int(case.right.across)}"
    name = f"wgmma.mma_async.sync.aligned.{case.shape}.{case.d}.{case.a}.{case.b}{'.satfinite' * case.saturate}"
    for i in steps:
        fragment = ", ".join(f"%r{20 + 4 * i + r}" for r in range(4))
        left = f"{{{fragment}}}" if case.in_registers else f"%rd{20 + 2 * i}"
        flag = "%p2" if i else "%p1"
        lines.append(f"{name} {{{', '.join(registers(case))}}}, {left}, %rd{21 + 2 * i}, {flag}{rest};")
    return lines


def numpy_types(case: Case) -> tuple[Any, Any]:
    """Of the bits of an operand's element, and of a sum's."""
    return np.dtype(f"u{case.size}"), np.dtype(np.uint16 if case.d == "f16" else np.uint32)


def image(case: Case, a: Any, b: Any) -> Any:
    """What lies in shared memory: bits of a, [64, k], and of b, [n, k]."""
    _, _, b_at, size = sides(case)
    a_offsets, b_offsets = (
        place(side, rows, case.k_bytes, case.size)[0] for side, rows in ((case.left, 64), (case.right, case.n))
    )
    made = np.zeros(size // case.size, a.dtype)
    made[a_offsets // case.size] = a
    made[(b_at + b_offsets) // case.size] = b
    return made.view(np.uint32)


def sums_at(n: int) -> tuple[Any, Any]:
    """(rows, columns) of the sums of each of 128 threads, [128, n / 2]: PTX ISA, figure "Layout of accumulator D"."""
    thread, e = np.arange(128)[:, None], np.arange(n // 2)[None, :]
    rows = thread // 32 * 16 + thread % 32 // 4 + e // 2 % 2 * 8
    return rows, thread % 4 * 2 + e % 2 + e // 4 * 8 + 0 * rows


def fragments(case: Case, a: Any) -> Any:
    """[128, 4 · steps] registers of a, as PTX ISA's figures of A in registers have them."""
    per = 4 // case.size
    steps, k = case.k_bytes // 32, 32 // case.size
    thread = np.arange(128)
    made = np.zeros((128, 4 * steps, per), a.dtype)
    for i in range(steps):
        for r in range(4):
            row = thread // 32 * 16 + thread % 32 // 4 + r % 2 * 8
            for e in range(per):
                made[:, 4 * i + r, e] = a[row, i * k + thread % 4 * per + e + r // 2 * (k // 2)]
    return made.reshape(128, -1).view(np.uint32)


def headed(case: Case) -> str:
    """The kernel with a header, for `dsl.runtime.Kernel`: a block of 128 threads."""
    names = ("image", "fragments", "start", "result")
    params = [HeaderTensor(name, "u32", (f"n_{name}",), strided=False, access="rw", align=16) for name in names]
    header = Header(
        entry="kernel",
        kernel="kernel",
        schedule=None,
        source=SourceRecord("warpgroup.tile", "0" * 64),
        arch="sm_90a",
        constants={},
        threads=128,
        cluster=1,
        shared_bytes=0,
        maxnreg=None,
        dims=tuple(f"n_{name}" for name in names),
        params=tuple(params),
        arguments=tuple(Argument("pointer", name) for name in names),
        grid=(1, 1, 1),
        index_bits=32,
    )
    return write(header) + text(case)
