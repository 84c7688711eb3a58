"""Bulk copies that reduce (`cp.reduce.async.bulk`, of ranges and of tensors): against numpy, and who may touch what
they change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from handwritten import findings, kernel
from on_device import launched
from tensor_copy_kernel import kernel as tensor_kernel

from dsl.runtime import assemble
from dsl.runtime.emulator import Kind, Memory, Touched, emulate
from dsl.runtime.foreign import MapOf

BYTES, BLOCKS = 512, 3
REDUCE = "cp.reduce.async.bulk.global.shared::cta.bulk_group"
FROM_SHARED = """
ld.global.u32 %r10, [%rd3];
st.shared.u32 [%r3], %r10;
fence.proxy.async.shared::cta;
bar.sync 0;
setp.eq.u32 %p3, %r0, 0;
@%p3 {reduce} [%rd1], [%r2], {size};
@%p3 cp.async.bulk.commit_group;
@%p3 cp.async.bulk.wait_group 0;
"""
DTYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "b32": np.uint32,
    "b64": np.uint64,
} | {f"{s}{n}": f"{'i' if s == 's' else 'u'}{n // 8}" for s in "su" for n in (32, 64)}
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda y, x: y + x,
    "min": np.minimum,
    "max": np.maximum,
    "inc": lambda y, x: np.where(y >= x, 0, y + 1),
    "dec": lambda y, x: np.where((y == 0) | (y > x), x, y - 1),
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
PLAIN = {
    "add": "u32 s32 u64 f32 f64",
    "add.noftz": "f16 bf16",
    **dict.fromkeys(("min", "max"), "u32 s32 u64 s64 f16 bf16"),
    **dict.fromkeys(("inc", "dec"), "u32"),
    **dict.fromkeys(("and", "or", "xor"), "b32 b64"),
}
FORMS = [(name, kind) for name, kinds in PLAIN.items() for kind in kinds.split()]
TENSORS = {
    "add": "u32 s32 u64 f16 bf16 f32",
    **dict.fromkeys(("min", "max"), "u32 s32 u64 s64 f16 bf16"),
    **dict.fromkeys(("inc", "dec"), "u32"),
    **dict.fromkeys(("and", "or", "xor"), "u32 s32 u64"),
}


def values(kind: str, count: int, seed: int) -> Any:
    """Of a type; floats are small integers and halves, whose sums are exact in any order."""
    random, dtype = np.random.default_rng(seed), np.dtype(DTYPES[kind])
    if dtype.kind in "iu":
        found = np.frombuffer(random.bytes(count * dtype.itemsize), dtype).copy()
        found[::2] = random.integers(0, 6, (count + 1) // 2)  # small ones, which inc and dec come round
        return found
    return (random.integers(-40, 40, count) / 2).astype(dtype)


def reduced(name: str, y: Any, x: Any, times: int = BLOCKS) -> Any:
    for _ in range(times):
        y = OPERATIONS[name](y, x).astype(y.dtype)
    return y


@pytest.mark.parametrize(("operation", "kind"), FORMS)
def test_blocks_reduce_into_one_place(operation: str, kind: str, device: str) -> None:
    count = BYTES // np.dtype(DTYPES[kind]).itemsize
    x, y = values(kind, count, 1), values(kind, count, 2)
    wanted = reduced(operation.split(".")[0], y, x)
    text = kernel(FROM_SHARED.format(reduce=f"{REDUCE}.{operation}.{kind}", size=BYTES))
    launched(text, [x, y], device, BLOCKS, seed=1)
    assert y.tobytes() == wanted.tobytes()


SPECIAL = {
    "f32": (
        [1e-40, 3e-39, -1e-40, 1.5e-38, 2.0],
        [0.0, 1.5e-38, -1e-40, -1.2e-38, 1e-40],
    ),
    "f16": ([6e-8, 6e-8, -6e-8, 7e-5, 65504.0], [0.0, 6e-8, 6e-8, -6.5e-5, 65504.0]),
}


@pytest.mark.parametrize("kind", SPECIAL)
def test_sums_of_subnormals(kind: str, device: str) -> None:
    """They are kept."""
    x, y = (np.resize(np.array(each, DTYPES[kind]), BYTES // np.dtype(DTYPES[kind]).itemsize) for each in SPECIAL[kind])
    with np.errstate(over="ignore"):
        wanted = y + x
    noftz = ".noftz" if kind == "f16" else ""
    launched(kernel(FROM_SHARED.format(reduce=f"{REDUCE}.add{noftz}.{kind}", size=BYTES)), [x, y], device)
    assert y.tobytes() == wanted.tobytes()


BOX = """
ld.param.u64 %rd2, [x];
mad.lo.u32 %r3, %r0, 4, 0;
cvt.u64.u32 %rd3, %r3;
add.u64 %rd3, %rd2, %rd3;
ld.global.b32 %r5, [%rd3];
add.u32 %r4, %r1, %r3;
st.shared.b32 [%r4], %r5;
fence.proxy.async.shared::cta;
bar.sync 0;
@!%p0 bra END;
mov.b64 %rd1, map;
cvta.param.u64 %rd1, %rd1;
cp.reduce.async.bulk.tensor.2d.global.shared::cta.{operation}.bulk_group [%rd1, {{{corner}}}], [%r1];
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
END:"""


@pytest.mark.parametrize(
    ("operation", "kind"), [(name, kind) for name, kinds in TENSORS.items() for kind in kinds.split()]
)
def test_a_box_is_reduced(operation: str, kind: str, device: str) -> None:
    """512 bytes of two rows more than the array has, by three blocks."""
    size = np.dtype(DTYPES[kind]).itemsize
    columns = 64 // size
    x, y = values(kind, BYTES // size, 1), values(kind, 10 * columns, 2).reshape(10, columns)
    wanted = y.copy()
    wanted[4:] = reduced(operation, y[4:], x.reshape(8, columns)[:6])
    text = tensor_kernel(BOX.format(operation=operation, corner="0, 4"), ("map",), ("x",), 128, BYTES)
    launched(text, [MapOf(y, (8, columns)), x], device, BLOCKS)
    assert y.tobytes() == wanted.tobytes()


def test_a_map_says_which_types_can_be_reduced() -> None:
    text = tensor_kernel(BOX.format(operation="inc", corner="0, 0"), ("map",), ("x",), 128, BYTES)
    with pytest.raises(Exception, match=r"a map of \.f32, whose elements have no \.inc"):
        launched(text, [MapOf(np.zeros((8, 16), np.float32), (8, 16)), np.zeros(128, np.float32)], "emulator")


def test_they_are_ptx() -> None:
    forms = [f"{REDUCE}.L2::cache_hint.{operation}.{kind} [%rd1], [%r2], 16, %rd0;" for operation, kind in FORMS]
    assemble(kernel("\n".join(forms)), "sm_90")


def faulty(parts: dict[str, str], block: int = 64, grid: int = 1) -> list[Any]:
    given = {"fence": "fence.proxy.async.shared::cta;", "before": "", "wait": "@%p3 cp.async.bulk.wait_group 0;",
             "after": "", "from": "[%r2]", "to": "[%rd1]", "size": "256", "type": "u32"} | parts  # fmt: skip
    body = f"""
    setp.eq.u32 %p3, %r0, 0;
    setp.eq.u32 %p4, %r0, 32;
    mov.u32 %r11, {given["size"]};
    {given["before"]}
    st.shared.u32 [%r3], %r0;
    {given["fence"]}
    bar.sync 0;
    @%p3 {REDUCE}.add.{given["type"]} {given["to"]}, {given["from"]}, %r11;
    @%p3 cp.async.bulk.commit_group;
    {given["wait"]}
    {given["after"]}
    """.replace("\n    ", "\n").strip("\n")
    return findings(body, block, grid)


def test_reductions_of_many_blocks_are_no_race() -> None:
    assert faulty({}, grid=4) == []


HARMLESS = {
    "a barrier behind the wait": {"after": "bar.sync 0; ld.global.u32 %r10, [%rd4];"},
    "read behind the wait": {"after": "@%p3 ld.global.u32 %r10, [%rd1];"},
    "written again behind the wait": {"after": "@%p3 st.global.u32 [%rd1], 5;"},
    "written before, with a fence": {"before": "@%p0 st.global.u32 [%rd4], 1;\nfence.proxy.async.global;\nbar.sync 0;"},
    "waited for reading, then written in shared memory": {
        "wait": "@%p3 cp.async.bulk.wait_group.read 0;",
        "after": "@%p3 st.shared.u32 [%r2], 5;",
    },
    "atomics elsewhere": {"after": "@%p4 red.relaxed.gpu.global.add.u32 [%rd1+256], 1;"},
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_no_fault(name: str) -> None:
    assert faulty(HARMLESS[name]) == []


ORDER = "bar.sync 0;"
FAULTS: dict[str, tuple[dict[str, str], Kind, str]] = {
    "read before the wait": (
        {"wait": "@%p3 ld.global.u32 %r10, [%rd1];"},
        Kind.IN_FLIGHT,
        "that an asynchronous reduction is still changing",
    ),
    "read behind a wait for reads alone": (
        {"wait": "@%p3 cp.async.bulk.wait_group.read 0;", "after": "@%p3 ld.global.u32 %r10, [%rd1];"},
        Kind.IN_FLIGHT,
        "an asynchronous reduction is still changing",
    ),
    "written before the wait": (
        {"wait": "@%p3 st.global.u32 [%rd1+4], 5;"},
        Kind.IN_FLIGHT,
        "writes global memory that an",
    ),
    "read by a thread that has not waited": (
        {"after": "@%p4 ld.global.u32 %r10, [%rd1];"},
        Kind.RACE,
        "reads global memory that another thread has written atom",
    ),
    "an atomic of the other proxy": (
        {"wait": "@%p4 red.relaxed.gpu.global.add.u32 [%rd1], 1;"},
        Kind.IN_FLIGHT,
        "reduction is still changing",
    ),
    "an atomic of the other proxy behind the wait": (
        {"after": "@%p4 red.relaxed.gpu.global.add.u32 [%rd1], 1;"},
        Kind.RACE,
        "by another proxy",
    ),
    "read before by another thread": (
        {"after": f"@%p4 ld.global.u32 %r10, [%rd1+256];\n@%p3 {REDUCE}.add.u32 [%rd1+256], [%r2], 16;"},
        Kind.RACE,
        "writes global memory that another thread has read",
    ),
    "written before with no fence": (
        {"before": "@%p0 st.global.u32 [%rd4], 1;"},
        Kind.RACE,
        "changes global memory that was written without a fence",
    ),
    "nothing fences the source": ({"fence": ""}, Kind.RACE, "without a fence.proxy.async"),
    "another type at the same time": (
        {
            "wait": f"@%p3 {REDUCE}.add.u64 [%rd1], [%r2], 16;\n@%p3 cp.async.bulk.commit_group;\n"
            "@%p3 cp.async.bulk.wait_group 0;"
        },
        Kind.IN_FLIGHT,
        "still changing",
    ),
    "a copy to the same place": (
        {
            "wait": "@%p3 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 16;\n"
            "@%p3 cp.async.bulk.commit_group;\n"
            "@%p3 cp.async.bulk.wait_group 0;"
        },
        Kind.IN_FLIGHT,
        "still changing",
    ),
    "the source is written before it is read": (
        {"wait": "@%p3 st.shared.u32 [%r2], 5;\n@%p3 cp.async.bulk.wait_group 0;"},
        Kind.SOURCE_CHANGED,
        "source of an",
    ),
    "the block ends before it is read": ({"wait": ""}, Kind.SOURCE_CHANGED, "the block may end"),
    "no multiple of 16": ({"size": "24"}, Kind.MISALIGNED, "no multiple of 16"),
    "to a multiple of 8": ({"to": "[%rd1+8]"}, Kind.MISALIGNED, "no multiple of 16"),
    "past the end": ({"to": "[%rd1+4000]"}, Kind.OUT_OF_BOUNDS, "writes at global address"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_it_may_not_do(name: str) -> None:
    parts, kind, message = FAULTS[name]
    found = faulty(parts)
    assert any(each.kind == kind and message in each.message and each.line for each in found), found


def test_ahead_of_a_wait_for_launches_in_front() -> None:
    """What one of them may have read is not reduced before the wait."""
    memory = Memory()
    x, y = (memory.allocate(np.zeros(1024, np.uint32), name) for name in "xy")
    text = kernel(FROM_SHARED.format(reduce=f"{REDUCE}.add.u32", size=BYTES))
    front = [Touched.somehow(y.address, 4096, "front")]
    for given, kinds in (
        (text, [Kind.RACE, Kind.NO_WAIT]),
        (text.replace("bar.sync", "griddepcontrol.wait;\nbar.sync"), []),
    ):
        found = emulate(given, "kernel", 1, 128, [x, y], on_finding="collect", after=front).findings
        assert [each.kind for each in found] == kinds, found
        assert not found or "cp.reduce" in given.splitlines()[(found[0].ptx_line or 0) - 1]
