"""What the emulator's counters say of atomics (sectors, wavefronts, turns on one address) and of moves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import dsl
from dsl.command import cli
from dsl.runtime.emulator import LaunchCounters

GLOBAL = """
kernel k(y: s32[n], x: s32[n]):
    grid 4
    i = arange(128)
    v = atomic_add(y[{index}], 1)
"""
SHARED = """
kernel k(y: s32[n], x: s32[n]):
    grid 4
    shared s: s32[4096]
    i = arange(128)
    s[:] = 0
    v = atomic_add(s[{index}], 1)
    y[i + block(0) * 128] = v
"""


def totals(text: str, index: str) -> LaunchCounters:
    kernel = dsl.parse(text.replace("{index}", index), "k.tile", device="emulator").compile("k")
    y = np.zeros(4096, np.int32)
    return kernel.run(y, y.copy()).counters


@pytest.mark.parametrize(
    ("index", "sectors", "ideal", "waits"),
    [
        ("i", 4 * 16, 4 * 16, 3),  # each of 128 words by four blocks
        ("i * 8", 4 * 128, 4 * 16, 3),
        ("i % 8", 4 * 4, 4 * 4, 4 * 16 - 1),
        ("i * 0", 4 * 4, 4 * 4, 4 * 128 - 1),
        ("i + block(0) * 128", 4 * 16, 4 * 16, 0),
    ],
)
def test_global_atomics_count_sectors_and_the_turns_on_the_busiest_address(
    index: str, sectors: int, ideal: int, waits: int
) -> None:
    counted = totals(GLOBAL, index)
    found = counted.totals
    assert found.atomics == 16
    assert (found.global_atomic_sectors, found.global_ideal_sectors) == (sectors, ideal)
    assert found.atomic_waits == waits
    assert found.global_load_sectors == found.global_store_sectors == 0
    assert counted.by_line[5].atomic_waits == waits


@pytest.mark.parametrize(
    ("index", "passes", "conflicts", "waits"),
    [
        ("i", 1, 0, 0),
        ("i * 2", 2, 1, 0),
        ("i * 32", 32, 31, 0),
        ("i * 0", 32, 0, 31),
        ("i // 4", 4, 0, 3),
        ("i // 16 * 32", 32, 1, 30),  # two words of one bank, sixteen lanes each
    ],
)
def test_shared_atomics_take_turns_on_a_bank_and_on_a_word(index: str, passes: int, conflicts: int, waits: int) -> None:
    found = totals(SHARED, index).by_line[7]
    warps = 4 * 4
    assert (found.shared_wavefronts, found.shared_ideal) == (warps * passes, warps)
    assert (found.bank_conflicts, found.atomic_waits) == (warps * conflicts, warps * waits)


EXAMPLE = """
example:
    x = zeros(s32[4096])
    y = zeros(s32[4096])
    k(y, x)
"""


def test_the_cost_of_atomics_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "k.tile"
    path.write_text(GLOBAL.replace("{index}", "i % 8") + EXAMPLE)
    run = CliRunner().invoke(cli, ["run", str(path), "--counters"]).stdout
    assert "63 turns of atomics on one address" in run
    heading = next(line for line in run.splitlines() if line.startswith("warp instr"))
    assert " atomic sectors " in heading and heading.endswith(" waits")
    bench = CliRunner().invoke(cli, ["bench", str(path), "--device", "emulator"]).stdout
    assert "atomics" in bench and "waits" in bench
    path.write_text(GLOBAL.replace("{index}", "i").replace("v = atomic_add(y[i], 1)", "y[i] = x[i]") + EXAMPLE)
    assert "waits" not in CliRunner().invoke(cli, ["bench", str(path), "--device", "emulator"]).stdout


MOVES = """
kernel k(y: s32[n], x: s32[n]):
    grid 4
    i = block(0) * 128 + arange(128)
    {line}
"""


def test_moves_around_inline_assembly_are_told_apart() -> None:
    """LLVM puts the constants and the results of inline assembly into registers of their own."""
    add = 'asm("add.s32 {{d}}, {{0}}, {{1}};", s32, {}, {})'
    assembly = "y[i] = " + add.format(add.format("x[i]", 3), 5)
    inline, plain = (totals(MOVES.replace("{line}", line), "").totals for line in (assembly, "y[i] = x[i] + 8"))
    assert inline.moves >= plain.moves + 2 * 16
    assert inline.instructions - inline.moves <= plain.instructions - plain.moves + 2 * 16
