"""A kernel written by hand that copies pixels of images into shared memory by TMA (im2col), and what must come."""

from __future__ import annotations

import random
from functools import cached_property
from typing import Any

import hand_written
import numpy as np
from msgspec import Struct
from tensor_map_kernel import swizzled

from dsl.runtime.header import Argument, HeaderTensor, Scalar
from dsl.runtime.tensor_map import CORNERS, Window

MOST = 64 << 10
"""Bytes of a box: the barrier lies behind so many."""
CODE = """
    .reg .pred %p; .reg .b16 %o<3>; .reg .b32 %t, %n, %to, %bar, %w, %size, %c<5>; .reg .b64 %out, %map, %a;
    mov.u32 %t, %tid.x; mov.u32 %to, tile; add.u32 %bar, %to, {barrier};
    ld.param.u32 %size, [pixels_2];
    setp.ne.u32 %p, %t, 0; @%p bra READY;
    mbarrier.init.shared::cta.b64 [%bar], 1;
    fence.mbarrier_init.release.cluster;
    fence.proxy.async.shared::cta;
READY:
    bar.sync 0;
    @%p bra WAIT;
    {read}
    mov.b64 %map, pixels_1; cvta.param.u64 %map, %map;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], %size;
    cp.async.bulk.tensor.{rank}d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes
        [%to], [%map, {{{coordinates}}}], [%bar], {{{offsets}}};
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0;
    @!%p bra WAIT;
    ld.param.u64 %out, [pixels_0]; cvta.to.global.u64 %out, %out;
    shl.b32 %n, %t, 2;
NEXT:
    setp.ge.u32 %p, %n, %size; @%p bra DONE;
    add.u32 %w, %to, %n; ld.shared.u32 %w, [%w];
    cvt.u64.u32 %a, %n; add.s64 %a, %out, %a; st.global.u32 [%a], %w;
    add.u32 %n, %n, 512; bra NEXT;
DONE: ret;"""


class Probe(Struct, frozen=True, dict=True):
    """One copy of pixels of an array of unsigned integers, the outermost axis first: images, depth, rows, columns,
    channels. All else innermost first. first: channel, spatial coordinates, image of the first base pixel.

    Beside the array's channels lie others, up to a row of `row` elements in memory.
    """

    size: int
    shape: tuple[int, ...]
    row: int
    window: Window
    box: tuple[int, int]
    swizzle: int
    first: tuple[int, ...]
    offsets: tuple[int, ...]
    seed: int = 0

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> str:
        return f"u{8 * self.size}"

    @property
    def bytes(self) -> int:
        return self.box[0] * self.box[1] * self.size

    @cached_property
    def array(self) -> Any:
        """In host memory, no element 0."""
        given = np.random.default_rng(self.seed)
        base = given.integers(1, 1 << 8 * self.size, (*self.shape[:-1], self.row), f"uint{8 * self.size}")
        return base[..., : self.shape[-1]]

    def pixels(self) -> Any:
        """[pixels, channels] by the definition, one pixel after another."""
        found, array = np.zeros(self.box[::-1], self.array.dtype), self.array
        window, extents = self.window, self.shape[-2:0:-1]
        channel, *at, image = self.first
        low, high = max(0, -channel), min(self.box[0], self.shape[-1] - channel)
        for pixel in range(self.box[1]):
            read = [base + offset for base, offset in zip(at, self.offsets, strict=True)]
            is_inside = all(0 <= each < extent for each, extent in zip(read, extents, strict=True))
            if is_inside and 0 <= image < self.shape[0] and low < high:
                found[pixel, low:high] = array[(image, *read[::-1])][channel + low : channel + high]
            for axis, extent in enumerate(extents):
                at[axis] += window.steps[axis]
                if at[axis] <= extent - 1 + window.upper[axis]:
                    break
                at[axis] = window.lower[axis]
            else:
                image += 1
        return found

    def expected(self) -> Any:
        """The bytes as they lie in shared memory."""
        return swizzled(self.pixels(), self.swizzle)

    def text(self, **changes: Any) -> str:
        """out = the bytes of the box, as they lie in shared memory. Only the header differs between probes of a rank.

        `changes` are of the header.
        """
        names = "cwhd"[: self.rank - 1] + "n"
        axes = tuple(range(self.rank))[::-1]
        spatial = range(self.rank - 2)
        fields: dict[str, Any] = {
            "entry": "pixels",
            "kernel": "pixels",
            "arch": "sm_90",
            "threads": 128,
            "shared_bytes": MOST + 64,
            "dims": ("size", *(f"extent{axis}" for axis in axes)),
            "params": (
                HeaderTensor("out", "u8", ("size",), strided=False, access="w", align=16),
                HeaderTensor(
                    "a", self.dtype, tuple(f"extent{axis}" for axis in axes), strided=True, access="r", align=16
                ),
                *(Scalar(name, "s32") for name in names),
                *(Scalar(f"offset{axis}", "u16") for axis in spatial),
            ),
            "arguments": (
                Argument("pointer", "out"),
                Argument("map", "a", axes=axes, box=self.box, swizzle=self.swizzle, window=self.window),
                Argument("dim", "size"),
                *(Argument("scalar", name) for name in names),
                *(Argument("scalar", f"offset{axis}") for axis in spatial),
            ),
            "grid": (1, 1, 1),
            "requires": (),
            "moves": None,
        }
        text = hand_written.text(hand_written.header(**{**fields, **changes}), *entry(self.rank))
        text = text.replace(".version 7.1", ".version 8.0").replace(".target sm_80", ".target sm_90")
        return text.replace(".visible", ".extern .shared .align 1024 .b8 tile[];\n.visible")

    def arguments(self, out: Any) -> tuple[Any, ...]:
        """What the kernel is called with."""
        return (out, self.array, *self.first, *self.offsets)


def entry(rank: int) -> tuple[str, str]:
    """Parameters and body of the kernel for maps of so many axes."""
    scalars = [f".param .u32 pixels_{3 + axis}" for axis in range(rank)]
    scalars += [f".param .u16 pixels_{3 + rank + axis}" for axis in range(rank - 2)]
    parameters = [".param .u64 pixels_0", ".param .align 64 .b8 pixels_1[128]", ".param .u32 pixels_2", *scalars]
    read = [f"ld.param.u32 %c{axis}, [pixels_{3 + axis}];" for axis in range(rank)]
    read += [f"ld.param.u16 %o{axis}, [pixels_{3 + rank + axis}];" for axis in range(rank - 2)]
    code = CODE.format(
        barrier=MOST,
        rank=rank,
        read=" ".join(read),
        coordinates=", ".join(f"%c{axis}" for axis in range(rank)),
        offsets=", ".join(f"%o{axis}" for axis in range(rank - 2)),
    )
    return ", ".join(parameters), code


def at_random(seed: int) -> Probe:
    """Any copy that a device takes: paddings and crops, dilations, steps, boxes that go over images and out of them."""
    given = random.Random(seed)
    spatial, size, swizzle = given.randint(1, 3), given.choice((1, 2, 4)), given.choice((0, 32, 64, 128))
    piece = 16 // size
    channels = swizzle // size if swizzle else piece * given.randint(1, min(256, 512 // size) // piece)
    most = min(1024, MOST // (channels * size))
    pixels = given.randint(1, most if given.random() < 0.2 else min(most, 160))
    extents = tuple(max(given.randint(1, (60, 14, 7)[spatial - 1]) for _ in range(2)) for _ in range(spatial))
    corners = [corners_at_random(given, extent, spatial + 2) for extent in extents]
    steps = tuple(given.choice((1, 1, 1, 2, 2, given.randint(1, 8))) for _ in range(spatial))
    window = Window(tuple(lower for lower, _ in corners), tuple(upper for _, upper in corners), steps)
    row = piece * given.choice((channels // piece, 2 * channels // piece, given.randint(1, 2 * channels // piece + 2)))
    extent = max(1, row - given.choice((0, 0, given.randrange(piece), given.randrange(row))))
    images = given.choice((1, 2, 5, 20))
    at = []
    for axis, last in enumerate(extents):
        count = (last - 1 + corners[axis][1] - corners[axis][0]) // steps[axis] + 1
        at.append(corners[axis][0] + steps[axis] * given.randrange(count))
    channel = piece * given.randint(0, (extent - 1) // piece)
    if given.random() < 0.05:  # across the array's first channel, or behind its last one
        channel = given.choice((-piece, -2 * piece, channel + row))
    image = given.choice((0, 0, given.randrange(images), images if given.random() < 0.05 else 0))
    bits = {3: 16, 4: 8, 5: 5}[spatial + 2]
    far = given.randrange(1 << bits) if given.random() < 0.1 else 0
    padding = [max(0, -lower) for lower in window.lower]
    offsets = tuple(given.choice((0, 1, near, near, max(0, near - 1), near + 1, far)) for near in padding)
    shape, first = (images, *extents[::-1], extent), (channel, *at, image)
    return Probe(size, shape, row, window, (channels, pixels), swizzle, first, offsets, seed)


def corners_at_random(given: random.Random, extent: int, rank: int) -> tuple[int, int]:
    """Lower and upper, between which there is at least one pixel."""
    low, high = CORNERS[rank]
    reach = given.choice((0, 1, 1, 2, 3, min(high, extent + 4)))
    lower = max(low, given.randint(-reach, reach))
    least = max(low, lower - (extent - 1))
    if least > high:  # a lower corner of at most 15, and an array that is far shorter
        return 0, 0
    return lower, given.randint(least, min(high, max(least, reach)))
