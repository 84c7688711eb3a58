"""A PTX text that can be launched.

For PTX of any other compiler, the caller gives the arguments and the grid. PTX of this project's compiler has a header
that describes both. The classes for the two kinds have the same interface.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from dsl.examples.first_blocks import blocks_run
from dsl.examples.ptx_run import choose_dims, guessed_of, random_arguments
from dsl.examples.transfers import on_device
from dsl.lowering.ir.location import Loc, Source, TileError, closest
from dsl.runtime import Kernel, describe, device_facts, is_array, synchronize
from dsl.runtime.errors import LaunchError
from dsl.runtime.foreign import ALIGNED, Extents, ForeignKernel, MapOf, alignment_fault
from dsl.runtime.header import Scalar
from dsl.runtime.renewed import Span, changed_spans
from dsl.text import tree as ast
from dsl.text.program import parse_program
from dsl.values.arrays import Arrays

MAP_USAGE = "tensor_map(x, [64, 128], swizzle=128): the box along the axes of x"


class Counted(Struct):
    """The result of a launch on the emulator. `blocks` is the number of blocks that ran."""

    counters: Any
    blocks: int
    findings: list[Any] = field(default_factory=list)
    notes: list[Any] = field(default_factory=list)
    output: str = ""
    writers: list[Any] = field(default_factory=list)


class OnGpu(Struct):
    """A launch on a GPU.

    `submit` starts the launch. `copy_back` waits until it ends, and copies the arrays to the host. `attributes` returns
    the function attributes that the driver reports. `changed` lists the memory that a launch may both read and change.
    """

    submit: Callable[[], None]
    copy_back: Callable[[], None]
    attributes: Callable[[], Any]
    changed: list[Span]


class AskedLaunch(Struct, frozen=True):
    """The launch options for PTX of another compiler, as the user typed them. A missing option is None.

    Options are expressions of the tile language, and may use the names of the values: `cdiv(n, 256)`. Extents are in
    the order x, y, z.
    """

    entry: str | None = None
    grid: str | None = None
    block: str | None = None
    cluster: str | None = None
    shared: str | None = None
    arguments: str | None = None


# ---- values ----


def expressions(text: str, option: str) -> list[ast.Expr]:
    """Parses expressions separated by commas. Their source locations refer to `text`. Raises TileError."""
    if "\n" in text:
        raise TileError("option", None, f"{option} is one line")
    program = parse_program(f"example:\n    given = [{text}]\n", option)
    (line,) = program.examples[0].lines
    assert isinstance(line, ast.Assign) and isinstance(line.value, ast.Sequence)
    return line.value.items


def map_of(node: ast.Expr, host: Arrays) -> MapOf | None:
    """Evaluates an expression such as `tensor_map(x, [64, 128], swizzle=128)` to a tensor map. Returns None for any
    other expression.

    Raises TileError.
    """
    if not (isinstance(node, ast.Call) and isinstance(node.function, ast.Name) and node.function.id == "tensor_map"):
        return None
    box = node.args[1] if len(node.args) == 2 else None
    if not isinstance(box, ast.Sequence) or node.keywords.keys() - {"swizzle"}:
        raise TileError("call", node.loc, "a tensor map takes an array, a TMA box, and optionally a swizzle", MAP_USAGE)
    array = host(node.args[0])
    if not hasattr(array, "ctypes"):
        raise TileError("type", node.args[0].loc, "a tensor map takes an array", MAP_USAGE)
    swizzle = host.integer(node.keywords["swizzle"], "a swizzle") if "swizzle" in node.keywords else 0
    return MapOf(row_major(array), tuple(host.integer(extent, "an extent") for extent in box.items), swizzle)


# Kernels of other compilers are not passed the arrays' strides.
def row_major(value: Any) -> Any:
    """Returns an array in row-major order without gaps, as kernels of other compilers expect it. Returns other values
    unchanged."""
    if not hasattr(value, "ctypes") or value.flags.c_contiguous:
        return value
    import numpy as np

    return np.ascontiguousarray(value)


def described(value: Any) -> str:
    """Describes a value as text, such as `f16[9, 1000]` or `1000`."""
    if isinstance(value, MapOf):
        swizzle = f", swizzle {value.swizzle}" if value.swizzle else ""
        return f"map of {described(value.array)} in boxes of {list(value.box)}{swizzle}"
    if hasattr(value, "ctypes"):
        return f"{describe(value).dtype}{list(value.shape)}"
    return str(value).lower() if isinstance(value, bool) else str(value)


# ---- of any compiler ----


class ForeignText:
    """PTX of another compiler (without our header), with the arguments of one launch.

    `given` lists the names of the values, in the order of the command line. Raises TileError or LaunchError.
    """

    is_foreign = True
    schedule: str | None = None
    guessed: Mapping[str, int] = {}

    def __init__(self, text: str, file: str, asked: AskedLaunch, host: Arrays, given: Sequence[str]):
        self.source, self.host = Source(file, text), host
        try:
            self.kernel = ForeignKernel(text, asked.entry)
        except LaunchError as error:
            raise TileError(error.code, None, f"{file}: {error.message}", error.hint or "--entry NAME") from None
        self.ptx, self.entry, self.label = text, self.kernel.entry, self.kernel.entry
        self.arch, self.maxnreg = self.kernel.target, self.kernel.maxnreg
        self.values, self.names = self.bound(asked.arguments, given)
        grid = self.extents(asked.grid, "--grid")
        if grid is None:
            raise TileError("grid", self.place, f"how many blocks does {self.entry} have?", "--grid X[,Y[,Z]]")
        block, cluster = self.extents(asked.block, "--block"), self.extents(asked.cluster, "--cluster")
        shared = self.numbers(asked.shared or "0", "--shared", 2)
        if len(shared) > 1 and (fault := alignment_fault(shared[1])):
            raise TileError("option", None, fault, ALIGNED)
        try:
            self.shape = self.kernel.shape(grid, block, cluster, (shared[0], shared[1] if len(shared) > 1 else 0))
        except LaunchError as error:
            raise TileError(error.code, self.place, error.message, error.hint) from None
        self.grid, self.block, self.cluster = self.shape.grid, self.shape.block, self.shape.cluster
        self.shared_bytes = self.shape.shared_bytes

    @property
    def place(self) -> Loc:
        """The location of the kernel's signature in the PTX."""
        return Loc(self.source, self.kernel.signature.start, self.kernel.signature.end)

    def numbers(self, text: str, option: str, most: int) -> list[int]:
        """Parses 1 to `most` integers of at least 0, such as `32,8`."""
        nodes = expressions(text, option)
        if not 1 <= len(nodes) <= most:
            raise TileError("option", None, f"{option} takes 1 to {most} numbers, not {len(nodes)}")
        found = [self.host.integer(node, f"a number of {option}") for node in nodes]
        for node, number in zip(nodes, found, strict=True):
            if not 0 <= number < 1 << 31:
                raise TileError("option", node.loc, f"{number} is not a number for {option}", "0 to 2147483647")
        return found

    def extents(self, text: str | None, option: str) -> Extents | None:
        if text is None:
            return None
        x, y, z = [*self.numbers(text, option, 3), 1, 1][:3]
        if 0 in (x, y, z):
            raise TileError("grid", None, f"{option} {text} has no blocks" if option == "--grid" else f"{option}: a 0")
        return x, y, z

    # ---- arguments ----

    def bound(self, arguments: str | None, given: Sequence[str]) -> tuple[list[Any], list[str]]:
        """The value and the display name for each parameter. The values are those of --args, or else all given values
        in order."""
        if arguments is None:
            nodes: list[ast.Expr | None] = [None] * len(self.kernel.parameters)
            names = self.placed(given)
            values = [self.host.names[name] for name in names]
        else:
            found = expressions(arguments, "--args")
            names = [written(node) for node in found]
            values = [map_of(node, self.host) or row_major(self.value(node)) for node in found]
            nodes = list(found)
            self.check_count(names, len(found))
        for parameter, name, value, node in zip(self.kernel.parameters, names, values, nodes, strict=True):
            if fault := self.kernel.fault(parameter, value):
                place = Loc(self.source, parameter.start, parameter.end) if node is None else node.loc
                message = f"{parameter.name} {fault}: '{name}' is {described(value)}"
                raise TileError("call", place, message, MAP_USAGE if "tensor map" in fault else None)
        return values, names

    def value(self, node: ast.Expr) -> Any:
        """Evaluates an expression. A name gives the array itself, so that results appear under that name."""
        if isinstance(node, ast.Name) and node.id in self.host.names:
            return self.host.names[node.id]
        return self.host(node)

    def placed(self, given: Sequence[str]) -> list[str]:
        """Returns, for each parameter, the name of its value.

        A value may name its parameter by number (`2=…`) or by name. The other values are assigned to the other
        parameters in order.
        """
        params = [parameter.name for parameter in self.kernel.parameters]
        at: dict[int, str] = {}
        for name in given:
            index = numbered(name)
            index = params.index(name) if name in params else index
            if index is None:
                continue
            if index >= len(params) or index in at:
                what = "is given twice" if index in at else f"there is none: {self.entry} takes {len(params)}"
                raise TileError("call", self.place, f"parameter {index}: {what}")
            at[index] = name
        rest = [name for name in given if name not in at.values()]
        free = [index for index in range(len(params)) if index not in at]
        at |= dict(zip(free, rest, strict=False))
        self.check_count(given, len(given), [index for index in free if index not in at])
        return [at[index] for index in range(len(params))]

    def check_count(self, names: Sequence[str], count: int, missing: Sequence[int] = ()) -> None:
        """Raises a TileError unless each parameter has one value."""
        params = self.kernel.parameters
        if count == len(params):
            return
        if count > len(params):
            hint = f"--args selects values: --args '{', '.join(names[: len(params)])}'"
            message = f"{self.entry} takes {len(params)} arguments, {count} are given: {', '.join(names)}"
            raise TileError("call", self.place, message, hint)
        first = params[missing[0] if missing else count]
        hint = f"{self.entry} takes {', '.join(f'{each.name} (.{each.type})' for each in params)}"
        if len(params) - count == 2 and all(each.is_pointer for each in params[-2:]):
            hint = "Triton's last two parameters are workspaces: 0 if a kernel has none (scratch=0 profile=0)"
        message = f"{self.entry} takes {len(params)} arguments, {count} are given; {first.name} is the first without"
        raise TileError("call", Loc(self.source, first.start, first.end), message, hint)

    # ---- launches ----

    def count(self, blocks: int | None, arch: str | None, seed: int, time_limit: float) -> Counted:
        options: dict[str, Any] = {"on_finding": "collect", "ptx_lines": True, "seed": seed, "time_limit": time_limit}
        found = self.kernel.emulate(self.shape, self.values, self.names, arch=arch, blocks=blocks, **options)
        result = found.result
        ran = blocks_run(self.grid, prod(self.cluster), blocks)
        return Counted(result.counters, ran, result.findings, result.notes, result.output, found.writers)

    def on_gpu(self, ordinal: int) -> OnGpu:
        launch = self.kernel.load(self.shape, self.values, self.names, ordinal)
        return OnGpu(launch, launch.copy_back, launch.attributes, launch.memory())


def written(node: ast.Expr) -> str:
    """The display name of an argument: its text, or for a tensor map the text of its array."""
    if isinstance(node, ast.Call) and isinstance(node.function, ast.Name) and node.function.id == "tensor_map":
        node = node.args[0] if node.args else node
    return node.loc.text


def numbered(name: str) -> int | None:
    """Returns 2 for the name `parameter_2`, which stands for `2=…` on the command line. Returns None for other
    names."""
    number = name.removeprefix("parameter_")
    return int(number) if number != name and number.isdecimal() else None


# ---- ours ----


class OwnText:
    """PTX of this project's compiler, which has a header. The argument of each parameter is the value of the same name.

    If no array is given, the arguments are random arrays with the given dims. Raises TileError or LaunchError.
    """

    is_foreign = False

    def __init__(self, text: str, entry: str | None, names: Mapping[str, Any], device: str, seed: int):
        # This only checks the header. The device is chosen at the launch.
        self.kernel = Kernel(text, entry, "emulator")
        header = self.header = self.kernel.header
        self.ptx, self.entry, self.schedule = text, header.entry, header.schedule
        self.label, self.arch, self.maxnreg = header.kernel, header.arch, header.maxnreg
        self.block, self.cluster = (header.threads, 1, 1), (header.cluster, 1, 1)
        self.shared_bytes = header.shared_bytes
        self.guessed: Mapping[str, int] = {}
        bound = self.bound(names, device_facts(device, header.arch).sms, seed)
        self.names, self.values = list(bound), list(bound.values())
        self.grid: Extents = self.kernel.grid(*self.values)

    def bound(self, names: Mapping[str, Any], sms: int, seed: int) -> dict[str, Any]:
        header = self.header
        arrays = {tensor.name for tensor in header.tensors}
        if not arrays & names.keys():
            numbers = {name: value for name, value in names.items() if isinstance(value, bool | int | float)}
            known = [*header.dims, *(param.name for param in header.params if isinstance(param, Scalar))]
            if other := [name for name in names if name not in known and numbers.keys() == names.keys()]:
                hint = closest(other[0], known) or f"known: {', '.join(known)}; the constants of a PTX text are fixed"
                raise TileError("option", None, f"{header.label} has no dim or scalar '{other[0]}'", hint)
            dims = choose_dims(header, {name: numbers[name] for name in header.dims if name in numbers}, sms)
            self.guessed = guessed_of(dims, numbers)
            return random_arguments(header, dims, numbers, seed)
        optional = {param.name for param in header.params if param.name not in arrays and hasattr(param, "dims")}
        wanted = [param.name for param in header.params if param.name not in optional]
        for name in wanted:
            if name not in names:
                hint = closest(name, names) or f"it takes {', '.join(wanted)}, by their names"
                raise TileError("call", None, f"{header.label} has no value for '{name}'", hint)
        return {param.name: names.get(param.name) for param in header.params}

    def count(self, blocks: int | None, arch: str | None, seed: int, time_limit: float) -> Counted:
        options: dict[str, Any] = {"on_finding": "collect", "ptx_lines": True, "time_limit": time_limit}
        options |= {"seed": seed} if seed else {}
        options |= {"writers": True} if blocks is None else {"blocks": blocks}
        found = self.kernel.run(*self.values, **options)
        ran = blocks_run(self.grid, prod(self.cluster), blocks)
        return Counted(found.counters, ran, list(found.findings), [], found.output, list(found.writers))

    def on_gpu(self, ordinal: int) -> OnGpu:
        kernel = Kernel(self.ptx, self.entry, f"cuda:{ordinal}")
        arrays = on_device(dict(zip(self.names, self.values, strict=True)), ordinal)

        def copy_back() -> None:
            synchronize()
            for name, host in zip(self.names, self.values, strict=True):
                if host is not None and is_array(host):
                    arrays[name].allocation.copy_out(host.ctypes.data, host.nbytes)

        # Only memory that the kernel both reads and writes must be restored, since pure outputs are overwritten.
        changed = changed_spans([(kernel.header, [*arrays.values()])])
        return OnGpu(kernel.bind(*arrays.values()), copy_back, lambda: kernel.attributes(ordinal), changed)


LaunchedText = ForeignText | OwnText
"""A text with everything that one launch of it needs.

`names` and `values` are the arguments. `guessed` holds the dims that were not given. `count` launches all blocks or the
first blocks on the emulator, and collects faults. `on_gpu` copies the arrays to a GPU, and returns the launch.
"""


def read_value(text: str, host: Arrays, node: ast.Expr | None) -> Any:
    """Evaluates the expression `node`, or if it is None, reads the .npy file `text`. Raises TileError."""
    if node is not None:
        return map_of(node, host) or row_major(host(node))
    import numpy as np

    try:
        # A pickle could run code of the file's author.
        return row_major(np.load(Path(text), allow_pickle=False))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise TileError("file", None, f"{text} cannot be read as a .npy file: {reason}") from None
