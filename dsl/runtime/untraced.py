"""Keeps torch.compile from tracing into this package. A trace would follow a launch into the emulator or the driver,
and record what depends on one call. So a call of a kernel breaks torch's graph, and with `fullgraph=True` it is an
error that says what to do. An operator (`dsl.torch.op`) is traced as a whole."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

REASON = (
    "torch.compile does not trace the call of a kernel. Make it an operator, which is traced as a whole: "
    'dsl.torch.op(m.softmax, "mylib::softmax")'
)


def is_traced() -> bool:
    """Returns whether torch would trace the frames that are entered from here. Takes 60 ns, since each call asks. If
    torch traces this function itself, the trace stops with REASON."""
    return "torch._dynamo" in sys.modules and _frames().get_eval_frame_callback() is not None


def untraced(function: Callable[..., Any], arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Calls a function while torch traces nothing, neither the function nor what it calls."""
    before = _frames().set_eval_frame(None)
    try:
        return function(*arguments, **named)
    finally:
        _frames().set_eval_frame(before)


def _frames() -> Any:
    """Returns torch's functions that switch the tracer. The public way, torch.compiler.disable, needs torch where a
    function is defined, and importing torch takes seconds."""
    return sys.modules["torch._C._dynamo.eval_frame"]


for _each in (is_traced, untraced):
    vars(_each).update(_torchdynamo_disable=True, _torchdynamo_disable_msg=REASON)
