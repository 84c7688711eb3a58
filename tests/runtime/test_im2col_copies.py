"""Copies of pixels by maps with a window (im2col), against a walk from pixel to pixel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from im2col_kernel import Probe, at_random
from msgspec.structs import replace
from tensor_map_kernel import swizzled

from dsl.runtime import DeviceError, Kernel, assemble, device_facts
from dsl.runtime.tensor_map import Window


def skip_without_maps(device: str) -> None:
    if device == "cuda" and device_facts("cuda").arch < "sm_90":
        pytest.skip("no tensor maps before sm_90")


def copied(probe: Probe, device: str, loaded: dict[int, Any] | None = None) -> Any:
    """The bytes that come. loaded: kernels of each rank on a device; all of a rank have the same code, so that one
    module of the driver is enough for thousands of headers."""
    kernel = Kernel(probe.text(), device=device)
    if loaded is not None:
        kernel._loaded = loaded.setdefault(probe.rank, kernel._loaded)
    out = np.full(probe.bytes, 77, np.uint8)
    kernel(*probe.arguments(out))
    return out


def wrong(seeds: Iterable[int], device: str) -> list[Probe]:
    """The probes whose bytes are not those of the walk."""
    found: list[Probe] = []
    loaded: dict[int, Any] = {}
    for seed in seeds:
        probe = at_random(seed)
        try:
            out = copied(probe, device, loaded)
        except DeviceError as error:  # nothing runs on the device after most of them
            pytest.fail(f"{probe}, behind {found}: {error}")
        if not np.array_equal(out, probe.expected()):
            found.append(probe)
    return found


@pytest.mark.parametrize("part", range(3))
def test_copies_at_random(part: int) -> None:
    assert wrong(range(20 * part, 20 * part + 20), "emulator") == []


@pytest.mark.gpu
def test_two_thousand_copies_at_random_on_a_device() -> None:
    """The emulator's twin is `test_copies_at_random`."""
    skip_without_maps("cuda")
    found = wrong(range(2000), "cuda")
    assert not found, f"{len(found)} of 2000, the first of which are {found[:5]}"


def test_the_copies_at_random_are_of_all_kinds() -> None:
    """Most bring something, and some of each kind cross an edge."""
    probes = [at_random(seed) for seed in range(300)]
    assert {probe.rank for probe in probes} == {3, 4, 5} and {probe.size for probe in probes} == {1, 2, 4}
    brought = [probe.pixels().any(1) for probe in probes]
    assert sum(each.any() for each in brought) > 200  # bring something
    assert sum(each.any() and not each.all() for each in brought) > 50  # with pixels of nothing between
    assert sum(max(probe.window.steps) > 1 for probe in probes) > 100
    assert sum(min(probe.window.lower) < 0 for probe in probes) > 100


NUMBERS = Probe(
    size=4,
    shape=(2, 3, 4, 4),
    row=4,
    window=Window((-1, 0), (0, -1), (1, 2)),
    box=(4, 12),
    swizzle=0,
    first=(0, -1, 0, 0),
    offsets=(1, 1),
)
"""Two images of 3 × 4 pixels. Base pixels are those of the columns -1 to 3 and of row 0 alone, of which the one to the
right and below is read."""


def test_a_window_worked_by_hand(device: str) -> None:
    """Image n has 5 base pixels in one row; what is read is row 1 of it, columns 0 to 4, of which it has 4."""
    skip_without_maps(device)
    array = NUMBERS.array
    read = [(0, 0), (0, 1), (0, 2), (0, 3), None, (1, 0), (1, 1), (1, 2), (1, 3), None, None, None]
    wanted = [np.zeros(4, np.uint32) if at is None else array[at[0], 1, at[1]] for at in read]
    out = copied(NUMBERS, device).view(np.uint32).reshape(12, 4)
    np.testing.assert_array_equal(out, wanted)
    later = replace(NUMBERS, first=(0, 2, 0, 0), box=(4, 4))
    found = copied(later, device).view(np.uint32).reshape(4, 4)
    np.testing.assert_array_equal(found, wanted[3:7])


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("stride", [1, 2])
def test_the_taps_of_a_convolution(device: str, stride: int, dilation: int, swizzle: int) -> None:
    """A product of each tap's pixels with its filter, summed, is the convolution: 3 × 3 taps with padding, of two
    images, in one box of all pixels of the result."""
    skip_without_maps(device)
    channels, height, width = swizzle or 48, 7, 6
    rows, columns = ((extent + 2 - 2 * dilation - 1) // stride + 1 for extent in (height, width))
    window = Window((-1, -1), (1 - 2 * dilation,) * 2, (stride,) * 2)
    base = Probe(1, (2, height, width, channels), channels, window, (channels, 2 * rows * columns), swizzle,
                 (0, -1, -1, 0), (0, 0), seed=7)  # fmt: skip
    padded = np.pad(base.array.astype(np.int64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    taps = np.random.default_rng(8).integers(-9, 10, (3, 3, channels))
    found, wanted = np.zeros(2 * rows * columns, np.int64), np.zeros((2, rows, columns), np.int64)
    for row in range(3):
        for column in range(3):
            probe = replace(base, offsets=(column * dilation, row * dilation))
            came = swizzled(copied(probe, device), swizzle)  # twice is not at all
            found += came.reshape(-1, channels).astype(np.int64) @ taps[row, column]
            down, right = (slice(tap * dilation, None, stride) for tap in (row, column))
            wanted += padded[:, down, right][:, :rows, :columns] @ taps[row, column]
    np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_the_kernels_assemble(rank: int) -> None:
    probe = next(probe for seed in range(99) if (probe := at_random(seed)).rank == rank)
    assert assemble(probe.text(), "sm_90").spill_stores == 0
