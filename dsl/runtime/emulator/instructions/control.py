"""Implements trap, brkpt, nanosleep, and calls of the driver's functions (PTX ISA 9.7.12, 9.7.19)."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from ..code import Code, Op, Values
from ..findings import Kind
from ..printf import formatted
from ..reader import ArgumentList, Float, Integer, Operand, PtxAddress, PtxInstruction, Register
from ..shadow import PLAIN_WRITE
from .memory_access import nothing
from .registry import instruction


@instruction("trap", effect=True)
def trap(code: Code, ins: PtxInstruction) -> Op:
    site = code.site
    return lambda v, g: g.launch.report(Kind.TRAP, "a thread executes trap", g, 0, site)


@instruction("brkpt", "nanosleep")
def pause(code: Code, ins: PtxInstruction) -> Op:
    return nothing


def argument_reader(code: Code, operand: Operand, index: int) -> Any:
    """Returns a function of (values, group) that returns a 64-bit argument of a call for each lane."""
    if not isinstance(operand, ArgumentList):
        raise code.error("unknown form of a call")
    item = operand.items[index]
    if code.is_register(item) or isinstance(item, Integer | Float):
        entry = code.read(item, "u64")
        return lambda v, g: np.broadcast_to(v[entry], g.n)
    if not isinstance(item, Register):
        raise code.error(f"{item} cannot be an argument of a call")
    base, _ = code.address(PtxAddress(item))
    site = code.site

    def read(v: Values, g: Any) -> Any:
        local = g.wave.spaces["local"]
        return local.load(local.place(v[base], 8, g, site, False, None), np.uint64, 1)

    return read


def result_writer(code: Code, operand: Operand) -> Op:
    """Returns a closure that writes 1 to the return variable of a call, if the call has one."""
    if not isinstance(operand, ArgumentList) or not operand.items:
        return nothing
    base, _ = code.address(PtxAddress(operand.items[0]))  # type: ignore[arg-type]
    site = code.site

    def write(v: Values, g: Any) -> None:
        local = g.wave.spaces["local"]
        place = local.place(v[base], 4, g, site, True, None)
        local.shadow.access(PLAIN_WRITE, place, g, site)
        local.store(place, np.uint32(1), np.uint32, 1)

    return write


@instruction("call", effect=True)
def call(code: Code, ins: PtxInstruction) -> Op:
    """Builds a call that remains after inlining. The called function must be the driver's vprintf or __assertfail."""
    names = [operand.name for operand in ins.operands if isinstance(operand, Register)]
    name = names[0] if names else ""
    arguments = ins.operands[-1]
    if name == "vprintf":
        text = argument_reader(code, arguments, 0)
        buffer = argument_reader(code, arguments, 1)
        count = result_writer(code, ins.operands[0])
        site = code.site

        def print_lanes(v: Values, g: Any) -> None:
            count(v, g)
            for position, (where, start) in enumerate(zip(text(v, g), buffer(v, g), strict=True)):
                try:
                    data, begin = g.wave.bytes_behind(int(start), int(g.index()[position]))
                    printed = formatted(g.launch.global_text(int(where)), data, begin, g.launch.global_text)
                    g.launch.output.append(printed)
                except (IndexError, struct.error):
                    message = "vprintf reads a format, a text or an argument outside of memory"
                    g.launch.report(Kind.OUT_OF_BOUNDS, message, g, position, site)

        return print_lanes
    if name == "__assertfail":
        site = code.site
        message = argument_reader(code, arguments, 0)

        def fail(v: Values, g: Any) -> None:
            try:
                text = g.launch.global_text(int(message(v, g)[0]))
            except IndexError:
                text = "its message lies outside of memory"
            g.launch.report(Kind.TRAP, f"assertion failed: {text}", g, 0, site)

        return fail
    raise code.error(f"the function {name} has no body, and indirect calls are not supported")
