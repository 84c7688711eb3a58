"""Writes the C of one call: the conditions of the dispatch, the checks of each launch, the workspaces, and the
launches. All checks precede the first launch."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

from dsl.calls.plan import FromCall, Step, Workspace
from dsl.export.decided import address_name, extent_of, item_of_table, stride_of
from dsl.export.expressions import CValue, NoC, c_expression, literal, truth, used_names
from dsl.export.model import ExportedArray, ExportedCall, ExportedCode, ExportedFunction
from dsl.lowering.ir.location import TileError
from dsl.runtime.dtypes import DTYPES, bf16_bits, in_type
from dsl.runtime.expressions import Tree, show
from dsl.runtime.header import Argument, HeaderTable, HeaderTensor, Scalar, stride_name
from dsl.runtime.tensor_map import Window
from dsl.values.facts import ArrayFacts

C_TYPES = {
    **{"i1": "bool", "f32": "float", "f64": "double", "f16": "uint16_t", "bf16": "uint16_t"},
    **{f"s{bits}": f"int{bits}_t" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}_t" for bits in (8, 16, 32, 64)},
}
MAP_TYPES = {"s32": "INT32", "s64": "INT64", "f16": "FLOAT16", "bf16": "BFLOAT16", "f32": "FLOAT32", "f64": "FLOAT64"}
"""Element type → the driver's type of maps that reduce."""
COPY_TYPES = {1: "UINT8", 2: "UINT16", 4: "UINT32", 8: "UINT64"}
MOST_SHOWN = 4


def c_string(text: str) -> str:
    """A text as a C string. Characters beyond ASCII become '?'."""
    plain = text.encode("ascii", "replace").decode().replace("\\", "\\\\").replace('"', '\\"')
    return '"' + plain.replace("\n", " ").replace("?", "\\?") + '"'


def c_format(text: str) -> str:
    """A text as a C string for printf."""
    return c_string(text.replace("%", "%%"))


def number_value(dtype: str, text: str) -> CValue:
    """The value of a number of the call in expressions."""
    if dtype in ("f16", "bf16"):
        return CValue(f"dsl_{dtype}({text})", True)
    if DTYPES[dtype].is_float:
        return CValue(f"(double){text}", True)
    return CValue(f"(int64_t){text}")


def number_literal(dtype: str, value: Any) -> str:
    """A number as C, with the bits that a launch from Python passes."""
    if dtype == "bf16":
        return hex(bf16_bits(float(value)))
    if dtype == "f16":
        return hex(struct.unpack("<H", struct.pack("<e", value))[0])
    if DTYPES[dtype].is_float:
        text = literal(float(in_type(dtype, value))).text
        return text if dtype == "f64" else f"(float){text}"
    return f"({C_TYPES[dtype]}){literal(int(value)).text}" if dtype != "i1" else literal(bool(value)).text


def in_c(tree: Tree, names: dict[str, CValue]) -> CValue:
    """Writes an expression of a launch as C. Raises TileError if it has no C form."""
    try:
        return c_expression(tree, names)
    except NoC as error:
        message = f"{show(tree)} cannot be exported: {error}"
        raise TileError("option", None, message, "make both of one type, as in 'maximum(x, 0.0)'") from None


class CallWriter:
    """Writes the function of one call. Its lines are those of a body."""

    def __init__(self, function: ExportedFunction, call: ExportedCall):
        self.function, self.call = function, call
        self.arrays: dict[int | str, str] = {}  # name of an argument, or id of a workspace → the C variable
        self.names: dict[str, CValue] = {}
        self.name_dims()
        for number in function.numbers.values():
            if number.length is None:
                self.names[number.name] = number_value(number.dtype, f"args->{number.field}")
            for item in range(number.length or 0):
                name = item_of_table(number.name, item)
                self.names[name] = number_value(number.dtype, f"args->{number.field}[{item}]")

    def name_dims(self) -> None:
        """Gives the dims of the call names, as `Called.bind_names` does."""
        for head, argument, p in self.function.called.passed:
            array, exported = head.arrays.get(p), self.function.arrays.get(argument)
            if array is None or exported is None or not isinstance(self.call.arguments[argument], ArrayFacts):
                continue
            for dim, extent in zip(array.dims, exported.extents, strict=False):
                if isinstance(dim, str):
                    self.names.setdefault(dim, CValue(extent if extent.isdigit() else f"args->{extent}"))

    def body(self) -> Iterator[str]:
        yield from self.declared()
        yield from self.presence()
        for decision in self.call.decisions:
            said = f"{self.function.called.name} launches this only where {decision.text}"
            yield from self.condition(decision.expr, self.names, said)
        steps = [StepWriter(self, number) for number in range(len(self.call.steps))]
        for step in steps:
            yield from step.checks()
        yield from self.pieces(steps)
        for step in steps:
            yield from step.maps()
        for name, workspace in self.own_workspaces():
            if workspace.zeroed:
                yield f"result = cuMemsetD8Async({name}.data, 0, {self.bytes_of(workspace)}, stream);"
                yield 'if (result != CUDA_SUCCESS) return dsl_driver(status, result, "zeroing a workspace");'
        for step in steps:
            yield from step.launch()
        yield "return DSL_OK;"

    # ---- arrays ----

    def declared(self) -> Iterator[str]:
        """Declares an array of the support functions for each array that a launch takes."""
        used = {a.name for step in self.call.steps for a in step.arguments if isinstance(a, FromCall)}
        read = {n for d in self.call.decisions for n in used_names(d.expr)}
        for array in self.function.arrays.values():
            facts = self.call.arguments[array.name]
            asked = any(name.startswith(f"{array.name}.") for name in read)
            if isinstance(facts, ArrayFacts) and (array.name in used or asked):
                yield from self.declare_argument(array)
        for number, workspace in enumerate(self.call.workspaces):
            self.arrays[id(workspace)] = name = f"workspace_{number}"
            extents, size = [str(each) for each in workspace.shape], DTYPES[workspace.dtype].bytes
            yield f"dsl_array {name} = {array_literal(name, '0', size, extents, map(str, workspace.facts.steps))};"
        yield from (
            f"if (dsl_check_extents(status, &{name}) != DSL_OK) return status->code;"
            for key, name in self.arrays.items()
            if isinstance(key, str)
        )

    def declare_argument(self, array: ExportedArray) -> Iterator[str]:
        name = self.arrays[array.name] = f"array_{array.field}"
        extents = [each if each.isdigit() else f"args->{each}" for each in array.extents]
        rank = len(extents)
        strides = [f"args->{array.strides}[{axis}]" for axis in range(rank)]
        if array.strides is None:
            strides = ["1"] * rank
            for axis in reversed(range(rank - 1)):
                strides[axis] = f"dsl_mul(&bad, {strides[axis + 1]}, {extents[axis + 1]})"
        size = DTYPES[array.dtype].bytes
        yield f"const dsl_array {name} = {array_literal(array.name, f'args->{array.field}', size, extents, strides)};"
        self.names[address_name(array.name)] = CValue(f"(int64_t){name}.data")
        for axis in range(rank):
            self.names[extent_of(array.name, axis)] = CValue(f"{name}.extents[{axis}]")
            self.names[stride_of(array.name, axis)] = CValue(f"{name}.strides[{axis}]")

    def presence(self) -> Iterator[str]:
        label = self.function.called.name
        for array in self.function.arrays.values():
            if not array.optional:
                continue
            is_given = isinstance(self.call.arguments[array.name], ArrayFacts)
            said = c_format(f"{label}: this call has {'' if is_given else 'no '}{array.name}")
            yield f"if (args->{array.field} {'==' if is_given else '!='} 0)"
            yield f"    return dsl_fail(status, DSL_OTHER_CALL, {said});"

    def condition(self, tree: Tree, names: dict[str, CValue], said: str) -> Iterator[str]:
        value = in_c(tree, names)
        known = {n: names[n] for n in sorted(used_names(tree)) if n in names and "." not in n}
        shown = [n for n, value in known.items() if "args->" in value.text and not value.is_float]
        values = ", ".join(f"{name} = %lld" for name in shown[:MOST_SHOWN])
        given = "".join(f", (long long){names[name].text}" for name in shown[:MOST_SHOWN])
        text = c_format(said)[:-1] + (f" ({values})" if values else "") + '"'
        yield f"if (!{truth(value)} || bad)"
        yield f"    return dsl_fail(status, DSL_OTHER_CALL, {text}{given});"

    # ---- workspaces ----

    def own_workspaces(self) -> Iterator[tuple[str, Workspace]]:
        for workspace in self.call.workspaces:
            yield self.arrays[id(workspace)], workspace

    def bytes_of(self, workspace: Workspace) -> int:
        extents, steps = workspace.shape, workspace.facts.steps
        if 0 in extents:
            return 0
        last = sum((extent - 1) * step for extent, step in zip(extents, steps, strict=True))
        return (last + 1) * DTYPES[workspace.dtype].bytes

    def pieces(self, steps: Sequence[StepWriter]) -> Iterator[str]:
        """Places the workspaces. Those that hold zeros between calls have memory of their own."""
        rows = [(name, w.zero, f"{self.bytes_of(w)}", "1") for name, w in self.own_workspaces()]
        for step in steps:
            for each in step.header.workspaces:
                count = f"dsl_mul(&bad, {each.each}, {step.blocks})"
                rows.append((step.place(each.name), each.zero, count, str(DTYPES[each.dtype].bytes)))
        if self.function.has_workspace:
            yield "sizes->workspace = sizes->zeros = 0;"
        for name, zero, count, size in rows:
            region = "zeros" if zero else "workspace"
            yield f"const size_t {name}_at = dsl_piece(&bad, &sizes->{region}, {count}, {size});"
        yield "if (bad)"
        yield '    return dsl_fail(status, DSL_OTHER_CALL, "a size does not fit in 64 bits");'
        for step in steps:
            yield from step.workspace_checks()
        yield "if (!launches)"
        yield "    return DSL_OK;"
        if not self.function.has_workspace:
            return
        yield "if (dsl_check_workspace(status, args, sizes) != DSL_OK)"
        yield "    return status->code;"
        own = {name for name, _ in self.own_workspaces()}
        for name, zero, *_ in rows:
            region = "zeros" if zero else "workspace"
            target = f"{name}.data" if name in own else f"CUdeviceptr {name}"
            yield f"{target} = args->{region} + {name}_at;"


def array_literal(name: str, data: str, size: int, extents: Sequence[str], strides: Any) -> str:
    lists = f"{{{', '.join(extents) or '0'}}}, {{{', '.join(strides) or '0'}}}"
    return f"{{{c_string(name)}, {data}, {size}, {len(extents)}, {lists}}}"


class StepWriter:
    """Writes one launch of a call."""

    def __init__(self, of: CallWriter, number: int):
        self.of, self.number = of, number
        self.step: Step = of.call.steps[number]
        self.index = of.call.codes[number]
        self.code: ExportedCode = of.function.codes[self.index]
        self.header = self.code.header
        self.label = c_string(self.header.label)
        self.given = dict(zip(self.step.names, self.step.arguments, strict=True))
        self.names = self.expression_names()

    @property
    def blocks(self) -> str:
        grid = f"grid_{self.number}"
        return f"{grid}[0] * {grid}[1] * {grid}[2]"

    @property
    def is_empty(self) -> str:
        return f"empty_{self.number}"

    def place(self, workspace: str) -> str:
        return f"piece_{self.number}_{self.header_index(workspace)}"

    def header_index(self, workspace: str) -> int:
        return [each.name for each in self.header.workspaces].index(workspace)

    def array(self, name: str) -> str:
        """The C variable of the array that the launch takes as `name`."""
        argument = self.given[name]
        return self.of.arrays[argument.name if isinstance(argument, FromCall) else id(argument)]

    def is_argument(self, name: str) -> bool:
        return isinstance(self.given[name], FromCall)

    def expression_names(self) -> dict[str, CValue]:
        header = self.header
        names = {n: literal(v) for n, v in header.constants.items() if not isinstance(v, str)}
        for tensor in header.tensors:
            for axis, dim in enumerate(tensor.dims):
                if isinstance(dim, str):
                    names.setdefault(dim, CValue(self.extent(tensor.name, axis)))
                if tensor.strided:
                    names[stride_name(tensor.name, axis)] = CValue(f"{self.array(tensor.name)}.strides[{axis}]")
        for dim in header.dims:  # a dim has the extent of the array, also if a constant has its name
            names[dim] = CValue(self.dim(dim))
        for param in header.params:
            if isinstance(param, Scalar):
                argument = self.given[param.name]
                if isinstance(argument, FromCall):
                    names[param.name] = self.of.names[argument.name]
                else:
                    names[param.name] = literal(in_type(param.dtype, argument))
        return names | {"sms": CValue(f"(int64_t)kernels->sms[{self.index}]")}

    def extent(self, name: str, axis: int) -> str:
        argument = self.given[name]
        if isinstance(argument, FromCall):
            extent = self.of.function.arrays[argument.name].extents[axis]
            return extent if extent.isdigit() else f"args->{extent}"
        return str(argument.shape[axis])

    def dim(self, dim: str) -> str:
        places = ((t.name, axis) for t in self.header.tensors for axis, each in enumerate(t.dims) if each == dim)
        return self.extent(*next(places))

    # ---- checks ----

    def checks(self) -> Iterator[str]:
        yield f"/* launch {self.number + 1}: {comment(self.header.label)} */"
        for tensor in self.header.tensors:
            if self.is_argument(tensor.name):
                use = f"{int(tensor.written)}, {int(tensor.strided)}, {self.header.index_bits}, {tensor.align}"
                what = f"&{self.array(tensor.name)}, (dsl_use){{{use}}}, {self.label}"
                yield f"if (dsl_check_array(status, {what}) != DSL_OK)"
                yield "    return status->code;"
        yield from self.agreement()
        for require in self.header.requires:
            said = f"{self.header.label} requires {require.text}, line {require.line}"
            said += f" of {require.file}" if require.file else ""
            yield from self.of.condition(require.expr, self.names, said)
        yield from self.grid()
        yield from self.pairs()

    def agreement(self) -> Iterator[str]:
        """Checks that axes with one dim have one extent. Most dims are one field, and need no check."""
        for tensor in self.header.tensors:
            for axis, dim in enumerate(tensor.dims):
                own = self.extent(tensor.name, axis)
                other = str(dim) if isinstance(dim, int) else self.dim(dim)
                if own == other:
                    continue
                said = c_format(f"{self.header.label}: axis {axis} of {tensor.name}")[:-1]
                said += ' has %lld elements, not %lld"'
                yield f"if ({own} != {other})"
                yield f"    return dsl_fail(status, DSL_OTHER_CALL, {said}, (long long){own}, (long long){other});"

    def grid(self) -> Iterator[str]:
        extents = [in_c(tree, self.names) for tree in self.header.grid]
        grid = f"grid_{self.number}"
        yield f"const int64_t {grid}[3] = {{{', '.join(each.text for each in extents)}}};"
        yield "if (bad)"
        yield f'    return dsl_fail(status, DSL_OTHER_CALL, "%s: the grid has no value", {self.label});'
        yield f"if (dsl_check_grid(status, {grid}, {self.header.cluster}, {self.label}) != DSL_OK)"
        yield "    return status->code;"
        yield f"const int {self.is_empty} = {grid}[0] == 0 || {grid}[1] == 0 || {grid}[2] == 0;"

    def pairs(self) -> Iterator[str]:
        """Checks that a written array shares no memory with another. Workspaces share memory with nothing."""
        tensors = [tensor for tensor in self.header.tensors if self.is_argument(tensor.name)]
        in_place = {frozenset(pair) for pair in self.header.in_place}
        trusted = "args->apart" if self.of.function.has_strides else "0"
        for number, a in enumerate(tensors):
            for b in tensors[number + 1 :]:
                if a.written or b.written:
                    may = int(frozenset([a.name, b.name]) in in_place)
                    both = f"&{self.array(a.name)}, &{self.array(b.name)}, {may}, {trusted}"
                    yield f"if (dsl_check_apart(status, {both}, {self.label}) != DSL_OK)"
                    yield "    return status->code;"

    def workspace_checks(self) -> Iterator[str]:
        if self.header.index_bits == 32:
            for each in self.header.workspaces:
                yield f"if (dsl_mul(&bad, {each.each}, {self.blocks}) > DSL_MOST_INT32)"
                said = '"%s: a workspace is too large for 32 bits"'
                yield f"    return dsl_fail(status, DSL_OTHER_CALL, {said}, {self.label});"

    # ---- the launch ----

    def map_rows(self) -> Iterator[tuple[int, Argument]]:
        return ((at, each) for at, each in enumerate(self.header.arguments) if each.kind == "map")

    def maps(self) -> Iterator[str]:
        if not any(self.map_rows()):
            return
        accesses = {tensor.name: tensor for tensor in self.header.tensors}
        for at, _ in self.map_rows():
            yield f"CUtensorMap map_{self.number}_{at};"
        yield f"if (!{self.is_empty}) {{"
        for at, argument in self.map_rows():
            spec, name = map_literal(argument, accesses[argument.of]), f"map_{self.number}_{at}"
            yield f"    const dsl_map {name}_of = {spec};"
            what = f"&{name}, &{self.array(argument.of)}, &{name}_of"
            yield f"    if (dsl_encode(status, {what}, {self.label}) != DSL_OK)"
            yield "        return status->code;"
        yield "}"

    def launch(self) -> Iterator[str]:
        yield f"if (!{self.is_empty}) {{"
        given = []
        for at, argument in enumerate(self.header.arguments):
            declaration, address = self.value(at, argument)
            if declaration:
                yield f"    {declaration}"
            given.append(address)
        yield f"    void *given[] = {{{', '.join(given) or 'NULL'}}};"
        after = f"!empty_{self.number - 1}" if self.header.overlaps and self.number else "0"
        what = f"&dsl_codes[{self.index}], kernels->functions[{self.index}], stream, grid_{self.number}"
        yield f"    result = dsl_launch({what}, kernels->clusters[{self.index}], {after}, given);"
        yield "    if (result != CUDA_SUCCESS)"
        yield f"        return dsl_driver(status, result, {self.label});"
        yield "}"

    def value(self, at: int, argument: Argument) -> tuple[str, str]:
        """The declaration of a variable with the value of a `.param`, and the variable's address."""
        name = f"p{at}"
        wide = f"int{self.header.index_bits}_t"
        if argument.kind == "map":
            return "", f"&map_{self.number}_{at}"
        if argument.kind == "table":
            return self.table(name, argument.of)
        text = {
            "pointer": lambda: ("CUdeviceptr", f"{self.array(argument.of)}.data"),
            "stride": lambda: (wide, f"({wide}){self.array(argument.of)}.strides[{argument.axis}]"),
            "dim": lambda: (wide, f"({wide}){self.dim(argument.of)}"),
            "workspace": lambda: ("CUdeviceptr", self.place(argument.of)),
            "record": lambda: ("CUdeviceptr", f"kernels->records[{self.index}]"),
            "scalar": lambda: self.scalar(argument.of),
        }[argument.kind]()
        return f"{text[0]} {name} = {text[1]};", f"&{name}"

    def scalar(self, name: str) -> tuple[str, str]:
        dtype, argument = self.header.argument_dtype(Argument("scalar", name)), self.given[name]
        if isinstance(argument, FromCall):
            return C_TYPES[dtype], f"args->{self.of.function.numbers[argument.name].field}"
        return C_TYPES[dtype], number_literal(dtype, argument)

    def table(self, name: str, of: str) -> tuple[str, str]:
        argument = self.given[of]
        if isinstance(argument, FromCall):
            return "", f"(void *)args->{self.of.function.numbers[argument.name].field}"
        param = next(each for each in self.header.params if isinstance(each, HeaderTable) and each.name == of)
        values = ", ".join(number_literal(param.dtype, each) for each in argument)
        return f"{C_TYPES[param.dtype]} {name}[{param.length}] = {{{values}}};", name


def map_literal(argument: Argument, tensor: HeaderTensor) -> str:
    """A tensor map as C: type, swizzle, axes, whether it is for stores, box, and the window of an im2col map."""
    own = MAP_TYPES.get(tensor.dtype) if argument.reduces else None
    kind = own or (tensor.dtype.replace("u", "UINT") if argument.reduces and tensor.dtype[0] == "u" else None)
    kind = kind or COPY_TYPES[DTYPES[tensor.dtype].bytes]
    swizzle = f"{argument.swizzle}B" if argument.swizzle else "NONE"
    window = argument.window or Window((), (), ())
    parts = [
        f"CU_TENSOR_MAP_DATA_TYPE_{kind}",
        f"CU_TENSOR_MAP_SWIZZLE_{swizzle}",
        str(len(argument.axes)),
        numbers(argument.axes),
        str(int(tensor.access == "w")),
        numbers(argument.box),
        str(int(argument.window is not None)),
        *map(numbers, (window.lower, window.upper, window.steps)),
    ]
    return f"{{{', '.join(parts)}}}"


def numbers(values: Sequence[int]) -> str:
    return f"{{{', '.join(map(str, values)) or '0'}}}"


def comment(text: str) -> str:
    return text.replace("*/", "* /")


def element_count(facts: ArrayFacts) -> int:
    """The elements of an array from the first to the last one in memory. Strides must not be negative."""
    if 0 in facts.shape:
        return 0
    return 1 + sum((extent - 1) * step for extent, step in zip(facts.shape, facts.steps, strict=True))
