"""One small class for each array framework: how to read an array, its stream, and how to make another like it.

`probe` gives `(pointer, signature)`, where the hashable signature decides everything else that `describe` says. Two
arrays with equal signatures differ in their addresses only, so a launch is checked once a signature. `read` does the
same for all arrays of a call, and a `recogniser` tells faster whether they are those of the last call but for their
addresses: reading them is most of what a checked launch adds to a bare one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from typing import Any

from runtime.arrays import Array
from runtime.dtypes import BIT_FIELDS, DTYPES, NAME_OF_NUMPY, is_masked
from runtime.errors import LaunchError

Reader = Callable[[Sequence[Any], list[Any], list[Any]], None]
"""(arrays, pointers, signatures): appends to the lists. One that is made for one framework raises AttributeError for
arrays of another."""
Recogniser = Callable[..., bool]
"""(*arrays) → whether they are certainly of the class that it was made for; False is no statement."""


def unread(arrays: Sequence[Any], pointers: list[Any], signatures: list[Any]) -> None:
    """The Reader before the first arrays: it takes none, so that one is chosen."""
    raise AttributeError("no reader yet")


def unrecognised(*arrays: Any) -> bool:
    """The Recogniser of a class that has none."""
    return False


def refuse(x: Any, why: str, hint: str | None = None) -> LaunchError:
    """The LaunchError `array` for an array that cannot be passed."""
    return LaunchError("array", f"a {type(x).__module__}.{type(x).__qualname__} {why}", hint)


def dtype_name(x: Any, name: str) -> str:
    """Our name of the element type that the framework calls `name`."""
    if name not in NAME_OF_NUMPY:
        raise refuse(x, f"of {name} cannot be passed to a kernel", f"the element types are {', '.join(DTYPES)}")
    return NAME_OF_NUMPY[name]


class Framework:
    """Base. `foreign` frameworks know nothing of our stream: launches wait before (`settle`) and after."""

    name = ""
    foreign = False
    writable = True

    def probe(self, x: Any) -> tuple[int, Hashable]:
        array = self.describe(x)
        return array.pointer, (self.name, array.shape, array.strides, array.dtype, array.device, array.readonly)

    def describe(self, x: Any) -> Array:
        raise NotImplementedError

    def read(self, arrays: Sequence[Any], pointers: list[Any], signatures: list[Any]) -> None:
        """A Reader for arrays of any frameworks."""
        for x in arrays:
            pointer, signature = framework_of(x).probe(x)
            pointers.append(pointer)
            signatures.append(signature)

    def recogniser(self, arrays: Sequence[Any]) -> Recogniser:
        """A Recogniser of the class of these arrays, where the framework has a quick one."""
        return unrecognised

    def current_stream(self) -> Callable[[int], int]:
        """A function from a device to the raw handle of its current stream; 0 is the legacy default stream."""
        return lambda device: 0

    def settle(self, x: Any) -> None:
        """Waits until the contents of `x` are there (foreign frameworks only)."""

    def finish(self, made: Any) -> Any:
        """What `empty` made, written by launches, as an array of this framework."""
        return made

    def empty(self, x: Any, shape: tuple[int, ...], dtype: str) -> Any:
        raise LaunchError("array", f"cannot make an output like a {type(x).__qualname__}", "pass the output yourself")


class Torch(Framework):
    name = "torch"

    def probe(self, x: Any) -> tuple[int, Hashable]:
        return x.data_ptr(), (x.dtype, x.shape, x.stride(), x.get_device(), x.is_neg())

    @staticmethod
    def read(arrays: Sequence[Any], pointers: list[Any], signatures: list[Any]) -> None:  # type: ignore[override]
        for x in arrays:
            pointers.append(x.data_ptr())
            signatures.append((x.dtype, x.shape, x.stride(), x.get_device(), x.is_neg()))

    def recogniser(self, arrays: Sequence[Any]) -> Recogniser:
        return tensor_guards(arrays) if guards_work() else unrecognised

    def describe(self, x: Any) -> Array:
        if x.device.type not in ("cuda", "cpu"):
            raise refuse(x, f"on {x.device.type} cannot be passed to a kernel")
        if str(x.layout) != "torch.strided":
            raise refuse(x, f"with layout {x.layout} cannot be passed to a kernel", "to_dense()")
        if x.is_neg():
            raise refuse(x, "with its negative bit set cannot be passed to a kernel", "resolve_neg()")
        dtype = dtype_name(x, str(x.dtype).removeprefix("torch."))
        shape, device = tuple(x.shape), x.device.index if x.device.type == "cuda" else None
        array = Array(self.name, x.data_ptr(), shape, tuple(x.stride()), dtype, device)
        if not array.pointer and array.size:
            raise refuse(x, "without storage cannot be passed to a kernel")
        return array

    def current_stream(self) -> Callable[[int], int]:
        return sys.modules["torch"]._C._cuda_getCurrentRawStream

    def empty(self, x: Any, shape: tuple[int, ...], dtype: str) -> Any:
        torch = sys.modules["torch"]
        return torch.empty(shape, dtype=getattr(torch, DTYPES[dtype].numpy), device=x.device)


def tensor_guards(tensors: Sequence[Any]) -> Recogniser:
    """torch's own check that tensors have the type, dtype, device, dispatch keys, sizes and strides of these.

    It is what torch.compile guards its code with: one call (150 ns for two tensors) in place of five attributes of
    each (1200 ns). It keeps no reference to the tensors.
    """
    guards = sys.modules["torch"]._C._dynamo.guards.TensorGuards
    sizes, strides = [list(x.shape) for x in tensors], [list(x.stride()) for x in tensors]
    return guards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides).check


@cache
def guards_work() -> bool:
    """Whether this torch has such guards, and they tell apart all that `Torch.probe` does: they are not public."""
    torch = sys.modules["torch"]
    try:
        x = torch.zeros(4, 6)
        same, check = torch.ones(4, 6), tensor_guards([x, x])
        others = [x[:3], x[:, :5], x.reshape(6, 4), x.view(24), x.T, x[:, ::2], x.int(), x.half(), x.to("meta")]
        others.append(torch.zeros(4, 6, dtype=torch.complex64).conj().imag)
        return check(same, x) and not any(check(x, other) or check(other, x) for other in others)
    except (AttributeError, TypeError, RuntimeError):
        return False


class CuPy(Framework):
    name = "cupy"

    def probe(self, x: Any) -> tuple[int, Hashable]:
        memory = x.data
        return memory.ptr, (x.dtype, x.shape, x.strides, memory.device_id)

    @staticmethod
    def read(arrays: Sequence[Any], pointers: list[Any], signatures: list[Any]) -> None:  # type: ignore[override]
        for x in arrays:
            memory = x.data
            pointers.append(memory.ptr)
            signatures.append((x.dtype, x.shape, x.strides, memory.device_id))

    def describe(self, x: Any) -> Array:
        dtype = dtype_name(x, x.dtype.name)
        strides = element_strides(x, x.strides, DTYPES[dtype].bytes)
        return Array(self.name, x.data.ptr, x.shape, strides, dtype, x.data.device_id)

    def current_stream(self) -> Callable[[int], int]:
        get = sys.modules["cupy"].cuda.get_current_stream
        return lambda device: get(device).ptr

    def empty(self, x: Any, shape: tuple[int, ...], dtype: str) -> Any:
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(x.data.device_id):
            return cupy.empty(shape, numpy_dtype(dtype))


class Jax(Framework):
    name = "jax"
    foreign = True
    writable = False

    def describe(self, x: Any) -> Array:
        if not hasattr(x, "unsafe_buffer_pointer"):
            raise refuse(x, "that is being traced cannot be passed to a kernel", "launch outside of jax.jit")
        devices = x.devices()
        if len(devices) != 1:
            raise refuse(x, f"on {len(devices)} devices cannot be passed to a kernel")
        (device,) = devices
        dtype = dtype_name(x, x.dtype.name)
        shape = tuple(x.shape)
        ordinal = None if device.platform == "cpu" else device.local_hardware_id
        pointer = x.unsafe_buffer_pointer()
        return Array(self.name, pointer, shape, row_major(shape), dtype, ordinal, readonly=True)

    def settle(self, x: Any) -> None:
        x.block_until_ready()

    def empty(self, x: Any, shape: tuple[int, ...], dtype: str) -> Any:
        """JAX arrays cannot be written: a stand-in, which `finish` turns into one."""
        ordinal = self.describe(x).device
        if ordinal is None:
            import numpy

            return numpy.empty(shape, numpy_dtype(dtype))
        from runtime.cuda.memory import DeviceArray

        return DeviceArray(shape, dtype, ordinal)

    def finish(self, made: Any) -> Any:
        import jax

        if not hasattr(made, "allocation"):
            return jax.numpy.asarray(made)
        made.allocation.context.synchronize()
        copied = jax.numpy.array(made, copy=True)
        if made.dtype in BIT_FIELDS:  # the interface has no such type: its bits came
            copied = jax.lax.bitcast_convert_type(copied, getattr(jax.numpy, DTYPES[made.dtype].numpy))
        return copied.block_until_ready()


class Numpy(Framework):
    name = "numpy"

    def probe(self, x: Any) -> tuple[int, Hashable]:
        return x.ctypes.data, (self.name, x.dtype, x.shape, x.strides, x.flags.writeable)

    def describe(self, x: Any) -> Array:
        # What numpy has not is ml_dtypes' type, or bits in a field of its name, which needs no other package.
        field = x.dtype.names[0] if x.dtype.names and len(x.dtype.names) == 1 else ""
        bits = field in BIT_FIELDS and x.dtype[0].name == BIT_FIELDS[field]
        dtype = field if bits else dtype_name(x, x.dtype.name)
        if not x.dtype.isnative:
            raise refuse(
                x, "in the other byte order cannot be passed to a kernel", "x.astype(x.dtype.newbyteorder('='))"
            )
        strides = element_strides(x, x.strides, DTYPES[dtype].bytes)
        return Array(self.name, x.ctypes.data, x.shape, strides, dtype, None, not x.flags.writeable)

    def empty(self, x: Any, shape: tuple[int, ...], dtype: str) -> Any:
        return sys.modules["numpy"].empty(shape, numpy_dtype(dtype))


class Ours(Framework):
    """`runtime.cuda.memory.DeviceArray`."""

    name = "dsl"

    def describe(self, x: Any) -> Array:
        return x.array

    def empty(self, x: Any, shape: tuple[int, ...], dtype: str) -> Any:
        return type(x)(shape, dtype, x.array.device)


INTERFACE_LETTERS = {"i": "int", "u": "uint", "f": "float"}


class CudaArrayInterface(Framework):
    """Anything with `__cuda_array_interface__`, version 2 or 3 (numba's documentation defines it)."""

    name = "cuda_array_interface"
    foreign = True

    def describe(self, x: Any) -> Array:
        from runtime.cuda.memory import device_of_pointer

        interface = x.__cuda_array_interface__
        if interface.get("mask") is not None:
            raise refuse(x, "with a mask cannot be passed to a kernel")
        order, letter, width = interface["typestr"][0], interface["typestr"][1], int(interface["typestr"][2:])
        numpy_name = "bool" if letter == "b" else f"{INTERFACE_LETTERS.get(letter, letter)}{width * 8}"
        dtype = dtype_name(x, numpy_name if order in "<|" else interface["typestr"])
        shape = tuple(interface["shape"])
        pointer, readonly = interface["data"]
        strides = interface.get("strides")
        elements = row_major(shape) if strides is None else element_strides(x, strides, width)
        device = device_of_pointer(pointer) if pointer else 0
        return Array(self.name, pointer, shape, elements, dtype, device, bool(readonly))

    def settle(self, x: Any) -> None:
        from runtime.cuda.memory import wait_for_stream

        stream = x.__cuda_array_interface__.get("stream")
        if stream is not None:
            wait_for_stream(describe_device(self, x), stream)


class Dlpack(Framework):
    """Anything with `__dlpack__`; its producer makes the contents ready on the legacy default stream."""

    name = "dlpack"
    foreign = True

    def describe(self, x: Any) -> Array:
        from runtime.dlpack import read

        return read(x)


def describe_device(framework: Framework, x: Any) -> int:
    """The CUDA ordinal of an array that is known to lie on a device."""
    device = framework.describe(x).device
    if device is None:
        raise refuse(x, "lies in host memory")
    return device


def numpy_dtype(dtype: str) -> Any:
    """The numpy dtype of our name; those of BIT_FIELDS are ml_dtypes'."""
    import numpy

    if dtype not in BIT_FIELDS:
        return numpy.dtype(DTYPES[dtype].numpy)
    try:
        import ml_dtypes
    except ImportError:
        raise LaunchError("array", f"numpy has no {dtype} without ml_dtypes", "pip install ml_dtypes") from None
    return numpy.dtype(getattr(ml_dtypes, DTYPES[dtype].numpy))


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements of a row-major array: (2, 3, 4) → (12, 4, 1)."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def element_strides(x: Any, strides: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Byte strides → element strides."""
    if any(stride % itemsize for stride in strides):
        raise refuse(x, f"with strides {tuple(strides)} that are no multiples of {itemsize} bytes cannot be passed")
    return tuple(stride // itemsize for stride in strides)


BY_MODULE: dict[str, Framework] = {"torch": Torch(), "cupy": CuPy(), "jax": Jax(), "jaxlib": Jax(), "runtime": Ours()}
ARRAY_TYPES = frozenset(["Tensor", "ndarray", "ArrayImpl", "Array", "Tracer", "DeviceArray"])
NUMPY, INTERFACE, DLPACK = Numpy(), CudaArrayInterface(), Dlpack()


_found: dict[type, Framework | None] = {}


def find_framework(kind: type) -> Framework | None:
    """The framework of a type, None for what is no array."""
    if kind not in _found:
        _found[kind] = _look_up(kind)
    return _found[kind]


def _look_up(kind: type) -> Framework | None:
    for base in kind.__mro__:
        root = base.__module__.partition(".")[0]
        if root == "numpy":
            return NUMPY if base.__name__ in ("ndarray", "memmap") else None
        if root in BY_MODULE and base.__name__ in ARRAY_TYPES:
            return BY_MODULE[root]
    if hasattr(kind, "__cuda_array_interface__"):
        return INTERFACE
    return DLPACK if hasattr(kind, "__dlpack__") else None


def framework_of(x: Any) -> Framework:
    """The framework of an array. Raises LaunchError `array` for anything else."""
    framework = find_framework(type(x))
    if framework is None:
        raise LaunchError("array", f"{named(x)} is no array that a kernel takes", way_out(x))
    return framework


def named(x: Any) -> str:
    """What an argument is, in words: its type, and the value where that is short."""
    kind = type(x)
    if kind.__module__ == "builtins":
        text = repr(x)
        return f"the {kind.__name__} {text}" if len(text) <= 40 else f"a {kind.__name__}"
    return f"a {kind.__module__}.{kind.__qualname__}"


def way_out(x: Any) -> str:
    """What to pass in place of something that is no array."""
    if is_masked(x):
        return "kernels know no masks: x.filled(value)"
    if hasattr(x, "__array__") and not hasattr(x, "item"):
        return "pass numpy.asarray(x)"
    if any(base.__module__.partition(".")[0] == "numpy" for base in type(x).__mro__) and hasattr(x, "shape"):
        return "pass numpy.asarray(x), and look at its shape and type"
    if isinstance(x, list | tuple):
        return "pass numpy.array(x, dtype)"
    return "pass an array of torch, CuPy, JAX or numpy"
