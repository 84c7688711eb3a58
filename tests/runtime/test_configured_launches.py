"""Launches with attributes: what the driver is told, and that a launch which overlaps is told so."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from fake_cuda import FakeCuda

from dsl import parse
from dsl.kernels.compile import compile_variant
from dsl.kernels.variant import Request
from dsl.runtime.cuda.module import launch_config

TEXT = """
kernel copied(y: f32[n], x: f32[n]; BLOCK = 128):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    y[i : i + BLOCK] = x[i : i + BLOCK]
"""


class Attribute(ctypes.Structure):
    """CUlaunchAttribute (cuda.h)."""

    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_int * 16))


class Config(ctypes.Structure):
    """CUlaunchConfig (cuda.h)."""

    _fields_ = (
        ("sizes", ctypes.c_uint * 7),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(Attribute)),
        ("count", ctypes.c_uint),
    )


CLUSTER, OVERLAPS = 4, 6
"""CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, …_PROGRAMMATIC_STREAM_SERIALIZATION."""


def test_a_config_lies_in_memory_as_the_driver_reads_it() -> None:
    pytest.importorskip("cuda.bindings")
    for cluster, overlaps, wanted in (
        ((1, 1, 1), False, []),
        ((1, 1, 1), True, [(OVERLAPS, [1, 0, 0])]),
        ((2, 1, 1), True, [(CLUSTER, [2, 1, 1]), (OVERLAPS, [1, 0, 0])]),
    ):
        made = launch_config((3, 4, 5), (128, 1, 1), 1000, cluster, overlaps)
        raw = Config.from_address(int(made.getPtr()))
        found = [(each.id, each.value[:3]) for each in raw.attributes[: raw.count]]
        assert ([*raw.sizes], found) == ([3, 4, 5, 128, 1, 1, 1000], wanted)


def test_a_launch_overlaps_where_it_is_asked_to() -> None:
    """The kernel by itself is launched as any other; both are loaded once. A buffer keeps its config."""
    request = Request("copied", dims={"n": 1000}, follows=("x",), choices={"overlap.start": "head"})
    ptx = compile_variant(parse(TEXT).program, request).ptx
    told: list[tuple[Any, ...]] = []
    made: list[tuple[Any, ...]] = []

    def configured(*arguments: int) -> int:
        told.append(arguments)
        return 0

    def config(*shape: Any) -> Any:
        made.append(shape)
        return SimpleNamespace(hStream=None, getPtr=lambda: 99)

    with (
        FakeCuda() as cuda,
        patch("dsl.runtime.cuda.driver.launch_configured", lambda: configured),
        patch("dsl.runtime.cuda_launch.launch_config", config),
    ):
        kernel = cuda.kernel(ptx)
        kernel._loaded[0].function = 7  # type: ignore[misc]
        for number in range(3):
            kernel(*cuda.pair("torch", number))
            kernel.overlapping(*cuda.pair("torch", number))
        kernel.overlapping.bind(*cuda.pair("torch"))()
        assert len(cuda.driver.launches) == 3
    assert made == [((8, 1, 1), (128, 1, 1), 0, (1, 1, 1), True)] * 2
    assert [(first, function, extra) for first, function, _, extra in told] == [(99, 7, 0)] * 4
