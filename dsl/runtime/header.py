"""Reads and writes headers. A header tells the runtime all that it needs to launch a kernel. It is a line of JSON in
PTX text that begins with `//dsl ` and precedes `.version`.

A table in docs/architecture.md lists the keys. `read` parses the headers in PTX text, and `write` formats a header as a
line. A header is untrusted input. So `read` checks the schema version, and msgspec checks every type and size against
the annotations below. `read` also compares the header with the parameters of its `.entry`. For a wrong field, `read`
raises LaunchError `ptx` with the field's name. The header does not describe the body of the entry, so the body may be
edited by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, TypeVar

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from dsl.runtime.dtypes import DTYPES
from dsl.runtime.errors import LaunchError
from dsl.runtime.expressions import Tree
from dsl.runtime.header_checks import check_expression, check_signature, fail
from dsl.runtime.numbers import NOT_FINITE, in_json
from dsl.runtime.signature import entries
from dsl.runtime.tensor_map import (
    CORNERS,
    MAP_BYTES,
    MAP_POINTER,
    MAP_RANKS,
    MOST_OF_BOX,
    MOST_OF_PIXELS,
    MOST_OF_STEP,
    SWIZZLES,
    Window,
    box_fault,
)

SCHEMA = 1
PREFIX = "//dsl "
MOST_OF_AXES = 64
MAX_LINE = 1 << 20
ADDRESSES = ("pointer", "workspace", "record", "timeline")
"""Kinds of arguments whose values are addresses."""
NAMELESS = ("record", "timeline")
"""Kinds of arguments without a name. A kernel has at most one argument of each of these kinds."""
FIRST_WITH_MAPS = 90
"""Ten times the first compute capability with tensor maps (PTX ISA, "cp.async.bulk.tensor")."""
FIRST_THAT_OVERLAPS = 90
"""Ten times the first compute capability on which launches may overlap (PTX ISA, "griddepcontrol")."""
RECORD_WORDS = 8
"""Number of u32 words of an assert record: flag, `.tile` line, block x, y and z, thread, two unused words."""

VERSION = re.compile(r"^[ \t]*\.version", re.MULTILINE)
MISSING = re.compile(r"Object missing required field `(\w+)`")
# This limit bounds the time and memory that an untrusted header takes.
MOST_OF_ROWS = 1024
Row = TypeVar("Row")
Text = Annotated[str, Meta(max_length=4096)]
Name = Annotated[str, Meta(max_length=4096, pattern=r"^[A-Za-z_][A-Za-z0-9_.]*\Z")]
Line = Annotated[int, Meta(ge=0, le=1 << 31)]
Extent = Annotated[int, Meta(ge=0, lt=1 << 62)]
Offset = Annotated[int, Meta(ge=0, le=1 << 20)]
Several = Annotated[tuple[Row, ...], Meta(max_length=MOST_OF_ROWS)]


class SourceRecord(Struct, frozen=True):
    """Identifies the `.tile` file by its name without its folder, and by the SHA-256 of its text in hex."""

    file: Text
    sha256: Text


class HeaderTensor(Struct, frozen=True):
    """An array parameter.

    `dims` contains the extent of each axis, as a name or an int. `access` is r if the kernel reads the array, w if it
    writes it, or rw for both. `align` is the required alignment of the pointer in bytes. `present` is False if this
    variant was compiled without the optional tensor."""

    name: Name
    dtype: str
    dims: Several[Name | Extent]
    strided: bool
    access: Literal["r", "w", "rw"]
    align: Annotated[int, Meta(ge=1, le=4096)]
    optional: bool = False
    present: bool = True

    @property
    def written(self) -> bool:
        return self.access != "r"


class Scalar(Struct, frozen=True):
    """A number that is passed by value."""

    name: Name
    dtype: str


class HeaderTable(Struct, frozen=True):
    """A small array of `length` elements that is passed by value."""

    name: Name
    dtype: str
    length: Annotated[int, Meta(ge=1, le=1 << 15)]


class HeaderWorkspace(Struct, frozen=True):
    """Memory that the runtime provides for each launch: `each` elements for each block of the grid.

    If `zero` is true, the workspace contains zeros before each launch, and the launch must leave zeros in it."""

    name: Name
    dtype: str
    each: Annotated[int, Meta(ge=1, le=1 << 31)]
    zero: bool


class HeaderPipeline(Struct, frozen=True):
    """A software pipeline of `stages` stages in shared memory, between producer and consumer warps.

    The pipeline's mbarriers start `at` bytes after the start of dynamic shared memory and take 8 bytes each. The first
    `stages` mbarriers signal full stages, and the next `stages` mbarriers signal empty stages. Producers fill the
    stages with TMA copies of the tensors `of`."""

    at: Offset
    stages: Annotated[int, Meta(ge=1, le=1 << 10)]
    of: Several[Name]


class HeaderMark(Struct, frozen=True):
    """A mark: a part of the kernel at whose start and end warps record the time.

    A mark of the kind `life` covers the whole run of a warp. A mark of the kind `empty` contains no instructions. The
    other kinds are `barriers`, `loops` and `lines`. `line` is the line in the `.tile` file, or 0 if there is none."""

    kind: Literal["life", "empty", "barriers", "loops", "lines"]
    name: Text
    line: Line


Param = HeaderTensor | Scalar | HeaderTable
if TYPE_CHECKING:
    Params = tuple[Param, ...]
else:  # msgspec does not support unions of untagged structs, so `_param` reads the parameters
    Params = Several[Any]


class Argument(Struct, frozen=True):
    """One `.param` of the entry. `of` is the name of the tensor, scalar, table, dim or workspace that determines its
    value.

    `of` is empty for a record and for a timeline. `axis` is the axis of a stride. The other fields describe a tensor
    map. `axes` lists the axes of the tensor, innermost first. For a contiguous tensor, an axis may be left out. The map
    then merges this axis with the next axis. `box` is the number of elements along each axis that one TMA copy moves.
    `swizzle` is 0 or a number of bytes (see `TensorMap`). `window` is given only for im2col copies. In this case, `box`
    contains the number of channels and the number of pixels. `reduces` is true for TMA stores that reduce, whose map
    has the type of the elements."""

    kind: Literal["pointer", "stride", "scalar", "table", "dim", "workspace", "record", "timeline", "map"]
    of: Text = ""
    axis: Annotated[int, Meta(ge=0, lt=MOST_OF_AXES)] = 0
    axes: tuple[int, ...] = ()
    box: tuple[int, ...] = ()
    swizzle: int = 0
    window: Window | None = None
    reduces: bool = False


class Requirement(Struct, frozen=True):
    """A condition that a launch of this variant must satisfy, with its text, line and hint from a `.tile` file. `file`
    names this file if the kernel is in another one."""

    expr: Tree
    text: Text
    line: Line
    hint: Text | None
    file: Text | None = None

    @property
    def place(self) -> str:
        return f"line {self.line}" if self.file is None else f"line {self.line} of {self.file}"


class Header(Struct, frozen=True):
    """Everything that the runtime must know to launch one `.entry`. Sizes are in bytes.

    `grid`, `moves` and `computes` are expressions. One call may launch several kernels. If `overlaps` is true, a launch
    of this kernel may start before the preceding launches of the same call have ended. `in_place` contains pairs
    (output, input) of tensor names. The two tensors of a pair may be the same array."""

    entry: Annotated[str, Meta(max_length=4096, pattern=r"^[A-Za-z_$%][A-Za-z0-9_$]*\Z")]
    kernel: Text
    schedule: Text | None
    source: SourceRecord
    arch: Annotated[str, Meta(pattern=r"^sm_[0-9]{2,3}[af]?\Z")]
    constants: Annotated[Mapping[Name, int | float | bool | str], Meta(max_length=MOST_OF_ROWS)]
    threads: Annotated[int, Meta(ge=1, le=1024)]
    cluster: Annotated[int, Meta(ge=1, le=16)]
    shared_bytes: Offset
    maxnreg: Annotated[int, Meta(ge=1, le=255)] | None
    dims: Several[Name]
    params: Params
    arguments: Several[Argument]
    grid: tuple[Tree, Tree, Tree]
    index_bits: Literal[32, 64]
    workspaces: Several[HeaderWorkspace] = ()
    pipelines: Several[HeaderPipeline] = ()
    timeline: Several[HeaderMark] = ()
    overlaps: bool = False
    in_place: Several[tuple[Name, Name]] = ()
    requires: Several[Requirement] = ()
    moves: Tree | None = None
    computes: Tree | None = None

    @property
    def label(self) -> str:
        """The kernel and its schedule, for messages: `softmax_rows with lanes`."""
        return self.kernel if self.schedule is None else f"{self.kernel} with {self.schedule}"

    @property
    def tensors(self) -> tuple[HeaderTensor, ...]:
        """The array parameters that are present in this variant."""
        return tuple(param for param in self.params if isinstance(param, HeaderTensor) and param.present)

    def argument_bytes(self, argument: Argument) -> int:
        """Returns the size of an argument in parameter space, in bytes."""
        lengths = {("table", each.name): each.length for each in self.params if isinstance(each, HeaderTable)}
        length = MAP_BYTES if argument.kind == "map" else lengths.get((argument.kind, argument.of), 1)
        return length * DTYPES[self.argument_dtype(argument)].bytes

    def argument_dtype(self, argument: Argument) -> str:
        """Returns the element type of an argument in parameter space. Dims and strides are signed integers, and a
        tensor map is an array of u8."""
        if argument.kind in ADDRESSES:
            return "u64"
        if argument.kind == "map":
            return "u8"
        if argument.kind in ("stride", "dim"):
            return f"s{self.index_bits}"
        return next(param.dtype for param in self.params if param.name == argument.of)


KINDS: dict[type, str] = {HeaderTensor: "tensor", Scalar: "scalar", HeaderTable: "table"}


def to_json(header: Header) -> dict[str, Any]:
    """Returns a header as a JSON object. Its keys are in the order of the table in docs/architecture.md."""
    record: dict[str, Any] = {"schema": SCHEMA, **msgspec.to_builtins(header)}
    record["constants"] = {name: in_json(value) for name, value in header.constants.items()}
    record |= {key: in_json(record[key]) for key in ("grid", "moves", "computes")}
    record["requires"] = [_requirement_json(require) for require in header.requires]
    kinds = [KINDS[type(param)] for param in header.params]
    record["params"] = [{"kind": kind, **row} for kind, row in zip(kinds, record["params"], strict=True)]
    record["arguments"] = [_argument_json(argument) for argument in header.arguments]
    for optional in ("moves", "computes", "workspaces", "pipelines", "timeline", "overlaps", "in_place"):
        if record[optional] in (None, (), False):
            del record[optional]
    return record


def _requirement_json(require: Requirement) -> dict[str, Any]:
    row = msgspec.to_builtins(require) | {"expr": in_json(require.expr)}
    return {key: value for key, value in row.items() if key != "file" or value is not None}


def _argument_json(argument: Argument) -> dict[str, Any]:
    if argument.kind in NAMELESS:
        return {"kind": argument.kind}
    if argument.kind in ("dim", "workspace"):
        return {"kind": argument.kind, "name": argument.of}
    if argument.kind == "stride":
        return {"kind": "stride", "of": argument.of, "axis": argument.axis}
    if argument.kind == "map":
        about: dict[str, Any] = {"axes": list(argument.axes), "box": list(argument.box), "swizzle": argument.swizzle}
        if argument.window is not None:
            about["window"] = {key: list(values) for key, values in msgspec.to_builtins(argument.window).items()}
        if argument.reduces:
            about["reduces"] = True
        return {"kind": "map", "of": argument.of, **about}
    return {"kind": argument.kind, "of": argument.of}


def write(header: Header) -> str:
    """Returns a header as a `//dsl ` line, to be placed before `.version`. The line is ASCII and ends with a
    newline."""
    return PREFIX + json.dumps(to_json(header), allow_nan=False, separators=(",", ":")) + "\n"


def read(ptx: str) -> dict[str, Header]:
    """Returns the headers in `ptx` by the names of their entries. Raises LaunchError `ptx` for a malformed header, with
    the name of the wrong field."""
    signatures = entries(ptx)
    headers: dict[str, Header] = {}
    version = VERSION.search(ptx)  # the text after it, which may be long, is not split into lines
    for number, line in enumerate(ptx[: version and version.end()].splitlines(), 1):
        if line.lstrip().startswith(".version"):
            break
        if not line.startswith(PREFIX):
            continue
        header = parse(_json(line, number))
        if header.entry in headers:
            raise LaunchError("ptx", f"line {number}: a second header of entry {header.entry}")
        if header.entry not in signatures:
            known = ", ".join(signatures) or "none"
            raise LaunchError("ptx", f"header field entry: the PTX has no entry {header.entry} (it has: {known})")
        sizes = [
            (argument.kind, argument.of, header.argument_dtype(argument), header.argument_bytes(argument))
            for argument in header.arguments
        ]
        check_signature(header.entry, sizes, signatures[header.entry])
        headers[header.entry] = header
    return headers


def _json(line: str, number: int) -> Any:
    def fail(why: str) -> NoReturn:
        raise LaunchError("ptx", f"line {number}: the header {why}")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        record = dict(pairs)
        # For a repeated key json.loads takes the last value. Another reader might take the first one.
        if len(record) != len(pairs):
            fail("repeats a key")
        return record

    if len(line) > MAX_LINE:
        fail(f"is longer than {MAX_LINE} characters")
    # `write` makes only ASCII lines.
    if not line.isascii():
        fail("is not ASCII")
    try:
        text = line.removeprefix(PREFIX)
        # JSON has no Infinity and no NaN. Headers contain them as strings.
        return json.loads(text, object_pairs_hook=unique, parse_constant=lambda word: fail(f"contains {word}"))
    except RecursionError:
        fail("is nested too deeply")
    except ValueError as error:
        fail(f"is not JSON: {error}")


# ---- reading ----


class _HeaderRows(Struct, frozen=True):
    """A partly parsed header. Its parameters and arguments are still JSON objects, because `parse` chooses their
    classes by their `kind`."""

    schema: int
    params: Several[dict[str, Any]]
    arguments: Several[dict[str, Any]]
    requires: Several[Requirement]


def parse(record: Any) -> Header:
    """Converts a JSON object to a Header and checks it. Only `read` also compares the header with its `.entry`."""
    rows = _read(record, _HeaderRows)
    if rows.schema != SCHEMA:
        fail("schema", f"is {rows.schema}, this runtime reads {SCHEMA}")
    params = tuple(_param(row, f"params[{index}]") for index, row in enumerate(rows.params))
    arguments = tuple(_argument(row, f"arguments[{index}]") for index, row in enumerate(rows.arguments))
    header = _read({**record, "params": [], "arguments": []}, Header)
    # In a header, inf and nan are strings.
    constants = {n: NOT_FINITE.get(v, v) if isinstance(v, str) else v for n, v in header.constants.items()}
    header = replace(header, constants=constants, params=params, arguments=arguments)
    _check_known(record, to_json(header), "")
    tensors = {tensor.name: tensor for tensor in header.tensors}
    for y, x in header.in_place:
        if y not in tensors or x not in tensors or not tensors[y].written:
            fail("in_place", f"has {y} and {x}, not a written tensor and another tensor")
    for index, workspace in enumerate(header.workspaces):
        _check_dtype(workspace.dtype, f"workspaces[{index}]")
    # This check comes last, because it relies on correct types.
    _check_names(header)
    return header


def _read(record: Any, kind: type[Row], path: str = "") -> Row:
    """Converts a JSON object to the class `kind`. Raises LaunchError `ptx` if the object is malformed."""
    try:
        return msgspec.convert(record, kind)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$")
        where = path + place.rstrip("`")
        if found := MISSING.fullmatch(what):
            where, what = f"{where}.{found[1]}", "is missing"
        fail(where.removeprefix("."), what)


def _check_known(given: Any, known: Any, path: str) -> None:
    """Raises LaunchError `ptx` for unknown and for missing fields.

    `given` is the JSON of a header or an argument. `known` is the JSON that this module would write for the same
    object. `known` lacks optional fields that have no value. So a field that is only in `given` is allowed if it is
    null, false or []."""
    if isinstance(given, dict):
        for key, value in {**dict.fromkeys(known), **given}.items():
            where = f"{path}.{key}"[:64].removeprefix(".")
            if key not in given:
                fail(where, "is missing")
            elif key in known:
                _check_known(value, known[key], where)
            elif value is not None and value is not False and value != []:
                fail(where, "is not known")
    elif isinstance(given, list):
        for index, (value, other) in enumerate(zip(given, known, strict=True)):
            _check_known(value, other, f"{path}[{index}]")


def _check_dtype(dtype: str, where: str) -> None:
    if dtype not in DTYPES:
        fail(f"{where}.dtype", f"is {dtype[:64]!r}, not one of {', '.join(DTYPES)}")


def _param(row: dict[str, Any], where: str) -> Param:
    kinds = {name: kind for kind, name in KINDS.items()}
    if row.get("kind") not in kinds:
        fail(f"{where}.kind", f"is {row.get('kind')!r:.64}, not tensor, scalar or table")
    param: Param = _read(row, kinds[row["kind"]], where)
    _check_dtype(param.dtype, where)
    if isinstance(param, HeaderTensor):
        # Alignments must be powers of two, because a mask tests the pointers.
        if param.align & (param.align - 1):
            fail(f"{where}.align", f"is not a power of two: {param.align}")
        if not param.optional and not param.present:
            fail(f"{where}.present", "is false for a tensor that is not optional")
    return param


def _argument(written: dict[str, Any], where: str) -> Argument:
    row = written
    if row.get("kind") in ("dim", "workspace"):
        row = {("of" if key == "name" else key): value for key, value in row.items()}
    argument = _read(row, Argument, where)
    _check_known(written, _argument_json(argument), where)
    if argument.kind == "map":
        _check_extents(argument, where)
    return argument


def _check_extents(argument: Argument, where: str) -> None:
    """Checks the axes, the box, the swizzle and the window of a tensor map."""

    def check(key: str, values: tuple[int, ...], counts: range, low: int, high: int) -> None:
        if len(values) not in counts:
            wanted = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
            fail(f"{where}.{key}", f"has {len(values)} elements, not {wanted}")
        for value in values:
            if not low <= value <= high:
                fail(f"{where}.{key}", f"has {value}, outside {low} to {high}")

    if argument.swizzle not in SWIZZLES:
        fail(f"{where}.swizzle", f"is {argument.swizzle}, not {' or '.join(map(str, SWIZZLES))}")
    check("axes", argument.axes, MAP_RANKS, 0, MOST_OF_AXES - 1)
    window, rank = argument.window, len(argument.axes)
    if window is None:
        check("box", argument.box, MAP_RANKS, 1, MOST_OF_BOX)
        return
    if rank not in CORNERS:
        fail(f"{where}.window", f"is of a map of {rank} axes, not {min(CORNERS)} to {max(CORNERS)}")
    spatial = range(rank - 2, rank - 1)
    check("window.lower", window.lower, spatial, *CORNERS[rank])
    check("window.upper", window.upper, spatial, *CORNERS[rank])
    check("window.steps", window.steps, spatial, 1, MOST_OF_STEP)
    check("box", argument.box, range(2, 3), 1, MOST_OF_PIXELS)
    if argument.box[0] > MOST_OF_BOX:
        fail(f"{where}.box", f"has {argument.box[0]} channels, more than {MOST_OF_BOX}")


def stride_name(tensor: str, axis: int) -> str:
    """Returns the name of a tensor's stride in expressions, such as `x.stride0`. The stride is in elements."""
    return f"{tensor}.stride{axis}"


def _check_names(header: Header) -> None:
    """Checks that names are unique, and that all names in the header refer to existing dims, tensors and so on."""
    names = {"dims": [*header.dims], "params": [param.name for param in header.params]}
    names["workspaces"] = [workspace.name for workspace in header.workspaces]
    for key, found in names.items():
        if len({*found}) != len(found):
            fail(key, "has a name twice")
    present = [param for param in header.params if isinstance(param, HeaderTensor) and param.present]
    bound, dims = {dim for tensor in present for dim in tensor.dims if isinstance(dim, str)}, {*header.dims}
    if dims - bound:
        fail("dims", f"has {min(dims - bound)}, which no tensor binds")
    if bound - dims:
        fail("params", f"has a tensor with the dim {min(bound - dims)}, which is not in dims")
    if header.overlaps and _capability(header.arch) < FIRST_THAT_OVERLAPS:
        fail("overlaps", f"is true, and launches on {header.arch} do not overlap")
    for index, pipeline in enumerate(header.pipelines):
        if unknown := {*pipeline.of} - {tensor.name for tensor in present}:
            fail(f"pipelines[{index}].of", f"has {min(unknown)}, which is no tensor")
    for index, argument in enumerate(header.arguments):
        _check_argument(header, argument, f"arguments[{index}]")
    _check_expressions(header, [tensor for tensor in present if tensor.strided])


def _check_expressions(header: Header, strided: list[HeaderTensor]) -> None:
    """Checks that the header's expressions contain only known names. These are dims, constants, scalars, strides, and
    `sms`, the number of multiprocessors."""
    numbers = {name for name, value in header.constants.items() if not isinstance(value, str)}
    scalars = {param.name for param in header.params if isinstance(param, Scalar)}
    strides = {stride_name(tensor.name, axis) for tensor in strided for axis in range(len(tensor.dims))}
    known = {"sms"} | set(header.dims) | numbers | scalars | strides
    trees = {f"grid[{axis}]": tree for axis, tree in enumerate(header.grid)}
    trees |= {f"requires[{index}].expr": require.expr for index, require in enumerate(header.requires)}
    trees |= {key: tree for key in ("moves", "computes") if (tree := getattr(header, key)) is not None}
    for where, tree in trees.items():
        check_expression(where, tree, known)


def _check_argument(header: Header, argument: Argument, where: str) -> None:
    if argument.kind in NAMELESS:
        if argument.kind == "timeline" and not header.timeline:
            fail(where, "is a timeline, whose marks are missing")
        return
    known = {"dim": header.dims, "workspace": [workspace.name for workspace in header.workspaces]}
    if argument.kind in known:
        if argument.of not in known[argument.kind]:
            fail(where, f"names {argument.of!r}, which is no {argument.kind}")
        return
    param = next((param for param in header.params if param.name == argument.of), None)
    wanted = {"scalar": Scalar, "table": HeaderTable}.get(argument.kind, HeaderTensor)
    if not isinstance(param, wanted):
        fail(where, f"is a {argument.kind} of {argument.of!r}, which is no such parameter")
    if isinstance(param, HeaderTensor):
        if not param.present:
            fail(where, f"is of {param.name}, which is not present")
        if argument.kind == "stride" and not (param.strided and argument.axis < len(param.dims)):
            fail(where, f"is a stride of {param.name} along axis {argument.axis}, which it does not have")
        if argument.kind == "map":
            _check_map(header, argument, param, where)


def _capability(arch: str) -> int:
    return int(arch.removeprefix("sm_").rstrip("af"))


def _check_map(header: Header, argument: Argument, tensor: HeaderTensor, where: str) -> None:
    rank, axes = len(tensor.dims), sorted(argument.axes)
    if _capability(header.arch) < FIRST_WITH_MAPS:
        fail(where, f"is a map, which {header.arch} does not have")
    if axes != list(range(rank)) and (tensor.strided or len({*axes}) < len(axes) or axes[-1] != rank - 1):
        fail(f"{where}.axes", f"is {list(argument.axes)}, not each of the {rank} axes of {tensor.name} once")
    if argument.window is None and len(argument.box) != len(axes):
        fail(f"{where}.box", f"has {len(argument.box)} extents for the {len(axes)} axes of {tensor.name}")
    if (fault := box_fault(argument.box[0] * DTYPES[tensor.dtype].bytes, argument.swizzle)) is not None:
        fail(f"{where}.box", fault)
    if tensor.align % MAP_POINTER:  # each call checks its pointers only for the tensor's `align`
        fail(where, f"is a map of {tensor.name}, whose align is {tensor.align}, not a multiple of {MAP_POINTER}")
