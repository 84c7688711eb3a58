"""Reads the utilization of the units that may limit a launch from profiles of Nsight Compute."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from dsl.examples.bounds import ISSUE, L2, MEMORY, SHARED, SPECIAL, TENSOR, LaunchBound
from dsl.examples.report import LaunchReport
from dsl.lowering.ir.location import TileError

PEAK = "pct_of_peak_sustained_elapsed"
METRICS = {
    MEMORY: f"dram__throughput.avg.{PEAK}",
    L2: f"lts__t_sectors.avg.{PEAK}",
    SHARED: f"l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.{PEAK}",
    ISSUE: f"sm__inst_issued.avg.{PEAK}",
    TENSOR: f"sm__pipe_tensor_cycles_active.avg.{PEAK}",
    SPECIAL: f"sm__inst_executed_pipe_xu.avg.{PEAK}",
}
"""For each unit, the metric for the percentage of its peak during the launch (Nsight Compute, "Metrics Reference")."""
OF_MULTIPROCESSORS = (SHARED, ISSUE, TENSOR, SPECIAL)
COMMAND = f"ncu --csv --page raw --metrics {','.join(METRICS.values())}"


def read_profile(lines: Iterable[str]) -> Iterator[tuple[str, dict[str, float]]]:
    """Yields the launches in a CSV text that `COMMAND` printed: the kernel's entry name, and the utilization of each
    unit, from 0 to 1. Lines before the CSV are skipped. Commas that separate thousands are ignored."""
    rows = csv.reader(line for line in lines if line.startswith('"'))
    head = next(rows, [])
    # Any other text has no launches, and `add_profile` reports this.
    if "Kernel Name" not in head:
        return
    places = {unit: head.index(metric) for unit, metric in METRICS.items() if metric in head}
    name = head.index("Kernel Name")
    for row in rows:
        if row[0]:  # the second row has units
            shares = {unit: float(row[at].replace(",", "")) / 100 for unit, at in places.items() if row[at] != "n/a"}
            # The profiler prints the signature after the name.
            yield row[name].partition("(")[0], shares


def measured(bound: LaunchBound, shares: Mapping[str, float]) -> dict[str, float]:
    """Returns the utilization of each unit, averaged over the multiprocessors that had a block."""
    # The profiler averages over all multiprocessors. With 8 blocks, the profiler shows 3 %, although each busy
    # multiprocessor reaches 53 %.
    return {unit: share / (bound.busy if unit in OF_MULTIPROCESSORS else 1.0) for unit, share in shares.items()}


def add_profile(launches: Iterable[LaunchReport], path: Path) -> None:
    """Adds the utilizations from a profile file to the bound of each launch. They come from the last launch of the same
    kernel in the file. Raises TileError `option` if the file has no launch of these kernels."""
    try:
        with path.open(newline="") as file:
            # The last launch of a kernel replaces earlier launches, which may have loaded its code.
            found = dict(read_profile(file))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise TileError("option", None, f"{path} cannot be read: {why}", COMMAND) from None
    met = False
    for launch in launches:
        if launch.bound is not None and launch.kernel in found:
            launch.bound.measured, met = measured(launch.bound, found[launch.kernel]), True
    if not met:
        known = ", ".join(found) or "none"
        raise TileError("option", None, f"{path} has no launch of this example, but of {known}", COMMAND)
