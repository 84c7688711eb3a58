"""The pipeline for one variant: syntax → IR → passes → LLVM IR → PTX with its header."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from dsl.program import Program
from dsl.variant import Request, Variant, build_variant, record_access, source_digest
from lowering.ir import to_mlir
from lowering.passes import PASSES, Pass, run_passes
from runtime.header import Argument, Header, Require, Scalar, Source, Table, Tensor, write


@dataclass(slots=True)
class Compiled:
    """A compiled variant: every stage as text, the header, and seconds by stage."""

    variant: Variant
    header: Header
    llvm: str
    ptx: str
    seconds: dict[str, float] = field(default_factory=dict)
    printed: dict[str, str] = field(default_factory=dict)

    @property
    def ir(self) -> str:
        """The tile IR after all passes, in MLIR's generic form, with each operation's line."""
        return to_mlir(self.variant.function, annotate=True)


@dataclass(slots=True)
class Lowered:
    """A variant with all passes run: everything short of LLVM."""

    variant: Variant
    header: Header
    seconds: dict[str, float]
    printed: dict[str, str]


def lower(
    program: Program,
    request: Request,
    passes: tuple[tuple[str, Pass], ...] = PASSES,
    skip: tuple[str, ...] = (),
    print_after: tuple[str, ...] = (),
    check: bool = False,
) -> Lowered:
    """Builds the variant and runs the passes; TileError or Errors for what is wrong in the file."""
    start = time.perf_counter()
    variant = build_variant(program, request)
    built = time.perf_counter()
    trace = run_passes(variant.function, variant.target, passes, skip, print_after, check)
    record_access(variant.function)
    seconds = {"build": built - start, **trace.seconds}
    return Lowered(variant, make_header(program, variant), seconds, trace.printed)


def compile_variant(program: Program, request: Request, **options: Any) -> Compiled:
    """PTX for one variant. Options as for `lower`, and `level` of LLVM's code generation."""
    from lowering.codegen import CODEGEN_LEVEL, to_ptx
    from lowering.emit import emit

    level = options.pop("level", CODEGEN_LEVEL)
    lowered = lower(program, request, **options)
    variant = lowered.variant
    start = time.perf_counter()
    llvm, version = emit(variant.function, variant.target)
    emitted = time.perf_counter()
    body = to_ptx(llvm, variant.target, version, level)
    done = time.perf_counter()
    lowered.seconds |= {"emit": emitted - start, "llvm": done - emitted}
    return Compiled(
        variant,
        lowered.header,
        llvm,
        write(lowered.header) + body,
        lowered.seconds,
        lowered.printed,
    )


def make_header(program: Program, variant: Variant) -> Header:
    """What a launch needs to know of this variant."""
    function = variant.function
    params: list[Any] = []
    for p in function.params:
        if p.kind == "tensor":
            params.append(
                Tensor(
                    p.name,
                    p.dtype.name,
                    tuple(p.dims),
                    p.strided,
                    p.access or "r",  # type: ignore[arg-type]
                    min(p.align, 16),
                    p.optional,
                    p.value is not None,
                )
            )
        elif p.kind == "scalar":
            params.append(Scalar(p.name, p.dtype.name))
        else:
            params.append(Table(p.name, p.dtype.name, p.length))
    arguments: list[Argument] = []
    for p in function.params:
        if p.kind == "tensor" and p.value is not None:
            arguments.append(Argument("pointer", p.name))
            arguments += [Argument("stride", p.name, axis) for axis in range(len(p.strides))]
    arguments += [Argument("scalar", p.name) for p in function.params if p.kind == "scalar" and p.value is not None]
    arguments += [Argument("table", p.name) for p in function.params if p.kind == "table"]
    arguments += [Argument("dim", name) for name in function.dims]
    if function.attrs.get("record"):
        arguments.append(Argument("record"))
    dims = dict.fromkeys(d for p in function.params if p.kind == "tensor" for d in p.dims if isinstance(d, str))
    source = program.source
    return Header(
        entry=function.name,
        kernel=function.name,
        schedule=variant.schedule.name,
        source=Source(ascii_name(source.name), source_digest(source.text)),
        arch=variant.target.arch,
        constants=variant.constants,
        threads=function.threads,
        cluster=function.attrs.get("cluster", 1),
        shared_bytes=function.attrs.get("shared_bytes", 0),
        maxregs=function.attrs.get("maxregs"),
        dims=tuple(dims),
        params=tuple(params),
        arguments=tuple(arguments),
        grid=tuple(variant.grid),  # type: ignore[arg-type]
        index_bits=function.index_bits,  # type: ignore[arg-type]
        requires=tuple(Require(c.expr, c.text, c.line, c.hint) for c in variant.requires),
    )


def ascii_name(name: str) -> str:
    return name.encode("ascii", "backslashreplace").decode()
