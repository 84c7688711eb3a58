"""What an operation does to memory is what the rows of the instructions say that it becomes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from msgspec.structs import replace
from sample_variants import Case, cases

from dsl.lowering.emit import emit, rules
from dsl.lowering.emit.calls import Calls
from dsl.lowering.emit.writer import Writer
from dsl.lowering.ir.function import Op
from dsl.lowering.ops import OPS
from dsl.lowering.ops.matrix import views_of
from dsl.lowering.passes import run_passes
from dsl.ptx_templates import Instruction, instruction
from tests.compile_and_run import compile_kernel

ACCESSES = ("reads", "writes", "updates")


@contextmanager
def emitted() -> Iterator[list[tuple[Op, list[Instruction]]]]:
    """Each operation that is emitted meanwhile, with the rows emitted for it, and not for those in its regions."""
    found: list[tuple[Op, list[Instruction]]] = []
    doing: list[list[Instruction]] = []
    asm, table = Calls.asm, dict(rules.RULES)

    def noted(w: Calls, row: Instruction, inputs: list[str]) -> list[str]:
        doing[-1].append(row)
        return asm(w, row, inputs)

    def noting(rule: rules.Rule) -> rules.Rule:
        def emit_op(w: Writer, op: Op) -> None:
            doing.append([])
            rule(w, op)
            found.append((op, doing.pop()))

        return emit_op

    try:
        Calls.asm = noted  # type: ignore[method-assign]
        rules.RULES.update({name: noting(rule) for name, rule in table.items()})
        yield found
    finally:
        Calls.asm = asm  # type: ignore[method-assign]
        rules.RULES.update(table)


CHANNELS = {
    "warp_specialize": {"writes", "orders", "synchronizes"},
    "producer_acquire": {"waits", "arrives"},
    "producer_tail": {"waits"},
    "consumer_wait": {"waits"},
    "pingpong_begin": {"waits"},
    "pingpong_end": {"arrives"},
    "consumer_release": {"synchronizes", "arrives"},
    "tma_fence": {"orders"},
    "cluster_arrive": {"orders"},
    "cluster_wait": {"synchronizes"},
    "cluster_gather": {"orders", "reads", "synchronizes", "writes"},
    "cluster_scatter": {"arrives", "reads", "waits", "writes"},
    "cluster_leave": {"orders"},
}
"""Operations on the barriers of pipelines and clusters, and the fence of stores by boxes: what their rows do."""
SOMETIMES = {
    "consumer_release": {"orders"}, "cluster_arrive": {"writes"}, "cluster_gather": {"orders", "arrives", "waits"}
}  # fmt: skip
"""What some of them do: a fence where threads read what the pipeline brings, the start of an exchange's mbarriers. A
gather for rows in turn meets at mbarriers in place of a barrier of the cluster."""


WAITS = ("wgmma_wait", "wgmma_wait_group")


def check(op: Op, rows: list[Instruction]) -> None:
    """The row says what all these instructions do together, but for the bytes of one."""
    if op.name in WAITS or op.spec.wgmma:
        check_warpgroups(op, rows)
        return
    if op.name in CHANNELS:
        done, sometimes = {e.action for row in rows for e in row.effects}, SOMETIMES.get(op.name, set())
        assert not op.spec.access.touches and done - sometimes == CHANNELS[op.name] - sometimes, op.name
        return
    said = {replace(e.by, bytes=None) for e in op.spec.access.effects(op) if e.space != "param"}
    done = {replace(e, bytes=None) for row in rows for e in row.effects if e.action in ACCESSES}
    assert said == done, (op.name, rows)
    others = {e.action for row in rows for e in row.effects if e.action not in ACCESSES}
    of_memory = [row for row in rows if any(e.action in ACCESSES for e in row.effects)]
    assert (op.spec.orders is not None) == bool(others), (op.name, others)
    stores_for_all = op.name == "tma_store"  # one lane, what all of its warp or block have made
    assert op.spec.joint == (stores_for_all or any(row.convergent for row in of_memory)), op.name
    assert op.spec.in_flight == any(e.completion == "commit group" for e in done), op.name
    if op.spec.joins_lanes:
        assert rows and any(row.convergent for row in rows), op.name


def check_warpgroups(op: Op, rows: list[Instruction]) -> None:
    """A product reads its views, which read nothing themselves, and `place_waits` gives it its wait."""
    done = {(e.action, e.space, e.completion) for row in rows for e in row.effects if e.action in ACCESSES}
    others = [(e.action, e.completion) for row in rows for e in row.effects if e.action in ("commits", "waits")]
    if op.name in WAITS:
        assert not done and others == [("waits", "wgmma group")]
        return
    views = views_of(op)
    assert len(views) >= 1 and all(view.spec.pure for view in views)
    said = {(e.by.action, e.space) for e in op.spec.access.effects(op)}
    assert done == {(*each, "wgmma group") for each in said} and others == [("commits", "wgmma group")]


@pytest.mark.parametrize("case", cases()[::7], ids=str)
def test_operations_do_what_their_instructions_do(case: Case) -> None:
    variant = case.build()
    run_passes(variant.function, variant.target)
    with emitted() as found:
        emit(variant.function, variant.target)
    for op, rows in found:
        check(op, rows)


TEXT = """
kernel k(y: f32[n], x: f32[n], flag: u32[3], delta: table s32[4]):
    grid 1
    i = arange(128)
    shared s: f32[2, 128]
    copy(s[0], x[0 : 128], mask=i < n)
    commit()
    wait(0)
    before = atomic_add(flag[0], 1, order=acq_rel)
    last = atomic_max(flag[1], before, order=release, scope=block)
    atomic_or(flag[2], last, order=acquire, scope=system)
    v = load(y[0 : 128], cache=volatile) + delta[1].to(f32)
    store(y[0 : 128], shfl.up(s[0], 1) + v, cache=volatile)
    if vote.any(v > 0.0):
        s[1] = v
    store(y[0 : 128], s[1])
"""


def test_orders_bind_other_blocks_where_their_scope_has_some() -> None:
    with emitted() as found:
        compile_kernel(TEXT, dims={"n": 128})
    atomics = {}
    for op, rows in found:
        check(op, rows)
        if op.spec.access.kind == "update":
            atomics[op.attrs["action"]] = [e.kind for e in op.spec.access.effects(op)]
    assert atomics == {
        "add": ["read", "write", "acquire", "release"], "max": ["read", "write"], "or": ["read", "write", "acquire"]
    }  # fmt: skip
    names = {op.name for op, _ in found}
    assert {"load", "store", "copy", "commit", "wait", "barrier", "shuffle", "vote"} <= names


def test_a_copy_is_in_flight_until_a_wait_and_everything_else_is_not() -> None:
    assert [name for name, spec in OPS.items() if spec.in_flight] == ["copy"]
    assert [name for name, spec in OPS.items() if spec.leaves] == ["tma_store"]
    assert {name: spec.orders for name, spec in OPS.items() if spec.orders} == {
        "commit": "group", "wait": "end", "barrier": "threads", "tma_commit": "stores", "tma_wait": "their end"
    }  # fmt: skip
    copy = instruction(str(OPS["copy"].becomes))
    assert [e.proxy for e in copy.effects] == ["generic"] * 2  # what is no bulk copy (PTX ISA 8, "Async proxy")
