"""`dsl count`: PTX of any compiler is launched, counted, judged and set side by side; mistakes are told at their place.

The texts are nvcc's and Triton's (`tests/runtime/emulator/foreign`), whose counters are derived there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from dsl.command import cli
from dsl.runtime import DeviceError
from dsl.runtime.signature import addresses_in, signatures
from dsl.runtime.tools import find

ROOT = Path(__file__).parents[2]
FOREIGN = ROOT / "tests" / "runtime" / "emulator" / "foreign"
SOFTMAX = [str(FOREIGN / "softmax.ptx"), "--block", "256"]
VALUES = ["rows=6", "x=randn(f16[rows, 1000])", "y=empty(f16[rows, 1000])", "n=1000"]
ARGS = ["--grid", "rows", "--args", "x, y, n"]
RIGHT = ["--expect", "y ~= ref.softmax(x) within 1e-3"]
TRITON = [str(FOREIGN / "triton_softmax.ptx"), "x=randn(f32[5, 77])", "y=empty(f32[5, 77])", "n=77", "--grid", "5"]


@pytest.fixture(autouse=True)
def _no_machine_code(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """ptxas and nvdisasm take most of a small count's time: the tests that look at machine code ask for it."""
    if "machine_code" not in request.node.name:
        monkeypatch.setattr("dsl.studies.count.assembled", lambda *given, **options: None)


def dsl(*words: str, device: str = "emulator") -> Result:
    result = CliRunner().invoke(cli, ["count", "--device", device, *words], standalone_mode=False)
    assert result.exception is None, result.exception
    result.exit_code = result.return_value
    return result


def told(*words: str, device: str = "emulator", status: int = 0) -> list[dict[str, Any]]:
    result = dsl(*words, "--json", device=device)
    assert result.exit_code == status, result.output
    return json.loads(result.stdout)["files"]


def table_of(output: str) -> dict[str, list[str]]:
    """Rows of the table by their headings, which are two words away from the figures."""
    rows = [line.strip().split("  ") for line in output.splitlines()]
    return {row[0]: " ".join(row[1:]).split() for row in rows if len(row) > 1}


# ---- one text ----


def test_a_text_of_nvcc_is_launched_counted_and_judged() -> None:
    """It reads a row three times and writes it once."""
    (found,) = told(*SOFTMAX, *VALUES, *ARGS, *RIGHT)
    assert found["passed"] is True and found["findings"] == [] and found["checks"][0]["max_error"] < 1e-4
    assert found["arguments"] == {"x": "f16[6, 1000]", "y": "f16[6, 1000]", "n": "1000"}
    assert found["counters"]["barriers"] == 6 * 8 * 4 and found["counters"]["bank_conflicts"] == 0
    by_array = found["by_array"]
    stored = by_array["y"]["global_store_sectors"]
    assert by_array["x"]["global_load_sectors"] == 3 * stored and by_array["y"]["global_load_sectors"] == 0
    assert found["figures"]["sectors_over_fewest"] == pytest.approx(
        4 * stored / found["counters"]["global_ideal_sectors"]
    )


def test_counters_by_line_of_the_source_and_of_the_ptx_add_up() -> None:
    (found,) = told(*SOFTMAX, *VALUES, *ARGS)
    for table in (found["by_line"], found["by_ptx_line"]):
        assert sum(row["barriers"] for row in table.values()) == found["counters"]["barriers"]
    text = (FOREIGN / "softmax.ptx").read_text().splitlines()
    barriers = [int(line) for line, row in found["by_ptx_line"].items() if row["barriers"]]
    assert len(barriers) == 4 and all("bar.sync" in text[line - 1] or "barrier" in text[line - 1] for line in barriers)


@pytest.mark.parametrize(("by", "text"), [("source", "__syncthreads();"), ("ptx", "bar.sync"), ("array", "y ")])
def test_lines_and_arrays_are_shown_with_their_counters(by: str, text: str) -> None:
    shown = dsl(*SOFTMAX, *VALUES, *ARGS, "--by", by).stdout.partition("findings")[2]
    assert any(text in line and any(c.isdigit() for c in line) for line in shown.splitlines())


def test_a_text_of_triton_says_its_block_and_names_its_inlined_source() -> None:
    (found,) = told(*TRITON, "scratch=0", "profile=0", "--shared", "16", "--expect", "y ~= ref.softmax(x) within 1e-6")
    assert found["passed"] is True and found["threads"] == 128 and found["target"] == "sm_90a"
    source = (FOREIGN / "triton_kernels.py").read_text().splitlines()
    stores = [int(line) for line, row in found["by_line"].items() if row["global_store_sectors"]]
    assert stores and all("tl.store" in source[line - 1] for line in stores)


def test_machine_code_stands_beside_the_counters() -> None:
    """Its shared memory is static: 8 floats. Without ptxas a line says so."""
    (found,) = told(*SOFTMAX, *VALUES, *ARGS)
    if not installed("ptxas"):
        assert found["registers"] is None
        assert "ptxas is not installed" in dsl(*SOFTMAX, *VALUES, *ARGS).stdout
        return
    assert 8 <= found["registers"] <= 64 and found["spills"] == 0
    assert found["shared_bytes"] == 32 and found["occupancy"] == 1.0
    assert not installed("nvdisasm") or found["machine_code"]["loop"] > 0


DOUBLING = """.version {version}
.target {target}
.address_size 64
.visible .entry twice(.param .u64 .ptr .align 1 y, .param .u64 .ptr .align 1 x, .param .u32 n)
{{
	.reg .pred %p<2>;
	.reg .b32 %r<6>;
	.reg .f32 %f<3>;
	.reg .b64 %rd<7>;
	ld.param.u64 %rd1, [y];
	ld.param.u64 %rd2, [x];
	ld.param.u32 %r1, [n];
	mov.u32 %r2, %ctaid.x;
	mov.u32 %r3, %ntid.x;
	mov.u32 %r4, %tid.x;
	mad.lo.s32 %r5, %r2, %r3, %r4;
	setp.ge.s32 %p1, %r5, %r1;
	@%p1 bra END;
	mul.wide.s32 %rd3, %r5, 4;
	add.s64 %rd4, %rd2, %rd3;
	add.s64 %rd5, %rd1, %rd3;
	ld.global.f32 %f1, [%rd4];
	add.f32 %f2, %f1, %f1;
	st.global.f32 [%rd5], %f2;
END:
	ret;
}}
"""


def doubling(folder: Path, target: str, version: str) -> list[str]:
    """A text for a target, with what its launch needs."""
    path = folder / "k.ptx"
    path.write_text(DOUBLING.format(target=target, version=version))
    return [str(path), "--grid", "4", "--block", "64", "y=empty(f32[200])", "x=randn(f32[200])", "n=200"]


@pytest.mark.parametrize(
    ("target", "version", "more", "chip"),
    [
        ("sm_52", "6.4", [], "A100, sm_80"),  # what nvcc of CUDA 12 compiles for
        ("sm_52", "6.4", ["--arch", "sm_90"], "H200, sm_90"),
        ("sm_103", "9.0", [], "B200, sm_103"),
    ],
)
def test_a_text_of_any_target_runs_and_has_machine_code(
    target: str, version: str, more: list[str], chip: str, tmp_path: Path
) -> None:
    (found,) = told(*doubling(tmp_path, target, version), *more, "--expect", "y == 2.0 * x")
    assert found["passed"] is True and found["chip"] == f"emulated {chip}" and found["target"] == target
    assert not installed("ptxas") or found["registers"] > 0


def test_machine_code_that_takes_too_long_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The emulator judges the text first: what it refuses, ptxas is not asked about."""
    program = tmp_path / "ptxas"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setattr("dsl.runtime.tools.find", lambda name: program)
    monkeypatch.setattr("dsl.runtime.tools.TIME_LIMIT", 0.5)
    words = doubling(tmp_path, "sm_80", "7.0")
    text = Path(words[0]).read_text()
    Path(words[0]).write_text(text.replace("add.f32", "add.rn.rz.f32"))
    refused = dsl(*words)
    assert refused.exit_code == 3 and "no form" in refused.stderr and not (tmp_path / "asked").exists()
    Path(words[0]).write_text(text)
    result = dsl(*words, "--expect", "y == 2.0 * x")
    assert result.exit_code == 0 and "ptxas did not end in 0.5 seconds for this text and was stopped" in result.stdout


def test_waits_of_a_cluster_that_does_not_say_so_are_told(tmp_path: Path) -> None:
    """ptxas puts a barrier of the block beside each: the launch may have no clusters."""
    text = (FOREIGN / "cluster.ptx").read_text()
    path = tmp_path / "k.ptx"
    path.write_text(text.replace(".explicitcluster\n", ""))
    waits = text.count("barrier.cluster.wait")
    values = ["--grid", "4", "--block", "64", "x=zeros(f32[4096])", "y=zeros(f32[4096])"]
    assert waits and (FOREIGN / "cluster.ptx").read_text() != path.read_text()
    for name, expected in ((path, waits), (FOREIGN / "cluster.ptx", 0)):
        shown = dsl(str(name), *values)
        assert ("barrier.cluster.wait without .explicitcluster" in shown.stdout) == bool(expected), shown.output


def installed(program: str) -> bool:
    try:
        find(program)
    except DeviceError:
        return False
    return True


def test_a_fault_is_found_and_nothing_is_written_back(tmp_path: Path) -> None:
    saved = tmp_path / "y.npy"
    words = [*SOFTMAX, *VALUES[:3], "n=1001", *ARGS, "--save", f"y={saved}", *RIGHT]
    result = dsl(*words)
    assert result.exit_code == 1 and "FOUND      out of bounds" in result.stdout
    assert "just past the end of x" in result.stdout and "softmax.cu:26" in result.stdout
    assert "results are discarded" in result.stdout and not saved.exists()


def test_shared_memory_without_a_size_is_found_with_what_to_say() -> None:
    result = dsl(*TRITON, "scratch=0", "profile=0")
    assert result.exit_code == 1 and "--shared BYTES" in result.stdout


def test_a_wrong_result_names_who_wrote_it() -> None:
    result = dsl(*SOFTMAX, *VALUES, *ARGS, "--expect", "y ~= 2 * ref.softmax(x) within 1e-6")
    assert result.exit_code == 1 and "FAILED" in result.stdout and "softmax.cu:32" in result.stdout


def test_values_of_files_and_results_in_files(tmp_path: Path, device: str) -> None:
    """In place: y is read and written. Parameters by number, by their own names, and in the order of what is left."""
    x, y = (np.random.default_rng(seed).standard_normal(1000, np.float32) for seed in (1, 2))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    values = [f"y={tmp_path / 'y.npy'}", "3=1000", f"saxpy_param_1={tmp_path / 'x.npy'}", "0=2.5"]
    words = [str(FOREIGN / "saxpy.ptx"), "--grid", "2", "--block", "96", "--save", f"y={tmp_path / 'out.npy'}"]
    values = [values[3], values[2], values[0], values[1]]
    (found,) = told(*words, *values, device=device)
    expected = (np.float64(2.5) * x + y).astype(np.float32)
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), expected, rtol=1e-6, atol=1e-7)
    assert (found["times_us"] is not None) == (device == "cuda")


def test_launches_on_both_devices_give_what_is_expected(device: str) -> None:
    """Grids of two axes, static and dynamic shared memory, clusters that the text requires, tensor maps."""
    maps = "tensor_map(x, [32, 32], swizzle=128), tensor_map(y, [32, 32], swizzle=128), 32"
    cases = [
        ("transpose", ["--entry", "padded", "--grid", "4,3", "--block", "32,8", "x=randn(f32[70, 100])",
                       "y=empty(f32[100, 70])", "c=100", "r=70", "--expect", "y == x.T"]),
        ("stencil", ["--grid", "3,3", "--block", "32,8", "--shared", "34 * 10 * 4", "x=full(f32[20, 70], 3.0)",
                     "y=empty(f32[20, 70])", "c=70", "r=20", "--expect", "y == x"]),
        ("cluster", ["--grid", "8", "--block", "64", "x=zeros(s32[512])", "y=empty(s32[512])", "--expect", "y == 0"]),
        ("hopper_transpose", ["--grid", "1", "--block", "128", "x=randn(f32[32, 32])", "y=empty(f32[32, 32])",
                              "--args", maps, "--expect", "y == x.T"]),
    ]  # fmt: skip
    for name, words in cases:
        if device == "cuda" and name == "hopper_transpose":
            from dsl.runtime import device_facts

            if device_facts("cuda").arch.rstrip("a") != "sm_90":
                continue
        (found,) = told(str(FOREIGN / f"{name}.ptx"), *words, device=device)
        assert found["passed"] is True and found["findings"] == [], name
        assert (found["times_us"] is not None) == (device == "cuda")


def test_the_first_blocks_stand_for_all() -> None:
    (whole,) = told(*SOFTMAX, *VALUES, *ARGS)
    (part,) = told(*SOFTMAX, *VALUES, *ARGS, "--first", "2")
    assert part["counted_blocks"] == 2 and part["figures"]["barriers"] == whole["figures"]["barriers"]


# ---- several ----


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A saved text with our header."""
    path = tmp_path_factory.mktemp("ours") / "ours.ptx"
    source = str(ROOT / "samples" / "softmax.tile")
    words = [
        "compile",
        source,
        "--kernel",
        "softmax_rows",
        "--schedule",
        "lanes",
        "rows=6",
        "cols=1000",
        "--emit",
        "ptx",
        "-o",
        str(path),
    ]
    assert CliRunner().invoke(cli, words, standalone_mode=False).return_value == 0
    return str(path)


def test_ours_stands_beside_a_foreign_one_on_the_same_values(ours: str) -> None:
    words = [SOFTMAX[0], ours, *SOFTMAX[1:], *VALUES, *ARGS, *RIGHT]
    foreign, own = told(*words)
    assert foreign["passed"] is own["passed"] is True and own["entry"] == "softmax_rows" and own["threads"] == 64
    rows = table_of(dsl(*words).stdout)
    assert rows["result"] == ["right", "right"]
    ratio = own["counters"]["instructions"] / foreign["counters"]["instructions"]
    assert rows["warp instr"][-1] == f"x{ratio:.2f}" and rows["barriers"][-2:] == ["0", "x0"]


def test_each_text_has_its_own_grid_and_all_begin_with_the_same_values() -> None:
    """saxpy changes y in place: the second launch must not see what the first has made of it."""
    text = str(FOREIGN / "saxpy.ptx")
    words = [
        "n=1000",
        "x=randn(f32[n])",
        "y=randn(f32[n])",
        "wanted=2 * x + y",
        "--args",
        "2, x, y, n",
        "--block",
        "96",
    ]
    words += ["--grid", "2", "--grid", "11", "--expect", "y ~= wanted within 1e-5"]
    found = told(text, text, *words)
    assert [each["grid"][0] for each in found] == [2, 11] and [each["passed"] for each in found] == [True, True]


def test_a_text_with_a_header_is_counted_on_random_arrays_of_the_dims_that_are_given(ours: str) -> None:
    (found,) = told(ours, "rows=12", "cols=1000")
    assert found["arguments"] == {"y": "f16[12, 1000]", "x": "f16[12, 1000]"} and found["guessed"] == {}
    (found,) = told(ours, "cols=1000")
    assert found["guessed"].keys() == {"rows"}


# ---- mistakes ----


MISTAKES = {
    "too few values": (
        [*SOFTMAX, "--grid", "6", "x=randn(f16[6, 1000])", "y=empty(f16[6, 1000])"],
        "softmax_param_2 is the first without",
    ),
    "too many values": ([*SOFTMAX, "--grid", "6", *VALUES], "takes 3 arguments, 4 are given"),
    "a number for a pointer": ([*SOFTMAX, "--grid", "6", *VALUES, "--args", "x, 5, n"], "is a pointer"),
    "an array for a number": ([*SOFTMAX, "--grid", "6", *VALUES, "--args", "x, y, x"], "is a number by value (.u32)"),
    "a number out of range": ([*SOFTMAX, "--grid", "6", *VALUES, "--args", "x, y, 5000000000"], "has no 5000000000"),
    "a fraction for an integer": ([*SOFTMAX, "--grid", "6", *VALUES, "--args", "x, y, 0.5"], "takes an integer"),
    "no grid": ([*SOFTMAX, *VALUES, "--args", "x, y, n"], "--grid X"),
    "no block": ([SOFTMAX[0], *VALUES, *ARGS], "--block X"),
    "another block than required": ([*TRITON, "a=0", "b=0", "--block", "64"], "requires a block of (128, 1, 1)"),
    "no workspaces of Triton": (TRITON, "scratch=0 profile=0"),
    "an unknown function": ([*SOFTMAX, *ARGS, "x=rand(f16[6, 8])"], "did you mean 'randn'?"),
    "an entry must be chosen": ([str(FOREIGN / "transpose.ptx"), "--grid", "1", "n=1"], "plain, padded"),
    "a struct of another size": (
        [str(FOREIGN / "hello.ptx"), "--grid", "1", "--block", "40", "p=zeros(u8[12])", "o=empty(f32[40])"],
        "a struct of 16 bytes by value",
    ),
    "a grid for two of three texts": (
        [SOFTMAX[0], SOFTMAX[0], SOFTMAX[0], "--grid", "1", "--grid", "2", *VALUES], "2 times for 3 PTX texts",
    ),
    "a value that is no NAME=VALUE": ([*SOFTMAX, *ARGS, *VALUES, "7"], "nor NAME=VALUE"),
    "no file": ([*SOFTMAX, *ARGS, "x=missing.npy"], "missing.npy"),
    "no text": (["n=1"], "no PTX text"),
    "a box of other axes": (
        [str(FOREIGN / "hopper_transpose.ptx"), "--grid", "1", "--block", "128", "x=randn(f32[32, 32])", "--args",
         "tensor_map(x, [32]), tensor_map(x, [32, 32]), 32"], "2 axes, its box 1",
    ),
    "another target of ours": (["OURS", "--arch", "sm_100"], "--arch is for texts without a header"),
    "a grid of ours": (["OURS", "--grid", "1"], "these texts have a header"),
    "no array of ours by its name": (["OURS", "x=randn(f16[6, 1000])"], "has no value for 'y'"),
    "an alignment of 3": ([*SOFTMAX, *VALUES, *ARGS, "--shared", "48,3"], "a power of two from 1 to 65536, not to 3"),
    "an alignment of 0": ([*SOFTMAX, *VALUES, *ARGS, "--shared", "48,0"], "a power of two from 1 to 65536, not to 0"),
    "an alignment of 2^30": ([*SOFTMAX, *VALUES, *ARGS, "--shared", f"48,{1 << 30}"], "a power of two from 1 to 65536"),
    "a target that PTX has not": (["sm_91"], "no emulated device has sm_91"),
    "results of a part": ([*SOFTMAX, *VALUES, *ARGS, *RIGHT, "--first", "2"], "leaves results unfinished"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_told(name: str, ours: str, tmp_path: Path) -> None:
    words, message = MISTAKES[name]
    words = doubling(tmp_path, words[0], "9.0") if words[0].startswith("sm_") else words
    result = dsl(*(ours if word == "OURS" else word for word in words))
    assert result.exit_code == 2 and message in result.stderr, result.stderr


def test_a_mistake_is_located_in_the_text_or_in_what_was_typed() -> None:
    missing = dsl(*SOFTMAX, "--grid", "6", "x=randn(f16[6, 1000])", "y=empty(f16[6, 1000])").stderr
    assert "softmax.ptx:19:2: error[call]" in missing and ".param .u32 softmax_param_2" in missing
    assert dsl(*SOFTMAX, *VALUES, "--grid", "rows", "--args", "x, y, 0.5").stderr.startswith("--args:2:20: error[call]")


def test_what_a_text_declares() -> None:
    text = """.version 8.0
.target sm_90
.visible .entry one(.param .u64 .ptr .global .align 16 a, .param .u64 b, // .param .u64 c
 .param .u64 d) .maxnreg 64 .reqntid 32, 4
{ ld.param.u64 %rd1, [b]; cvta.to.global.u64 %rd2, %rd1; ld.param.u64 %rd3, [d]; }
.visible .entry two() .reqnctapercluster 2 { }
"""
    found = signatures(text)
    one = found["one"]
    assert [(p.name, text[p.start : p.end][-1]) for p in one.parameters] == [("a", "a"), ("b", "b"), ("d", "d")]
    assert one.block == (32, 4, 1) and one.most_registers == 64 and one.cluster is None
    assert found["two"].cluster == (2, 1, 1) and found["two"].parameters == ()
    assert addresses_in(text, one) == {"a", "b"}
