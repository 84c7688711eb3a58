"""Launches PTX that has no header, such as PTX of nvcc or Triton.

The caller passes the grid, all launch parameters that the text does not state, and the arguments in the order of the
entry's parameters. For a pointer parameter, pass an array, or 0 for the null pointer. For a number, pass a Python
number. For a struct, pass an array of the same size in bytes. For a struct of 128 bytes, the size of a tensor map, you
may also pass a `MapOf`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from functools import cached_property
from math import isfinite, prod
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from dsl.runtime.emulation import EmulatedCopy, WrittenArray, emulated
from dsl.runtime.errors import LaunchError
from dsl.runtime.frameworks import describe
from dsl.runtime.header import Argument
from dsl.runtime.signature import EntrySignature, SignatureParameter, addresses_in, signatures, target_of
from dsl.runtime.tensor_map import MAP_BYTES, MAP_TYPES, SWIZZLES, TensorMap, box_fault, of_array

if TYPE_CHECKING:
    from dsl.runtime.cuda.module import Attributes

Extents = tuple[int, int, int]
FLOATS = {"f16": "<e", "f32": "<f", "f64": "<d"}
BITS = {"b32": "<f", "b64": "<d"}
"""Type that states only a number of bits → the `struct` format of a float argument."""
VARIABLE = r"^[ \t]*(?:\.(?:visible|weak|common)[ \t]+)?\.global\b[^=;{\n]*?[ \t]([\w$%]+)(?:\[[^\n;={]*)?[ \t]*[=;]"
"""Pattern of the declaration of a module's variable in global memory. The pattern's group is the variable's name."""
MOST_ALIGNMENT = 1 << 16
"""Largest alignment, in bytes, that a text may request (`dsl/runtime/emulator/limits.py`). No known driver aligns
shared memory to more."""
ALIGNED = "--shared 49152,1024: drivers align it to 1024 bytes"


class LaunchShape(Struct, frozen=True):
    """The launch parameters of an entry.

    `grid`, `block` and `cluster` are extents along x, y and z: blocks of the grid, threads of a block, and blocks of a
    cluster. `shared_bytes` is the size of dynamic shared memory. `shared_alignment` is the alignment in bytes that the
    driver is known to give to dynamic shared memory. If it is 0, only the alignment that the text declares is known."""

    grid: Extents
    block: Extents
    cluster: Extents = (1, 1, 1)
    shared_bytes: int = 0
    shared_alignment: int = 0


class MapOf(Struct, frozen=True, eq=False):
    """An argument that is a tensor map of a row-major array.

    `box` is the number of elements along each axis that one TMA copy moves. `swizzle` is 0, 32, 64 or 128 bytes."""

    array: Any
    box: tuple[int, ...]
    swizzle: int = 0

    def map(self, name: str) -> TensorMap:
        """Returns the tensor map. Raises LaunchError if TMA copies do not support the array or the box."""
        array = describe(self.array)
        if len(self.box) != len(array.shape):
            raise LaunchError("shape", f"{name} has {len(array.shape)} axes, its box {len(self.box)}")
        if self.swizzle not in SWIZZLES:
            raise LaunchError("call", f"a swizzle spans {', '.join(map(str, SWIZZLES))} bytes, not {self.swizzle}")
        # The driver's maps list the innermost axis first.
        axes = tuple(reversed(range(len(self.box))))
        if fault := box_fault(self.box[-1] * array.itemsize, self.swizzle):
            raise LaunchError("shape", f"the box of {name} {fault}")
        found = of_array(array, Argument("map", name, axes=axes, box=self.box[::-1], swizzle=self.swizzle))
        return replace(found, type=array.dtype if array.dtype in MAP_TYPES else "")


class ForeignResult(Struct):
    """The outcome of a launch on the emulator: the emulator's `Result`, and the last writers of the arrays.

    If the emulator found a fault or ran only some blocks, the arrays are not copied back, and `writers` is empty."""

    result: Any
    writers: list[WrittenArray] = field(default_factory=list)


class ForeignKernel:
    """One entry of a PTX text without a header.

    Raises LaunchError `ptx` if the text does not have the entry named `entry`. If `entry` is None, the text must have
    exactly one entry."""

    def __init__(self, ptx: str, entry: str | None = None):
        self.ptx = ptx = ptx.removeprefix("\ufeff")  # a byte order mark, which ptxas and the driver refuse
        self.signature = self._select(signatures(ptx), entry)
        self.entry = self.signature.name
        self.target = target_of(ptx) or "sm_90a"
        self.maxnreg = self.signature.most_registers

    @staticmethod
    def _select(found: dict[str, EntrySignature], entry: str | None) -> EntrySignature:
        if entry is None and len(found) == 1:
            return next(iter(found.values()))
        if entry is None or entry not in found:
            what = "choose an entry" if entry is None and found else f"no entry {entry or 'is there'}"
            raise LaunchError("ptx", f"{what}: the PTX has {', '.join(found) or 'none'}")
        return found[entry]

    @property
    def parameters(self) -> tuple[SignatureParameter, ...]:
        return self.signature.parameters

    @cached_property
    def addresses(self) -> set[str]:
        """The names of those parameters that the text declares or uses as addresses of global memory."""
        return addresses_in(self.ptx, self.signature)

    def shape(
        self,
        grid: Extents,
        block: Extents | None = None,
        cluster: Extents | None = None,
        shared: tuple[int, int] = (0, 0),
    ) -> LaunchShape:
        """Returns the LaunchShape for the given extents.

        `block` may be left out if the text states it (`.reqntid`). `block` and `cluster` must not contradict the text.
        `shared` is a pair: the size of dynamic shared memory in bytes, and its alignment. The alignment is a power of
        two, or 0 for the alignment that the text declares. Raises LaunchError `grid`."""
        says = self.signature
        for name, required, wanted in (("block", says.block, block), ("cluster", says.cluster, cluster)):
            if required and wanted and required != wanted:
                raise LaunchError("grid", f"{self.entry} requires a {name} of {required}, not {wanted}")
        block = block or says.block
        if block is None:
            raise LaunchError("grid", f"{self.entry} does not say how many threads its block has", "--block X[,Y[,Z]]")
        if shared[1] and (fault := alignment_fault(shared[1])):
            raise LaunchError("grid", fault, ALIGNED)
        return LaunchShape(grid, block, cluster or says.cluster or (1, 1, 1), *shared)

    def fault(self, parameter: SignatureParameter, value: Any) -> str | None:
        """Describes why `value` cannot be passed for `parameter`. Returns None if it can be passed."""
        if hasattr(value, "ctypes"):
            return self._array_fault(parameter, value)
        if isinstance(value, MapOf):
            return None if is_map(parameter) else f"is a {_type(parameter)}, no tensor map of {MAP_BYTES} bytes"
        if parameter.is_array:
            return f"is {_struct(parameter)}"
        if not isinstance(value, bool | int | float):
            return f"is a {_type(parameter)}, which takes a number"
        if parameter.name in self.addresses:
            return None if type(value) is int and value == 0 else "is a pointer, which takes an array, or 0 for none"
        return _number_fault(parameter, value)

    def _array_fault(self, parameter: SignatureParameter, value: Any) -> str | None:
        if parameter.is_array:
            fits = value.nbytes == parameter.bytes
            return None if fits else f"is {_struct(parameter)}; this array has {value.nbytes}"
        # Addresses are 64 bits wide. Compilers declare them as .u64 or .b64.
        if parameter.bytes != 8 or parameter.type[0] == "f":
            return f"is a number by value ({_type(parameter)}), no pointer"
        return None

    # ---- the emulator ----

    def emulate(
        self, shape: LaunchShape, arguments: Sequence[Any], names: Sequence[str], **options: Any
    ) -> ForeignResult:
        """Launches on the emulator and copies the arrays back.

        `names` are the names of the arguments in messages. `options` are passed to `emulate`. Raises FindingError,
        LaunchError or DeviceError."""
        from dsl.runtime.emulator import Memory, TensorMapArgument

        memory = Memory()
        copies: dict[int, EmulatedCopy] = {}

        def pointer(array: Any, name: str) -> Any:
            # An array that is passed twice has one copy, so that both parameters get the same address.
            if id(array) not in copies:
                copies[id(array)] = EmulatedCopy(memory, name, describe(array))
            return copies[id(array)].pointer

        given: list[Any] = []
        for parameter, value, name in zip(self.parameters, arguments, names, strict=True):
            if isinstance(value, MapOf):
                given.append(TensorMapArgument(value.map(name), pointer(value.array, name)))
            elif hasattr(value, "ctypes") and not parameter.is_array:
                given.append(pointer(value, name))
            else:
                given.append(image(parameter, value))
        options["watch"] = [copy.pointer.address for copy in copies.values()]
        result = emulated(
            self.entry,
            self.ptx,
            self.entry,
            shape.grid,
            shape.block,
            given,
            cluster=shape.cluster,
            shared_bytes=shape.shared_bytes,
            shared_alignment=shape.shared_alignment,
            arch=options.pop("arch", None) or self.target,
            **options,
        )
        if result.findings or options.get("blocks") is not None:
            return ForeignResult(result)
        for copy in copies.values():
            copy.copy_back()
        return ForeignResult(result, [copy.written(result) for copy in copies.values()])

    # ---- a GPU ----

    def load(self, shape: LaunchShape, arguments: Sequence[Any], names: Sequence[str], ordinal: int) -> CudaForeign:
        """Prepares a launch on a GPU and copies the arrays to this GPU. Raises LaunchError or DeviceError."""
        return CudaForeign(self, shape, arguments, names, ordinal)


class CudaForeign:
    """A launch of an entry on a GPU. The constructor copies the arrays to the GPU, and `copy_back` copies them back."""

    def __init__(
        self, kernel: ForeignKernel, shape: LaunchShape, arguments: Sequence[Any], names: Sequence[str], ordinal: int
    ):
        from dsl.runtime.cuda.context import context
        from dsl.runtime.cuda.module import load_function
        from dsl.runtime.cuda.tensor_maps import encode
        from dsl.runtime.transfer import to_device

        self.context = context(ordinal)
        self.entry = self.label = kernel.entry
        self.arch, self.maxnreg, self.shape = kernel.target, None, shape
        self.threads, self.cluster, self.shared_bytes = prod(shape.block), prod(shape.cluster), shape.shared_bytes
        self.copies: dict[int, tuple[Any, Any]] = {}

        def address(array: Any) -> int:
            if id(array) not in self.copies:
                self.copies[id(array)] = (array, to_device(array, ordinal))
            return self.copies[id(array)][1].array.pointer

        images: list[bytes] = []
        for parameter, value, name in zip(kernel.parameters, arguments, names, strict=True):
            if isinstance(value, MapOf):
                images.append(encode(self.context, value.map(name), address(value.array)))
            elif hasattr(value, "ctypes") and not parameter.is_array:
                images.append(struct.pack("<Q", address(value)))
            else:
                images.append(image(parameter, value))
        self.function = load_function(self.context, kernel.ptx, self)
        self.variables = re.findall(VARIABLE, kernel.ptx, re.MULTILINE)
        self._launch = _prepared(self, images)

    def __call__(self) -> None:
        """Launches on the legacy default stream."""
        self._launch()

    def attributes(self) -> Attributes:
        """Returns the kernel's registers, spills, shared memory and occupancy."""
        from dsl.runtime.cuda.module import attributes_of

        return attributes_of(self.context, self.function, self)

    def memory(self) -> list[tuple[int, int]]:
        """Returns the address range, (begin, end), of each array and each global variable of the module. A launch may
        change this memory."""
        from dsl.runtime.cuda.module import variable

        found = [(copy.array.pointer, copy.allocation.size) for _, copy in self.copies.values()]
        # For example, a counter among the module's variables may change what the second launch does.
        found += [variable(self.context, self.function, name) for name in self.variables]
        return [(start, start + size) for start, size in found if size]

    def copy_back(self) -> None:
        """Waits for the device, and copies the arrays to the caller's host arrays."""
        self.context.synchronize()
        for host, copy in self.copies.values():
            copy.allocation.copy_out(host.ctypes.data, host.nbytes)


def _prepared(launch: CudaForeign, images: Sequence[bytes]) -> Callable[[], None]:
    """Returns a function that launches with fixed arguments. `images` contains the bytes of each argument."""
    import ctypes

    from dsl.runtime.cuda import driver
    from dsl.runtime.cuda.module import launch_config

    cuda, shape, context = driver.bindings(), launch.shape, launch.context
    # The buffers are arrays of u64, since the driver may need the natural alignment of an argument, up to 8 bytes.
    sizes = [-(-len(each) // 8) for each in images]
    buffers = [(ctypes.c_uint64 * size).from_buffer_copy(each.ljust(8 * size, b"\0"))
               for each, size in zip(images, sizes, strict=True)]  # fmt: skip
    addresses = (ctypes.c_void_p * max(len(buffers), 1))(*map(ctypes.addressof, buffers))
    config = launch_config(shape.grid, shape.block, shape.shared_bytes, shape.cluster)
    arguments = (config, launch.function, ctypes.addressof(addresses), 0)

    # The default argument keeps the buffers alive as long as the function lives.
    def submit(read_at_each_launch: Any = (buffers, addresses)) -> None:
        with context.current():
            context.call(cuda.cuLaunchKernelEx, *arguments)
        context.launched[launch.label] = None

    return submit


def alignment_fault(alignment: int) -> str | None:
    """Describes why dynamic shared memory cannot have this alignment. Returns None if it can."""
    fits = 1 <= alignment <= MOST_ALIGNMENT and not alignment & (alignment - 1)
    text = f"dynamic shared memory is aligned to a power of two from 1 to {MOST_ALIGNMENT}, not to {alignment}"
    return None if fits else text


# ---- numbers by value ----


def is_map(parameter: SignatureParameter) -> bool:
    """Returns whether a parameter has the size of a tensor map."""
    return parameter.is_array and parameter.bytes == MAP_BYTES


def _struct(parameter: SignatureParameter) -> str:
    what = "an array of so many bytes" + (" or a tensor map" if is_map(parameter) else "")
    return f"a struct of {parameter.bytes} bytes by value, which takes {what}"


def _type(parameter: SignatureParameter) -> str:
    return f".{parameter.type}" + (f"[{parameter.bytes}]" if parameter.is_array else "")


def _number_fault(parameter: SignatureParameter, value: bool | int | float) -> str | None:
    kind, bits = parameter.type, 8 * parameter.bytes
    # `.b32` may hold an integer or a float. The type of the Python number decides.
    if kind in FLOATS or (kind in BITS and type(value) is float):
        try:
            struct.pack(FLOATS.get(kind) or BITS[kind], value)
        except OverflowError:
            return f"is a .{kind}, which has no {value}"
        return None
    if type(value) is float:
        return f"is a .{kind}, which takes an integer" + (f", as {int(value)}" if _is_whole(value) else "")
    # A PTX integer may be meant as signed or unsigned.
    if not -(1 << bits - 1) <= value < 1 << bits:
        return f"is a .{kind}, which has no {value}"
    return None


def _is_whole(value: float) -> bool:
    return isfinite(value) and value == int(value)


def image(parameter: SignatureParameter, value: Any) -> bytes:
    """Returns the bytes of an argument that is a number or a struct. `fault` must have returned None for this
    argument."""
    if hasattr(value, "tobytes"):
        return value.tobytes()
    code = FLOATS.get(parameter.type) or (BITS.get(parameter.type) if type(value) is float else None)
    if code is not None:
        return struct.pack(code, value)
    return (int(value) & (1 << 8 * parameter.bytes) - 1).to_bytes(parameter.bytes, "little")
