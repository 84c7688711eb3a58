"""A plan lists the launches for one class of calls. A bound plan adds their kernels, workspaces and outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field

from dsl.kernels.request import Request
from dsl.lowering.ir.limits import most_elements
from dsl.lowering.ir.location import Loc, TileError
from dsl.values.facts import ArrayFacts

if TYPE_CHECKING:
    from dsl.runtime import Kernel
    from dsl.text.program import Program


class Compiles(Protocol):
    """The interface of an object that compiles the launches of a plan. `Module` implements it."""

    @property
    def program(self) -> Program: ...

    def variant(self, request: Request) -> Any: ...


class Callee(Protocol):
    """The interface of the kernel or dispatch for which a plan is made. `ModuleFunction` implements it."""

    @property
    def module(self) -> Compiles: ...


class Workspace(Struct, frozen=True):
    """Scratch global memory of a plan.

    With `zero`, the memory holds zeros at the first call, and each call must leave zeros in it. With `zeroed`, the
    runtime fills the memory with zeros before each call. Without `zero` and `zeroed`, a call may read only the elements
    that the same call has written."""

    dtype: str
    shape: tuple[int, ...]
    zero: bool
    loc: Loc
    zeroed: bool = False
    strides: tuple[int, ...] | None = None
    """Strides in elements, for `workspace_like`. None means row-major."""

    @property
    def text(self) -> str:
        return self.loc.source.text[self.loc.start : self.loc.end]

    @property
    def location(self) -> Any:
        """The workspace's place in the file, in the form that the emulator's findings use."""
        from dsl.runtime.emulator.findings import Location

        return Location(self.loc.source.name, self.loc.line)

    @property
    def facts(self) -> ArrayFacts:
        """The facts about the workspace that binding needs: shape, type and strides."""
        from dsl.runtime.arrays import reach

        is_far = self.strides is not None and reach(self.shape, self.strides) > most_elements(32)
        return ArrayFacts(self.shape, self.dtype, strides=self.strides, is_far=is_far)


class Step(Struct):
    """One launch of a plan: the requested variant, and where the argument of each parameter comes from. `names` are the
    parameters of the kernel."""

    request: Request
    arguments: list[Any]  # each is a FromCall, a Workspace, a number, a table or None
    names: tuple[str, ...]


class FromCall(Struct, frozen=True):
    """The argument `name` of the call, passed to a launch unchanged."""

    name: str


class Output(Struct, frozen=True):
    """An array that the call allocates because the caller left it out."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def facts(self) -> ArrayFacts:
        """The facts about the array that planning needs. New arrays are aligned to 16 bytes."""
        return ArrayFacts(self.shape, self.dtype)

    def empty_like(self, x: Any) -> Any:
        """Allocates the array, with the framework, the device and the stream of the array `x`."""
        from dsl.runtime import empty_like

        return empty_like(x, self.shape, self.dtype)


class Plan(Struct):
    """The launches for one class of calls, and the reasons for choosing them."""

    steps: list[Step]
    reasons: list[str] = field(default_factory=list)


class BoundPlan:
    """A plan with its kernels. They are compiled here, unless the caller gives them. Workspaces are allocated at the
    first launch."""

    def __init__(self, function: Callee, plan: Plan, kernels: list[Any] | None = None, outputs: Sequence[Output] = ()):
        self.plan, self.outputs = plan, outputs
        # Only workspaces and overlapping launches need the context manager `call`. Other plans skip it.
        self.shares = any(isinstance(a, Workspace) for step in plan.steps for a in step.arguments)
        self.kernels = kernels or [function.module.variant(step.request) for step in plan.steps]
        self.may_overlap = any(kernel.header.overlaps for kernel in self.kernels)
        self.launched: list[Kernel] | None = None  # the kernels as `launch` launches them, known after the first launch
        # By device, since arrays of other devices may have the same facts. Then by id: (parameter, workspace, memory).
        self._workspaces: dict[int | None, dict[int, tuple[str, Workspace, Any]]] = {}
        self.workspaces: dict[int, tuple[str, Workspace, Any]] = {}  # those of the last call's device
        for output in outputs:
            self.check_output(output.name)

    def make_outputs(self, given: dict[str, Any]) -> Any:
        """Allocates the outputs that the caller left out, and adds them to `given`. They use the framework and device
        of the first given array. Returns this first array, which `finish_like` needs."""
        like = first_array(given)
        for output in self.outputs:
            given[output.name] = output.empty_like(like)
        return like

    def launch(self, given: Mapping[str, Any]) -> None:
        arguments = [self.arguments(step, given) for step in self.plan.steps]
        # A single launch checks its numbers itself.
        if len(arguments) > 1:
            self.check_numbers(arguments)
        # Decided once, because the grid depends only on the class of the call. A launch whose grid has no blocks is
        # skipped.
        if self.launched is None:
            self.launched = self.in_turn(arguments)
        with self.call() if self.shares or self.may_overlap else nullcontext():
            for kernel, values in zip(self.launched, arguments, strict=True):
                kernel(*values)

    def check_numbers(self, arguments: Sequence[Sequence[Any]]) -> None:
        """Raises LaunchError for a number that a kernel of the plan refuses. All numbers are checked before the first
        launch, because a later error would leave partial results. The plan may have been made for an earlier call with
        other numbers."""
        for kernel, values in zip(self.kernels, arguments, strict=True):
            kernel.check_numbers(values)

    def in_turn(self, arguments: Sequence[Sequence[Any]]) -> list[Kernel]:
        """Returns the kernels to launch for these arguments, in order. A kernel that may start before the preceding
        launch has ended is returned in its overlapping form."""
        turns = zip(self.kernels, overlaps(self.kernels, arguments), strict=True)
        return [kernel.launched(does) for kernel, does in turns]

    @contextmanager
    def call(self, may_overlap: bool | None = None) -> Iterator[None]:
        """A context manager around the launches of one call. Enter it after the arguments of the launches are made. It
        fills `zeroed` workspaces with zeros, checks workspaces, and makes the emulator check overlapping launches.
        `may_overlap` states whether any launches overlap. It is needed only if the caller launches other kernels than
        those of the plan.

        Only workspaces in host memory are checked. Raises FindingError if a workspace with `zero` does not hold zeros
        after the call. A call that fails drops its workspaces, because a workspace with `zero` may no longer hold
        zeros."""
        from dsl.runtime.emulation import overlapping
        from dsl.runtime.scratch import ScratchArray

        shared = [(name, w, made) for name, w, made in self.workspaces.values() if isinstance(made, ScratchArray)]
        for _, _, made in shared:
            made.scratch.begin()
        self.zero_workspaces()
        try:
            with overlapping() if may_overlap or (may_overlap is None and self.may_overlap) else nullcontext():
                yield
            for name, workspace, made in shared:
                if workspace.zero:
                    made.check_zero(name, workspace.text, workspace.location)
        except Exception:
            self.workspaces.clear()
            raise

    def zero_workspaces(self) -> None:
        """Fills the workspaces declared `zeroed` with zeros."""
        for _, workspace, made in self.workspaces.values():
            if workspace.zeroed:
                from dsl.runtime.frameworks import clear

                clear(made)

    def check_output(self, name: str) -> None:
        """Raises TileError `call` if the first kernel that receives the new output `name` reads it."""
        argument = FromCall(name)
        for step, kernel in zip(self.plan.steps, self.kernels, strict=True):
            if argument in step.arguments:
                param = kernel.compiled.header.params[step.arguments.index(argument)]
                if getattr(param, "access", "w") != "w":
                    reads = f"'{name}' was not given, and {step.request.kernel} reads it"
                    hint = "pass an array that holds what the kernel begins with, such as zeros for a sum"
                    raise TileError("call", None, reads, hint)
                return

    def arguments(self, step: Step, given: Mapping[str, Any]) -> list[Any]:
        """Returns the arguments for one launch of the plan."""
        if self.shares:
            self.workspaces = self._workspaces.setdefault(device_of(given), {})
        return [self.argument(a, name, given) for a, name in zip(step.arguments, step.names, strict=True)]

    @property
    def keeps_memory(self) -> bool:
        """Whether the plan has allocated workspaces."""
        return any(self._workspaces.values())

    def argument(self, argument: Any, name: str, given: Mapping[str, Any]) -> Any:
        """Returns the argument for the kernel's parameter `name`. Allocates a workspace when it is first needed."""
        if isinstance(argument, FromCall):
            return given[argument.name]
        if isinstance(argument, Workspace):
            # The key is the identity of the workspace, because two workspaces with the same text are different memory.
            known = self.workspaces.get(id(argument))
            if known is None:
                known = self.workspaces[id(argument)] = (name, argument, allocate_workspace(argument, given))
            return known[2]
        return argument


def overlaps(kernels: Sequence[Any], arguments: Sequence[Sequence[Any]]) -> list[bool]:
    """Returns a list of booleans: whether each launch of a call may start before the preceding launch has ended."""
    # A launch without blocks is skipped. The launch after it must not overlap, because it would overlap work from
    # before this call.
    pairs = zip(kernels, kernels[1:], arguments, strict=False)
    return [False, *(kernel.header.overlaps and 0 not in before.grid(*values) for before, kernel, values in pairs)]


def first_array(given: Mapping[str, Any]) -> Any:
    """Returns the first array of a call. It decides the framework and device of what the call allocates."""
    from dsl.runtime import is_array

    return next(v for v in given.values() if v is not None and is_array(v))


def device_of(given: Mapping[str, Any]) -> int | None:
    """Returns the CUDA ordinal of a call's arrays, or None if they are in host memory."""
    from dsl.runtime import describe

    return describe(first_array(given)).device


def allocate_workspace(workspace: Workspace, given: Mapping[str, Any]) -> Any:
    """Allocates a workspace on the device of the call's arrays."""
    import numpy as np

    from dsl.lowering.ir.types import DTYPES
    from dsl.runtime import empty_like, to_device
    from dsl.runtime.frameworks import clear
    from dsl.runtime.scratch import make_scratch
    from dsl.values.element_types import numpy_type

    like, device = first_array(given), device_of(given)
    if device is None:
        is_zero = workspace.zero or workspace.zeroed
        # The emulator tracks each element. It reports reads of unwritten elements, and values left in a `zero`
        # workspace.
        dtype = numpy_type(DTYPES[workspace.dtype])
        return make_scratch(workspace.shape, dtype, workspace.zero, is_zero, workspace.strides)
    if workspace.zero:
        return to_device(np.zeros(workspace.shape, numpy_type(DTYPES[workspace.dtype])), device)
    made = empty_like(like, workspace.shape, workspace.dtype, workspace.strides)
    if workspace.zeroed:
        clear(made)
    return made
