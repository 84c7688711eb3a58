"""The order in which the emulator runs basic blocks."""

from __future__ import annotations


def weak_topological_order(successors: list[list[int]]) -> list[int]:
    """The blocks in an order where each loop is contiguous and its body comes before its exits (Bourdoncle 1993).

    Strongly connected components come in topological order. Each component begins with the block where it is entered.
    If it has several such blocks, it begins with the first one in the text. In a loop that the compiler has rotated,
    other blocks of the component come earlier in the text. All other blocks of the component are ordered in the same
    way, without the edges back to its first block.
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
    """The strongly connected components of a subgraph in topological order (Tarjan), without recursion."""
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
            # The jump's target is visited before the fall-through block. So in the reversed order the fall-through
            # block comes first.
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
