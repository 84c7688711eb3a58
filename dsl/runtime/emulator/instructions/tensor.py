"""Implements mma.sync, ldmatrix, stmatrix and movmatrix (PTX ISA 9.7.14). All lanes of a warp execute each of these
instructions together."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import matrix
from ..code import Code, Op, Values
from ..reader import PtxInstruction
from ..shadow import PLAIN_READ, PLAIN_WRITE, SpacePlace
from ..spaces import BadLanes, Space
from .memory_access import access, state_space, vector_items
from .registry import instruction


def register_type(type_name: str) -> str:
    return "b64" if type_name == "f64" else "b32"


def by_warps(values: Any, g: Any) -> Any:
    """Returns the values of a register or a constant as an array [warps, 32]."""
    if len(values) != g.n:
        values = np.broadcast_to(values, g.n)
    return values.reshape(-1, 32)


@instruction("mma.sync", effect=True, sync="warp", counts="mma")
def mma(code: Code, ins: PtxInstruction) -> Op:
    words = list(ins.opcode[2:])
    shape = next(word for word in words if word[0] == "m" and "n" in word and word[1].isdigit())
    after = words[words.index(shape) + 1 :]
    layouts = [word for word in after if word in {"row", "col"}]
    bit_op = next((word for word in after if word in {"xor", "and"}), None)
    options: dict[str, Any] = {"saturate": "satfinite" in after, "bit_op": bit_op}
    options |= {"a_layout": layouts[0], "b_layout": layouts[1]}
    no_types = {"row", "col", "satfinite", "xor", "and", "popc", "kind::f8f6f4"}
    types = [word for word in after if word not in no_types]
    d_type, a_type, b_type, c_type = types
    a, b, c = (
        [code.read(item, register_type(name)) for item in vector_items(operand)]
        for operand, name in zip(ins.operands[1:4], (a_type, b_type, c_type), strict=True)
    )
    d = [code.write(item, register_type(d_type)) for item in vector_items(ins.operands[0])]

    def run(v: Values, g: Any) -> None:
        registers = [[by_warps(v[entry], g) for entry in operand] for operand in (a, b, c)]
        found = matrix.mma(shape, a_type, b_type, c_type, d_type, *registers, **options)
        for entry, values in zip(d, found, strict=True):
            v[entry][...] = values.reshape(-1)

    return run


def matrix_count(ins: PtxInstruction) -> int:
    return int(next(word for word in ins.opcode if word in {"x1", "x2", "x4"})[1:])


@instruction("ldmatrix.sync", effect=True, sync="warp")
def ldmatrix(code: Code, ins: PtxInstruction) -> Op:
    """Implements `ldmatrix`. The operand of lane l is the address of row l % 8 of matrix l / 8. With n matrices, only
    the first 8 n lanes' addresses are used."""
    count, transposed = matrix_count(ins), "trans" in ins.opcode
    d = [code.write(item, "b32") for item in vector_items(ins.operands[0])]
    site = code.site

    def body(v: Values, g: Any, memory: Space, address: Any) -> None:
        place, part = row_places(g, count, memory, address, site, False)
        memory.shadow.access(PLAIN_READ, place, part, site)
        data = np.ascontiguousarray(memory.load(place, np.uint64, 2)).view(np.uint8).reshape(-1, count, 8, 16)
        for entry, values in zip(d, matrix.ldmatrix_distribute(data, transposed), strict=True):
            v[entry][...] = values.reshape(-1)

    return access(code, state_space(ins.opcode), ins.operands[1], body)


def row_lanes(g: Any, count: int) -> tuple[Any, Any]:
    """Returns the lanes whose addresses are used, as positions in the group and as a group of its own."""
    if count == 4:
        return slice(None), g
    rows = np.flatnonzero((np.arange(g.n) & 31) < 8 * count)
    return rows, g.part(rows)


def row_places(g: Any, count: int, memory: Space, address: Any, site: Any, write: bool) -> tuple[SpacePlace, Any]:
    """Returns the places of the matrix rows in memory, and the lanes whose operands are their addresses. If a row
    cannot be accessed, raises BadLanes for all lanes of its warp."""
    rows, part = row_lanes(g, count)
    try:
        return memory.place(
            np.broadcast_to(address, g.n)[rows], 16, part, site, write, g.launch.counters_of(site)
        ), part
    except BadLanes as fault:
        warps = part.index()[np.broadcast_to(fault.bad, part.n)] >> 5
        raise BadLanes(np.isin(g.index() >> 5, warps)) from None


@instruction("stmatrix.sync", effect=True, sync="warp")
def stmatrix(code: Code, ins: PtxInstruction) -> Op:
    count, transposed = matrix_count(ins), "trans" in ins.opcode
    sources = [code.read(item, "b32") for item in vector_items(ins.operands[1])]
    site = code.site

    def body(v: Values, g: Any, memory: Space, address: Any) -> None:
        place, part = row_places(g, count, memory, address, site, True)
        memory.shadow.access(PLAIN_WRITE, place, part, site)
        data = matrix.stmatrix_collect([by_warps(v[entry], g) for entry in sources], transposed)
        memory.store(place, np.ascontiguousarray(data).view(np.uint64).reshape(-1, 2), np.uint64, 2)

    return access(code, state_space(ins.opcode), ins.operands[0], body)


@instruction("movmatrix.sync", effect=True, sync="warp")
def movmatrix(code: Code, ins: PtxInstruction) -> Op:
    """Transposes an 8x8 matrix of b16 whose elements are distributed over the lanes of the warp."""
    a = code.read(ins.operands[1], "b32")
    d = code.write(ins.operands[0], "b32")

    def run(v: Values, g: Any) -> None:
        rows = np.ascontiguousarray(by_warps(v[a], g)).view(np.uint8).reshape(-1, 1, 8, 16)
        (values,) = matrix.ldmatrix_distribute(rows, True)
        v[d][...] = values.reshape(-1)

    return run
