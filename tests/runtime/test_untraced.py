"""torch.compile does not trace into the package: without torch, by what is like its tracer."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

import dsl
from dsl.runtime.untraced import REASON, is_traced, untraced

FRAMES = "torch._C._dynamo.eval_frame"
TEXT = "kernel k(y: f32[n], x: f32[n]):\n    grid 1\n    y[0 : 1] = x[0 : 1]\n"


def test_a_call_switches_the_tracer_off_and_on_again() -> None:
    """torch.compile followed a call into the emulator: 706 frames for one launch."""
    callbacks: list[Any] = ["tracer"]

    def set_eval_frame(callback: Any) -> Any:
        callbacks.append(callback)
        return callbacks[-2]

    frames = SimpleNamespace(get_eval_frame_callback=lambda: callbacks[-1], set_eval_frame=set_eval_frame)
    during = []
    with patch.dict(sys.modules, {"torch._dynamo": ModuleType("torch._dynamo"), FRAMES: frames}):  # type: ignore[dict-item]
        assert is_traced()
        untraced(lambda: during.append(is_traced()), (), {})
        with pytest.raises(dsl.TileError):
            dsl.parse(TEXT).k()
        assert is_traced() and during == [False]
    # The function, the making of k, and its call.
    assert callbacks == ["tracer", *[None, "tracer"] * 3] and not is_traced()
    assert is_traced._torchdynamo_disable_msg == REASON and "dsl.torch.op" in REASON  # type: ignore[attr-defined]
