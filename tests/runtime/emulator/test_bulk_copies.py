"""cp.async.bulk of plain ranges: what it copies, and the operands that it does not take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from handwritten import kernel, run, words
from tensor_copy_kernel import wait_for

from dsl.runtime import assemble
from dsl.runtime.emulator import Kind

LOAD = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"
STORE = "cp.async.bulk.global.shared::cta.bulk_group"
OPTIONS: Any = {"module": ".shared .align 16 .b64 bar[2];"}


def copied(parts: dict[str, str]) -> str:
    """Bytes of x from 16 on to y from 32 on, by shared memory from 48 on."""
    given = {
        "size": "160",
        "from": "[%rd0+16]",
        "there": "[%r2+48]",
        "to": "[%rd1+32]",
        "load": LOAD,
        "rest": "",
    } | parts
    return f"""
    setp.eq.u32 %p3, %r0, 0;
    mov.u32 %r10, bar;
    mov.u32 %r11, {given["size"]};
    @%p3 mbarrier.init.shared::cta.b64 [%r10], 1;
    @%p3 fence.mbarrier_init.release.cluster;
    bar.sync 0;
    @%p3 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], %r11;
    @%p3 {given["load"]} {given["there"]}, {given["from"]}, %r11, [%r10]{given["rest"]};
    {wait_for("WAIT", "%r10", "0")}
    @%p3 {STORE} {given["to"]}, {given["there"]}, %r11;
    @%p3 cp.async.bulk.commit_group;
    @%p3 cp.async.bulk.wait_group 0;
    """


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("parts", "count"), [
    ({}, 160),
    ({"size": "0"}, 0),
    ({"size": "16"}, 16),
    ({"size": "2048"}, 2048),
    ({"load": f"{LOAD}.L2::cache_hint", "rest": ", %rd0"}, 160),
    ({"load": LOAD.replace("::cta", "::cluster", 1)}, 160),
])  # fmt: skip
def test_a_range_goes_there_and_back(parts: dict[str, str], count: int, seed: int) -> None:
    _, y = run(copied(parts), seed=seed, **OPTIONS)
    wanted = np.zeros(1024, np.uint32)
    wanted[8 : 8 + count // 4] = words()[4 : 4 + count // 4]
    np.testing.assert_array_equal(y, wanted)


def test_it_is_ptx() -> None:
    assemble(kernel(copied({"load": f"{LOAD}.L2::cache_hint", "rest": ", %rd0"}), OPTIONS["module"]), "sm_90")


@pytest.mark.parametrize(("parts", "kind", "message"), [
    ({"size": "24"}, Kind.MISALIGNED, "no multiple of 16"),
    ({"from": "[%rd0+8]"}, Kind.MISALIGNED, "no multiple of 16"),
    ({"there": "[%r2+4]"}, Kind.MISALIGNED, "no multiple of 16"),
    ({"to": "[%rd1+4]"}, Kind.MISALIGNED, "no multiple of 16"),
    ({"from": "[%rd0+4000]"}, Kind.OUT_OF_BOUNDS, "reads at global address"),
    ({"to": "[%rd1+4000]"}, Kind.OUT_OF_BOUNDS, "writes at global address"),
    ({"there": "[%r2+4000]"}, Kind.OUT_OF_BOUNDS, "shared"),
    ({"there": "[%r10]", "size": "16"}, Kind.BARRIER_MISUSE, "holds an mbarrier"),
])  # fmt: skip
def test_what_it_does_not_take(parts: dict[str, str], kind: Kind, message: str) -> None:
    found = run(copied(parts), on_finding="collect", **OPTIONS)[0].findings
    assert any(each.kind == kind and message in each.message for each in found), found
