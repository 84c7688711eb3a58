"""Adds instructions to the emulator at run time. A new instruction consists of a legal form (such as `abs.s32 : =s32
s32 : sm_80 7.0`) and a function on numpy arrays.

The legal form states the types of the operands. From it, the emulator derives how to check the instruction and how to
read and write its operands. An instruction is added for the whole process. The emulator's own instructions cannot be
replaced, so PTX that uses no added instruction keeps its meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .code import DTYPES, PACKED, Code, Op, Values
from .instructions.registry import ROWS, Row, row_of_opcode
from .launch import program_of
from .legal.check import forms_of, table, usual_order
from .legal.forms import FormTable, LegalForm
from .reader import PtxInstruction

Function = Callable[..., Any]
_told: dict[str, tuple[str, LegalForm]] = {}  # by opcode: the owner, and the form


def extend(text: str, function: Function, owner: str, refuse: Callable[[str], Exception] = ValueError) -> None:
    """Adds an instruction. `text` is a legal form (`legal/forms.py`): a plain opcode, one destination, and one or more
    sources that are registers or constants. `function` takes one array for each source and returns the array of the
    destination. Each array has the type of its operand, and either one element or one for each thread. `owner` names
    the caller, who may replace instructions that he has added before. `refuse` creates the exception for a result of
    the wrong type or shape. Raises ValueError if `text` is not such a form, or if the emulator already has the
    opcode."""
    form = _form(text)
    known = _told.get(form.pattern)
    if known is not None and known[0] == owner:
        table().forms[form.root].remove(known[1])
    elif known is not None or forms_of(form.pattern) or form.pattern in ROWS:
        raise ValueError(f"'{form.pattern}' is known already" + (f", by {known[0]}" if known is not None else ""))
    _told[form.pattern] = owner, form
    table().forms.setdefault(form.root, []).append(form)
    ROWS[form.pattern] = Row(_builder(form, function, refuse))
    # A text that was read before may now have another meaning.
    for cached in (forms_of, usual_order, row_of_opcode, program_of):
        cached.cache_clear()


def _form(text: str) -> LegalForm:
    found = FormTable()
    found.add(text, {})
    forms = [form for each in found.forms.values() for form in each]
    if len(forms) != 1 or any(sign in forms[0].pattern for sign in "[]{}"):
        raise ValueError(f"{text!r} is no one opcode with its operands, as 'abs.s32 : =s32 s32 : sm_80 7.0'")
    slots = forms[0].slots
    plain = all(not (slot.mark or slot.count or slot.second or slot.optional or slot.when) for slot in slots)
    unknown = {slot.type for slot in slots} - DTYPES.keys() - PACKED.keys()
    if (
        not plain
        or unknown
        or [slot.is_target for slot in slots] != [True] + [False] * (len(slots) - 1)
        or not slots[1:]
    ):
        raise ValueError(f"{text!r} has not one destination, =TYPE, and sources of types after it")
    return forms[0]


def _builder(
    form: LegalForm, function: Function, refuse: Callable[[str], Exception]
) -> Callable[[Code, PtxInstruction], Op]:
    target, *kinds = (slot.type for slot in form.slots)
    kind = np.dtype(DTYPES[PACKED[target][0] if target in PACKED else target])

    def build(code: Code, ins: PtxInstruction) -> Op:
        sources = [code.read(operand, each) for operand, each in zip(ins.operands[1:], kinds, strict=True)]
        result = code.write(ins.operands[0], target)

        def run(v: Values, g: Any) -> None:
            made, into = np.asarray(function(*(v[entry] for entry in sources))), v[result]
            if made.dtype != kind or made.shape not in ((), into.shape, (1, *into.shape[1:])):
                raise refuse(f"gave {made.dtype}{[*made.shape]}; '{form.pattern}' is {kind}{[*into.shape]}")
            into[...] = made

        return run

    return build
