"""Replaces each register of 128 bits by two registers of 64 bits (PTX ISA 8.3). Loads and stores of `.b128` become
`.v2.b64`. Moves become two moves.

So the emulator runs a 16-byte load as a vector load of two 8-byte elements. Atomic operations on 128 bits are not
supported.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from ..findings import PtxError
from ..reader import Integer, Label, Operand, PtxFunction, PtxInstruction, PtxModule, Register, Vector, names_in
from .forms import number_of

WIDE = "b128"
# ptxas accepts `.b128` from sm_70 and PTX 8.3 on.
FIRST_TARGET, FIRST_VERSION = 70, (8, 3)
NEEDS = "it needs .target sm_70 or later and PTX .version 8.3 or later"
ACCESSES = {"ld", "ldu", "st"}


def split_wide(function: PtxFunction, module: PtxModule) -> None:
    """Replaces each register of 128 bits by two registers, and rewrites the instructions that use it. Raises `PtxError`
    for instructions other than ld, st and mov."""
    wide = {name for name, kind in function.registers.items() if kind == WIDE}
    variables = (*module.variables.values(), *function.params, *function.results, *function.variables.values())
    if not has_wide(module):
        for variable in variables:
            if variable.type == WIDE:
                raise PtxError(f"{variable.name} is .b128: {NEEDS}", variable.ptx_line)
        if wide:
            raise PtxError(f"{min(wide)} is .b128: {NEEDS}", function.ptx_line)
    opcodes = {item.opcode for item in function.body if isinstance(item, PtxInstruction)}
    if not wide and not any(WIDE in each for each in opcodes):
        return
    body: list[PtxInstruction | Label] = []
    for item in function.body:
        if isinstance(item, PtxInstruction) and (
            WIDE in item.opcode or any(not wide.isdisjoint(names_in(operand)) for operand in item.operands)
        ):
            body += split(item, wide, module)
        else:
            body.append(item)
    function.body[:] = body
    for name in wide:
        del function.registers[name]
        function.registers |= {half.name: "b64" for half in halves_of(name)}


def has_wide(module: PtxModule) -> bool:
    """Whether the target and the PTX version of a module have `.b128`."""
    version = tuple(map(int, module.version.split("."))) if module.version else FIRST_VERSION
    return number_of(module.target) >= FIRST_TARGET and version >= FIRST_VERSION


def split(ins: PtxInstruction, wide: set[str], module: PtxModule) -> Iterator[PtxInstruction]:
    """Yields the instructions that replace an instruction on 128 bits."""
    if WIDE not in ins.opcode or ins.opcode[0] not in ACCESSES | {"mov"} or len(ins.operands) < 2:
        message = f"registers of 128 bits go through ld, st and mov of .b128 only, not through `{ins}`"
        raise PtxError(message, ins.ptx_line)
    if not has_wide(module):
        raise PtxError(f"{NEEDS} in `{ins}`", ins.ptx_line)
    at = ins.opcode.index(WIDE)
    if ins.opcode[0] == "mov":
        opcode = (*ins.opcode[:at], "b64", *ins.opcode[at + 1 :])
        targets, sources = (parts_of(operand, wide, ins) for operand in ins.operands[:2])
        for target, source in zip(targets, sources, strict=True):
            if str(target) not in {"_", "{_, _}"}:
                yield replace(ins, opcode=opcode, operands=(target, source, *ins.operands[2:]))
        return
    place = 1 if ins.opcode[0] == "st" else 0
    operands = list(ins.operands)
    operands[place] = Vector(parts_of(operands[place], wide, ins))
    yield replace(ins, opcode=(*ins.opcode[:at], "v2", "b64", *ins.opcode[at + 1 :]), operands=tuple(operands))


def parts_of(operand: Operand, wide: set[str], ins: PtxInstruction) -> tuple[Operand, Operand]:
    """Returns the lower and the upper half of an operand, which is a register, a constant, or a vector of two or four
    items."""
    if isinstance(operand, Register) and operand.name in wide:
        return halves_of(operand.name)
    if isinstance(operand, Integer):
        # The upper half of a constant consists of copies of its sign bit.
        return operand, Integer(0 if operand.value >= 0 else -1)
    if isinstance(operand, Vector) and ins.opcode[0] == "mov" and len(operand.items) == 2:
        return operand.items[0], operand.items[1]
    if isinstance(operand, Vector) and ins.opcode[0] == "mov" and len(operand.items) == 4:
        return Vector(operand.items[:2]), Vector(operand.items[2:])
    raise PtxError(f"{operand} is no register of 128 bits in `{ins}`", ins.ptx_line)


def halves_of(name: str) -> tuple[Register, Register]:
    # Names in the PTX text have no slash.
    return Register(f"{name}/lower"), Register(f"{name}/upper")
