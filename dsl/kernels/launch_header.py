"""Makes the header of a compiled kernel, which the launcher reads (docs/architecture.md lists the keys)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dsl.kernels.variant import source_digest
from dsl.lowering.emit.pipelines import BARRIER
from dsl.lowering.emit.shared_address import tile_offset
from dsl.lowering.hopper.boxes import is_of_box, map_of, maps_of
from dsl.lowering.ir.function import Function, Parameter, walk
from dsl.lowering.ops.pipelines import base_of, rings_of
from dsl.lowering.text.level import Level
from dsl.runtime.header import (
    Argument,
    Header,
    HeaderMark,
    HeaderPipeline,
    HeaderTable,
    HeaderTensor,
    HeaderWorkspace,
    Requirement,
    Scalar,
    SourceRecord,
)
from dsl.runtime.tensor_map import Window

LIBRARY = ("std/", "library/")
"""The folders of our own files, as locations name them."""


def make_header(level: Level) -> Header:
    """Makes the header of a kernel whose passes have all run."""
    function = level.function
    given = [p for p in function.params if p.kind == "tensor" and p.value is not None]
    # A dim that belongs only to absent tensors has no value in a launch.
    dims = dict.fromkeys(d for p in given for d in p.dims if isinstance(d, str))
    return Header(
        entry=function.name,
        kernel=function.name,
        schedule=level.schedule,
        source=SourceRecord(file_name(level.source.name), source_digest(level.source.text)),
        arch=level.target.arch,
        constants=level.constants,
        threads=function.launched,
        cluster=function.blocks_of_cluster,
        shared_bytes=function.number("shared_bytes"),
        maxnreg=level.target.cap(function.number("maxnreg"), function.launched) or None,
        dims=tuple(dims),
        params=tuple(map(_passed, function.params)),
        arguments=tuple(_arguments(function)),
        grid=tuple(function.grid),  # type: ignore[arg-type]
        index_bits=function.index_bits,  # type: ignore[arg-type]
        workspaces=tuple(HeaderWorkspace(w.name, w.dtype.name, w.each, w.zero) for w in function.workspaces),
        pipelines=tuple(pipelines_of(function)),
        timeline=marks_of(function),
        overlaps=bool(function.attrs.get("overlaps")),
        requires=(
            *(Requirement(c.expr, c.text, c.line, c.hint, c.file and ascii_name(c.file)) for c in level.requires),
            *whole_clusters(function),
        ),
    )


def _passed(p: Parameter) -> HeaderTensor | Scalar | HeaderTable:
    """Makes the header's entry for a parameter that the caller passes."""
    if p.kind == "scalar":
        return Scalar(p.name, p.dtype.name)
    if p.kind != "tensor":
        return HeaderTable(p.name, p.dtype.name, p.length)
    return HeaderTensor(
        p.name,
        p.dtype.name,
        tuple(p.dims),
        p.strided,
        p.access or "r",  # type: ignore[arg-type]
        min(p.align, 16),
        p.optional,
        p.value is not None,
    )


def _arguments(function: Function) -> Iterator[Argument]:
    """Yields the arguments of the kernel's entry point, in the order of its `.param`s."""
    present = [p for p in function.params if p.value is not None]
    for p in present:
        if p.kind == "tensor":
            yield Argument("pointer", p.name)
            yield from (Argument("stride", p.name, axis) for axis in range(len(p.strides)))
    yield from (Argument("scalar", p.name) for p in present if p.kind == "scalar")
    yield from (Argument("table", p.name) for p in function.params if p.kind == "table")
    yield from (Argument("dim", name) for name in function.dims)
    yield from (Argument("workspace", workspace.name) for workspace in function.workspaces)
    for map in maps_of(function.body):
        window = Window(*zip(*map.walks, strict=True)) if map.walks else None
        yield Argument("map", map.tensor, 0, map.axes, map.box, map.swizzle, window, map.reduces)
    if function.attrs.get("record"):
        yield Argument("record")
    if function.attrs.get("marks"):
        yield Argument("timeline")


def whole_clusters(function: Function) -> Iterator[Requirement]:
    """Yields the launch condition that the grid's x extent is a multiple of the cluster size. Its source line is the
    `cluster` line of the schedule."""
    size, place = function.blocks_of_cluster, function.lines.get(("cluster", "cluster"))
    if size > 1 and place is not None:
        hint = "take fewer blocks a cluster; if the operands are staged by TMA, the grid may have any extent"
        text = f"a number of blocks along x that is a multiple of its clusters' {size}"
        is_own = function.loc is None or place.source.name == function.loc.source.name
        file = None if is_own else ascii_name(place.source.name)
        yield Requirement(["==", ["%", function.grid[0], size], 0], text, place.line, hint, file)


def pipelines_of(function: Function) -> Iterator[HeaderPipeline]:
    """Yields the rings of mbarriers between a kernel's warp roles (producer and consumer warps), with their offsets in
    shared memory."""
    for op in walk(function.body):
        if op.spec.control.concurrent:
            base, copies = 0, [each for each in walk(op.regions[0]) if is_of_box(each)]
            for stages in rings_of(op):
                tensors = dict.fromkeys(map_of(each).tensor for each in copies if base_of(each) == base)
                yield HeaderPipeline(tile_offset(op.operands[0]) + base * BARRIER, stages, tuple(tensors))
                base += 2 * stages


def marks_of(function: Function) -> tuple[HeaderMark, ...]:
    """Returns the timeline marks of a kernel, in the order of their numbers."""
    found = {op.attrs["number"]: op for op in walk(function.body) if op.spec.acts == "records"}
    rows = ([found[number].attrs[key] for key in ("kind", "name", "line")] for number in sorted(found))
    return tuple(HeaderMark(*row) for row in rows)


def file_name(path: str) -> str:
    """Returns the name of a file without its folder, in ASCII. Files of the library keep their folder's name."""
    return ascii_name(path if path.startswith(LIBRARY) else re.split(r"[/\\]", path)[-1])


def ascii_name(name: str) -> str:
    # The header is ASCII (docs/architecture.md). The name of a file may have other characters.
    return name.encode("ascii", "backslashreplace").decode()
