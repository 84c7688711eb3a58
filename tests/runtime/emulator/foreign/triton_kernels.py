"""Kernels in Triton 3.9, whose PTX for sm_90a lies beside this file: `python triton_kernels.py` makes it again.

No GPU is asked for. Maps of tensors are those of the host: a kernel takes a map, then its extents and strides.
"""

# mypy: ignore-errors
# What Triton compiles is not all of Python.
# ruff: noqa: B007, RUF005, SIM113
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)


@triton.jit
def plain(a, b, c, m, n, k, bk: tl.constexpr, bn: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """By pointers, with the edges masked: cp.async and wgmma. b[k, n] lies at b + k * bk + n * bn; 0 means n or k."""
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    depth = tl.arange(0, K)
    sums = tl.zeros((M, N), tl.int32 if c.dtype.element_ty == tl.int32 else tl.float32)
    for at in range(0, k, K):
        inside = at + depth < k
        left = tl.load(a + rows[:, None] * k + (at + depth)[None, :], (rows < m)[:, None] & inside[None, :], 0)
        places = (at + depth)[:, None] * (bk or n) + columns[None, :] * (bn or k)
        right = tl.load(b + places, inside[:, None] & (columns < n)[None, :], 0)
        sums = tl.dot(left, right, sums, out_dtype=sums.dtype)
    to = c + rows[:, None] * n + columns[None, :]
    tl.store(to, sums.to(c.dtype.element_ty), (rows < m)[:, None] & (columns < n)[None, :])


@triton.jit
def boxes(a, b, c, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """Bytes of f8 by boxes, both along k."""
    row, column = tl.program_id(0) * M, tl.program_id(1) * N
    sums = tl.zeros((M, N), tl.float32)
    for at in range(0, k, K):
        sums = tl.dot(a.load([row, at]), b.load([column, at]).T, sums)
    c.store([row, column], sums.to(tl.float16))


@triton.jit
def turns(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, W: tl.constexpr):
    """Blocks take tiles in turn; b across k. W: warps have roles."""
    across = tl.cdiv(n, N)
    for tile in tl.range(tl.program_id(0), across * tl.cdiv(m, M), tl.num_programs(0), warp_specialize=W):
        row, column = tile // across * M, tile % across * N
        sums = tl.zeros((M, N), tl.float32)
        for at in range(0, k, K):
            sums = tl.dot(a.load([row, at]), b.load([at, column]), sums)
        c.store([row, column], sums.to(tl.bfloat16))


@triton.jit
def softmax(x, y, n, N: tl.constexpr):
    """Of a row, whose length is no multiple of anything: words that are loaded one by one."""
    columns = tl.arange(0, N)
    row = tl.program_id(0) * n
    values = tl.load(x + row + columns, columns < n, float("-inf"))
    weights = tl.exp(values - tl.max(values, 0))
    tl.store(y + row + columns, weights / tl.sum(weights, 0), columns < n)


@triton.jit
def attention(q, k, v, o, scale, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    """Causal, in one pass; the left operand of the second product lies in registers. scale: of powers of two."""
    row = tl.program_id(0) * M
    rows, mine = row + tl.arange(0, M), q.load([row, 0])
    best, total = tl.full((M,), float("-inf"), tl.float32), tl.zeros((M,), tl.float32)
    sums = tl.zeros((M, D), tl.float32)
    for at in range(0, row + M, N):
        scores = tl.dot(mine, k.load([at, 0]).T) * scale
        scores = tl.where(rows[:, None] >= at + tl.arange(0, N)[None, :], scores, float("-inf"))
        most = tl.maximum(best, tl.max(scores, 1))
        weights, shrink = tl.exp2(scores - most[:, None]), tl.exp2(best - most)
        total = total * shrink + tl.sum(weights, 1)
        sums = tl.dot(weights.to(tl.float16), v.load([at, 0]), sums * shrink[:, None])
        best = most
    o.store([row, 0], (sums / total[:, None]).to(tl.float16))


@triton.jit
def shares(a, b, c, lock, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, LOCKED: tl.constexpr):
    """Blocks have shares of k, of tf32, and add their sums one by one: behind a lock or with atomic additions."""
    rows, columns, depth = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    sums = tl.zeros((M, N), tl.float32)
    for at in range(tl.program_id(1) * K, k, tl.num_programs(1) * K):
        left = tl.load(a + rows[:, None] * k + (at + depth)[None, :])
        right = tl.load(b + (at + depth)[:, None] * n + columns[None, :])
        sums = tl.dot(left, right, sums)
    to = c + rows[:, None] * n + columns[None, :]
    if LOCKED:
        own = lock + tl.program_id(0)
        while tl.atomic_cas(own, 0, 1) == 1:
            pass
        tl.store(to, tl.load(to) + sums)
        tl.debug_barrier()
        tl.atomic_xchg(own, 0)
    else:
        tl.atomic_add(to, sums)


@gluon.jit
def fetch(a, b, row, column, k, left, right, full, empty, K: gl.constexpr, SLOTS: gl.constexpr):
    number = 0
    for at in range(0, k, K):
        slot = number % SLOTS
        mbarrier.wait(empty.index(slot), (number // SLOTS & 1) ^ 1)
        mbarrier.expect(full.index(slot), a.nbytes_per_cta + b.nbytes_per_cta)
        tma.async_load(a, [row, at], full.index(slot), left.index(slot))
        tma.async_load(b, [column, at], full.index(slot), right.index(slot))
        number += 1


@gluon.jit
def multiply(c, row, column, k, left, right, full, empty, K: gl.constexpr, SLOTS: gl.constexpr):
    M: gl.constexpr = c.block_type.shape[0]
    N: gl.constexpr = c.block_type.shape[1]
    own: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, N, 16])
    sums = gl.zeros((M, N), gl.float32, own)
    number = 0
    for at in range(0, k, K):
        slot = number % SLOTS
        mbarrier.wait(full.index(slot), number // SLOTS & 1)
        sums = warpgroup_mma(left.index(slot), right.index(slot).permute((1, 0)), sums, is_async=True)
        sums = warpgroup_mma_wait(1, deps=(sums,))
        mbarrier.arrive(empty.index((number + SLOTS - 1) % SLOTS), pred=number > 0)
        number += 1
    result = warpgroup_mma_wait(0, deps=(sums,))
    out = gl.allocate_shared_memory(c.dtype, (M, N), c.layout)
    out.store(result.to(c.dtype))
    fence_async_shared()
    tma.async_store(c, [row, column], out)
    tma.store_wait(0)


@gluon.jit
def roles(a, b, c, k, SLOTS: gl.constexpr):
    """Two roles, written out: one warp fetches, four multiply what lies in the slots."""
    K: gl.constexpr = a.block_type.shape[1]
    row = gl.program_id(0) * c.block_type.shape[0]
    column = gl.program_id(1) * c.block_type.shape[1]
    left = gl.allocate_shared_memory(a.dtype, [SLOTS] + a.block_type.shape, a.layout)
    right = gl.allocate_shared_memory(b.dtype, [SLOTS] + b.block_type.shape, b.layout)
    full = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(SLOTS):
        mbarrier.init(full.index(slot), count=1)
        mbarrier.init(empty.index(slot), count=1)
    fence_async_shared()
    gl.warp_specialize(
        [
            (multiply, (c, row, column, k, left, right, full, empty, K, SLOTS)),
            (fetch, (a, b, row, column, k, left, right, full, empty, K, SLOTS)),
        ],
        [1],
        [40],
    )


def made(kernel, name, types, constants, divisible=(), warps=4, source=ASTSource):
    signature = types | dict.fromkeys(constants, "constexpr")
    names = list(signature)
    attributes = {(names.index(each),): [["tt.divisibility", 16]] for each in divisible}
    given = source(kernel, signature=signature, constexprs=constants, attrs=attributes)
    options = {"num_warps": warps, "num_stages": 3}
    found = triton.compile(given, target=GPUTarget("cuda", 90, 32), options=options)
    own = Path(__file__)
    text = found.asm["ptx"].replace(str(own), own.name).replace(str(own.parent), ".")
    text = text.replace(str(Path(triton.__file__).parent), "triton")
    text = text[: text.find("\t.section")] + "\n"  # debug information, but for lines
    own.with_name(f"triton_{name}.ptx").write_text(text)
    print(name, found.metadata.shared, found.metadata.num_warps)


def main():
    pointers, ints = ("a", "b", "c"), {"m": "i32", "n": "i32", "k": "i32"}
    tile = {"M": 64, "N": 64, "K": 64}
    made(
        plain, "plain", {"a": "*fp16", "b": "*fp16", "c": "*fp16"} | ints, {"bk": 0, "bn": 1} | tile, (*pointers, *ints)
    )
    made(plain, "bytes", {"a": "*i8", "b": "*i8", "c": "*i32"} | ints, {"bk": 1, "bn": 0} | tile, (*pointers, *ints))
    made(softmax, "softmax", {"x": "*fp32", "y": "*fp32", "n": "i32"}, {"N": 512})
    f16 = dict.fromkeys("qkvo", "tensordesc<fp16[64,64]>")
    made(attention, "attention", f16 | {"scale": "fp32"}, {"M": 64, "N": 64, "D": 64})
    f32 = dict.fromkeys(pointers, "*fp32") | {"lock": "*i32", "n": "i32", "k": "i32"}
    part = {"M": 64, "N": 64, "K": 32}
    made(shares, "locked", f32, part | {"LOCKED": True}, (*pointers, "n", "k"))
    made(shares, "added", f32, part | {"LOCKED": False}, (*pointers, "n", "k"))
    f8 = {"a": "tensordesc<fp8e4nv[128,64]>", "b": "tensordesc<fp8e4nv[64,64]>", "c": "tensordesc<fp16[128,64]>"}
    made(boxes, "boxes", f8 | {"k": "i32"}, {"M": 128, "N": 64, "K": 64}, ("k",))
    bf16 = dict.fromkeys(pointers, "tensordesc<bf16[64,64]>")
    made(turns, "turns", bf16 | ints, tile | {"W": False}, ints)
    made(turns, "halves", bf16 | ints, tile | {"W": True}, ints)
    layout = str(gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2))
    kinds = dict.fromkeys(pointers, f"tensordesc<fp16[64,64],{layout}>")
    made(roles, "roles", kinds | {"k": "i32"}, {"SLOTS": 3}, ("k",), source=GluonASTSource)


if __name__ == "__main__":
    main()
