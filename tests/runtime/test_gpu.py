"""What only a GPU has: streams, contexts, its compiler, poisoned contexts. Results have twins in test_launch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import hand_written
import numpy as np
import pytest

from dsl.runtime import DeviceArray, DeviceError, Kernel, LaunchError, device_facts, synchronize, to_device
from dsl.runtime.chips import occupancy
from dsl.runtime.cuda.module import jit_error
from dsl.runtime.cuda.timing import measure, percentiles

HERE = Path(__file__).resolve().parent
ILLEGAL = """
import sys
sys.path[:0] = [{here!r}, {root!r}]
import hand_written
from dsl.runtime import DeviceArray, DeviceError, Kernel, synchronize
bad = hand_written.scale(schedule="broken").replace("add.s64 %y, %y, %o;", "mov.u64 %y, 16;")
y, x = DeviceArray((1000,), "f32"), DeviceArray((1000,), "f32")
good = Kernel(hand_written.copy())
good(y, x)
synchronize()
Kernel(bad)(y, x, 1.0)
for attempt in (synchronize, lambda: good(y, x), lambda: good.run(y, x)):
    try:
        attempt()
        print("no error")
    except DeviceError as error:
        print(error.code, "scale with broken" in error.message, "copy" in error.message)
"""


def test_what_limits_the_blocks_of_a_multiprocessor() -> None:
    facts = device_facts("emulator", "sm_90")
    assert occupancy(facts, registers=32, threads=1024, shared_bytes=0)[1] == "threads"
    assert occupancy(facts, registers=255, threads=256, shared_bytes=0)[1] == "registers"
    assert occupancy(facts, registers=32, threads=128, shared_bytes=100_000)[1] == "shared memory"
    assert occupancy(facts, registers=16, threads=32, shared_bytes=0)[1] == "blocks"


def test_a_log_of_the_driver_shows_the_ptx_line() -> None:
    error = jit_error("one\n  two here\n", "ptxas application ptx input, line 2; error   : Unknown symbol")
    assert error.code == "ptx" and error.hint == "line 2 of the PTX: two here"


@pytest.mark.gpu
def test_facts() -> None:
    facts = device_facts("cuda")
    assert facts.sms > 0 and facts.arch.startswith("sm_") and facts.shared_per_sm > facts.shared_per_block > 48 << 10
    assert facts.memory_bandwidth is None or 1e11 < facts.memory_bandwidth < 1e14


@pytest.mark.gpu
def test_device_arrays_and_time() -> None:
    x = np.random.default_rng(1).standard_normal(1000, np.float32)
    y = DeviceArray((1000,), "f32")
    result = Kernel(hand_written.scale()).run(y, to_device(x), 2.0, time=True)
    np.testing.assert_array_equal(y.numpy(), 2 * x)
    assert result.time_us is not None and 0 < result.time_us < 1e5


@pytest.mark.gpu
def test_attributes() -> None:
    found = Kernel(hand_written.scale()).attributes()
    assert 0 < found.registers <= 32 and found.local_bytes == 0 and found.blocks_per_sm * 128 <= 2048
    assert found.limited_by == "threads" and found.occupancy == 1.0


@pytest.mark.gpu
def test_shared_memory_beyond_the_default_and_a_register_cap() -> None:
    optin = device_facts("cuda").shared_per_block
    y, x = DeviceArray((1000,), "f32"), to_device(np.ones(1000, np.float32))
    kernel = Kernel(hand_written.scale(shared_bytes=optin, maxnreg=24))
    kernel(y, x, 3.0)
    assert (y.numpy() == 3).all()
    assert kernel.attributes().registers <= 24 and kernel.attributes().limited_by == "shared memory"
    with pytest.raises(LaunchError) as caught:
        Kernel(hand_written.scale(shared_bytes=optin + 1))(y, x, 3.0)
    assert caught.value.code == "shared"


@pytest.mark.gpu
def test_clusters() -> None:
    if device_facts("cuda").arch < "sm_90":
        pytest.skip("no clusters before sm_90")
    y, x = DeviceArray((1024,), "f32"), to_device(np.ones(1024, np.float32))
    text = hand_written.scale(cluster=4, arch="sm_90").replace(".version 7.1", ".version 7.8")
    Kernel(text.replace(".target sm_80", ".target sm_90"))(y, x, 5.0)
    assert (y.numpy() == 5).all()


@pytest.mark.gpu
def test_ptx_that_the_driver_refuses() -> None:
    text = hand_written.scale().replace("mul.rn.f32", "mul.rn.f33")
    line = text.splitlines().index(next(line for line in text.splitlines() if "f33" in line)) + 1
    with pytest.raises(DeviceError) as caught:
        Kernel(text).attributes()
    assert caught.value.code == "ptx" and f"line {line}" in caught.value.message
    assert "f33" in str(caught.value.hint)


@pytest.mark.gpu
def test_ptx_of_a_later_architecture() -> None:
    with pytest.raises(LaunchError) as caught:
        Kernel(hand_written.scale(arch="sm_121a")).attributes()
    assert caught.value.code == "target"


@pytest.mark.gpu
def test_what_was_current_is_restored() -> None:
    from cuda.bindings import driver

    y, x = DeviceArray((1000,), "f32"), DeviceArray((1000,), "f32")
    before = int(driver.cuCtxGetCurrent()[1])
    Kernel(hand_written.copy())(y, x)
    synchronize()
    assert int(driver.cuCtxGetCurrent()[1]) == before


@pytest.mark.gpu
def test_an_illegal_access_names_the_kernels_and_refuses_more() -> None:
    code = ILLEGAL.format(here=str(HERE), root=str(HERE.parent.parent))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines() == ["poisoned True False"] * 3, done.stdout + done.stderr


@pytest.mark.gpu
def test_fork_is_a_clear_error() -> None:
    code = f"""
import os, sys
sys.path[:0] = [{str(HERE)!r}, {str(HERE.parent.parent)!r}]
import hand_written
from dsl.runtime import DeviceArray, DeviceError, Kernel
y, x = DeviceArray((1000,), "f32"), DeviceArray((1000,), "f32")
kernel = Kernel(hand_written.copy())
kernel(y, x)
if os.fork() == 0:
    for attempt in (lambda: kernel(y, x), lambda: DeviceArray((4,), "f32")):
        try:
            attempt()
            print("no error", flush=True)
        except DeviceError as error:
            print(error.code, flush=True)
    os._exit(0)
os.wait()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["cuda", "cuda"], done.stdout + done.stderr


@pytest.mark.gpu
@pytest.mark.parametrize("framework", ["torch", "cupy"])
def test_arrays_of_a_framework_on_its_own_stream(framework: str) -> None:
    module: Any = pytest.importorskip(framework)
    kernel = Kernel(hand_written.scale())
    if framework == "torch":
        x = module.randn(1000, device="cuda")
        stream, numpy = module.cuda.Stream(), lambda array: array.cpu().numpy()
        scope = module.cuda.stream(stream)
    else:
        x = module.random.randn(1000).astype("float32")
        stream, numpy = module.cuda.Stream(non_blocking=True), module.asnumpy
        scope = stream
    module.cuda.synchronize() if framework == "torch" else module.cuda.Device().synchronize()
    y = module.empty_like(x)
    with scope:
        kernel(y, x, 2.0)
    stream.synchronize()
    np.testing.assert_array_equal(numpy(y), 2 * numpy(x))
    with pytest.raises(LaunchError) as caught:
        kernel(y, y, 2.0)
    assert caught.value.code == "overlap"
    with pytest.raises(LaunchError) as caught:
        kernel(y, x[::2], 2.0)
    assert caught.value.code == "array"


@pytest.mark.gpu
def test_a_captured_graph_replays_the_launch() -> None:
    torch: Any = pytest.importorskip("torch")
    y, x = torch.zeros(1000, device="cuda"), torch.ones(1000, device="cuda")
    kernel = Kernel(hand_written.scale())
    kernel(y, x, 1.0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(y, x, 3.0)
    x.fill_(2.0)
    graph.replay()
    torch.cuda.synchronize()
    assert (y == 6).all()


@pytest.mark.gpu
def test_jax_arrays_are_inputs_only() -> None:
    jax: Any = pytest.importorskip("jax")
    try:
        jax.devices("gpu")
    except RuntimeError as error:
        pytest.skip(f"JAX sees no GPU: {error}")
    x = jax.numpy.arange(1000, dtype=jax.numpy.float32)
    y = DeviceArray((1000,), "f32")
    kernel = Kernel(hand_written.scale())
    kernel(y, x, 2.0)
    np.testing.assert_array_equal(y.numpy(), 2 * np.arange(1000, dtype=np.float32))
    with pytest.raises(LaunchError) as caught:
        kernel(x, y, 2.0)
    assert caught.value.code == "array"


@pytest.mark.gpu
def test_an_interface_alone_is_enough() -> None:
    class Exposed:
        def __init__(self, array: DeviceArray) -> None:
            self.array = array

        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            pointer = self.array.array.pointer
            return {"version": 3, "shape": (1000,), "typestr": "<f4", "data": (pointer, False), "stream": 1}

    y, x = DeviceArray((1000,), "f32"), to_device(np.ones(1000, np.float32))
    Kernel(hand_written.scale())(Exposed(y), Exposed(x), 4.0)
    assert (y.numpy() == 4).all()


@pytest.mark.gpu
def test_classes_of_torch_tensors_are_kept_apart() -> None:
    torch: Any = pytest.importorskip("torch")
    kernel = Kernel(hand_written.scale())
    for n in (1000, 1000, 500, 1000, 500):
        x = torch.randn(n, device="cuda")
        y = torch.empty_like(x)
        kernel(y, x, 2.0)
        assert torch.equal(y, 2 * x)
        for bad in (x.half(), x.cpu(), x[::2], x[None], torch.zeros(n, dtype=torch.complex64).cuda().conj().imag):
            with pytest.raises(LaunchError):
                kernel(y, bad, 2.0)
        with pytest.raises(LaunchError) as caught:
            kernel(x, x, 2.0)
        assert caught.value.code == "overlap"


@pytest.mark.gpu
def test_times_between_events() -> None:
    y, x = DeviceArray((1000,), "f32"), to_device(np.ones(1000, np.float32))
    times = measure(Kernel(hand_written.copy()).bind(y, x), repeats=20)
    low, middle, high = percentiles(times)
    assert len(times) == 20 and 0 < low <= middle <= high < 1e4


def test_percentiles() -> None:
    assert percentiles([float(n) for n in range(11)][::-1]) == (2.0, 5.0, 8.0)
    with pytest.raises(DeviceError):
        percentiles([])
