"""The compiler's verdict on the bank conflicts of every shared access of the samples, against the emulator's counts.

One block of each variant runs; the passes over the banks of each statement's reads and writes are those that
`bank_conflicts` says, phase by phase.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compile_and_run import ARRAYS, Kernel, compile_kernel, launch
from hypothesis import given
from hypothesis import strategies as st
from sample_variants import Case, cases

from dsl.lowering.emit import emit
from dsl.lowering.emit.codegen import llvm_level_for, to_ptx
from dsl.lowering.ir.function import Function
from dsl.lowering.ir.location import Loc
from dsl.lowering.layouts.layout import apply
from dsl.lowering.passes import run_passes
from dsl.lowering.passes.swizzle_shared import bank_conflicts, best_swizzle, least_passes
from dsl.lowering.shared.shared_map import Phase, Swizzle, lanes_together, swizzled
from dsl.runtime.emulator.spaces import SharedSpace
from tests.whole import some

Place = tuple[str, int, int]  # file, line and column of an access
Key = tuple[Place, bool]  # and whether it writes

MOST = 512
"""Multiples of it are cut to it, a multiple of all tiles: one block does the same with less data."""
PERSISTENT = {"product", "grouped", "by_blocks", "of_keys", "of_queries", "attend"}
"""Kernels whose one block goes over all tiles: extents are cut to 256 and what is left of them (1008: 20 s, 496: 2)."""
ROWS = 16
"""Those of images, at most, and what is left of them by as many: two tiles of the schedule whose block has them all."""
WITHOUT = {"add.tile", "gelu.tile"}
"""Files whose kernels share nothing."""
UNKNOWN = {
    ("along_axis", "segments"),  # columns begin where a row of x does
    ("of_queries", "sg"),  # rows behind the last one
    ("softmax_rows", "sv"),  # -inf, where copies have left zeros
    ("product", "sb"),  # in atoms: no offset is linear in a column (test_warpgroups counts these)
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

    def place(
        self: SharedSpace, address: Any, size: int, g: Any, site: Any, write: bool, counters: Any, *arrives: bool
    ) -> Any:
        before = (counters.shared_wavefronts, counters.shared_ideal) if counters else (0, 0)
        out = plain(self, address, size, g, site, write, counters, *arrives)
        if counters:
            at = site.location
            row = found[(Path(at.file).name, at.line, at.column), write]
            row[0] += counters.shared_wavefronts - before[0]
            row[1] += counters.shared_ideal - before[1]
        return out

    with monkeypatch.context() as patch:
        patch.setattr(SharedSpace, "place", place)
        yield found


OFFSETS = {"starts", "key_starts"}


def small(case: Case) -> Case:
    """The same with less data: edges stay, and as many accesses are compared."""

    def cut(name: str, extent: int) -> int:
        if name in ("h", "w", "p", "q"):
            return extent if extent <= ROWS else ROWS + extent % ROWS
        if case.kernel in PERSISTENT:
            return extent if extent <= 256 else 256 + extent % 256
        return extent if extent <= MOST or extent % MOST else MOST

    return Case(
        case.file,
        case.kernel,
        case.schedule,
        tuple((name, cut(name, extent)) for name, extent in case.dims),
        case.types,
    )


def arguments(function: Function, dims: dict[str, int]) -> dict[str, Any]:
    """Ones in all tensors, but that sequences have one element each; 1 for all scalars, zeros in tables."""
    out: dict[str, Any] = {}
    for p in function.params:
        if p.value is None:
            out[p.name] = None
        elif p.kind == "tensor":
            shape = [dims[dim] if isinstance(dim, str) else dim for dim in p.dims]
            out[p.name] = np.ones(shape, ARRAYS[p.dtype.name])
            if p.name == "b" and "along_k" in dims:
                out[p.name] = np.ascontiguousarray(out[p.name].T).T
            if p.name in OFFSETS:
                out[p.name] = np.arange(shape[0], dtype=np.int32)
        elif p.kind == "scalar":
            out[p.name] = 1
        else:
            out[p.name] = np.zeros(p.length, ARRAYS[p.dtype.name])
    return out


# ---- the search for a swizzle ---------------------------------------------------------------------------------------


@st.composite
def phases(draw: st.DrawFn) -> Phase:
    """Lanes of one phase: distinct bits of offsets from the access's own width on, or none where they read the same."""
    size = draw(st.sampled_from([2, 4, 8, 16]))
    bits = draw(st.permutations([1 << i for i in range(size.bit_length() - 1, 12)]))
    lanes = bits[: lanes_together(size)]
    return Phase(tuple(0 if draw(st.integers(0, 7)) == 0 else lane for lane in lanes), size)


def passes_one_by_one(phase: Phase, swizzle: Swizzle) -> int:
    """The most words in one bank, from the offsets of all lanes."""
    words = set()
    for lane in range(1 << len(phase.lanes)):
        offset = apply(phase.lanes, lane)
        words |= {swizzled(byte, swizzle) // 4 for byte in range(offset, offset + phase.bytes, min(4, phase.bytes))}
    return max(Counter(word % 32 for word in words).values())


@given(st.lists(phases(), min_size=1, max_size=4))
def test_a_swizzle_takes_no_pass_more_than_none_and_none_less_than_there_are_banks(found: list[Phase]) -> None:
    swizzle = best_swizzle(found, 12)
    keep = max(p.bytes for p in found).bit_length() - 1
    for phase in found:
        passes = phase.passes(swizzle)
        assert passes == passes_one_by_one(phase, swizzle)
        assert least_passes(phase, keep) <= passes <= phase.passes(())
    if len(found) == 1:
        assert found[0].passes(swizzle) == least_passes(found[0], keep)
    assert all(1 << keep <= mask & -mask and mask < 128 <= 1 << bit for bit, mask in swizzle)


def test_as_few_passes_as_a_wide_store_leaves() -> None:
    """16 bytes a lane are stored, and read element by element, 16 bytes apart: 8 places of 16 bytes for 32 lanes."""
    store, load = Phase((64, 128, 256), 16), Phase((64, 128, 256, 512, 1024), 4)
    assert (store.passes(()), load.passes(())) == (4, 16)
    assert least_passes(load, 4) == 4
    swizzle = best_swizzle([store, load], 12)
    assert (store.passes(swizzle), load.passes(swizzle)) == (1, 4)


APART = (
    "register [[0, 8], [0, 16], [16, 0], [32, 0]], lane [[1, 0], [2, 0], [4, 0], [8, 0], [0, 4]], warp [[0, 1], [0, 2]]"
)
ONCE = f"""
kernel k(y: f32[n, m], x: f32[m, n]):
    grid 1
    shared s: f32[64, 32]
    v = load(x[0 : 64, 0 : 32])
    s = v
    w = s[:, :]
    y[0 : 32, 0 : 64] = w.T

schedule s of k:
    warps = 4
    layout v: vector [1, 4], lanes [4, 8], warps [4, 1]
    layout w: {APART}
"""
AGAIN = ONCE.replace("    w = s[:, :]\n", "    w = v\n    for i in range(n):\n        w = w + s[:, :]\n")


@pytest.mark.parametrize(("text", "beyond"), [(ONCE, 15), (AGAIN, 3)])
def test_conflicts_that_cannot_go_become_fewer_in_loops_alone(text: str, beyond: int) -> None:
    """Rows are stored 16 bytes a lane; 32 lanes read elements that lie 16 bytes apart: 4 passes are the fewest."""
    x = np.arange(64 * 32, dtype=np.float32).reshape(64, 32)
    args = {"y": np.zeros((32, 64), np.float32), "x": x}
    kernel = compile_kernel(text, args)
    accesses = {op.name: found for op, found in bank_conflicts(kernel.variant.function) if op.operands[0].name == "s"}
    assert accesses == {"store": 0, "load": beyond}
    launch(kernel, args)
    assert np.array_equal(args["y"], x.T * (1 if text is ONCE else 33))


# ---- the samples ----------------------------------------------------------------------------------------------------


def check(case: Case, monkeypatch: pytest.MonkeyPatch) -> int:
    """Compares one variant; how many statements were compared to the pass."""
    variant = case.build()
    function = variant.function
    run_passes(function, variant.target)
    said = verdicts(function)
    if not said:
        return 0
    llvm, version = emit(function, variant.target)
    kernel = Kernel(variant, to_ptx(llvm, variant.target, version, llvm_level_for(function)))
    with counted(monkeypatch) as found:
        launch(kernel, arguments(function, dict(case.dims)), grid=function.cluster, collect=True)
    assert found and found.keys() <= said.keys(), case
    unknown = {(case.kernel, op.operands[0].name) for op, beyond in bank_conflicts(function) if beyond is None}
    assert unknown <= UNKNOWN or (case.schedule or "").endswith("piece"), case  # a piece ends where its last row does
    compared = 0
    for key, (passes, phases) in found.items():
        known = [beyond + 1 for beyond in said[key] if beyond is not None]
        if len(known) == len(said[key]):
            assert min(known) * phases <= passes <= max(known) * phases, (case, key, said[key], passes, phases)
            compared += len(known) == 1
    return compared


@pytest.mark.long
@pytest.mark.parametrize("file", some(sorted({case.file for case in cases()} - WITHOUT), 4))
def test_verdicts_are_what_the_emulator_counts(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = [case for case in dict.fromkeys(map(small, cases())) if case.file == file]
    assert sum(check(case, monkeypatch) for case in some(mine, 6)) > 0


@pytest.mark.parametrize("file", sorted(WITHOUT))
def test_files_without_shared_memory(file: str) -> None:
    for case in cases():
        if case.file == file:
            variant = case.build()
            run_passes(variant.function, variant.target)
            assert not bank_conflicts(variant.function)
