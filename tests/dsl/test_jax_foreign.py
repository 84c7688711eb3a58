"""Functions of JAX that XLA launches as foreign functions: without the host, by exported C, here on a stub driver."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from msgspec.structs import replace

jax: Any = pytest.importorskip("jax")
jnp = jax.numpy
from jax_on_host import HOST, EmulatedLaunches, needs_compiler, on_host, real_headers  # noqa: E402
from test_jax_functions import BOUNDS, CASES, close, first, functions, load, normal, rms  # noqa: E402

import dsl.jax  # noqa: E402
from dsl.calls.arguments import shape_facts  # noqa: E402
from dsl.jax import foreign, library  # noqa: E402
from dsl.jax.launches import JaxWay  # noqa: E402
from dsl.jax.library import build, ffi_headers  # noqa: E402

ROOT = Path(__file__).parents[2]


@pytest.fixture
def launches(tmp_path: Path) -> Iterator[EmulatedLaunches]:
    with on_host(tmp_path) as made:
        yield made


@needs_compiler
@pytest.mark.parametrize("case", CASES)
def test_results_and_gradients_are_as_jax_s_own(case: str, launches: EmulatedLaunches) -> None:
    name, theirs, args = CASES[case]
    ours, arrays = (
        functions("emulator", way="ffi")[name],
        tuple(i for i, x in enumerate(args) if not isinstance(x, float)),
    )
    wanted = theirs(*args)
    g, bound = normal(*wanted.shape, dtype=wanted.dtype, seed=3), 2 * BOUNDS[str(wanted.dtype)]
    numbers = tuple(i for i in range(len(args)) if i not in arrays)  # the value of a traced number is on the device

    def jitted(function: Any) -> Any:
        return jax.jit(function, static_argnums=numbers)

    assert close(first(jitted(ours)(*args)), wanted, bound) and launches.entries

    def loss(function: Any) -> Any:
        return jax.grad(lambda *args: (first(function(*args)) * g).astype("float32").sum(), arrays)

    right = loss(theirs)(*args)
    assert all(close(a, b, 4 * bound) for a, b in zip(jitted(loss(ours))(*args), right, strict=True))


SOFTMAX = {"x": "f32[4, 32]", "y": "f32[4, 32]"}
WARNINGS = ("-Wall", "-Wextra", "-Werror")
DRIVER = replace(HOST, has_streams=True)
"""A platform with streams, on the stub."""


def texts(file: str, name: str, arrays: dict[str, str], place: Any, **numbers: Any) -> dict[str, str]:
    """The C of a call of a sample."""
    function = load(file, "emulator")[name]
    given = {p: shape_facts(arrays[p]) if p in arrays else numbers.get(p) for p in function.params}
    outputs = tuple(name for name in function.signature.outputs)
    spec = dsl.jax.op(function).spec
    made = foreign.exported(spec, given)
    inputs = [p for p in arrays if p not in outputs]
    return foreign.texts_of_library(made, inputs, outputs, [*made.numbers.values()], place)


NORM = {"x": "f32[6, 40]", "y": "f32[6, 40]"}
CALLS: dict[str, tuple[str, str, dict[str, str], dict[str, Any]]] = {
    "softmax": ("softmax", "softmax", SOFTMAX, {}),
    "a number, tensors that are absent": (
        "layer_norm",
        "layer_norm",
        {"x": "f32[6, 40]", "y": "f32[6, 40]"},
        {"eps": 1e-5},
    ),
    "wgmma": ("matmul", "matmul", {"c": "f16[512, 512]", "a": "f16[512, 512]", "b": "f16[512, 512]"}, {}),
    "split": ("matmul", "matmul", {"c": "f16[64, 64]", "a": "f16[64, 8192]", "b": "f16[8192, 64]"}, {}),
}


@needs_compiler
@pytest.mark.parametrize("place", [HOST, DRIVER], ids=["cpu", "streams"])
@pytest.mark.parametrize("case", CALLS)
def test_the_handler_compiles_without_warnings(case: str, place: Any) -> None:
    file, name, arrays, numbers = CALLS[case]
    library = build(place, texts(file, name, arrays, place, **numbers), "handler.c", WARNINGS)
    assert library[:4] == b"\x7fELF"


@needs_compiler
@pytest.mark.skipif(real_headers() is None, reason="NVIDIA's cuda.h is not installed")
@pytest.mark.parametrize("case", CALLS)
def test_the_handler_compiles_with_the_header_of_cuda(case: str) -> None:
    file, name, arrays, numbers = CALLS[case]
    place = replace(DRIVER, headers=(str(real_headers()),), sources=())
    assert build(place, texts(file, name, arrays, place, **numbers), "handler.c", WARNINGS)


@pytest.fixture(scope="module")
def xla(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Runs the handler of softmax for an XLA that is a stub, in stages. Returns what it answers, and what it asks the
    driver for."""
    folder = tmp_path_factory.mktemp("xla")
    for name, text in texts("softmax", "softmax", SOFTMAX, DRIVER).items():
        (folder / name).write_text(text)
    binary, sources = folder / "xla", [Path(__file__).with_name("xla_stub.c"), *DRIVER.sources]
    headers = [word for each in (folder, *DRIVER.headers) for word in ("-I", each)]
    command = [
        "cc",
        "-std=c11",
        *WARNINGS,
        "-pthread",
        *headers,
        "-isystem",
        ffi_headers(),
        *sources,
        "-o",
        binary,
        "-lm",
    ]
    subprocess.run([*map(str, command)], check=True)

    def run(*stages: str, **settings: str) -> tuple[list[str], list[str]]:
        log = folder / "log"
        log.write_text("")
        done = subprocess.run([binary, *stages], capture_output=True, text=True, env={"STUB_LOG": str(log), **settings})
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines(), log.read_text().splitlines()

    return run


@needs_compiler
def test_the_handler_loads_before_the_first_launch_and_launches_on_the_stream(xla: Any) -> None:
    """In the context of the stream: the thread may have another one, or none."""
    said, asked = xla("metadata", "initialize", "execute", "execute")
    assert said == ["version 1.1, traits 1", "ok", "ok", "ok"]  # traits: may be captured in a CUDA graph
    launch = asked[4]
    assert asked[:3] == ["push 7", "ptx right", "pop"] and asked[3:] == ["push 7", launch, "pop"] * 2
    assert launch.startswith("launch softmax_rows ") and launch.endswith(" 1 1 0")  # on a stream, no cluster, alone
    assert xla("execute") == (["ok"], ["push 7", "ptx right", launch, "pop"])


@needs_compiler
def test_the_handler_says_what_is_wrong(xla: Any) -> None:
    said, asked = xla("old", "streamless", "unaligned", "outputs")
    assert said[0] == "error 12: XLA is older than the handler"
    assert said[1] == "error 13: no stream"
    assert said[2].startswith("error 3: no exported call takes these arguments")
    assert "x is not aligned to 16 bytes" in said[2]
    assert said[3] == "error 13: XLA passes other arguments than launched has"
    assert not [line for line in asked if line.startswith("launch")]
    assert asked.count("push 7") == asked.count("pop") == 2
    said, asked = xla("initialize", STUB_DEVICE="75")
    assert said == ["error 13: the device is sm_75, launched was exported for sm_90"]


# ---- on XLA's CPU, with launches that the emulator runs ----

# Numbers of all types, a table, a tensor that may be absent, two outputs.
MIXED = """
kernel mixed(y: f32[n], w: f32[n], x: f32[n], z: f32[n]?, a: f16, b: bf16, c: f64, d: u8, e: s64, f: i1,
             taps: table f32[3]; BLOCK = 128):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    v = x[i : i + BLOCK] * a.to(f32) + b.to(f32) + c.to(f32) + d.to(f32) + e.to(f32) + taps[1]
    if given(z):
        v = v + z[i : i + BLOCK]
    y[i : i + BLOCK] = where(f, v, 0.0)
    w[i : i + BLOCK] = -v
"""
TAPS = (0.1, 0.2, 0.3)


@needs_compiler
def test_numbers_tables_and_absent_tensors_are_passed(launches: EmulatedLaunches) -> None:
    op = dsl.jax.op(dsl.parse(MIXED, device="emulator").mixed, way="ffi", taps=TAPS, d=200)
    x, z, known = normal(200), normal(200, seed=1), len(launches.functions)
    for a, e, f, given in ((0.75, -5, True, z), (0.5, 7, False, None), (0.25, 1 << 40, True, None)):
        call = jax.jit(lambda x, z, a=a, e=e, f=f: op(x, z, a, 1.1, 0.1, e, f))
        y, w = call(x, given)
        v = x * a + 1.1015625 + 0.1 + 200 + float(e) + 0.2 + (0 if given is None else z)
        assert close(w, -v.astype("float32"), 1e-5) and close(y, v.astype("float32") if f else 0 * x, 1e-5)
    assert [each["e"] for each in launches.numbers] == [-5, 7, 1 << 40]
    assert len(launches.functions) == known + 2  # one with `z`, one without: other numbers need no other library


@needs_compiler
def test_vmap_launches_once_where_it_folds(launches: EmulatedLaunches) -> None:
    x, g, theirs = normal(3, 4, 33), normal(4, 33, seed=1), jax.nn.softmax
    for name, count in (("softmax", 1), ("one by one", 3)):
        f = functions("emulator", way="ffi")[name]
        assert close(jax.jit(jax.vmap(f))(x), theirs(x), 1e-6) and len(launches.entries) == count
        launches.entries.clear()
        right = jax.vmap(jax.grad(lambda x: (theirs(x) * g).sum()))(x)
        assert close(jax.jit(jax.vmap(jax.grad(lambda x, f=f: (f(x) * g).sum())))(x), right, 1e-5)
        launches.entries.clear()


@needs_compiler
def test_loops_and_eager_calls_launch(launches: EmulatedLaunches) -> None:
    f, x = functions("emulator", way="ffi")["softmax"], normal(4, 33)
    looped = jax.jit(lambda x: jax.lax.fori_loop(0, 3, lambda _, c: f(3 * c), x))
    wanted = x
    for _ in range(3):
        wanted = jax.nn.softmax(3 * wanted)
    assert close(looped(x), wanted, 1e-5) and len(launches.entries) == 3
    assert close(f(x), jax.nn.softmax(x), 1e-6) and len(launches.entries) == 4


@needs_compiler
def test_scratch_memory_is_xla_s(launches: EmulatedLaunches) -> None:
    """A split product has workspaces. Those that must hold zeros are filled for each call."""
    op = dsl.jax.op(load("matmul", "emulator").matmul, way="ffi")
    a, b = normal(16, 4096, dtype="float16"), normal(4096, 16, seed=1, dtype="float16")
    call = jax.jit(op)
    assert "xui8>" in call.lower(a, b).as_text().partition("custom_call")[2].partition("->")[2]
    for _ in range(2):
        assert close(call(a, b), jnp.matmul(a, b), 2e-2)


@needs_compiler
def test_arrays_without_elements_are_passed(launches: EmulatedLaunches) -> None:
    f = functions("emulator", way="ffi")["softmax"]
    assert jax.jit(f)(jnp.zeros((0, 33))).shape == (0, 33) and not launches.entries


@needs_compiler
def test_a_fixed_array_is_an_argument(launches: EmulatedLaunches) -> None:
    w, x = normal(40, seed=1), normal(5, 40)
    op = dsl.jax.op(load("rmsnorm", "emulator").rmsnorm, way="ffi", weight=np.asarray(w), eps=1e-5)
    assert close(jax.jit(op)(x), rms(x, w, 1e-5), 1e-5) and len(launches.entries) == 1


# ---- which way a call takes ----


@needs_compiler
def test_the_default_launches_where_it_can(launches: EmulatedLaunches) -> None:
    own = functions.__wrapped__("emulator")  # jax.jit keeps what it has traced, for other tests, too
    f, x = own["rmsnorm"], normal(4, 33)
    w = normal(33, seed=1)
    assert f.way(x, w, 1e-5) == JaxWay("ffi")
    assert close(jax.jit(lambda x, w: f(x, w, 1e-5))(x, w), rms(x, w, 1e-5), 1e-5) and launches.entries
    launches.entries.clear()
    batch = jnp.stack([x, 2 * x])
    assert close(jax.vmap(lambda x: f(x, w, 1e-5))(batch), rms(batch, w, 1e-5), 1e-5) and len(launches.entries) == 1
    softmax, g = own["softmax"], normal(4, 33, seed=2)
    right = jax.grad(lambda x: (jax.nn.softmax(x) * g).sum())(x)
    launches.entries.clear()
    assert close(jax.jit(jax.grad(lambda x: (softmax(x) * g).sum()))(x), right, 1e-5) and len(launches.entries) == 2
    launches.entries.clear()
    assert close(jax.jit(f)(x, w, 1e-5), rms(x, w, 1e-5), 1e-5) and not launches.entries  # through the host
    # A computation for another platform than that of foreign calls goes through the host.
    with patch.object(foreign, "platform", lambda: replace(HOST, name="cuda")):
        assert close(jax.jit(lambda x, w: f(x, w, 1e-4))(x, w), rms(x, w, 1e-4), 1e-5) and not launches.entries


@needs_compiler
def test_a_function_says_why_it_goes_through_the_host(launches: EmulatedLaunches) -> None:
    """And it is an error where the caller asks for a foreign function."""

    def why(op: Any, *args: Any) -> str:
        found: list[JaxWay] = []
        jax.eval_shape(lambda *args: found.append(op.way(*args)), *args)
        with pytest.raises(dsl.TileError, match="cannot be a foreign function of XLA") as caught:
            jax.jit(replace(op, asked="ffi", known={}))(*args)
        assert found[0].name == "callback" and found[0].why in caught.value.message
        assert caught.value.hint and "way='callback'" in caught.value.hint
        return found[0].why

    x, w, rmsnorm = normal(4, 33), normal(33), functions("emulator")["rmsnorm"]
    assert "'eps' is traced" in why(rmsnorm, x, w, 1e-5)
    checked = dsl.jax.op(dsl.parse(CHECKED, device="emulator").checked)
    assert "assert about elements" in why(checked, x[0])
    chosen = dsl.jax.op(functions("emulator")["softmax"].spec.function, way="callback")
    assert chosen.way(x) == JaxWay("callback", "way='callback' asks for it")
    with pytest.raises(dsl.TileError, match="way is 'ffi' or 'callback', not 'gpu'"):
        dsl.jax.op(load("softmax", "emulator").softmax, way="gpu")


CHECKED = """
kernel checked(y: f32[n], x: f32[n]; B = 32):
    grid cdiv(n, B)
    i = block(0) * B
    v = x[i : i + B]
    assert v < 100.0
    y[i : i + B] = v
"""


def test_a_machine_that_lacks_something_says_what(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    f, x = functions("emulator")["softmax"], normal(4, 33)
    if not any(each.platform == "gpu" for each in jax.devices()):
        assert f.way(x) == JaxWay("callback", "JAX has no NVIDIA GPU in this process")

    def with_compiler(command: str) -> JaxWay:
        monkeypatch.setenv("CC", command)
        library.compiler.cache_clear(), library.toolchain.cache_clear()
        return f.way(x)

    with on_host(tmp_path):
        with patch.object(foreign, "platform", lambda: replace(HOST, serves=lambda device: False)):
            assert "the module runs on the emulator" in f.way(x).why
        assert "no-such-one is not on the PATH" in with_compiler("no-such-one").why
        with pytest.warns(RuntimeWarning, match="softmax goes through the host: the C compiler fails"):
            assert "the C compiler fails" in with_compiler("false").why
        monkeypatch.delenv("CC")
        library.compiler.cache_clear(), library.toolchain.cache_clear()


# ---- the compile cache ----


@needs_compiler
def test_libraries_are_kept(tmp_path: Path, launches: EmulatedLaunches, monkeypatch: pytest.MonkeyPatch) -> None:
    dsl.set_cache(tmp_path / "cache")
    try:
        counts: list[str] = []
        plain = library.build
        monkeypatch.setattr(foreign, "build", lambda *args: (counts.append("build"), plain(*args))[1])
        x = normal(4, 33)
        for _ in range(2):  # a module of its own, as of another process
            foreign._built.clear()
            f = dsl.jax.op(dsl.load(ROOT / "samples" / "softmax.tile", device="emulator").softmax)
            assert f.way(x).name == "ffi" and counts == ["build"]
            assert close(jax.jit(f)(x), jax.nn.softmax(x), 1e-6)
        (kept,) = (tmp_path / "cache").glob("*.foreign")
        kept.write_bytes(kept.read_bytes()[:-1] + b"?")  # a damaged entry is made again
        foreign._built.clear()
        assert f.way(x).name == "ffi" and counts == ["build"] * 2
        for other in ("-DOTHER", "-O0"):  # another command of the compiler, another library
            monkeypatch.setenv("CC", f"cc {other}")
            library.compiler.cache_clear(), library.toolchain.cache_clear()
            assert f.way(x).name == "ffi"
        assert len(counts) == 4 and len([*(tmp_path / "cache").glob("*.foreign")]) == 3
    finally:
        dsl.set_cache()
        library.compiler.cache_clear(), library.toolchain.cache_clear()
