"""Compiles rows as LLVM inline asm and assembles the PTX: what tests of the rows share."""

import re
import subprocess
from pathlib import Path

import llvmlite.binding as llvm

from dsl.ptx_templates import Instruction
from dsl.runtime.tools import find

# The oldest architecture that today's ptxas assembles for, and the least PTX version of each target (PTX ISA,
# release history, "PTX ISA versions and corresponding targets").
OLDEST = 75
LEAST_PTX = {75: (6, 3), 80: (7, 0), 86: (7, 1), 89: (7, 8), 90: (7, 8), 100: (8, 6)}

# Immediate operands that may not be 1.
IMMEDIATES = {"threads": 64, "registers": 64}


def least(row: Instruction) -> tuple[str, tuple[int, int]]:
    """The least target that has the row and that ptxas knows, with the least PTX version for both."""
    arch = max(row.arch, OLDEST)
    return f"sm_{arch}{row.feature}", max(row.ptx, LEAST_PTX[arch])


def llvm_function(name: str, row: Instruction) -> str:
    """A function of LLVM IR that passes its parameters to the row and stores the results at `%out`."""
    parameters, arguments, results = ["ptr %out"], [], []
    for operand in row.inputs:
        for _ in range(operand.registers):
            if operand.type == "immediate":
                arguments.append(f"i32 {IMMEDIATES.get(operand.name, 1)}")
            else:
                parameters.append(f"{operand.llvm_type} %a{len(parameters)}")
                arguments.append(parameters[-1])
    for operand in row.outputs:
        results += [operand.llvm_type] * operand.registers
    text, constraints = row.llvm()
    kind = "void" if not results else results[0] if len(results) == 1 else f"{{{', '.join(results)}}}"
    call = f'call {kind} asm sideeffect "{text}", "{constraints}"({", ".join(arguments)})'
    body = [f"  %r = {call}" if results else f"  {call}"]
    for i, result in enumerate(results):
        value = "%r" if len(results) == 1 else f"%v{i}"
        if len(results) > 1:
            body.append(f"  {value} = extractvalue {kind} %r, {i}")
        body.append(f"  store volatile {result} {value}, ptr %out")
    return f"define void @{name}({', '.join(parameters)}) {{\n" + "\n".join([*body, "  ret void"]) + "\n}\n"


def compile_rows(rows: list[Instruction], target: str, ptx: tuple[int, int]) -> str:
    """PTX with one function `f0`, `f1`, … a row."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    ir = 'target triple = "nvptx64-nvidia-cuda"\n' + "".join(llvm_function(f"f{i}", row) for i, row in enumerate(rows))
    machine = llvm.Target.from_triple("nvptx64-nvidia-cuda").create_target_machine(
        cpu=target, features=f"+ptx{ptx[0]}{ptx[1]}", opt=1
    )
    return machine.emit_assembly(llvm.parse_assembly(ir))


def inline_asm(ptx: str) -> list[str]:
    """The texts of all inline asm in order."""
    return [text.strip() for text in re.findall(r"// begin inline asm\n(.*?)\n\s*// end inline asm", ptx, re.DOTALL)]


def assemble(ptx: str, target: str, folder: Path) -> str:
    """Runs ptxas; returns what it says against the text, empty when nothing.

    That it leaves out an instruction for want of a whole kernel (setmaxnreg), or lets another wait, is no complaint.
    """
    source = folder / "rows.ptx"
    source.write_text(ptx)
    compiled = folder / "rows.o"
    command = [find("ptxas"), f"--gpu-name={target}", "--compile-only", "-O0", "-o", str(compiled), str(source)]
    said = subprocess.run(command, capture_output=True, text=True).stderr
    return "".join(line for line in said.splitlines(True) if not line.startswith("ptxas info"))
