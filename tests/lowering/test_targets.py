"""Every kernel of the samples with every schedule for every target: legal PTX that ptxas takes without spilling."""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha256
from pathlib import Path

import llvmlite
import pytest
from sample_variants import ABSENT, LEAST, Case, cases, program

from dsl.lowering.emit import emit
from dsl.lowering.emit.codegen import llvm_level_for, to_ptx
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.targets import RESERVED_SHARED, TARGETS, target
from dsl.lowering.passes import run_passes
from dsl.runtime.chips import MACHINES, emulated_arch, emulated_facts
from dsl.runtime.emulator.reader import TARGETS as READ
from dsl.runtime.errors import DeviceError, LaunchError
from dsl.runtime.tools import assemble, find
from tests.whole import some

CASES = cases()
GOLDEN = Path(__file__).with_name("golden") / "ptx.txt"
"""A digest of the PTX of each variant: a change of the compiler that means to change no code changes no line of it.
`pytest tests/lowering/test_targets.py -k golden --update-golden` writes it anew; with DSL_WHOLE=1 all are compared, and
every sixth one in CI."""


@cache
def compiled(case: Case, arch: str) -> tuple[str, tuple[int, int]]:
    """PTX, and the version that the emitted instructions need."""
    variant = case.build(arch)
    run_passes(variant.function, variant.target)
    text, needs = emit(variant.function, variant.target)
    return to_ptx(text, variant.target, needs, llvm_level_for(variant.function)), needs


@pytest.fixture(scope="module")
def assembler() -> None:
    try:
        find("ptxas")
    except DeviceError as error:
        pytest.skip(str(error))


def target_in(ptx: str) -> str:
    """That of a text: products of warp groups make sm_90 sm_90a."""
    found = re.search(r"^\.target (\w+)", ptx, re.MULTILINE)
    assert found is not None
    return found[1]


def variants() -> list[tuple[Case, str]]:
    """All cases on sm_90; the first dims of each schedule on one more target, which the schedules take in turn."""
    first = {(c.file, c.kernel, c.schedule): c for c in reversed(CASES)}
    turns = []
    for i, (_, case) in enumerate(sorted(first.items(), key=lambda e: str(e[0]))):
        least = max((LEAST.get(name, 0) for _, name in case.types), default=0)
        others = [arch for arch, row in TARGETS.items() if arch != "sm_90" and row.number >= least]
        if case.schedule.removeprefix("attend_") in (
            "groups",
            "four",
            "long",
            "wgmma",
            "tma",
            "pairs",
            "taps",
            "wide",
        ):
            others = ["sm_90a"]  # alone has products of warp groups
        if case.schedule == "stream_k":  # two stages of 56 KB
            others = [arch for arch in others if TARGETS[arch].shared >= 112 << 10]
        turns.append((case, others[i % len(others)]))
    return [(case, "sm_90") for case in CASES] + turns


def digest(case: Case, arch: str) -> str:
    """Of the code alone, without comments and without the lines of sources that it came from."""
    ptx, _ = compiled(case, arch)
    code = ptx.partition(".section")[0]
    return sha256(re.sub(r"^\s*\.(loc|file)\s.*\n|\s*//.*$", "", code, flags=re.M).encode()).hexdigest()[:12]


def named(case: Case, arch: str) -> str:
    return f"{case.file.removesuffix('.tile')} {case} {arch}"


@cache
def golden() -> tuple[str, dict[str, str]]:
    """Which llvmlite made them, and the digests."""
    made_by, *rows = GOLDEN.read_text().splitlines()
    return made_by, dict(row.rsplit(" ", 1) for row in rows)


THIS = f"llvmlite {llvmlite.__version__}"


def test_golden_has_all_variants(update_golden: bool) -> None:
    if update_golden:
        rows = [f"{named(case, arch)} {digest(case, arch)}" for case, arch in variants()]
        GOLDEN.write_text("\n".join([THIS, *rows]) + "\n")
        golden.cache_clear()
    made_by, digests = golden()
    assert [*digests] == [named(case, arch) for case, arch in variants()]
    if made_by != THIS:
        pytest.skip(f"the digests are of {made_by}, and this is {THIS}, whose LLVM makes other PTX")


def most_spilled(case: Case, arch: str) -> int:
    """Bytes. Of 192 accumulators a few words around the loop do not fit."""
    if case.schedule == "stream_k":
        return (
            72 if "fused" in dict(case.dims) else 40
        )  # with bias and residual behind blocks that go on to other tiles
    if (case.kernel, case.schedule) == ("product", "mma_sync"):
        # A few words outside the iterations, since blocks go on from tile to tile: 8, and 12 with llvmlite 0.48.
        number = TARGETS[arch].number
        return 24 if number in (80, 86, 89) else 32 if number in (100, 103) else 12
    if case.kernel == "attend" and dict(case.dims)["d"] > 64:
        return 128  # outside its loop; with 8 warps there are none, and it is 17 to 20% slower
    if (case.kernel, case.schedule) == ("of_keys", "groups"):
        return 0 if dict(case.dims)["d"] > 64 else 24  # 64 queries an iteration spill nothing and take longer
    if case.schedule == "turns":
        return 144  # the costs choose it for longer rows alone, with more registers
    if (case.schedule, dict(case.dims).get("cols")) == ("row_block", 4097):
        return 8  # with mean and rstd, a word
    return 8 if case.schedule == "folded" and TARGETS[arch].number == 120 else 0


def check_lines(case: Case, ptx: str) -> None:
    """Every `.loc` names a `.file`, and a line there that says something; every line of the sample's own has code."""
    files = {
        number: name.rpartition("/")[2] for number, name in re.findall(r'^\s*\.file\s+(\d+)\s+"([^"]+)"', ptx, re.M)
    }
    places = {(files[f], int(line)) for f, line in re.findall(r"^\s*\.loc\s+(\d+)\s+(\d+)", ptx, re.M)}
    source = program(case.file).kernels[case.kernel].loc.source  # the sample, or a file of `dsl/std`
    own = {line for file, line in places if file == source.name.rpartition("/")[2]}
    text = source.text.splitlines()
    absent = ABSENT.get((case.kernel, case.schedule), ABSENT.get(case.kernel, set()))
    own.discard(0)  # DWARF: no line; the entry of the function
    assert own
    assert all(text[line - 1].strip() and not text[line - 1].startswith("#") for line in own)
    for number, line in enumerate(text, 1):
        if number in own or "store(" not in line or any(name in line for name in absent):
            continue
        block = next(n for n in range(number, 0, -1) if text[n - 1][:1].strip())
        assert not text[block - 1].startswith(f"kernel {case.kernel}("), f"line {number} has no code: {line}"


@pytest.mark.parametrize(("case", "arch"), some(variants(), 6), ids=str)
def test_ptx_is_as_golden_and_ptxas_takes_it_without_spilling(
    case: Case, arch: str, update_golden: bool, request: pytest.FixtureRequest
) -> None:
    """And its lines lead back to the sample: all in one, since to compile takes longest."""
    ptx, _ = compiled(case, arch)
    made_by, digests = golden()
    if made_by == THIS and not update_golden:
        assert digests[named(case, arch)] == digest(case, arch)
    check_lines(case, ptx)
    request.getfixturevalue("assembler")
    figures = assemble(ptx, target_in(ptx), case.kernel)
    if most := most_spilled(case, arch):
        assert max(figures.spill_stores, figures.spill_loads) <= most, figures.log
    else:
        assert (figures.spill_stores, figures.spill_loads, figures.stack) == (0, 0, 0), figures.log
    assert figures.registers > 0 and figures.cubin.startswith(b"\x7fELF")


@pytest.mark.parametrize("arch", TARGETS)
def test_the_version_is_the_least_that_target_and_instructions_need(arch: str) -> None:
    """No driver newer than needed: the versions of the target's row and of the instruction rows used, the larger."""
    ptx, needs = compiled(CASES[0], arch)
    version = re.search(r"^\.version (\d+)\.(\d+)$", ptx, re.M)
    assert version is not None and (int(version[1]), int(version[2])) == max(needs, TARGETS[arch].ptx)
    assert re.search(r"^\.target (\S+?)(, debug)?$", ptx, re.M)[1] == arch  # type: ignore[index]


VERSIONS = [
    *[(6, 5), *((7, minor) for minor in range(9)), *((8, minor) for minor in range(9)), (9, 0)],
]
"""Of PTX, from the one before sm_80 on (PTX ISA 9.0, 13 "Release Notes")."""


@pytest.mark.parametrize("arch", TARGETS)
def test_ptxas_does_not_know_the_target_in_the_version_before(arch: str, assembler: None) -> None:
    """The least version of a row is the least one: with the version before it, ptxas refuses."""
    ptx, _ = compiled(CASES[0], arch)
    assemble(ptx, arch, CASES[0].kernel)
    major, minor = VERSIONS[VERSIONS.index(TARGETS[arch].ptx) - 1]
    with pytest.raises(LaunchError, match="ptxas refuses"):
        assemble(re.sub(r"^\.version .*$", f".version {major}.{minor}", ptx, flags=re.M), arch)


@pytest.mark.parametrize("arch", TARGETS)
def test_the_emulated_chip_is_the_row_s(arch: str) -> None:
    """The emulator shares no table with the compiler, and both say the same."""
    row, chip = TARGETS[arch], emulated_facts(arch)
    assert chip.name == f"emulated {row.chip}" and chip.sms == row.sms
    assert (chip.shared_per_block, chip.shared_per_sm) == (row.shared, row.shared_per_sm)
    assert chip.shared_per_sm - chip.shared_per_block == chip.reserved_shared == RESERVED_SHARED
    assert (chip.threads_per_sm, chip.blocks_per_sm) == (row.threads_per_sm, row.blocks_per_sm)
    assert chip.registers_per_sm == row.registers


def test_an_unknown_target_is_a_located_error_with_a_hint() -> None:
    with pytest.raises(TileError, match="unknown target 'sm_9'") as caught:
        target("sm_9")
    assert caught.value.hint


def test_a_machine_without_a_row_has_that_of_its_family_or_the_next_one_up() -> None:
    """PTX runs on every later device; within a family multiprocessors hold the same (CUDA programming guide, table of
    compute capabilities: 10.x and 12.x are one column each)."""
    expected = {"sm_30": "sm_80", "sm_52": "sm_80", "sm_75": "sm_80", "sm_87": "sm_89", "sm_88": "sm_89"}
    expected |= {"sm_103": "sm_100", "sm_103a": "sm_100", "sm_107f": "sm_100", "sm_110": "sm_120", "sm_121": "sm_120"}
    assert {target: emulated_facts(target).arch for target in expected} == expected
    assembled = {"sm_30": "sm_80", "sm_87": "sm_89", "sm_90": "sm_90", "sm_90a": "sm_90a", "sm_103": "sm_103"}
    assembled |= {"sm_110": "sm_120", "sm_110a": "sm_110a", "sm_121": "sm_121"}
    assert {target: emulated_arch(target) for target in assembled} == assembled
    assert {f"sm_{number}" for number in MACHINES} == {target for target in READ if target[-1].isdecimal()}
    for name in ("sm_91", "sm_", "sm_90b", "sm_³", "90", "", "sm_" + "9" * 5000):
        with pytest.raises(LaunchError, match="no emulated device has"):
            emulated_facts(name)
