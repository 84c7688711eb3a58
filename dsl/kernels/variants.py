"""Caches the compiled variants of a program. Requests that need the same code share one variant."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from dsl.kernels.compile import Compiled, Lowered, code_digest, compile_lowered, import_generator, lower
from dsl.kernels.garbage import rare_collections
from dsl.kernels.kept_variants import KeptCompiled, KeptFamilies, compiled_again
from dsl.kernels.loaded import Shelf
from dsl.kernels.request import Request
from dsl.kernels.variant import Resolved, Variant, points_of, resolve
from dsl.lowering.ir.location import TileError
from dsl.runtime.numbers import exact_key
from dsl.schedules import Points
from dsl.schedules.known_schedules import keep
from dsl.text.program import Program

Kernel = TypeVar("Kernel")
MOST_WAITING = 16
"""The greatest number of lowered variants that are kept for a launch. `fits` lowers a variant, and usually the variant
is launched next."""


MOST_REQUESTS = 4096
"""The greatest number of requests whose kernel or error is cached. For other requests, the schedule is evaluated again
to find the kernel."""


def request_key(request: Request) -> tuple:
    # Uses `exact_key`. In Python, 0.0 and -0.0 are equal, and so are 1, 1.0 and True. Requests with these values must
    # have different keys.
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
        request.device,
        request.index_bits,
        request.strict_bounds,
        request.marks,
        frozen(request.choices),
        tuple(sorted(request.strides.items())),
        request.follows,
        request.leads,
    )


def kind_of(family: tuple, resolved: Resolved) -> tuple:
    """Returns a key that is equal for requests with the same IR after all passes."""
    return family, tuple(sorted(resolved.divisors.items()))


class Member(Struct, Generic[Kernel], frozen=True):
    """A compiled variant of a family. The variants of a family differ only in the divisors of dims. `code` is a digest
    of the LLVM IR. `own` is the compiled variant. `served` is the code of `kernel`, which may be that of another
    variant with the same LLVM IR."""

    divisors: Mapping[str, int]
    code: str
    own: Compiled | KeptCompiled
    served: Compiled | KeptCompiled
    kernel: Kernel

    @property
    def variant(self) -> Variant:
        return self.own.variant

    def asks_less(self, divisors: Mapping[str, int]) -> bool:
        """Whether this variant is correct for dims with the given divisors. Each divisor that it requires must divide
        the given divisor of the same dim."""
        return all(divisors.get(name, 1) % divisor == 0 for name, divisor in self.divisors.items())

    def asks_more(self, divisors: Mapping[str, int]) -> bool:
        return all(self.divisors.get(name, 1) % divisor == 0 for name, divisor in divisors.items())


def _serving(members: Sequence[Member[Kernel]], divisors: Mapping[str, int]) -> Member[Kernel] | None:
    """Returns the variant that has the same code as a new variant for these divisors would have. Returns None if this
    cannot be known without lowering."""
    more = {member.code for member in members if member.asks_more(divisors)}
    for member in members:
        # If a member that requires less has the same code as a member that requires more, all divisors between them
        # give this code.
        if member.asks_less(divisors) and (member.divisors == divisors or member.code in more):
            return member
    return None


class Variants(Generic[Kernel]):
    """Maps requests to compiled kernels. `made` converts a compiled variant to the object that is cached.

    The code depends on the divisors of dims, mostly because they decide the widths of accesses. Two sets of divisors
    may still give the same code. Then the variant with fewer divisors serves both sets, and all sets between them. So
    LLVM runs once for each code."""

    def __init__(self, program: Program, made: Callable[[Compiled | KeptCompiled], Kernel], shelf: Shelf | None = None):
        self.program, self.made = program, made
        self._kept = None if shelf is None else KeptFamilies(shelf)
        self._kernels: dict[Any, Kernel] = {}  # by request
        self._families: dict[Any, list[Member[Kernel]]] = {}
        self._resolved: dict[Any, Resolved] = {}  # by request, until the request is compiled
        # By the identity of the request, which is kept alive, until its schedule is resolved. Of the requests of a
        # launch, most are not used again.
        self._points: dict[int, tuple[Request, Points | None]] = {}
        self._waiting: dict[Any, Lowered] = {}  # lowered but not compiled, by `kind_of`
        self._refused: dict[Any, TileError] = {}

    def kernel(self, request: Request, **options: Any) -> Kernel:
        """Returns the kernel for a request, and compiles it if necessary. Raises TileError."""
        given = tuple((name, exact_key(options[name])) for name in sorted(options))
        own = request_key(request)
        kernel = self._kernels.get((own, given))
        if kernel is None:
            kernel = self._new(self._resolve(own, request), given, options)
            keep(self._kernels, (own, given), kernel, MOST_REQUESTS)
        return kernel

    def __iter__(self) -> Iterator[Kernel]:
        """Iterates over the kernels compiled so far, each once."""
        made = (member.kernel for members in self._families.values() for member in members)
        return iter({id(kernel): kernel for kernel in made}.values())

    def built(self, request: Request) -> Variant:
        """Builds the variant of a request and runs its passes, but not LLVM. A later call of `kernel` reuses the
        result. Raises TileError."""
        resolved = self.resolved(request)
        family = resolved.family
        if (member := _serving(self._members(family, ()), resolved.divisors)) is not None:
            return member.variant
        return self._lowered(family, resolved).variant

    def resolved(self, request: Request) -> Resolved:
        """Returns the evaluated schedule of a request. The result is cached, because cost functions, `built` and
        `kernel` need it one after the other."""
        return self._resolve(request_key(request), request)

    def _resolve(self, key: tuple, request: Request) -> Resolved:
        found = self._resolved.pop(key, None)
        if found is None:
            _, points = self._points.pop(id(request), (request, None))
            found = resolve(self.program, request, points, may_share=True)
        keep(self._resolved, key, found, MOST_WAITING)
        return found

    def points(self, request: Request) -> Points | None:
        """Returns the combinations of `tune` values in a request's schedule, cheapest first, or None if the schedule
        states no cost. Evaluates nothing else, because a launch rejects most of the schedules that it compares."""
        found = points_of(self.program, request)
        keep(self._points, id(request), (request, found), MOST_WAITING)
        return found

    @rare_collections()
    def _lowered(self, family: tuple, resolved: Resolved) -> Lowered:
        kind = kind_of(family, resolved)
        # A refused request is often repeated, because `fits` is evaluated at each call with new shapes.
        if kind in self._refused:
            raise self._refused[kind]
        if kind not in self._waiting:
            try:
                own = resolved if resolved.is_own else resolve(self.program, resolved.request)
                lowered = lower(self.program, resolved.request, resolved=own)
            except TileError as error:
                keep(self._refused, kind, error, MOST_REQUESTS)
                raise
            keep(self._waiting, kind, lowered, MOST_WAITING)
        return self._waiting[kind]

    def _members(self, family: tuple, given: tuple) -> list[Member[Kernel]]:
        """Returns the compiled variants of a family. Those that other processes have compiled are read from the compile
        cache once, unless the compiler was given options."""
        members = self._families.get((family, given))
        if members is None:
            members = self._families[family, given] = []
            kernels: dict[str, tuple[KeptCompiled, Kernel]] = {}
            for each, ptx in self._kept.find(family) if self._kept is not None and not given else ():
                if ptx not in kernels:
                    served = compiled_again(lambda: self.program, each.served, ptx)
                    kernels[ptx] = served, self.made(served)
                served, kernel = kernels[ptx]
                own = served if each.request == each.served else compiled_again(lambda: self.program, each.request, "")
                members.append(Member(each.divisors, each.code, own, served, kernel))
        return members

    def _keep(self, family: tuple, members: Sequence[Member[Kernel]]) -> None:
        if self._kept is not None:
            rows = [(_request(m.own), dict(m.divisors), m.code, m.served.ptx, _request(m.served)) for m in members]
            self._kept.keep(family, rows)

    @rare_collections()
    def _new(self, resolved: Resolved, given: tuple, options: dict[str, Any]) -> Kernel:
        family, divisors = resolved.family, resolved.divisors
        members = self._members(family, given)
        if (known := _serving(members, divisors)) is not None:
            return known.kernel
        import_generator()
        less = [member for member in members if member.asks_less(divisors)]
        llvm_level = options.pop("llvm_level", None)
        if options:
            lowered = lower(self.program, resolved.request, **options)
        else:
            lowered = self._lowered(family, resolved)
            del self._waiting[kind_of(family, resolved)]
        compiled = compile_lowered(self.program, lowered, llvm_level, {m.code: m.served.body for m in members})
        code = code_digest(compiled.llvm)
        same = next((m for m in less if m.code == code), None)
        served, kernel = (compiled, self.made(compiled)) if same is None else (same.served, same.kernel)
        member = Member(divisors, code, compiled, served, kernel)
        before = {id(m.kernel) for m in members}
        equal = {id(m) for m in members if m.code == code and member.asks_less(m.divisors)}
        members[:] = [replace(m, kernel=kernel, served=served) if id(m) in equal else m for m in members]
        # An old kernel may serve requests with several divisors, of which the new kernel serves only some. Replacing
        # the old kernel for all of these requests made 47 of 300 random calls of attention fail (requires t % 2 == 0).
        gone = before - {id(m.kernel) for m in members}
        self._kernels |= {key: member.kernel for key, known in self._kernels.items() if id(known) in gone}
        members.append(member)
        if not given:
            self._keep(family, members)
        return member.kernel


def _request(compiled: Compiled | KeptCompiled) -> Request:
    """Returns the request for which code was compiled. Options that a pass refused are found again."""
    found = compiled.request if isinstance(compiled, KeptCompiled) else compiled.variant.request
    return replace(found, retreats={}) if found.retreats else found
