"""Which kernel parameters and module variables global stores may go through, from the text alone.

Memory that no store can reach needs no record of who read it: nothing in the launch can race with those reads.  A
register's provenance is the names that it may be computed from, over all its definitions; a 64-bit value loaded from
memory, or packed from parts, may point anywhere.
"""

from __future__ import annotations

from .reader import (
    Label,
    Operand,
    Pair,
    Part,
    PtxAddress,
    PtxFunction,
    PtxInstruction,
    Register,
    Symbol,
    TensorAddress,
    Vector,
)

ANYWHERE = "anywhere"
STORES = {"st", "atom", "red"}
PRIVATE = {"shared", "local", "param", "const"}


def names_in(operand: Operand | None) -> list[str]:
    """Registers and symbols of an operand."""
    if isinstance(operand, Register | Symbol):
        return [operand.name]
    if isinstance(operand, PtxAddress):
        return names_in(operand.base)
    if isinstance(operand, TensorAddress):
        return names_in(operand.map)
    if isinstance(operand, Part):
        return [operand.register.name]
    if isinstance(operand, Vector):
        return [name for item in operand.items for name in names_in(item)]
    if isinstance(operand, Pair):
        return names_in(operand.first) + names_in(operand.second)
    return []


def spaces_of(ins: PtxInstruction) -> set[str]:
    return {word.split("::")[0] for word in ins.opcode}


def stored_through(
    body: list[PtxInstruction | Label], function: PtxFunction, registers: dict[str, str]
) -> dict[str, list[PtxInstruction]]:
    """Parameters and variables (or `ANYWHERE`) that the addresses of global stores may come from, and these stores."""
    parameters = {variable.name for variable in function.params}
    instructions = [item for item in body if isinstance(item, PtxInstruction) and item.operands]
    flows = [(names_in(ins.operands[0]), sources_of(ins, parameters, registers)) for ins in instructions]
    known: dict[str, set[str]] = {}
    changed = True
    while changed:
        changed = False
        for targets, sources in flows:
            found: set[str] = set()
            for source in sources:
                found |= known.get(source, set()) if source in registers else {source}
            for target in targets:
                if target in registers and not found <= known.setdefault(target, set()):
                    known[target] |= found
                    changed = True
    reached: dict[str, list[PtxInstruction]] = {}
    for ins in instructions:
        if is_global_store(ins):
            address = next(operand for operand in ins.operands if isinstance(operand, PtxAddress | TensorAddress))
            for name in names_in(address):
                for source in known.get(name, set()) if name in registers else {name}:
                    reached.setdefault(source, []).append(ins)
    return reached


def is_global_store(ins: PtxInstruction) -> bool:
    if ins.opcode[:4] == ("cp", "async", "bulk", "tensor"):
        return isinstance(ins.operands[0], TensorAddress)
    if ins.opcode[:4] == ("cp", "async", "bulk", "global"):
        return True
    return ins.opcode[0] in STORES and not spaces_of(ins) & PRIVATE


def sources_of(ins: PtxInstruction, parameters: set[str], registers: dict[str, str]) -> list[str]:
    """What an instruction's destinations are computed from."""
    root = ins.opcode[0]
    if root in {"ld", "ldu", "atom"}:
        names = [name for operand in ins.operands[1:] for name in names_in(operand)]
        if root != "atom" and "param" in spaces_of(ins) and any(name in parameters for name in names):
            return names
        return [ANYWHERE] if ins.opcode[-1][1:] == "64" else []
    if root in STORES or root == "setp":
        return []
    found = [name for operand in ins.operands[1:] for name in names_in(operand) if registers.get(name) != "pred"]
    if root == "mov" and isinstance(ins.operands[1], Vector) and ins.opcode[-1] == "b64":
        found.append(ANYWHERE)
    return found
