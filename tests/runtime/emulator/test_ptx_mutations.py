"""Instructions changed at random: what ptxas refuses the emulator refuses, and nothing ends in a traceback.

`PTX_MUTATIONS` sets how many files, and how many instructions with other operands; `ptx_mutations.py` and
`ptx_operands.py` do more of them by themselves, and tell what they find.
"""

from __future__ import annotations

import os
import random

import pytest
from ptx_mutations import WRONG, assembled, changed_lines, compare, corpus, emulated, legal_lines, mutated
from ptx_operands import accepted

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


def test_other_operands() -> None:
    rng = random.Random(5)
    lines = legal_lines("sm_90", rng, 1)
    for line in rng.sample(lines, min(COUNT, len(lines))):
        assert not accepted("sm_90", line, rng)
