"""Manages the primary CUDA context of each device. A `Context` also stores the device's properties and the names of the
launched kernels.

After an illegal memory access, all driver calls in the CUDA context fail until the process ends. The driver reports the
access only at some later call. So a `Context` remembers the kernels launched since the last synchronisation, and the
error names them. After the error, the `Context` refuses further launches.

A kernel that never ends can only be stopped by ending its process. Inside `with time_limit(…)`, a wait for the device
raises an error when the time is over. This error also makes the `Context` refuse further launches."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from dsl.runtime.chips import DeviceFacts
from dsl.runtime.cuda import driver
from dsl.runtime.errors import DeviceAssertError, DeviceError
from dsl.runtime.header import RECORD_WORDS
from dsl.runtime.record import assert_error

_limit: ContextVar[float | None] = ContextVar("time_limit", default=None)


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Limits the time of each wait for a device to `seconds`. None means no limit.

    If queued work does not end in time, the wait raises DeviceError `time-limit`. The device then continues with this
    work, and the process can no longer use the device."""
    token = _limit.set(seconds)
    try:
        yield
    finally:
        _limit.reset(token)


class Context:
    """The primary CUDA context of the device `ordinal`, retained by this object. `cu_context` is the driver's
    handle."""

    def __init__(self, ordinal: int) -> None:
        driver.require(ordinal)
        cuda = driver.bindings()
        self.ordinal = ordinal
        self.device = driver.call(cuda.cuDeviceGet, ordinal)
        # torch, CuPy and JAX also use the primary context, so their arrays are valid in it.
        self.cu_context = driver.call(cuda.cuDevicePrimaryCtxRetain, self.device)
        self.facts = _facts(self.device)
        self.launched: dict[str, None] = {}  # a dict used as a set: an item is added without a function call
        self.records: list[tuple[str, int]] = []
        self.poison: DeviceError | None = None

    @contextmanager
    def current(self) -> Iterator[None]:
        """Makes the context current inside a `with` block, and then restores the previous context."""
        cuda = driver.bindings()
        (code,) = cuda.cuCtxPushCurrent(self.cu_context)
        self.check(code, "making the context current")
        try:
            yield
        finally:
            cuda.cuCtxPopCurrent()

    def check(self, code: Any, doing: str) -> None:
        """Raises DeviceError unless the driver's error code `code` means success. If the error makes the context
        unusable, every later check raises the same error."""
        # In a poisoned context the driver would report the old error for a kernel that did not cause it.
        if self.poison is not None:
            raise self.poison
        if code == 0:
            return
        error = driver.error(code, doing)
        if int(code) in driver.STICKY:
            names = ", ".join(sorted(self.launched)) or "none by this runtime"
            error = DeviceError(
                "poisoned",
                f"{error.message}; kernels launched on cuda:{self.ordinal} since the last synchronisation: {names}",
                "nothing more runs on this device in this process; run the kernel on the emulator to find the line",
            )
            self.poison = error
        raise error

    def call(self, function: Any, *arguments: Any) -> Any:
        """Calls a driver function, checks its error code, and returns its other results. This context must be
        current."""
        code, *values = function(*arguments)
        self.check(code, function.__name__)
        return values[0] if len(values) == 1 else tuple(values)

    def add_record(self, kernel: str) -> int:
        """Allocates a zeroed assert record for `kernel` and returns its address. A failed `assert` of the kernel writes
        to this record."""
        pointer = self.add_constant(bytes(4 * RECORD_WORDS))
        self.records.append((kernel, pointer))
        return pointer

    def add_constant(self, data: bytes) -> int:
        """Allocates device memory, copies `data` to it, and returns its address. The memory is never freed."""
        cuda = driver.bindings()
        with self.current():
            pointer = int(self.call(cuda.cuMemAlloc, len(data)))
            self.call(cuda.cuMemcpyHtoD, pointer, data, len(data))
        return pointer

    def synchronize(self) -> None:
        """Waits until the device has finished all work. Raises DeviceAssertError if an `assert` failed.

        Raises DeviceError for another failure, or if the wait takes longer than the `time_limit`."""
        self._wait(_limit.get())
        with self.current():
            # Only records of launched kernels are read, because each read copies from the device.
            records = [record for record in self.records if record[0] in self.launched]
            failed = [found for kernel, pointer in records if (found := self._failed(kernel, pointer))]
        # The launched kernels are cleared before the raise, so that a failed assert is not reported twice.
        self.launched.clear()
        if failed:
            raise failed[0]

    def _wait(self, seconds: float | None) -> None:
        cuda = driver.bindings()
        if seconds is None or self.poison is not None:
            with self.current():
                self.call(cuda.cuCtxSynchronize)
            return
        ended, failed = threading.Event(), []

        def wait() -> None:
            try:
                with self.current():
                    self.call(cuda.cuCtxSynchronize)
            except DeviceError as error:
                failed.append(error)
            finally:
                ended.set()

        threading.Thread(target=wait, daemon=True).start()  # a thread, because the driver's call has no time limit
        if not ended.wait(seconds):
            names = ", ".join(sorted(self.launched)) or "what was queued"
            self.poison = DeviceError(
                "time-limit",
                f"{names} did not end within {seconds:g} s on cuda:{self.ordinal}",
                "nothing more runs on this device in this process; the emulator says what a kernel waits for",
            )
            raise self.poison
        if failed:
            raise failed[0]

    def _failed(self, kernel: str, pointer: int) -> DeviceAssertError | None:
        cuda = driver.bindings()
        record = bytearray(4 * RECORD_WORDS)
        self.call(cuda.cuMemcpyDtoH, record, pointer, len(record))
        error = assert_error(kernel, bytes(record))
        if error is not None:
            # The kernel may be launched again, and its next failure needs a zeroed flag.
            self.call(cuda.cuMemsetD32, pointer, 0, RECORD_WORDS)
        return error


_contexts: dict[int, Context] = {}
_lock = threading.Lock()


def context(ordinal: int) -> Context:
    """Returns the Context of the device `ordinal`, which is made at first use. Raises DeviceError `no-gpu` or
    `cuda`."""
    if driver.forked():
        raise driver.after_fork_error()
    with _lock:
        if ordinal not in _contexts:
            _contexts[ordinal] = Context(ordinal)
        return _contexts[ordinal]


def used_contexts() -> list[Context]:
    """Returns all contexts that `context` has made in this process."""
    with _lock:
        return list(_contexts.values())


def _facts(device: Any) -> DeviceFacts:
    cuda = driver.bindings()
    names = cuda.CUdevice_attribute

    def get(name: str) -> int:
        attribute = getattr(names, f"CU_DEVICE_ATTRIBUTE_{name}")
        return driver.call(cuda.cuDeviceGetAttribute, attribute, device)

    major, minor = get("COMPUTE_CAPABILITY_MAJOR"), get("COMPUTE_CAPABILITY_MINOR")
    kilohertz, bits = get("MEMORY_CLOCK_RATE"), get("GLOBAL_MEMORY_BUS_WIDTH")
    clock = get("CLOCK_RATE")
    return DeviceFacts(
        name=driver.call(cuda.cuDeviceGetName, 256, device).split(b"\0")[0].decode(),
        arch=f"sm_{major}{minor}",
        sms=get("MULTIPROCESSOR_COUNT"),
        # OPTIN: a kernel that uses more than 48 KiB of dynamic shared memory must request it. `load_function` does
        # this.
        shared_per_block=get("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        shared_per_sm=get("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        reserved_shared=get("RESERVED_SHARED_MEMORY_PER_BLOCK"),
        registers_per_sm=get("MAX_REGISTERS_PER_MULTIPROCESSOR"),
        threads_per_sm=get("MAX_THREADS_PER_MULTIPROCESSOR"),
        blocks_per_sm=get("MAX_BLOCKS_PER_MULTIPROCESSOR"),
        l2_bytes=get("L2_CACHE_SIZE"),
        memory_bytes=driver.call(cuda.cuDeviceTotalMem, device),
        # The memory has double data rate: two transfers per clock.
        memory_bandwidth=2 * kilohertz * 1e3 * bits / 8 if kilohertz and bits else None,
        clock=clock * 1e3 if clock else None,
    )
