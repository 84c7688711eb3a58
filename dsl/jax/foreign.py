"""Calls as foreign functions of XLA (FFI): XLA's custom call launches the exported C of a kernel or dispatch on XLA's
stream, without the host."""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import jax
import numpy
from msgspec import Struct

from dsl import TileError
from dsl.calls.api import ModuleFunction
from dsl.calls.arguments import class_of, facts_of, shape_facts
from dsl.calls.plan import Output
from dsl.export.launches import C_TYPES
from dsl.export.model import ExportedArray, ExportedFunction, ExportedNumber, as_passed
from dsl.jax.library import FailedForeignCall, ForeignPlatform, NoForeignCall, build, cuda_platform, load, toolchain
from dsl.operators.spec import OperatorSpec
from dsl.runtime.dtypes import DTYPES, converter, numpy_dtype
from dsl.runtime.store import key_of
from dsl.values.facts import ArrayFacts

NAME = "launched"
"""The name of the exported function in C."""
SCRATCH = 256
"""Bytes that a buffer of scratch memory has beyond what the call needs, for its alignment."""
FAR_APART = 40
"""In a dry run, each array begins at a multiple of this power of two."""
MOST_TEXT = 1024

HANDLER = Path(__file__).with_name("handler.c")

platform = cuda_platform
"""Returns the platform of foreign calls. Tests replace it."""


class ForeignNumber(Struct, frozen=True):
    """A number or table in the attribute `numbers` of a custom call."""

    name: str
    dtype: str
    length: int | None

    def pack(self, value: Any) -> bytes:
        convert = converter(self.dtype, self.name)
        values = [convert(value)] if self.length is None else [*map(convert, value)]
        return struct.pack(f"<{len(values)}{DTYPES[self.dtype].code}", *values)


class ForeignLibrary(Struct, frozen=True):
    """The machine code of a call for the host, and the numbers that it takes."""

    code: bytes
    numbers: tuple[ForeignNumber, ...]
    has_workspace: bool


class ForeignCall(Struct, frozen=True, eq=False):
    """A call that XLA launches: its platform, the name of its handler, the attribute `numbers`, the arrays that it
    takes, and its outputs. `fixed` are arrays that the operator fixes. `scratch` are the bytes of outputs that are
    workspaces."""

    platform: str
    target: str
    numbers: numpy.ndarray[Any, Any]
    inputs: tuple[str, ...]
    fixed: Mapping[str, Any]
    results: tuple[jax.ShapeDtypeStruct, ...]
    scratch: tuple[int, ...]

    def __call__(self, given: Mapping[str, Any]) -> tuple[Any, ...]:
        arrays = [given[name] if name in given else self.fixed[name] for name in self.inputs]
        more = [jax.ShapeDtypeStruct((size,), numpy.uint8) for size in self.scratch]
        call = jax.ffi.ffi_call(self.target, [*self.results, *more], vmap_method="sequential")
        return tuple(call(*arrays, numbers=self.numbers))[: len(self.results)]


_turn = Lock()
_loaded: dict[str, ctypes.CDLL] = {}
"""The libraries of this process, by the names of their handlers."""
_built: WeakKeyDictionary[ModuleFunction, dict[Any, ForeignLibrary]] = WeakKeyDictionary()
"""The libraries of a function, by what decides them."""


def foreign_call(
    spec: OperatorSpec, plain: Mapping[str, Any], traced: Mapping[str, Any], outputs: Sequence[Output]
) -> ForeignCall:
    """Makes the call of an operator a foreign call. `traced` are the arrays and numbers that JAX traces, `plain` the
    other inputs. Raises NoForeignCall with the reason why it cannot be one."""
    place = platform()
    given = dict.fromkeys(spec.function.params) | {**spec.fixed, **plain, **traced}
    for name in traced:
        if spec.parameter(name).kind != "array":
            raise NoForeignCall(f"'{name}' is traced, so its value is on the device, and a launch needs it on the host")
    for name, value in given.items():
        if hasattr(value, "dtype") and hasattr(value, "shape") and not isinstance(value, jax.Array | numpy.ndarray):
            raise NoForeignCall(f"'{name}' is fixed to an array that is neither JAX's nor numpy's")
    if not place.serves(spec.function.module.device):
        raise NoForeignCall("the module runs on the emulator: dsl.load(…, device='cuda')")
    described = {name: shape_facts(value) for name, value in given.items()}
    shapes = [value.shape for value in described.values() if isinstance(value, ArrayFacts)]
    if not all(isinstance(extent, int) for shape in shapes for extent in shape):
        raise NoForeignCall("extents are symbols, and a launch is planned for numbers")
    called = spec.function.called
    facts = as_passed(called, facts_of(spec.function.front, described) | {each.name: each.facts for each in outputs})
    inputs = tuple(n for n in called.params if isinstance(facts[n], ArrayFacts) and n not in spec.outputs)
    library = library_of(spec, facts, inputs, place)
    packed = [each.pack(given[each.name]) for each in library.numbers]
    numbers = numpy.frombuffer(b"".join(packed) or b"\0", numpy.uint8)
    target = f"dsl_{spec.name}_{key_of(library.code)[:24]}"
    scratch = prepared(place, target, library, numbers)
    fixed = {name: jax.numpy.asarray(given[name]) for name in inputs if name not in traced}
    results = tuple(jax.ShapeDtypeStruct(each.shape, numpy_dtype(each.dtype)) for each in outputs)
    return ForeignCall(place.name, target, numbers, inputs, fixed, results, scratch)


def library_of(
    spec: OperatorSpec, facts: Mapping[str, Any], inputs: Sequence[str], place: ForeignPlatform
) -> ForeignLibrary:
    """Returns the library of a class of calls: one of this process, of the compile cache, or a new one."""
    function = spec.function
    kind, tools = class_of(function.front, facts, spec.constants), toolchain(place)
    libraries = _built.setdefault(function, {})
    own = kind, spec.outputs, tools
    if own in libraries:
        return libraries[own]
    kept = function.module._kept
    key = None if kept is None else kept.key(function.name, kind, *function._place())
    if kept is not None and key is not None:
        key = key_of(key, tools, *spec.outputs)
        found = kept.shelf.store.record("foreign", key, ForeignLibrary)
        if found is not None:
            return libraries.setdefault(own, found)
    made = libraries[own] = built(spec, facts, inputs, place)
    if kept is not None and key is not None:
        kept.shelf.put("foreign", key, made)
    return made


def built(
    spec: OperatorSpec, facts: Mapping[str, Any], inputs: Sequence[str], place: ForeignPlatform
) -> ForeignLibrary:
    """Exports a call as C, and compiles it with its handler."""
    function = exported(spec, facts)
    if function.has_records:
        raise NoForeignCall("a kernel has an assert about elements, and its failure is reported only through the host")
    numbers = [each for each in function.numbers.values() if facts[each.name] is not None]
    code = build(place, texts_of_library(function, inputs, spec.outputs, numbers, place), "handler.c")
    return ForeignLibrary(
        code, tuple(ForeignNumber(each.name, each.dtype, each.length) for each in numbers), function.has_workspace
    )


def exported(spec: OperatorSpec, facts: Mapping[str, Any]) -> ExportedFunction:
    """Exports a call. Raises NoForeignCall for what has no C."""
    from dsl.export.files import function_of_call

    try:
        return function_of_call(spec.function, facts, spec.constants, NAME)
    except TileError as error:
        if error.code != "option":
            raise
        raise NoForeignCall(f"it has no form in C: {error.message}") from None


def texts_of_library(
    function: ExportedFunction,
    inputs: Sequence[str],
    outputs: Sequence[str],
    numbers: Sequence[ExportedNumber],
    place: ForeignPlatform,
) -> dict[str, str]:
    """Returns the C files of a library. `handler.c` includes the others."""
    from dsl.export.images import image_of
    from dsl.export.text import arguments_of, header_text, source_text, with_parts

    at, reads, size = 0, list[str](), 0
    for each in numbers:
        size = DTYPES[each.dtype].bytes * (each.length or 1)
        reads.append(f"    memcpy(&args->{each.field}, numbers + {at}, {size}); /* {C_TYPES[each.dtype]} */")
        at += size
    arrays = function.arrays
    given = [(f"args.args[{i}]", arrays[name]) for i, name in enumerate(inputs)]
    given += [(f"rets.rets[{i}]", arrays[name]) for i, name in enumerate(outputs)]
    buffers = [f"    args.{array.field} = dsl_xla_address(frame->{buffer});" for buffer, array in given]
    has_workspace = function.has_workspace
    text = with_parts(
        HANDLER.read_text(), {"WORKSPACE": has_workspace, "STREAM": place.has_streams, "HOST": not place.has_streams}
    )
    words = {
        "INPUTS": str(len(inputs)),
        "OUTPUTS": str(len(outputs) + 2 * has_workspace),
        "BYTES": str(max(1, at)),
        "ROW": arguments_of(function, function.calls[0]).strip(),
        "NUMBERS": "\n".join(reads),
        "PLACES": "\n".join(_places([array for _, array in given])),
        "BUFFERS": "\n".join(buffers),
        "SIZES": "&found" if has_workspace else "NULL",
        "NAME": NAME,
    }
    text = re.sub(rf"\b({'|'.join(words)})(?=\b|_)", lambda found: words[found[1]], text)
    images = [image_of(code, False) for code in function.codes]
    return {
        f"{NAME}.h": header_text(function),
        f"{NAME}.c": source_text(function, images),
        "handler.c": text,
    }


def _places(arrays: Sequence[ExportedArray]) -> Iterator[str]:
    """Yields the lines that give each array an address of its own, for a dry run."""
    for number, array in enumerate(arrays):
        yield f"        args.{array.field} = (CUdeviceptr){number + 1} << {FAR_APART};"


def prepared(
    place: ForeignPlatform, target: str, library: ForeignLibrary, numbers: numpy.ndarray[Any, Any]
) -> tuple[int, ...]:
    """Loads a library and registers its handler, unless this process has done it. Returns the bytes of the outputs that
    are scratch memory. Raises FailedForeignCall if the kernels do not load, or do not take the call."""
    with _turn:
        if target not in _loaded:
            loaded = load(place, library.code)
            handler = jax.ffi.pycapsule(loaded.dsl_xla_handler)
            stages = {"initialize": handler, "execute": handler}
            jax.ffi.register_ffi_target(target, stages, platform=place.registered)
            _loaded[target] = loaded
    sizes, text = (ctypes.c_size_t * 2)(), ctypes.create_string_buffer(MOST_TEXT)
    with place.enter():
        code = _loaded[target].dsl_xla_prepare(numbers.ctypes.data_as(ctypes.c_void_p), sizes, text, MOST_TEXT)
    if code:
        raise FailedForeignCall(f"the driver refuses the call: {text.value.decode(errors='replace')}")
    return tuple(size + SCRATCH for size in sizes) if library.has_workspace else ()
