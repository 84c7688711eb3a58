"""Computes which registers are live at the start of each basic block."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator


class Living:
    """For each basic block, the registers that are live at its start. A register is live if some path from there reads
    it before writing it.

    For each block, `exposed` contains the registers that it reads before it writes them, `written` all registers that
    it writes, and `targets` the numbers of its successors. Sets of registers are stored as integers with one bit for
    each register, since there are hundreds of registers in hundreds of blocks. With integers, building 14 kernels of
    attention and matmul takes 1.35 s instead of 1.75 s.
    """

    def __init__(self, exposed: list[set[str]], written: list[set[str]], targets: list[list[int]]):
        # If no block reads a register before writing it, the register is live at no block's start.
        some = set().union(*exposed)  # only these can be live at the start of a block
        self.names = sorted(some)
        bits = {name: 1 << at for at, name in enumerate(self.names)}
        asked = [sum(map(bits.__getitem__, each)) for each in exposed]
        kept = [~sum(map(bits.__getitem__, some & each)) for each in written]
        self.at_starts = live_at_starts(asked, kept, targets)

    def names_in(self, found: int) -> Iterator[str]:
        """Yields the names of the registers in the set `found`."""
        while found:
            lowest = found & -found
            yield self.names[lowest.bit_length() - 1]
            found ^= lowest


def exposed_and_written(
    blocks: Iterable[Iterable[tuple[Iterable[str], Iterable[str]]]],
) -> tuple[list[set[str]], list[set[str]]]:
    """Returns two lists with one set for each block: the registers that the block reads before it writes them, and all
    registers that it writes. Each instruction in `blocks` is a pair (registers that it reads, registers that it
    writes)."""
    exposed: list[set[str]] = []
    written: list[set[str]] = []
    for block in blocks:
        asked: set[str] = set()
        known: set[str] = set()
        for reads, writes in block:
            asked.update(name for name in reads if name not in known)
            known.update(writes)
        exposed.append(asked)
        written.append(known)
    return exposed, written


def live_at_starts(exposed: list[int], kept: list[int], targets: list[list[int]]) -> list[int]:
    """Returns the set of live registers at the start of each block. `kept` contains the registers that each block does
    not write. A block is visited again only if more registers have become live at the start of a successor."""
    live = list(exposed)
    before: list[list[int]] = [[] for _ in targets]
    for number, following in enumerate(targets):
        for target in following:
            before[target].append(number)
    # Blocks are visited from the last one on, since liveness propagates backwards.
    waiting = deque(reversed(range(len(targets))))
    is_waiting = [True] * len(targets)
    while waiting:
        number = waiting.popleft()
        is_waiting[number] = False
        found = live[number]
        for target in targets[number]:
            found |= live[target] & kept[number]
        if found == live[number]:
            continue
        live[number] = found
        for each in before[number]:
            if not is_waiting[each]:
                is_waiting[each] = True
                waiting.append(each)
    return live
