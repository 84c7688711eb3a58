"""A kernel, written by hand, of one product of a warp group: a row of wgmma on given registers and tiles."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from template_meaning import decode, encode

from dsl.ptx_templates import Fragment, Instruction, instruction
from dsl.runtime import Kernel
from dsl.runtime.header import Argument, Header, HeaderTensor, SourceRecord, write

THREADS, LANES = 128, 32
ROWS = 64
STEP = 32
"""Bytes of a row of an operand."""
SWIZZLE = 3 << 62 | (8 * STEP >> 4) << 32 | 1 << 16
"""A descriptor of such rows without its start: the swizzle of 32 bytes, eight rows one behind the other."""
ARGUMENTS = ("image", "inputs", "outputs")


@dataclass(frozen=True)
class Product:
    """What the name of a row says."""

    row: Instruction
    columns: int
    k: int
    total: str
    left: str
    right: str
    in_registers: bool = field(default=False)


def product(row: Instruction) -> Product:
    shape, total, left, right, *form = row.name.removeprefix("wgmma.mma_async.sync.aligned.m64n").split(".")
    columns, k = map(int, shape.split("k"))
    return Product(row, columns, k, total, left, right, form == ["registers"])


def places(fragment: Fragment, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the elements, [threads, elements of a thread]."""
    both = [[fragment.coordinate(t % LANES, i, t // LANES) for i in range(count)] for t in range(THREADS)]
    return tuple(np.moveaxis(np.array(both), -1, 0))


def image_of(tiles: list[np.ndarray], kinds: list[str]) -> np.ndarray:
    """Bytes of shared memory: the tiles one behind the other, of each second four rows with its 16 bytes swapped."""
    raw = np.frombuffer(
        b"".join(encode(tile, kind) for tile, kind in zip(tiles, kinds, strict=True)), np.uint8
    ).reshape(-1, 2, STEP // 2)
    swapped = (np.arange(len(raw)) // 4 % 2).astype(bool)
    made = np.where(swapped[:, None, None], raw[:, ::-1], raw)
    return np.concatenate([made.ravel(), np.zeros(-made.size % (4 * THREADS), np.uint8)])


def kernel(of: Product, image: int) -> str:
    """PTX text with the entry `product(image, inputs, outputs)`; of each thread the sums, a's registers and scale_d."""
    row, sums = of.row, [f"%{'r' if of.total == 's32' else 'f'}{16 + i}" for i in range(of.row["d"].registers)]
    fragment = ["%r10", "%r11", "%r12", "%r13"] if of.in_registers else []
    given = [*sums, *fragment, "%r9"]
    left = "{" + ", ".join(fragment) + "}" if fragment else "%l5"
    product = row.filled(d="{" + ", ".join(sums) + "}", a=left, b="%l6", scale_d="%p0", a_across="0", b_across="0")
    assert not product.operands
    descriptors = [
        f"add.u32 %r2, %r1, {at}; shr.u32 %r2, %r2, 4; cvt.u64.u32 {name}, %r2; or.b64 {name}, {name}, {SWIZZLE};"
        for name, at in (("%l5", 0), ("%l6", ROWS * STEP))
    ]
    lines = [
        ".reg .pred %p<1>; .reg .b32 %r<150>; .reg .f32 %f<150>; .reg .b64 %l<8>;",
        f".shared .align 1024 .b8 tiles[{image}];",
        "ld.param.b64 %l0, [image]; ld.param.b64 %l1, [inputs]; ld.param.b64 %l2, [outputs];",
        "mov.u32 %r0, %tid.x; mov.u32 %r1, tiles;",
        f"mad.wide.u32 %l1, %r0, {4 * len(given)}, %l1; mad.wide.u32 %l2, %r0, {4 * len(sums)}, %l2;",
        "mad.wide.u32 %l0, %r0, 4, %l0; mad.lo.u32 %r3, %r0, 4, %r1;",
        *(f"ld.global.b32 %r2, [%l0+{i}]; st.shared.b32 [%r3+{i}], %r2;" for i in range(0, image, 4 * THREADS)),
        instruction("fence.proxy.async.shared::cta").asm,
        "bar.sync 0;",
        *(f"ld.global.b32 {name}, [%l1+{4 * i}];" for i, name in enumerate(given)),
        "setp.ne.u32 %p0, %r9, 0;",
        *descriptors,
        instruction("wgmma.fence.sync.aligned").asm,
        product.asm,
        instruction("wgmma.commit_group.sync.aligned").asm,
        instruction("wgmma.wait_group.sync.aligned").filled(n="0").asm,
        *(f"st.global.b32 [%l2+{4 * i}], {name};" for i, name in enumerate(sums)),
        "ret;",
    ]
    sizes = (image, 4 * THREADS * len(given), 4 * THREADS * len(sums))
    header = Header(
        entry="product",
        kernel="product",
        schedule=None,
        source=SourceRecord("product.tile", "0" * 64),
        arch=row.target,
        constants={},
        threads=THREADS,
        cluster=1,
        shared_bytes=0,
        maxnreg=None,
        dims=(),
        params=tuple(
            HeaderTensor(name, "u8", (size,), strided=False, access="rw", align=16)
            for name, size in zip(ARGUMENTS, sizes, strict=True)
        ),
        arguments=tuple(Argument("pointer", name) for name in ARGUMENTS),
        grid=(1, 1, 1),
        index_bits=32,
        requires=(),
    )
    parameters, text = ", ".join(f".param .u64 {name}" for name in ARGUMENTS), "\n".join(lines)
    return write(header) + (
        f".version {row.ptx[0]}.{row.ptx[1]}\n.target {row.target}\n.address_size 64\n"
        f".visible .entry product({parameters})\n.reqntid {THREADS}, 1, 1\n{{\n{text}\n}}\n"
    )


def run(of: Product, adds: bool, device: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The tile of the sums, as the device gave it and by the row's meaning. Operands are small integers, exact in all
    types, or for s32 all values."""

    def some(rows: int, columns: int, kind: str) -> np.ndarray:
        if kind in ("s8", "u8", "s32"):
            return decode(rng.bytes(rows * columns * int(kind[1:]) // 8), kind).reshape(rows, columns)
        return rng.integers(-4, 5, (rows, columns)).astype(np.float64)

    a, b, start = some(ROWS, of.k, of.left), some(of.columns, of.k, of.right), some(ROWS, of.columns, of.total)
    words = {"d": start, "a": a if of.in_registers else "a", "b": "b", "scale_d": adds}
    along = {"a_across": 0, "b_across": 0, "across": lambda x, flag: x.T if flag else x}
    exec(of.row.meaning, words | along | {"shared_matrix": {"a": a, "b": b}}, words)

    count, sums = of.row["d"].registers, of.row["d"].fragment
    assert sums is not None
    parts = [encode(start[places(sums, count)], of.total)]
    if of.in_registers:
        fragment = of.row["a"].fragment
        assert fragment is not None
        parts.append(encode(a[places(fragment, 2 ** len(fragment.register))], of.left))
    parts.append(encode(np.full(THREADS, adds), "b32"))
    inputs = np.concatenate([np.frombuffer(part, np.uint8).reshape(THREADS, -1) for part in parts], axis=1)
    image = image_of([a, b], [of.left, of.right])
    outputs = np.zeros(THREADS * count * 4, np.uint8)
    Kernel(kernel(of, image.size), device=device)(image, np.ascontiguousarray(inputs).ravel(), outputs)
    found = np.full((ROWS, of.columns), np.nan)
    found[places(sums, count)] = decode(outputs.tobytes(), of.total).reshape(THREADS, count)
    exact = words["d"].astype(np.int32) if of.total == "s32" else words["d"]
    return found, exact.astype(np.float64)
