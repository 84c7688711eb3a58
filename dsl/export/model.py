"""What `dsl export` writes, as data: a function with its arguments, and for each target the calls that it takes. A call
is planned and compiled as `dsl run` would do it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dsl.calls.called import Called
from dsl.calls.plan import FromCall, Step, Workspace
from dsl.calls.signature import parameter_of
from dsl.export.decided import CallCondition, decisions
from dsl.kernels.compile import compile_variant, import_generator
from dsl.kernels.launch_header import file_name
from dsl.kernels.request import Request
from dsl.lowering.ir.location import TileError
from dsl.runtime.dtypes import DTYPES, in_type
from dsl.runtime.header import Header, HeaderTable, HeaderTensor, Scalar, write
from dsl.text.program import Program
from dsl.values.facts import ArrayFacts

KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        """
    auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while bool true false
    class new delete this template namespace operator private public protected try catch throw using virtual asm
    typename and or not xor NULL apart workspace workspace_bytes zeros zeros_bytes""",
    )
)
"""Words that are no field of the arguments in C or C++, and fields that exported functions have for themselves."""
FUNCTIONS = frozenset(
    re.findall(
        r"\w+",
        """
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs fdim floor fma fmax
    fmin fmod frexp gamma hypot ilogb isfinite isinf isnan isnormal j0 j1 jn ldexp lgamma llrint llround log log10 log1p
    log2 logb lrint lround main modf nan nearbyint nextafter pow printf remainder remove remquo rename rint round scalbn
    signbit sin sinh sqrt tan tanh tgamma trunc y0 y1 yn""",
    )
)
"""Functions of C's library that exported files see. No exported function may have such a name."""
Compiles = Callable[[Request], tuple[Header, str]]
PTX_FILE = re.compile(r'^(\s*\.file\s+\d+\s+)"([^"]*)"', re.M)


class ExportedArray(Struct, frozen=True):
    """An array argument. `extents` are the fields or numbers of its axes. `field` is its field, and `strides` the field
    of its strides, or None if it is row-major."""

    name: str
    field: str
    dtype: str
    extents: tuple[str, ...]
    strides: str | None
    optional: bool
    written: bool
    read: bool


class ExportedNumber(Struct, frozen=True):
    """A number, or a table of `length` numbers."""

    name: str
    field: str
    dtype: str
    length: int | None = None


class ExportedCode(Struct, frozen=True):
    """A kernel for one target. `ptx` has a header without paths. `record` tells whether it has an assert record."""

    header: Header
    ptx: str
    target: int

    @property
    def body(self) -> str:
        """The PTX without its header."""
        return self.ptx.partition("\n")[2]

    @property
    def record(self) -> bool:
        return any(argument.kind == "record" for argument in self.header.arguments)


class ExportedCall(Struct):
    """A call that an exported function takes, for one target. `codes` are the numbers of its launches' kernels."""

    arguments: Mapping[str, Any]
    dims: Mapping[str, int]
    steps: Sequence[Step]
    codes: Sequence[int]
    decisions: Sequence[CallCondition]
    target: int
    number: int

    @property
    def workspaces(self) -> list[Workspace]:
        """The workspaces of the dispatch. Launches share those that are one object."""
        found = {id(a): a for step in self.steps for a in step.arguments if isinstance(a, Workspace)}
        return list(found.values())


class ExportedFunction(Struct):
    """A function that is exported under `name`. `source` is the name of the `.tile` file."""

    name: str
    source: str
    called: Called
    arrays: dict[str, ExportedArray]
    numbers: dict[str, ExportedNumber]
    dims: dict[str, str]
    targets: Sequence[str]
    codes: list[ExportedCode]
    calls: list[ExportedCall]

    @property
    def has_strides(self) -> bool:
        return any(array.strides for array in self.arrays.values())

    @property
    def has_workspace(self) -> bool:
        return any(call.workspaces for call in self.calls) or any(code.header.workspaces for code in self.codes)

    @property
    def has_records(self) -> bool:
        return any(code.record for code in self.codes)


def without_paths(header: Header, body: str) -> str:
    """Returns PTX with its header, in which files have only names. Elsewhere, the conditions of another file than the
    kernel's have its path, for messages."""
    requires = tuple(replace(each, file=each.file and file_name(each.file)) for each in header.requires)
    body = PTX_FILE.sub(lambda found: f'{found[1]}"{file_name(found[2])}"', body)
    return write(replace(header, requires=requires)) + body


def as_passed(called: Called, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments with the numbers that a call from C passes: those of floats are rounded to their types. So
    the dispatch decides about the same numbers."""
    types = {name: dtype.name for name, dtype in called.bind_names(arguments)[1].items()}
    passed = dict(arguments)
    for name, value in passed.items():
        parameter = parameter_of(called, name)
        dtype = types.get(parameter.type or "", parameter.type)
        if parameter.kind == "array" or dtype not in DTYPES or value is None:
            continue
        with suppress(OverflowError):  # the launch refuses the number
            is_table = isinstance(value, tuple | list)
            passed[name] = tuple(in_type(dtype, each) for each in value) if is_table else in_type(dtype, value)
    return passed


def compiled_anew(program: Program, request: Request) -> tuple[Header, str]:
    """Compiles a variant. Returns its header, and its PTX without one."""
    import_generator()
    compiled = compile_variant(program, request)
    return compiled.header, compiled.body


class Exporter:
    """Plans and compiles the calls of one function. `planner_of_call(arguments of --call, arch)` makes the planner of a
    call. `compiles` returns the header of a request's variant, and its PTX without a header."""

    def __init__(
        self, program: Program, name: str, exported: str, targets: Sequence[str], compiles: Compiles | None = None
    ):
        self.program, self.called = program, program.once(Called, name)
        self.compiles = compiles or partial(compiled_anew, program)
        self.targets, self.exported = targets, exported
        self.codes: list[ExportedCode] = []
        self.calls: list[ExportedCall] = []
        self.fields: set[str] = set(KEYWORDS)

    def add(self, planner: Any, target: int, number: int) -> None:
        """Adds the call of a planner."""
        steps = planner.plan().steps
        codes = [self.code(step, target) for step in steps]
        given = {name: planner.arguments.get(name) for name in self.called.params}
        dims = planner.bound_names[0]
        conditions = decisions(planner, steps, [self.codes[code].header for code in codes])
        self.calls.append(ExportedCall(given, dims, steps, codes, conditions, target, number))

    def code(self, step: Step, target: int) -> int:
        header, body = self.compiles(step.request)
        made = ExportedCode(header, without_paths(header, body), target)
        if made not in self.codes:
            self.codes.append(made)
        return self.codes.index(made)

    def function(self) -> ExportedFunction:
        first = self.calls[0].arguments
        for call in self.calls[1:]:
            self.check_types(first, call.arguments)
        arrays, numbers, dims = dict[str, ExportedArray](), dict[str, ExportedNumber](), dict[str, str]()
        present = {n: a for call in reversed(self.calls) for n, a in call.arguments.items() if a is not None}
        # Arrays and numbers take their own names, and dims what is left.
        own = {name: self.field(name) for name in self.called.params}
        for name in self.called.params:
            if name in self.called.tensors:
                if isinstance(present.get(name), ArrayFacts):
                    arrays[name] = self.array(name, own[name], present[name], dims)
            elif name in present:
                numbers[name] = self.number(name, own[name], present[name])
        what = (self.exported, file_name(self.program.source.name), self.called, arrays, numbers, dims)
        return ExportedFunction(*what, self.targets, self.codes, self.calls)

    def check_types(self, first: Mapping[str, Any], other: Mapping[str, Any]) -> None:
        for name, value in other.items():
            known = first[name]
            if isinstance(value, ArrayFacts) and isinstance(known, ArrayFacts) and known.dtype != value.dtype:
                message = f"'{name}' is {known.dtype} in one call and {value.dtype} in another"
                hint = "pointers in C do not tell their types: export a function for each type, with --name"
                raise TileError("option", None, message, hint)

    def field(self, name: str) -> str:
        """Returns a field of the arguments: the name itself, if it is free."""
        found = re.sub(r"\W", "_", name)
        while found in self.fields:
            found += "_"
        self.fields.add(found)
        return found

    def array(self, name: str, field: str, facts: ArrayFacts, dims: dict[str, str]) -> ExportedArray:
        parameter = self.called.array(name)
        assert parameter is not None
        extents = []
        for axis, dim in enumerate(parameter.dims):
            if isinstance(dim, int):
                extents.append(str(dim))
                continue
            key = dim if isinstance(dim, str) else f"{name}_extent{axis}"
            if key not in dims:
                dims[key] = self.field(key)
            extents.append(dims[key])
        strides = self.field(f"{field}_strides") if name in self.called.strided else None
        written, read = (name in each for each in self.called.accesses)
        return ExportedArray(
            name, field, facts.dtype, tuple(extents), strides, name in self.called.optional, written, read
        )

    def number(self, name: str, field: str, value: Any) -> ExportedNumber:
        types = {
            (param.dtype, param.length if isinstance(param, HeaderTable) else None)
            for call in self.calls
            for step, code in zip(call.steps, call.codes, strict=True)
            for param, argument in zip(self.codes[code].header.params, step.arguments, strict=True)
            if not isinstance(param, HeaderTensor) and argument == FromCall(name)
        }
        if len(types) > 1:
            takes = " and ".join(sorted(dtype for dtype, _ in types))
            raise TileError(
                "option", None, f"kernels of '{self.called.name}' take '{name}' as {takes}", "export a kernel"
            )
        if types:
            return ExportedNumber(name, field, *types.pop())
        # A number that a dispatch only calculates with.
        dtype = "i1" if isinstance(value, bool) else "s64" if isinstance(value, int) else "f64"
        return ExportedNumber(name, field, dtype, len(value) if isinstance(value, tuple) else None)


def scalar_params(header: Header) -> list[Scalar]:
    return [param for param in header.params if isinstance(param, Scalar)]
