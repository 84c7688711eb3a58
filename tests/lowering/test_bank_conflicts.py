"""The compiler's verdict on the bank conflicts of every shared access of the samples, against the emulator's counts.

One block of each variant runs; the passes over the banks of each statement's reads and writes are those that
`bank_conflicts` says, phase by phase.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compile_and_run import NUMPY, Kernel, launch
from sample_variants import Case, cases

from lowering.codegen import level_for, to_ptx
from lowering.emit import emit
from lowering.ir import Function
from lowering.location import Loc
from lowering.passes import run_passes
from lowering.passes.swizzle_shared import bank_conflicts
from runtime.emulator.spaces import SharedSpace

Place = tuple[str, int, int]  # file, line and column of an access
Key = tuple[Place, bool]  # and whether it writes

MOST = 1024
"""Extents beyond it are cut to a multiple of all tiles: one block does the same with less data."""
WITHOUT = {"add.tile", "gelu.tile"}
"""Files whose kernels share nothing."""
UNKNOWN = {
    ("softmax_persistent", "s"),
    ("tiled", "s"),
    ("v1", "s"),
    ("v4", "s"),
    ("v5", "s"),
}
"""Kernels and tiles with accesses whose conflicts data or a mask decide."""


def place_of(loc: Loc | None) -> Place:
    return (Path(loc.source.name).name, loc.line, loc.column) if loc else ("", 0, 0)


def verdicts(function: Function) -> dict[Key, set[int | None]]:
    """What the compiler says of the accesses of each statement."""
    out: dict[Key, set[int | None]] = defaultdict(set)
    for op, beyond in bank_conflicts(function):
        out[place_of(op.loc), op.name not in ("load", "ldmatrix")].add(beyond)
    return out


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[Key, list[int]]]:
    """[passes, phases] of each statement's accesses while the emulator runs."""
    found: dict[Key, list[int]] = defaultdict(lambda: [0, 0])
    plain = SharedSpace.place

    def place(self: SharedSpace, address: Any, size: int, g: Any, site: Any, write: bool, counters: Any) -> Any:
        before = (counters.shared_wavefronts, counters.shared_ideal) if counters else (0, 0)
        out = plain(self, address, size, g, site, write, counters)
        if counters:
            at = site.location
            row = found[(Path(at.file).name, at.line, at.column), write]
            row[0] += counters.shared_wavefronts - before[0]
            row[1] += counters.shared_ideal - before[1]
        return out

    with monkeypatch.context() as patch:
        patch.setattr(SharedSpace, "place", place)
        yield found


def small(case: Case) -> Case:
    dims = {name: extent if extent <= MOST or extent % MOST else MOST for name, extent in case.dims}
    return Case(case.file, case.kernel, case.schedule, tuple(dims.items()), case.types)


def arguments(function: Function, dims: dict[str, int]) -> dict[str, Any]:
    """Ones in all tensors, 1 for all scalars, zeros in tables."""
    out: dict[str, Any] = {}
    for p in function.params:
        if p.kind == "tensor":
            shape = [dims[dim] if isinstance(dim, str) else dim for dim in p.dims]
            out[p.name] = np.ones(shape, NUMPY[p.dtype.name])
        elif p.kind == "scalar":
            out[p.name] = 1
        else:
            out[p.name] = np.zeros(p.length, NUMPY[p.dtype.name])
    return out


def check(case: Case, monkeypatch: pytest.MonkeyPatch) -> int:
    """Compares one variant; how many statements were compared to the pass."""
    variant = case.build()
    function = variant.function
    run_passes(function, variant.target)
    said = verdicts(function)
    if not said:
        return 0
    llvm, version = emit(function, variant.target)
    kernel = Kernel(variant, to_ptx(llvm, variant.target, version, level_for(function)))
    with counted(monkeypatch) as found:
        launch(kernel, arguments(function, dict(case.dims)), grid=(1, 1, 1), collect=True)
    assert found and found.keys() <= said.keys(), case
    unknown = {(case.kernel, op.operands[0].name) for op, beyond in bank_conflicts(function) if beyond is None}
    assert unknown <= UNKNOWN, case
    compared = 0
    for key, (passes, phases) in found.items():
        known = [beyond + 1 for beyond in said[key] if beyond is not None]
        if len(known) == len(said[key]):
            assert min(known) * phases <= passes <= max(known) * phases, (case, key, said[key], passes, phases)
            compared += len(known) == 1
    return compared


@pytest.mark.parametrize("file", sorted({case.file for case in cases()} - WITHOUT))
def test_verdicts_are_what_the_emulator_counts(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = {case: check(case, monkeypatch) for case in dict.fromkeys(map(small, cases())) if case.file == file}
    assert sum(compared.values()) > 0


@pytest.mark.parametrize("file", sorted(WITHOUT))
def test_files_without_shared_memory(file: str) -> None:
    for case in cases():
        if case.file == file:
            variant = case.build()
            run_passes(variant.function, variant.target)
            assert not bank_conflicts(variant.function)
