"""The compiled variants of a program: each is made once for all requests whose code it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from dsl.kernels.compile import Compiled, Lowered, compile_lowered, lower
from dsl.kernels.variant import Request, Resolved, Variant, resolve
from dsl.lowering.ir.location import TileError
from dsl.runtime.numbers import exact_key
from dsl.text.program import Program

Kernel = TypeVar("Kernel")
MOST_WAITING = 16
"""Lowered variants that are kept for a launch that may come: `fits` asks for one, and mostly it is then launched."""


MOST_REQUESTS = 4096
"""Requests whose kernel, or error, is known at once; of others it is found anew by what their schedules come to."""


def request_key(request: Request) -> tuple:
    def frozen(m: Mapping[str, Any]) -> tuple:
        return tuple((k, exact_key(m[k] if isinstance(m[k], int | float) else str(m[k]))) for k in sorted(m))

    return (
        request.kernel,
        request.schedule,
        frozen(request.dims),
        frozen(request.types),
        frozen(request.constants),
        frozen(request.scalars),
        frozen(request.align),
        tuple(sorted(request.absent)),
        request.arch,
        request.sms,
        request.index_bits,
        request.strict_bounds,
        request.marks,
        frozen(request.choices),
        tuple(sorted(request.strides.items())),
        request.follows,
        request.leads,
    )


def kind_of(family: tuple, resolved: Resolved) -> tuple:
    """What requests of one code, before LLVM, have in common."""
    return family, tuple(sorted(resolved.divisors.items()))


def keep(known: dict[Any, Any], key: Any, value: Any, most: int) -> None:
    """Adds an entry; of more than so many the oldest goes."""
    known[key] = value
    if len(known) > most:
        known.pop(next(iter(known)), None)


@dataclass(frozen=True, slots=True)
class Member(Generic[Kernel]):
    """Requests that differ from others of their family in the divisors of dims alone; `code` is LLVM's text, `body`
    the PTX after the header."""

    divisors: Mapping[str, int]
    code: str
    body: str
    variant: Variant
    kernel: Kernel

    def asks_less(self, divisors: Mapping[str, int]) -> bool:
        """Whether dims with these divisors have its divisors, too."""
        return all(divisors.get(name, 1) % divisor == 0 for name, divisor in self.divisors.items())

    def asks_more(self, divisors: Mapping[str, int]) -> bool:
        return all(self.divisors.get(name, 1) % divisor == 0 for name, divisor in divisors.items())


class Variants(Generic[Kernel]):
    """Variants by request. `made` makes what is kept of each from what was compiled.

    Divisors of dims decide vector widths, mostly. Where a variant of other divisors has the same code, the one that
    asks for less serves both, and all between them: LLVM runs once for each code.
    """

    def __init__(self, program: Program, made: Callable[[Compiled], Kernel]):
        self.program, self.made = program, made
        self._kernels: dict[Any, Kernel] = {}  # by request
        self._families: dict[Any, list[Member[Kernel]]] = {}
        self._resolved: dict[Any, Resolved] = {}  # by request, until it is compiled
        self._waiting: dict[Any, Lowered] = {}  # lowered and not compiled, by class
        self._refused: dict[Any, TileError] = {}

    def kernel(self, request: Request, **options: Any) -> Kernel:
        """The kernel of a request. Raises TileError."""
        given = tuple((name, exact_key(options[name])) for name in sorted(options))
        key = (request_key(request), given)
        kernel = self._kernels.get(key)
        if kernel is None:
            kernel = self._new(request, given, options)
            keep(self._kernels, key, kernel, MOST_REQUESTS)
        return kernel

    def __iter__(self) -> Iterator[Kernel]:
        """What was made so far, each once."""
        made = (member.kernel for members in self._families.values() for member in members)
        return iter({id(kernel): kernel for kernel in made}.values())

    def built(self, request: Request) -> Variant:
        """The variant of a request, lowered; it is not lowered again to be compiled. Raises TileError."""
        resolved = self._resolve(request)
        family = resolved.family
        for member in self._families.get((family, ()), ()):
            if member.divisors == resolved.divisors:
                return member.variant
        return self._lowered(family, resolved).variant

    def _resolve(self, request: Request) -> Resolved:
        """A request's schedule, evaluated once: where it is asked whether it fits, and where it is compiled."""
        key = request_key(request)
        found = self._resolved.pop(key, None) or resolve(self.program, request)
        keep(self._resolved, key, found, MOST_WAITING)
        return found

    def _lowered(self, family: tuple, resolved: Resolved) -> Lowered:
        kind = kind_of(family, resolved)
        if kind in self._refused:
            raise self._refused[kind]
        if kind not in self._waiting:
            try:
                lowered = lower(self.program, resolved.request, resolved=resolved)
            except TileError as error:
                keep(self._refused, kind, error, MOST_REQUESTS)
                raise
            keep(self._waiting, kind, lowered, MOST_WAITING)
        return self._waiting[kind]

    def _new(self, request: Request, given: tuple, options: dict[str, Any]) -> Kernel:
        resolved = self._resolve(request)
        family, divisors = resolved.family, resolved.divisors
        members = self._families.setdefault((family, given), [])
        less = [member for member in members if member.asks_less(divisors)]
        more = {member.code for member in members if member.asks_more(divisors)}
        for member in less:
            if member.divisors == divisors or member.code in more:
                return member.kernel
        llvm_level = options.pop("llvm_level", None)
        if options:
            lowered = lower(self.program, request, **options)
        else:
            lowered = self._lowered(family, resolved)
            del self._waiting[kind_of(family, resolved)]
        compiled = compile_lowered(self.program, lowered, llvm_level, {m.code: m.body for m in members})
        kernel = next((m.kernel for m in less if m.code == compiled.llvm), None)
        member = Member(divisors, compiled.llvm, compiled.body, compiled.variant, kernel or self.made(compiled))
        before = {id(m.kernel) for m in members}
        served = [m for m in members if m.code == member.code and member.asks_less(m.divisors)]
        members[:] = [replace(m, kernel=member.kernel) if m in served else m for m in members]
        # A kernel may serve requests of several divisors, some of which the new one does not.
        gone = before - {id(m.kernel) for m in members}
        self._kernels |= {key: member.kernel for key, known in self._kernels.items() if id(known) in gone}
        members.append(member)
        return member.kernel
