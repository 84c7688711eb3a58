"""What the emulator counts of products, of the unit of exponentials, of bulk copies, and of a part of the grid."""

from __future__ import annotations

import numpy as np
import pytest
from handwritten import run
from tensor_copy_kernel import arguments, in_and_out

from dsl.runtime.emulator import emulate
from dsl.runtime.emulator.matrix import warp_product


@pytest.mark.parametrize(
    ("opcode", "products", "operands"),
    [
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 2048, 0),
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 2048, 0),
        ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", 2048, 0),
        ("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc", 2048, 0),
        ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", 4096, 0),
        ("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16", 32768, 512 + 1024),
        ("wgmma.mma_async.sync.aligned.m64n8k32.s32.u8.s8", 2048, 512 + 64),
    ],
)
def test_products_by_the_time_that_they_take(opcode: str, products: int, operands: int) -> None:
    """Multiply-adds of a warp: as many of 16 bits; four warps share the 64 rows of a `wgmma`, and read its operands."""
    assert warp_product(opcode.split("."), in_registers=False) == (products, operands)
    assert warp_product(opcode.split(".")) == (products, max(0, operands - 512))


def test_exponentials_are_counted() -> None:
    found, _ = run("ex2.approx.f32 %f1, %f0;\nrcp.approx.f32 %f2, %f1;\nadd.f32 %f3, %f1, %f2;", block=64)
    assert found.counters.totals.special == 4


@pytest.mark.parametrize(
    ("columns", "box", "corner", "sectors", "fewest"),
    [
        (64, (64, 8), (0, 4), 8 * 4, 8 * 4),  # rows of 128 bytes
        (40, (8, 16), (8, 0), 16, 8),  # 16 bytes of rows of 80: some begin at a sector's middle, and each has its own
        (64, (64, 8), (32, 12), 4 * 2, 4 * 2),  # half of the box is outside
    ],
)
def test_copies_in_bulk_are_sectors(columns: int, box: tuple, corner: tuple, sectors: int, fewest: int) -> None:
    array = np.arange(16 * columns, dtype=np.uint16).reshape(16, columns)
    args, _, _ = arguments(array, box, 0)
    counters = emulate(in_and_out(corner, 2 * box[0] * box[1]), "kernel", 1, 128, args).counters
    assert counters.by_array["array"].global_load_sectors == sectors
    assert counters.by_array["array"].global_ideal_sectors == fewest


def test_blocks_of_the_middle_of_the_grid() -> None:
    """Each block of 64 threads writes its number, of 16 blocks; a finding names the block that it is of."""
    _, y = run("st.global.b32 [%rd6], %r7;", grid=16, blocks=2, from_middle=True)
    np.testing.assert_array_equal(y, np.repeat([0, 7, 8, 0], [7 * 64, 64, 64, 7 * 64]))
    body = "setp.ne.u32 %p2, %r7, 7;\n@%p2 bra SKIP;\nld.shared.b32 %r10, [%r3];\nSKIP:"
    faults = run(body, grid=16, blocks=2, from_middle=True, on_finding="collect")[0].findings
    assert [each.block for each in faults] == [(7, 0, 0)]
    assert not run(body, grid=16, blocks=2, on_finding="collect")[0].findings


def test_warps_that_ran_a_line_of_ptx() -> None:
    """A line with three instructions ran as often as each; those of the branch in one warp of two."""
    body = "add.u32 %r10, %r0, 1; add.u32 %r11, %r0, 2; add.u32 %r12, %r0, 3;\n@!%p1 bra SKIP;\nmov.u32 %r10, 7;\nSKIP:"
    counters = run(body, ptx_lines=True)[0].counters
    runs, counted = counters.runs_of_ptx_lines, counters.by_ptx_line
    three = next(line for line, found in counted.items() if found.instructions == 6)
    assert runs[three] == 2 and runs[three + 4] == 1


@pytest.mark.parametrize(
    ("body", "sectors", "fewest"),
    [
        ("@%p0 st.global.u32 [%rd4], 1;", 2, 1),  # a lane of each of two warps, 128 bytes apart
        ("st.global.u32 [%rd4], 1;", 8, 8),
        ("shl.b64 %rd9, %rd2, 3; add.u64 %rd9, %rd9, %rd1; st.global.u32 [%rd9], 1;", 64, 8),  # 32 bytes apart
        ("\n".join(f"setp.eq.u32 %p2, %r0, {at}; @%p2 st.global.u32 [%rd4], 1;" for at in range(64)), 64, 8),
        ("ld.global.u32 %r10, [%rd0]; ld.global.u32 %r11, [%rd0+4];", 4, 1),  # one word for a warp
        ("ld.global.u32 %r10, [%rd3+4];", 10, 8),
        ("red.global.add.u32 [%rd1], 1;", 2, 2),  # one after another, so that nothing is moved together
    ],
)
def test_the_fewest_sectors_hold_the_distinct_bytes_of_all_accesses(body: str, sectors: int, fewest: int) -> None:
    counters = run(body, 64)[0].counters
    for found in (counters.totals, *counters.by_array.values()):
        assert (found.sectors, found.global_ideal_sectors) == (sectors, fewest)
