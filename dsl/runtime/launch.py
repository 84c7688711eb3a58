"""A `Kernel` is an entry of PTX text with a header. It is called with arrays and runs on a GPU or on the emulator.

Calls with equal types, shapes, strides and devices form a class. The first call of a class is checked against the
header. Later calls of the class only check pointers, pack arguments and launch. This module prepares launches in the
same way for the GPU and for the emulator. `cuda_launch.py` then launches on the GPU, and `emulation.py` on the
emulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from numbers import Rational
from typing import TYPE_CHECKING, Any, Union

from msgspec.structs import replace

from dsl.runtime.arguments import ParamLayout
from dsl.runtime.arrays import Array
from dsl.runtime.backend import choose
from dsl.runtime.call_classes import CallClasses
from dsl.runtime.checks import CallClass, Checker
from dsl.runtime.chips import emulated_facts
from dsl.runtime.devices import device_facts
from dsl.runtime.emulation import EmulatedLaunch
from dsl.runtime.errors import LaunchError
from dsl.runtime.expressions import Number
from dsl.runtime.frameworks import Framework, Reader, Recogniser, framework_of, named, reader_of, unread, unrecognised
from dsl.runtime.header import Header, HeaderTensor, Scalar, read
from dsl.runtime.numbers import as_float, exact_key, item_of, plain
from dsl.runtime.repeated import Again, Changed, Repeated, never
from dsl.runtime.result import LaunchResult
from dsl.runtime.timeline import records, space_for

if TYPE_CHECKING:
    from dsl.runtime.cuda.module import Attributes, LoadedKernel
    from dsl.runtime.cuda_launch import CudaLaunch

Launch = Union["CudaLaunch", EmulatedLaunch, "EmptyLaunch"]
MAX_CLASSES = 1024
"""Maximum number of prepared launches that a kernel keeps. The number is bounded because shapes may change with every
call."""
OPTIONS = ("grid", "stream")
EMULATION = ("seed", "budget", "time_limit", "on_finding", "writers", "blocks", "from_middle", "ptx_lines")
"""Options of `Kernel.run` that only the emulator supports."""


class Kernel:
    """A callable that launches one entry of `ptx`. `entry` may be left out if the text has only one header.

    `device` is `auto`, `cuda`, `cuda:1` or `emulator`. With `auto`, the kernel runs on the device of its arrays. With
    `auto` and host arrays, it runs on GPU 0, or on the emulator if there is no GPU. If a kernel with host arrays runs
    on a GPU, the call copies the arrays to the device and back, and waits. A call with device arrays does not wait.

    A call passes arguments in the order of `header.params` or by name. For an optional tensor that this variant lacks,
    pass None, or nothing. A call with wrong arguments raises LaunchError and launches nothing. A call returns None.

    If `overlaps` is true and the header allows it, a launch may start before the preceding launch in its stream has
    ended. The preceding launch must then be the one for which this kernel was compiled. Any other launch might still be
    writing data that this kernel reads at its start."""

    def __init__(self, ptx: str, entry: str | None = None, device: str = "auto", overlaps: bool = False) -> None:
        self.ptx = ptx
        self.header = _select(read(ptx), entry)
        self.device, self.overlaps = device, overlaps and self.header.overlaps
        params = self.header.params
        self._checker = Checker(self.header)
        self._layout = ParamLayout(self.header)
        self._count = len(params)
        self._tensors = [i for i, param in enumerate(params) if isinstance(param, HeaderTensor) and param.present]
        self._absent = [i for i, param in enumerate(params) if isinstance(param, HeaderTensor) and not param.present]
        self._only_tensors = len(self._tensors) == len(params)
        # If a scalar affects the grid or a condition, each value of the scalar has its own class of calls.
        self._keyed = [
            index
            for index, param in enumerate(params)
            if isinstance(param, Scalar) and param.name in self._checker.names
        ]
        self._read: Reader = unread
        self._loaded: dict[int, LoadedKernel] = {}
        self._classes = CallClasses[Launch]()
        self._ways = self._classes.ways
        nothing: Any = None
        self._last: tuple[list[Any], Launch, Recogniser] = ([], nothing, unrecognised)
        """The signature of the last call, the launch of its class, and the recogniser of the class."""

    def __repr__(self) -> str:
        return f"<Kernel {self.header.label} for {self.header.arch} on {self.device}>"

    def __call__(self, *arguments: Any, **named: Any) -> None:
        """Launches the kernel. Does not wait for its end if the arrays are on the device.

        `grid=` (x, y, z) overrides the header's grid. `stream=` (a raw handle) overrides the current stream."""
        if not named:
            # Each function in `_ways` recognises the arrays of its class and launches at once, in one Python frame.
            for way in self._ways:
                if way(arguments):
                    return
        grid = stream = None
        if named or len(arguments) != self._count:
            arguments, grid, stream = self._order(arguments, named)
        launch, values = self._prepare(arguments, grid)
        launch.launch(values, arguments, stream)
        if launch.changed is not None:
            launch.changed(self._written_of(launch, arguments))

    def _written_of(self, launch: Launch, arguments: Sequence[Any]) -> list[Any]:
        tensors = self._tensors_of(arguments)
        return [tensors[place] for place in launch.places]

    def _tensors_of(self, arguments: Sequence[Any]) -> Sequence[Any]:
        return arguments if self._only_tensors else [arguments[index] for index in self._tensors]

    @cached_property
    def overlapping(self) -> Kernel:
        """The same kernel, but its launches may start before the preceding launch of the same call has ended."""
        if not self.header.overlaps:
            return self
        made = Kernel(self.ptx, self.header.entry, self.device, True)
        # Sharing the module avoids a second loading of the same text by the driver.
        made._loaded = self._loaded
        return made

    def launched(self, overlaps: bool) -> Kernel:
        """Returns the kernel whose launches may overlap the preceding launch of a call, or this kernel."""
        return self.overlapping if overlaps else self

    def bind(self, *arguments: Any, **named: Any) -> Bound:
        """Checks the arguments, and returns a callable that launches with these arguments and keeps the arrays alive.

        With `timeline=`, warps on a GPU write records at the kernel's marks, so that the cost of recording can be
        measured. The value of `timeline=` is a pair: the maximum number of events of a warp, and the number of blocks
        that write records. If the second number is None, `space_for` chooses it."""
        asked: tuple[int, int | None] | None = named.pop("timeline", None)
        arguments, grid, stream = self._order(arguments, named)
        launch, values = self._prepare(arguments, grid)
        if asked is not None and not isinstance(launch, EmulatedLaunch | EmptyLaunch):
            launch = launch.recording(space_for(self.header, launch.call.grid, *asked))
        submit = launch.bind(values, arguments, stream)
        return Bound(submit, arguments, launch.changed, self._written_of(launch, arguments))

    def grid(self, *arguments: Any) -> tuple[int, int, int]:
        """Checks the arguments and returns the grid of a launch with these arguments. Nothing is launched."""
        return self._prepare(arguments, None)[0].call.grid

    def check_numbers(self, arguments: Sequence[Any]) -> None:
        """Raises LaunchError for a scalar or table that is malformed or does not fit its type."""
        for index, convert in self._layout.converters:
            convert(arguments[index])

    def repeated(self, arguments: Sequence[Any]) -> Again:
        """Returns a function that launches with other arrays of the same class. It always passes the scalars and tables
        in `arguments`."""
        launch, values = self._prepare(arguments, None)
        return launch.again(values[len(self._tensors) :])

    def knowing(self, arguments: Sequence[Any]) -> Again:
        """Returns a function that tells whether the function of `repeated` would launch with given arrays."""
        launch, values = self._prepare(arguments, None)
        return launch.knows(values[len(self._tensors) :])

    def run(self, *arguments: Any, counters: bool = False, time: bool = False, **named: Any) -> LaunchResult:
        """Launches the kernel, waits for its end, and returns a LaunchResult.

        `time=True` measures the time on a GPU. `counters=True` and the options in EMULATION require the emulator.
        `budget=` limits the number of instructions, and `time_limit=` the number of seconds. `writers=` stores which
        thread wrote each byte of the arrays last. `blocks=N` runs only the first N blocks. With `from_middle=`, it runs
        N blocks from the middle of the grid. `ptx_lines=` adds counters for each PTX line to the result.

        `timeline=` adds the records that warps write at the kernel's marks to the result. Its value is a pair, as for
        `bind`. Raises DeviceError and DeviceAssertError."""
        asked: tuple[int, int | None] | None = named.pop("timeline", None)
        emulation = {key: named.pop(key) for key in EMULATION if key in named}
        arguments, grid, stream = self._order(arguments, named)
        launch, values = self._prepare(arguments, grid)
        call = launch.call
        about = LaunchResult(
            device="emulator" if launch.ordinal is None else f"cuda:{launch.ordinal}",
            grid=call.grid,
            threads=self.header.threads,
            moves=self._checker.estimate("moves", call.names),
            computes=self._checker.estimate("computes", call.names),
        )
        if isinstance(launch, EmptyLaunch):
            return about
        # The written arrays are reported before the launch, because they may be written even if the launch ends with an
        # error.
        if launch.changed is not None:
            launch.changed(self._written_of(launch, arguments))
        space = None if asked is None else space_for(self.header, call.grid, *asked)
        if isinstance(launch, EmulatedLaunch):
            result, writers, raw = launch.run(values, arguments, timeline=space, **emulation)
            return replace(
                about,
                counters=result.counters,
                findings=tuple(result.findings),
                output=result.output,
                writers=tuple(writers),
                timeline=None if space is None else records(space, raw),
            )
        if counters or emulation:
            raise LaunchError("device", f"counters, {', '.join(EMULATION)} are the emulator's", "device=emulator")
        microseconds = None
        # The time of a launch that writes records is not meaningful, so it is not measured.
        if space is not None:
            launch = launch.recording(space)
            launch.launch(values, arguments, stream)
            return replace(about, timeline=records(space, launch.recorded()))
        if time:
            microseconds = launch.timed(values, arguments, stream)
        else:
            launch.launch(values, arguments, stream)
        launch.synchronize()
        return replace(about, time_us=microseconds)

    def attributes(self, device: int = 0) -> Attributes:
        """Returns the kernel's registers, spills, shared memory and occupancy on a GPU. Raises DeviceError if there is
        no GPU."""
        return self._load(device).attributes()

    def _order(
        self, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], tuple[int, int, int] | None, int | None]:
        """Returns (arguments in the order of the parameters, grid, stream)."""
        label, params = self.header.label, self.header.params
        grid, stream = (named.pop(option, None) for option in OPTIONS)
        if len(arguments) > len(params):
            raise LaunchError("call", f"{label} takes {len(params)} arguments, {len(arguments)} were given")
        ordered = list(arguments)
        for param in params[len(arguments) :]:
            if param.name not in named and not (isinstance(param, HeaderTensor) and param.optional):
                takes = ", ".join(param.name for param in params)
                raise LaunchError("call", f"{label} misses {param.name}", f"it takes {takes}")
            ordered.append(named.pop(param.name, None))
        for name in named:
            what = "twice" if any(param.name == name for param in params) else f"no parameter {name}"
            raise LaunchError("call", f"{label} takes {name} once" if what == "twice" else f"{label} has {what}")
        return tuple(ordered), _three(grid), stream

    def _prepare(self, arguments: Sequence[Any], grid: tuple[int, int, int] | None) -> tuple[Launch, list[Any]]:
        """Returns the prepared launch for the class of `arguments`, and the values to pack (see `ParamLayout`).

        The launch itself checks the pointers later, because they differ within a class."""
        tensors = self._tensors_of(arguments)
        _, launch, recognise = self._last
        try:
            known = grid is None and recognise(*tensors)
        except (TypeError, AttributeError):  # a recogniser accepts only arrays of its own framework
            known = False
        if known:
            values = [*map(launch.pointer, tensors)]
        else:
            launch, values = self._look_up(tensors, arguments, grid)
        if not self._only_tensors:
            self._add_rest(arguments, values)
        return launch, values

    def _look_up(
        self, tensors: Sequence[Any], arguments: Sequence[Any], grid: tuple[int, int, int] | None
    ) -> tuple[Launch, list[Any]]:
        """Returns the prepared launch for the tensors' signatures, and the pointers of the tensors. If the class is
        new, the launch is made."""
        values: list[Any] = []
        key: list[Any] = [grid]
        try:
            self._read(tensors, values, key)
        except (AttributeError, TypeError, RuntimeError, ValueError):
            # The reader is for arrays of other frameworks and failed half-way, so its lists are discarded.
            values, key = [], [grid]
            self._read_anew(tensors, values, key)
        for index in self._keyed:
            key.append(exact_key(arguments[index]))
        last_key, launch, _ = self._last
        signature = tuple(key)
        found = launch if key == last_key else self._classes.find(signature)
        if found is None:
            launch = self._classes.keep(signature, self._new_class(tensors, arguments, grid), MAX_CLASSES)
        else:
            launch = found
            if not found.renew(tensors) and key == last_key:
                return launch, values
        is_open = bool(self._keyed) or grid is not None  # scalars or a grid belong to the class, too
        self._last = (key, launch, unrecognised if is_open else launch.recognise)
        self._classes.remember(never if is_open or not self._only_tensors else launch.again(), 1)
        return launch, values

    def _read_anew(self, tensors: Sequence[Any], values: list[Any], key: list[Any]) -> None:
        """Chooses a Reader for the frameworks of these arrays, and reads the arrays with it. Raises LaunchError if a
        value is not an array."""
        for x, tensor in zip(tensors, self.header.tensors, strict=True):
            if x is None:
                raise LaunchError("call", f"{self.header.label} misses {tensor.name}")
        self._read = reader_of(tensors)
        try:
            self._read(tensors, values, key)
        except (AttributeError, TypeError, RuntimeError, ValueError) as error:
            raise LaunchError("array", f"{self.header.label}: an array cannot be read: {error}") from None

    def _add_rest(self, arguments: Sequence[Any], values: list[Any]) -> None:
        """Appends the scalars and tables to `values`. Raises LaunchError if an absent tensor is not None."""
        for index, convert in self._layout.converters:
            values.extend(convert(arguments[index]))
        for index in self._absent:
            if arguments[index] is not None:
                name = self.header.params[index].name
                raise LaunchError("call", f"{self.header.label} was compiled without {name}")

    def _new_class(self, tensors: Sequence[Any], arguments: Sequence[Any], grid: tuple[int, int, int] | None) -> Launch:
        frameworks = [framework_of(x) for x in tensors]
        arrays = {
            tensor.name: framework.describe(x)
            for tensor, framework, x in zip(self.header.tensors, frameworks, tensors, strict=True)
        }
        keyed = [(self.header.params[index].name, arguments[index]) for index in self._keyed]
        scalars = {name: _number(value, name) for name, value in keyed}
        ordinal = self._place(arrays)
        # The emulator models the chip for which the PTX was compiled.
        facts = emulated_facts(self.header.arch) if ordinal is None else device_facts(ordinal)
        sms = facts.sms if ordinal is None or self.header.cluster == 1 else self._load(ordinal).sms
        call = self._checker.check(arrays, scalars, sms, grid)
        launch = self._back_end(ordinal, call, list(dict.fromkeys(frameworks)))
        if not isinstance(launch, EmptyLaunch):
            launch.tells(frameworks, [tensor.written for tensor in self.header.tensors])
        if len(set(frameworks)) == 1:
            launch.recognises(frameworks[0], tensors)
        return launch

    def _place(self, arrays: Mapping[str, Array]) -> int | None:
        """Returns the CUDA ordinal of the launch's device, or None for the emulator."""
        places = {array.device: name for name, array in arrays.items()}
        if len(places) > 1:
            where = ", ".join(f"{name} on {_place_name(device)}" for device, name in places.items())
            raise LaunchError("device", f"{self.header.label}: the arrays are on different devices: {where}")
        device = next(iter(places), None)
        if device is None:
            # There is no device array, so the caller's `device` decides.
            return choose(self.device)
        if self.device == "emulator" or self.device not in ("auto", "cuda", f"cuda:{device}"):
            name = places[device]
            raise LaunchError("device", f"{self.header.label}: {name} is on cuda:{device}, not on {self.device}")
        return device

    def _load(self, ordinal: int) -> LoadedKernel:
        if ordinal not in self._loaded:
            from dsl.runtime.cuda.context import context
            from dsl.runtime.cuda.module import load

            self._loaded[ordinal] = load(context(ordinal), self.ptx, self.header)
        return self._loaded[ordinal]

    def _back_end(self, ordinal: int | None, call: CallClass, frameworks: list[Framework]) -> Launch:
        if 0 in call.grid:
            return EmptyLaunch(call, ordinal)
        if ordinal is None:
            return EmulatedLaunch(self.ptx, self._checker, self._layout, call, self.overlaps)
        from dsl.runtime.cuda_launch import CudaLaunch, ForeignLaunch, HostLaunch

        is_host = any(array.device is None for array in call.arrays.values())
        is_foreign = any(framework.foreign for framework in frameworks)
        # The launch waits even if only one of its arrays is of a foreign framework.
        kind = HostLaunch if is_host else ForeignLaunch if is_foreign else CudaLaunch
        # Host arrays have no stream, so the launch uses the default stream.
        known = [] if is_host else frameworks
        return kind(self._load(ordinal), self._checker, self._layout, call, known, self.overlaps)


class EmptyLaunch(Repeated):
    """The prepared launch of a class of calls whose grid has no blocks. It does nothing."""

    def __init__(self, call: CallClass, ordinal: int | None) -> None:
        self.call = call
        self.ordinal = ordinal

    def launch(self, values: Sequence[Any], arguments: Sequence[Any], stream: int | None = None) -> None:
        """Does nothing, because the driver refuses a grid without blocks."""


class Bound:
    """A callable that launches with fixed arguments. It keeps the arrays alive.

    After each launch, it calls `changed(written)`, unless `changed` is None."""

    __slots__ = ("_changed", "_submit", "_written", "arguments")

    def __init__(
        self, submit: Callable[[], None], arguments: tuple[Any, ...], changed: Changed | None, written: list[Any]
    ) -> None:
        self._submit, self.arguments = submit, arguments
        self._changed, self._written = changed, written

    def __call__(self) -> None:
        self._submit()
        if self._changed is not None:
            self._changed(self._written)


def synchronize() -> None:
    """Waits for every device on which this process has launched. Raises DeviceError or DeviceAssertError."""
    from dsl.runtime.cuda.context import used_contexts

    for context in used_contexts():
        context.synchronize()


def _select(headers: Mapping[str, Header], entry: str | None) -> Header:
    if not headers:
        hint = "compile it with dsl compile, or use dsl.runtime.emulate"
        raise LaunchError("ptx", "the PTX has no //dsl header", hint)
    if entry is None and len(headers) == 1:
        return next(iter(headers.values()))
    if entry is None or entry not in headers:
        what = "choose an entry" if entry is None else f"no header of entry {entry}"
        raise LaunchError("ptx", f"{what}: the PTX has {', '.join(headers)}")
    return headers[entry]


def _three(grid: Any) -> tuple[int, int, int] | None:
    if grid is None:
        return None
    blocks = (grid,) if isinstance(grid, int) else tuple(grid)
    if not 1 <= len(blocks) <= 3:
        raise LaunchError("grid", f"a grid has one to three extents, not {grid!r}")
    return (*blocks, *(1,) * (3 - len(blocks)))  # type: ignore[return-value]


def _number(value: Any, name: str) -> Number:
    """Converts a Python or numpy number to a plain Python number. Raises LaunchError for other objects."""
    found = item_of(value)
    if isinstance(found, (Rational, Decimal)) and not isinstance(found, int):
        found = as_float(found)
    if not isinstance(found, (bool, int, float)):
        raise LaunchError("type", f"{name} is a number; this is {named(value)}")
    return plain(found)


def _place_name(device: int | None) -> str:
    return "the host" if device is None else f"cuda:{device}"
