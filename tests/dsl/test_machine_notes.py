"""`dsl why --machine`: what ptxas adds where it costs, and that it still does so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import dsl
from dsl.command import cli
from dsl.runtime import assemble
from dsl.runtime.errors import DeviceError
from dsl.runtime.machine_code import listing
from dsl.runtime.tools import find
from dsl.studies.machine_notes import MachineNote, machine_notes

TEXT = """
kernel one(y: f32[n], x: f32[n]):
    grid 1
    i = arange(128)
    v = load(x[i], mask=i < n)
    store(y[i], v * 2.0, mask=i < n)

kernel two(y: f32[n], x: f32[n], z: f32[n]):
    grid 1
    i = arange(128)
    store(y[i], load(x[i], mask=i < n) + load(z[i], mask=i < n), mask=i < n)

kernel copies(y: f16[n], x: f16[n]):
    grid 1
    shared s: f16[{wide}]
    copy(s[0 : {wide}], x[0 : {wide}], mask=arange({wide}) < {mask})
    commit()
    wait(0)
    y[0 : {wide}] = s[0 : {wide}]

example:
    n = 100
    x, y = randn(f32[n]), empty(f32[n])
    one(y, x)
    expect y ~= x * 2.0 within 1e-6
"""
BODY = """.version 8.0
.target {arch}
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y, .param .u32 n)
{{
.reg .b64 %rd<9>;
.reg .b32 %r<9>;
.reg .pred %p<2>;
.shared .align 128 .b8 s[16384];
ld.param.u64 %rd1, [x];
ld.param.u64 %rd5, [y];
ld.param.u32 %r4, [n];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd2, %r1, 16;
add.s64 %rd3, %rd1, %rd2;
shl.b32 %r2, %r1, 4;
mov.u32 %r3, s;
add.s32 %r3, %r3, %r2;
{lines}
cp.async.commit_group;
cp.async.wait_group 0;
bar.sync 0;
ld.shared.u32 %r6, [%r3+64];
add.s64 %rd6, %rd5, %rd2;
st.global.u32 [%rd6], %r6;
ret;
}}
"""


@pytest.fixture(scope="module", autouse=True)
def tools() -> None:
    try:
        find("ptxas"), find("nvdisasm")
    except DeviceError as error:
        pytest.skip(str(error))


def notes(kernel: str, wide: int = 1024, mask: str = "n", n: int = 4096) -> list[MachineNote]:
    module = dsl.parse(TEXT.format(wide=wide, mask=mask), device="emulator", arch="sm_90")
    whole, *found = machine_notes(module.compile(kernel, n=n))
    assert (
        whole.line is None
        and not whole.hint
        and re.fullmatch(r"\d+ registers, 0 bytes of spills, \d+ instructions", whole.cost)
    )
    return found


def test_a_masked_load_that_stands_alone_is_a_branch() -> None:
    (note,) = notes("one")
    assert (note.line, note.count) == (5, 1) and "BSSY" in note.cost
    assert notes("two") == []


def test_a_size_in_bytes_is_told() -> None:
    told = [note.cost for note in notes("copies", mask="n % 8 + 1001")]
    assert any("number of bytes" in cost for cost in told)
    assert not any("number of bytes" in note.cost for note in notes("copies", mask="1024"))


def test_copies_that_are_far_apart_are_told() -> None:
    """Each of 128 threads copies 16 bytes; the next ones are 2048 bytes behind."""
    (note,) = notes("copies", wide=4096, mask="4096")
    assert (note.line, note.count) == (16, 3) and "2048" in note.cost
    assert notes("copies", wide=1024, mask="1024") == []


def instructions(lines: str, arch: str) -> int:
    code = assemble(BODY.format(arch=arch, lines=lines), arch, "k", None)
    return sum(each.address is not None for each in listing(code.cubin, "k"))


@pytest.mark.long
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_ptxas_adds_what_is_told(arch: str) -> None:
    copy = "cp.async.cg.shared.global"
    two = f"add.s64 %rd4, %rd3, {{}};\n{copy} [%r3], [%rd3], 16;\n{copy} [%r3+4096], [%rd4], 16;"
    near, least, far = (instructions(two.format(each), arch) for each in (2032, -2048, 2048))
    assert near == least == far - 2
    one = "{}\ncp.async.cg.shared.global [%r3], [%rd3], 16, %r5;"
    chosen = instructions(one.format("setp.lt.u32 %p1, %r1, %r4;\nselp.b32 %r5, 16, 0, %p1;"), arch)
    number = instructions(one.format("min.u32 %r5, %r4, 16;"), arch)
    assert number >= chosen + 5


def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "k.tile"
    path.write_text(TEXT.format(wide=1024, mask="n"))
    shown = CliRunner().invoke(cli, ["why", str(path), "--machine", "--arch", "sm_90"])
    assert shown.exit_code == 0 and "ptxas ×1" in shown.output and "convergence barrier" in shown.output
    other = CliRunner().invoke(cli, ["why", f"{path}:6", "--machine", "--arch", "sm_90", "--json"])
    assert other.exit_code == 0 and '"machine": []' in other.output


def test_a_line_with_notes_alone_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "k.tile"
    path.write_text(TEXT.format(wide=1024, mask="n"))
    shown = CliRunner().invoke(cli, ["why", f"{path}:5", "--choice", "pipeline", "--machine", "--arch", "sm_90"])
    assert "ptxas ×1" in shown.output
