"""Reads `NAME=VALUE` arguments of commands, which set dims, types, constants and options of an example."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from math import isinf
from typing import Any

from msgspec import Struct, field

from dsl.lowering.ir.location import TileError, closest
from dsl.lowering.ir.types import DTYPES
from dsl.text import tree as ast
from dsl.text.program import Program, dim_names, launched_kernels, reached_kernels, type_parameters
from dsl.values.arithmetic import MAX_INT_BITS

MAX_EXTENT = 1 << 62
PREFIXES = ("dim", "const", "sched", "option")


class Overrides(Struct):
    """The given values by name. `names` are variables that the example assigns, and dims. `types` are type parameters.
    `constants` belong to kernels and schedules, and `options` to dispatches."""

    names: dict[str, Any] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    def of_launch(self, program: Program, name: str) -> dict[str, Any]:
        """Returns the values to pass to a launch of a kernel or dispatch. A type is passed only if no array determines
        it."""
        free = free_types(program.kernels[kernel] for kernel in launched_kernels(program, name))
        return {**self.constants, **self.options, **{k: v for k, v in self.types.items() if k in free}}


def parse_value(text: str) -> Any:
    """Converts a text to an integer, a float, a boolean, or a word (the name of a type or function).

    >>> [parse_value(t) for t in ("0x10", "1e-3", "true", "bf16")]
    [16, 0.001, True, 'bf16']
    """
    if text in ("true", "True", "false", "False"):
        return text in ("true", "True")
    # Base 0 accepts 0x10, as the language does.
    for read in (lambda t: int(t, 0), float):
        try:
            value = read(text)
        except ValueError:
            continue
        if isinstance(value, int) and value.bit_length() > MAX_INT_BITS:
            raise TileError("option", None, f"'{text[:40]}…' is beyond {MAX_INT_BITS} bits")
        # A file also refuses 1e400. Otherwise it would silently become infinity.
        if isinstance(value, float) and isinf(value) and "inf" not in text.lower():
            raise TileError("option", None, f"{text[:40]} is beyond every type", "infinity is written inf")
        return value
    if not text.isidentifier():
        raise TileError("option", None, f"'{text}' is no value", "a number, true, false, or the name of a type or def")
    return text


def free_types(kernels: Iterable[ast.KernelDef]) -> set[str]:
    """Returns the type parameters of kernels that no array determines."""
    found: set[str] = set()
    for kernel in kernels:
        decided = {p.type.dtype for p in kernel.params if isinstance(p.type, ast.TensorAnnotation)}
        found |= {c.name for c in kernel.constants if c.types is not None} - decided
    return found


def assigned_names(example: ast.Example | None) -> list[str]:
    """Returns the names that an example's lines assign."""
    lines = [line for line in example.lines if isinstance(line, ast.Assign)] if example else []
    return [target.id for line in lines for target in line.targets if isinstance(target, ast.Name)]


class _Kind(Struct, frozen=True):
    """One kind of names that can be set: the known names, the prefix that selects the kind (`sched.`), and the dict
    that stores the values."""

    prefix: str
    known: Collection[str]
    target: dict[str, Any]
    check: Callable[[str, str, Any], None] = lambda text, name, value: None
    may_lack_prefix: bool = True


def resolve(
    program: Program, example: ast.Example | None, given: Iterable[str], kernel: ast.KernelDef | None = None
) -> Overrides:
    """Sorts `NAME=VALUE` texts into kinds. Raises TileError `option` for an unknown or ambiguous name.

    If `kernel` is given or there is no example, dims are also stored in `names`.
    """
    out = Overrides()
    kinds = _kinds(program, example, kernel, out)
    for text in given:
        word, equals, value_text = text.partition("=")
        if not equals or not word:
            raise TileError("option", None, f"'{text}' is not NAME=VALUE")
        prefix, name = _split(word)
        value = parse_value(value_text)
        kind = _kind_of(program, prefix, name, kinds)
        if name in kind.target:
            raise TileError("option", None, f"'{name}' is given twice")
        kind.check(text, name, value)
        kind.target[name] = value
    return out


def _kinds(program: Program, example: ast.Example | None, kernel: ast.KernelDef | None, out: Overrides) -> list[_Kind]:
    """Returns the kinds of names that the command line may set. If a kernel and its schedule both have a constant `N`,
    `N` means the kernel's constant, and `sched.N` the schedule's."""
    kernels = [kernel] if kernel is not None else reached_kernels(program, example)
    assigned = {*assigned_names(example)}
    dims = {dim for k in kernels for dim in dim_names(k)} if example is None or kernel is not None else set()
    types = type_parameters(kernels)
    constants = {c.name for k in kernels for c in k.constants if c.types is None}
    scheduled = {name for k in kernels for name in program.settable(k.name)}
    options = {line.name for d in program.dispatches.values() for line in d.lines if isinstance(line, ast.Option)}
    return [
        _Kind("dim", assigned, out.names),
        # A dim that the example assigns has no check, because the example's arrays follow from its value. A dim that
        # only a kernel has must be a valid extent.
        _Kind("dim", dims - assigned, out.names, _check_extent),
        _Kind("const", types, out.types, lambda _, name, value: _check_type(name, value, types[name])),
        _Kind("const", constants, out.constants),
        _Kind("sched", scheduled - constants, out.constants),
        _Kind("sched", scheduled & constants, out.constants, may_lack_prefix=False),
        _Kind("option", options, out.options),
    ]


def _split(word: str) -> tuple[str, str]:
    """Splits a word such as `sched.N` into prefix and name. Raises TileError for an unknown prefix."""
    prefix, dot, name = word.rpartition(".")
    if dot and prefix not in PREFIXES:
        hint = closest(prefix, list(PREFIXES)) or ", ".join(f"{p}." for p in PREFIXES)
        raise TileError("option", None, f"unknown prefix '{prefix}.' of '{word}'", hint)
    return prefix, name


def _kind_of(program: Program, prefix: str, name: str, kinds: list[_Kind]) -> _Kind:
    """Returns the kind of a name. Raises TileError if the name has no kind or several kinds."""
    found = [kind for kind in kinds if name in kind.known and prefix in (kind.prefix, *[""] * kind.may_lack_prefix)]
    if not found:
        known = {name for kind in kinds for name in kind.known}
        where = f" after '{prefix}.'" if prefix else ""
        hint = closest(name, known) or "known: " + ", ".join(sorted(known))
        raise TileError("option", None, f"{program.source.name} has no '{name}'{where} to set", hint)
    if len(found) > 1:
        choices = ", ".join(f"{kind.prefix}.{name}" for kind in found)
        raise TileError("option", None, f"'{name}' could be several things", f"write one of {choices}")
    return found[0]


def _check_extent(text: str, name: str, value: Any) -> None:
    if type(value) is not int or not 0 <= value < MAX_EXTENT:
        raise TileError("option", None, f"'{text[:80]}': a dim is a count of elements")


def _check_type(name: str, value: Any, alternatives: list[str]) -> None:
    if value not in alternatives:
        what = f"'{value}' is no type" if value not in DTYPES else f"{name}={value}"
        raise TileError("option", None, f"{what}: '{name}' is one of {', '.join(alternatives)}")
