"""Loads PTX text through the driver and queries kernel attributes. Modules are cached by PTX text, device and register
limit."""

from __future__ import annotations

import hashlib
import re
import threading
from typing import Any, Protocol

from msgspec import Struct

from dsl.runtime.chips import DeviceFacts, occupancy
from dsl.runtime.cuda import driver
from dsl.runtime.cuda.context import Context
from dsl.runtime.errors import DeviceError, LaunchError
from dsl.runtime.header import Header
from dsl.runtime.timeline import NO_RECORDS

PORTABLE_CLUSTER = 8
"""Number of blocks of the largest cluster that needs no opt-in (CUDA programming guide, "Thread block clusters")."""


class Attributes(Struct, frozen=True):
    """Properties of a compiled kernel, as the driver reports them, and its occupancy.

    `registers` and `local_bytes` are per thread. `local_bytes` counts spills and arrays in local memory. Shared memory
    is in bytes per block. `occupancy` is the number of active threads on a multiprocessor divided by the maximum.
    `limited_by` is the resource that allows the fewest blocks.
    """

    registers: int
    local_bytes: int
    static_shared_bytes: int
    dynamic_shared_bytes: int
    threads: int
    blocks_per_sm: int
    occupancy: float
    limited_by: str


class LaunchedCode(Protocol):
    """The properties of an entry that `load_function` needs. `Header` and `CudaForeign` have them."""

    @property
    def entry(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def arch(self) -> str: ...
    @property
    def threads(self) -> int: ...
    @property
    def cluster(self) -> int: ...
    @property
    def shared_bytes(self) -> int: ...
    @property
    def maxnreg(self) -> int | None: ...


class LoadedKernel(Struct, frozen=True):
    """A kernel whose PTX is loaded in one context."""

    context: Context
    header: Header
    function: Any
    record: int
    says_cluster: bool
    """Whether launches need no cluster attribute: the text states the cluster size, or there are no clusters."""
    sms: int
    """Number of multiprocessors that the kernel's blocks use at once. A cluster runs on one GPC, so some of a GPC's
    multiprocessors may be left over: clusters of 4 or 8 blocks use 120 of the 132 of an H200."""
    timeline: int = 0
    """Address of the memory to which warps write records at marks. If no records were requested, this memory has no
    room for records."""

    def attributes(self) -> Attributes:
        """Returns the properties of this kernel, as the driver reports them."""
        return attributes_of(self.context, self.function, self.header)


def attributes_of(context: Context, function: Any, code: LaunchedCode) -> Attributes:
    """Returns the properties of a loaded function, as the driver reports them."""
    cuda = driver.bindings()
    names = cuda.CUfunction_attribute

    def get(name: str) -> int:
        return context.call(cuda.cuFuncGetAttribute, getattr(names, f"CU_FUNC_ATTRIBUTE_{name}"), function)

    with context.current():
        registers, static = get("NUM_REGS"), get("SHARED_SIZE_BYTES")
        blocks = _blocks_per_sm(context, function, code)
        return Attributes(
            registers=registers,
            local_bytes=get("LOCAL_SIZE_BYTES"),
            static_shared_bytes=static,
            dynamic_shared_bytes=code.shared_bytes,
            threads=code.threads,
            blocks_per_sm=blocks,
            occupancy=blocks * code.threads / context.facts.threads_per_sm,
            limited_by=occupancy(context.facts, registers, code.threads, static + code.shared_bytes)[1],
        )


def _blocks_per_sm(context: Context, function: Any, code: LaunchedCode) -> int:
    most_blocks = driver.bindings().cuOccupancyMaxActiveBlocksPerMultiprocessor
    return context.call(most_blocks, function, code.threads, code.shared_bytes)


_modules: dict[tuple[str, int, int | None], Any] = {}
_lock = threading.Lock()


def load(context: Context, ptx: str, header: Header) -> LoadedKernel:
    """Loads the entry of `ptx` that `header` describes. Raises the same errors as `load_function`."""
    function = load_function(context, ptx, header)
    cuda = driver.bindings()
    with context.current():
        known = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH
        # A text with .reqnctapercluster needs no cluster attribute, so the faster `cuLaunchKernel` can launch it.
        says_cluster = header.cluster == 1 or context.call(cuda.cuFuncGetAttribute, known, function) == header.cluster
        sms = _sms_of_clusters(context, function, header) if header.cluster > 1 else context.facts.sms
    has_record = any(argument.kind == "record" for argument in header.arguments)
    record = context.add_record(header.label) if has_record else 0
    timeline = context.add_constant(NO_RECORDS) if header.timeline else 0
    return LoadedKernel(context, header, function, record, says_cluster, sms, timeline)


def _sms_of_clusters(context: Context, function: Any, code: LaunchedCode) -> int:
    """Computes how many multiprocessors the clusters of a kernel use at once, from occupancies that the driver
    reports."""
    config = launch_config((code.cluster, 1, 1), (code.threads, 1, 1), code.shared_bytes, (code.cluster, 1, 1))
    clusters = context.call(driver.bindings().cuOccupancyMaxActiveClusters, function, config)
    blocks = _blocks_per_sm(context, function, code)
    return min(context.facts.sms, clusters * code.cluster // max(blocks, 1)) or context.facts.sms


def load_function(context: Context, ptx: str, code: LaunchedCode) -> Any:
    """Loads an entry of `ptx` and returns the driver's function handle. Sets the function's attributes so that it may
    use its dynamic shared memory and clusters.

    Raises LaunchError `target` or `shared` if the device cannot run the entry. Raises DeviceError `ptx`, which quotes
    the faulty line, if the driver refuses the text."""
    _check_device(context.facts, code)
    cuda = driver.bindings()
    # The key contains a digest of 64 bytes instead of the text, which may have 240 KB.
    key = (hashlib.sha256(ptx.encode()).hexdigest(), context.ordinal, code.maxnreg)
    with context.current():
        with _lock:
            if key not in _modules:
                _modules[key] = _load_module(context, ptx, code.maxnreg)
        function = context.call(cuda.cuModuleGetFunction, _modules[key], code.entry.encode())
        attributes = cuda.CUfunction_attribute
        if code.shared_bytes:
            dynamic = attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            context.call(cuda.cuFuncSetAttribute, function, dynamic, code.shared_bytes)
        # Not all devices support clusters of more than 8 blocks.
        if code.cluster > PORTABLE_CLUSTER:
            wide = attributes.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            context.call(cuda.cuFuncSetAttribute, function, wide, 1)
    return function


def variable(context: Context, function: Any, name: str) -> tuple[int, int]:
    """Returns the address and the size in bytes of the variable `name` in the module of `function`. The size is 0 if
    the driver does not find the variable."""
    cuda = driver.bindings()
    with context.current():
        code, *found = cuda.cuModuleGetGlobal(context.call(cuda.cuFuncGetModule, function), name.encode())
    return (int(found[0]), int(found[1])) if int(code) == 0 else (0, 0)


def launch_config(
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    shared_bytes: int,
    cluster: tuple[int, int, int],
    overlaps: bool = False,
) -> Any:
    """Returns the CUlaunchConfig for a launch on the legacy default stream.

    If `overlaps` is true, the launch may start before the preceding launch has ended."""
    cuda = driver.bindings()
    names, attributes = cuda.CUlaunchAttributeID, []

    def add(name: Any, value: Any) -> None:
        attribute = cuda.CUlaunchAttribute()
        attribute.id, attribute.value = name, value
        attributes.append(attribute)

    # With one block per cluster the attribute is left out, because it would enable clusters.
    if cluster != (1, 1, 1):
        value = cuda.CUlaunchAttributeValue()
        value.clusterDim.x, value.clusterDim.y, value.clusterDim.z = cluster
        add(names.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, value)
    if overlaps:
        value = cuda.CUlaunchAttributeValue()
        value.programmaticStreamSerializationAllowed = 1
        add(names.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, value)
    config = cuda.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = grid
    config.blockDimX, config.blockDimY, config.blockDimZ = block
    config.sharedMemBytes = shared_bytes
    if attributes:
        config.numAttrs, config.attrs = len(attributes), attributes
    return config


def _check_device(facts: DeviceFacts, code: LaunchedCode) -> None:
    """Raises LaunchError if the device cannot run the code.

    PTX for `sm_90` runs on this architecture and on later ones. PTX for `sm_90a` runs only on `sm_90` (PTX ISA,
    `.target`)."""
    # PTX for `sm_100f` runs on `sm_100` and on later architectures of the same family: those up to `sm_109`.
    number, has = int(re.sub(r"\D", "", code.arch)), int(re.sub(r"\D", "", facts.arch))
    fits = {"a": has == number, "f": has // 10 == number // 10 and has >= number}.get(code.arch[-1], has >= number)
    if not fits:
        raise LaunchError(
            "target", f"{code.label} is compiled for {code.arch}, the device {facts.name} is {facts.arch}"
        )
    if code.shared_bytes > facts.shared_per_block:
        raise LaunchError(
            "shared",
            f"{code.label} takes {code.shared_bytes} bytes of shared memory a block, "
            f"the device {facts.name} has {facts.shared_per_block}",
        )


LOG_BYTES = 1 << 14
"""The greatest length of the log of the driver's PTX compiler."""


def _load_module(context: Context, ptx: str, maxnreg: int | None) -> Any:
    """Loads PTX. The driver keeps the machine code in its own cache. Its linker would give it to us, but assembles
    relocatable code: a bf16 product of 192 x 256 tiles then spills, wgmma is serialised, and a step of a transformer
    takes 2.4 times as long (driver 580.159, H200)."""
    cuda = driver.bindings()
    option = cuda.CUjit_option
    # The buffer is zeroed, because the driver writes a C string of unknown length.
    log = bytearray(LOG_BYTES)
    options = {option.CU_JIT_ERROR_LOG_BUFFER: log, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: LOG_BYTES}
    if maxnreg is not None:
        options[option.CU_JIT_MAX_REGISTERS] = maxnreg
    # The driver expects a C string.
    image = ptx.encode() + b"\0"
    code, module = cuda.cuModuleLoadDataEx(image, len(options), list(options), list(options.values()))
    text = log.rstrip(b"\0").decode(errors="replace").strip()
    # An error without a log is not an error in the text.
    if code != 0 and text:
        raise jit_error(ptx, text)
    context.check(code, "loading the PTX")
    return module


def jit_error(ptx: str, log: str) -> DeviceError:
    """Returns the DeviceError `ptx` for an error log of the driver's PTX compiler. The error's hint quotes the PTX line
    whose number is in the log."""
    match = re.search(r"line (\d+)", log)
    hint = None
    if match is not None and 0 < (number := int(match[1])) <= len(lines := ptx.splitlines()):
        hint = f"line {number} of the PTX: {lines[number - 1].strip()[:200]}"
    return DeviceError("ptx", f"the driver refuses the PTX: {' '.join(log.split())}", hint)
