"""The command line of a benchmark. The command runs every operation at every shape and writes tables, JSON and a
plot."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import dsl
from dsl.runtime import device_facts, gpu_reason

from .contest import A_COPY, Contest, Peer, Problem, Yardstick
from .launches import Call, counted, facts_of
from .plot import Panel, plot
from .record import save
from .rows import OURS, Row
from .table import console, show, summary
from .timing import ROUNDS, LeftOut

Shape = dict[str, int]


class Operation(Protocol):
    """An operation of a benchmark.

    `name` appears in the tables. `host_arguments` returns numpy arrays, for which the emulator counts events.
    """

    name: str

    def call(self, dtype: str) -> Call: ...

    def problem(self, shape: Shape, dtype: str) -> Problem: ...

    def host_arguments(self, shape: Shape, dtype: str) -> tuple[Any, ...]: ...


@dataclass(frozen=True, slots=True)
class Benchmark:
    """The dispatches in `samples` and how they are measured.

    A shape consists of the dims `fixed`, and of the dim `key` with one of `extents`. The command has an option for each
    of these dims.

    `counted` makes a shape small enough for the emulator. The summary of the yardstick's share covers shapes whose
    `key` is at least `least`. `prepare` is called once, with everything that will be measured and with the peers.
    `rest` is as in timing.interleaved.
    """

    samples: Sequence[Path]
    operations: Mapping[str, Any]
    peers: Mapping[str, Peer]
    types: Sequence[str]
    key: str
    extents: Sequence[int]
    fixed: Mapping[str, int]
    least: int
    counted: Callable[[Shape], Shape]
    prepare: Callable[[list[tuple[Any, Shape, str]], Sequence[str]], None] = lambda measured, peers: None
    yardstick: Yardstick = A_COPY
    rest: float = 0.0


def parser(description: str, benchmark: Benchmark) -> argparse.ArgumentParser:
    """The options that all benchmarks have."""

    def words(text: str) -> list[str]:
        return [part for part in text.split(",") if part]

    def numbers(text: str) -> list[int]:
        return [int(part) for part in words(text)]

    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument(f"--{benchmark.key}", type=numbers, default=list(benchmark.extents), metavar="N,N,…")
    for name, extent in benchmark.fixed.items():
        made.add_argument(f"--{name}", type=int, default=extent, metavar="N")
    made.add_argument("--types", type=words, default=[benchmark.types[0]], help=", ".join(benchmark.types))
    made.add_argument("--ops", type=words, help=", ".join(benchmark.operations))
    made.add_argument("--peers", type=words, help=", ".join(benchmark.peers))
    made.add_argument("--rounds", type=int, default=ROUNDS, help="timed launches of each variant")
    made.add_argument("--counters", action="store_true", help="the emulator's counters of ours")
    made.add_argument("--json", type=Path, metavar="FILE")
    made.add_argument("--plot", type=Path, metavar="FILE.png")
    return made


def run(benchmark: Benchmark, options: argparse.Namespace) -> None:
    """Measures, and prints a table for each operation and type. JSON is written after each table, so that an
    interrupted run loses little.

    Ends the program with status 1 if a result of our kernels was wrong.
    """
    for sample in benchmark.samples:
        if not sample.is_file():
            raise SystemExit(f"{sample} is not there")
    if options.plot and find_spec("matplotlib") is None:
        raise SystemExit("--plot needs matplotlib")
    types = chosen("types", options.types, benchmark.types)
    names = chosen("ops", options.ops, benchmark.operations)
    peers = chosen("peers", options.peers, benchmark.peers)
    fixed = {name: getattr(options, name) for name in benchmark.fixed}
    shapes = [fixed | {benchmark.key: extent} for extent in getattr(options, benchmark.key)]
    out, begun, reason, device = console(), time.perf_counter(), gpu_reason(), device_facts("auto").name
    out.print(device + (f"; counters only: {reason}" if reason else ""))
    measured = [(benchmark.operations[name], shape, dtype) for dtype in types for name in names for shape in shapes]
    if reason is None:
        benchmark.prepare(measured, peers)
        out.print(f"prepared after {time.perf_counter() - begun:.0f} s")
    rivals = {name: benchmark.peers[name] for name in peers}
    files = {file: dsl.load(file) for file in benchmark.samples}
    contest = Contest(files, rivals, options.rounds, benchmark.yardstick, benchmark.rest)
    where = ", ".join(f"{extent} {name}" for name, extent in fixed.items())
    rows: list[Row] = []
    for dtype in types:
        for name in names:
            made = list(rows_of(benchmark, contest, benchmark.operations[name], shapes, dtype, options.counters))
            rows += made
            out.print(show(made, ", ".join(filter(None, (name, dtype, where, "microseconds"))), benchmark.key))
            for line in summary(made, benchmark.least, benchmark.key):
                out.print(line)
            if options.json:
                save(options.json, rows, device, benchmark.samples, rounds=options.rounds, left_out=contest.left_out)
    for left_out, places in contest.left_out.items():
        out.print(f"left out: {left_out} ({', '.join(places)})")
    if options.plot and reason is None:
        parts = (device, where, "L2 cold", f"medians of {options.rounds} interleaved launches")
        title = ", ".join(filter(None, parts))
        units = " or ".join(dict.fromkeys(row.unit for row in rows))
        plot(options.plot, panels(rows, benchmark.key, peers), title, benchmark.key, units)
    out.print(f"{time.perf_counter() - begun:.0f} s")
    if any(row.is_wrong(OURS) for row in rows):
        raise SystemExit(1)


def chosen(option: str, names: list[str] | None, known: Iterable[str]) -> list[str]:
    """The names that the option requests, or all known names."""
    if names is None:
        return list(known)
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"--{option}: no {', '.join(unknown)}; choose from {', '.join(known)}")
    return names


def rows_of(
    benchmark: Benchmark, contest: Contest, operation: Operation, shapes: list[Shape], dtype: str, counters: bool
) -> Iterator[Row]:
    """One row for each shape. A row is measured if there is a GPU. A row is counted if counters are requested or there
    is no GPU."""
    has_gpu = gpu_reason() is None
    for shape in shapes:
        row = Row(operation.name, dtype, shape, 0, yardstick=benchmark.yardstick.name)
        if has_gpu:
            import torch

            row = contest.measure(operation.problem(shape, dtype))
            torch.cuda.empty_cache()
        file = contest.file_of(operation.call(dtype).dispatch) if counters or not has_gpu else None
        if file is not None:
            emulated = dsl.load(file, device="emulator")
            row.counted_shape = benchmark.counted(shape)
            try:
                arguments = operation.host_arguments(row.counted_shape, dtype)
                row.counters = counted(emulated, operation.call(dtype), arguments)
                row.launches = row.launches or facts_of(emulated, operation.call(dtype), arguments)
            except LeftOut as reason:
                contest.leave_out(str(reason), f"counters of {dtype}")
        yield row


def panels(rows: Iterable[Row], key: str, peers: Iterable[str]) -> list[Panel]:
    """The rates over `key`, with a panel for each operation and type.

    The plot draws lines in this order: our kernels first, the yardstick second.
    """
    by_title: dict[str, list[Row]] = {}
    for row in rows:
        by_title.setdefault(f"{row.operation}, {row.dtype}", []).append(row)
    made = []
    for title, group in by_title.items():
        names = [name for name in (OURS, group[0].yardstick, *peers) if any(name in row.times for row in group)]
        lines = {
            name: [(float(row.shape[key]), rate) for row in group if (rate := row.rate(name)) is not None]
            for name in names
        }
        made.append(Panel(title, lines))
    return made
