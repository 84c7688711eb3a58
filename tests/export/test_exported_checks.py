"""An exported function takes the calls that its header lists, and refuses others with a reason, as Python does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from exported_c import StubLog, asked, build, exported, needs_compiler, run, sizes_of

from dsl.export.model import ExportedFunction
from dsl.text.program import load

SAMPLES = Path(__file__).parents[2] / "samples"
pytestmark = needs_compiler
MAIN = """
#include "NAME.h"
#include <stdio.h>
#include <stdlib.h>

static NAME_kernels kernels;
static dsl_status status;

static void call(const NAME_args *args)
{
    const int code = NAME(&kernels, NULL, args, &status);
    printf("%d %s\\n", code, code ? status.text : "");
}

int main(void)
{
    char *memory = aligned_alloc(256, 1 << 24);
    const CUdeviceptr at = (CUdeviceptr)(size_t)memory;
    NAME_args args = {0};
    if (NAME_load(&kernels, &status) != DSL_OK) {
        printf("%s\\n", status.text);
        return 1;
    }
    (void)call, (void)args, (void)at;
    LINES
    return NAME_unload(&kernels, &status);
}
"""


def called(
    function: ExportedFunction, folder: Path, lines: str, status: int = 0, **settings: str
) -> tuple[StubLog, list[str]]:
    """Runs the lines in a C program. Returns what the driver was asked for, and the printed lines."""
    program = MAIN.replace("LINES", lines).replace("NAME", function.name)
    log, text = run(build(folder, function.name, program), sizes=sizes_of(function), status=status, **settings)
    return log, text.splitlines()


def softmax(folder: Path, *calls: str, has_cubin: bool = False, **options: Any) -> ExportedFunction:
    return exported(load(str(SAMPLES / "softmax.tile")), "softmax", asked(calls=calls, **options), folder, has_cubin)


SOFTMAX = "args.y = at; args.x = at + (1 << 26); args.rows = 64; args.cols = 1000;\n"
REFUSED = [
    ("args.cols = 1001;", 2, "requires cols % 8 == 0, line 21 (cols = 1001)"),
    ("args.cols = 4000;", 2, "requires COLS == "),
    ("args.y += 4;", 2, "y is not aligned to 16 bytes"),
    ("args.y += 1;", 1, "y begins inside an element"),
    ("args.x = 0;", 1, "x has no memory"),
    ("args.x = at + 1024;", 1, "the memory of y and x overlaps, and one of them is written"),
    ("args.rows = -1;", 1, "y: axis 0 has -1 elements"),
    ("args.rows = INT64_C(1) << 40;", 2, "elements, more than 32 bits count"),
    ("args.rows = INT64_C(1) << 61;", 1, "reaches over more than 2^62 bytes"),
]


def test_wrong_calls_are_refused_with_a_reason(tmp_path: Path) -> None:
    lines = "".join(f"{SOFTMAX} {change} call(&args);\n" for change, _, _ in REFUSED)
    log, printed = called(softmax(tmp_path), tmp_path, lines)
    assert log.launches == []
    for (_, code, reason), line in zip(REFUSED, printed, strict=True):
        assert line.startswith(f"{code} ") and reason in line


def test_an_array_may_be_written_in_place_and_be_empty(tmp_path: Path) -> None:
    lines = f"{SOFTMAX} args.x = at; call(&args); args.rows = 0; args.y = args.x = 0; call(&args);"
    log, printed = called(softmax(tmp_path), tmp_path, lines)
    assert printed == ["0 ", "0 "]
    assert [launch.grid for launch in log.launches] == [(64, 1, 1)]


def test_a_status_may_be_left_out_and_kernels_must_be_loaded(tmp_path: Path) -> None:
    lines = f"""{SOFTMAX} args.cols = 1001; printf("%d\\n", softmax(&kernels, NULL, &args, NULL));
    softmax_unload(&kernels, NULL); call(&args); softmax_load(&kernels, NULL);"""
    _, printed = called(softmax(tmp_path), tmp_path, lines)
    assert printed == ["2", "1 softmax_load has not loaded the kernels"]


def test_a_call_with_the_same_dims_comes_before_others(tmp_path: Path) -> None:
    function = softmax(tmp_path, "rows=64,cols=1000", "rows=4096,cols=1000", "rows=4096,cols=4096")
    entries = [function.codes[call.codes[0]].header for call in function.calls]
    assert len({(header.schedule, *header.constants.items()) for header in entries}) == 3
    dims = [(64, 1000), (4096, 1000), (65, 1000), (4096, 4096), (64, 4096)]
    lines = SOFTMAX + "".join(f"args.rows = {rows}; args.cols = {cols}; call(&args);\n" for rows, cols in dims)
    lines += "args.cols = 1001; call(&args);"
    log, printed = called(function, tmp_path, lines)
    threads = [header.threads for header in entries]
    per_block = [int(header.constants["ROWS"]) for header in entries]
    for launch, (rows, _), number in zip(log.launches, dims, (0, 1, 0, 2, 2), strict=True):
        assert (launch.block[0], launch.grid[0]) == (threads[number], -(-rows // per_block[number]))
    assert "; call 1: " in printed[-1] and "; call 2: " in printed[-1] and "; call 3: " in printed[-1]


def test_the_best_target_for_the_device_is_loaded(tmp_path: Path) -> None:
    function = softmax(tmp_path, targets=("sm_80", "sm_90a", "sm_90"), has_cubin=True)
    images = {}
    for device in (80, 86, 90, 100):
        log, _ = called(function, tmp_path, "", STUB_DEVICE=str(device))
        images[device] = [line for line in log.others if line.split()[0] in ("cubin", "ptx")]
    # Machine code runs on later devices of the same generation, PTX on all later ones.
    assert images == {80: ["cubin"], 86: ["cubin"], 90: ["cubin"], 100: ["ptx right"]}
    log, _ = called(function, tmp_path, "", STUB_NO_CUBIN="1")
    assert log.others[0] == "ptx right"
    _, printed = called(function, tmp_path, "", status=1, STUB_DEVICE="75")
    assert printed == ["the device is sm_75, softmax was exported for sm_80, sm_90a, sm_90"]


def test_a_target_of_one_architecture_runs_on_no_other(tmp_path: Path) -> None:
    _, printed = called(softmax(tmp_path), tmp_path, "", status=1, STUB_DEVICE="100")
    assert printed == ["the device is sm_100, softmax was exported for sm_90a"]


def test_a_cluster_is_stated_unless_the_code_states_it(tmp_path: Path) -> None:
    what = asked(["rows=16", "cols=200000"])
    function = exported(load(str(SAMPLES / "softmax.tile")), "softmax", what, tmp_path)
    (code,) = function.codes
    assert code.header.cluster > 1
    lines = SOFTMAX + "args.rows = 16; args.cols = 200000; args.x = at + (1 << 23); call(&args);"
    for width, stated in ((0, code.header.cluster), (code.header.cluster, 1)):
        log, _ = called(function, tmp_path, lines, STUB_WIDTH=str(width))
        assert [launch.cluster for launch in log.launches] == [stated]


MATMUL = """args.c = at; args.a = at + (1 << 22); args.b = at + (1 << 23); args.m = args.n = args.k = 512;
    args.a_strides[0] = args.b_strides[0] = 512; args.a_strides[1] = args.b_strides[1] = 1;\n"""


def test_strides_are_checked(tmp_path: Path) -> None:
    program = load(str(SAMPLES / "matmul.tile"))
    function = exported(program, "matmul", asked(["m=512", "n=512", "k=512"]), tmp_path)
    changes = [
        "",
        "args.a_strides[1] = 2;",
        "args.a_strides[0] = 513;",
        "args.a = at + 1024;",
        "args.a_strides[0] = 528;",
    ]
    _, printed = called(function, tmp_path, "".join(f"{MATMUL} {each} call(&args);\n" for each in changes))
    assert [line.split()[0] for line in printed] == ["0", "2", "2", "1", "0"]
    assert "a.stride1 == 1" in printed[1] or "aligned(a)" in printed[1]


def test_the_caller_says_that_elements_of_views_lie_apart(tmp_path: Path) -> None:
    function = exported(load(str(SAMPLES / "attention.tile")), "attention", asked(), tmp_path)
    (call,) = function.calls
    batch, heads, s, d = call.arguments["q"].shape
    _, kv_heads, t, _ = call.arguments["k"].shape
    # o and q are columns of one array.
    lines = f"""args.o = at; args.q = at + 2 * {d}; args.k = at + (1 << 22); args.v = at + (1 << 23);
    args.batch = {batch}; args.heads = {heads}; args.s = {s}; args.d = {d}; args.kv_heads = {kv_heads}; args.t = {t};
    args.lse = at + (3 << 22); args.scale = 0.125f;
    for (int i = 0; i < 2; i++) {{
        int64_t *own = i ? args.q_strides : args.o_strides, *other = i ? args.v_strides : args.k_strides;
        own[3] = other[3] = 1; own[2] = {2 * d}; other[2] = {d};
        own[1] = {2 * d * s}; other[1] = {d * t}; own[0] = {2 * d * s * heads}; other[0] = {d * t * kv_heads};
    }}
    call(&args); args.apart = 1; call(&args);"""
    _, printed = called(function, tmp_path, lines)
    assert printed[0].startswith("1 ") and "(apart = 1 says" in printed[0] and printed[1] == "0 "


def test_an_absent_tensor_stays_absent(tmp_path: Path) -> None:
    function = exported(load(str(SAMPLES / "int8_conv.tile")), "conv2d", asked(), tmp_path)
    (call,) = function.calls
    dims = " ".join(f"args.{field} = {call.dims[name]};" for name, field in function.dims.items())
    numbers = " ".join(f"args.{each.field} = {call.arguments[name]};" for name, each in function.numbers.items())
    arrays = " ".join(f"args.{name} = at + ({place} << 20);" for place, name in enumerate(function.arrays))
    lines = f"{dims} {numbers} {arrays} call(&args); args.z = 0; call(&args); {arrays} args.sh = 2; call(&args);"
    _, printed = called(function, tmp_path, lines)
    assert printed[0] == "0 "
    assert printed[1].startswith("2 ") and "this call has z" in printed[1]
    assert printed[2].startswith("2 ") and "sh == 1" in printed[2]


WORKSPACE = """args.c = at; args.a = at + (1 << 22); args.b = at + (1 << 23); args.m = args.n = 512; args.k = 4096;
    args.a_strides[0] = 4096; args.b_strides[0] = 512; args.a_strides[1] = args.b_strides[1] = 1;
    size_t bytes, zeros;
    printf("%d\\n", matmul_workspace(&kernels, &args, &bytes, &zeros, &status));
    printf("%d\\n", bytes > 0 && zeros > 0);
    call(&args);
    args.workspace = at + (3 << 22); args.zeros = at + (7 << 21);
    args.workspace_bytes = bytes; args.zeros_bytes = zeros - 1; call(&args);
    args.zeros_bytes = zeros; args.zeros += 16; call(&args);
    args.zeros -= 16; call(&args);"""


def test_workspaces_are_the_callers(tmp_path: Path) -> None:
    program = load(str(SAMPLES / "matmul.tile"))
    what = asked(["m=512", "n=512", "k=4096"], targets=("sm_80",), schedule="stream_k")
    function = exported(program, "matmul", what, tmp_path)
    assert function.codes[0].header.workspaces
    log, printed = called(function, tmp_path, WORKSPACE, STUB_DEVICE="80")
    assert printed[:2] == ["0", "1"]
    assert ["needs" in printed[2], "needs" in printed[3], "aligned" in printed[4]] == [True] * 3
    assert printed[5] == "0 " and len(log.launches) == 1


ASSERTS = """
kernel asserting(y: f32[n], x: f32[n]; BLOCK = 128):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    v = x[i : i + BLOCK]
    assert v >= 0.0
    y[i : i + BLOCK] = sqrt(v)

example:
    x, y = ones(f32[1000]), empty(f32[1000])
    asserting(y, x)
    expect y ~= x within 0
"""


def test_a_failed_assert_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "own.tile").write_text(ASSERTS)
    function = exported(load(str(tmp_path / "own.tile")), "asserting", asked(), tmp_path)
    lines = """uint32_t *record = (uint32_t *)(size_t)kernels.records[0];
    printf("%d\\n", asserting_check(&kernels, &status));
    record[0] = 1; record[1] = 6; record[2] = 3; record[5] = 17;
    printf("%d %s\\n", asserting_check(&kernels, &status), status.text);
    printf("%d\\n", asserting_check(&kernels, &status));"""
    _, printed = called(function, tmp_path, lines)
    assert printed == ["0", "5 asserting: the assert in line 6 failed in block (3, 0, 0), thread 17", "0"]
