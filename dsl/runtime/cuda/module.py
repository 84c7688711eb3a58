"""Loads PTX text: modules cached by content, device and options; errors of the driver's JIT; kernel attributes."""

from __future__ import annotations

import hashlib
import re
import threading
from dataclasses import dataclass
from typing import Any, Protocol

from dsl.runtime.chips import DeviceFacts, occupancy
from dsl.runtime.cuda import driver
from dsl.runtime.cuda.context import Context
from dsl.runtime.errors import DeviceError, LaunchError
from dsl.runtime.header import Header
from dsl.runtime.timeline import NO_RECORDS

LOG_BYTES = 1 << 14
PORTABLE_CLUSTER = 8
"""Largest cluster, in blocks, that needs no opt-in (CUDA programming guide, "Thread block clusters")."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """The driver's facts on a compiled kernel, and how many of its blocks a multiprocessor holds.

    `registers` a thread; `local_bytes` a thread (spills and arrays in local memory); shared memory in bytes a block;
    `occupancy`: active threads over the most that fit; `limited_by`: the resource that allows the fewest blocks.
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
    """The facts on an entry that loading needs: of a Header, or of a text without one."""

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


@dataclass(frozen=True, slots=True)
class LoadedKernel:
    """An entry of a loaded module in one context."""

    context: Context
    header: Header
    function: Any
    record: int
    says_cluster: bool
    """Whether the text itself states the size of its clusters, or has none: then launches need no attribute."""
    timeline: int = 0
    """The memory in which its warps record at marks; without room in launches that request no records."""

    def attributes(self) -> Attributes:
        """The driver's facts on this kernel."""
        return attributes_of(self.context, self.function, self.header)


def attributes_of(context: Context, function: Any, code: LaunchedCode) -> Attributes:
    """The driver's facts on a loaded function."""
    cuda = driver.bindings()
    names = cuda.CUfunction_attribute

    def get(name: str) -> int:
        return context.call(cuda.cuFuncGetAttribute, getattr(names, f"CU_FUNC_ATTRIBUTE_{name}"), function)

    with context.current():
        registers, static = get("NUM_REGS"), get("SHARED_SIZE_BYTES")
        occupancy = cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor
        blocks = context.call(occupancy, function, code.threads, code.shared_bytes)
        return Attributes(
            registers=registers,
            local_bytes=get("LOCAL_SIZE_BYTES"),
            static_shared_bytes=static,
            dynamic_shared_bytes=code.shared_bytes,
            threads=code.threads,
            blocks_per_sm=blocks,
            occupancy=blocks * code.threads / context.facts.threads_per_sm,
            limited_by=limiting_resource(context.facts, registers, code.threads, static + code.shared_bytes),
        )


def limiting_resource(facts: DeviceFacts, registers: int, threads: int, shared_bytes: int) -> str:
    """`registers`, `shared memory`, `threads` or `blocks`: the resource that allows the fewest blocks a
    multiprocessor."""
    return occupancy(facts, registers, threads, shared_bytes)[1]


_modules: dict[tuple[str, int, int | None], Any] = {}
_lock = threading.Lock()


def load(context: Context, ptx: str, header: Header) -> LoadedKernel:
    """Loads an entry of `ptx` and sets its attributes; raises what `load_function` does."""
    function = load_function(context, ptx, header)
    cuda = driver.bindings()
    with context.current():
        known = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH
        # A text with .reqnctapercluster needs no attribute, and its launch is the fast one.
        says_cluster = header.cluster == 1 or context.call(cuda.cuFuncGetAttribute, known, function) == header.cluster
    has_record = any(argument.kind == "record" for argument in header.arguments)
    record = context.add_record(header.label) if has_record else 0
    timeline = context.add_constant(NO_RECORDS) if header.timeline else 0
    return LoadedKernel(context, header, function, record, says_cluster, timeline)


def load_function(context: Context, ptx: str, code: LaunchedCode) -> Any:
    """The driver's function of an entry of `ptx`, allowed to use its shared memory and to form its clusters.

    Raises LaunchError `target` or `shared` if the device cannot run it, DeviceError `ptx` with the PTX line if the
    driver refuses the text."""
    _check_device(context.facts, code)
    cuda = driver.bindings()
    # Not by the text itself: a digest is 64 bytes, a text may have 240 KB.
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
        # More than 8 blocks are not portable to all devices.
        if code.cluster > PORTABLE_CLUSTER:
            wide = attributes.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            context.call(cuda.cuFuncSetAttribute, function, wide, 1)
    return function


def variable(context: Context, function: Any, name: str) -> tuple[int, int]:
    """(address, bytes) of a variable of a function's module; 0 bytes if the driver does not know it."""
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
    """The CUlaunchConfig of a launch in clusters, or of one that may start before the launch in front of it has ended,
    on the legacy default stream."""
    cuda = driver.bindings()
    names, attributes = cuda.CUlaunchAttributeID, []

    def add(name: Any, value: Any) -> None:
        attribute = cuda.CUlaunchAttribute()
        attribute.id, attribute.value = name, value
        attributes.append(attribute)

    # One block is no cluster: the attribute would turn clusters on.
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
    """PTX runs on its own architecture and later ones; with a letter `a` on its own only (PTX ISA, `.target`)."""
    # `f` is for the family: the same tens, and no older member.
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


def _load_module(context: Context, ptx: str, maxnreg: int | None) -> Any:
    cuda = driver.bindings()
    option = cuda.CUjit_option
    # Zeroed: the driver writes a C string of unknown length.
    log = bytearray(LOG_BYTES)
    options = {option.CU_JIT_ERROR_LOG_BUFFER: log, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: LOG_BYTES}
    if maxnreg is not None:
        options[option.CU_JIT_MAX_REGISTERS] = maxnreg
    # The driver reads a C string.
    image = ptx.encode() + b"\0"
    code, module = cuda.cuModuleLoadDataEx(image, len(options), list(options), list(options.values()))
    text = log.rstrip(b"\0").decode(errors="replace").strip()
    # An error without a log is not one of the text.
    if code != 0 and text:
        raise jit_error(ptx, text)
    context.check(code, "loading the PTX")
    return module


def jit_error(ptx: str, log: str) -> DeviceError:
    """The DeviceError `ptx` of the driver's compiler log, with the line of PTX that it names."""
    match = re.search(r"line (\d+)", log)
    hint = None
    if match is not None and 0 < (number := int(match[1])) <= len(lines := ptx.splitlines()):
        hint = f"line {number} of the PTX: {lines[number - 1].strip()[:200]}"
    return DeviceError("ptx", f"the driver refuses the PTX: {' '.join(log.split())}", hint)
