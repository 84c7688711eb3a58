"""Kernels with tensor copies, written by hand: one box in and out, and a ring that one warp fills for products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dsl.runtime.emulator import Kind, Memory, TensorMapArgument
from dsl.runtime.emulator.tensor_maps import encode
from dsl.runtime.tensor_map import TensorMap, Window

HEADER = """.version 8.6
.target sm_90a
.address_size 64
{module}.visible .entry kernel({params})
.reqntid {threads}, 1, 1
.minnctapersm 1
{{
.reg .pred %p<8>;
.reg .b16 %h<4>;
.reg .b32 %r<80>;
.reg .f32 %f<130>;
.reg .b64 %rd<40>;
.shared .align 8 .b64 bars[16];
{box}
mov.u32 %r0, %tid.x;
mov.u32 %r1, box;
mov.u32 %r2, bars;
setp.eq.u32 %p0, %r0, 0;
{body}
ret;
}}
"""
MAP = ".param .align 64 .b8 {}[128]"


def kernel(body: str, maps: tuple[str, ...], pointers: tuple[str, ...], threads: int, size: int) -> str:
    box = f".shared .align 1024 .b8 box[{size}];"
    module = ""
    if size > 40 << 10:  # more than a kernel can name, so that the launch gives it
        box, module = "", ".extern .shared .align 1024 .b8 box[];\n"
    params = [MAP.format(name) for name in maps] + [f".param .u64 {name}" for name in pointers]
    return HEADER.format(module=module, params=", ".join(params), threads=threads, box=box, body=body.strip())


def map_of(
    array: Any, box: tuple[int, ...], swizzle: int = 0, pitch: int = 0, window: Window | None = None
) -> TensorMap:
    """Of a C-contiguous array, whose rows may lie `pitch` bytes apart (then it is a part of a wider one)."""
    strides = [array.itemsize]
    for axis, extent in enumerate(array.shape[:0:-1]):
        strides.append(strides[-1] * extent if axis or not pitch else pitch)
    return TensorMap(array.itemsize, array.shape[::-1], tuple(strides[1:]), box, swizzle, window)


def box_of(array: Any, corner: tuple[int, ...], box: tuple[int, ...]) -> Any:
    """What a copy brings: the part of the array, with zeros around it. Corner and box innermost first."""
    found = np.zeros(box[::-1], array.dtype)
    for at in np.ndindex(*box[::-1]):
        where = [low + i for low, i in zip(corner[::-1], at, strict=True)]
        if all(0 <= i < extent for i, extent in zip(where, array.shape, strict=True)):
            found[at] = array[tuple(where)]
    return found


def swizzled(image: Any, swizzle: int, start: int) -> Any:
    """The bytes of a box as they lie in shared memory from an address on, byte by byte."""
    mask = max(swizzle // 16 - 1, 0)
    found = np.zeros_like(image)
    for byte in range(len(image)):
        at = start + byte
        found[(at ^ (at >> 7 & mask) << 4) - start] = image[byte]
    return found


LOAD = "cp.async.bulk.tensor.{rank}d.{to}.global{tile}.mbarrier::complete_tx::bytes{hint}"
STORE = "cp.async.bulk.tensor.{rank}d.global.shared::cta{tile}.bulk_group{hint}"


def expecting(size: int) -> str:
    """The arrival at the mbarrier of `in_and_out`, for so many bytes."""
    return f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], {size};"


def in_and_out(corner: tuple[int, ...], size: int, parts: dict[str, str] | None = None) -> str:
    """128 threads copy a box in, and what lies in shared memory out, as words; `parts` replace lines."""
    rank = len(corner)
    given = {
        "init": "@%p0 mbarrier.init.shared::cta.b64 [%r2], 1;",
        "fence": "@%p0 fence.mbarrier_init.release.cluster;",
        "sync": "bar.sync 0;",
        "expect": expecting(size),
        "start": "[%r1]",
        "map": "mov.b64 %rd1, map;\ncvta.param.u64 %rd1, %rd1;",
        "load": LOAD.format(rank=rank, to="shared::cluster", tile=".tile", hint=""),
        "corner": "{" + ", ".join(map(str, corner)) + "}",
        "rest": "",
        "wait": "WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;\n@!%p2 bra WAIT;",
        "before": "",
    } | (parts or {})
    body = f"""
{given["init"]}
{given["fence"]}
{given["before"]}
{given["sync"]}
@!%p0 bra READ;
{given["map"]}
{given["expect"]}
{given["load"]} {given["start"]}, [%rd1, {given["corner"]}], [%r2]{given["rest"]};
READ:
{given["wait"]}
ld.param.u64 %rd2, [out];
shl.b32 %r3, %r0, 2;
OUT:
setp.ge.u32 %p1, %r3, {size};
@%p1 bra END;
add.u32 %r4, %r1, %r3;
ld.shared.b32 %r5, [%r4];
cvt.u64.u32 %rd3, %r3;
add.u64 %rd3, %rd2, %rd3;
st.global.b32 [%rd3], %r5;
add.u32 %r3, %r3, 512;
bra OUT;
END:"""
    return kernel(body, ("map",), ("out",), 128, -(-size // 1024) * 1024 + 1024)


def arguments(
    array: Any, box: tuple[int, ...], swizzle: int = 0, window: Window | None = None
) -> tuple[list[Any], Memory, Any]:
    """(map and result of `in_and_out`, the memory, where the result lies)."""
    memory = Memory()
    pointer = memory.allocate(array, "array")
    size = int(np.prod(box)) * array.itemsize
    out = memory.allocate(np.zeros(size, np.uint8), "out")
    return [encode(map_of(array, box, swizzle, window=window), pointer.address), out], memory, out


@dataclass(frozen=True)
class Ring:
    """c = a @ b.T of f16, with sums and results in f32. A warp group multiplies 64 rows, and a last one fills `stages`
    slots with 64 elements along K each. Blocks take tiles in turn, and copy results out from shared memory."""

    m: int
    n: int
    k: int
    columns: int = 64
    groups: int = 1
    stages: int = 2
    blocks: int = 1

    @property
    def rows(self) -> int:
        return 64 * self.groups

    @property
    def threads(self) -> int:
        return 128 * (self.groups + 1)

    @property
    def slot(self) -> int:
        """Bytes of a slot."""
        return 128 * (self.rows + self.columns)

    @property
    def results(self) -> int:
        """Where results lie in shared memory, behind the slots."""
        return self.stages * self.slot

    @property
    def size(self) -> int:
        return self.results + 4 * self.rows * self.columns

    @property
    def tiles(self) -> tuple[int, int]:
        """Along rows and columns."""
        return -(-self.m // self.rows), -(-self.n // self.columns)


def wait_for(label: str, barrier: str, parity: str) -> str:
    return f"{label}:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [{barrier}], {parity};\n@!%p2 bra {label};"


EARLY = "@%p0 st.shared.b32 [%r1+64], %r0;"
CopyFault = tuple[dict[str, str], Kind, str]
"""Lines of `in_and_out` that are replaced, the kind of what is found then, and a part of its message."""


def faults_of_copies(size: int, another: str) -> dict[str, CopyFault]:
    """What no copy into shared memory may do, be it of a box or of pixels. size: its bytes; another: one more copy to
    the same place."""
    return {
        "nobody waits": ({"wait": ""}, Kind.IN_FLIGHT, "still filling"),
        "a barrier of the block in place of the mbarrier": ({"wait": "bar.sync 0;"}, Kind.IN_FLIGHT, "still filling"),
        "a wait for the phase before": ({"wait": wait_for("WAIT", "%r2", "1")}, Kind.IN_FLIGHT, "still filling"),
        "its place is written while it is in flight": ({"wait": EARLY}, Kind.IN_FLIGHT, "still filling"),
        "another copy to the same place": (
            {"expect": f"{expecting(2 * size)}\n{another}"}, Kind.IN_FLIGHT, "still filling",
        ),
        "written before, with no fence": ({"before": EARLY}, Kind.RACE, "without a fence.proxy.async"),
        "read before with nothing between": (
            {"before": f"{EARLY}\nfence.proxy.async;\nbar.sync 0;\nld.shared.b32 %r6, [%r1+64];", "sync": ""},
            Kind.RACE, "nothing to order",
        ),
        "nothing fences the init": ({"fence": ""}, Kind.RACE, "after its init"),
        "no mbarrier": ({"init": ""}, Kind.BARRIER_MISUSE, "no mbarrier"),
        "at a multiple of 64": ({"start": "[%r1+64]"}, Kind.MISALIGNED, "no multiple of 128"),
        "beyond shared memory": ({"start": "[%r1+2048]"}, Kind.OUT_OF_BOUNDS, f"writes {size} bytes at shared address"),
        "onto its own mbarrier": ({"start": "[%r2]"}, Kind.BARRIER_MISUSE, "holds an mbarrier"),
        "the block ends before the bytes come": ({"wait": "bra END;"}, Kind.IN_FLIGHT, "nobody has waited"),
    }  # fmt: skip


NEXT_SLOT = """
add.u32 %r20, %r20, 1;
setp.eq.u32 %p3, %r20, {stages};
selp.b32 %r20, 0, %r20, %p3;
selp.b32 %r24, 1, 0, %p3;
xor.b32 %r21, %r21, %r24;"""

RING = """
@!%p0 bra MADE;
{init}
fence.mbarrier_init.release.cluster;
MADE:
{first}
bar.sync 0;
shr.u32 %r3, %r0, 7;
mov.u32 %r20, 0;
mov.u32 %r21, 0;
mov.u32 %r22, %ctaid.x;
setp.eq.u32 %p1, %r3, {groups};
@!%p1 bra MULTIPLY;
{fewer}
setp.ne.u32 %p1, %r0, {fetcher};
@%p1 bra END;
mov.b64 %rd1, map_a;
cvta.param.u64 %rd1, %rd1;
mov.b64 %rd2, map_b;
cvta.param.u64 %rd2, %rd2;
FETCH_TILE:
setp.ge.u32 %p1, %r22, {tiles};
@%p1 bra END;
div.u32 %r4, %r22, {across};
rem.u32 %r5, %r22, {across};
mul.lo.u32 %r4, %r4, {rows};
mul.lo.u32 %r5, %r5, {columns};
mov.u32 %r6, 0;
FETCH:
mad.lo.u32 %r7, %r20, 8, %r2;
xor.b32 %r8, %r21, 1;
{wait_free}
{expect}
mad.lo.u32 %r9, %r20, {slot}, %r1;
{load} [%r9], [%rd1, {{%r6, %r4}}], [%r7];
{load} [%r9+{b_at}], [%rd2, {{%r6, %r5}}], [%r7];
{next}
add.u32 %r6, %r6, 64;
setp.lt.u32 %p1, %r6, {k};
@%p1 bra FETCH;
add.u32 %r22, %r22, {blocks};
bra FETCH_TILE;
MULTIPLY:
{more}
and.b32 %r10, %r0, 127;
setp.eq.u32 %p4, %r10, 0;
and.b32 %r11, %r0, 31;
setp.eq.u32 %p5, %r11, 0;
shr.u32 %r12, %r10, 5;
mov.b64 %rd3, map_c;
cvta.param.u64 %rd3, %rd3;
shr.u32 %r13, %r11, 2;
mad.lo.u32 %r13, %r12, 16, %r13;
mul.lo.u32 %r13, %r13, {pitch};
and.b32 %r14, %r11, 3;
mad.lo.u32 %r13, %r14, 8, %r13;
mul.lo.u32 %r15, %r3, {group_bytes};
add.u32 %r15, %r15, %r1;
add.u32 %r15, %r15, {results};
add.u32 %r13, %r13, %r15;
add.u32 %r16, %r3, 1;
TILE:
setp.ge.u32 %p1, %r22, {tiles};
@%p1 bra DRAIN;
div.u32 %r4, %r22, {across};
rem.u32 %r5, %r22, {across};
mul.lo.u32 %r4, %r4, {rows};
mad.lo.u32 %r4, %r3, 64, %r4;
mul.lo.u32 %r5, %r5, {columns};
mov.u32 %r6, 0;
{zeros}
ROUND:
mad.lo.u32 %r7, %r20, 8, %r2;
{wait_full}
mad.lo.u32 %r9, %r20, {slot}, %r1;
add.u32 %r17, %r9, {b_at};
mad.lo.u32 %r9, %r3, 8192, %r9;
shr.u32 %r9, %r9, 4;
cvt.u64.u32 %rd4, %r9;
or.b64 %rd4, %rd4, {descriptor};
shr.u32 %r17, %r17, 4;
cvt.u64.u32 %rd5, %r17;
or.b64 %rd5, %rd5, {descriptor};
wgmma.fence.sync.aligned;
{products}
wgmma.commit_group.sync.aligned;
{wait_products}
{free}
{next}
add.u32 %r6, %r6, 64;
setp.lt.u32 %p1, %r6, {k};
@%p1 bra ROUND;
{last_products}
{reuse}
bar.sync %r16, 128;
{write}
{proxy}
bar.sync %r16, 128;
@!%p4 bra STORED;
{store} [%rd3, {{%r5, %r4}}], [%r15];
cp.async.bulk.commit_group;
STORED:
add.u32 %r22, %r22, {blocks};
bra TILE;
DRAIN:
{drain}
END:"""


def ring_text(ring: Ring, **parts: str) -> str:
    """The kernel; `parts` replace lines of it."""
    sums = [f"%f{i}" for i in range(ring.columns // 2)]
    free = 8 * ring.stages
    init = [f"mbarrier.init.shared::cta.b64 [%r2+{8 * slot}], 1;" for slot in range(ring.stages)]
    init += [
        f"mbarrier.init.shared::cta.b64 [%r2+{free + 8 * slot}], {4 * ring.groups};" for slot in range(ring.stages)
    ]
    products = []
    for step in range(4):
        products += [f"add.u64 %rd6, %rd4, {2 * step};", f"add.u64 %rd7, %rd5, {2 * step};"]
        shape = f"m64n{ring.columns}k16.f32.f16.f16"
        products.append(f"wgmma.mma_async.sync.aligned.{shape} {{{', '.join(sums)}}}, %rd6, %rd7, %p6, 1, 1, 0, 0;")
    pitch = 4 * ring.columns
    write = [
        f"st.shared.v2.f32 [%r13+{8 * pitch * (i // 2 % 2) + 32 * (i // 4)}], {{{sums[i]}, {sums[i + 1]}}};"
        for i in range(0, len(sums), 2)
    ]
    given = {
        "init": "\n".join(init),
        "first": "",
        "groups": ring.groups,
        "fewer": "setmaxnreg.dec.sync.aligned.u32 40;" if ring.groups > 1 else "",
        "more": "setmaxnreg.inc.sync.aligned.u32 232;" if ring.groups > 1 else "",
        "fetcher": 128 * ring.groups,
        "tiles": ring.tiles[0] * ring.tiles[1],
        "across": ring.tiles[1],
        "rows": ring.rows,
        "columns": ring.columns,
        "wait_free": wait_for("FREE", f"%r7+{free}", "%r8"),
        "expect": f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r7], {ring.slot};",
        "slot": ring.slot,
        "load": LOAD.format(rank=2, to="shared::cluster", tile="", hint=""),
        "b_at": 128 * ring.rows,
        "next": NEXT_SLOT.format(stages=ring.stages),
        "k": ring.k,
        "blocks": ring.blocks,
        "pitch": pitch,
        "group_bytes": 64 * pitch,
        "results": ring.results,
        "zeros": "\n".join(f"mov.f32 {each}, 0f00000000;" for each in sums) + "\nsetp.eq.u32 %p6, %r6, %r6;",
        "wait_full": wait_for("FULL", "%r7", "%r21"),
        "descriptor": 1 << 62 | 64 << 32 | 1 << 16,
        "products": "\n".join(products),
        "wait_products": "wgmma.wait_group.sync.aligned 0;",
        "free": f"@%p5 mbarrier.arrive.shared::cta.b64 _, [%r7+{free}];",
        "last_products": "",
        "reuse": "@%p4 cp.async.bulk.wait_group.read 0;",
        "write": "\n".join(write),
        "proxy": "fence.proxy.async;",
        "store": STORE.format(rank=2, tile=".tile", hint=""),
        "drain": "@%p4 cp.async.bulk.wait_group 0;",
    } | parts
    body = RING.format(**given)
    return kernel(body, ("map_a", "map_b", "map_c"), (), ring.threads, ring.size)


def ring_arguments(ring: Ring, a: Any, b: Any) -> tuple[list[Any], Memory, Any]:
    """(maps of the kernel, the memory, where the result lies)."""
    memory = Memory()
    c = np.full((ring.m, ring.n), -1, np.float32)
    places = [memory.allocate(array, name) for array, name in ((a, "a"), (b, "b"), (c, "c"))]
    boxes = ((a, (64, ring.rows), 128), (b, (64, ring.columns), 128), (c, (ring.columns, 64), 0))
    maps = [
        TensorMapArgument(map_of(array, box, swizzle), place)
        for (array, box, swizzle), place in zip(boxes, places, strict=True)
    ]
    return maps, memory, places[2]


def out_of_shared(corner: tuple[int, ...], size: int, parts: dict[str, str] | None = None) -> str:
    """128 threads write words from `words` to shared memory, of which one copies a box out; `parts` replace lines."""
    given = {
        "fence": "fence.proxy.async.shared::cta;",
        "start": "[%r1]",
        "commit": "cp.async.bulk.commit_group;",
        "wait": "cp.async.bulk.wait_group 0;",
        "behind": "",
        "store": STORE.format(rank=len(corner), tile="", hint=""),
    } | (parts or {})
    body = f"""
ld.param.u64 %rd2, [words];
shl.b32 %r3, %r0, 2;
IN:
setp.ge.u32 %p1, %r3, {size};
@%p1 bra FILLED;
cvt.u64.u32 %rd3, %r3;
add.u64 %rd3, %rd2, %rd3;
ld.global.b32 %r5, [%rd3];
add.u32 %r4, %r1, %r3;
st.shared.b32 [%r4], %r5;
add.u32 %r3, %r3, 512;
bra IN;
FILLED:
{given["fence"]}
bar.sync 0;
@!%p0 bra END;
mov.b64 %rd1, map;
cvta.param.u64 %rd1, %rd1;
{given["store"]} [%rd1, {{{", ".join(map(str, corner))}}}], {given["start"]};
{given["commit"]}
{given["wait"]}
{given["behind"]}
END:"""
    return kernel(body, ("map",), ("words", "array"), 128, -(-size // 1024) * 1024 + 1024)
