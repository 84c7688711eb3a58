"""Runs the IR of a kernel's text on numpy, after any number of passes, by the meaning of its operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dsl.kernels.variant import Request, Variant, build_variant
from dsl.lowering.meaning.run import Run, arguments_of, blocks_of, write_back
from dsl.lowering.passes import PASSES
from dsl.runtime.expressions import compile_expression
from dsl.text.program import parse_program
from tests.compile_and_run import SMS, dims_of


def variant_of(text: str, args: Mapping[str, Any], **request: Any) -> Variant:
    """The built variant of the only kernel of a text, for these arrays."""
    program = parse_program(text)
    name = next(iter(program.kernels))
    dims: dict[str, int] = {}
    for p in program.kernels[name].params:
        if hasattr(args.get(p.name), "shape"):
            named = getattr(p.type, "dims", ())
            dims |= {d.id: e for d, e in zip(named, args[p.name].shape, strict=False) if hasattr(d, "id")}
    request.setdefault("absent", frozenset(k for k, v in args.items() if v is None))
    schedule = next(iter(program.schedules_of(name)), None)
    return build_variant(program, Request(name, schedule, **{"dims": dims, **request}))


def grid_of(variant: Variant, args: Mapping[str, Any]) -> tuple[int, ...]:
    """The grid of a launch with these arguments."""
    scalars = {p.name: args[p.name] for p in variant.function.params if p.kind == "scalar"}
    names = {**variant.constants, **dims_of(variant, args), **scalars, "sms": SMS}
    return tuple(int(compile_expression(e).evaluate(names)) for e in variant.grid)


def meant(text: str, args: Mapping[str, Any], passes: int = 0, **request: Any) -> Run:
    """Runs all blocks after the first so many passes; arrays in `args` are written in place."""
    variant = variant_of(text, args, **request)
    for each in PASSES[:passes]:
        each.apply(variant.function, variant.target)
    return carried_out(variant, args)


def carried_out(variant: Variant, args: Mapping[str, Any]) -> Run:
    """Runs all blocks of a variant as its IR stands."""
    arguments = arguments_of(variant.function, args)
    grid = grid_of(variant, args)
    run = Run(variant.function, arguments, grid)
    for block in blocks_of(grid):
        run.do(block)
    for p in variant.function.params:
        if p.kind == "tensor" and p.value is not None:
            write_back(arguments.memories[p.value], args[p.name], p.dtype)
    return run
