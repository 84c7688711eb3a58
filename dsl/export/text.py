"""Writes the texts of an exported function: a C header, a C file, a C program that calls the function, and a CMake
file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from dsl.export.images import KernelImage
from dsl.export.launches import C_TYPES, CallWriter, c_string, comment, element_count, number_literal
from dsl.export.model import ExportedCall, ExportedFunction
from dsl.runtime.dtypes import DTYPES
from dsl.values.facts import ArrayFacts

STATUS = """\
#ifndef DSL_STATUS
#define DSL_STATUS
/* What a function returns, and `code` of the status. */
enum {
    DSL_OK = 0,
    DSL_ARGUMENT = 1,   /* an argument is wrong */
    DSL_OTHER_CALL = 2, /* none of the exported calls takes these arguments */
    DSL_DRIVER = 3,     /* the driver reports an error, which is in `driver` */
    DSL_TARGET = 4,     /* no exported target runs on this device */
    DSL_ASSERT = 5      /* an assert of the kernel failed */
};
typedef struct dsl_status {
    int code;
    CUresult driver;
    char text[1024];
} dsl_status;
#endif
"""


@cache
def support() -> str:
    return (Path(__file__).parent / "support.c").read_text()


def guard(name: str) -> str:
    return f"DSL_EXPORT_{name.upper()}_H"


def header_text(function: ExportedFunction) -> str:
    """Returns the C header."""
    name = function.name
    lines = [
        f"/* {comment(function.called.name)} of {comment(function.source)}, exported by dsl. Docs: deployment.md. */"
    ]
    lines += [f"#ifndef {guard(name)}", f"#define {guard(name)}", ""]
    lines += ["#include <cuda.h>", "#include <stdbool.h>", "#include <stddef.h>", "#include <stdint.h>", ""]
    lines += ["#ifdef __cplusplus", 'extern "C" {', "#endif", "", STATUS]
    lines += [*_calls(function), "", *_arguments(function), "", *_kernels(function), "", *_functions(function)]
    lines += ["#ifdef __cplusplus", "}", "#endif", "#endif"]
    return "\n".join(lines) + "\n"


def _calls(function: ExportedFunction) -> Iterator[str]:
    """Says which calls the function takes."""
    yield "/* The calls that it takes, in the order in which they are tried. A call with equal dims comes first."
    for call in function.calls:
        steps = [function.codes[code].header for code in call.codes]
        target = function.targets[call.target]
        yield ""
        labels = ", then ".join(comment(header.label) for header in steps)
        yield f"   {target}, call {call.number + 1} ({_said_dims(call)}): {labels}"
        yield from (f"     {comment(line)}" for line in _conditions(function, call))
    yield "*/"


def _said_dims(call: ExportedCall) -> str:
    return ", ".join(f"{dim}={extent}" for dim, extent in call.dims.items())


def _conditions(function: ExportedFunction, call: ExportedCall) -> Iterator[str]:
    said: dict[str, None] = {}
    for array in function.arrays.values():
        if array.optional:
            is_given = isinstance(call.arguments[array.name], ArrayFacts)
            said[f"{array.name} is {'given' if is_given else 'absent: 0'}"] = None
    said |= dict.fromkeys(decision.text for decision in call.decisions)
    for code in call.codes:
        header = function.codes[code].header
        aligned = [f"{tensor.name} to {tensor.align}" for tensor in header.tensors]
        said[f"aligned to bytes: {', '.join(aligned)}"] = None
        said |= dict.fromkeys(require.text for require in header.requires)
        if header.requires and header.constants:
            said[f"with {', '.join(f'{name}={shown(value)}' for name, value in header.constants.items())}"] = None
    yield from said


def shown(value: Any) -> str:
    """A constant as `.tile` files write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _arguments(function: ExportedFunction) -> Iterator[str]:
    yield f"typedef struct {function.name}_args {{"
    for array in function.arrays.values():
        access = {(True, False): "written", (True, True): "read and written"}.get((array.written, array.read), "read")
        extents = ", ".join(array.extents)
        may = ", or 0" if array.optional else ""
        yield f"    CUdeviceptr {array.field}; /* {array.dtype}[{extents}], {access}{may} */"
    if function.dims:
        yield f"    int64_t {', '.join(function.dims.values())};"
    for array in function.arrays.values():
        if array.strides is not None:
            yield f"    int64_t {array.strides}[{max(1, len(array.extents))}]; /* in elements */"
    for number in function.numbers.values():
        length = "" if number.length is None else f"[{number.length}]"
        bits = f" /* the bits of a {number.dtype} */" if number.dtype in ("f16", "bf16") else ""
        yield f"    {C_TYPES[number.dtype]} {number.field}{length};{bits}"
    if function.has_strides:
        yield "    int apart; /* 1: where ranges of strided arrays overlap, their elements do not */"
    if function.has_workspace:
        yield "    /* Device memory, aligned to 256 bytes, that one call at a time uses. The caller fills `zeros` with"
        yield "       zeros once; each call that ends without an error leaves zeros in it. */"
        yield "    CUdeviceptr workspace, zeros;"
        yield "    size_t workspace_bytes, zeros_bytes;"
    yield f"}} {function.name}_args;"


def _kernels(function: ExportedFunction) -> Iterator[str]:
    count = len(function.codes)
    yield "/* The loaded kernels, of one context. Launches only read it, so threads may share it. */"
    yield f"typedef struct {function.name}_kernels {{"
    yield "    int loaded, target;"
    yield f"    CUmodule modules[{count}];"
    yield f"    CUfunction functions[{count}];"
    yield f"    CUdeviceptr records[{count}];"
    yield f"    int clusters[{count}], sms[{count}];"
    yield f"}} {function.name}_kernels;"


def _functions(function: ExportedFunction) -> Iterator[str]:
    name = function.name
    yield "/* Functions return DSL_OK or another code, and say why in `status`, which may be NULL."
    yield "   _load loads the kernels for the device of the current context, _unload frees them. */"
    yield f"int {name}_load({name}_kernels *kernels, dsl_status *status);"
    yield f"int {name}_unload({name}_kernels *kernels, dsl_status *status);"
    yield ""
    if function.has_workspace:
        yield "/* The bytes that a call needs as `workspace` and as `zeros`. */"
        yield f"int {name}_workspace(const {name}_kernels *kernels, const {name}_args *args, size_t *workspace,"
        yield "    size_t *zeros, dsl_status *status);"
        yield ""
    yield "/* Checks the arguments and launches. Does not wait. */"
    yield f"int {name}(const {name}_kernels *kernels, CUstream stream, const {name}_args *args, dsl_status *status);"
    yield ""
    if function.has_records:
        yield "/* After the stream was synchronised: whether an assert of a kernel failed since the last check. */"
        yield f"int {name}_check(const {name}_kernels *kernels, dsl_status *status);"
        yield ""


def source_text(function: ExportedFunction, images: Sequence[KernelImage]) -> str:
    """Returns the C file."""
    name = function.name
    axes = max([1, *(len(each.extents) for each in function.arrays.values())])
    axes = max([axes, *(len(w.shape) for call in function.calls for w in call.workspaces)])
    lines = [
        f'#include "{name}.h"',
        "#include <math.h>",
        "#include <stdarg.h>",
        "#include <stdio.h>",
        "#include <string.h>",
    ]
    lines += ["", f"#define DSL_AXES {axes}", "", support(), *_images(images), *_tables(function, images)]
    if function.has_workspace:
        lines += [_SIZES.replace("NAME", name)]
    for number, call in enumerate(function.calls):
        lines += [*_call_function(function, call, number)]
    lines += [*_table_of_calls(function), _ENTRY.replace("NAME", name).replace("COUNT", str(len(function.calls)))]
    sizes = "&sizes" if function.has_workspace else "NULL"
    text = "\n".join(lines)
    rest = _LOAD + (_WORKSPACE if function.has_workspace else "") + _LAUNCH + (_CHECK if function.has_records else "")
    rest = rest.replace("SIZES", sizes).replace("DECLARED", "    NAME_sizes sizes;\n" if function.has_workspace else "")
    codes, targets = str(len(function.codes)), str(len(function.targets))
    rest = rest.replace("CODES", codes).replace("TARGETS", targets)
    rest = rest.replace("LISTED", ", ".join(function.targets))
    return text + rest.replace("NAME", name)


def _images(images: Sequence[KernelImage]) -> Iterator[str]:
    for number, image in enumerate(images):
        for kind, data in (("cubin", image.cubin), ("ptx", image.ptx)):
            if data is not None:
                yield f"static const unsigned char {kind}_{number}[] = {{"
                yield from (", ".join(map(str, data[at : at + 24])) + "," for at in range(0, len(data), 24))
                yield "};"


def _tables(function: ExportedFunction, images: Sequence[KernelImage]) -> Iterator[str]:
    yield ""
    yield "static const dsl_target dsl_targets[] = {"
    for target in function.targets:
        number, letter = re.fullmatch(r"sm_(\d+)([af]?)", target).groups()  # type: ignore[union-attr]
        shown = f"'{letter}'" if letter else "0"
        yield f'    {{{number}, {shown}, "{target}"}},'
    yield "};"
    yield "static const dsl_code dsl_codes[] = {"
    for number, (code, image) in enumerate(zip(function.codes, images, strict=True)):
        header = code.header
        numbers = [
            code.target,
            header.threads,
            header.cluster,
            header.maxnreg or 0,
            int(code.record),
            header.shared_bytes,
        ]
        texts = [c_string(header.entry), c_string(header.label)]
        data = [f"cubin_{number}" if image.cubin is not None else "NULL", f"ptx_{number}"]
        yield f"    {{{', '.join([*map(str, numbers), *texts, *data])}}},"
    yield "};"
    yield ""


def _call_function(function: ExportedFunction, call: ExportedCall, number: int) -> Iterator[str]:
    name = function.name
    sizes = f"{name}_sizes *sizes" if function.has_workspace else "void *sizes"
    yield f"/* {function.targets[call.target]}, call {call.number + 1}: {_said_dims(call)} */"
    yield f"static int dsl_is_call_{number}(const {name}_args *args)"
    yield "{"
    writer = CallWriter(function, call)
    dims = {writer.names[dim].text: extent for dim, extent in call.dims.items() if dim in writer.names}
    tests = [f"{text} == {extent}" for text, extent in dims.items() if not text.isdigit()]
    yield "    (void)args;"
    yield f"    return {' && '.join(tests) or 1};"
    yield "}"
    yield ""
    yield f"static int dsl_call_{number}(const {name}_kernels *kernels, CUstream stream, const {name}_args *args,"
    yield f"    {sizes}, int launches, dsl_status *status)"
    yield "{"
    yield "    int bad = 0;"
    yield "    CUresult result = CUDA_SUCCESS;"
    yield "    (void)kernels, (void)stream, (void)sizes, (void)bad, (void)result;"
    yield from (f"    {line}" for line in writer.body())
    yield "}"
    yield ""


def _table_of_calls(function: ExportedFunction) -> Iterator[str]:
    yield "static const struct {"
    name = function.name
    sizes = f"{name}_sizes *" if function.has_workspace else "void *"
    yield "    int target, number;"
    yield f"    int (*is_call)(const {name}_args *);"
    yield f"    int (*call)(const {name}_kernels *, CUstream, const {name}_args *, {sizes}, int, dsl_status *);"
    yield "} dsl_calls[] = {"
    for number, call in enumerate(function.calls):
        yield f"    {{{call.target}, {call.number + 1}, dsl_is_call_{number}, dsl_call_{number}}},"
    yield "};"
    yield ""
    yield f"static int dsl_dispatch(const {name}_kernels *kernels, CUstream stream, const {name}_args *args,"
    yield f"    {sizes}sizes, int launches, dsl_status *status)"


_SIZES = """\
typedef struct NAME_sizes {
    size_t workspace, zeros;
} NAME_sizes;

static int dsl_check_workspace(dsl_status *status, const NAME_args *args, const NAME_sizes *sizes)
{
    if (args->workspace_bytes < sizes->workspace || args->zeros_bytes < sizes->zeros)
        return dsl_fail(status, DSL_ARGUMENT, "the call needs %zu bytes of workspace and %zu of zeros",
                        sizes->workspace, sizes->zeros);
    if ((sizes->workspace != 0 && (args->workspace == 0 || args->workspace % 256 != 0)) ||
        (sizes->zeros != 0 && (args->zeros == 0 || args->zeros % 256 != 0)))
        return dsl_fail(status, DSL_ARGUMENT, "workspace and zeros are aligned to 256 bytes");
    return DSL_OK;
}
"""
_ENTRY = """\
{
    char notes[sizeof status->text] = "no exported call takes these arguments";
    dsl_status own;
    int code;
    if (status == NULL)
        status = &own;
    memset(status, 0, sizeof *status);
    if (!kernels->loaded)
        return dsl_fail(status, DSL_ARGUMENT, "NAME_load has not loaded the kernels");
    for (int turn = 0; turn < 2; turn++) /* first a call with the same dims, then any that takes the arguments */
        for (int i = 0; i < COUNT; i++) {
            if (dsl_calls[i].target != kernels->target || dsl_calls[i].is_call(args) == turn)
                continue;
            code = dsl_calls[i].call(kernels, stream, args, sizes, launches, status);
            if (code != DSL_OTHER_CALL)
                return code;
            dsl_note(notes, sizeof notes, dsl_calls[i].number, status->text);
        }
    return dsl_fail(status, DSL_OTHER_CALL, "%s", notes);
}
"""
_LOAD = """
int NAME_load(NAME_kernels *kernels, dsl_status *status)
{
    int major = 0, minor = 0, sms = 0;
    dsl_status own;
    CUdevice device;
    CUresult result = cuCtxGetDevice(&device);
    if (status == NULL)
        status = &own;
    memset(status, 0, sizeof *status);
    memset(kernels, 0, sizeof *kernels);
    if (result == CUDA_SUCCESS)
        result = cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    if (result == CUDA_SUCCESS)
        result = cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    if (result == CUDA_SUCCESS)
        result = cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
    if (result != CUDA_SUCCESS)
        return dsl_driver(status, result, "asking for the device of the current context");
    kernels->target = dsl_pick(dsl_targets, TARGETS, 10 * major + minor);
    if (kernels->target < 0)
        return dsl_fail(status, DSL_TARGET, "the device is sm_%d%d, NAME was exported for LISTED", major, minor);
    for (int i = 0; i < CODES; i++) {
        kernels->sms[i] = sms;
        if (dsl_codes[i].target != kernels->target)
            continue;
        if (dsl_load(status, &dsl_codes[i], &dsl_targets[dsl_codes[i].target], 10 * major + minor, &kernels->modules[i],
                     &kernels->functions[i], &kernels->clusters[i], &kernels->sms[i], &kernels->records[i]) != DSL_OK) {
            NAME_unload(kernels, NULL);
            return status->code;
        }
    }
    kernels->loaded = 1;
    return DSL_OK;
}

int NAME_unload(NAME_kernels *kernels, dsl_status *status)
{
    CUresult first = CUDA_SUCCESS, result;
    for (int i = 0; i < CODES; i++) {
        result = kernels->records[i] == 0 ? CUDA_SUCCESS : cuMemFree(kernels->records[i]);
        first = first == CUDA_SUCCESS ? result : first;
        result = kernels->modules[i] == NULL ? CUDA_SUCCESS : cuModuleUnload(kernels->modules[i]);
        first = first == CUDA_SUCCESS ? result : first;
    }
    memset(kernels, 0, sizeof *kernels);
    if (status != NULL)
        memset(status, 0, sizeof *status);
    return dsl_driver(status, first, "unloading the kernels");
}
"""
_WORKSPACE = """
int NAME_workspace(const NAME_kernels *kernels, const NAME_args *args, size_t *workspace, size_t *zeros,
    dsl_status *status)
{
    NAME_sizes sizes = {0, 0};
    const int code = dsl_dispatch(kernels, NULL, args, &sizes, 0, status);
    *workspace = sizes.workspace;
    *zeros = sizes.zeros;
    return code;
}
"""
_LAUNCH = """
int NAME(const NAME_kernels *kernels, CUstream stream, const NAME_args *args, dsl_status *status)
{
DECLARED    return dsl_dispatch(kernels, stream, args, SIZES, 1, status);
}
"""
_CHECK = """
int NAME_check(const NAME_kernels *kernels, dsl_status *status)
{
    uint32_t record[8];
    dsl_status own;
    if (status == NULL)
        status = &own;
    memset(status, 0, sizeof *status);
    for (int i = 0; i < CODES; i++) {
        CUresult result;
        if (kernels->records[i] == 0)
            continue;
        result = cuMemcpyDtoH(record, kernels->records[i], sizeof record);
        if (result != CUDA_SUCCESS)
            return dsl_driver(status, result, "reading the record of asserts");
        if (record[0] == 0)
            continue;
        result = cuMemsetD32(kernels->records[i], 0, 8);
        if (result != CUDA_SUCCESS)
            return dsl_driver(status, result, "clearing the record of asserts");
        return dsl_fail(status, DSL_ASSERT, "%s: the assert in line %u failed in block (%u, %u, %u), thread %u",
                        dsl_codes[i].label, (unsigned)record[1], (unsigned)record[2], (unsigned)record[3],
                        (unsigned)record[4], (unsigned)record[5]);
    }
    return DSL_OK;
}
"""


def program_text(function: ExportedFunction) -> str:
    """Returns a C program that makes the exported calls with arrays from files."""
    rows = {call.number: call for call in reversed(function.calls)}
    calls = [rows[number] for number in sorted(rows)]
    arrays = [*function.arrays.values()]
    places = [f"offsetof({function.name}_args, {each.field}), {int(each.read)}, {int(each.written)}" for each in arrays]
    fields = ", ".join(f"{{{c_string(each.name)}, {at}}}" for each, at in zip(arrays, places, strict=True))
    text = (Path(__file__).parent / "program.c").read_text()
    text = text.replace("ARRAYS", fields).replace("ROWS", ",\n".join(arguments_of(function, call) for call in calls))
    bytes_of = ",\n".join(f"    {{{', '.join(_bytes(each, call) for each in arrays)}}}" for call in calls)
    text = text.replace("BYTES", bytes_of).replace("COUNT", str(len(arrays)))
    text = with_parts(text, {"WORKSPACE": function.has_workspace, "RECORD": function.has_records})
    return text.replace("NAME", function.name)


def with_parts(text: str, parts: Mapping[str, bool]) -> str:
    """Returns a text with those of its parts, from `// PART BEGIN` to `// PART END`, that are wanted."""
    for part, is_kept in parts.items():
        kept = r"\1" if is_kept else ""
        text = re.sub(rf"^ *// {part} BEGIN\n(.*?)^ *// {part} END\n", kept, text, flags=re.S | re.M)
    return text


def _bytes(array: Any, call: ExportedCall) -> str:
    facts = call.arguments[array.name]
    # At least a byte: the driver allocates no empty memory.
    return str(max(1, element_count(facts) * DTYPES[array.dtype].bytes)) if isinstance(facts, ArrayFacts) else "0"


def arguments_of(function: ExportedFunction, call: ExportedCall) -> str:
    """Returns the arguments of a call but for arrays, as an initialiser."""
    fields = [f".{field} = {call_dim(function, call, key)}" for key, field in function.dims.items()]
    for array in function.arrays.values():
        facts = call.arguments[array.name]
        if array.strides is not None and isinstance(facts, ArrayFacts):
            fields.append(f".{array.strides} = {{{', '.join(map(str, facts.steps))}}}")
    for number in function.numbers.values():
        value = call.arguments[number.name]
        values = value if isinstance(value, tuple | list) else [value]
        text = ", ".join(number_literal(number.dtype, each) for each in values)
        fields.append(f".{number.field} = {text if number.length is None else '{' + text + '}'}")
    return f"    {{{', '.join(fields) or '0'}}}"


def call_dim(function: ExportedFunction, call: ExportedCall, key: str) -> int:
    """Returns the extent of a dim in a call: that of the first given array that has it."""
    field = function.dims[key]
    for array in function.arrays.values():
        facts = call.arguments[array.name]
        if isinstance(facts, ArrayFacts) and field in array.extents:
            return facts.shape[array.extents.index(field)]
    return 0


CMAKE = """\
cmake_minimum_required(VERSION 3.18)
project(exported C)

set(CMAKE_C_STANDARD 11)
find_package(CUDAToolkit REQUIRED)

# A library and a program for each exported function of this folder.
file(GLOB programs RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} *_program.c)
foreach(program ${programs})
    string(REGEX REPLACE "_program\\.c$" "" name ${program})
    add_library(${name} STATIC ${name}.c)
    target_include_directories(${name} PUBLIC ${CMAKE_CURRENT_SOURCE_DIR} ${CUDAToolkit_INCLUDE_DIRS})
    target_link_libraries(${name} PUBLIC CUDA::cuda_driver $<$<BOOL:${UNIX}>:m>)
    add_executable(${name}_program ${program})
    target_link_libraries(${name}_program PRIVATE ${name})
endforeach()
"""
