"""Which registers live at the starts of basic blocks."""

from __future__ import annotations

from collections import deque


def live_at_starts(exposed: list[set[str]], written: list[set[str]], targets: list[list[int]]) -> list[set[str]]:
    """For each block the registers that some way leads to a use of before they are written.

    `exposed` are those that a block uses before it writes them, `written` all that it writes, `targets` where it may go
    on. A block is looked at again only when more lives behind it.
    """
    live = [set(each) for each in exposed]
    before: list[list[int]] = [[] for _ in targets]
    for number, following in enumerate(targets):
        for target in following:
            before[target].append(number)
    waiting = deque(reversed(range(len(targets))))
    is_waiting = [True] * len(targets)
    while waiting:
        number = waiting.popleft()
        is_waiting[number] = False
        size = len(live[number])
        for target in targets[number]:
            live[number] |= live[target] - written[number]
        if len(live[number]) == size:
            continue
        for each in before[number]:
            if not is_waiting[each]:
                is_waiting[each] = True
                waiting.append(each)
    return live
