"""A kernel written by hand that copies a box of an array into shared memory by TMA, and what it must find there."""

from __future__ import annotations

from typing import Any

import hand_written
import numpy as np

from dsl.runtime.header import Argument, HeaderTensor, Scalar

BOX = """
    .reg .pred %p; .reg .b32 %t, %n, %x, %y, %to, %bar, %w; .reg .b64 %out, %map, %o;
    .shared .align 1024 .b8 tile[{bytes}];
    .shared .align 8 .b64 full;
    mov.u32 %t, %tid.x; mov.u32 %to, tile; mov.u32 %bar, full;
    setp.ne.u32 %p, %t, 0; @%p bra READY;
    mbarrier.init.shared::cta.b64 [%bar], 1;
    fence.mbarrier_init.release.cluster;
    fence.proxy.async.shared::cta;
READY:
    bar.sync 0;
    @%p bra WAIT;
    ld.param.u32 %x, [box_2]; ld.param.u32 %y, [box_3];
    mov.b64 %map, box_1; cvta.param.u64 %map, %map;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], {bytes};
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%to], [%map, {{%x, %y}}], [%bar];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0;
    @!%p bra WAIT;
    ld.param.u64 %out, [box_0]; cvta.to.global.u64 %out, %out;
    shl.b32 %n, %t, 2;
NEXT:
    setp.ge.u32 %p, %n, {bytes}; @%p bra DONE;
    add.u32 %w, %to, %n; ld.shared.u32 %w, [%w];
    cvt.u64.u32 %o, %n; add.s64 %o, %out, %o; st.global.u32 [%o], %w;
    add.u32 %n, %n, 128; bra NEXT;
DONE: ret;"""


def boxes(dtype: str, axes: tuple[int, int], box: tuple[int, int], swizzle: int, **changes: Any) -> str:
    """out = the bytes of the box of `a` that begins at element x along axes[0] and y along axes[1], as they lie in
    shared memory. `changes` are of the header."""
    size = box[0] * box[1] * element_bytes(dtype)
    fields: dict[str, Any] = {
        "entry": "box",
        "kernel": "box",
        "arch": "sm_90",
        "threads": 32,
        "dims": ("rows", "columns"),
        "params": (
            HeaderTensor("out", "u8", (size,), strided=False, access="w", align=16),
            HeaderTensor("a", dtype, ("rows", "columns"), strided=True, access="r", align=16),
            Scalar("x", "s32"),
            Scalar("y", "s32"),
        ),
        "arguments": (
            Argument("pointer", "out"),
            Argument("map", "a", axes=axes, box=box, swizzle=swizzle),
            Argument("scalar", "x"),
            Argument("scalar", "y"),
        ),
        "grid": (1, 1, 1),
        "requires": (),
        "moves": None,
    }
    parameters = ".param .u64 box_0, .param .align 64 .b8 box_1[128], .param .u32 box_2, .param .u32 box_3"
    text = hand_written.text(hand_written.header(**{**fields, **changes}), parameters, BOX.format(bytes=size))
    return text.replace(".version 7.1", ".version 8.0").replace(".target sm_80", ".target sm_90")


def element_bytes(dtype: str) -> int:
    """Bytes of an element of an integer type."""
    return int(dtype[1:]) // 8


def expected(a: Any, axes: tuple[int, int], box: tuple[int, int], swizzle: int, x: int, y: int) -> Any:
    """What `boxes` writes for an array in host memory."""
    turned = a.transpose(axes[::-1])  # the innermost axis last
    tile = np.zeros(box[::-1], a.dtype)
    rows, columns = turned.shape
    for row in range(max(0, -y), min(box[1], rows - y)):
        low, high = max(0, -x), min(box[0], columns - x)
        if low < high:
            tile[row, low:high] = turned[y + row, x + low : x + high]
    return swizzled(tile, swizzle)


def swizzled(tile: Any, swizzle: int) -> Any:
    """A box's bytes as they lie in shared memory.

    Within each `swizzle` bytes, 16-byte piece p of row r lies where piece p ^ r lies without a swizzle, r counted in
    rows of 128 bytes.
    """
    flat = tile.reshape(-1).view(np.uint8)
    at = np.arange(flat.size)
    return flat[at ^ (at >> 3 & max(0, swizzle - 16))]
