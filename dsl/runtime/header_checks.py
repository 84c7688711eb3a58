"""Checks the expressions of a header, and compares its arguments with the parameters of the `.entry`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NoReturn

from dsl.runtime.dtypes import DTYPES
from dsl.runtime.errors import LaunchError
from dsl.runtime.expressions import ExpressionError, Tree, compile_expression
from dsl.runtime.signature import SignatureParameter
from dsl.runtime.tensor_map import MAP_ALIGNMENT

PARAMETER_LIMIT = 32764
"""Maximum size of all kernel parameters in bytes, from sm_70 and PTX 8.1 on (PTX ISA, "Kernel Function Parameters")."""


def fail(where: str, why: str) -> NoReturn:
    raise LaunchError("ptx", f"header field {where}: {why}" if where else f"header: {why}")


def check_expression(where: str, tree: Tree, known: Collection[str]) -> None:
    """Raises LaunchError `ptx` unless `tree` is an expression that uses only the names in `known`."""
    try:
        unknown = sorted(compile_expression(tree).names - set(known))
    except ExpressionError as error:
        raise LaunchError("ptx", f"header field {where}: {error}") from None
    if unknown:
        fail(where, f"{unknown[0][:64]!r} is no dim, constant or scalar")


def check_signature(
    entry: str, arguments: Sequence[tuple[str, str, str, int]], parameters: Sequence[SignatureParameter]
) -> None:
    """Compares each argument of a header, (kind, of, dtype, bytes), with the entry's `.param` at the same position.

    Raises LaunchError `ptx` if they do not match."""
    if len(arguments) != len(parameters):
        fail("arguments", f"entry {entry} has {len(parameters)} parameters, the header {len(arguments)}")
    for index, ((kind, of, dtype, size), parameter) in enumerate(zip(arguments, parameters, strict=True)):
        has = f"{parameter.name}: .{parameter.type}, {parameter.bytes} bytes"
        is_float = DTYPES[dtype].is_float
        letter = parameter.type[0]
        # An integer may be declared with any integer or .b type. A float of more than 2 bytes must not be .u or .s.
        clash = not is_float if letter == "f" else is_float and letter in "us" and size > 2
        # LLVM declares a scalar 16-bit float as an array of two bytes.
        is_half = kind == "scalar" and is_float and size == 2 and parameter.type == "b8"
        is_array = kind in ("table", "map") or is_half
        what = f"{kind} {of}".strip()
        if parameter.bytes != size or parameter.is_array != is_array or clash:
            message = f"arguments[{index}] ({what}, {dtype}, {size} bytes) does not fit the entry's parameter {has}"
            raise LaunchError("ptx", f"header field {message}")
        if kind == "map" and parameter.align < MAP_ALIGNMENT:
            message = f"arguments[{index}] ({what}) needs .align {MAP_ALIGNMENT}, the entry's parameter {has}, has less"
            raise LaunchError("ptx", f"header field {message}")
    if sum(size for *_, size in arguments) > PARAMETER_LIMIT:
        fail("arguments", f"more than {PARAMETER_LIMIT} bytes of parameters")
