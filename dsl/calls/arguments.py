"""Reads the arguments of a call: finds each argument's parameter, checks its kind (array, number or table), and
collects the facts that planning needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from itertools import combinations, takewhile
from typing import TYPE_CHECKING, Any, SupportsFloat

from dsl.calls.front import CallFront, read_in_order
from dsl.kernels.request import stride_class
from dsl.lowering.ir.limits import most_elements
from dsl.lowering.ir.location import TileError
from dsl.runtime.numbers import as_float, exact_key, is_masked, item_of, plain
from dsl.values.facts import UNKNOWN, ArrayFacts, Unknown

if TYPE_CHECKING:
    from dsl.calls.called import Called

SHAPE_TEXT = re.compile(r"(\w+)\[([\d, ]*)\]")


def order(
    front: CallFront,
    arguments: tuple[Any, ...],
    by_name: dict[str, Any],
    makes_outputs: bool,
    called_of: Callable[[], Called],
) -> dict[str, Any]:
    """Maps each parameter of a call to its argument. `makes_outputs` is True if the caller may leave out outputs.
    `called_of` is called if the kinds, types and shapes of the arguments decide. Raises TileError `call` if there are
    too many or too few arguments, or if they fit the parameters in several ways."""
    free = [p for p in front.params if p not in by_name]
    required = [p for p in free if p not in front.optional]
    count = len(arguments)
    if count > len(free):
        takes = f"{front.name} takes {len(front.params)} arguments"
        raise TileError("call", None, f"{takes}; got {count + len(by_name)}", ", ".join(front.params))
    found = readings(front, free, count, makes_outputs)
    # `m.add(x, y)` with an optional output may be read in two ways. Often only one of them fits the shapes and types.
    if len(found) > 1:
        called = called_of()
        fitting = [r for r in found if fits(called, dict(zip(r, arguments, strict=True)) | by_name)]
        if len(fitting) > 1:
            raise ambiguous(called, fitting)
        found = fitting or found
    if not found and makes_outputs and count + len(by_name):
        outputs = sum(p in front.leading for p in required)
        takes = f"it takes {', '.join(front.params)}"
        raise TileError("call", None, f"{front.name} needs '{required[outputs + count]}'", takes)
    taken = found[0] if found else read_in_order(free, set(free) - set(required), count)
    given = dict(zip(taken, arguments, strict=False)) | by_name  # missing arguments are reported later
    return {p: given.get(p) for p in front.params}


def readings(front: CallFront, free: list[str], count: int, makes_outputs: bool) -> list[list[str]]:
    """Returns every way to assign `count` positional arguments to parameters of `free`. A way is a list of parameters.
    A call may leave out the first outputs, any outputs that no kernel reads, and the last optional tensors."""
    if count == len(free):
        return [free]
    required = [p for p in free if p not in front.optional]
    optional = [p for p in free if p in front.optional]
    written, read = front.accesses
    outputs = list(takewhile(lambda p: makes_outputs and p in written, required))
    pure = list(takewhile(lambda p: p not in read, outputs))
    found = []
    for number in range(len(outputs) + 1):
        # The number of arguments that remain for optional tensors when `number` outputs are left out.
        given = count - (len(required) - number)
        if 0 <= given <= len(optional):
            # An output that a kernel also reads can be left out only together with all outputs before it. Outputs that
            # are only written can be left out in any combination.
            for left_out in dict.fromkeys([tuple(outputs[:number]), *combinations(pure, number)]):
                found.append(read_in_order(free, optional, count, left_out))
    return found


def fits(called: Called, given: Mapping[str, Any]) -> bool:
    """Returns whether the arguments can belong to their parameters. Kinds, ranks, element types and shapes must agree.
    If an output is left out, its shape must follow from the arguments."""
    from dsl.calls.binding import BoundArguments
    from dsl.runtime import is_array

    bound: dict[str, BoundArguments] = {}
    for name, value in given.items():
        if name not in called.heads or (value is None and name in called.optional):
            continue
        head, array = called.heads[name], called.array(name)
        if (array is not None) != (is_array(value) or isinstance(value, ArrayFacts)):
            return False
        if array is not None:
            try:
                bound.setdefault(head.name, BoundArguments()).shape(head, array, array_facts(value))
            except TileError:
                return False
    known = {d for each in bound.values() for d in each.dims}
    known |= {d for head, _, _ in called.passed for d in head.rules}
    missing = [called.array(n) for n in called.params if n not in given and n not in called.optional]
    return all(
        array is not None and all(isinstance(d, int) or (d is not None and d in known) for d in array.dims)
        for array in missing
    )


def ambiguous(called: Called, readings: list[list[str]]) -> TileError:
    """Returns the error for arguments that fit the parameters in several ways."""
    absent = "" if not called.optional else "; None for an optional tensor that is absent"
    ways = [f"{called.name}({', '.join(reading)})" for reading in readings]
    named = [f"{called.name}({', '.join(f'{p}={p}' for p in reading)})" for reading in readings]
    hint = f"say which by name: {' or '.join(named)}{absent}"
    return TileError("call", called.node.loc, f"these arguments can be read as {' or '.join(ways)}", hint)


# ---- facts for planning ----


def facts_of(front: CallFront, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the facts about each argument that planning needs: ArrayFacts, numbers, tables as tuples, or None. Calls
    with equal facts form a class."""
    from dsl.runtime import is_array

    out: dict[str, Any] = {}
    for name, value in given.items():
        if value is None or value is UNKNOWN:
            out[name] = value
        elif is_array(value) or isinstance(value, ArrayFacts):
            out[name] = array_facts(value, name in front.strided)
        else:
            out[name] = tuple(value) if isinstance(value, list | tuple) else plain_number(value)
    return out


def class_of(front: CallFront, facts: Mapping[str, Any], rest: Mapping[str, Any]) -> Hashable:
    """Returns the key of a call's class. Calls with equal keys share a plan."""
    # If a number or table decides no launch, the key contains only its kind. For example, calls with 40 different seeds
    # share a plan.
    decide = front.deciding
    return (
        *(f if isinstance(f, ArrayFacts) else exact_key(f) if n in decide else kind_of(f) for n, f in facts.items()),
        *((name, exact_key(rest[name])) for name in sorted(rest)),
    )


def kind_of(value: Any) -> Hashable:
    """Returns the type of a number, or the types of the numbers in a table."""
    kinds: Any = tuple(map(type, value)) if isinstance(value, tuple) else type(value)
    return kinds


def array_facts(value: Any, strided: bool = False) -> ArrayFacts:
    """Returns the facts about an array of any framework. Strides are recorded only if `strided`."""
    if isinstance(value, ArrayFacts):
        return value
    from dsl.runtime import describe

    array = describe(value)
    # Strides matter only where a kernel takes the array as a strided tensor. Elsewhere the launch checks that the array
    # is row-major.
    strides = stride_class(array.strides) if strided else None
    is_far = strided and array.reach > most_elements(32)
    return ArrayFacts(tuple(array.shape), array.dtype, pointer_class(array.pointer), strides, is_far)


def shape_facts(value: Any) -> Any:
    """Returns the ArrayFacts of what stands for an array: an array of any framework, anything else with a `shape` and a
    `dtype`, or a text such as "f16[8, 100]". Extents may be symbols. No memory is looked at, so an array without any
    will do, such as torch's meta tensors. A number that is a symbol becomes UNKNOWN. Other values are returned as they
    are. Raises LaunchError `array` for an element type that the language lacks."""
    if isinstance(value, str) and (match := SHAPE_TEXT.fullmatch(value)):
        return ArrayFacts(tuple(map(int, match[2].split(",") if match[2].strip() else ())), match[1])
    if not (hasattr(value, "shape") and hasattr(value, "dtype")):
        is_symbol = not isinstance(value, bool | int | float) and hasattr(value, "node")
        return UNKNOWN if is_symbol else value
    from dsl.lowering.ir.types import DTYPES
    from dsl.runtime.frameworks.framework import dtype_name

    name = getattr(value.dtype, "name", None) or str(value.dtype).rpartition(".")[2]
    return ArrayFacts(tuple(value.shape), name if name in DTYPES else dtype_name(value, name))


def traced_facts(
    front: CallFront, given: Mapping[str, Any], number: Callable[[str], Callable[[int], Any]]
) -> dict[str, Any] | None:
    """Returns the facts about row-major arrays and numbers that a tracer knows by shape and type, as a launch will find
    them. `number` gives the Python type of a number. Returns None if a number that is not known decides a launch."""
    from dsl.runtime.arrays import reach, row_major

    found = {name: shape_facts(value) for name, value in given.items()}
    for name, value in found.items():
        if value is UNKNOWN:
            if name in front.deciding:
                return None
            found[name] = number(name)(1)  # any number will do
        elif isinstance(value, ArrayFacts) and name in front.strided:
            strides = row_major(value.shape)
            is_far = reach(value.shape, strides) > most_elements(32)
            found[name] = ArrayFacts(value.shape, value.dtype, strides=stride_class(strides), is_far=is_far)
    return found


def are_of_kinds(front: CallFront, given: Mapping[str, Any]) -> bool:
    """Returns whether all arguments are surely of the kinds of their parameters. If not, `check_kinds` decides."""
    from dsl.runtime import is_array

    for name, value in given.items():
        kind = front.kinds[name]
        if value is None or is_array(value) or isinstance(value, ArrayFacts | Unknown):
            continue
        if kind == "table" and isinstance(value, list | tuple):
            if any(plain_number(v) is None for v in value):
                return False
        elif kind != "number" or plain_number(value) is None:
            return False
    return True


def check_kinds(called: Called, given: Mapping[str, Any]) -> None:
    """Raises TileError `call` if an argument's kind (array, number or table) differs from the parameter's kind."""
    from dsl.runtime import is_array

    for name, value in given.items():
        # Most arguments are arrays. Their facts are checked when a kernel is bound.
        if value is not None and not is_array(value) and not isinstance(value, ArrayFacts | Unknown):
            check_kind(called, name, value)


def check_kind(called: Called, name: str, value: Any) -> None:
    """Checks an argument that is not an array. Raises TileError `call` if the parameter is of another kind."""
    from dsl.runtime import LaunchError
    from dsl.runtime.frameworks import framework_of

    head, p = called.heads.get(name), called.parameters.get(name, name)
    if head is not None and p in head.arrays:
        try:
            framework_of(value)
        except LaunchError as error:
            raise TileError("call", head.arrays[p].loc, f"'{name}' is an array; {error.message}", error.hint) from None
    table = None if head is None else head.tables.get(p)
    scalar = None if head is None else head.scalars.get(p)
    if table is not None and isinstance(value, list | tuple):
        wrong = next((v for v in value if plain_number(v) is None), None)
        if wrong is not None:
            raise TileError("call", table.loc, f"'{name}' is a table of numbers; it has {in_words(wrong)}")
    elif plain_number(value) is None:
        what, at = ("a number", scalar) if table is None else ("a table", table)
        raise TileError("call", None if at is None else at.loc, f"'{name}' is {what}; got {in_words(value)}")


def plain_number(value: Any) -> bool | int | float | None:
    """Converts a number of Python or numpy, a Decimal or a similar object to a Python number. Returns None for any
    other object."""
    if isinstance(value, bool | int | float):
        return plain(value)
    # Without this check, float("1.5") would accept text, and numpy's masked value would become 0.
    if is_masked(value) or isinstance(value, str | bytes | complex):
        return None
    found = item_of(value)
    if isinstance(found, bool | int | float):
        return plain(found)
    return as_float(value) if isinstance(value, SupportsFloat) and not hasattr(value, "shape") else None


def in_words(value: Any) -> str:
    """Describes an argument in words, for messages."""
    from dsl.runtime.frameworks import named

    return named(value)


def pointer_class(pointer: int) -> int:
    """Returns the greatest of 1, 2, 4, 8 and 16 that divides an address, and 16 for a null pointer."""
    return min(16, pointer & -pointer) if pointer else 16
