"""Emits the use of mbarriers: objects of 8 bytes in shared memory whose phases complete when the expected arrivals and
bytes have come."""

from __future__ import annotations

from collections.abc import Iterable

from dsl.lowering.emit.writer import Writer
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.targets import WARP

BARRIER = 8
"""The number of bytes of an mbarrier."""


def narrow(w: Writer, number: Value) -> str:
    """Returns the lower 32 bits of an index, as i32."""
    register = w.registers[number][0]
    return register if w.index == "i32" else w.let(f"trunc i64 {register} to i32")


def begin_mbarriers(w: Writer, op: Op, base: str, counts: Iterable[tuple[int, int]]) -> None:
    """Initialises mbarriers from address `base` on, given their numbers and the arrivals that each one expects. Other
    threads and blocks may use them after a barrier."""
    with w.text.only_if(w.let(f"icmp eq i32 {w.head.thread()}, 0"), "first", "begun"):
        for place, count in counts:
            w.template("mbarrier.init.shared.b64", [w.let(f"add i32 {base}, {BARRIER * place}"), str(count)], op)
        # makes the mbarriers visible to copies and to other blocks
        w.template("fence.mbarrier_init.release.cluster", [], op)


def await_phase(w: Writer, op: Op, barrier: str, phase: str, order: str = "") -> None:
    """Emits a wait until phase number `phase` of an mbarrier has completed. The phase before the first phase counts as
    completed (PTX ISA, mbarrier.try_wait.parity). `order` is empty for the block's scope, or `.acquire.cluster`."""
    parity = w.let(f"and i32 {phase}, 1")
    again, over = w.fresh_label("wait"), w.fresh_label("there")
    w.do(f"br label %{again}")
    w.start(again)
    (flag,) = w.template(f"mbarrier.try_wait.parity{order}.shared.b64", [barrier, parity], op)
    w.do(f"br i1 {flag}, label %{over}, label %{again}")
    w.start(over)


def arrive_in_blocks(w: Writer, op: Op, barrier: str, blocks: int, order: str = "", when: str | None = None) -> None:
    """Emits an arrival of each warp at an mbarrier of each of the cluster's first `blocks` blocks. Lane i arrives in
    block i. `order` is empty for the block's scope, or `.release.cluster`. If `when` is given, only warps for which it
    is true (i1) arrive."""
    lane = w.head.once(f"and i32 {w.head.thread()}, {WARP - 1}")
    (there,) = w.template("mapa.shared::cluster.u32", [barrier, w.head.once(f"urem i32 {lane}, {blocks}")], op)
    arrives = only_when(w, w.head.once(f"icmp ult i32 {lane}, {blocks}"), when)
    w.template(f"@mbarrier.arrive{order}.shared::cluster.b64", [there, arrives], op)


def only_when(w: Writer, flag: str, when: str | None) -> str:
    """Returns a flag (i1), or its conjunction with another one."""
    return flag if when is None else w.let(f"and i1 {flag}, {when}")
