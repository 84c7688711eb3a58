"""Tensor copies (`cp.async.bulk.tensor`): boxes against numpy, and what may not happen while they are in flight."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec import Struct
from msgspec.structs import replace
from on_device import launched
from tensor_copy_kernel import (
    EARLY,
    LOAD,
    STORE,
    CopyFault,
    Ring,
    arguments,
    box_of,
    expecting,
    faults_of_copies,
    in_and_out,
    kernel,
    map_of,
    out_of_shared,
    ring_arguments,
    ring_text,
    swizzled,
    wait_for,
)

from dsl.runtime import assemble
from dsl.runtime.emulator import Finding, Kind, Memory, PtxError, TensorMapArgument, emulate
from dsl.runtime.emulator.memory import SHARED_START
from dsl.runtime.emulator.tensor_maps import encode
from dsl.runtime.foreign import MapOf
from dsl.runtime.tensor_map import TensorMap

ADD = "cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.add.tile.bulk_group"


class Copy(Struct, frozen=True):
    """Of an array of `shape`; box and corner innermost first."""

    dtype: str
    shape: tuple[int, ...]
    box: tuple[int, ...]
    corner: tuple[int, ...]
    swizzle: int = 0

    @property
    def size(self) -> int:
        return int(np.prod(self.box)) * np.dtype(self.dtype).itemsize

    def array(self) -> Any:
        count = int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize
        random = np.random.default_rng(1).integers(0, 256, count, np.uint8)
        return random.view(self.dtype).reshape(self.shape)


COPIES = {
    "a row": Copy("u1", (100,), (64,), (16,)),
    "a row past the end": Copy("u1", (112,), (64,), (80,)),
    "a row before the start": Copy("u2", (64,), (32,), (-8,)),
    "128 bytes": Copy("u2", (64, 64), (64, 32), (0, 16), 128),
    "64 bytes at odd places": Copy("u2", (33, 48), (32, 16), (-8, 20), 64),
    "32 bytes": Copy("u4", (20, 24), (8, 24), (16, -3), 32),
    "8 bytes an element": Copy("u8", (9, 6), (4, 5), (4, 6)),
    "three axes": Copy("u4", (7, 5, 12), (4, 5, 3), (8, -1, -2)),
    "three axes, 128 bytes": Copy("u1", (3, 5, 128), (128, 3, 2), (0, 3, 1), 128),
    "four axes": Copy("u2", (3, 4, 5, 16), (16, 3, 2, 2), (8, 1, 3, 2), 32),
    "five axes": Copy("u1", (3, 3, 3, 3, 32), (16, 2, 2, 2, 2), (-16, 1, 2, 2, -1)),
    "nothing of the array": Copy("u4", (8, 8), (4, 4), (8, 100)),
    "far away": Copy("u4", (8, 8), (4, 4), (-(2**31), 2**31 - 1)),
}


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", COPIES)
def test_a_box_comes_as_it_lies_in_the_array(name: str, seed: int) -> None:
    copy = COPIES[name]
    array = copy.array()
    args, memory, out = arguments(array, copy.box, copy.swizzle)
    emulate(in_and_out(copy.corner, copy.size), "kernel", 1, 128, args, seed=seed)
    wanted = box_of(array, copy.corner, copy.box).reshape(-1).view(np.uint8)
    found = memory.read(out, np.uint8, copy.size)
    np.testing.assert_array_equal(found, swizzled(wanted, copy.swizzle, SHARED_START))


def stored(copy: Copy, parts: dict[str, str] | None = None, **options: Any) -> tuple[list[Finding], Any, Any]:
    """(findings, the array behind a copy of random words out of shared memory, these words as bytes)."""
    memory, array = Memory(), copy.array()
    words = np.random.default_rng(2).integers(0, 256, copy.size, np.uint8)
    pointer = memory.allocate(array, "array")
    given = [
        TensorMapArgument(map_of(array, copy.box, copy.swizzle), pointer),
        memory.allocate(words, "words"),
        pointer,
    ]
    found = emulate(out_of_shared(copy.corner, copy.size, parts), "kernel", 1, 128, given, **options).findings
    return found, memory.read(pointer, array.dtype, array.size).reshape(array.shape), words


@pytest.mark.parametrize("name", COPIES)
def test_a_box_goes_where_it_lies_in_the_array(name: str) -> None:
    """Those that begin ahead of the array do not go out on a device (17 corners tried on an H200): the next test."""
    copy = replace(COPIES[name], corner=tuple(max(0, at) for at in COPIES[name].corner))
    _, found, words = stored(copy)
    wanted = copy.array()
    box = swizzled(words, copy.swizzle, SHARED_START).view(copy.dtype).reshape(copy.box[::-1])
    for at in np.ndindex(box.shape):
        where = tuple(low + i for low, i in zip(copy.corner[::-1], at, strict=True))
        if all(0 <= i < extent for i, extent in zip(where, copy.shape, strict=True)):
            wanted[where] = box[at]
    np.testing.assert_array_equal(found, wanted)


BEFORE = {name: copy for name, copy in COPIES.items() if min(copy.corner) < 0}


@pytest.mark.parametrize(
    ("name", "instruction"),
    [*((name, STORE) for name in BEFORE), *((name, ADD) for name, copy in BEFORE.items() if copy.dtype == "u4")],
)
def test_no_box_goes_out_from_ahead_of_the_array(name: str, instruction: str) -> None:
    """An illegal instruction on a device, of which no manual says a word."""
    copy = BEFORE[name]
    parts = {"store": instruction.format(rank=len(copy.shape), tile=".tile", hint="")}
    findings, found, _ = stored(copy, parts, on_finding="collect")
    assert [each.kind for each in findings] == [Kind.TENSOR_MAP] and "before the first element" in findings[0].message
    np.testing.assert_array_equal(found, copy.array())


class Columns(MapOf, frozen=True, eq=False):
    """The map of the first `count` columns of an array."""

    count: int = 0

    def map(self, name: str) -> TensorMap:
        whole = MapOf.map(self, name)
        return replace(whole, extents=(self.count, *whole.extents[1:]))


CHUNKS: dict[str, tuple[Copy, int, str]] = {
    "halves": (Copy("u2", (6, 512), (64, 8), (448, 0), 128), 466, STORE),
    "one byte": (Copy("u1", (3, 48), (32, 4), (0, 0), 32), 1, STORE),
    "words": (Copy("u4", (5, 32), (16, 4), (0, 2), 64), 13, STORE),
    "8 bytes": (Copy("u8", (4, 16), (8, 4), (0, 0)), 5, STORE),
    "three axes": (Copy("u2", (2, 3, 32), (16, 4, 2), (0, 0, 0)), 11, STORE),
    "a box that ends with the rows": (Copy("u2", (4, 32), (16, 4), (16, 0)), 27, STORE),
    "sums": (Copy("u4", (5, 32), (16, 4), (0, 0)), 13, ADD),
    "sums, 128 bytes": (Copy("u4", (4, 64), (32, 4), (32, 0), 128), 62, ADD),
}


@pytest.mark.parametrize("device", ["emulator", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("name", CHUNKS)
def test_what_goes_out_is_whole_16_bytes(name: str, device: str) -> None:
    """Rows of a view that end in the middle of 16 bytes: its neighbours get the rest, on a device, too."""
    copy, count, instruction = CHUNKS[name]
    array = copy.array()
    wanted, size = array.copy(), array.itemsize
    words = np.random.default_rng(2).integers(0, 256, copy.size, np.uint8)
    box = swizzled(words, copy.swizzle, SHARED_START).view(copy.dtype).reshape(copy.box[::-1])
    end = -(-count * size // 16) * 16 // size
    for at in np.ndindex(box.shape):
        where = tuple(low + i for low, i in zip(copy.corner[::-1], at, strict=True))
        if all(0 <= i < extent for i, extent in zip(where, (*copy.shape[:-1], end), strict=True)):
            wanted[where] = box[at] if instruction == STORE else (int(wanted[where]) + int(box[at])) % (1 << 8 * size)
    text = out_of_shared(
        copy.corner, copy.size, {"store": instruction.format(rank=len(copy.shape), tile=".tile", hint="")}
    )
    given = [Columns(array, copy.box[::-1], copy.swizzle, count), words, array]
    if device == "cuda":
        launched(text, given, device)
        found = array
    else:
        memory = Memory()
        pointer = memory.allocate(array, "array")
        args = [TensorMapArgument(given[0].map("array"), pointer), memory.allocate(words, "words"), pointer]
        (finding,) = emulate(text, "kernel", 1, 128, args, on_finding="collect").findings
        assert finding.kind is Kind.OUT_OF_BOUNDS
        assert f" {(end - count) * size} bytes past the array's rows of {count * size}" in finding.message
        found = memory.read(pointer, array.dtype, array.size).reshape(array.shape)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("count", [72, 80])
def test_boxes_that_end_before_the_rows_do_are_no_fault(count: int) -> None:
    copy = Copy("u2", (6, 128), (64, 8), (0, 0), 128)
    memory, words = Memory(), np.zeros(copy.size, np.uint8)
    pointer = memory.allocate(copy.array(), "array")
    given = [Columns(copy.array(), copy.box[::-1], copy.swizzle, count).map("array"), memory.allocate(words, "words")]
    args = [TensorMapArgument(given[0], pointer), given[1], pointer]
    assert emulate(out_of_shared(copy.corner, copy.size), "kernel", 1, 128, args).findings == []


BASE = Copy("u2", (64, 64), (64, 16), (0, 16), 128)
HINT = {"load": LOAD.format(rank=2, to="shared::cta", tile="", hint=".L2::cache_hint"), "rest": ", 0"}
GENERIC = {"start": "[%rd4]", "map": "cvt.u64.u32 %rd4, %r1;\ncvta.shared.u64 %rd4, %rd4;\nmov.b64 %rd1, map;\n"
           "cvta.param.u64 %rd1, %rd1;\nprefetch.tensormap [%rd1];"}  # fmt: skip
HARMLESS = {
    "a hint, into shared::cta": HINT,
    "generic addresses": GENERIC,
    "32 bits of a map's address": {"map": "mov.b32 %r7, map;\ncvt.u64.u32 %rd1, %r7;\ncvta.param.u64 %rd1, %rd1;"},
    "coordinates in registers": {"map": f"mov.s32 %r7, 16;\n{GENERIC['map'].split(chr(10), 2)[2]}",
                                 "corner": "{0, %r7}"},
    "the other fence behind the init": {"fence": "@%p0 fence.proxy.async.shared::cta;"},
    "written before, with a fence": {"before": f"{EARLY}\nfence.proxy.async;"},
    "read before": {"before": f"{EARLY}\nfence.proxy.async;\nbar.sync 0;\nld.shared.b32 %r6, [%r1+64];"},
    "bytes are expected behind the copy": {"expect": "", "rest": ", 0", "load": HINT["load"], "wait": "@%p0 "
        f"{expecting(BASE.size)}\n" + wait_for("WAIT", "%r2", "0")},
    "one warp waits, and a barrier follows": {"wait": "setp.gt.u32 %p4, %r0, 31;\n@%p4 bra WAITED;\n"
        + wait_for("WAIT", "%r2", "0") + "\nWAITED:\nbar.sync 0;"},
}  # fmt: skip


def loaded(parts: dict[str, str], copy: Copy = BASE, args: list[Any] | None = None, **options: Any) -> list[Finding]:
    given = arguments(copy.array(), copy.box, copy.swizzle)[0] if args is None else args
    text = in_and_out(copy.corner, copy.size, parts)
    return emulate(text, "kernel", 1, 128, given, on_finding="collect", **options).findings


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_no_fault(name: str, seed: int) -> None:
    assert loaded(HARMLESS[name], seed=seed) == []


@pytest.mark.parametrize("name", HARMLESS)
def test_it_is_ptx(name: str) -> None:
    assemble(in_and_out(BASE.corner, BASE.size, HARMLESS[name]), "sm_90a")


AGAIN = LOAD.format(rank=2, to="shared::cluster", tile="", hint="") + " [%r1], [%rd1, {0, 0}], [%r2];"
FAULTS: dict[str, CopyFault] = faults_of_copies(BASE.size, AGAIN) | {
    "only one warp waits": (
        {"wait": "setp.gt.u32 %p4, %r0, 31;\n@%p4 bra WAITED;\n" + wait_for("WAIT", "%r2", "0") + "\nWAITED:"},
        Kind.IN_FLIGHT, "still filling",
    ),
    "a relaxed wait": (
        {"wait": wait_for("WAIT", "%r2", "0").replace("parity.", "parity.relaxed.cta.")}, Kind.IN_FLIGHT, "filling",
    ),
    "one byte too many is expected": (
        {"expect": expecting(BASE.size + 1)},
        Kind.DEADLOCK, "in phase 0, and the wait is for the end of the phase of parity 0: 0 of 1 arrivals are missing, "
        "and 1 bytes are missing",
    ),
    "one byte too few is expected": (
        {"expect": expecting(BASE.size - 1)},
        Kind.DEADLOCK, "1 bytes have come that nobody expected",
    ),
    "nobody arrives": (
        {"expect": f"mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r2], {BASE.size};"},
        Kind.DEADLOCK, "1 of 1 arrivals are missing",
    ),
    "written before, with a fence of another thread": (
        {"before": f"{EARLY}\n@!%p0 fence.proxy.async;"}, Kind.RACE, "without a fence.proxy.async",
    ),
    "written before, with a fence for global memory": (
        {"before": f"{EARLY}\nfence.proxy.async.global;"}, Kind.RACE, "without a fence.proxy.async",
    ),
    "from the middle of 16 bytes": ({"corner": "{4, 16}"}, Kind.MISALIGNED, "begins 8 bytes into its rows"),
    "a map past its start": (
        {"map": "mov.b64 %rd1, map;\ncvta.param.u64 %rd1, %rd1;\nadd.u64 %rd1, %rd1, 8;"},
        Kind.TENSOR_MAP, "multiple of 64",
    ),
    "an array in place of its map": ({"map": "ld.param.u64 %rd1, [out];"}, Kind.TENSOR_MAP, "holds no tensor map"),
    "a map of two axes for a copy of one": (
        {"load": LOAD.format(rank=1, to="shared::cta", tile="", hint=""), "corner": "{0}"},
        Kind.TENSOR_MAP, "a map of 2 axes, for a copy of 1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_what_a_load_may_not_do(name: str) -> None:
    parts, kind, message = FAULTS[name]
    found = loaded(parts)
    assert any(each.kind == kind and message in each.message for each in found), found


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
@pytest.mark.parametrize("name", FAULTS)
def test_and_for_all_seeds(name: str, seed: int) -> None:
    assert loaded(FAULTS[name][0], seed=seed) != []


def test_both_places_are_named() -> None:
    (found,) = loaded({"wait": ""})
    assert found.last_writer is not None and "thread 0" in found.last_writer.replace("(0, 0, 0)", "0"), found


MAPS = {
    "bytes that are no map": (bytes(128), "no tensor map"),
    "an array at a multiple of 8": (encode(TensorMap(2, (64, 64), (128,), (64, 16), 128), 8), "no multiple of 16"),
    "rows that are no multiple of 16": (encode(TensorMap(2, (64, 64), (136,), (64, 16), 128), 0), "strides (136,)"),
    "rows that are too far apart": (encode(TensorMap(2, (64, 64), (1 << 40,), (64, 16), 128), 0), "below 2^40"),
    "a box of 257": (encode(TensorMap(2, (64, 640), (128,), (64, 257), 128), 0), "1 to 256"),
    "a row of 8 bytes": (encode(TensorMap(2, (64, 64), (128,), (4, 16)), 0), "8 bytes"),
    "a row wider than its swizzle": (encode(TensorMap(2, (64, 64), (128,), (64, 16), 64), 0), "spans 64"),
    "a row narrower than its swizzle": (encode(TensorMap(2, (64, 64), (128,), (32, 16), 128), 0), "as long as"),
    "elements of 3 bytes": (encode(TensorMap(3, (64, 64), (192,), (16, 16)), 0), "1, 2, 4 or 8"),
    "an extent of 0": (encode(TensorMap(2, (64, 0), (128,), (64, 16), 128), 0), "1 to 2^32"),
}


@pytest.mark.parametrize("name", MAPS)
def test_maps_that_no_device_takes(name: str) -> None:
    data, message = MAPS[name]
    args = [data, arguments(BASE.array(), BASE.box)[2]]
    found = loaded({}, args=args)
    assert found[0].kind is Kind.TENSOR_MAP and message in found[0].message, found


def test_an_array_that_is_smaller_than_its_map_says() -> None:
    array = BASE.array()
    memory = Memory()
    pointer = memory.allocate(array[:31], "array")
    args = [
        TensorMapArgument(map_of(array, BASE.box, 128), pointer),
        memory.allocate(np.zeros(BASE.size, np.uint8), "out"),
    ]
    (found, *_) = loaded({}, args=args)
    assert found.kind is Kind.OUT_OF_BOUNDS and "array" in found.message, found


def test_a_source_that_the_launch_writes() -> None:
    """The result is its own source here: it needs a fence for global memory, and is read before it is written."""
    array = BASE.array()
    memory = Memory()
    out = memory.allocate(array, "out")
    args = [TensorMapArgument(map_of(array, BASE.box, 128), out), out]
    write = "ld.param.u64 %rd9, [out];\n@%p0 st.global.b32 [%rd9+2048], %r0;"
    assert [each.kind for each in loaded({"before": write}, args=args)] == [Kind.RACE]
    assert loaded({"before": f"{write}\nfence.proxy.async.global;"}, args=args) == []
    late = "ld.param.u64 %rd9, [out];\n@%p0 st.global.b32 [%rd9+2048], %r0;\n" + wait_for("WAIT", "%r2", "0")
    assert Kind.SOURCE_CHANGED in [each.kind for each in loaded({"wait": late}, args=args)]


READ = "ld.param.u64 %rd9, [array];\nld.global.b32 %r6, [%rd9+2048];\nst.global.b32 [%rd2], %r6;"
STORES = {
    "nothing fences what was written": ({"fence": ""}, Kind.RACE, "without a fence.proxy.async"),
    "only the copying thread fences": ({"fence": "@%p0 fence.proxy.async;"}, Kind.RACE, "without a fence.proxy.async"),
    "written again before it is read": ({"wait": EARLY}, Kind.SOURCE_CHANGED, "source of an asynchronous copy"),
    "written again before its group is closed": (
        {"commit": "", "behind": EARLY}, Kind.SOURCE_CHANGED, "source of an asynchronous copy",
    ),
    "written again, and one group may be left": (
        {"wait": "cp.async.bulk.wait_group.read 1;", "behind": EARLY}, Kind.SOURCE_CHANGED, "source of an asynchronous",
    ),
    "the result is read behind the wait for reads": (
        {"wait": "cp.async.bulk.wait_group.read 0;", "behind": READ}, Kind.IN_FLIGHT, "still filling",
    ),
    "the block ends before it is read": ({"wait": ""}, Kind.SOURCE_CHANGED, "block may end"),
    "at a multiple of 16": ({"start": "[%r1+16]"}, Kind.MISALIGNED, "no multiple of 128"),
    "beyond shared memory": ({"start": "[%r1+2048]"}, Kind.OUT_OF_BOUNDS, "reads 2048 bytes at shared address"),
    "of what nobody has written": (
        {"start": "[%r1+128]"}, Kind.UNINITIALISED, "nobody has written",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STORES)
def test_what_a_store_may_not_do(name: str) -> None:
    parts, kind, message = STORES[name]
    found = stored(BASE, parts, on_finding="collect")[0]
    assert any(each.kind == kind and message in each.message for each in found), found


@pytest.mark.parametrize("parts", [
    {"wait": "cp.async.bulk.wait_group.read 0;", "behind": EARLY},
    {"behind": EARLY},
    {"behind": READ},
    {"fence": "", "store": "fence.proxy.async;\n" + STORE.format(rank=2, tile="", hint="")},
])  # fmt: skip
def test_what_a_store_may_do(parts: dict[str, str]) -> None:
    assert stored(BASE, parts, on_finding="collect")[0] == []


SHARED_BY_WARPS = """
@%p0 mbarrier.init.shared::cta.b64 [%r2], 1;
@%p0 mbarrier.init.shared::cta.b64 [%r2+8], 2;
@%p0 fence.mbarrier_init.release.cluster;
bar.sync 0;
mov.u32 %r20, 0;
mov.u32 %r21, 0;
mov.u32 %r22, 0;
and.b32 %r10, %r0, 31;
setp.eq.u32 %p5, %r10, 0;
setp.lt.u32 %p1, %r0, 32;
@!%p1 bra READ;
@!%p0 bra END;
mov.b64 %rd1, map;
cvta.param.u64 %rd1, %rd1;
FILL:
xor.b32 %r8, %r21, 1;
FREE:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2+8], %r8;
@!%p2 bra FREE;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 128;
{load} [%r1], [%rd1, {{%r20}}], [%r2];
xor.b32 %r21, %r21, 1;
add.u32 %r20, %r20, 32;
setp.lt.u32 %p3, %r20, 128;
@%p3 bra FILL;
bra END;
READ:
FULL:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], %r21;
@!%p2 bra FULL;
mad.lo.u32 %r4, %r10, 4, %r1;
ld.shared.b32 %r5, [%r4];
add.u32 %r22, %r22, %r5;
{meets}
@%p5 mbarrier.arrive.shared::cta.b64 _, [%r2+8];
xor.b32 %r21, %r21, 1;
add.u32 %r20, %r20, 32;
setp.lt.u32 %p3, %r20, 128;
@%p3 bra READ;
ld.param.u64 %rd2, [out];
mul.wide.u32 %rd3, %r0, 4;
add.u64 %rd3, %rd2, %rd3;
st.global.b32 [%rd3], %r22;
END:"""


@pytest.mark.parametrize("meets", ["fence.proxy.async.shared::cta;\nbar.warp.sync -1;", "bar.warp.sync -1;", ""])
def test_two_warps_read_what_a_third_one_fetches(meets: str) -> None:
    """One lane of each frees for all: it must have met them, and what they have asked for may not come later."""
    is_right = meets.startswith("fence")
    array = np.arange(128, dtype=np.uint32)
    load = LOAD.format(rank=1, to="shared::cluster", tile="", hint="")
    text = kernel(SHARED_BY_WARPS.format(load=load, meets=meets), ("map",), ("out",), 96, 1024)
    memory = Memory()
    out = memory.allocate(np.zeros(96, np.uint32), "out")
    args = [TensorMapArgument(map_of(array, (32,)), memory.allocate(array, "array")), out]
    found = emulate(text, "kernel", 1, 96, args, on_finding="collect").findings
    assert [each.kind for each in found] == ([] if is_right else [Kind.RACE]), found
    total = array.reshape(4, 32).sum(0)
    if is_right:
        np.testing.assert_array_equal(memory.read(out, np.uint32, 96), [*[0] * 32, *total, *total])


RINGS = {
    "one tile": Ring(64, 64, 64),
    "a ring of two": Ring(64, 64, 320),
    "tiles in turn": Ring(192, 128, 192),
    "odd sizes": Ring(150, 140, 200, groups=2, blocks=2),
    "three stages": Ring(256, 256, 256, columns=128, groups=2, stages=3, blocks=2),
}


def operands(ring: Ring) -> tuple[Any, Any]:
    random = np.random.default_rng(3)
    a, b = (random.integers(-4, 5, (extent, ring.k)).astype(np.float16) for extent in (ring.m, ring.n))
    return a, b


def multiplied(ring: Ring, parts: dict[str, str], **options: Any) -> tuple[list[Finding], Any]:
    args, memory, c = ring_arguments(ring, *operands(ring))
    more = ring.size if ring.size > 40 << 10 else 0
    text = ring_text(ring, **parts)
    found = emulate(text, "kernel", ring.blocks, ring.threads, args, shared_bytes=more, **options).findings
    return found, memory.read(c, np.float32, ring.m * ring.n).reshape(ring.m, ring.n)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", RINGS)
def test_a_product_of_what_a_warp_fetches_is_numpys(name: str, seed: int) -> None:
    ring = RINGS[name]
    a, b = operands(ring)
    found = multiplied(ring, {}, seed=seed)[1]
    np.testing.assert_array_equal(found, a.astype(np.float32) @ b.astype(np.float32).T)


@pytest.mark.parametrize("name", RINGS)
def test_the_product_is_ptx_and_is_not_serialised(name: str) -> None:
    made = assemble(ring_text(RINGS[name]), "sm_90a")
    assert made.spill_stores == 0 and "C75" not in made.log, made.log


TURNS = Ring(64, 128, 320)
ARRIVE = f"mbarrier.arrive.shared::cta.b64 _, [%r7+{8 * TURNS.stages}];"
PRODUCTS = "wgmma.wait_group.sync.aligned 0;"
FILL = "add.u32 %r30, %r1, 256;\n@%p0 st.shared.b32 [%r30], %r0;"
BROKEN = {
    "no wait for full": ({"wait_full": ""}, {Kind.IN_FLIGHT}),
    "no wait for free": ({"wait_free": ""}, {Kind.RACE, Kind.IN_FLIGHT, Kind.SOURCE_CHANGED}),
    "full of the wrong parity": (
        {"wait_full": "xor.b32 %r25, %r21, 1;\n" + wait_for("FULL", "%r7", "%r25")},
        {Kind.IN_FLIGHT, Kind.DEADLOCK},
    ),
    "free of the wrong parity": ({"wait_free": wait_for("FREE", "%r7+16", "%r21")}, {Kind.DEADLOCK}),
    "too many bytes": (
        {"expect": f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r7], {TURNS.slot + 16};"}, {Kind.DEADLOCK},
    ),
    "too few bytes": (
        {"expect": f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r7], {TURNS.slot // 2};"},
        {Kind.DEADLOCK, Kind.IN_FLIGHT},
    ),
    "nobody frees": ({"free": ""}, {Kind.DEADLOCK}),
    "one warp does not free": ({"free": f"setp.lt.and.u32 %p7, %r0, 96, %p5;\n@%p7 {ARRIVE}"}, {Kind.DEADLOCK}),
    "one warp frees for all": (
        {"free": f"@%p0 mbarrier.arrive.shared::cta.b64 _, [%r7+{8 * TURNS.stages}], 4;"}, {Kind.RACE},
    ),
    "freed before the products are through": (
        {"wait_products": f"@%p5 {ARRIVE}", "free": PRODUCTS}, {Kind.RACE, Kind.SOURCE_CHANGED},
    ),
    "freed with a product in flight": (
        {"wait_products": "wgmma.wait_group.sync.aligned 1;", "last_products": PRODUCTS},
        {Kind.RACE, Kind.SOURCE_CHANGED},
    ),
    "a slot that was written before, with no fence": ({"first": FILL}, {Kind.RACE}),
    "results with no fence": ({"proxy": ""}, {Kind.RACE}),
    "a buffer that is used again too early": ({"reuse": ""}, {Kind.SOURCE_CHANGED}),
    "a block that ends too early": ({"drain": ""}, {Kind.SOURCE_CHANGED}),
}  # fmt: skip


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", BROKEN)
def test_what_a_ring_may_not_do(name: str, seed: int) -> None:
    parts, kinds = BROKEN[name]
    found = multiplied(TURNS, parts, on_finding="collect", seed=seed)[0]
    assert kinds & {each.kind for each in found}, found


def test_what_was_written_with_a_fence_may_be_filled() -> None:
    assert multiplied(TURNS, {"first": f"{FILL}\nfence.proxy.async;"}, on_finding="collect")[0] == []


REGISTERS = {
    "too many in all": ({"more": "setmaxnreg.inc.sync.aligned.u32 240;"}, "66560"),
    "a warp that stays out": (
        {"more": "setp.lt.u32 %p7, %r0, 32;\n@%p7 bra FEW;\nsetmaxnreg.inc.sync.aligned.u32 232;\nFEW:"}, "the same",
    ),
    "fewer by an increase": ({"more": "setmaxnreg.inc.sync.aligned.u32 160;"}, "of 168"),
    "more by a decrease": ({"fewer": "setmaxnreg.dec.sync.aligned.u32 176;"}, "of 168"),
}  # fmt: skip


@pytest.mark.parametrize("name", REGISTERS)
def test_registers_that_warp_groups_cannot_give_each_other(name: str) -> None:
    parts, message = REGISTERS[name]
    found = multiplied(RINGS["odd sizes"], parts, on_finding="collect")[0]
    assert [each.kind for each in found] == [Kind.REGISTERS], found
    assert message in found[0].message, found


REFUSED = {
    "multicast": ("load", LOAD.format(rank=2, to="shared::cluster", tile="", hint=".multicast::cluster"), "operands"),
    "im2col": ("load", LOAD.format(rank=2, to="shared::cluster", tile=".im2col", hint=""), "no form"),
    "two coordinates of three axes": ("corner", "{0, 0, 0}", "are not 2 coordinates"),
    "a coordinate of 64 bits": ("corner", "{0, %rd4}", "does not fit"),
    "a coordinate that is no integer": ("corner", "{0, %f1}", "does not fit"),
    "a coordinate that is none": ("corner", "{0, _}", "neither a register"),
    "no vector": ("corner", "%r0", "are a vector"),
    "no mbarrier": ("rest", ", 0", "operands"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_before_it_runs(name: str) -> None:
    part, text, message = REFUSED[name]
    with pytest.raises(PtxError, match=message):
        loaded({part: text})
