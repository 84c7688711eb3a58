"""The Python face: `load` and `parse` give a Module; its dispatches and kernels are called with arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property
from itertools import combinations, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsFloat, TypeGuard

from dsl.calls.dispatch import (
    ArrayFacts,
    FromCall,
    Plan,
    Planner,
    Workspace,
    check_array,
    match_array,
    parameters_of,
    read_in_order,
)
from dsl.calls.tuned import Tuned, stale_errors, tuned_path
from dsl.calls.tuned_file import usable
from dsl.kernels.compile import Compiled
from dsl.kernels.variant import Request, Variant, stride_class
from dsl.kernels.variants import Variants
from dsl.text import tree as ast
from dsl.text.program import Program, dim_names, parse_program
from dsl.text.program import load as load_program
from lowering.choices import Asked
from lowering.location import Errors, TileError, closest
from lowering.targets import Target, target
from lowering.types import DTYPES

if TYPE_CHECKING:
    from runtime import DeviceFacts


def load(
    path: str | Path,
    device: str = "auto",
    arch: str | None = None,
    strict_bounds: bool = False,
    choose: Mapping[str, str] | Asked | None = None,
) -> Module:
    """The module of a `.tile` file. `device` as for `runtime.Kernel`; `arch` as for `Module`. Raises TileError.

    With `strict_bounds` its kernels assert that index tiles lie inside of their axes, wherever they run. `choose`:
    options of choices by key, for all kernels that have them; `Module.asked.check()` is an error for one that no kernel
    had.
    """
    return Module(load_program(path), device, arch, strict_bounds, choose)


def parse(
    text: str, name: str = "<text>", device: str = "auto", arch: str | None = None, strict_bounds: bool = False
) -> Module:
    """The module of a text; nothing can be imported in it. Raises TileError. The rest as for `load`."""
    return Module(parse_program(text, name), device, arch, strict_bounds)


class Module:
    """A `.tile` file: `m.softmax(x)` plans, compiles and launches; `m.compile(kernel, …)` gives one variant.

    `arch`: the target that calls and `compile` compile for, and that an emulated device is of; the device's own
    without it (`sm_90` on an H100, whose `sm_90a` is to be asked for: its PTX loads on nothing later). Compiled
    variants are kept as long as the module.
    """

    def __init__(
        self,
        program: Program,
        device: str = "auto",
        arch: str | None = None,
        strict_bounds: bool = False,
        choose: Mapping[str, str] | Asked | None = None,
    ):
        self.program, self.device, self.strict_bounds = program, device, strict_bounds
        self.asked = choose if isinstance(choose, Asked) else Asked(dict(choose or {}))
        self._asked = None if arch is None else target(arch)
        self._tuned: Tuned | None = None
        self.variants = Variants(program, lambda compiled: CompiledKernel(compiled, device))
        self._functions: dict[str, ModuleFunction] = {}

    def __repr__(self) -> str:
        return f"<Module {self.program.source.name}: {', '.join([*self.program.dispatches, *self.program.kernels])}>"

    def __getattr__(self, name: str) -> ModuleFunction:
        if name.startswith("_"):
            raise AttributeError(f"a module has no '{name}'")
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(error.args[0]) from None

    def __getitem__(self, name: str) -> ModuleFunction:
        """A kernel or dispatch of any name: `m["compile"]`, which as an attribute is the module's own."""
        known = [*self.program.dispatches, *self.program.kernels]
        if name not in known:
            message = f"{self.program.source.name} has no kernel or dispatch '{name}'"
            raise KeyError("; ".join(filter(None, [message, closest(name, known)])))
        function = self._functions.get(name)
        if function is None:
            function = self._functions[name] = ModuleFunction(self, name)
        return function

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.program.dispatches, *self.program.kernels]

    @property
    def arch(self) -> str:
        """The target that calls compile for."""
        return self._place()[0].arch

    def _place(self) -> tuple[Target, DeviceFacts]:
        """The target that calls compile for, and their device in numbers. TileError `target` where no row fits it."""
        from runtime import device_facts

        facts = device_facts(self.device, *([] if self._asked is None else [self._asked.arch]))
        return self._asked or target(facts.arch), facts

    @property
    def tuned(self) -> Tuned:
        """What `dsl tune --write` left beside the file, read once. TileError `tuned` where it does not fit the
        file; one that is no JSON is set aside, with a warning."""
        if self._tuned is None:
            path = self.program.path
            tuned = Tuned() if path is None else usable(tuned_path(path))
            if errors := stale_errors(tuned, self.program):
                raise Errors(errors)
            self._tuned = tuned
        return self._tuned

    def compile(
        self,
        kernel: str,
        schedule: str | None = None,
        *,
        types: Mapping[str, str] | None = None,
        arch: str | None = None,
        align: Mapping[str, int] | None = None,
        absent: frozenset[str] | set[str] = frozenset(),
        options: Mapping[str, Any] | None = None,
        **values: Any,
    ) -> CompiledKernel:
        """One variant of `kernel`. `values`: dims, constants, names that the schedule sets, scalars to specialise.

        Without `schedule` the kernel's first one is taken. A type parameter may be given in `types` or as T="f16".
        """
        node = self.program.kernel(kernel)
        if schedule is None:
            schedule = next(iter(self.program.schedules_of(kernel)), None)
        dims, constants, scalars, chosen = split_values(self.program, node, values)
        request = Request(
            kernel,
            schedule,
            dims,
            {**chosen, **(types or {})},
            constants,
            scalars,
            dict(align or {}),
            frozenset(absent),
            arch or self.arch,
        )
        return self.variant(request, **(options or {}))

    def variant(self, request: Request, **options: Any) -> CompiledKernel:
        """The kernel of a request, compiled once for all requests of its class."""
        kernel = self.variants.kernel(self.as_asked(request), **options)
        self.asked.note(kernel.compiled.variant.function.choices)
        return kernel

    def built(self, request: Request) -> Variant:
        """The variant of a request, lowered: it is not lowered again to be compiled."""
        return self.variants.built(self.as_asked(request))

    def as_asked(self, request: Request) -> Request:
        """A request with what the module says of all its kernels."""
        strict, choices = self.strict_bounds or request.strict_bounds, {**self.asked.options, **request.choices}
        if (strict, choices) == (request.strict_bounds, request.choices):
            return request
        return replace(request, strict_bounds=strict, choices=choices)


class Names(NamedTuple):
    """What can be given of a kernel by name."""

    dims: set[str]
    types: set[str]
    constants: set[str]
    scalars: set[str]


def split_names(program: Program, kernel: ast.Kernel) -> Names:
    """The names of a kernel's dims, type parameters, constants and scalars."""
    return Names(
        set(dim_names(kernel)),
        {c.name for c in kernel.constants if c.types is not None},
        set(program.settable(kernel.name)),
        {p.name for p in kernel.params if isinstance(p.type, ast.ScalarType)},
    )


def split_values(
    program: Program, kernel: ast.Kernel, values: Mapping[str, Any]
) -> tuple[dict[str, int], dict[str, Any], dict[str, Any], dict[str, str]]:
    """(dims, constants, scalars, types) of names given together; TileError for an unknown one."""
    names = split_names(program, kernel)
    dims_known, type_names, constant_names, scalar_names = names.dims, names.types, names.constants, names.scalars
    dims: dict[str, int] = {}
    constants: dict[str, Any] = {}
    scalars: dict[str, Any] = {}
    types: dict[str, str] = {}
    for name, value in values.items():
        if name in type_names:
            types[name] = str(value)
        elif name in dims_known and name not in constant_names:
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise TileError("call", None, f"dim '{name}' is a count; got {value!r}")
            dims[name] = value
        elif name in constant_names:
            constants[name] = value
        elif name in scalar_names:
            scalars[name] = value
        else:
            known = dims_known | constant_names | scalar_names | type_names
            hint = closest(name, known) or f"known: {', '.join(sorted(known))}"
            raise TileError("name", None, f"kernel '{kernel.name}' has no dim, constant or scalar '{name}'", hint)
    return dims, constants, scalars, types


class CompiledKernel:
    """One variant: its stages as text, and a launch.

    `ir`, `llvm`, `ptx`: text. `k(y, x)` checks and launches; `k.bind(y, x)()` is a prepared launch; `k.run(…)` waits
    and gives a `runtime.LaunchResult`.
    """

    def __init__(self, compiled: Compiled, device: str = "auto"):
        from runtime import Kernel

        self.compiled = compiled
        self.kernel = Kernel(compiled.ptx, device=device)
        self.bind = self.kernel.bind
        self.run = self.kernel.run

    def __repr__(self) -> str:
        return f"<CompiledKernel {self.compiled.header.label} for {self.compiled.header.arch}>"

    @property
    def ir(self) -> str:
        return self.compiled.ir

    @property
    def llvm(self) -> str:
        return self.compiled.llvm

    @property
    def ptx(self) -> str:
        return self.compiled.ptx

    def __call__(self, *arguments: Any, **named: Any) -> None:
        self.kernel(*arguments, **named)


class ModuleFunction:
    """A dispatch or a kernel of a module, to call with arrays.

    `y = m.softmax(x)` allocates and returns the outputs, which are the first parameters; `m.softmax(y, x)` writes
    into them. Options of the dispatch and constants go by name.
    """

    def __init__(self, module: Module, name: str):
        self.module, self.name = module, name
        program = module.program
        if name in program.dispatches:
            self.params = program.dispatches[name].params
            self.parameters: dict[str, ast.Parameter] = {}
            self.kernels: dict[str, ast.Kernel] = {}
            self.passed = parameters_of(program, program.dispatches[name])
            for kernel, argument, p in self.passed:
                self.parameters.setdefault(argument, p)
                self.kernels.setdefault(argument, kernel)
            launches = [s for s in ast.walk(program.dispatches[name].lines) if isinstance(s, ast.Launch)]
            used = dict.fromkeys(launch.name for launch in launches if launch.name in program.kernels)
            self.launched = [program.kernels[kernel] for kernel in used]
        else:
            node = program.kernels[name]
            self.params = [p.name for p in node.params]
            self.parameters = {p.name: p for p in node.params}
            self.kernels = dict.fromkeys(self.params, node)
            self.launched = [node]
            self.passed = [(node, p.name, p) for p in node.params]
        self._plans: dict[Any, BoundPlan] = {}
        self._recent: Any = None  # the one kernel of the last plan, when the call's arguments are its own

    def __repr__(self) -> str:
        return f"<{self.name}({', '.join(self.params)}) of {self.module.program.source.name}>"

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if not named and self._recent is not None and self._recent.launch_known(arguments):
            return None
        return self._call(arguments, named)

    def _call(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        given, rest = self.order(arguments, named)
        self.check_kinds(given)
        outputs, like = self.allocate(given)
        plan = self.plan_for(given, rest)
        plan.check_outputs(outputs)
        plan.launch(given)
        if not outputs:
            if plan.is_direct and not rest:
                self._recent = plan.kernels[0].kernel
            return None
        from runtime import finish_like

        made = tuple(finish_like(like, given[name]) for name in outputs)
        return made[0] if len(made) == 1 else made

    def order(
        self, arguments: tuple[Any, ...], named: dict[str, Any], makes_outputs: bool = True
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The call's arguments by parameter name, and what is left by name (options, constants).

        `makes_outputs`: whether outputs may be left out. TileError where the arguments can be read in two ways.
        """
        rest = {k: self.plain(k, v) for k, v in named.items() if k not in self.params}
        by_name = {k: v for k, v in named.items() if k in self.params}
        free = [p for p in self.params if p not in by_name]
        required = [p for p in free if not self.is_optional(p)]
        count = len(arguments)
        if count > len(free):
            takes = f"{self.name} takes {len(self.params)} arguments"
            raise TileError("call", None, f"{takes}; got {count + len(by_name)}", ", ".join(self.params))
        readings = self.readings(free, count, makes_outputs)
        if len(readings) > 1:
            fitting = [r for r in readings if self.fits(dict(zip(r, arguments, strict=True)) | by_name)]
            if len(fitting) > 1:
                raise self.ambiguous(fitting, by_name)
            readings = fitting or readings
        if not readings and makes_outputs and count + len(by_name):
            outputs = len(list(takewhile(lambda p: p in self.accesses[0], required)))
            takes = f"it takes {', '.join(self.params)}"
            raise TileError("call", None, f"{self.name} needs '{required[outputs + count]}'", takes)
        taken = readings[0] if readings else read_in_order(free, set(free) - set(required), count)
        given = dict(zip(taken, arguments, strict=False)) | by_name  # what is missing, its user tells
        return {p: given.get(p) for p in self.params}, rest

    def readings(self, free: list[str], count: int, makes_outputs: bool) -> list[list[str]]:
        """The ways to read `count` arguments as some of the parameters `free`: outputs in front may be left out, any of
        those that are never read, and the last optional tensors."""
        required = [p for p in free if not self.is_optional(p)]
        optional = [p for p in free if self.is_optional(p)]
        written, read = self.accesses
        outputs = list(takewhile(lambda p: makes_outputs and p in written, required))
        pure = list(takewhile(lambda p: p not in read, outputs))
        found = []
        for number in range(len(outputs) + 1):
            given = count - (len(required) - number)
            if 0 <= given <= len(optional):
                for left_out in dict.fromkeys([tuple(outputs[:number]), *combinations(pure, number)]):
                    found.append(read_in_order(free, optional, count, left_out))
        return found

    @cached_property
    def strided(self) -> set[str]:
        """Arguments that some kernel of the call takes with any strides."""
        return {argument for _, argument, p in self.passed if isinstance(p.type, ast.TensorType) and p.type.strided}

    @cached_property
    def accesses(self) -> tuple[set[str], set[str]]:
        """(tensors that some kernel of the call may write, those that one may read), as far as the text tells."""
        of = {kernel.name: tensors_used(kernel) for kernel, _, _ in self.passed}
        written = {argument for kernel, argument, p in self.passed if p.name in of[kernel.name][0]}
        return written, {argument for kernel, argument, p in self.passed if p.name in of[kernel.name][1]}

    def fits(self, given: Mapping[str, Any]) -> bool:
        """Whether these arguments can be those parameters: kinds, ranks, element types and shapes agree, and the shapes
        of the outputs follow."""
        from runtime import describe, is_array

        bound: dict[str, tuple[dict[str, int], dict[str, str]]] = {}
        for name, value in given.items():
            p = self.parameters.get(name)
            if p is None or (value is None and p.is_optional):
                continue
            if isinstance(p.type, ast.TensorType) != is_array(value):
                return False
            if not isinstance(p.type, ast.TensorType):
                continue
            kernel, array = self.kernels[name], describe(value)
            choices = {c.name: c.types for c in kernel.constants if c.types is not None}
            facts = ArrayFacts(tuple(array.shape), array.dtype)
            try:
                match_array(kernel, p, p.type, facts, *bound.setdefault(kernel.name, ({}, {})), choices)
            except TileError:
                return False
        known = {d for dims, _ in bound.values() for d in dims}
        missing = [self.parameters[n] for n in self.params if n not in given and not self.is_optional(n)]
        return all(
            isinstance(p.type, ast.TensorType)
            and all(isinstance(d, ast.Number) or (isinstance(d, ast.Name) and d.id in known) for d in p.type.dims)
            for p in missing
        )

    def ambiguous(self, readings: list[list[str]], by_name: Mapping[str, Any]) -> TileError:
        """The error for arguments that can be read in two ways."""
        program = self.module.program
        node = program.dispatches.get(self.name) or program.kernels[self.name]
        absent = "" if not any(map(self.is_optional, self.params)) else "; None for an optional tensor that is absent"
        ways = [f"{self.name}({', '.join(reading)})" for reading in readings]
        named = [f"{self.name}({', '.join(f'{p}={p}' for p in reading)})" for reading in readings]
        hint = f"say which by name: {' or '.join(named)}{absent}"
        return TileError("call", node.loc, f"these arguments can be read as {' or '.join(ways)}", hint)

    def plain(self, name: str, value: Any) -> Any:
        """The value of an option, constant or dim, or of `schedule`, as a plain one. TileError for an unknown name and
        for what is no such value."""
        if name not in self.known:
            message = f"{self.name} has no parameter, option or constant '{name}'"
            names = list(dict.fromkeys([*self.params, *self.known]))
            raise TileError("name", None, message, closest(name, names) or f"known: {', '.join(names)}")
        if name == "schedule" and not (value is None or isinstance(value, str)):
            raise TileError("call", None, f"'schedule' takes a schedule's name, not {in_words(value)}")
        if isinstance(value, bool | int | float | str | None):
            return value
        number = plain_number(value)
        if number is None:
            raise TileError("call", None, f"'{name}' takes a number or a name, not {in_words(value)}")
        return number

    @cached_property
    def known(self) -> list[str]:
        """What a call takes by name beside parameters."""
        program = self.module.program
        dispatch = program.dispatches.get(self.name)
        found = {line.name: None for line in dispatch.lines if isinstance(line, ast.Option)} if dispatch else {}
        for kernel in self.launched:
            names = split_names(program, kernel)
            found |= dict.fromkeys([*names.types, *names.constants, *names.dims, *names.scalars])
        return [*found, "schedule"]

    def check_kinds(self, given: Mapping[str, Any]) -> None:
        """TileError for an argument that is no array where one is wanted, no number or no table."""
        from runtime import LaunchError, is_array
        from runtime.frameworks import framework_of

        for name, value in given.items():
            if value is None or is_array(value):
                continue
            p = self.parameters.get(name)
            kind, loc = (None, None) if p is None else (p.type, p.loc)
            if isinstance(kind, ast.TensorType):
                try:
                    framework_of(value)
                except LaunchError as error:
                    raise TileError("call", loc, f"'{name}' is an array; {error.message}", error.hint) from None
            elif isinstance(kind, ast.TableType) and isinstance(value, list | tuple):
                wrong = next((v for v in value if plain_number(v) is None), None)
                if wrong is not None:
                    raise TileError("call", loc, f"'{name}' is a table of numbers; it has {in_words(wrong)}")
            elif plain_number(value) is None:
                what = "a table" if isinstance(kind, ast.TableType) else "a number"
                raise TileError("call", loc, f"'{name}' is {what}; got {in_words(value)}")

    def is_optional(self, name: str) -> bool:
        p = self.parameters.get(name)
        return p is not None and p.is_optional

    def facts(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """What planning needs of each argument."""
        from runtime import describe, is_array

        out: dict[str, Any] = {}
        for name, value in given.items():
            if value is None:
                out[name] = None
            elif is_array(value):
                array = describe(value)
                strides = stride_class(array.strides) if name in self.strided else None
                out[name] = ArrayFacts(tuple(array.shape), array.dtype, pointer_class(array.pointer), strides)
            else:
                out[name] = tuple(value) if isinstance(value, list | tuple) else plain_number(value)
        return out

    def allocate(self, given: dict[str, Any]) -> tuple[list[str], Any]:
        """Makes the outputs that were not given, like the first array given; their names, and that array."""
        from runtime import describe, empty_like, is_array

        missing = [n for n, v in given.items() if v is None and not self.is_optional(n)]
        if not missing:
            return [], None
        arrays = {n: v for n, v in given.items() if v is not None and is_array(v)}
        if not arrays:
            raise TileError("call", None, f"{self.name} takes {', '.join(self.params)}; no array was given")
        dims: dict[str, int] = {}
        types: dict[str, str] = {}
        for name, value in arrays.items():
            p = self.parameters.get(name)
            array = describe(value)
            if p is None or not isinstance(p.type, ast.TensorType):
                continue
            types_of = {c.name: c.types for c in self.kernels[name].constants if c.types is not None}
            check_array(p, p.type, array.shape, array.dtype, types_of)
            types.setdefault(p.type.dtype, array.dtype)
            dims |= {d.id: e for d, e in zip(p.type.dims, array.shape, strict=True) if isinstance(d, ast.Name)}
        like = next(iter(arrays.values()))
        for name in missing:
            p = self.parameters.get(name)
            if p is None or not isinstance(p.type, ast.TensorType):
                raise TileError("call", None, f"{self.name} needs '{name}'")
            shape = []
            for d in p.type.dims:
                extent = d.value if isinstance(d, ast.Number) else dims.get(d.id) if isinstance(d, ast.Name) else None
                if extent is None:
                    raise TileError(
                        "call", p.loc, f"the shape of the output '{name}' does not follow from the inputs", "pass it"
                    )
                shape.append(int(extent))
            dtype = types.get(p.type.dtype, p.type.dtype)
            if dtype not in DTYPES:
                raise TileError(
                    "call", p.loc, f"the type of the output '{name}' does not follow from the inputs", "pass it"
                )
            given[name] = empty_like(like, tuple(shape), dtype)
        return missing, like

    def plan_for(self, given: Mapping[str, Any], rest: dict[str, Any]) -> BoundPlan:
        facts = self.facts(given)
        key = (tuple(facts.values()), tuple(sorted(rest.items())))
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = BoundPlan(self, self.plan(facts, **rest))
        return plan

    def plan(self, facts: Mapping[str, Any], schedule: str | None = None, **rest: Any) -> Plan:
        """Which launches serve arguments with these facts. `rest`: options of the dispatch, and constants."""
        return self.planner(facts, schedule, None if schedule is not None else self.module.tuned, **rest).plan()

    def planner(
        self, facts: Mapping[str, Any], schedule: str | None = None, tuned: Tuned | None = None, **rest: Any
    ) -> Planner:
        """The planner of a call for this module's device."""
        program, module = self.module.program, self.module
        place, device = module._place()
        dispatch = program.dispatches.get(self.name)
        known = {line.name for line in dispatch.lines if isinstance(line, ast.Option)} if dispatch else set()
        options = {k: v for k, v in rest.items() if k in known}
        constants = {k: v for k, v in rest.items() if k not in known}
        self.check_constants(constants)
        built = module.built
        return Planner(
            program, self.name, facts, place, device.sms, constants, options, schedule, None, device.name, tuned, built
        )

    def check_constants(self, constants: Mapping[str, Any]) -> None:
        for name in constants:
            for kernel in self.launched:
                try:
                    split_values(self.module.program, kernel, {name: constants[name]})
                    break
                except TileError as error:
                    failure = error
            else:
                raise failure


def tensors_used(kernel: ast.Kernel) -> tuple[set[str], set[str]]:
    """(names that a kernel stores to, names that it reads); what it gives to a function whole is both."""
    written, read, targets = set(), set(), set()
    for node in ast.walk(kernel.body):
        stores: list[ast.Expr] = []
        if isinstance(node, ast.Assign):
            stores = node.targets if node.op is None else []
            written |= {t.value.id for t in node.targets if is_part(t)}
        elif isinstance(node, ast.Call):
            name = node.function.id if isinstance(node.function, ast.Name) else ""
            arguments = [*node.args, *node.keywords.values()]
            whole = {a.id for a in arguments if isinstance(a, ast.Name)}
            written |= whole
            read |= whole
            stores = node.args[:1] if name == "store" else []
            written |= {a.value.id for a in arguments if is_part(a) and name.startswith("atomic")}
        elif is_part(node) and node not in targets:
            read.add(node.value.id)
        parts = {s for s in stores if is_part(s)}
        written |= {s.value.id for s in parts}
        targets |= parts
    return written, read


def is_part(node: Any) -> TypeGuard[Any]:
    """True of `name[…]`."""
    return isinstance(node, ast.Index) and isinstance(node.value, ast.Name)


def plain_number(value: Any) -> bool | int | float | None:
    """A Python number of a Python or numpy one, or of a Decimal and the like; None of anything else."""
    from runtime.dtypes import is_masked

    if isinstance(value, bool | int | float):
        return value
    if is_masked(value) or isinstance(value, str | bytes | complex):
        return None
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        found = value.item()
        return found if isinstance(found, bool | int | float) else None
    return float(value) if isinstance(value, SupportsFloat) and not hasattr(value, "shape") else None


def in_words(value: Any) -> str:
    """An argument in words."""
    from runtime.frameworks import named

    return named(value)


def pointer_class(pointer: int) -> int:
    """16, 8, 4, 2 or 1: what an address is a multiple of."""
    return min(16, pointer & -pointer) if pointer else 16


class BoundPlan:
    """A plan with its kernels compiled, or given, and its workspaces allocated."""

    def __init__(self, function: ModuleFunction, plan: Plan, kernels: list[Any] | None = None):
        self.plan, self.program = plan, function.module.program
        self.shares = any(isinstance(a, Workspace) for step in plan.steps for a in step.arguments)
        self.kernels = kernels or [function.module.variant(step.request) for step in plan.steps]
        self.workspaces: dict[int, tuple[str, Workspace, Any]] = {}  # (parameter, as planned, memory) by identity
        self.is_direct = len(plan.steps) == 1 and plan.steps[0].arguments == [FromCall(p) for p in function.params]

    def launch(self, given: Mapping[str, Any]) -> None:
        arguments = [self.arguments(step, given) for step in self.plan.steps]
        with self.call() if self.shares else nullcontext():
            for kernel, values in zip(self.kernels, arguments, strict=True):
                kernel(*values)

    @contextmanager
    def call(self) -> Iterator[None]:
        """Around the launches of one call, once their arguments are made: what it may read and leave in workspaces.

        Workspaces in host memory are checked: FindingError. After a call that failed new ones are made, since a zeroed
        one may hold what its kernels have not taken back.
        """
        from runtime.scratch import ScratchArray

        shared = [(name, w, made) for name, w, made in self.workspaces.values() if isinstance(made, ScratchArray)]
        for _, _, made in shared:
            made.scratch.begin()
        try:
            yield
            for name, workspace, made in shared:
                if workspace.zero:
                    made.check_zero(name, workspace.text, workspace.location)
        except Exception:
            self.workspaces.clear()
            raise

    def check_outputs(self, names: list[str]) -> None:
        """What the call left out must not be read before it is written."""
        for name in names:
            for step, kernel in zip(self.plan.steps, self.kernels, strict=True):
                if FromCall(name) not in step.arguments:
                    continue
                param = kernel.compiled.header.params[step.arguments.index(FromCall(name))]
                if getattr(param, "access", "w") != "w":
                    raise TileError(
                        "call", None, f"'{name}' was not given, and {step.request.kernel} reads it", "pass it"
                    )
                break

    def arguments(self, step: Any, given: Mapping[str, Any]) -> list[Any]:
        params = self.program.kernels[step.request.kernel].params
        return [self.argument(a, p.name, given) for a, p in zip(step.arguments, params, strict=True)]

    def argument(self, argument: Any, name: str, given: Mapping[str, Any]) -> Any:
        """What the kernel's parameter `name` takes."""
        if isinstance(argument, FromCall):
            return given[argument.name]
        if isinstance(argument, Workspace):
            known = self.workspaces.get(id(argument))
            if known is None:
                known = self.workspaces[id(argument)] = (name, argument, allocate_workspace(argument, given))
            return known[2]
        return argument


def allocate_workspace(workspace: Workspace, given: Mapping[str, Any]) -> Any:
    """Scratch memory where the call's arrays are."""
    import numpy as np

    from dsl.values.element_types import numpy_type
    from runtime import describe, empty_like, is_array, to_device
    from runtime.scratch import make_scratch

    like = next(v for v in given.values() if v is not None and is_array(v))
    device = describe(like).device
    if device is None:
        return make_scratch(workspace.shape, numpy_type(DTYPES[workspace.dtype]), workspace.zero)
    if workspace.zero:
        return to_device(np.zeros(workspace.shape, numpy_type(DTYPES[workspace.dtype])), device)
    return empty_like(like, workspace.shape, workspace.dtype)
