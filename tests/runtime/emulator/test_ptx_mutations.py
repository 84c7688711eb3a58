"""Instructions changed at random: what ptxas refuses the emulator refuses, and nothing ends in a traceback.

`PTX_MUTATIONS` sets how many files, and how many instructions with other operands; `ptx_mutations.py` and
`ptx_operands.py` do more of them by themselves, and tell what they find.
"""

from __future__ import annotations

import os
import random
from contextlib import suppress

import pytest
from ptx_mutations import WRONG, assembled, changed_lines, compare, corpus, emulated, legal_lines, mutated
from ptx_operands import accepted

from dsl.runtime.emulator import PtxError
from dsl.runtime.emulator.launch import program_of
from dsl.runtime.emulator.reader import PIECES
from dsl.runtime.errors import LaunchError
from dsl.runtime.foreign import ForeignKernel

COUNT = int(os.environ.get("PTX_MUTATIONS", "16"))


def test_the_corpus_is_legal() -> None:
    for name in ("forms sm_80 0", "forms sm_90 0", "hello"):
        text = corpus()[name]
        assert assembled(text)[0] and emulated(text).outcome == "runs", name


@pytest.mark.parametrize("number", range(COUNT))
def test_a_changed_text(number: int) -> None:
    name, text = mutated(number, 7, corpus())
    outcome, message = compare(text)
    assert outcome not in WRONG, f"{name}: {changed_lines(corpus()[name], text)}\n{message}"


SOUP = "{ } ( ) [ ] < > ; , @ ! - ~ ? : || << 0x 0f 1e999 08 % $ . ' \" \\ /* */ // \0 \ufeff \u00b2 .reg .entry .func "
SOUP += ".param .version .target .loc .file .align .v2 .ptr call bra brx.idx generic (.s64) WARP_SZ _.x %r1.b0 ld.b128 "
SOUP += "x::y 999999999999999999999999999999"


def test_any_text_is_read_or_refused() -> None:
    """Pieces of PTX and of nothing in any order: a located error, and no other."""
    rng = random.Random(6)
    pieces = [*SOUP.split(" "), "\n", *PIECES.findall(corpus()["hello"])]
    head = ".version 9.0\n.target sm_90a\n.visible .entry k(.param .u64 x) {\n.reg .b32 %r<9>; .reg .pred %p<9>;\n"
    for number in range(300):
        body = " ".join(rng.choices(pieces, k=rng.randrange(1, 30)))
        text = f"{head}{body}\nret;\n}}\n" if number % 2 else body
        with suppress(LaunchError):
            ForeignKernel(text)
        try:
            program_of(text, "k")
        except PtxError as error:
            assert error.ptx_line is not None or "no entry" in str(error), text


def test_other_operands() -> None:
    rng = random.Random(5)
    lines = legal_lines("sm_90", rng, 1)
    for line in rng.sample(lines, min(COUNT, len(lines))):
        assert not accepted("sm_90", line, rng)
