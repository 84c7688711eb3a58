"""Tensor maps that a kernel makes or that lie in global memory: their fields, and who has to fence what for whom."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from on_device import launched
from tensor_copy_kernel import LOAD, box_of, kernel, map_of, swizzled, wait_for

from dsl.runtime import assemble
from dsl.runtime.emulator import Finding, Kind, Memory, PtxError, TensorMapArgument, Touched, emulate
from dsl.runtime.emulator.launch import program_of
from dsl.runtime.emulator.memory import SHARED_START
from dsl.runtime.emulator.tensor_maps import encode
from dsl.runtime.foreign import MapOf

REPLACE = "tensormap.replace.tile.{}.shared::cta.b1024"
COPY_MAP = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"
RELEASE, ACQUIRE = "fence.proxy.tensormap::generic.release.gpu;", "fence.proxy.tensormap::generic.acquire.gpu"
SIZE = 1024
ADDRESS = f"@%p0 {REPLACE.format('global_address')}.b64 [%r10], %rd11;"
ROWS = f"@%p0 {REPLACE.format('global_dim')}.b32 [%r10], 1, 20;"
PARTS = {
    "fields": f"{ADDRESS}\n{ROWS}",
    "meet": "bar.sync 0;",
    "copy": f"setp.ge.u32 %p3, %r0, 32;\n@%p3 bra COPIED;\n{COPY_MAP} [%rd12], [%r10], 128;\nCOPIED:",
    "release": "",
    "hand": "",
    "acquire": f"@%p0 {ACQUIRE} [%rd12], 128;",
    "known": "",
    "use": "[%rd12, {0, 16}]",
    "load": LOAD.format(rank=2, to="shared::cta", tile="", hint=""),
    "meanwhile": "",
    "then": "",
}


def text_of(parts: dict[str, str] | None = None) -> str:
    """Thread 0 copies the map that is a parameter to shared memory and changes it there, its warp copies it to `made`,
    and thread 0 has a box come by it, that of row 16, which all write out."""
    given = PARTS | (parts or {})
    words = "\n".join(
        f"@%p0 ld.param.b64 %rd10, [map+{at}];\n@%p0 st.shared.b64 [%r10+{at}], %rd10;" for at in range(0, 128, 8)
    )
    body = f"""
add.u32 %r10, %r1, {SIZE};
ld.param.u64 %rd11, [other];
ld.param.u64 %rd12, [made];
@%p0 mbarrier.init.shared::cta.b64 [%r2], 1;
@%p0 fence.proxy.async.shared::cta;
{words}
{given["fields"]}
{given["meet"]}
{given["copy"]}
{given["release"]}
{given["hand"]}
{given["acquire"]}
{given["known"]}
@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], {SIZE};
@%p0 {given["load"]} [%r1], {given["use"]}, [%r2];
{given["meanwhile"]}
{wait_for("WAIT", "%r2", "0")}
{given["then"]}
ld.param.u64 %rd2, [out];
shl.b32 %r3, %r0, 3;
add.u32 %r4, %r1, %r3;
ld.shared.b64 %rd5, [%r4];
cvt.u64.u32 %rd3, %r3;
add.u64 %rd3, %rd2, %rd3;
st.global.b64 [%rd3], %rd5;"""
    return kernel(body, ("map",), ("other", "made", "out"), 128, SIZE + 128)


def arrays() -> tuple[Any, Any]:
    """Those that the map is of, and that it is changed to."""
    return np.zeros((64, 64), np.uint16), np.arange(64 * 64, dtype=np.uint16).reshape(64, 64)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_map_is_made_of_another(device: str, seed: int) -> None:
    """Its array is another one, and shorter, so that four of eight rows are zeros."""
    (array, other), made, out = arrays(), np.zeros(128, np.uint8), np.zeros(SIZE, np.uint8)
    launched(text_of(), [MapOf(array, (8, 64), 128), other, made, out], device, seed=seed)
    wanted = box_of(other[:20], (0, 16), (64, 8)).reshape(-1).view(np.uint8)
    np.testing.assert_array_equal(out, swizzled(wanted, 128, SHARED_START))


ALL = [("elemtype", "1"), ("rank", "1"), ("global_dim", "0, 64"), ("global_dim", "1, 20"), ("box_dim", "0, %r11"),
       ("box_dim", "1, 8"), ("element_stride", "0, 1"), ("element_stride", "1, 1"), ("interleave_layout", "0"),
       ("swizzle_mode", "3"), ("fill_mode", "0")]  # fmt: skip
STRIDE = f"@%p0 {REPLACE.format('global_stride')}.b64 [%r10], 0, 128;"


def test_all_fields_of_a_map_are_replaced(device: str) -> None:
    """One of bytes along one axis becomes one of two axes, with a swizzle."""
    lines = [f"@%p0 {REPLACE.format(field)}.b32 [%r10], {value};" for field, value in ALL]
    text = text_of({"fields": "\n".join(["mov.u32 %r11, 64;", ADDRESS, STRIDE, *lines])})
    other, made, out = arrays()[1], np.zeros(128, np.uint8), np.zeros(SIZE, np.uint8)
    launched(text, [MapOf(np.zeros(256, np.uint8), (16,)), other, made, out], device)
    wanted = box_of(other[:20], (0, 16), (64, 8)).reshape(-1).view(np.uint8)
    np.testing.assert_array_equal(out, swizzled(wanted, 128, SHARED_START))


GLOBAL = "tensormap.replace.tile.{}.global.b1024"
IN_PLACE = "\n".join(
    [f"@%p0 ld.shared.b64 %rd10, [%r10+{at}];\n@%p0 st.global.b64 [%rd12+{at}], %rd10;" for at in range(0, 128, 8)]
    + [f"@%p0 {GLOBAL.format('global_address')}.b64 [%rd12], %rd11;"]
    + [f"@%p0 {GLOBAL.format('global_dim')}.b32 [%rd12], 1, 20;"]
)  # fmt: skip
BY_STORES = {"fields": "", "copy": IN_PLACE, "release": f"@%p0 {RELEASE}"}
GENERIC = {"fields": PARTS["fields"].replace(".shared::cta", "").replace("[%r10]", "[%rd13]"), "meet": "bar.sync 0;"}
HARMLESS = {
    "in global memory, with a release of its own": BY_STORES,
    "another thread of the block releases, behind a barrier": BY_STORES
    | {"release": "bar.sync 0;\nsetp.eq.u32 %p4, %r0, 64;\n@%p4 " + RELEASE, "hand": "bar.sync 0;"},
    "the whole warp acquires": {"acquire": f"{ACQUIRE} [%rd12], 128;"},
    "another thread acquires, and a barrier follows": {
        "hand": "bar.sync 0;",
        "acquire": f"setp.eq.u32 %p4, %r0, 64;\n@%p4 {ACQUIRE} [%rd12], 128;",
        "known": "bar.sync 0;",
    },
    "changed again when the box has come": {"then": f"bar.sync 0;\n{PARTS['copy'].replace('COPIED', 'AGAIN')}"},
    "a scope of the block": {
        "copy": PARTS["copy"].replace(".gpu.", ".cta."),
        "acquire": PARTS["acquire"].replace("gpu", "cta"),
    },
    "through a hint": {
        "known": "prefetch.tensormap [%rd12];\ncp.async.bulk.prefetch.tensor.2d.L2.global [%rd12, {0, 16}];"
    },
    "generic addresses": {"fields": f"cvt.u64.u32 %rd13, %r10;\ncvta.shared.u64 %rd13, %rd13;\n{GENERIC['fields']}"},
}


def found_in(text: str, **options: Any) -> tuple[list[Finding], Any]:
    memory, (array, other) = Memory(), arrays()
    places = [memory.allocate(each, name) for name, each in (("array", array), ("other", other))]
    places += [memory.allocate(np.zeros(size, np.uint8), name) for name, size in (("made", 192), ("out", SIZE))]
    arguments = [TensorMapArgument(map_of(array, (64, 8), 128), places[0]), *places[1:]]
    result = emulate(text, "kernel", options.pop("grid", 1), 128, arguments, on_finding="collect", **options)
    assert result.notes == []
    return result.findings, memory.read(places[3], np.uint8, SIZE)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_no_fault(name: str, seed: int) -> None:
    found, out = found_in(text_of(HARMLESS[name]), seed=seed)
    wanted = box_of(arrays()[1][:20], (0, 16), (64, 8)).reshape(-1).view(np.uint8)
    assert found == []
    np.testing.assert_array_equal(out, swizzled(wanted, 128, SHARED_START))


def test_it_is_ptx() -> None:
    for parts in HARMLESS.values():
        assemble(text_of(parts), "sm_90a")


NO_ACQUIRE, NO_RELEASE = (
    "with no fence.proxy.tensormap::generic.acquire",
    "with no fence.proxy.tensormap::generic.release",
)
FAULTS: dict[str, tuple[dict[str, str], Kind, str, str]] = {
    "nobody acquires": ({"acquire": ""}, Kind.RACE, NO_ACQUIRE, "cp.async.bulk.tensor"),
    "another map is acquired": (
        {"acquire": f"@%p0 {ACQUIRE} [%rd12+64], 128;"},
        Kind.RACE,
        NO_ACQUIRE,
        "cp.async.bulk.tensor",
    ),
    "acquired before it is there": (
        {"acquire": "", "meet": f"@%p0 {ACQUIRE} [%rd12], 128;\nbar.sync 0;"},
        Kind.RACE,
        NO_RELEASE,
        "cp.async.bulk.tensor",
    ),
    "another thread acquires": (
        {"hand": "bar.sync 0;", "acquire": f"setp.eq.u32 %p4, %r0, 64;\n@%p4 {ACQUIRE} [%rd12], 128;"},
        Kind.RACE,
        NO_ACQUIRE,
        "cp.async.bulk.tensor",
    ),
    "another thread acquires what it cannot know": (
        {"acquire": f"setp.eq.u32 %p4, %r0, 64;\n@%p4 {ACQUIRE} [%rd12], 128;", "known": "bar.sync 0;"},
        Kind.RACE,
        NO_RELEASE,
        "cp.async.bulk.tensor",
    ),
    "nobody releases": (BY_STORES | {"release": ""}, Kind.RACE, NO_RELEASE, "cp.async.bulk.tensor"),
    "released before the last change": (
        BY_STORES | {"copy": IN_PLACE.replace("@%p0 tensormap", f"@%p0 {RELEASE}\n@%p0 tensormap"), "release": ""},
        Kind.RACE,
        NO_RELEASE,
        "cp.async.bulk.tensor",
    ),
    "another thread releases, and no barrier is between": (
        BY_STORES | {"release": "setp.eq.u32 %p4, %r0, 64;\n@%p4 " + RELEASE, "hand": "bar.sync 0;"},
        Kind.RACE,
        NO_RELEASE,
        "cp.async.bulk.tensor",
    ),
    "changed behind the acquire": (
        {"known": f"@%p0 {GLOBAL.format('global_dim')}.b32 [%rd12], 1, 18;"},
        Kind.RACE,
        NO_RELEASE,
        "cp.async.bulk.tensor",
    ),
    "changed while the box comes": (
        {"meanwhile": f"@%p0 {GLOBAL.format('global_dim')}.b32 [%rd12], 1, 18;"},
        Kind.SOURCE_CHANGED,
        "is complete",
        "cp.async.bulk.tensor",
    ),
    "no barrier between the change and the copy": (
        {"meet": ""},
        Kind.RACE,
        "that another thread has written",
        "tensormap.cp_fenceproxy",
    ),
    "half of a warp copies it": (
        {"copy": PARTS["copy"].replace("32;", "16;")},
        Kind.MISSING_LANE,
        "",
        "tensormap.cp_fenceproxy",
    ),
    "copied to where no array is": (
        {"copy": "mov.b64 %rd13, 0;\n" + PARTS["copy"].replace("[%rd12]", "[%rd13]")},
        Kind.OUT_OF_BOUNDS,
        "",
        "tensormap.cp_fenceproxy",
    ),
    "copied from beyond shared memory": (
        {"copy": PARTS["copy"].replace("[%r10]", "[%r10+65536]")},
        Kind.OUT_OF_BOUNDS,
        "",
        "tensormap.cp_fenceproxy",
    ),
    "what is no map is changed": (
        {"fields": f"@%p0 {REPLACE.format('rank')}.b32 [%r1], 1;"},
        Kind.UNINITIALISED,
        "nobody has written",
        "tensormap.replace",
    ),
    "words are changed": (
        {"fields": f"@%p0 st.shared.b64 [%r10], %rd11;\n{ADDRESS}"},
        Kind.TENSOR_MAP,
        "no tensor map",
        "tensormap.replace",
    ),
    "at a multiple of 32": (
        {"fields": ADDRESS.replace("[%r10]", "[%r10+32]")},
        Kind.MISALIGNED,
        "32 past a multiple of 64",
        "tensormap.replace",
    ),
    "acquired in shared memory": (
        {"acquire": f"cvt.u64.u32 %rd13, %r10;\ncvta.shared.u64 %rd13, %rd13;\n@%p0 {ACQUIRE} [%rd13], 128;"},
        Kind.TENSOR_MAP,
        "where no 128 bytes",
        "fence.proxy.tensormap",
    ),
    "a map in shared memory": (
        {"known": "cvt.u64.u32 %rd13, %r10;\ncvta.shared.u64 %rd13, %rd13;", "use": "[%rd13, {0, 16}]"},
        Kind.TENSOR_MAP,
        "is neither that of a parameter",
        "cp.async.bulk.tensor",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_goes_wrong_is_found_at_its_line(name: str) -> None:
    parts, kind, message, place = FAULTS[name]
    text = text_of(parts)
    found, lines = found_in(text, budget=1 << 20)[0], text.splitlines()
    wanted = [each for each in found if each.kind == kind and message in each.message]
    assert wanted and place in lines[(wanted[0].ptx_line or 0) - 1], found


MADE = {
    "no axes": ("rank", "5", "it has 6 axes, not 1 to 5"),
    "no elements": ("global_dim", "1, 0", "are not all 1 to 2^32"),
    "a box of 257": ("box_dim", "1, 257", "has not 1 to 256 elements"),
    "rows beyond the swizzle": ("swizzle_mode", "2", "its swizzle spans 64"),
    "wider elements": ("elemtype", "4", "its swizzle spans 128"),
    "a layout that is not done": ("interleave_layout", "1", "16 bytes interleaved, which the emulator does not know"),
    "every other row": ("element_stride", "1, 2", "the element strides (1, 2), which the emulator does not know"),
    "NaN around it": ("fill_mode", "1", "a fill of NaN, which the emulator does not know"),
    "an array of nobody": ("global_address", "0", "neither"),
}


@pytest.mark.parametrize("name", MADE)
def test_maps_that_are_made_wrong(name: str) -> None:
    field, value, message = MADE[name]
    line = f"@%p0 {REPLACE.format(field)}.b{64 if field == 'global_address' else 32} [%r10], {value};"
    found = found_in(text_of({"fields": line}), budget=1 << 20)[0]
    wanted = Kind.OUT_OF_BOUNDS if field == "global_address" else Kind.TENSOR_MAP
    assert found[0].kind == wanted and (message in found[0].message or wanted is Kind.OUT_OF_BOUNDS), found


def test_an_axis_of_a_map_is_a_constant() -> None:
    for line in (ROWS.replace("1, 20", "%r0, 20"), ROWS.replace("1, 20", "5, 20"), ADDRESS.replace("b64", "b32")):
        with pytest.raises(PtxError):
            program_of(text_of({"fields": line}), "kernel")


IN_CLUSTER = {
    "fields": "mov.u32 %r12, %cluster_ctarank;\nsetp.ne.u32 %p5, %r12, 0;\n" + PARTS["fields"],
    "copy": "@%p5 bra COPIED;\n" + PARTS["copy"],
    "hand": "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;",
    "then": "@!%p5 bra END;",
}


@pytest.mark.parametrize(("scopes", "is_fault"), [
    (("gpu", "gpu"), False), (("cluster", "cluster"), False), (("cta", "gpu"), True), (("gpu", "cta"), True),
])  # fmt: skip
def test_another_block_uses_it(scopes: tuple[str, str], is_fault: bool) -> None:
    copy = IN_CLUSTER["copy"].replace(".gpu.", f".{scopes[0]}.")
    parts = IN_CLUSTER | {"copy": copy, "acquire": PARTS["acquire"].replace(".gpu", f".{scopes[1]}")}
    text = text_of(parts).replace("ret;\n}", "END:\nret;\n}")
    found = found_in(text, grid=2, cluster=2)[0]
    assert [each.kind for each in found] == [Kind.RACE] * is_fault, found


BESIDE = """
ld.param.u64 %rd1, [maps];
{acquire}
@%p0 mbarrier.init.shared::cta.b64 [%r2], 1;
@%p0 fence.proxy.async.shared::cta;
bar.sync 0;
@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 1024;
@%p0 {load} [%r1], [%rd1, {{0, 16}}], [%r2];
{wait}"""


@pytest.mark.parametrize("acquire", ["", f"@%p0 {ACQUIRE} [%rd1], 128;"])
def test_a_map_that_the_host_put_into_global_memory_is_acquired(acquire: str) -> None:
    """Alone of all proxies this one does not see what was there before the launch."""
    memory, array = Memory(), arrays()[1]
    pointer = memory.allocate(array, "array")
    maps = memory.allocate(np.frombuffer(encode(map_of(array, (64, 8), 128), pointer.address), np.uint8), "maps")
    parts = {"load": PARTS["load"], "wait": wait_for("WAIT", "%r2", "0")}
    text = kernel(BESIDE.format(acquire=acquire, **parts), (), ("maps",), 128, SIZE)
    found = emulate(text, "kernel", 1, 128, [maps], on_finding="collect").findings
    assert [NO_ACQUIRE in each.message for each in found] == [True] * (not acquire), found


def test_a_map_that_a_launch_in_front_may_write() -> None:
    """It is read ahead of the wait for that launch."""
    memory, array = Memory(), arrays()[1]
    pointer = memory.allocate(array, "array")
    maps = memory.allocate(np.frombuffer(encode(map_of(array, (64, 8), 128), pointer.address), np.uint8), "maps")
    parts = {"acquire": f"@%p0 {ACQUIRE} [%rd1], 128;", "load": PARTS["load"], "wait": wait_for("WAIT", "%r2", "0")}
    text = kernel(BESIDE.format(**parts) + "\ngriddepcontrol.wait;", (), ("maps",), 128, SIZE)
    front = [Touched.somehow(maps.address, 128, "front")]
    (found,) = emulate(text, "kernel", 1, 128, [maps], on_finding="collect", after=front).findings
    assert found.kind is Kind.RACE and "that front has written" in found.message, found
    assert "cp.async.bulk.tensor" in text.splitlines()[(found.ptx_line or 0) - 1]


STORED = """
@%p0 {store} [%rd12, {{0, 16}}], [%r1];
@%p0 cp.async.bulk.commit_group;
@%p0 cp.async.bulk.wait_group{read} 0;
{then}"""


@pytest.mark.parametrize("reduces", [False, True])
def test_a_box_goes_out_by_a_map_that_was_made(reduces: bool, device: str) -> None:
    """What came from one array goes to another; 20 of 64 rows are there."""
    name = f"cp.{'reduce.' * reduces}async.bulk.tensor.2d.global.shared::cta{'.xor' * reduces}.bulk_group"
    text = text_of({"use": "[%rd14, {0, 8}]", "known": "mov.b64 %rd14, map;\ncvta.param.u64 %rd14, %rd14;",
                    "then": STORED.format(store=name, read="", then="")})  # fmt: skip
    array, other = (each.view(np.uint32) for each in (arrays()[1].copy(), arrays()[1].copy()[::-1].copy()))
    wanted = other.copy()
    wanted[16:20] = array[8:12] ^ other[16:20] if reduces else array[8:12]
    launched(text, [MapOf(array, (8, 32), 128), other, np.zeros(128, np.uint8), np.zeros(SIZE, np.uint8)], device)
    np.testing.assert_array_equal(other, wanted)


def test_a_map_is_changed_while_a_box_goes_out() -> None:
    change = f"@%p0 {GLOBAL.format('global_dim')}.b32 [%rd12], 1, 18;"
    for read, kinds in (("", []), (".read", []), (None, [Kind.SOURCE_CHANGED])):
        then = STORED.format(
            store="cp.async.bulk.tensor.2d.global.shared::cta.bulk_group", read=read or "", then=change
        )
        if read is None:
            then = then.replace("@%p0 cp.async.bulk.wait_group 0;", "") + "\n@%p0 cp.async.bulk.wait_group 0;"
        found = found_in(text_of({"then": then}))[0]
        assert [each.kind for each in found] == kinds, found
