"""docs/machine_code.md is what ptxas makes of the rows of mma.sync."""

from __future__ import annotations

import re
from functools import cache

import pytest
from template_machine_code import DOCUMENT, MADE, TARGETS, Counter, is_native, machine_code, of_kind, table

from dsl.ptx_templates import family


@cache
def found(target: str) -> dict[str, Counter[str]]:
    return machine_code(target)


def test_the_page_says_what_the_assembler_makes(update_golden: bool) -> None:
    text = MADE + table({target: found(target) for target in TARGETS})
    if update_golden:
        DOCUMENT.write_text(text)
    assert text == DOCUMENT.read_text()


def test_one_row_of_the_page_for_each_kind() -> None:
    """The rows of a kind are alike on every target, so that one line holds for all."""
    names = re.findall(r"^\| (m\S+) \|", DOCUMENT.read_text(), re.M)
    assert len(names) == len(set(names)) and set(names) == {
        of_kind(name.removeprefix("mma.sync.")) for name in family("mma_sync")
    }


@pytest.mark.parametrize(
    ("row", "native"),
    [
        ("mma.sync.m16n8k16.f32.f16.f16.f32", {"sm_80", "sm_89", "sm_90"}),
        ("mma.sync.m16n8k32.s32.s8.u8.s32", {"sm_80", "sm_89", "sm_90"}),
        ("mma.sync.m16n8k8.f32.tf32.tf32.f32", {"sm_80", "sm_89", "sm_90"}),
        ("mma.sync.m16n8k64.s32.s4.s4.s32", {"sm_80", "sm_89"}),
        ("mma.sync.m16n8k256.s32.b1.b1.s32.xor.popc", {"sm_80", "sm_89"}),
        ("mma.sync.m16n8k256.s32.b1.b1.s32.and.popc", {"sm_80", "sm_89", "sm_90"}),
        ("mma.sync.m16n8k32.f32.e4m3.e4m3.f32", {"sm_89"}),
        ("mma.sync.m16n8k16.f64.f64.f64.f64", {"sm_90"}),
    ],
)
def test_what_is_native_where(row: str, native: set[str]) -> None:
    assert {target for target in TARGETS if row in found(target) and is_native(found(target)[row])} == native
