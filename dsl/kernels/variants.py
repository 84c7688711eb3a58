"""The compiled variants of a program: each is compiled once for all requests with the same code."""

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
"""Lowered variants that are kept for a launch: `fits` lowers one, and mostly it is launched next."""


MOST_REQUESTS = 4096
"""Requests whose kernel or error is known at once. For others the schedule is evaluated again, which finds the
kernel."""


def request_key(request: Request) -> tuple:
    # By `exact_key`: 0.0 and -0.0, and 1, 1.0 and True, are equal in Python and are different requests.
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
    """The key of requests that have the same code ahead of LLVM."""
    return family, tuple(sorted(resolved.divisors.items()))


def keep(known: dict[Any, Any], key: Any, value: Any, most: int) -> None:
    """Adds an entry. If there are more than `most`, the oldest is removed."""
    known[key] = value
    if len(known) > most:
        known.pop(next(iter(known)), None)


@dataclass(frozen=True, slots=True)
class Member(Generic[Kernel]):
    """A variant of a family; members differ in the divisors of dims alone. code: LLVM's text. body: the PTX after the
    header."""

    divisors: Mapping[str, int]
    code: str
    body: str
    variant: Variant
    kernel: Kernel

    def asks_less(self, divisors: Mapping[str, int]) -> bool:
        """Whether dims with these divisors also have this member's divisors, so that it can serve them."""
        return all(divisors.get(name, 1) % divisor == 0 for name, divisor in self.divisors.items())

    def asks_more(self, divisors: Mapping[str, int]) -> bool:
        return all(self.divisors.get(name, 1) % divisor == 0 for name, divisor in divisors.items())


class Variants(Generic[Kernel]):
    """Variants by request. made: turns a compiled variant into the object that is kept. Divisors of dims mostly decide
    the widths of accesses. If variants of two divisors have the same code, the one with fewer divisors serves both, and
    all requests between them: LLVM runs once for each code."""

    def __init__(self, program: Program, made: Callable[[Compiled], Kernel]):
        self.program, self.made = program, made
        self._kernels: dict[Any, Kernel] = {}  # by request
        self._families: dict[Any, list[Member[Kernel]]] = {}
        self._resolved: dict[Any, Resolved] = {}  # by request, until it is compiled
        self._waiting: dict[Any, Lowered] = {}  # lowered and not compiled, by `kind_of`
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
        """The kernels so far, each once."""
        made = (member.kernel for members in self._families.values() for member in members)
        return iter({id(kernel): kernel for kernel in made}.values())

    def built(self, request: Request) -> Variant:
        """The lowered variant of a request. Compiling it later does not lower it again. Raises TileError."""
        resolved = self._resolve(request)
        family = resolved.family
        for member in self._families.get((family, ()), ()):
            if member.divisors == resolved.divisors:
                return member.variant
        return self._lowered(family, resolved).variant

    def _resolve(self, request: Request) -> Resolved:
        """The evaluated schedule of a request, kept between `built`, for `fits`, and `kernel`."""
        key = request_key(request)
        found = self._resolved.pop(key, None) or resolve(self.program, request)
        keep(self._resolved, key, found, MOST_WAITING)
        return found

    def _lowered(self, family: tuple, resolved: Resolved) -> Lowered:
        kind = kind_of(family, resolved)
        # A refused request is often repeated: `fits` is evaluated at each call of new shapes.
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
            # One member with fewer divisors has the same code as one with more: so has all between them, without
            # lowering it.
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
        # A kernel may serve requests of several divisors, and the new one only some of them. To replace it for all made
        # 47 of 300 random calls of attention fail (requires t % 2 == 0).
        gone = before - {id(m.kernel) for m in members}
        self._kernels |= {key: member.kernel for key, known in self._kernels.items() if id(known) in gone}
        members.append(member)
        return member.kernel
