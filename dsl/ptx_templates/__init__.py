"""What a PTX instruction is: one TOML file a family, one row an instruction, and the reader.

    from dsl.ptx_templates import instruction
    load = instruction("@ld.global.cg.v4.b32")
    text, constraints = load.llvm()

See docs/instructions.md for how to add one.
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
