"""How often machine code runs, by the emulator's counts of the lines that it came from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dsl
from dsl.runtime import DeviceError, assemble
from dsl.runtime.executed import Executed, executed, executed_in
from dsl.runtime.machine_code import blocks_in

SAMPLES = Path(__file__).resolve().parents[2] / "samples"


def printed(*rows: tuple[int, str] | str) -> str:
    """As nvdisasm prints instructions, each with its line of PTX, and labels."""
    out, at = ['\t.section\t.text.k,"ax",@progbits', "k:", ".text.k:"], 0
    for row in (*rows, ".L_end:", (1, "BRA `(.L_end)")):
        if isinstance(row, str):
            out.append(row)
            continue
        out += [f'\t//## File ".nv_debug_ptx_txt", line {row[0]}', f"        /*{at:04x}*/              {row[1]} ;"]
        at += 16
    return "\n".join(out) + "\n"


def run(runs: dict[int, int], *rows: tuple[int, str] | str) -> Executed:
    return executed_in(blocks_in(printed(*rows), "k"), runs)


def test_instructions_of_a_block_run_equally_often() -> None:
    """Line 6 is of a branch that one warp takes; its condition lets no lane of the seven others do it."""
    rows = [(5, "FADD R0, R1, R2"), (6, "@!P0 LDS R3, [R4]"), (6, "@!P0 STS [R4], R3"), (7, "EXIT")]
    assert run({5: 8, 6: 1, 7: 8}, *rows) == Executed(32, 0, 14)


def test_a_packed_conversion_is_none_of_the_unit_of_exponentials() -> None:
    assert run({5: 4}, (5, "F2FP.F16.F32.PACK_AB R0, R1, R2"), (5, "F2F.F64.F32 R2, R1"), (5, "EXIT")).special == 4


def test_what_was_taken_out_of_a_loop_counts_where_it_stands() -> None:
    loop = [".L_1:", (6, "FADD R0, R0, R1"), (6, "@P0 BRA `(.L_1)")]
    rows = [(4, "MOV R0, 0"), (6, "MOV R1, 3"), (4, "MOV R2, 1"), *loop, (8, "MUFU.EX2 R0, R0"), (9, "EXIT")]
    assert run({4: 8, 6: 80, 8: 8, 9: 8}, *rows) == Executed(3 * 8 + 2 * 80 + 2 * 8, 8, 0)


def test_the_slow_way_of_an_instruction_does_not_run() -> None:
    """Nor does what it calls; a function that the usual way calls does."""
    slow = [(5, "@!P0 BRA `(.L_1)"), (5, "CALL.REL.NOINC `(slow)"), ".L_1:"]
    used = [(6, "CALL.REL.NOINC `(used)"), (7, "EXIT")]
    functions = ["slow:", (9, "FADD R1, R1, R1"), (9, "RET.REL.NODEC R8"), "used:", (9, "MUFU.RSQ R1, R1"), (9, "RET")]
    assert run({5: 4, 6: 4, 7: 4, 9: 4}, (5, "MUFU.RCP R0, R1"), *slow, *used, *functions) == Executed(24, 8, 0)


def test_a_division_is_counted_without_its_slow_way() -> None:
    """The machine code has 100 instructions and more, of which the inner blocks run the first 37."""
    kernel = dsl.load(SAMPLES / "conv1d.tile", device="emulator").compile("naive", n=1 << 16)
    y, x = np.zeros(1 << 16, np.float32), np.ones((1 << 16) + 2, np.float32)
    result = kernel.kernel.run(y, x, ptx_lines=True, blocks=2, from_middle=True)
    try:
        code = assemble(kernel.ptx, "sm_90", "naive")
        found = executed(code.cubin, "naive", result.counters.runs_of_ptx_lines)
    except DeviceError as error:
        pytest.skip(str(error))
    assert found.special == 0 and 30 * 8 < found.instructions < 45 * 8
