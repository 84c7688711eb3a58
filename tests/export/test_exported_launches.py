"""Exported C asks the driver for the launches that Python makes, byte for byte. A driver that launches nothing records
them; NVIDIA's header, where it is installed, compiles the same files."""

from __future__ import annotations

from pathlib import Path

import pytest
from exported_c import STUB, asked, build, compare, compiled, exported, needs_compiler, run, sizes_of, write_inputs

from dsl.text import tree as ast
from dsl.text.program import load

SAMPLES = Path(__file__).parents[2] / "samples"
CASES = {
    "softmax": ("softmax", "softmax", ["rows=64"], ["sm_90a"], {}),
    "softmax in a cluster": ("softmax", "softmax", ["rows=16", "cols=200000"], ["sm_90a"], {}),
    "a reduction": ("reduction", "v5", [], ["sm_90a"], {}),
    "rows": ("reduce", "rows", [], ["sm_90a"], {}),
    "int8 convolution": ("int8_conv", "conv2d", [], ["sm_90a"], {}),
    "f16 convolution, im2col": ("int8_conv", "conv2d_nhwc", ["T=f16"], ["sm_90a"], {}),
    "wgmma": ("matmul", "matmul", ["m=512", "n=512", "k=512"], ["sm_90a"], {}),
    "copies of operands": ("matmul", "matmul", ["m=401", "n=401", "k=401"], ["sm_90a"], {}),
    "split": ("matmul", "matmul", ["m=512", "n=512", "k=4096"], ["sm_80"], {}),
    "attention": ("attention", "attention", [], ["sm_90a"], {}),
    "packed attention": ("attention", "attention_packed", [], ["sm_90a"], {}),
}


@needs_compiler
@pytest.mark.parametrize("case", CASES)
def test_the_driver_gets_the_launch_of_python(case: str, tmp_path: Path) -> None:
    file, name, values, targets, settings = CASES[case]
    function = exported(load(str(SAMPLES / f"{file}.tile")), name, asked(values, targets=targets), tmp_path)
    (call,) = function.calls
    write_inputs(function, call, tmp_path)
    log, _ = run(build(tmp_path, name), str(tmp_path), sizes=sizes_of(function), **settings)
    assert len([*compare(function, call, log)]) == len(call.steps)
    headers = [function.codes[code].header for code in call.codes]
    assert len(log.maps) == sum(each.kind == "map" for header in headers for each in header.arguments)
    for array in function.arrays.values():
        assert (tmp_path / f"{array.name}.out").is_file() == (array.written and call.arguments[array.name] is not None)


OWN = """
# Numbers of all types, a table, a tensor that may be absent, views.
kernel mixed(y: f32[n], x: f32[m, n; strided], z: f32[n]?, a: f16, b: bf16, c: f64, d: u8, e: s64, f: i1,
             taps: table f32[3]; BLOCK = 128):
    grid cdiv(n, BLOCK)
    assert a > 0.25 and e < 100
    i = block(0) * BLOCK
    v = x[1, i : i + BLOCK] * a.to(f32) + b.to(f32) + c.to(f32) + d.to(f32) + e.to(f32) + taps[1]
    if given(z):
        v = v + z[i : i + BLOCK]
    y[i : i + BLOCK] = where(f, v, 0.0)

dispatch own(y, x, z, a, b, c, d, e, f, taps):
    require n > 1
    mixed

example:
    n = 1000
    x, y, z = randn(f32[4, n]), empty(f32[n]), randn(f32[n])
    own(y, x, z, 0.7, 1.1, 0.1, 200, -5, true, (0.1, 0.2, 0.3))
    expect y ~= y within 0

example absent:
    n = 1000
    x, y = randn(f32[4, n]), empty(f32[n])
    own(y, x, None, 0.7, 1.1, 0.1, 200, -5, true, (0.1, 0.2, 0.3))
    expect y ~= y within 0
"""


@needs_compiler
@pytest.mark.parametrize("example", [None, "absent"])
def test_numbers_tables_and_absent_tensors_are_passed(example: str | None, tmp_path: Path) -> None:
    (tmp_path / "own.tile").write_text(OWN)
    function = exported(load(str(tmp_path / "own.tile")), "own", asked(example=example), tmp_path)
    (call,) = function.calls
    write_inputs(function, call, tmp_path)
    log, _ = run(build(tmp_path, "own"), str(tmp_path), sizes=sizes_of(function))
    assert [*compare(function, call, log)]


ROUNDED = """
kernel scaled(y: f32[n], x: f32[n], s: f32; BLOCK = 128, KIND = 0):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    y[i : i + BLOCK] = x[i : i + BLOCK] * s + KIND.to(f32)

dispatch chosen(y, x, s):
    if s > 0.1: scaled(y, x, s) with KIND=1
    else: scaled(y, x, s) with KIND=2

example:
    x, y = randn(f32[1024]), empty(f32[1024])
    chosen(y, x, 0.1)
    expect y ~= y within 0
"""


@needs_compiler
def test_a_dispatch_decides_about_the_number_that_c_passes(tmp_path: Path) -> None:
    """0.1 in f32 is more than 0.1."""
    (tmp_path / "own.tile").write_text(ROUNDED)
    function = exported(load(str(tmp_path / "own.tile")), "chosen", asked(), tmp_path)
    (call,) = function.calls
    assert function.codes[0].header.constants["KIND"] == 1
    write_inputs(function, call, tmp_path)
    log, _ = run(build(tmp_path, "chosen"), str(tmp_path), sizes=sizes_of(function))
    assert [*compare(function, call, log)]


@needs_compiler
@pytest.mark.long
@pytest.mark.parametrize("file", sorted(path.stem for path in SAMPLES.glob("*.tile")))
def test_every_launch_of_the_samples_compiles(file: str, tmp_path: Path) -> None:
    program = load(str(SAMPLES / f"{file}.tile"))
    launches = {(example.name, line.name) for example in program.examples for line in launches_in(example)}
    for example, name in sorted(launches, key=str):
        exported(program, name, asked(example=example), tmp_path)
        sources = [str(tmp_path / f"{name}.c"), str(tmp_path / f"{name}_program.c")]
        compiled(["-fsyntax-only", "-I", str(STUB), *sources])


def launches_in(example: ast.Example) -> list[ast.Launch]:
    return [line for line in example.lines if isinstance(line, ast.Launch)]
