"""The header: what a launch needs to know of a kernel, as `//dsl ` lines of JSON before `.version`.

docs/architecture.md has the table of its keys. `read` takes it out of PTX text, `write` makes the line. A header is
untrusted input: `read` checks the schema version, every type and size, and that it fits the `.entry` it names, and
raises LaunchError `ptx` naming the field. The body of the PTX is not covered: editing it by hand is legal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, NoReturn

from dsl.runtime.dtypes import DTYPES
from dsl.runtime.errors import LaunchError
from dsl.runtime.expressions import Tree
from dsl.runtime.header_checks import Fields, check_expression, check_signature
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
"""Kinds of arguments that are an address."""
NAMELESS = ("record", "timeline")
"""Kinds of which a kernel has one at most."""
MARKS = ("life", "empty", "barriers", "loops", "lines")
"""Kinds of marks."""
FIRST_WITH_MAPS = 90
"""The first compute capability, times ten, that copies by tensor maps (PTX ISA, "cp.async.bulk.tensor")."""
FIRST_THAT_OVERLAPS = 90
"""The same, of launches that start before those in front have ended (PTX ISA, "griddepcontrol")."""
RECORD_WORDS = 8
"""u32 words of an assert record: flag, `.tile` line, block x, y, z, thread, two spare."""


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """The `.tile` file: its path as given, and the SHA-256 of its text in hex."""

    file: str
    sha256: str


@dataclass(frozen=True, slots=True)
class HeaderTensor:
    """An array parameter. `dims`: a name or an int an axis; `access`: r, w or rw; `align`: bytes, of its pointer;
    `present`: False when this variant was compiled without an optional one."""

    name: str
    dtype: str
    dims: tuple[str | int, ...]
    strided: bool
    access: Literal["r", "w", "rw"]
    align: int
    optional: bool = False
    present: bool = True

    @property
    def written(self) -> bool:
        return self.access != "r"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number passed by value."""

    name: str
    dtype: str


@dataclass(frozen=True, slots=True)
class HeaderTable:
    """A small array passed by value: `length` elements."""

    name: str
    dtype: str
    length: int


@dataclass(frozen=True, slots=True)
class HeaderWorkspace:
    """Memory that each launch provides, not the caller: `each` elements for a block of its grid. One with `zero` holds
    zeros at each launch, which leaves it so."""

    name: str
    dtype: str
    each: int
    zero: bool


@dataclass(frozen=True, slots=True)
class HeaderChannel:
    """Barriers between roles of warps: `slots` that say that a slot is full and as many that it is free, 8 bytes each,
    `at` bytes behind the start of the dynamic shared memory. Boxes of the tensors `of` go through."""

    at: int
    slots: int
    of: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HeaderMark:
    """What warps note the begin and the end of, at a line of the `.tile` file (0: none): `life` of a warp, `empty`,
    which is nothing, `barriers`, `loops` or `lines`."""

    kind: str
    name: str
    line: int


Param = HeaderTensor | Scalar | HeaderTable


@dataclass(frozen=True, slots=True)
class Argument:
    """One `.param` of the entry. `of` is the tensor, scalar, table, dim or workspace that it comes from; none for a
    record and a timeline.

    Of a map, a tensor map for copies by TMA: `axes` of its tensor, the innermost first, of a contiguous one without
    those that are joined to the next one; `box`, elements along each of them that one copy moves; `swizzle`, 0 or bytes
    (see `TensorMap`). With a `window`, for im2col copies, `box` is channels and pixels.
    """

    kind: Literal["pointer", "stride", "scalar", "table", "dim", "workspace", "record", "timeline", "map"]
    of: str = ""
    axis: int = 0
    axes: tuple[int, ...] = ()
    box: tuple[int, ...] = ()
    swizzle: int = 0
    window: Window | None = None


@dataclass(frozen=True, slots=True)
class Requirement:
    """A condition of this variant: its text, line and hint as the `.tile` file has them."""

    expr: Tree
    text: str
    line: int
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Header:
    """All that a launch needs of one `.entry`. Sizes in bytes; `grid`, `moves` and `computes` are expressions;
    `overlaps`: right behind the launches in front of it in its call, it may start before they have ended; `in_place`:
    pairs of an output and an input that may be one array."""

    entry: str
    kernel: str
    schedule: str | None
    source: SourceRecord
    arch: str
    constants: Mapping[str, int | float | bool | str]
    threads: int
    cluster: int
    shared_bytes: int
    maxnreg: int | None
    dims: tuple[str, ...]
    params: tuple[Param, ...]
    arguments: tuple[Argument, ...]
    grid: tuple[Tree, Tree, Tree]
    index_bits: Literal[32, 64]
    workspaces: tuple[HeaderWorkspace, ...] = ()
    channels: tuple[HeaderChannel, ...] = ()
    timeline: tuple[HeaderMark, ...] = ()
    overlaps: bool = False
    in_place: tuple[tuple[str, str], ...] = ()
    requires: tuple[Requirement, ...] = ()
    moves: Tree | None = None
    computes: Tree | None = None

    @property
    def label(self) -> str:
        """The kernel as messages call it: `softmax_rows with lanes`."""
        return self.kernel if self.schedule is None else f"{self.kernel} with {self.schedule}"

    @property
    def tensors(self) -> tuple[HeaderTensor, ...]:
        """The array parameters that this variant has."""
        return tuple(param for param in self.params if isinstance(param, HeaderTensor) and param.present)

    def argument_bytes(self, argument: Argument) -> int:
        """Size in the parameter space."""
        if argument.kind in ADDRESSES:
            return 8
        if argument.kind in ("stride", "dim"):
            return self.index_bits // 8
        if argument.kind == "map":
            return MAP_BYTES
        param = next(param for param in self.params if param.name == argument.of)
        return DTYPES[param.dtype].bytes * (param.length if isinstance(param, HeaderTable) else 1)

    def argument_dtype(self, argument: Argument) -> str:
        """Element type in the parameter space; indices are signed, a map is bytes."""
        if argument.kind in ADDRESSES:
            return "u64"
        if argument.kind == "map":
            return "u8"
        if argument.kind in ("stride", "dim"):
            return f"s{self.index_bits}"
        return next(param.dtype for param in self.params if param.name == argument.of)


KINDS: dict[type, str] = {HeaderTensor: "tensor", Scalar: "scalar", HeaderTable: "table"}


def to_json(header: Header) -> dict[str, Any]:
    """The JSON object of a header, in the order of the table in docs/architecture.md."""
    record: dict[str, Any] = {"schema": SCHEMA, **asdict(header)}
    record["constants"] = {name: in_json(value) for name, value in header.constants.items()}
    record |= {key: in_json(record[key]) for key in ("grid", "moves", "computes")}
    record["requires"] = [row | {"expr": in_json(row["expr"])} for row in record["requires"]]
    record["params"] = [{"kind": KINDS[type(param)], **asdict(param)} for param in header.params]
    record["arguments"] = [_argument_json(argument) for argument in header.arguments]
    for optional in ("moves", "computes", "workspaces", "channels", "timeline", "overlaps", "in_place"):
        if record[optional] in (None, (), False):
            del record[optional]
    return record


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
            about["window"] = {key: list(values) for key, values in asdict(argument.window).items()}
        return {"kind": "map", "of": argument.of, **about}
    return {"kind": argument.kind, "of": argument.of}


def write(header: Header) -> str:
    """The `//dsl ` line (ASCII, newline included) to put before `.version`."""
    return PREFIX + json.dumps(to_json(header), allow_nan=False, separators=(",", ":")) + "\n"


def read(ptx: str) -> dict[str, Header]:
    """The headers in `ptx` by entry name; empty when it has none. Raises LaunchError `ptx` naming the field."""
    signatures = entries(ptx)
    headers: dict[str, Header] = {}
    for number, line in enumerate(ptx.splitlines(), 1):
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
        if len(record) != len(pairs):
            fail("repeats a key")
        return record

    if len(line) > MAX_LINE:
        fail(f"is longer than {MAX_LINE} characters")
    if not line.isascii():
        fail("is not ASCII")
    try:
        text = line.removeprefix(PREFIX)
        return json.loads(text, object_pairs_hook=unique, parse_constant=lambda word: fail(f"contains {word}"))
    except RecursionError:
        fail("is nested too deeply")
    except ValueError as error:
        fail(f"is not JSON: {error}")


def parse(record: Any) -> Header:
    """The header of a JSON object, checked by itself (`read` also checks it against the `.entry`)."""
    fields = Fields(record, "")
    if (schema := fields.integer("schema")) != SCHEMA:
        fields.fail("schema", f"is {schema}, this runtime reads {SCHEMA}")
    source = fields.record("source")
    constants = {n: NOT_FINITE.get(v, v) if isinstance(v, str) else v for n, v in fields.mapping("constants").items()}
    dims = tuple(fields.names("dims"))
    params = tuple(_param(row) for row in fields.records("params"))
    index_bits = fields.integer("index_bits", among=(32, 64))
    header = Header(
        entry=fields.name("entry", ptx=True),
        kernel=fields.text("kernel"),
        schedule=fields.text("schedule", null=True),
        source=SourceRecord(source.text("file"), source.text("sha256")),
        arch=fields.architecture("arch"),
        constants=constants,
        threads=fields.integer("threads", 1, 1024),
        cluster=fields.integer("cluster", 1, 16),
        shared_bytes=fields.integer("shared_bytes", 0, 1 << 20),
        maxnreg=fields.optional_integer("maxnreg", 1, 255),
        dims=dims,
        params=params,
        arguments=tuple(_argument(row) for row in fields.records("arguments")),
        grid=fields.expressions("grid", 3),
        index_bits=index_bits,  # type: ignore[arg-type]
        workspaces=tuple(_workspace(row) for row in fields.optional_records("workspaces")),
        channels=tuple(_channel(row) for row in fields.optional_records("channels")),
        timeline=tuple(_mark(row) for row in fields.optional_records("timeline")),
        overlaps=fields.optional_boolean("overlaps"),
        in_place=fields.optional_pairs("in_place"),
        requires=tuple(_require(row) for row in fields.records("requires")),
        moves=fields.optional("moves"),
        computes=fields.optional("computes"),
    )
    tensors = {tensor.name: tensor for tensor in header.tensors}
    for y, x in header.in_place:
        if y not in tensors or x not in tensors or not tensors[y].written:
            fields.fail("in_place", f"has {y} and {x}, which are no tensor that is written and another one")
    source.done()
    fields.done()
    _check_names(header, fields)
    return header


def _param(row: Fields) -> Param:
    kind = row.text("kind")
    name, dtype = row.name("name"), row.word("dtype", DTYPES)
    param: Param
    if kind == "tensor":
        align = row.integer("align", 1, 4096)
        if align & (align - 1):
            row.fail("align", f"is no power of two: {align}")
        param = HeaderTensor(
            name,
            dtype,
            tuple(row.dims("dims")),
            row.boolean("strided"),
            row.word("access", ("r", "w", "rw")),  # type: ignore[arg-type]
            align,
            row.boolean("optional"),
            row.boolean("present"),
        )
        if not param.optional and not param.present:
            row.fail("present", "is false for a tensor that is not optional")
    elif kind == "scalar":
        param = Scalar(name, dtype)
    elif kind == "table":
        param = HeaderTable(name, dtype, row.integer("length", 1, 1 << 15))
    else:
        row.fail("kind", f"is {kind!r}, not tensor, scalar or table")
    row.done()
    return param


def _argument(row: Fields) -> Argument:
    kind = row.text("kind")
    if kind in NAMELESS:
        argument = Argument(kind)  # type: ignore[arg-type]
    elif kind in ("dim", "workspace"):
        argument = Argument(kind, row.name("name"))  # type: ignore[arg-type]
    elif kind == "stride":
        argument = Argument("stride", row.name("of"), row.integer("axis", 0, MOST_OF_AXES - 1))
    elif kind == "map":
        argument = _map(row)
    elif kind in ("pointer", "scalar", "table"):
        argument = Argument(kind, row.name("of"))  # type: ignore[arg-type]
    else:
        row.fail("kind", f"is {kind!r}")
    row.done()
    return argument


def _map(row: Fields) -> Argument:
    of, axes = row.name("of"), row.integers("axes", MAP_RANKS, 0, MOST_OF_AXES - 1)
    window = _window(row, len(axes))
    if window is None:
        box = row.integers("box", MAP_RANKS, 1, MOST_OF_BOX)
    else:
        box = row.integers("box", range(2, 3), 1, MOST_OF_PIXELS)
        if box[0] > MOST_OF_BOX:
            row.fail("box", f"has {box[0]} channels, more than {MOST_OF_BOX}")
    return Argument("map", of, axes=axes, box=box, swizzle=row.integer("swizzle", among=SWIZZLES), window=window)


def _window(row: Fields, rank: int) -> Window | None:
    """The window of a map of so many axes, where there is one."""
    fields = row.optional_record("window")
    if fields is None:
        return None
    if rank not in CORNERS:
        row.fail("window", f"is of a map of {rank} axes, not {min(CORNERS)} to {max(CORNERS)}")
    spatial = range(rank - 2, rank - 1)
    lower, upper = (fields.integers(key, spatial, *CORNERS[rank]) for key in ("lower", "upper"))
    window = Window(lower, upper, fields.integers("steps", spatial, 1, MOST_OF_STEP))
    fields.done()
    return window


def _workspace(row: Fields) -> HeaderWorkspace:
    workspace = HeaderWorkspace(
        row.name("name"), row.word("dtype", DTYPES), row.integer("each", 1, 1 << 31), row.boolean("zero")
    )
    row.done()
    return workspace


def _channel(row: Fields) -> HeaderChannel:
    at, slots = row.integer("at", 0, 1 << 20), row.integer("slots", 1, 1 << 10)
    channel = HeaderChannel(at, slots, tuple(row.names("of")))
    row.done()
    return channel


def _mark(row: Fields) -> HeaderMark:
    mark = HeaderMark(row.word("kind", MARKS), row.text("name"), row.integer("line", 0, 1 << 31))
    row.done()
    return mark


def _require(row: Fields) -> Requirement:
    require = Requirement(
        row.value("expr"), row.text("text"), row.integer("line", 0, 1 << 31), row.text("hint", null=True)
    )
    row.done()
    return require


def stride_name(tensor: str, axis: int) -> str:
    """The stride of a strided tensor, in elements, as expressions name it."""
    return f"{tensor}.stride{axis}"


def _check_names(header: Header, fields: Fields) -> None:
    """Everything that refers to something by name refers to something that there is."""
    if len({param.name for param in header.params}) != len(header.params):
        fields.fail("params", "has a name twice")
    if len({workspace.name for workspace in header.workspaces}) != len(header.workspaces):
        fields.fail("workspaces", "has a name twice")
    present = [param for param in header.params if isinstance(param, HeaderTensor) and param.present]
    bound = {dim for tensor in present for dim in tensor.dims if isinstance(dim, str)}
    if unbound := sorted(set(header.dims) - bound):
        fields.fail("dims", f"has {unbound[0]}, which no tensor binds")
    if missing := sorted(bound - set(header.dims)):
        fields.fail("params", f"has a tensor with the dim {missing[0]}, which is not in dims")
    if header.overlaps and _capability(header.arch) < FIRST_THAT_OVERLAPS:
        fields.fail("overlaps", f"is true, and launches on {header.arch} do not overlap")
    for index, channel in enumerate(header.channels):
        if unknown := sorted(set(channel.of) - {tensor.name for tensor in present}):
            fields.fail(f"channels[{index}].of", f"has {unknown[0]}, which is no tensor")
    for index, argument in enumerate(header.arguments):
        _check_argument(header, argument, fields, f"arguments[{index}]")
    numbers = {name for name, value in header.constants.items() if not isinstance(value, str)}
    scalars = {param.name for param in header.params if isinstance(param, Scalar)}
    strided = [tensor for tensor in present if tensor.strided]
    strides = {stride_name(tensor.name, axis) for tensor in strided for axis in range(len(tensor.dims))}
    known = {"sms"} | set(header.dims) | numbers | scalars | strides
    trees = {f"grid[{axis}]": tree for axis, tree in enumerate(header.grid)}
    trees |= {f"requires[{index}].expr": require.expr for index, require in enumerate(header.requires)}
    trees |= {key: tree for key in ("moves", "computes") if (tree := getattr(header, key)) is not None}
    for where, tree in trees.items():
        check_expression(where, tree, known)


def _check_argument(header: Header, argument: Argument, fields: Fields, where: str) -> None:
    if argument.kind in NAMELESS:
        if argument.kind == "timeline" and not header.timeline:
            fields.fail(where, "is a timeline, whose marks are missing")
        return
    known = {"dim": header.dims, "workspace": [workspace.name for workspace in header.workspaces]}
    if argument.kind in known:
        if argument.of not in known[argument.kind]:
            fields.fail(where, f"names {argument.of!r}, which is no {argument.kind}")
        return
    param = next((param for param in header.params if param.name == argument.of), None)
    wanted = {"scalar": Scalar, "table": HeaderTable}.get(argument.kind, HeaderTensor)
    if not isinstance(param, wanted):
        fields.fail(where, f"is a {argument.kind} of {argument.of!r}, which is no such parameter")
    if isinstance(param, HeaderTensor):
        if not param.present:
            fields.fail(where, f"is of {param.name}, which is not present")
        if argument.kind == "stride" and not (param.strided and argument.axis < len(param.dims)):
            fields.fail(where, f"is a stride of {param.name} along axis {argument.axis}, which it does not have")
        if argument.kind == "map":
            _check_map(header, argument, param, fields, where)


def _capability(arch: str) -> int:
    return int(arch.removeprefix("sm_").rstrip("af"))


def _check_map(header: Header, argument: Argument, tensor: HeaderTensor, fields: Fields, where: str) -> None:
    rank, axes = len(tensor.dims), sorted(argument.axes)
    if _capability(header.arch) < FIRST_WITH_MAPS:
        fields.fail(where, f"is a map, which {header.arch} does not have")
    if axes != list(range(rank)) and (tensor.strided or len({*axes}) < len(axes) or axes[-1] != rank - 1):
        fields.fail(f"{where}.axes", f"is {list(argument.axes)}, not each of the {rank} axes of {tensor.name} once")
    if argument.window is None and len(argument.box) != len(axes):
        fields.fail(f"{where}.box", f"has {len(argument.box)} extents for the {len(axes)} axes of {tensor.name}")
    if (fault := box_fault(argument.box[0] * DTYPES[tensor.dtype].bytes, argument.swizzle)) is not None:
        fields.fail(f"{where}.box", fault)
    if tensor.align % MAP_POINTER:  # what is aligned less is then refused with each call's pointers
        fields.fail(where, f"is a map of {tensor.name}, whose align is {tensor.align}, not a multiple of {MAP_POINTER}")
