"""The IR of a product and of a convolution, to be read: as built, and after all passes.

Small tiles, so that each is short. Places and quoted sources are left out: an edit of a sample that moves lines is no
change here. `pytest tests/lowering/test_golden_ir.py --update-golden` writes the files of `golden/` anew.
"""

from __future__ import annotations

import re
from difflib import unified_diff
from pathlib import Path

import pytest
from msgspec.structs import replace
from sample_variants import ABSENT, images, program, square

from dsl.kernels.compile import Lowered
from dsl.kernels.variant import Request, build_variant
from dsl.lowering.passes import run_passes
from dsl.lowering.text.printer import printed
from dsl.text.program import dim_names

GOLDEN = Path(__file__).with_name("golden")
MOST_LINES = 300
"""Of one file: what is longer is not read."""

SIZES = images(64, 28, 64, 2) | {"p": 29, "q": 29}  # two taps, and one pixel around the image
TILES = {"TM": 32, "SIZE": 32, "PM": 1, "PN": 1, "warps": 2, "BYTES": 64, "SLOTS": 2, "PARTS": 1}
CASES = {
    "product_f16": (
        "matmul.tile",
        Request(
            "product",
            "mma_sync",
            square(4096),
            {"T": "f16", "O": "f16"},
            {"TM": 32, "TN": 32, "TK": 32, "warps": 2},
            strides={"a": (16, 1), "b": (1, 16)},
            choices={"unroll": "1", "persistent": "0"},
            absent=frozenset(ABSENT["product"]),
        ),
    ),
    "convolution_s8": (
        "int8_conv.tile",
        Request(
            "conv",
            "blocks",
            SIZES,
            {"T": "s8"},
            TILES,
            SIZES,
            choices={"prefetch_fragments": "whole", "precompute": "computed"},
            absent=frozenset({"z"}),
        ),
    ),
}


def readable(text: str) -> str:
    """Layouts, memory and the body: without the head, which the schedule says, and without places and sources."""
    lines = [line for line in text.splitlines() if not line.startswith(("|", "source "))]
    first = next(i for i, line in enumerate(lines) if line.startswith(("tensor ", "layout ")))
    return "\n".join(re.sub(r" @\d+:\d+\+\d+[\d:+<]*", "", line) for line in lines[first:]) + "\n"


@pytest.mark.parametrize("name", CASES)
def test_the_ir_is_what_it_was(name: str, update_golden: bool) -> None:
    file, request = CASES[name]
    known = set(dim_names(program(file).kernels[request.kernel]))
    request = replace(request, dims={dim: n for dim, n in request.dims.items() if dim in known})
    variant = build_variant(program(file), request)
    lowered = Lowered(variant, {})
    texts = {"built": readable(printed(lowered.level(program(file))))}
    lowered.passes += run_passes(variant.function, variant.target)
    texts["lowered"] = readable(printed(lowered.level(program(file))))
    for stage, text in texts.items():
        path = GOLDEN / f"{name}.{stage}.ir"
        if update_golden:
            path.write_text(text, encoding="utf-8")
        wanted = path.read_text(encoding="utf-8")
        changes = unified_diff(wanted.splitlines(), text.splitlines(), path.name, "now", lineterm="", n=1)
        assert text == wanted, "\n".join([*changes, "", f"as meant? pytest {__file__} --update-golden, and read it"])
        assert text.count("\n") <= MOST_LINES
