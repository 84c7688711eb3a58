"""`Kernel`: results on both devices, and every mistake that a launch refuses before it runs."""

from __future__ import annotations

import threading
from typing import Any

import hand_written
import numpy as np
import pytest

from dsl.runtime import DeviceAssertError, DeviceError, FindingError, Kernel, LaunchError, device_facts, synchronize
from dsl.runtime.header import HeaderTensor


def pair(n: int = 1000) -> tuple[Any, Any]:
    return np.full(n, np.nan, np.float32), np.random.default_rng(n).standard_normal(n, np.float32)


@pytest.mark.parametrize("n", [1, 127, 128, 129, 1000])
def test_scale(device: str, n: int) -> None:
    y, x = pair(n)
    assert Kernel(hand_written.scale(), device=device)(y, x, 2.5) is None
    np.testing.assert_array_equal(y, np.float32(2.5) * x)


def test_empty_arrays_launch_nothing(device: str) -> None:
    y, x = pair(0)
    kernel = Kernel(hand_written.scale(), device=device)
    kernel(y, x, 1.0)
    kernel.bind(y, x, 1.0)()
    assert kernel.run(y, x, 1.0).grid == (0, 1, 1)


def test_parameters_by_name_and_numpy_scalars(device: str) -> None:
    y, x = pair()
    Kernel(hand_written.scale(), device=device)(alpha=np.float32(0.5), x=x, y=y)
    np.testing.assert_array_equal(y, np.float32(0.5) * x)


def test_grid_override_runs_fewer_blocks(device: str) -> None:
    y, x = pair()
    Kernel(hand_written.scale(), device=device)(y, x, 1.0, grid=3)
    np.testing.assert_array_equal(y[:384], x[:384])
    assert np.isnan(y[384:]).all()


def test_bound_launch_sees_new_contents(device: str) -> None:
    y, x = pair()
    launch = Kernel(hand_written.copy(), device=device).bind(y, x)
    for factor in (1, 2):
        x *= factor
        launch()
        np.testing.assert_array_equal(y, x)


def test_run_tells_about_the_launch(device: str) -> None:
    y, x = pair()
    result = Kernel(hand_written.scale(), device=device).run(y, x, 1.0)
    assert (result.grid, result.threads, result.moves, result.computes) == ((8, 1, 1), 128, 8000, None)
    assert result.device == ("emulator" if device == "emulator" else "cuda:0")
    assert (result.counters is not None) == (device == "emulator")


@pytest.mark.parametrize("view", ["rows", "columns", "backwards", "apart"])
def test_strides_and_tables(device: str, view: str) -> None:
    base = np.arange(160, dtype=np.int32).reshape(4, 40)
    x = {"rows": base[:, :4], "columns": base.T[:4, :], "backwards": base[::-1, 7:3:-1], "apart": base[::2, ::10]}[view]
    y = np.zeros((len(x), 4), np.int32)
    Kernel(hand_written.strided(), device=device)(y, x, None, [1, -2, 30, -400])
    np.testing.assert_array_equal(y, x + np.array([1, -2, 30, -400], np.int32))


def test_a_failed_assert_names_line_block_and_thread(device: str) -> None:
    x = np.zeros((5, 4), np.int32)
    x[3, 2] = -1
    kernel = Kernel(hand_written.strided(), device=device)
    with pytest.raises(DeviceAssertError) as caught:
        kernel(np.zeros_like(x), x, None, [0] * 4)
        synchronize()
    error = caught.value
    assert (error.line, error.block, error.thread, error.kernel) == (17, (3, 0, 0), 2, "strided with rows")
    assert error.exit_status == 3
    x[3, 2] = 1
    kernel(np.zeros_like(x), x, None, [0] * 4)
    synchronize()


def test_threads_launch_the_same_kernel_at_once(device: str) -> None:
    kernel = Kernel(hand_written.scale(), device=device)
    pairs = [pair(500) for _ in range(8)]

    def work(index: int) -> None:
        for _ in range(3):
            kernel(*pairs[index], float(index))

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index, (y, x) in enumerate(pairs):
        np.testing.assert_array_equal(y, np.float32(index) * x)


def test_classes_are_kept_apart(device: str) -> None:
    kernel = Kernel(hand_written.scale(), device=device)
    for n in (100, 300, 100, 300):
        y, x = pair(n)
        kernel(y, x, 3.0)
        np.testing.assert_array_equal(y, np.float32(3) * x)


def refused(*arguments: Any, text: str | None = None, **named: Any) -> LaunchError:
    """The error of a launch on the emulator."""
    kernel = Kernel(text or hand_written.scale(), device="emulator")
    with pytest.raises(LaunchError) as caught:
        kernel(*arguments, **named)
    assert caught.value.exit_status == 2
    return caught.value


def test_refused_types_and_shapes() -> None:
    y, x = pair()
    assert refused(y, x.astype(np.float64), 1.0).code == "type"
    assert "x is f64, the kernel takes f32" in str(refused(y, x.astype(np.float64), 1.0))
    assert refused(y, x[None], 1.0).code == "shape"
    assert refused(y[::2], x[::2].copy(), 1.0).code == "array"
    error = refused(y[:10], x, 1.0)
    assert error.code == "shape" and "n is 10 in axis 0 of y, and 1000 in axis 0 of x" in error.message
    table = [0] * 4
    z = np.zeros((3, 5), np.int32)
    assert "the kernel takes 4" in refused(z, z, None, table, text=hand_written.strided()).message


def test_refused_memory() -> None:
    y, x = pair()
    assert refused(y, y, 1.0).code == "overlap"
    both = np.zeros(1500, np.float32)
    assert refused(both[:1000], both[500:], 1.0).code == "overlap"
    y.flags.writeable = False
    assert refused(y, x, 1.0).code == "array"
    odd = np.zeros(4001, np.uint8)[1:].view(np.float32)
    assert refused(odd, x, 1.0).code == "array"


def test_written_arrays_may_not_overlap_themselves() -> None:
    tensors = (
        HeaderTensor("y", "f32", ("n",), strided=True, access="rw", align=4),
        HeaderTensor("x", "f32", ("n",), strided=True, access="r", align=4),
    )
    text = hand_written.copy(params=tensors)
    y = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (8,), (0,))
    assert "its elements share memory" in refused(y, np.zeros(8, np.float32), text=text).message


def test_neighbours_do_not_overlap() -> None:
    both = np.ones(2000, np.float32)
    Kernel(hand_written.scale(), device="emulator")(both[:1000], both[1000:], 2.0)
    assert both.sum() == 3000


def test_refused_conditions() -> None:
    big = np.zeros((1 << 20) + 1, np.float32)
    error = refused(big, big.copy(), 1.0)
    assert error.code == "requires" and "requires n <= 1048576 (n = 1048577)" in error.message
    assert error.line == 3 and error.hint == "use the streamed schedule"
    y, x = pair()
    assert refused(y, x, 1.0, grid=(1, 70000)).code == "grid"
    assert refused(y, x, 1.0, grid=(1, 1, 1, 1)).code == "grid"
    assert refused(y, x, 1.0, text=hand_written.scale(grid=(["-", 0, "n"], 1, 1))).code == "grid"
    assert refused(y, x, 1.0, text=hand_written.scale(grid=(["/", "n", 3], 1, 1))).code == "grid"
    assert refused(y, x, 1.0, text=hand_written.scale(cluster=3)).code == "grid"


def test_32_bit_indices_refuse_arrays_of_2_to_the_31() -> None:
    tensors = (
        HeaderTensor("y", "f32", ("n",), strided=False, access="w", align=4),
        HeaderTensor("x", "f32", ("n",), strided=True, access="r", align=4),
    )
    n, step = 4, 1 << 30
    x = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (n,), (step * 4,))
    assert refused(np.zeros(n, np.float32), x, text=hand_written.copy(params=tensors)).code == "requires"


@pytest.mark.parametrize("value", ["1", None, True, 1e39, [1.0], 1j])
def test_refused_scalars(value: Any) -> None:
    assert refused(*pair(), value).code == "type"


@pytest.mark.parametrize("value", [[1, 2, 3], [1, 2, 3, 4.5], [1, 2, 3, 1 << 31], 4, "abcd", None])
def test_refused_tables(value: Any) -> None:
    x = np.zeros((2, 4), np.int32)
    assert refused(x, x.copy(), None, value, text=hand_written.strided()).code == "type"


def test_refused_calls() -> None:
    y, x = pair()
    assert refused(y, x).message == "scale misses alpha"
    assert refused(y, x, 1.0, 2.0).code == "call"
    assert refused(y, x, 1.0, beta=1).code == "call"
    assert refused(y, x, 1.0, x=x).code == "call"
    assert refused(None, x, 1.0).code == "call"
    assert refused(3, x, 1.0).code == "array"
    z = np.zeros((2, 4), np.int32)
    error = refused(z, z.copy(), np.zeros(4, np.int32), [0] * 4, text=hand_written.strided())
    assert "compiled without bias" in error.message


def test_a_prepared_class_still_checks_pointers() -> None:
    kernel = Kernel(hand_written.scale(), device="emulator")
    y, x = pair()
    kernel(y, x, 1.0)
    with pytest.raises(LaunchError) as caught:
        kernel(y, y, 1.0)
    assert caught.value.code == "overlap"
    odd = np.zeros(4001, np.uint8)[1:].view(np.float32)
    with pytest.raises(LaunchError) as caught:
        kernel(odd, x, 1.0)
    assert caught.value.code == "array"


def test_kernels_without_header_or_with_several() -> None:
    body = hand_written.scale().partition("\n")[2]
    with pytest.raises(LaunchError, match="no //dsl header"):
        Kernel(body)
    line = hand_written.scale().partition("\n")[0]
    two = line.replace('"entry":"scale"', '"entry":"again"') + "\n" + hand_written.scale()
    two += body.partition(".address_size 64")[2].replace("entry scale", "entry again")
    with pytest.raises(LaunchError, match="scale") as caught:
        Kernel(two)
    assert caught.value.code == "ptx"
    assert Kernel(two, "again").header.entry == "again"


def test_unknown_devices() -> None:
    for name in ("gpu", "cuda:x", "cuda:-1", ""):
        with pytest.raises(LaunchError, match="no device"):
            Kernel(hand_written.scale(), device=name)(*pair(), 1.0)


def test_sms_of_the_emulated_device() -> None:
    assert device_facts("emulator", "sm_90a").sms == 132
    y, x = pair(132 * 128)
    Kernel(hand_written.scale(grid=("sms", 1, 1), arch="sm_90"), device="emulator")(y, x, 1.0)
    np.testing.assert_array_equal(y, x)
    assert device_facts("emulator", "sm_75") == device_facts("emulator", "sm_80")  # the next one up
    for name in ("sm_76", "sm_", "75"):
        with pytest.raises(LaunchError, match=f"no emulated device has {name}"):
            device_facts("emulator", name)


def test_scalars_in_expressions_make_classes_of_their_own() -> None:
    kernel = Kernel(
        hand_written.scale(
            requires=(),
            moves=None,
            grid=(["where", [">", "alpha", 0.5], 8, 0], 1, 1),
        ),
        device="emulator",
    )
    for alpha, ran in ((1.0, True), (0.25, False), (1.0, True)):
        y, x = pair()
        kernel(y, x, alpha)
        assert np.isfinite(y).all() == ran


def test_a_finding_names_kernel_and_array_and_writes_nothing() -> None:
    text = hand_written.scale().replace("setp.ge.s32 %p, %i, %n;", "setp.gt.s32 %p, %i, %n;")
    y, x = pair()
    with pytest.raises(FindingError) as caught:
        Kernel(text, device="emulator")(y, x, 1.0)
    assert caught.value.message.startswith("scale: out of bounds") and "past the end of x" in caught.value.message
    assert caught.value.finding.block == (7, 0, 0) and caught.value.exit_status == 3
    assert np.isnan(y).all()


def test_ptx_that_the_emulator_refuses() -> None:
    text = hand_written.scale().replace("mul.rn.f32", "frobnicate.f32")
    with pytest.raises(DeviceError) as caught:
        Kernel(text, device="emulator")(*pair(), 1.0)
    assert caught.value.code == "ptx" and "frobnicate" in caught.value.message


def test_a_misaligned_host_array_stays_misaligned_in_its_copy(device: str) -> None:
    tensors = (
        HeaderTensor("y", "f32", ("n",), strided=False, access="w", align=4),
        HeaderTensor("x", "f32", ("n",), strided=False, access="r", align=16),
    )
    kernel = Kernel(hand_written.copy(params=tensors), device=device)
    x = np.arange(1001, dtype=np.float32)
    y = np.zeros(1000, np.float32)
    aligned, odd = (x[:-1], x[1:]) if x.ctypes.data % 16 == 0 else (x[1:], x[:-1])
    if aligned.ctypes.data % 16 == 0:
        kernel(y, aligned)
        np.testing.assert_array_equal(y, aligned)
    with pytest.raises(LaunchError) as caught:
        kernel(y, odd)
    assert caught.value.code == "array"
