"""Calls of functions with a body: the body takes the place of the call (PTX ISA 7.1)."""

from __future__ import annotations

from dataclasses import replace

from .findings import PtxError
from .reader import (
    Address,
    Arguments,
    Function,
    Instruction,
    Label,
    Module,
    Not,
    Operand,
    Pair,
    Register,
    Symbol,
    Variable,
    Vector,
)

INLINE_DEPTH = 64


def renamed(operand: Operand, names: dict[str, str], suffix: str) -> Operand:
    """An operand of an inlined function: parameters become the caller's variables, the rest gets a suffix."""
    if isinstance(operand, Register):
        return Register(names.get(operand.name, operand.name))
    if isinstance(operand, Symbol):
        return Symbol(names.get(operand.name, operand.name), operand.offset)
    if isinstance(operand, Address):
        base = renamed(operand.base, names, suffix) if operand.base is not None else None
        return Address(base, operand.offset)  # type: ignore[arg-type]
    if isinstance(operand, Vector | Arguments):
        return type(operand)(tuple(renamed(item, names, suffix) for item in operand.items))
    if isinstance(operand, Pair):
        return Pair(renamed(operand.first, names, suffix), renamed(operand.second, names, suffix))
    if isinstance(operand, Not):
        return Not(renamed(operand.operand, names, suffix))
    return operand


def bare_names(operand: Operand) -> list[str]:
    return [item.name for item in operand.items if isinstance(item, Register)] if isinstance(operand, Arguments) else []


class Inliner:
    """Puts the bodies of called functions in place of their calls; recursion is refused."""

    def __init__(self, module: Module):
        self.module = module
        self.count = 0
        self.registers: dict[str, str] = {}
        self.variables: dict[str, Variable] = {}
        self.targets: dict[str, tuple[str, ...]] = {}

    def expand(self, function: Function, names: dict[str, str], suffix: str, depth: int) -> list[Instruction | Label]:
        if depth > INLINE_DEPTH:
            raise PtxError(f"recursive calls of {function.name} are not supported", function.ptx_line)
        for name, kind in function.registers.items():
            names[name] = name + suffix
            self.registers[name + suffix] = kind
        for name, variable in function.variables.items():
            names[name] = name + suffix
            self.variables[name + suffix] = replace(variable, name=name + suffix)
        labels = {item.name for item in function.body if isinstance(item, Label)} | set(function.targets)
        names.update({label: label + suffix for label in labels})
        for label, targets in function.targets.items():
            self.targets[names[label]] = tuple(names.get(target, target) for target in targets)
        body: list[Instruction | Label] = []
        for item in function.body:
            if isinstance(item, Label):
                body.append(Label(names[item.name]))
                continue
            guard = Register(names.get(item.guard.name, item.guard.name)) if item.guard else None
            operands = tuple(renamed(operand, names, suffix) for operand in item.operands)
            ins = replace(item, operands=operands, guard=guard)
            body += self.call(ins, depth) if ins.opcode[0] == "call" else [ins]
        return body

    def call(self, ins: Instruction, depth: int) -> list[Instruction | Label]:
        callee = next(
            (self.module.functions.get(item.name) for item in ins.operands if isinstance(item, Register)), None
        )
        if callee is None or not callee.has_body:
            return [ins]
        lists = [bare_names(operand) for operand in ins.operands]
        results = lists[0] if callee.results else []
        arguments = lists[-1] if callee.params else []
        self.count += 1
        suffix = f"/{self.count}"
        names = dict(zip([one.name for one in callee.results], results, strict=True))
        names.update(zip([one.name for one in callee.params], arguments, strict=True))
        after = Label(f"return{suffix}")
        body = self.expand(callee, names, suffix, depth + 1)
        jump = Instruction(("bra",), (Register(after.name),), None, False, ins.ptx_line, ins.location)
        inlined: list[Instruction | Label] = [
            replace(item, opcode=("bra",), operands=jump.operands)
            if isinstance(item, Instruction) and item.opcode[0] == "ret"
            else item
            for item in body
        ]
        if ins.guard is not None:
            skip = replace(jump, guard=ins.guard, guard_negated=not ins.guard_negated)
            inlined.insert(0, skip)
        return [*inlined, after]
