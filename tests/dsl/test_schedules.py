"""What schedules may compute: occupancy against the CUDA occupancy calculator's rules, contraction as a choice."""

from __future__ import annotations

import pytest

from dsl.program import parse_program
from dsl.variant import Request, build_variant

TEXT = """
kernel k(y: f32[n], x: f32[n]; A, B = 0):
    grid A + B
    y[0 : 128] = x[0 : 128] * x[0 : 128] + x[0 : 128]

schedule counted of k:
    A = occupancy({arguments})

schedule fused of k:
    A = 1
    tune FMA in false, true
    contract FMA
"""


@pytest.mark.parametrize(
    ("arguments", "arch", "blocks"),
    [
        ("4, 0", "sm_90", 16),  # 2048 threads
        ("1, 0", "sm_90", 32),  # blocks
        ("1, 0", "sm_86", 16),
        ("32, 0", "sm_89", 1),  # 1536 threads hold one block of 1024
        ("4, 100 * 1024", "sm_90", 2),  # 228 KB, of which each block takes one more
        ("4, 48 * 1024", "sm_86", 2),
        ("8, 0, 64", "sm_90", 4),  # 65536 registers
        ("8, 0, 65", "sm_90", 3),  # in eights
        ("4, n", "sm_90", 16),
    ],
)
def test_occupancy(arguments: str, arch: str, blocks: int) -> None:
    program = parse_program(TEXT.format(arguments=arguments))
    variant = build_variant(program, Request("k", "counted", {"n": 4096}, {}, arch=arch))
    assert variant.constants["A"] == blocks


def test_a_launch_evaluates_occupancy_too() -> None:
    """It depends on a dim, so the variant requires that it still holds."""
    program = parse_program(TEXT.format(arguments="4, 8 * n"))
    variant = build_variant(program, Request("k", "counted", {"n": 4096}, {}))
    assert any(r.text == "A == occupancy(4, 8 * n)" for r in variant.requires)


@pytest.mark.parametrize(("fma", "contract"), [(False, "off"), (True, "fast")])
def test_contraction_is_a_choice(fma: bool, contract: str) -> None:
    program = parse_program(TEXT.format(arguments="4, 0"))
    variant = build_variant(program, Request("k", "fused", {"n": 4096}, {}, {"FMA": fma}))
    assert variant.function.attrs["contract"] == contract
