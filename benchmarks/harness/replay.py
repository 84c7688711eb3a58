"""Times launches of a few microseconds. A CUDA graph holds many launches, so the device need not wait for the host."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from dsl.runtime.cuda import driver
from dsl.runtime.cuda.context import context

from .timing import ROUNDS, WARMUPS, microseconds, paired_events

COUNT = 64
"""Number of launches in a graph."""


@cache
def capturing(device: int) -> Any:
    """A stream to capture from. The stream lives as long as the process, since libraries keep the stream that they last
    used."""
    cuda, owner = driver.bindings(), context(device)
    with owner.current():
        return owner.call(cuda.cuStreamCreate, cuda.CUstream_flags.CU_STREAM_NON_BLOCKING)


def captured(launch: Callable[[], object], count: int, device: int = 0) -> Any:
    """An instantiated graph of `count` launches in sequence. `launch` must use torch's current stream."""
    import torch

    cuda, owner, stream = driver.bindings(), context(device), capturing(device)
    with owner.current(), torch.cuda.stream(torch.cuda.ExternalStream(int(stream), device=device)):
        for _ in range(WARMUPS):
            launch()
        owner.synchronize()
        owner.call(cuda.cuStreamBeginCapture, stream, cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
        for _ in range(count):
            launch()
        graph = owner.call(cuda.cuStreamEndCapture, stream)
        try:
            return owner.call(cuda.cuGraphInstantiate, graph, 0)
        finally:
            cuda.cuGraphDestroy(graph)


def replayed(
    launches: Mapping[Any, Callable[[], object]],
    rounds: int = ROUNDS,
    *,
    count: int = COUNT,
    device: int = 0,
    stream: int = 0,
    seed: int = 0,
) -> dict[Any, list[float]]:
    """Microseconds per launch of each variant. Each round replays a graph of `count` launches once.

    The L2 is not overwritten between launches.
    """
    cuda, owner = driver.bindings(), context(device)
    handle, shuffler = cuda.CUstream(stream), random.Random(seed)
    graphs: dict[Any, Any] = {}
    with owner.current():
        try:
            for name, launch in launches.items():
                graphs[name] = captured(launch, count, device)
            order = list(graphs)
            with paired_events(owner, graphs, rounds) as events:
                for turn in range(-WARMUPS, rounds):  # round 0 overwrites the times of the warm-ups
                    shuffler.shuffle(order)
                    for name in order:
                        start, end = events[name][max(turn, 0)]
                        owner.call(cuda.cuEventRecord, start, handle)
                        owner.call(cuda.cuGraphLaunch, graphs[name], handle)
                        owner.call(cuda.cuEventRecord, end, handle)
                owner.synchronize()
                return {name: [t / count for t in microseconds(owner, pairs)] for name, pairs in events.items()}
        finally:
            for graph in graphs.values():
                cuda.cuGraphExecDestroy(graph)
