"""Describes PTX instructions as data. Each family of instructions has a TOML file, which `reader.py` reads.

    from dsl.ptx_templates import instruction
    load = instruction("@ld.global.cg.v4.b32")
    text, constraints = load.llvm()

docs/instructions.md explains how to add an instruction.
"""

from dsl.ptx_templates.instruction import Effect, Fragment, Instruction, MatrixProduct, Operand, joined
from dsl.ptx_templates.reader import Family, UnknownInstruction, families, family, instruction

__all__ = [
    "Effect",
    "Family",
    "Fragment",
    "Instruction",
    "MatrixProduct",
    "Operand",
    "UnknownInstruction",
    "families",
    "family",
    "instruction",
    "joined",
]
