"""The names that a plug-in imports: `from dsl.plugin import option, pass_, directive, rule, instructions, semantics,
Option`.

A plug-in is a Python file that extends the compiler. It is loaded by `--plugin FILE.py` or `dsl.load(…, plugins=[…])`.
A `.tile` file cannot load a plug-in. Each decorator in this module registers a function of the plug-in and returns it
unchanged. docs/plugins.md has examples of all decorators.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

from dsl.lowering.ir.plugins import About, add
from dsl.lowering.ir.plugins import ChoiceOption as Option

__all__ = ["About", "Option", "directive", "instructions", "option", "pass_", "rule", "semantics"]

Function = TypeVar("Function", bound=Callable[..., Any])


def option(kind: str) -> Callable[[Function], Function]:
    """Adds an option to all compiler choices of one kind. The decorated function gets an `About` and returns an
    `Option`, or None where the option does not fit. The compiler uses the new option where it costs less than its own
    option. Elsewhere, a user can still choose it."""
    return _marked("option", kind)


def pass_(*, after: str | None = None, before: str | None = None) -> Callable[[Function], Function]:
    """Adds a pass after or before another pass. The decorated function is called with the kernel's `Function` and the
    `Target`."""
    return _marked("pass", None, after=after, before=before)


def directive(
    name: str,
    *,
    subject: str | None,
    takes: Any,
    doc: str,
    example: str,
    after: str | None = None,
    before: str | None = None,
) -> Callable[[Function], Function]:
    """Adds a property of schedules, `NAME SUBJECT: VALUE`, and the pass that reads its value. The decorated function is
    called with the kernel's `Function`, the `Target`, and the values by subject. Without a subject, the third argument
    is the value alone. The pass runs if the schedule has a line with this property.

    `subject` tells users what to write before the colon: `values`, `counters`, `tensor` or another word. If `subject`
    is None, the property applies to the whole kernel. `takes` describes the value. `range(1, 9)` allows the whole
    numbers from 1 to 8. `("on", "off")` allows one of these words. `bool` allows a condition. None allows no value.
    """
    about = {"subject": subject, "takes": takes, "doc": doc, "example": example}
    return _marked("directive", name, after=after, before=before, **about)


def rule(
    operation: str, *, when: Callable[..., bool] | None = None, whole: bool = False
) -> Callable[[Function], Function]:
    """Adds another way to emit a pure operation, as an option of the compiler's choice `rule.SUBJECT` (`dsl why`). The
    option is used where `when(op, target)` is true.

    The decorated function is called once for each element, with the writer of LLVM IR, the operation and the LLVM
    values of the operands. It returns the LLVM value of the result. With `whole`, it is called once with the writer and
    the operation, and sets `w.registers[op.result]` for all elements of a thread.
    """
    return _marked("rule", operation, when=when, whole=whole)


def semantics(form: str) -> Callable[[Function], Function]:
    """Adds the semantics of an instruction that the emulator does not know. The decorated function gets one numpy array
    for each source operand, with one value for each of the threads that run together. It returns the array for the
    destination. `form` gives the opcode, the operands and the requirements, as in `"add.rn.f32x2 : =b64 b64 b64 :
    sm_100 8.6"` (`dsl/runtime/emulator/legal/forms.py`)."""
    return _marked("semantics", form)


def instructions(file: str) -> None:
    """Adds PTX instructions, which rules emit with `w.template`. `file` is in the folder of the plug-in, in the same
    format as `dsl/ptx_templates/*.toml`."""
    add("instructions", file, instructions, sys._getframe(1).f_lineno)


def _marked(kind: str, name: str | None, **about: Any) -> Callable[[Function], Function]:
    def mark(function: Function) -> Function:
        code: Any = getattr(function, "__code__", None)
        line = code.co_firstlineno if code is not None else sys._getframe(1).f_lineno
        add(kind, str(name or getattr(function, "__name__", "")), function, line, about)
        return function

    return mark
