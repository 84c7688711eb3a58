"""Every row compiles as LLVM inline asm and assembles with ptxas, from its least target and PTX version on."""

import re
from collections import defaultdict

import pytest
from template_assembly import IMMEDIATES, LEAST_PTX, assemble, compile_rows, inline_asm, least

from dsl.ptx_templates import Instruction, families, family
from tests.whole import some

# Of the products of warp groups, whose sums are 4 to 128 registers, these counts of columns stand for all.
COLUMNS = ("n8k", "n24k", "n256k")
ROWS = [
    row
    for name in families()
    for row in family(name).values()
    if "wgmma.mma_async" not in row.name or any(columns in row.name for columns in COLUMNS)
]
LATER = [("sm_100a", (8, 8)), ("sm_90a", (8, 8))]  # 7 s each


def groups() -> dict[tuple[str, tuple[int, int]], list[Instruction]]:
    """The rows by the least target and PTX version that they can be assembled for."""
    grouped = defaultdict(list)
    for row in ROWS:
        grouped[least(row)].append(row)
    return dict(grouped)


GROUPS = groups()


def spelled(asm: str) -> str:
    """The text with each place, register or vector of registers as `_`."""
    return re.sub(r"\{[^}]*\}|%(?:p|rs|r|rd|f|fd)\d+", "_", asm)


@pytest.mark.long
@pytest.mark.parametrize(("target", "ptx"), GROUPS, ids=str)
def test_rows_assemble_for_the_least_target_and_version(target, ptx, tmp_path):
    rows = GROUPS[target, ptx]
    text = compile_rows(rows, target, ptx)
    assert f".version {ptx[0]}.{ptx[1]}\n" in text and f".target {target}\n" in text
    emitted = inline_asm(text)
    assert len(emitted) == len(rows)
    for row, asm in zip(rows, emitted, strict=True):
        immediates = [operand.name for operand in row.operands if operand.type == "immediate"]
        expected = row.asm
        for name in immediates:
            expected = expected.replace("{" + name + "}", str(IMMEDIATES.get(name, 1)))
        assert spelled(asm) == spelled(expected)
    assert assemble(text, target, tmp_path) == ""


@pytest.mark.parametrize(("target", "ptx"), some(LATER, 2), ids=str)
def test_rows_assemble_for_later_targets(target, ptx, tmp_path):
    rows = [row for row in ROWS if row.available(target, ptx)]
    assert assemble(compile_rows(rows, target, ptx), target, tmp_path) == ""


def refused(rows: list[Instruction], text: str, target: str, ptx: tuple[int, int], tmp_path) -> set[str]:
    """Names of the rows whose line of the PTX text ptxas refuses for another target and version."""
    text = re.sub(r"\.version .*", f".version {ptx[0]}.{ptx[1]}", text)
    text = re.sub(r"\.target .*", f".target {target}", text)
    lines = text.splitlines()
    begins = [number for number, line in enumerate(lines, 2) if line.strip() == "// begin inline asm"]
    complaints: set[int] = set()
    while True:
        said = assemble("\n".join(lines), target, tmp_path)
        complaints |= {int(number) for number in re.findall(r"line (\d+);", said)}
        stopped = re.search(r"line (\d+); fatal", said)  # where it reads no further: once more without this row
        if stopped is None:
            return {row.name for row, line in zip(rows, begins, strict=True) if line in complaints}
        lines[int(stopped[1]) - 1] = ""


VERSIONS = [(6, 3), (6, 4), (6, 5), *((7, i) for i in range(9)), *((8, i) for i in range(9))]
BELOW_VERSION = [(target, ptx) for target, ptx in GROUPS if ptx > LEAST_PTX[int(re.sub(r"\D", "", target))]]
ARCHITECTURES = sorted(LEAST_PTX)
BELOW_TARGET = [(target, ptx) for target, ptx in GROUPS if target != f"sm_{ARCHITECTURES[0]}"]


@pytest.mark.parametrize(("target", "ptx"), BELOW_VERSION, ids=str)
def test_no_lower_version_has_the_rows(target, ptx, tmp_path):
    rows = GROUPS[target, ptx]
    text = compile_rows(rows, target, ptx)
    lower = VERSIONS[VERSIONS.index(ptx) - 1]
    assert refused(rows, text, target, lower, tmp_path) == {row.name for row in rows}


@pytest.mark.parametrize(("target", "ptx"), BELOW_TARGET, ids=str)
def test_no_lower_target_has_the_rows(target, ptx, tmp_path):
    rows = GROUPS[target, ptx]
    text = compile_rows(rows, target, ptx)
    arch = int(re.sub(r"\D", "", target))
    lower = f"sm_{arch if target.endswith('a') else ARCHITECTURES[ARCHITECTURES.index(arch) - 1]}"
    assert refused(rows, text, lower, max(ptx, (8, 8)), tmp_path) == {row.name for row in rows}
