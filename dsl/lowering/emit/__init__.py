"""Translates tile IR with layouts to the text of LLVM IR for one thread."""

from __future__ import annotations

from collections.abc import Iterator

from dsl.lowering.emit import (  # noqa: F401 (the rules)
    clusters,
    control,
    elementwise,
    marks,
    memory,
    pipelines,
    shapes,
    tensor,
    threads,
    tma_stores,
    warpgroup,
)
from dsl.lowering.emit.chains import emit_ops
from dsl.lowering.emit.demand import mark_needed
from dsl.lowering.emit.rules import RULES
from dsl.lowering.emit.shared_address import SHARED
from dsl.lowering.emit.text import flat
from dsl.lowering.emit.writer import Writer
from dsl.lowering.hopper.boxes import MAP_ALIGN, MAP_BYTES, maps_of
from dsl.lowering.ir.function import Function, Parameter
from dsl.lowering.ir.nesting import deep_recursion
from dsl.lowering.ir.targets import Target

__all__ = ["RULES", "emit"]


@deep_recursion()
def emit(function: Function, target: Target, numbered: bool = False) -> tuple[str, tuple[int, int]]:
    """Returns the LLVM module as text, and the PTX version that it requires. If `numbered` is true, debug locations
    contain operation numbers, starting at 1, instead of source lines."""
    w = Writer(function, target, numbered)
    arguments = []  # argument names contain a dot, unlike names of values and labels
    # The order is the same as in `arguments` of the header: tensors with their strides, scalars, tables, dims,
    # workspaces, maps.
    for p in function.params:
        if p.kind == "tensor" and p.value is not None:
            arguments.append(f"ptr addrspace(1) align {p.align} %{p.name}.data")
            w.registers[p.value] = [f"%{p.name}.data"]
            for axis, stride in enumerate(p.strides):
                arguments.append(f"{w.index} %{p.name}.stride{axis}")
                w.registers[stride] = [f"%{p.name}.stride{axis}"]
    for p in function.params:
        if p.kind == "scalar" and p.value is not None:
            arguments.append(f"{_stored_type(w, p)} %{p.name}.value")
            w.registers[p.value] = [f"%{p.name}.value"]
            if p.dtype.bits == 1:  # a flag is passed as a byte and compared with 0 once at the start
                w.head.first.append(f"  %{p.name}.flag = icmp ne i8 %{p.name}.value, 0, !dbg !{w.text.debug.head}")
                w.registers[p.value] = [f"%{p.name}.flag"]
    for p in function.params:
        if p.kind == "table" and p.value is not None:
            arguments.append(f"ptr byval([{p.length} x {_stored_type(w, p)}]) align 16 %{p.name}.table")
            w.registers[p.value] = [f"%{p.name}.table"]
    for name, value in function.dims.items():
        arguments.append(f"{w.index} %{name}.dim")
        w.registers[value] = [f"%{name}.dim"]
    for workspace in function.workspaces:
        arguments.append(f"ptr addrspace(1) align {workspace.align} %{workspace.name}.workspace")
        w.registers[workspace.value] = [f"%{workspace.name}.workspace"]
    for map in maps_of(function.body):
        kind = f"ptr byval([{MAP_BYTES} x i8]) align {MAP_ALIGN}"
        arguments.append(f'{kind} "nvvm.grid_constant" %{map.name}')
    if function.attrs.get("record"):
        arguments.append("ptr addrspace(1) align 4 %record")
    if function.attrs.get("marks"):
        arguments.append("ptr addrspace(1) align 16 %timeline")
    w.maps.given = set(w.registers)
    mark_needed(w, function)
    with w.head.stretches_of(function.body):
        emit_ops(w, function.body.ops)
    w.text.dbg = f", !dbg !{w.text.debug.head}"
    w.do("ret void")

    text = ['target triple = "nvptx64-nvidia-cuda"']
    if function.attrs.get("shared_bytes"):
        text.append(f"{SHARED} = external addrspace(3) global [0 x i8], align {function.attrs['shared_align']}")
    text += w.globals
    scope = w.text.debug.function_scope
    text.append(f"define ptx_kernel void @{function.name}({', '.join(arguments)}) #0 !dbg !{scope} {{")
    text += ["entry:", *w.head.first, *flat(w.text.lines), *flat(w.text.behind), "}"]
    text += w.calls.declarations.values()
    text.append(f"attributes #0 = {{ nounwind {' '.join(_bounds(function, target))} }}")
    text.append("attributes #1 = { nounwind convergent }")
    text.append(f"!llvm.dbg.cu = !{{!{w.text.debug.unit}}}")
    flags = w.text.debug.add('!{i32 2, !"Debug Info Version", i32 3}')
    text.append(f"!llvm.module.flags = !{{!{flags}}}")
    text += w.text.debug.lines
    return "\n".join(text) + "\n", w.calls.ptx


def _bounds(function: Function, target: Target) -> Iterator[str]:
    """Yields LLVM attributes that fix the kernel's block and cluster sizes, and that bound its registers and blocks per
    SM. Passing the cluster size at each launch instead takes 50 us longer."""
    yield f'"nvvm.reqntid"="{function.launched}"'
    if most := function.number("maxnreg"):
        yield f'"nvvm.maxnreg"="{target.cap(most, function.launched)}"'
    if least := function.number("blocks_per_sm"):
        yield f'"nvvm.minctasm"="{least}"'
    if (blocks := function.blocks_of_cluster) > 1:
        yield f'"nvvm.cluster_dim"="{blocks},1,1"'


def _stored_type(w: Writer, p: Parameter) -> str:
    return "i8" if p.dtype.bits == 1 else w.llvm(p.dtype)
