"""Rows of mbarrier do what their meanings say: each lane has a barrier of its own, which random rows change and ask."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from template_kernel import LANES, given, kernel, slots, written

from dsl.ptx_templates import Operand, family, instruction
from dsl.runtime import Kernel

ROWS = [name for name in family("mbarrier") if "cluster" not in name]
"""Those of a block by itself: test_multicast.py has the others."""
STEPS = 60


class Barrier:
    """What the meanings call: arrivals and bytes that the phase lacks, and how many phases are over."""

    def init(self, count: int) -> None:
        self.count, self.pending, self.bytes, self.phase = count, count, 0, 0

    def expect(self, more: int) -> None:
        self.bytes += more

    def arrive(self) -> None:
        self.pending -= 1
        if not self.pending and not self.bytes:
            self.pending, self.phase = self.count, self.phase + 1

    def is_over(self, parity: int) -> bool:
        return self.phase % 2 != parity

    def inval(self) -> None:
        del self.count, self.pending


def values(operand: Operand, rng: np.random.Generator) -> np.ndarray:
    """Of all lanes. No bytes come, so a phase that expects some would never be over."""
    if operand.name in ("barrier", "address"):
        return 8 * np.arange(LANES)
    low, high = {"count": (1, 5), "bytes": (0, 1), "parity": (0, 2), "mask": (0, 2), "a": (0, 1)}[operand.name]
    return rng.integers(low, high, LANES)


@pytest.mark.parametrize("seed", [0, 1])
def test_meaning(seed: int, device: str) -> None:
    rng = np.random.default_rng(seed)
    middle = [name for name in ROWS if ".init" not in name and ".inval" not in name]
    chosen = [*middle, *rng.choice(middle, STEPS - len(middle))]
    names = ["mbarrier.init.shared.b64", *rng.permutation(chosen), "mbarrier.inval.shared.b64"]
    rows = [instruction(str(name)) for name in names]
    barriers = [defaultdict(Barrier) for _ in range(LANES)]
    inputs, expected = [], []
    for row in rows:
        of_row = {operand.name: values(operand, rng) for operand in filter(given, row.operands)}
        if "try_wait" in row.name:  # of a phase that is over: no thread is left that could end the one that is on
            of_row["parity"] = np.array([1 - each[8 * lane].phase % 2 for lane, each in enumerate(barriers)])
        inputs += of_row.values()
        answers = []
        for lane, mbarrier in enumerate(barriers):
            words = {name: int(each[lane]) for name, each in of_row.items()} | {"mbarrier": mbarrier}
            exec(row.meaning, words)
            answers.append(words.get("p"))
        if any(map(written, row.operands)):
            expected.append(answers)

    # What an object leaves behind is nothing to read: zeros take its place.
    rows.append(instruction("st.shared.b64"))
    inputs += [values(operand, rng) for operand in rows[-1].operands]
    outputs = np.zeros((slots(rows, written), LANES, 2), np.uint32)
    images = [np.zeros(8 * LANES, np.uint8), np.full(8 * LANES, 255, np.uint8)]
    arguments = [np.stack(inputs).astype(np.uint64).view(np.uint8).reshape(-1), outputs.view(np.uint8).reshape(-1)]
    assert len(inputs) == slots(rows, given)
    Kernel(kernel(rows, "sm_90", (8, 0), 8 * LANES), device=device)(*arguments, *images)
    assert outputs[..., 0].astype(bool).tolist() == expected
    assert np.unique(outputs[..., 0]).tolist() == [0, 1] and not images[1].any()
