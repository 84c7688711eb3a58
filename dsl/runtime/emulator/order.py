"""Computes the order in which the emulator runs basic blocks."""

from __future__ import annotations


def weak_topological_order(successors: list[list[int]]) -> list[int]:
    """Returns the blocks in an order where each loop is contiguous and its body comes before its exits (Bourdoncle
    1993). `successors[i]` has the blocks that may run after block i.

    Strongly connected components are placed in topological order. A component starts with the first block, in the order
    of the text, that is entered from outside. This need not be the component's first block in the text, since compilers
    rotate loops. The other blocks of the component are ordered in the same way, without the edges back to its start.
    """
    order: list[int] = []
    predecessors: list[list[int]] = [[] for _ in successors]
    for node, targets in enumerate(successors):
        for target in targets:
            predecessors[target].append(node)
    work: list[tuple[list[int], bool]] = [(list(range(len(successors))), True)]
    while work:
        nodes, is_open = work.pop()
        if not is_open:
            order += nodes
            continue
        todo: list[tuple[list[int], bool]] = []
        for component in components(nodes, successors):
            if len(component) == 1:
                todo.append((component, False))
                continue
            inside = set(component)
            entered = [node for node in component if any(p not in inside for p in predecessors[node])]
            head = min(entered or component)
            todo.append(([head], False))
            todo.append(([node for node in component if node != head], True))
        work += reversed(todo)
    return order


def components(nodes: list[int], successors: list[list[int]]) -> list[list[int]]:
    """Returns the strongly connected components of a subgraph in topological order. Uses Tarjan's algorithm without
    recursion."""
    inside = set(nodes)
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[list[int]] = []
    for root in nodes:
        if root in index:
            continue
        work = [(root, 0)]
        while work:
            node, position = work.pop()
            if position == 0:
                index[node] = low[node] = len(index)
                stack.append(node)
                on_stack.add(node)
            edges = [target for target in successors[node] if target in inside]
            # The target of a jump is visited before the fall-through block, so the reversed result has the fall-through
            # block first.
            for at in range(position, len(edges)):
                target = edges[at]
                if target not in index:
                    work += [(node, at + 1), (target, 0)]
                    break
                if target in on_stack:
                    low[node] = min(low[node], index[target])
            else:
                if low[node] == index[node]:
                    component = []
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        component.append(member)
                        if member == node:
                            break
                    found.append(sorted(component))
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[node])
    return found[::-1]
