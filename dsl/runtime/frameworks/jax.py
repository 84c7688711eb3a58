"""Reads JAX's arrays. JAX arrays cannot be written, so launches write to another array, which is then converted to a
JAX array."""

from __future__ import annotations

from typing import Any

from dsl.runtime.arrays import Array, row_major
from dsl.runtime.dtypes import BIT_FIELDS, DTYPES, numpy_dtype
from dsl.runtime.frameworks.framework import Framework, dtype_name, refuse
from dsl.runtime.recorded import NOT_TRACED, TRACED, is_jax_tracer


class Jax(Framework):
    name = "jax"
    modules = ("jax", "jaxlib")
    types = ("ArrayImpl", "Array", "Tracer")
    foreign = True
    immutable = True

    def describe(self, x: Any) -> Array:
        if is_jax_tracer(x):
            raise refuse(x, TRACED, NOT_TRACED)
        devices = x.devices()
        if len(devices) != 1:
            raise refuse(x, f"on {len(devices)} devices cannot be passed to a kernel")
        (device,) = devices
        dtype = dtype_name(x, x.dtype.name)
        shape = tuple(x.shape)
        # JAX's own device numbers count the devices of all hosts.
        ordinal = None if device.platform == "cpu" else device.local_hardware_id
        pointer = x.unsafe_buffer_pointer()
        return Array(self.name, pointer, shape, row_major(shape), dtype, ordinal, readonly=True, immutable=True)

    def settle(self, x: Any) -> None:
        x.block_until_ready()

    def empty(self, x: Any, shape: tuple[int, ...], dtype: str) -> Any:
        """Makes a DeviceArray or a numpy array for an output. `finish` converts it to a JAX array."""
        ordinal = self.describe(x).device
        if ordinal is None:
            import numpy

            return numpy.empty(shape, numpy_dtype(dtype))
        from dsl.runtime.cuda.memory import DeviceArray

        return DeviceArray(shape, dtype, ordinal)

    def finish(self, made: Any) -> Any:
        import jax

        if not hasattr(made, "allocation"):
            return jax.numpy.asarray(made)
        made.allocation.context.synchronize()
        # Without a copy, JAX would alias the memory of `made`, which is freed with `made`.
        copied = jax.numpy.array(made, copy=True)
        if made.dtype in BIT_FIELDS:  # the CUDA array interface lacks this type, so its bits were passed
            copied = jax.lax.bitcast_convert_type(copied, getattr(jax.numpy, DTYPES[made.dtype].numpy))
        return copied.block_until_ready()
