"""How many instructions the machine code has, and how many are in its loops."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import dsl
from dsl.command import cli
from dsl.runtime import DeviceError, LaunchError, assemble
from dsl.runtime.machine_code import MachineCode, counted, instruction_count, live_registers, machine_code

SAMPLES = Path(__file__).resolve().parents[2] / "samples"


def printed(*lines: str, entry: str = "k") -> str:
    """As nvdisasm prints instructions and labels, with the filling at the end."""
    rows, at = [f'\t.section\t.text.{entry},"ax",@progbits', f"{entry}:", f".text.{entry}:"], 0
    for line in (*lines, ".L_end:", "BRA `(.L_end)", "NOP", "NOP"):
        rows.append(line if line.endswith(":") else f"        /*{at:04x}*/              {line} ;")
        at += 16 * (not line.endswith(":"))
    return "\n".join(rows) + "\n"


def test_code_without_a_loop() -> None:
    text = printed("LDC R1, c[0x0][0x28]", "@P0 BRA `(.L_1)", "FADD R0, R1, R2", ".L_1:", "EXIT")
    assert counted(text, "k") == MachineCode(4, 0)


def test_the_longest_of_the_inner_loops() -> None:
    inner = [".L_2:", "FADD R0, R0, R1", "IADD3 R2, R2, 1", "@!P1 BRA `(.L_2)"]
    short = [".L_3:", "IADD3 R3, R3, 1", "@P2 BRA `(.L_3)"]
    text = printed("MOV R0, 0", ".L_1:", "MOV R2, 0", *inner, *short, "@P0 BRA `(.L_1)", "EXIT")
    assert counted(text, "k") == MachineCode(9, 3)


def test_code_out_of_the_way_that_comes_back_is_no_loop() -> None:
    away = [".L_far:", "MUFU.RCP R1, R0", "BRA `(.L_back)"]
    text = printed("MOV R0, 0", "@P0 BRA `(.L_far)", ".L_back:", "FADD R0, R0, R1", "EXIT", *away)
    assert counted(text, "k") == MachineCode(6, 0)


def test_a_branch_by_its_first_operand_may_go_on() -> None:
    text = printed(".L_1:", "FADD R0, R0, R1", "BRA P0, `(.L_2)", "BRA `(.L_1)", ".L_2:", "EXIT")
    assert counted(text, "k") == MachineCode(4, 3)


def test_what_is_called_is_code_of_its_own() -> None:
    called = ["slow:", ".L_2:", "FADD R0, R0, R1", "@P1 BRA `(.L_2)", "RET.REL.NODEC R8"]
    text = printed(".L_1:", "CALL.REL.NOINC `(slow)", "MOV R0, 0", "@P0 BRA `(.L_1)", "EXIT", *called)
    assert counted(text, "k") == MachineCode(7, 3)


def test_computed_branches_leave_loops_unknown() -> None:
    assert counted(printed("BRX R2 -0x10", "EXIT"), "k") == MachineCode(2, None)


def test_the_entry_that_is_asked_for() -> None:
    text = printed("EXIT", entry="a") + printed("MOV R0, 0", "EXIT", entry="b")
    assert (counted(text, "a").instructions, counted(text, "b").instructions) == (1, 2)


LOOP = """
kernel k(y: f32[n], x: f32[n]; ROUNDS = 8):
    grid 1
    v = zeros(f32[128])
    for i in range(n // 128):
        v = v * 0.5 + x[i * 128 : i * 128 + 128]
    y[0 : 128] = v
"""


def test_machine_code_of_kernels() -> None:
    def found(text: str) -> MachineCode:
        kernel = dsl.parse(text, "k.tile", device="emulator").compile("k")
        return machine_code(assemble(kernel.ptx, "sm_90").cubin, "k")

    looping, straight = found(LOOP), found(LOOP.replace("for i in range(n // 128)", "for static i in range(2)"))
    assert looping.loop and 4 <= looping.loop < looping.instructions
    assert straight.loop == 0 < straight.instructions


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_instructions_are_counted_without_nvdisasm(arch: str) -> None:
    """The filling is left out: the branch to itself, of which sm_90 changed the form, and what follows it."""
    cubin = assemble(dsl.parse(LOOP, "k.tile", device="emulator").compile("k", arch=arch).ptx, arch).cubin
    assert instruction_count(cubin, "k") == machine_code(cubin, "k").instructions > 20


def test_bench_and_counters_tell_it(monkeypatch: pytest.MonkeyPatch) -> None:
    file = str(SAMPLES / "reduction.tile")
    table = CliRunner().invoke(cli, ["bench", file, "--example", "v0", "--device", "emulator"]).stdout
    head = next(line for line in table.splitlines() if "warp instr" in line)
    assert "SASS  in loop" in head and "how often they run is not counted" in table
    shown = CliRunner().invoke(cli, ["run", file, "--counters"]).stdout
    assert re.search(r"SASS +\d+ instructions by ptxas, \d+ of them in the longest inner loop", shown)

    def missing(program: str) -> Path:
        raise DeviceError("tool", f"{program} is not installed")

    def refused(*_: object) -> None:
        raise LaunchError("ptx", "Unsupported .version 8.7; current version is '7.8'")

    with monkeypatch.context() as patch:
        patch.setattr("dsl.runtime.tools.assemble", refused)
        done = CliRunner().invoke(cli, ["run", file, "--counters"])
        assert "SASS" not in done.stdout and "warp instr" in done.stdout
    monkeypatch.setattr("dsl.runtime.tools.find", missing)
    table = CliRunner().invoke(cli, ["bench", file, "--example", "v0", "--device", "emulator"]).stdout
    assert "warp instr" in table and "SASS" not in table


def test_live_registers_of_all_255_need_a_later_nvdisasm(monkeypatch: pytest.MonkeyPatch) -> None:
    """nvdisasm 13.2 refuses them (findings/nvdisasm_live_registers_of_255.sh): told with the mend."""

    def refuses(cubin: bytes, *options: str) -> str:
        raise DeviceError("tool", "nvdisasm fails: nvdisasm fatal   : Invalid register count : '255'")

    monkeypatch.setattr("dsl.runtime.machine_code.sass", refuses)
    monkeypatch.setattr("dsl.runtime.machine_code.version_of", lambda program: "13.2.51")
    with pytest.raises(DeviceError, match=r"13\.2\.51 reports no live registers of a kernel with 255") as caught:
        live_registers(b"of 255", "k")
    assert caught.value.hint is not None and "nvidia-cuda-nvdisasm>=13.3" in caught.value.hint
