"""What a plug-in imports: `from dsl.plugin import option, pass_, directive, rule, instructions, semantics, Option`.

A plug-in is a Python file that adds to the compiler. `--plugin FILE.py` or `dsl.load(…, plugins=[…])` names it, and no
`.tile` file does. Each function here marks another one, which stays as it is; docs/plugins.md shows all of them.
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
    """One more option of the choices of a kind: a function of `About` that gives an `Option`, or None where it does not
    fit. It wins where it costs less than what the compiler takes; else it is there to be chosen."""
    return _marked("option", kind)


def pass_(*, after: str | None = None, before: str | None = None) -> Callable[[Function], Function]:
    """A pass behind or before another one, called as the function is: of the kernel's `Function` and the `Target`."""
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
    """A property of schedules, `NAME SUBJECT: VALUE`, and the pass that reads it: a function of the kernel's
    `Function`, the `Target`, and what is said, values by subject; without a subject the value alone. It is run where
    the schedule has such a line.

    subject: what stands before the colon, `values`, `counters`, `tensor` or another word for people; None of a property
    of the whole kernel. takes: `range(1, 9)`, a whole number of it; `("on", "off")`, one of some words; `bool`, a
    condition; None, nothing but the subject.
    """
    about = {"subject": subject, "takes": takes, "doc": doc, "example": example}
    return _marked("directive", name, after=after, before=before, **about)


def rule(
    operation: str, *, when: Callable[..., bool] | None = None, whole: bool = False
) -> Callable[[Function], Function]:
    """Another emission of a pure operation, as the choice `rule.SUBJECT`: it is taken where `when(op, target)` holds.

    The function has the writer, the operation and, for each element, the LLVM values of its operands, and gives that of
    the result. `whole`: it has the writer and the operation, and sets `w.registers[op.result]` for all of a thread's
    elements at once.
    """
    return _marked("rule", operation, when=when, whole=whole)


def semantics(form: str) -> Callable[[Function], Function]:
    """What the emulator does for an instruction that it does not know: a function of one numpy array for each source,
    of the threads that run together, which gives the destination's. form: opcode, operands and what it needs, as in
    `"add.rn.f32x2 : =b64 b64 b64 : sm_100 8.6"` (`dsl/runtime/emulator/legal/forms.py`)."""
    return _marked("semantics", form)


def instructions(file: str) -> None:
    """Rows of instructions, a file beside the plug-in's in the form of `dsl/ptx_templates/*.toml`: what `w.template`
    calls in a rule."""
    add("instructions", file, instructions, sys._getframe(1).f_lineno)


def _marked(kind: str, name: str | None, **about: Any) -> Callable[[Function], Function]:
    def mark(function: Function) -> Function:
        code: Any = getattr(function, "__code__", None)
        line = code.co_firstlineno if code is not None else sys._getframe(1).f_lineno
        add(kind, str(name or getattr(function, "__name__", "")), function, line, about)
        return function

    return mark
