"""The Python API. `load` and `parse` return a Module. The kernels and dispatches of a Module are called with arrays."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from copy import copy
from functools import cached_property
from inspect import Signature
from operator import getitem
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from dsl.calls.arguments import are_of_kinds, class_of, facts_of, in_words, order, plain_number, shape_facts
from dsl.calls.front import CallFront
from dsl.calls.kept import KeptCalls, plan_of
from dsl.calls.plan import BoundPlan, Output, Plan
from dsl.calls.short_way import MOST_WAYS, short_way
from dsl.kernels.kept_variants import KeptCompiled, compiled_again
from dsl.kernels.loaded import LoadedProgram, load_lazily, parse_lazily
from dsl.kernels.request import Request, stride_class
from dsl.lowering.ir.limits import most_elements
from dsl.lowering.ir.location import Errors, TileError, closest
from dsl.lowering.ir.targets import Target, target
from dsl.runtime.call_classes import CallClasses
from dsl.runtime.untraced import is_traced, untraced

# A first call from the compile cache imports neither the parser nor the compiler. They are imported where they are
# used, below.
if TYPE_CHECKING:
    from dsl.calls.called import Called
    from dsl.calls.origin import Origin
    from dsl.calls.planner import Planner
    from dsl.calls.signature import CallSignature
    from dsl.calls.tuned import Tuned
    from dsl.kernels.compile import Compiled
    from dsl.kernels.variant import Variant
    from dsl.kernels.variants import Variants
    from dsl.lowering.ir.choices import Asked
    from dsl.runtime import DeviceFacts, Kernel, LaunchResult
    from dsl.schedules import Points
    from dsl.text import tree as ast
    from dsl.text.heads import KernelHead
    from dsl.text.program import Program

MOST_PLANS = 1024
"""The greatest number of plans that one function keeps, one per class of calls. The number is limited because a service
may get new shapes with every request."""


def load(
    path: str | Path,
    device: str = "auto",
    arch: str | None = None,
    strict_bounds: bool = False,
    choose: Mapping[str, str] | Asked | None = None,
    plugins: Sequence[str | Path] = (),
    name: str | None = None,
) -> Module:
    """Reads a `.tile` file and returns its Module. `device` is as in `dsl.runtime.Kernel`. `arch` is as in `Module`.
    `plugins` are Python files that extend the compiler, for this module alone (docs/plugins.md). Raises TileError.

    With `strict_bounds`, kernels check at run time that tiles used as indices are inside their axes, on any device.
    `choose` maps keys of compiler choices to options, for all kernels that have these choices. `Module.asked.check()`
    raises an error for a key that no kernel had. `name` is the name of the file in errors, by default its path."""
    return Module(load_lazily(path, name, plugins), device, arch, strict_bounds, choose)


def parse(
    text: str, name: str = "<text>", device: str = "auto", arch: str | None = None, strict_bounds: bool = False
) -> Module:
    """Makes a module from the text of a `.tile` file. The text cannot import files. Raises TileError. The other
    parameters are as in `load`."""
    return Module(parse_lazily(text, name), device, arch, strict_bounds)


class Module:
    """A loaded `.tile` file. `m.softmax(x)` plans, compiles and launches. `m.compile(kernel, …)` returns one variant.

    `arch` is the target for calls, for `compile` and for an emulated device. By default, `arch` is the device's own
    target, for example `sm_90` on an H100. The target `sm_90a` must be named, because its PTX loads on no later device.
    The module keeps its compiled variants."""

    def __init__(
        self,
        program: Program | LoadedProgram,
        device: str = "auto",
        arch: str | None = None,
        strict_bounds: bool = False,
        choose: Mapping[str, str] | Asked | None = None,
    ):
        # A tool may have changed the blocks of a `Program`, so only what `load` and `parse` read is kept.
        self._loaded = program if isinstance(program, LoadedProgram) else LoadedProgram.of(program)
        self.device, self.strict_bounds = device, strict_bounds
        self._choose = choose or {}
        self._asked = None if arch is None else target(arch)
        self._tuned: Tuned | None = None
        self._functions: dict[str, ModuleFunction] = {}

    @property
    def program(self) -> Program:
        """The parsed program."""
        return self._loaded.program

    @cached_property
    def asked(self) -> Asked:
        """The options of choices that `choose` names."""
        from dsl.lowering.ir.choices import Asked

        return self._choose if isinstance(self._choose, Asked) else Asked(dict(self._choose))

    @property
    def _asks(self) -> bool:
        """Whether the module may have options of choices. Most have none, and import no choices."""
        return bool(self._choose) or "asked" in vars(self)

    @cached_property
    def variants(self) -> Variants[CompiledKernel]:
        """The compiled variants."""
        from dsl.kernels.garbage import imports

        with imports():
            from dsl.kernels.variants import Variants

        return Variants(self.program, self._kernel_of, self._loaded.shelf)

    def _kernel_of(self, compiled: Compiled | KeptCompiled) -> CompiledKernel:
        return CompiledKernel(compiled, self.device, self._loaded)

    @property
    def _names(self) -> list[str]:
        """The names of the dispatches and kernels."""
        return [*self._loaded.dispatches, *self._loaded.kernels]

    def __repr__(self) -> str:
        return f"<Module {self._loaded.name}: {', '.join(self._names)}>"

    def __getattr__(self, name: str) -> ModuleFunction:
        # Notebooks, `copy` and `pickle` read attributes whose names begin with an underscore. These reads need an
        # AttributeError, without a search for similar names.
        if name.startswith("_"):
            raise AttributeError(f"a module has no '{name}'")
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(error.args[0]) from None

    def __getitem__(self, name: str) -> ModuleFunction:
        """Returns the kernel or dispatch with this name. For example, `m["compile"]` returns a kernel named `compile`,
        while `m.compile` is the method. Raises KeyError for an unknown name."""
        if name not in self._names:
            message = f"{self._loaded.name} has no kernel or dispatch '{name}'"
            raise KeyError("; ".join(filter(None, [message, closest(name, self._names)])))
        function = self._functions.get(name)
        if function is None:
            made = untraced(ModuleFunction, (self, name), {}) if is_traced() else ModuleFunction(self, name)
            function = self._functions[name] = made
        return function

    def __copy__(self) -> Module:
        """Returns a module of the same text with variants, plans and workspaces of its own."""
        return Module(self._loaded, self.device, self._arch_asked, self.strict_bounds, dict(self.asked.options))

    def __deepcopy__(self, memo: dict[int, Any]) -> Module:
        return memo.setdefault(id(self), copy(self))

    def __reduce__(self) -> tuple[Any, ...]:
        from dsl.calls.origin import origin_of

        options = self.device, self._arch_asked, self.strict_bounds, dict(self.asked.options)
        return module_from, (origin_of(self.program), *options)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._names]

    @property
    def _arch_asked(self) -> str | None:
        return None if self._asked is None else self._asked.arch

    @property
    def arch(self) -> str:
        """The target that calls are compiled for."""
        return self.place()[0].arch

    def place(self) -> tuple[Target, DeviceFacts]:
        """Returns the target of calls and facts about their device. Raises TileError `target` if no target fits the
        device."""
        from dsl.runtime import device_facts

        facts = device_facts(self.device, *([] if self._asked is None else [self._asked.arch]))
        return self._asked or target(facts.arch), facts

    @property
    def tuned(self) -> Tuned:
        """The data that `dsl tune --write` wrote beside the `.tile` file. The file is read once. Raises TileError
        `tuned` if the data does not match the `.tile` file. A data file that is not JSON is renamed, with a warning."""
        if self._tuned is None:
            from dsl.calls.tuned import Tuned, stale_errors
            from dsl.calls.tuned_file import usable
            from dsl.text.files import tuned_path

            path = self._loaded.path
            tuned = Tuned() if path is None else usable(tuned_path(path))
            if errors := stale_errors(tuned, self.program):
                raise Errors(errors)
            self._tuned = tuned
        return self._tuned

    @property
    def _kept(self) -> KeptCalls | None:
        """The plans of calls in the compile cache. None if the module keeps none. Calls with options of choices must
        look at all choices, so that a key that no kernel has is found."""
        return None if self._asks else self._kept_calls

    @cached_property
    def _kept_calls(self) -> KeptCalls | None:
        if self._loaded.shelf is None:
            return None
        about = [str(self.strict_bounds), self._arch_asked or ""]
        return KeptCalls(self._loaded.shelf, about, self._loaded.path)

    def compile(
        self,
        kernel: str,
        schedule: str | None = None,
        *,
        types: Mapping[str, str] | None = None,
        arch: str | None = None,
        align: Mapping[str, int] | None = None,
        strides: Mapping[str, Sequence[int]] | None = None,
        absent: frozenset[str] | set[str] = frozenset(),
        options: Mapping[str, Any] | None = None,
        **values: Any,
    ) -> CompiledKernel:
        """Compiles one variant of `kernel`. `values` holds dims, constants, names that the schedule sets, and scalars
        to specialise.

        Without `schedule`, the kernel's first schedule is used. A type parameter may be given in `types` or as T="f16".
        Numbers may be numpy numbers. `strides` gives the strides of strided tensors, in elements. If the strides of a
        strided tensor are not given, the compiler uses neither TMA boxes nor 16-byte accesses along its rows. Raises
        TileError `name` if `strides` names a tensor that is not strided."""
        node = self.program.kernel(kernel)
        if schedule is None:
            schedule = next(iter(self.program.schedules_of(kernel)), None)
        plain = {name: value if (n := plain_number(value)) is None else n for name, value in values.items()}
        dims, constants, scalars, chosen = split_values(self.program, node, plain)
        head = self.program.head(kernel)
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
            index_bits=64 if any(is_far(head, name, dims, each) for name, each in (strides or {}).items()) else None,
            strides={name: stride_class(each) for name, each in (strides or {}).items()},
        )
        known = {name for name, array in head.arrays.items() if array.strided}
        for name in set(strides or {}) - known:
            message = f"kernel '{kernel}' has no strided tensor '{name}'"
            raise TileError("name", node.loc, message, ", ".join(sorted(known)) or "strides follow from its dims")
        return self.variant(request, **(options or {}))

    def variant(self, request: Request, **options: Any) -> CompiledKernel:
        """Compiles the kernel of a request. Equivalent requests share one compiled kernel."""
        kernel = self.variants.kernel(self.as_asked(request), **options)
        kernel.options = options
        if self._asks:  # the choices of a kernel of the compile cache are made again only to be looked at
            self.asked.note(kernel.compiled.variant.function.choices)
        return kernel

    def built(self, request: Request) -> Variant:
        """Lowers a request to a variant. A later `compile` of the request reuses the lowered variant."""
        return self.variants.built(self.as_asked(request))

    def points(self, request: Request) -> Points | None:
        """Returns the points (sets of constants) of a request's schedule, ordered by its cost, or None if the schedule
        has no `cost`."""
        return self.variants.points(self.as_asked(request))

    def as_asked(self, request: Request) -> Request:
        """Returns the request with the module's own settings added: `strict_bounds` and the options of `choose`."""
        strict = self.strict_bounds or request.strict_bounds
        choices = {**(self.asked.options if self._asks else {}), **request.choices}
        # The usual case needs no copy.
        if (strict, choices) == (request.strict_bounds, request.choices):
            return request
        return replace(request, strict_bounds=strict, choices=choices)


def is_far(head: KernelHead, name: str, dims: Mapping[str, int], strides: Sequence[int]) -> bool:
    """Returns whether the largest offset within a tensor with these strides needs more than 32 bits. Unknown dims count
    as 1."""
    from dsl.runtime.arrays import reach

    if (array := head.arrays.get(name)) is None or len(array.dims) != len(strides):
        return False
    return reach([dims.get(d, 1) if isinstance(d, str) else d or 1 for d in array.dims], strides) > most_elements(32)


def split_values(
    program: Program, kernel: ast.KernelDef, values: Mapping[str, Any]
) -> tuple[dict[str, int], dict[str, Any], dict[str, Any], dict[str, str]]:
    """Sorts named values into (dims, constants, scalars, types). Raises TileError `name` for an unknown name."""
    head = program.head(kernel.name)
    dims_known, type_names, scalar_names = {*head.dims}, head.types.keys(), head.scalars.keys()
    constant_names = program.settable(kernel.name)
    dims: dict[str, int] = {}
    constants: dict[str, Any] = {}
    scalars: dict[str, Any] = {}
    types: dict[str, str] = {}
    for name, value in values.items():
        if name in type_names:
            types[name] = str(value)
        # A name may be both a dim and a constant, as in `x: f32[N]` with a constant N. Then the value sets the
        # constant.
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
    """One compiled variant, which can be launched and shown at every level of compilation.

    `ir`, `llvm` and `ptx` are text. `k(y, x)` checks the arguments and launches. `k.bind(y, x)()` is a prepared launch.
    `k.run(…)` waits and returns a `dsl.runtime.LaunchResult`. A notebook shows the kernel's figures and source. After
    `run` on the emulator, the notebook also shows the cost of each line."""

    def __init__(self, compiled: Compiled | KeptCompiled, device: str, loaded: LoadedProgram):
        from dsl.runtime import Kernel

        self.compiled, self._loaded, self.device = compiled, loaded, device
        self.options: dict[str, Any] = {}
        """The compiler's options under which it was compiled."""
        self.kernel = Kernel(compiled.ptx, device=device)
        if isinstance(compiled, KeptCompiled):
            compiled.header = self.kernel.header  # which has just been read
        self.ptx, self.header = compiled.ptx, compiled.header
        self.bind, self.grid, self.check_numbers = self.kernel.bind, self.kernel.grid, self.kernel.check_numbers
        self.result: LaunchResult | None = None
        """The result of the last `run`."""

    def __repr__(self) -> str:
        return f"<CompiledKernel {self.compiled.header.label} for {self.compiled.header.arch}>"

    def __copy__(self) -> CompiledKernel:
        made = CompiledKernel(self.compiled, self.device, self._loaded)
        made.options = self.options
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledKernel:
        return memo.setdefault(id(self), copy(self))

    def __reduce__(self) -> tuple[Any, ...]:
        from dsl.calls.origin import origin_of

        found = self.compiled
        request = found.request if isinstance(found, KeptCompiled) else found.variant.request
        return kernel_from, (origin_of(self.program), self.device, request, self.options)

    def _repr_html_(self) -> str:
        from dsl.calls.shown import kernel_page

        found = self.compiled
        return kernel_page(found.whole if isinstance(found, KeptCompiled) else found, self.program, self.result)

    def run(self, *arguments: Any, **named: Any) -> LaunchResult:
        """Launches the kernel, waits, and returns the result with its counters. The options are those of
        `dsl.runtime.Kernel.run`."""
        self.result = self.kernel.run(*arguments, **named)
        return self.result

    @property
    def program(self) -> Program:
        return self._loaded.program

    @property
    def ir(self) -> str:
        return self.compiled.ir

    @property
    def llvm(self) -> str:
        return self.compiled.llvm

    def launched(self, overlaps: bool) -> Kernel:
        """Returns what launches the kernel. If `overlaps` is true, its launches may overlap the preceding launch of a
        call."""
        return self.kernel.launched(overlaps)

    def __call__(self, *arguments: Any, **named: Any) -> None:
        if is_traced():
            untraced(self.kernel, arguments, named)
        else:
            self.kernel(*arguments, **named)


class ModuleFunction:
    """A dispatch or a kernel of a module, as a Python function of arrays.

    `y = m.softmax(x)` allocates and returns the outputs, which are the first parameters. `m.softmax(y, x)` writes into
    given outputs. Constants and options of the dispatch are passed by name."""

    def __init__(self, module: Module, name: str):
        self.module, self.name = module, name
        self.front = self._front()
        self.params = [*self.front.params]
        self.__name__ = self.__qualname__ = name
        self.__doc__ = f"{name}({', '.join(self.params)})\n\n{self.front.doc}"
        self._plans = CallClasses[BoundPlan]()
        self._ways = self._plans.ways

    def __repr__(self) -> str:
        return f"<{self.name}({', '.join(self.params)}) of {self.module._loaded.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return getitem, (self.module, self.name)

    def _front(self) -> CallFront:
        """Returns what a call needs to know of the function, from the compile cache where it is kept."""
        kept = self.module._kept
        front = None if kept is None or self.module._loaded.is_parsed else kept.front(self.name)
        if front is None:
            from dsl.calls.front import front_of
            from dsl.calls.signature import documentation

            front = front_of(self.called, self._other_names(), documentation(self.called))
            if kept is not None:
                kept.keep_front(self.name, front)
        return front

    @cached_property
    def called(self) -> Called:
        """The dispatch or kernel in the program."""
        from dsl.calls.called import Called

        return self.module.program.once(Called, self.name)

    @cached_property
    def signature(self) -> CallSignature:
        """The parameters in their order, with their kinds, types and dims, and whether kernels write them.
        `signature.python` is an `inspect.Signature`."""
        from dsl.calls.signature import signature_of

        return signature_of(self.called)

    @property
    def __signature__(self) -> Signature:
        return self.signature.python

    @property
    def writes(self) -> tuple[str, ...]:
        """The names of the arrays that a call may write: its outputs, and arrays that it changes in place."""
        return self.signature.writes

    def outputs(self, *arguments: Any, **named: Any) -> tuple[Output, ...]:
        """Returns the outputs that a call with these arguments would make, each with `name`, `shape` and `dtype`.
        Nothing is allocated, compiled or launched.

        An array may be given as any object with a `shape` and a `dtype`, as an Output of another function, or as text
        such as "f16[8, 100]". Extents may be symbols such as torch's SymInt. Raises the call's own errors about names,
        kinds, ranks, types and dims, and about lines `require` and `assert` that no schedule decides
        (`dsl/calls/agreement.py`)."""
        described = {name: shape_facts(value) if name in self.params else value for name, value in named.items()}
        given, rest = self.order(tuple(map(shape_facts, arguments)), described)
        return self.outputs_of(given, rest)

    def outputs_of(
        self, given: Mapping[str, Any], rest: Mapping[str, Any], also: Collection[str] = ()
    ) -> tuple[Output, ...]:
        """Like `outputs`, for arguments by parameter and other named values. `also` names optional outputs that the
        call makes, too."""
        from dsl.calls.agreement import check_agreement, has_symbols

        self.check_kinds(given)
        constants = {name: value for name, value in rest.items() if name != "schedule"}
        self.check_constants(self.called.split(constants)[0])
        facts = facts_of(self.front, given)
        found = self.called.outputs(facts, rest, also)
        check_agreement(self.called, facts, rest)
        facts |= {output.name: output.facts for output in found}
        if any(head.rules for head, _, _ in self.called.passed):  # conditions on extents that follow from these
            check_agreement(self.called, facts, rest)
        planner = self.planner(facts, **rest)
        planner.check_schedule()
        if self.called.dispatch is not None and not has_symbols(facts):
            planner.start(self.called.dispatch)
        return tuple(found)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if is_traced():
            return untraced(self, arguments, named)
        # Most calls repeat one of the last calls. Repeating a call (`short_way.py`) takes 3 us of Python. Planning the
        # call of a convolution takes 178 us, although the kernel itself takes only 10 us.
        for way in self._ways:
            if way(arguments, named):
                return None
        return self._call(arguments, named)

    def fill(
        self, label: str, names: Sequence[str], made: Sequence[Any], arguments: Iterable[Any], named: Mapping[str, Any]
    ) -> None:
        """Calls the function for `label`, which has just allocated the arrays `made` among the arguments, under
        `names`. On the emulator, warns of elements that no store reached."""
        from dsl.runtime import describe
        from dsl.runtime.new_outputs import NewOutputs

        with NewOutputs(label, names, made, describe):
            self(*arguments, **named)

    def _call(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        given, rest = self.order(arguments, named)
        self.check_kinds(given)
        plan = self.plan_for(given, rest)
        # A call that returns arrays must allocate them each time, so it has no short way.
        if not plan.outputs:
            plan.launch(given)
            if (way := short_way(self.params, arguments, named, plan)) is not None:
                self._plans.remember(way, MOST_WAYS)
            return None
        from dsl.runtime import describe, finish_like
        from dsl.runtime.new_outputs import NewOutputs

        like = plan.make_outputs(given)
        names = [output.name for output in plan.outputs]
        with NewOutputs(self.name, names, [given[name] for name in names], describe):
            plan.launch(given)
        # JAX arrays are immutable, so the kernel writes to a buffer. `finish_like` makes a JAX array from this buffer.
        made = tuple(finish_like(like, given[output.name]) for output in plan.outputs)
        return made[0] if len(made) == 1 else made

    def order(
        self, arguments: tuple[Any, ...], named: dict[str, Any], makes_outputs: bool = True
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Splits the arguments of a call into two dicts: arguments by parameter, and other named values (options,
        constants). `makes_outputs` is True if the caller may leave out outputs. Raises TileError if the arguments fit
        the parameters in several ways."""
        rest = {name: self.plain(name, value) for name, value in named.items() if name not in self.params}
        by_name = {name: value for name, value in named.items() if name in self.params}
        return order(self.front, arguments, by_name, makes_outputs, lambda: self.called), rest

    def check_kinds(self, given: Mapping[str, Any]) -> None:
        """Raises TileError `call` if an argument is of another kind than its parameter."""
        if not are_of_kinds(self.front, given):
            from dsl.calls.arguments import check_kinds

            check_kinds(self.called, given)

    def is_optional(self, name: str) -> bool:
        return name in self.front.optional

    def plain(self, name: str, value: Any) -> Any:
        """Converts a named value that is no parameter (an option, constant, dim or `schedule`) to a plain Python value.
        Raises TileError for an unknown name or for a value that is neither a number nor a name."""
        if name not in self.known:
            message = f"{self.name} has no parameter, option or constant '{name}'"
            names = list(dict.fromkeys([*self.params, *self.known]))
            raise TileError("name", None, message, closest(name, names) or f"known: {', '.join(names)}")
        if name == "schedule" and not (value is None or isinstance(value, str)):
            raise TileError("call", None, f"'schedule' takes a schedule's name, not {in_words(value)}")
        if isinstance(value, str | None):
            return value
        number = plain_number(value)
        if number is None:
            raise TileError("call", None, f"'{name}' takes a number or a name, not {in_words(value)}")
        return number

    @property
    def known(self) -> tuple[str, ...]:
        """The names that a call accepts besides its parameters: options, types, constants, dims, scalars and
        `schedule`."""
        return self.front.others

    def _other_names(self) -> list[str]:
        from dsl.text.tree import Option

        program = self.module.program
        dispatch = self.called.dispatch
        found = {line.name: None for line in dispatch.lines if isinstance(line, Option)} if dispatch else {}
        for kernel in self.called.launched:
            head = program.head(kernel)
            found |= dict.fromkeys([*head.types, *sorted(program.settable(kernel)), *head.dims, *head.scalars])
        return [*found, "schedule"]

    def facts(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the facts about each argument that planning needs: for example an array's shape, type and
        alignment."""
        return facts_of(self.front, given)

    def plan_for(self, given: Mapping[str, Any], rest: dict[str, Any]) -> BoundPlan:
        """Returns the compiled launches of a call. They are planned and compiled once for each class of calls."""
        facts = self.facts(given)
        key = class_of(self.front, facts, rest)
        plan = self._plans.find(key)
        if plan is None:
            plan = self._kept_plan(key, facts, rest)
            # Plans with workspaces are never dropped, because a captured CUDA graph may contain the addresses of the
            # workspaces.
            self._plans.keep(key, plan, MOST_PLANS, stays=lambda each: each.keeps_memory)
        return plan

    def _kept_plan(self, kind: Hashable, facts: dict[str, Any], rest: dict[str, Any]) -> BoundPlan:
        """Returns the compiled launches of the class `kind`. If the compile cache does not have them, they are made and
        kept."""
        kept = self.module._kept
        key = None if kept is None else kept.key(self.name, kind, *self._place())
        if kept is not None and key is not None and (found := kept.find(key)) is not None:
            plan, texts = found
            kernels = [self._kernel(step.request, text.text) for step, text in zip(plan.steps, texts, strict=True)]
            return BoundPlan(self, plan_of(plan), kernels, plan.outputs)
        # The plan is made for the whole class of calls. Types and shapes of outputs follow from the facts alone.
        outputs = self.called.outputs(facts, rest)
        if outputs:  # a message then names what the caller passed, and no output
            from dsl.calls.agreement import check_agreement

            check_agreement(self.called, facts, {name: value for name, value in rest.items() if name != "schedule"})
        facts |= {output.name: output.facts for output in outputs}
        made = BoundPlan(self, self.plan(facts, **rest), outputs=outputs)
        if kept is not None and key is not None:
            kept.keep(key, made.plan, outputs, [kernel.ptx for kernel in made.kernels])
        return made

    def _place(self) -> tuple[str, DeviceFacts]:
        place, device = self.module.place()
        return place.arch, device

    def _kernel(self, request: Request, ptx: str) -> CompiledKernel:
        """Returns the kernel of a plan that was kept."""
        module = self.module
        again = compiled_again(lambda: module.program, module.as_asked(request), ptx)
        return CompiledKernel(again, module.device, module._loaded)

    def plan(self, facts: Mapping[str, Any], schedule: str | None = None, **rest: Any) -> Plan:
        """Plans the launches for arguments with these facts. `rest` holds options of the dispatch and constants."""
        return self.planner(facts, schedule, None if schedule is not None else self.module.tuned, **rest).plan()

    def planner(
        self, facts: Mapping[str, Any], schedule: str | None = None, tuned: Tuned | None = None, **rest: Any
    ) -> Planner:
        """Returns the Planner of a call on this module's device."""
        from dsl.calls.planner import Planner  # takes 2 ms to import; `compile` plans nothing

        module = self.module
        place, device = module.place()
        constants, options = self.called.split(rest)
        self.check_constants(constants)
        what = (module.program, self.name, facts, place, device.sms, constants, options, schedule)
        return Planner(*what, device=device.name, tuned=tuned, built=module.built, points=module.points)

    def check_constants(self, constants: Mapping[str, Any]) -> None:
        for name in constants:
            for kernel in self.called.launched:
                try:
                    # A dispatch passes a constant on to all of its kernels. The constant is known if one of the kernels
                    # has it.
                    split_values(self.module.program, self.module.program.kernels[kernel], {name: constants[name]})
                    break
                except TileError as error:
                    failure = error
            else:
                raise failure


def module_from(
    origin: Origin, device: str, arch: str | None, strict_bounds: bool, choose: Mapping[str, str]
) -> Module:
    """Makes the module of a pickle."""
    return Module(origin.loaded(), device, arch, strict_bounds, choose)


def kernel_from(origin: Origin, device: str, request: Request, options: Mapping[str, Any]) -> CompiledKernel:
    """Makes the compiled kernel of a pickle: compiles its request."""
    return Module(origin.loaded(), device).variant(request, **options)
