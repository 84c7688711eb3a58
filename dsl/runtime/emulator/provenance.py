"""Finds through which kernel parameters and module variables a kernel may store to global memory. It analyses only the
kernel's text.

If no store can reach an array, its reads cannot race, so they need not be recorded. For each register, the analysis
collects the parameters and variables from which any of its definitions may compute it. A 64-bit value that is loaded
from memory, or packed from parts, may point anywhere.
"""

from __future__ import annotations

from functools import lru_cache

from .reader import Label, PtxAddress, PtxFunction, PtxInstruction, TensorAddress, Vector, names_in

ANYWHERE = "anywhere"
STORES = {"st", "atom", "red", "tensormap"}
PRIVATE = {"shared", "local", "param", "const"}


def spaces_of(opcode: tuple[str, ...]) -> set[str]:
    return {word.split("::")[0] for word in opcode}


def stored_through(
    body: list[PtxInstruction | Label], function: PtxFunction, registers: dict[str, str]
) -> dict[str, list[PtxInstruction]]:
    """Returns, for each parameter or variable, the global stores whose addresses may be computed from it. Stores that
    may write to any address have the key `ANYWHERE`."""
    parameters = {variable.name for variable in function.params}
    instructions = [item for item in body if isinstance(item, PtxInstruction) and item.operands]
    opcodes = {ins.opcode for ins in instructions}
    makes_maps = any("tensormap::generic" in each and "acquire" in each for each in opcodes)
    stores = []
    for ins in instructions:
        if is_global_store(ins):
            address = next(operand for operand in ins.operands if isinstance(operand, PtxAddress | TensorAddress))
            if isinstance(address, TensorAddress):  # a tensor map in memory may contain any address
                stores.append((ins, [ANYWHERE] if makes_maps else names_in(address.map)))
            else:
                stores.append((ins, names_in(address)))
    known = origins(instructions, [name for _, names in stores for name in names], parameters, registers)
    reached: dict[str, list[PtxInstruction]] = {}
    for ins, names in stores:
        for name in names:
            for source in known[name] if name in registers else {name}:
                reached.setdefault(source, []).append(ins)
    return reached


def origins(
    instructions: list[PtxInstruction], addresses: list[str], parameters: set[str], registers: dict[str, str]
) -> dict[str, set[str]]:
    """Returns the parameters and variables from which each register is computed. The result has only the registers that
    contribute to `addresses`."""
    sources = sources_of_addresses(instructions, addresses, parameters, registers)
    known: dict[str, set[str]] = {name: set() for name in sources}
    changed = True
    # A loop may compute an address from itself. So the sets grow until none of them changes.
    while changed:
        changed = False
        for target, found in sources.items():
            size = len(known[target])
            for name in found:
                known[target] |= known[name] if name in registers else {name}
            changed |= len(known[target]) > size
    return known


def accessed_through(
    ins: PtxInstruction, body: list[PtxInstruction | Label], function: PtxFunction, registers: dict[str, str]
) -> set[str]:
    """Returns the parameters and variables from which an instruction's address is computed. Values loaded from memory
    are left out."""
    instructions = [item for item in body if isinstance(item, PtxInstruction) and item.operands]
    names = [name for operand in ins.operands if isinstance(operand, PtxAddress) for name in names_in(operand)]
    known = origins(instructions, names, {variable.name for variable in function.params}, registers)
    return set().union(*(known.get(name, {name}) for name in names)) - {ANYWHERE}


def sources_of_addresses(
    instructions: list[PtxInstruction], addresses: list[str], parameters: set[str], registers: dict[str, str]
) -> dict[str, set[str]]:
    """Returns the direct sources of each register that contributes to `addresses`. Of a kernel's thousands of
    registers, only a few do.

    The result is mostly in the order of the text, where registers computed from parameters come first. So the caller
    mostly needs one pass over it.
    """
    definitions: dict[str, list[PtxInstruction]] = {}
    for ins in instructions:
        for name in names_in(ins.operands[0]):
            definitions.setdefault(name, []).append(ins)
    found: dict[str, set[str]] = {}
    waiting = [name for name in addresses if name in registers]
    while waiting:
        target = waiting.pop()
        if target not in found:
            each = {name for ins in definitions.get(target, ()) for name in sources_of(ins, parameters, registers)}
            found[target] = each
            waiting += [name for name in each if name in registers]
    return dict(reversed(found.items()))


def is_global_store(ins: PtxInstruction) -> bool:
    found = stores_globally(ins.opcode)
    return isinstance(ins.operands[0], TensorAddress) if found is None else found


@lru_cache(maxsize=1024)
def stores_globally(opcode: tuple[str, ...]) -> bool | None:
    """Returns whether an opcode stores to global memory, or None if the operands decide."""
    words = tuple(word for word in opcode[:5] if word != "reduce")[:4]
    if words == ("cp", "async", "bulk", "tensor"):
        return None
    if words == ("cp", "async", "bulk", "global") or opcode[:2] == ("tensormap", "cp_fenceproxy"):
        return True
    return opcode[0] in STORES and not spaces_of(opcode) & PRIVATE


def sources_of(ins: PtxInstruction, parameters: set[str], registers: dict[str, str]) -> list[str]:
    """Returns the names from which an instruction computes its destinations."""
    root = ins.opcode[0]
    if root in {"ld", "ldu", "atom"}:
        names = [name for operand in ins.operands[1:] for name in names_in(operand)]
        if root != "atom" and "param" in spaces_of(ins.opcode) and any(name in parameters for name in names):
            return names
        # Only a value of 64 bits can be a global address.
        return [ANYWHERE] if ins.opcode[-1][1:] == "64" else []
    if root in STORES or root == "setp":
        return []
    found = [name for operand in ins.operands[1:] for name in names_in(operand) if registers.get(name) != "pred"]
    # Two packed halves may form any address.
    if root == "mov" and isinstance(ins.operands[1], Vector) and ins.opcode[-1] == "b64":
        found.append(ANYWHERE)
    return found
