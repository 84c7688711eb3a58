"""Compiles LLVM IR to PTX with the NVPTX back end of llvmlite."""

from __future__ import annotations

import re
from functools import lru_cache

import llvmlite
import llvmlite.binding as llvm

from dsl.lowering.ir.function import Function, walk
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.targets import Target
from dsl.lowering.machine.ptxas_faults import avoid_faults

BOUNDS = {
    '"nvvm.reqntid"=': ".reqntid",
    '"nvvm.maxnreg"=': ".maxnreg",
    '"nvvm.minctasm"=': ".minnctapersm",
    '"nvvm.cluster_dim"=': ".reqnctapercluster",
}
"""Maps attributes that restrict the launches of a kernel to their PTX directives. llvmlite 0.47 (LLVM 20) drops these
attributes without a message."""

LEVELS = {str(llvm_level): llvm_level for llvm_level in (3, 2, 1, 0)}
CODEGEN_LEVEL = 3
# At level 3, an f16 product of size 4096 with row-major b is also up to 5 % slower. Other kernels with MMAs are equally
# fast (docs/measurements.md, `llvm_level=3`).
PRODUCT_LEVEL = 0
"""The level for kernels with MMAs. From level 1 on, LLVM takes eight times as long for their unrolled steps, and its
code needs more registers."""

WARPGROUP_LEVEL = 1
"""The level for kernels with wgmma. At level 0, LLVM moves accumulators whose products are in flight, and ptxas inserts
a wait after each product."""


@lru_cache(maxsize=1)
def _initialised() -> llvm.Target:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple("nvptx64-nvidia-cuda")


@lru_cache(maxsize=64)
def _machine(arch: str, ptx: tuple[int, int], llvm_level: int) -> llvm.TargetMachine:
    return _initialised().create_target_machine(cpu=arch, features=f"+ptx{ptx[0]}{ptx[1]}", opt=llvm_level)


def llvm_level_for(function: Function) -> int:
    """Chooses the optimisation level of LLVM's code generation for a kernel."""
    products = [op for op in walk(function.body) if op.spec.product]
    levels, rule, why = LEVELS, CODEGEN_LEVEL, "no product on tensor cores"
    if products:
        rule, why = PRODUCT_LEVEL, "a product on tensor cores"
    if any(op.spec.wgmma for op in products):
        levels = {name: level for name, level in LEVELS.items() if level}
        rule, why = WARPGROUP_LEVEL, "at 0 sums of products in flight are moved, and the assembler waits behind each"
    return function.choices.choose("level", "llvm", levels, str(rule), because=why)


@lru_cache(maxsize=128)
def to_ptx(text: str, target: Target, ptx: tuple[int, int], llvm_level: int = CODEGEN_LEVEL) -> str:
    """Compiles an LLVM module to PTX. Raises RuntimeError with LLVM's message if the module is wrong (a bug of the
    compiler). Raises TileError `tool` if the installed LLVM drops an attribute that restricts the kernel's launches.

    The result (about 100 KB) is cached, because other shapes and seeds usually lead to the same module.
    """
    _initialised()
    module = llvm.parse_assembly(text)
    made = _machine(target.arch, max(ptx, target.ptx), llvm_level).emit_assembly(module)
    # Without `.reqntid`, for example, a block of a wrong size could be launched, and the results would be wrong.
    lost = [word for attribute, word in BOUNDS.items() if attribute in text and f"{word} " not in made]
    if lost:
        message = f"the installed llvmlite {llvmlite.__version__} leaves {' and '.join(lost)} out of PTX"
        raise TileError("tool", None, message, "pip install 'llvmlite>=0.48'")
    return avoid_faults(made)


def wrong_in(text: str) -> tuple[int, int, str] | None:
    """Returns (line, column, LLVM's message) of the first error in a module that was edited by hand. Returns None if
    the module is valid."""
    _initialised()
    try:
        llvm.parse_assembly(text).verify()
    except RuntimeError as error:
        words = str(error).strip()
        found = re.search(r"<string>:(\d+):(\d+): error: (.*)", words)
        return (int(found[1]), int(found[2]), found[3]) if found else (1, 1, words.splitlines()[-1])
    return None
