"""Writes calls of PTX instructions and of LLVM intrinsics, and collects the declarations of the intrinsics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from dsl.lowering.emit.text import Text
from dsl.lowering.ir.function import Op
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.targets import Target
from dsl.ptx_templates import Instruction, UnknownInstruction, instruction


class Calls:
    """Writes calls of instructions and intrinsics. `ptx` is the PTX version that the instructions written so far
    require. `added` maps names to the instructions that plug-ins define."""

    def __init__(self, text: Text, target: Target, added: Mapping[str, Instruction]):
        self.text, self.target, self.added = text, target, added
        self.ptx = target.ptx
        self.declarations: dict[str, str] = {}

    def declare(self, name: str, result: str, types: str = "", attributes: str = "") -> None:
        self.declarations[name] = f"declare {result} @{name}({types}){attributes}"

    def intrinsic(self, name: str, result: str, arguments: Iterable[tuple[str, str]], attributes: str = "") -> str:
        """Writes a call of an LLVM intrinsic. Each argument is a pair (type, value)."""
        arguments = list(arguments)
        self.declare(name, result, ", ".join(t for t, _ in arguments), attributes)
        return self.text.let(f"call {result} @{name}({', '.join(f'{t} {v}' for t, v in arguments)})")

    def template(self, name: str, inputs: list[str], op: Op | None = None) -> list[str]:
        """Writes a call of the PTX instruction `name`, and returns the names of its results. Raises TileError
        `instruction` for an unknown name, and TileError `target` if the architecture lacks the instruction."""
        try:
            row = self.added.get(name) or instruction(name)
        except UnknownInstruction as error:
            raise TileError("instruction", op.loc if op else None, f"there is no instruction '{name}'") from error
        if not row.available(self.target.arch):
            message = f"{self.target.arch} has no '{name}': it needs {row.target}"
            raise TileError("target", op.loc if op else None, message)
        return self.asm(row, inputs)

    def asm(self, row: Instruction, inputs: list[str]) -> list[str]:
        self.ptx = max(self.ptx, row.ptx)
        call, result, outputs = _asm_call(row)
        if not outputs:
            self.text.do(call % tuple(inputs))
            return []
        let = self.text.let
        value = let(call % tuple(inputs))
        if outputs == 1:
            return [value]
        return [let(f"extractvalue {result} {value}, {i}") for i in range(outputs)]


@cache
def _asm_call(row: Instruction) -> tuple[str, str, int]:
    """Returns the text of an instruction's call with `%s` for each argument, the type of its result, and the number of
    its outputs. The cache helps because an unrolled kernel calls the same few instructions thousands of times."""
    text, constraints = row.llvm()
    arguments = ", ".join(f"{o.llvm_type} %s" for o in row.inputs for _ in range(o.registers))
    outputs = [o.llvm_type for o in row.outputs for _ in range(o.registers)]
    effect = "sideeffect " if row.effects or row.convergent else ""
    marks = " #1" if row.convergent else ""
    result = "void" if not outputs else outputs[0] if len(outputs) == 1 else "{" + ", ".join(outputs) + "}"
    call = f'call {result} asm {effect}"{text.replace("%", "%%")}", "{constraints}"({arguments}){marks}'
    return call, result, len(outputs)
