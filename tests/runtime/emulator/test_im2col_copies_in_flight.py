"""Copies of pixels (`cp.async.bulk.tensor` with `.im2col`): what may not happen while they are in flight, which bytes
they read, and what is refused. `tests/runtime/test_im2col_copies.py` compares what they bring."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from tensor_copy_kernel import (
    EARLY,
    LOAD,
    CopyFault,
    arguments,
    expecting,
    faults_of_copies,
    in_and_out,
    kernel,
    map_of,
    wait_for,
)

from dsl.runtime import assemble
from dsl.runtime.emulator import Finding, Kind, Memory, PtxError, TensorMapArgument, emulate
from dsl.runtime.emulator.tensor_maps import encode
from dsl.runtime.tensor_map import TensorMap, Window

WINDOW = Window((-1, 0), (-1, -2), (2, 1))
"""Of images of 8 × 6 pixels: columns -1, 1, 3, 5 and rows 0 to 3."""
SHAPE, BOX, SIZE = (2, 6, 8, 64), (32, 20), 640
"""All pixels of the first image, and the first row of the second one; channels of two bytes would be twice as many."""
FIRST, OFFSETS = "{32, -1, 0, 0}", ", {1, 2}"
"""So the pixels read are those of the columns 0, 2, 4, 6 and rows 2 to 5, of which channels 32 to 63."""


def im2col(rank: int = 4, to: str = "shared::cluster", hint: str = "") -> str:
    return LOAD.format(rank=rank, to=to, tile=".im2col", hint=hint)


def array() -> Any:
    return np.random.default_rng(1).integers(1, 256, SHAPE, np.uint8)


def text_of(parts: dict[str, str], size: int = SIZE) -> str:
    """The kernel, which expects `size` bytes; `parts` replace lines of it."""
    return in_and_out((0, 0, 0, 0), size, {"load": im2col(), "corner": FIRST, "rest": OFFSETS} | parts)


def loaded(parts: dict[str, str], args: list[Any] | None = None, size: int = SIZE, **options: Any) -> list[Finding]:
    given = arguments(array(), BOX, 32, WINDOW)[0] if args is None else args
    text = text_of(parts, size)
    return emulate(text, "kernel", 1, 128, given, on_finding="collect", **options).findings


HARMLESS = {
    "as it is": {},
    "into shared::cta, with a hint": {"load": im2col(to="shared::cta", hint=".L2::cache_hint"),
                                      "rest": f"{OFFSETS}, 0"},
    "operands in registers": {"map": "mov.u32 %r7, 32;\nmov.s32 %r8, -1;\nmov.b64 %rd1, map;\n"
        "cvta.param.u64 %rd1, %rd1;\nmov.u16 %h0, 1;\nmov.u16 %h1, 2;",
        "corner": "{%r7, %r8, 0, 0}", "rest": ", {%h0, %h1}"},
    "written before, with a fence": {"before": f"{EARLY}\nfence.proxy.async;"},
    "the last pixel of the window": {"corner": "{0, 5, 3, 1}"},
    "an image behind the last one": {"corner": "{0, -1, 0, 7}"},
    "channels before the first one": {"corner": "{-16, -1, 0, 0}"},
    "the most that an offset may be": {"rest": ", {255, 255}"},
}  # fmt: skip


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_no_fault(name: str, seed: int) -> None:
    assert loaded(HARMLESS[name], seed=seed) == []


@pytest.mark.parametrize("name", HARMLESS)
def test_it_is_ptx(name: str) -> None:
    assemble(text_of(HARMLESS[name]), "sm_90a")


AGAIN = f"{im2col()} [%r1], [%rd1, {FIRST}], [%r2]{OFFSETS};"
FAULTS: dict[str, CopyFault] = faults_of_copies(SIZE, AGAIN) | {
    "a pixel too many is expected": ({"expect": expecting(SIZE + 32)}, Kind.DEADLOCK, "32 bytes are missing"),
    "the pixels outside of the array are not expected": (
        {"expect": expecting(SIZE - 32)}, Kind.DEADLOCK, "32 bytes have come that nobody expected",
    ),
    "from the middle of 16 bytes": ({"corner": "{8, -1, 0, 0}"}, Kind.MISALIGNED, "begins 8 bytes into its rows"),
    "a first pixel left of the window": (
        {"corner": "{0, -3, 0, 0}"}, Kind.TENSOR_MAP, "is -3 along axis 1, outside of the window, -1 to 6",
    ),
    "a first pixel right of the window": (
        {"corner": "{0, 7, 0, 0}"}, Kind.TENSOR_MAP, "is 7 along axis 1, outside of the window, -1 to 6",
    ),
    "a first pixel above the window": (
        {"corner": "{0, 1, -1, 0}"}, Kind.TENSOR_MAP, "is -1 along axis 2, outside of the window, 0 to 3",
    ),
    "a first pixel below the window": (
        {"corner": "{0, 1, 4, 0}"}, Kind.TENSOR_MAP, "is 4 along axis 2, outside of the window, 0 to 3",
    ),
    "a first pixel between two of the window": (
        {"corner": "{0, 2, 0, 0}"}, Kind.TENSOR_MAP, "is 2 along axis 1, which no steps of 2 from -1 on reach",
    ),
    "an image before the first one": ({"corner": "{0, -1, 0, -1}"}, Kind.TENSOR_MAP, "is of image -1"),
    "an offset of nine bits": ({"rest": ", {1, 256}"}, Kind.TENSOR_MAP, "offset 256 along axis 2 is more than 255"),
    "a map of four axes for a copy of three": (
        {"load": im2col(3), "corner": "{0, -1, 0}", "rest": ", {0}"}, Kind.TENSOR_MAP, "a map of 4 axes, for a copy",
    ),
    "a tiled copy by a map with a window": (
        {"load": LOAD.format(rank=4, to="shared::cluster", tile="", hint=""), "rest": ""},
        Kind.TENSOR_MAP, "a map with a window, which only im2col copies take",
    ),
}  # fmt: skip


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", FAULTS)
def test_what_a_copy_of_pixels_may_not_do(name: str, seed: int) -> None:
    """With a seed some bytes come at once, and what is found may be another thing."""
    parts, kind, message = FAULTS[name]
    found = loaded(parts, seed=seed)
    assert found
    assert seed or any(each.kind == kind and message in each.message for each in found), found


def test_a_copy_of_pixels_by_a_map_without_a_window() -> None:
    (found, *_) = loaded({}, args=arguments(array(), (32, 5, 4, 1), 32)[0])
    assert found.kind is Kind.TENSOR_MAP and "without a window, for an im2col copy" in found.message


READ = {
    "the first pixel": (0, 2, 0, 32),
    "the last channel of it": (0, 2, 0, 60),
    "one of the last row": (0, 5, 4, 32),
    "one of the next image": (1, 2, 0, 32),
    "the last one": (1, 2, 6, 60),
}
NOT_READ = {
    "channels in front": (0, 2, 0, 28),
    "between two steps": (0, 2, 1, 32),
    "a row above the offset": (0, 1, 2, 32),
    "behind the last pixel of the box": (1, 3, 0, 32),
    "the row above, of the next image": (1, 1, 0, 32),
}


def with_a_write(place: tuple[int, ...], part: str, fence: str = "") -> list[Kind]:
    """What is found where a thread writes to the array of the copy, by another parameter."""
    memory = Memory()
    out = memory.allocate(array(), "out")
    at = int(np.ravel_multi_index(place, SHAPE))
    write = f"ld.param.u64 %rd9, [out];\n@%p0 st.global.b32 [%rd9+{at}], %r0;\n{fence}"
    text = write if part == "before" else f"{write}\n{wait_for('WAIT', '%r2', '0')}"
    given = [TensorMapArgument(map_of(array(), BOX, 32, window=WINDOW), out), out]
    return [each.kind for each in loaded({part: text}, args=given)]


@pytest.mark.parametrize("name", READ)
def test_what_it_reads_may_not_be_written(name: str) -> None:
    assert with_a_write(READ[name], "before") == [Kind.RACE]
    assert with_a_write(READ[name], "before", "fence.proxy.async.global;") == []
    assert Kind.SOURCE_CHANGED in with_a_write(READ[name], "wait")


@pytest.mark.parametrize("name", NOT_READ)
def test_what_it_does_not_read_may_be_written(name: str) -> None:
    assert with_a_write(NOT_READ[name], "before") == []
    assert with_a_write(NOT_READ[name], "wait") == []


def test_an_array_that_is_smaller_than_its_map_says() -> None:
    """It matters where pixels of the images that are not there are read."""
    for images, pixels, kinds in ((1, 20, [Kind.OUT_OF_BOUNDS]), (1, 16, []), (2, 20, [])):
        memory, size = Memory(), 32 * pixels
        pointer = memory.allocate(array()[:images], "images")
        out = memory.allocate(np.zeros(size, np.uint8), "out")
        given = [TensorMapArgument(map_of(array(), (32, pixels), 32, window=WINDOW), pointer), out]
        assert [each.kind for each in loaded({}, args=given, size=size)][:1] == kinds


def windowed(**changes: Any) -> bytes:
    fields = {"element_bytes": 1, "extents": (64, 8, 6, 2), "strides": (64, 512, 3072), "box": (32, 16)}
    return encode(TensorMap(**{**fields, "swizzle": 32, "window": WINDOW, **changes}), 4096)


MAPS = {
    "two axes": (windowed(extents=(64, 8), strides=(64,)), "has 3 to 5 axes, not 2"),
    "257 channels": (windowed(box=(272, 16), swizzle=0), "272 channels and 16 pixels"),
    "1025 pixels": (windowed(box=(32, 1025)), "32 channels and 1025 pixels"),
    "no pixel": (windowed(box=(32, 0)), "32 channels and 0 pixels"),
    "a corner of nine bits": (windowed(window=Window((-129, 0), (0, 0), (1, 1))), "not all -128 to 127"),
    "a corner of six bits": (
        windowed(extents=(64, 8, 6, 2, 1), strides=(64, 512, 3072, 6144),
                 window=Window((0,) * 3, (0, 16, 0), (1,) * 3)),
        "not all -16 to 15",
    ),
    "a step of 9": (windowed(window=replace(WINDOW, steps=(1, 9))), "the steps (1, 9) are not all 1 to 8"),
    "a step of 0": (windowed(window=replace(WINDOW, steps=(0, 1))), "the steps (0, 1) are not all 1 to 8"),
    "no pixel in the window": (
        windowed(window=replace(WINDOW, upper=(-1, -6))), "no pixel along axis 2, from 0 to -1",
    ),
    "rows of 8 bytes": (windowed(box=(8, 16), swizzle=0), "8 bytes, which is no multiple of 16"),
    "a row wider than its swizzle": (windowed(box=(64, 16)), "64 bytes, and its swizzle spans 32"),
    "strides that are no multiple of 16": (windowed(strides=(64, 520, 3120)), "strides (64, 520, 3120)"),
}  # fmt: skip


@pytest.mark.parametrize("name", MAPS)
def test_maps_with_windows_that_no_device_takes(name: str) -> None:
    data, message = MAPS[name]
    found = loaded({}, args=[data, arguments(array(), BOX)[2]])
    assert found[0].kind is Kind.TENSOR_MAP and message in found[0].message, found


REFUSED = {
    "no offsets": ({"rest": ""}, "operands"),
    "one offset of two": ({"rest": ", {1}"}, "no vector of 2 offsets"),
    "an offset too many": ({"rest": ", {1, 2, 3}"}, "no vector of 2 offsets"),
    "no vector": ({"rest": ", 1"}, "no vector of 2 offsets"),
    "offsets of 32 bits": ({"rest": ", {%r3, %r4}"}, "does not fit"),
    "a negative offset": ({"rest": ", {-1, 0}"}, "not in 0 to 65535"),
    "an offset of 17 bits": ({"rest": ", {0, 65536}"}, "not in 0 to 65535"),
    "an offset that is no integer": ({"rest": ", {0, 1.0}"}, "1.0"),
    "an offset that is none": ({"rest": ", {_, 0}"}, "no source"),
    "offsets in front of the mbarrier": ({"rest": "", "corner": FIRST + "], {0, 0}, [%r2"}, "operands|address"),
    "two axes": ({"load": im2col(2), "corner": "{0, 0}"}, "no form"),
    "a mode of later devices": ({"load": im2col().replace("im2col", "im2col::w")}, "no form"),
    "tiled, with offsets": ({"load": LOAD.format(rank=4, to="shared::cluster", tile="", hint="")}, "operands"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_before_it_runs(name: str) -> None:
    parts, message = REFUSED[name]
    with pytest.raises(PtxError, match=message):
        loaded(parts)


@pytest.mark.parametrize(("to", "version"), [("shared::cluster", (8, 0)), ("shared::cta", (8, 6))])
def test_the_least_version(to: str, version: tuple[int, int]) -> None:
    text = text_of({"load": im2col(to=to)})
    below = {(8, 0): "7.8", (8, 6): "8.5"}[version]
    given = arguments(array(), BOX, 32, WINDOW)[0]
    emulate(text.replace(".version 8.6", ".version {}.{}".format(*version)), "kernel", 1, 128, given)
    with pytest.raises(PtxError, match="version"):
        emulate(text.replace(".version 8.6", f".version {below}"), "kernel", 1, 128, given)


TURNS = """
@%p0 mbarrier.init.shared::cta.b64 [%r2], 1;
@%p0 mbarrier.init.shared::cta.b64 [%r2+8], 1;
@%p0 fence.mbarrier_init.release.cluster;
bar.sync 0;
mov.u32 %r20, 0;
mov.u32 %r21, 0;
mov.u32 %r22, 0;
setp.lt.u32 %p1, %r0, 32;
@!%p1 bra READ;
@!%p0 bra END;
mov.b64 %rd1, map;
cvta.param.u64 %rd1, %rd1;
FILL:
xor.b32 %r8, %r21, 1;
{free}
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 128;
{load} [%r1], [%rd1, {{0, 0, %r20}}], [%r2], {{0}};
xor.b32 %r21, %r21, 1;
add.u32 %r20, %r20, 1;
setp.lt.u32 %p3, %r20, 4;
@%p3 bra FILL;
bra END;
READ:
{full}
and.b32 %r10, %r0, 31;
mad.lo.u32 %r4, %r10, 4, %r1;
ld.shared.b32 %r5, [%r4];
add.u32 %r22, %r22, %r5;
setp.eq.u32 %p5, %r10, 0;
{release}
xor.b32 %r21, %r21, 1;
add.u32 %r20, %r20, 1;
setp.lt.u32 %p3, %r20, 4;
@%p3 bra READ;
ld.param.u64 %rd2, [out];
mul.wide.u32 %rd3, %r10, 4;
add.u64 %rd3, %rd2, %rd3;
st.global.b32 [%rd3], %r22;
END:"""
FENCE, MEETS, ARRIVES = (
    "fence.proxy.async.shared::cta;", "bar.warp.sync -1;", "@%p5 mbarrier.arrive.shared::cta.b64 _, [%r2+8];"
)  # fmt: skip
RELEASE = f"{FENCE}\n{MEETS}\n{ARRIVES}"
SLOTS: dict[str, tuple[dict[str, str], set[Kind]]] = {
    "as it is": ({}, set()),
    "no wait for a free slot": ({"free": ""}, {Kind.RACE, Kind.IN_FLIGHT}),
    "no wait for a full slot": ({"full": ""}, {Kind.IN_FLIGHT}),
    "freed by a lane that has not met the others": ({"release": f"{FENCE}\n{ARRIVES}"}, {Kind.RACE}),
    "what has been asked for may come later": ({"release": f"{MEETS}\n{ARRIVES}"}, {Kind.RACE}),
    "nobody frees": ({"release": ""}, {Kind.DEADLOCK}),
}


@pytest.mark.parametrize("name", SLOTS)
def test_a_slot_that_is_filled_again(name: str) -> None:
    """Two warps: one fetches four images of two pixels in turn, the other one sums them."""
    parts, kinds = SLOTS[name]
    given = {
        "load": im2col(3),
        "free": wait_for("FREE", "%r2+8", "%r8"),
        "full": wait_for("FULL", "%r2", "%r21"),
        "release": RELEASE,
    } | parts
    images = np.arange(128, dtype=np.uint32).reshape(4, 2, 16)
    memory = Memory()
    out = memory.allocate(np.zeros(32, np.uint32), "out")
    window = Window((0,), (0,), (1,))
    args = [TensorMapArgument(map_of(images, (16, 2), window=window), memory.allocate(images, "images")), out]
    text = kernel(TURNS.format(**given), ("map",), ("out",), 64, 1024)
    found = emulate(text, "kernel", 1, 64, args, on_finding="collect").findings
    if kinds:
        assert kinds & {each.kind for each in found}, found
    else:
        assert found == []
        np.testing.assert_array_equal(memory.read(out, np.uint32, 32), images.reshape(4, 32).sum(0))


TWO_LANES = """
@%p0 mbarrier.init.shared::cta.b64 [%r2], 2;
@%p0 fence.mbarrier_init.release.cluster;
bar.sync 0;
setp.lt.u32 %p1, %r0, 2;
@!%p1 bra READ;
mov.b64 %rd1, map;
cvta.param.u64 %rd1, %rd1;
mad.lo.u32 %r4, %r0, 128, %r1;
add.u32 %r5, %r0, 1;
cvt.u16.u32 %h0, %r0;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 128;
{load} [%r4], [%rd1, {{0, 0, %r5}}], [%r2], {{%h0}};
READ:
{wait}
mad.lo.u32 %r4, %r0, 8, %r1;
ld.shared.v2.b32 {{%r5, %r6}}, [%r4];
ld.param.u64 %rd2, [out];
mul.wide.u32 %rd3, %r0, 8;
add.u64 %rd3, %rd2, %rd3;
st.global.v2.b32 [%rd3], {{%r5, %r6}};"""


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_two_lanes_copy_pixels_of_their_own(seed: int) -> None:
    """Lane i begins at image i + 1, with the offset i."""
    images = np.arange(128, dtype=np.uint32).reshape(4, 2, 16)
    memory = Memory()
    out = memory.allocate(np.zeros(64, np.uint32), "out")
    window = Window((0,), (0,), (1,))
    args = [TensorMapArgument(map_of(images, (16, 2), window=window), memory.allocate(images, "images")), out]
    text = TWO_LANES.format(load=im2col(3), wait=wait_for("WAIT", "%r2", "0"))
    emulate(kernel(text, ("map",), ("out",), 32, 1024), "kernel", 1, 32, args, seed=seed)
    wanted = [*images[1], images[2, 1], np.zeros(16, np.uint32)]
    np.testing.assert_array_equal(memory.read(out, np.uint32, 64).reshape(4, 16), wanted)
