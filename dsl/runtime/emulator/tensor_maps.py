"""The emulator's own tensor maps. A map is a struct of 128 bytes that begins with a magic word.

The format of a driver's map is not public, so the emulator cannot read such a map. The limits of a map are those of the
CUDA driver API ("cuTensorMapEncodeTiled", "cuTensorMapEncodeIm2col") and of the PTX ISA ("Tensors").
"""

from __future__ import annotations

import struct
from functools import cached_property, lru_cache
from math import prod
from typing import Any

from msgspec import Struct

from .memory import DevicePointer, Memory

BYTES = 128
ALIGNMENT = 64
MAGIC = b"dsl map\0"
MOST_AXES = 5
MOST_SPATIAL = MOST_AXES - 2
LAYOUT = struct.Struct(f"<8sQ{MOST_AXES}Q{MOST_AXES - 1}Q{MOST_AXES}IBBBB")
# In a map with a window (im2col), these fields follow `LAYOUT`: lower corners, upper corners, steps.
WINDOW = struct.Struct(f"<{MOST_SPATIAL}h{MOST_SPATIAL}h{MOST_SPATIAL}B")
# In any other map, these fields follow `LAYOUT`: for each axis, the distance between two copied elements.
STEPS = struct.Struct(f"<{MOST_AXES}B")
# Element types in the numbering of `tensormap.replace` (PTX ISA, "Tensormap new_val validity").
TYPES = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32.ftz", "f64", "bf16", "tf32", "tf32.ftz")
# For each element size, the type that is encoded if the map states none.
BITS = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}
SWIZZLES = (0, 32, 64, 128)
# If an element has no type, the type's byte contains the element size with this flag.
NO_TYPE = 1 << 7
INTERLEAVE_SHIFT, FILL_SHIFT = 1, 3
# Addresses, strides and rows of a TMA box are multiples of this many bytes.
UNIT = 16
MOST_BOX = 256
# The most pixels of an im2col box. For a tiled box, MOST_BOX is the limit of each axis.
MOST_PIXELS = 1024
# The number of bits of a window's corner, including the sign, for each number of axes. The unsigned offsets of an
# instruction have as many bits.
CORNER_BITS = {3: 16, 4: 8, 5: 5}
MOST_STEP = 8
MOST_STRIDE = 1 << 40
MOST_EXTENT = 1 << 32


class DecodedWindow(Struct, frozen=True):
    """The corners and the steps of an im2col window, with the values that the map contains."""

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    steps: tuple[int, ...]


class DecodedMap(Struct, frozen=True):
    """The fields of a tensor map. `extents` and `box` list the innermost axis first. `strides` are in bytes, from axis
    1 on. The box of a map with an im2col window is (channels, pixels).

    Usually `steps` are 1, `interleave` is none and `fill` is zeros. Only `tensormap.replace` sets other values.
    """

    element_bytes: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    window: DecodedWindow | None
    type: str = ""
    steps: tuple[int, ...] = ()
    interleave: int = 0
    fill: int = 0


class NoMap(Exception):
    """Raised for bytes that are no map of the emulator, and for a map that no device accepts. The message states the
    reason."""


class PlacedMap(Struct, frozen=True, dict=True):
    """A tensor map and the address of its array."""

    map: DecodedMap
    address: int

    @property
    def rank(self) -> int:
        return len(self.map.extents)

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """The distance in bytes between adjacent elements along each axis."""
        return (self.map.element_bytes, *self.map.strides)

    @cached_property
    def box_bytes(self) -> int:
        return prod(self.map.box) * self.map.element_bytes

    @property
    def swizzle_bits(self) -> int:
        """The number of address bits that the swizzle changes."""
        return (self.map.swizzle // UNIT).bit_length() - 1 if self.map.swizzle else 0


class TensorMapArgument(Struct, frozen=True):
    """A kernel argument: the tensor map of an array in device memory (see `encode`)."""

    map: Any
    pointer: DevicePointer

    @property
    def memory(self) -> Memory:
        return self.pointer.memory

    def image(self) -> bytes:
        return encode(self.map, self.pointer.address)


def encode(tensor_map: Any, address: int) -> bytes:
    """Returns the 128 bytes of a kernel argument: the tensor map of the array at `address`. `tensor_map` has the fields
    of a `DecodedMap` up to `type`."""
    rank = len(tensor_map.extents)
    if not 1 <= rank <= MOST_AXES:
        raise ValueError(f"a tensor map has 1 to {MOST_AXES} axes, not {rank}")

    def filled(values: tuple[int, ...], count: int) -> list[int]:
        return [*values, *[0] * (count - len(values))]

    # The fields have the order of `numbers` in `replaced`.
    data = LAYOUT.pack(
        MAGIC,
        address,
        *filled(tensor_map.extents, MOST_AXES),
        *filled(tensor_map.strides, MOST_AXES - 1),
        *filled(tensor_map.box, MOST_AXES),
        rank,
        element_code(tensor_map),
        tensor_map.swizzle,
        tensor_map.window is not None,
    )
    if (window := tensor_map.window) is not None:
        numbers = (filled(each, MOST_SPATIAL) for each in (window.lower, window.upper, window.steps))
        data += WINDOW.pack(*(number for each in numbers for number in each))
    else:
        data += STEPS.pack(*[1] * MOST_AXES)
    return data.ljust(BYTES, b"\0")


def element_code(tensor_map: Any) -> int:
    name = tensor_map.type or BITS.get(tensor_map.element_bytes, "")
    return TYPES.index(name) if name else NO_TYPE | tensor_map.element_bytes


def bytes_of_type(name: str) -> int:
    bits = int("".join(filter(str.isdigit, name.removesuffix(".ftz"))))
    return 4 if name.startswith("tf32") else bits // 8


def replaced(data: bytes, field: str, ordinal: int, value: int) -> bytes:
    """Returns the map after a `tensormap.replace`. Raises NoMap for bytes that are no map, and for a map with an im2col
    window.

    `value` is the unsigned value of the instruction. It is not checked here. A value that no device accepts is reported
    by the instruction that uses the map.
    """
    numbers, rest = list(LAYOUT.unpack(data[: LAYOUT.size])), bytearray(data[LAYOUT.size :])
    if numbers[0] != MAGIC:
        raise NoMap("holds no tensor map that the emulator has made (what a driver makes cannot be read)")
    if numbers[-1] & 1:
        raise NoMap("holds a map with a window, and only fields of tiled maps can be replaced")
    if field == "element_stride":
        rest[ordinal] = min(value, 255)
        return data[: LAYOUT.size] + bytes(rest)
    if field == "interleave_layout":
        numbers[-1] = numbers[-1] & ~(3 << INTERLEAVE_SHIFT) | value << INTERLEAVE_SHIFT
    elif field == "fill_mode":
        numbers[-1] = numbers[-1] & ~(1 << FILL_SHIFT) | value << FILL_SHIFT
    else:
        first, new = {
            "global_address": (1, value),
            "global_dim": (2, value),
            "global_stride": (2 + MOST_AXES, value),
            "box_dim": (1 + 2 * MOST_AXES, value),
            # The instruction specifies the rank minus one (PTX ISA, "tensormap.replace"). A value that exceeds a byte
            # is refused where the map is used.
            "rank": (1 + 3 * MOST_AXES, min(value + 1, 255)),
            "elemtype": (2 + 3 * MOST_AXES, value),
            "swizzle_mode": (3 + 3 * MOST_AXES, SWIZZLES[value % len(SWIZZLES)]),
        }[field]
        numbers[first + ordinal] = new
    return LAYOUT.pack(*numbers) + bytes(rest)


def element_sizes(image: bytes) -> set[int]:
    """Returns the element sizes in bytes of all maps in `image`. Maps are at multiples of 64."""
    sizes, at = set(), image.find(MAGIC)
    while at >= 0:
        # At other positions the magic word is there by chance.
        if at % ALIGNMENT == 0:
            sizes.add(element_bytes_of(image[at : at + BYTES]))
        at = image.find(MAGIC, at + 1)
    return sizes - {0}


def element_bytes_of(data: bytes) -> int:
    """Returns the element size in bytes of a map that the emulator accepts, and 0 for other bytes."""
    try:
        return decode(data).map.element_bytes
    except NoMap:
        return 0


@lru_cache(maxsize=256)
def decode(data: bytes) -> PlacedMap:
    """Decodes a map that `encode` has written. Raises NoMap for other bytes, and for a map that devices or the emulator
    do not accept."""
    if len(data) != BYTES or not data.startswith(MAGIC):
        raise NoMap("holds no tensor map that the emulator has made (what a driver makes cannot be read)")
    fields = LAYOUT.unpack(data[: LAYOUT.size])
    _, address, *numbers = fields
    rank, code, swizzle, flags = numbers[-4:]
    has_window = bool(flags & 1)
    if not 1 <= rank <= MOST_AXES:
        raise NoMap(f"holds a tensor map that no device takes: it has {rank} axes, not 1 to {MOST_AXES}")
    extents, strides, box = numbers[:rank], numbers[5 : 4 + rank], numbers[9 : 9 + (2 if has_window else rank)]
    window = decoded_window(data, rank) if has_window else None
    type_name = TYPES[code] if code < len(TYPES) else ""
    size = bytes_of_type(type_name) if type_name else code & ~NO_TYPE
    steps = () if has_window else STEPS.unpack_from(data, LAYOUT.size)[:rank]
    layout = flags >> INTERLEAVE_SHIFT & 3, flags >> FILL_SHIFT & 1
    found = DecodedMap(size, tuple(extents), tuple(strides), tuple(box), swizzle, window, type_name, steps, *layout)
    fault = fault_of(found, address)
    if fault:
        raise NoMap(f"holds a tensor map that no device takes: {fault}")
    if unknown := unknown_of(found):
        raise NoMap(f"holds a tensor map with {unknown}, which the emulator does not know")
    return PlacedMap(found, address)


def unknown_of(found: DecodedMap) -> str:
    """Returns the reason why the emulator refuses a map that a device accepts, or an empty text. The step of axis 0
    matters only with an interleaved layout (CUDA driver API, "cuTensorMapEncodeTiled")."""
    if found.interleave:
        return f"a layout of {16 * found.interleave} bytes interleaved"
    # The CUDA driver ignores the element stride of axis 0 without interleaving.
    if any(step != 1 for step in found.steps[1:]):
        return f"the element strides {found.steps}"
    return "a fill of NaN" if found.fill else ""


def decoded_window(data: bytes, rank: int) -> DecodedWindow:
    numbers = WINDOW.unpack_from(data, LAYOUT.size)
    starts = range(0, len(numbers), MOST_SPATIAL)
    return DecodedWindow(*(numbers[start : start + max(rank - 2, 0)] for start in starts))


def fault_of(tensor_map: DecodedMap, address: int) -> str:
    """Returns the reason why a device refuses a map, or an empty text if a device accepts it."""
    row = tensor_map.box[0] * tensor_map.element_bytes
    if tensor_map.element_bytes not in (1, 2, 4, 8):
        return f"elements have 1, 2, 4 or 8 bytes, not {tensor_map.element_bytes}"
    if tensor_map.swizzle not in (0, 32, 64, 128):
        return f"a swizzle spans 32, 64 or 128 bytes, not {tensor_map.swizzle}"
    if address % UNIT:
        return f"its array begins at {address:#x}, which is no multiple of {UNIT}"
    if any(not 1 <= extent <= MOST_EXTENT for extent in tensor_map.extents):
        return f"the extents {tensor_map.extents} are not all 1 to 2^32"
    if any(stride % UNIT or not 0 <= stride < MOST_STRIDE for stride in tensor_map.strides):
        return f"the strides {tensor_map.strides} are not all multiples of {UNIT} bytes below 2^40"
    if (window := tensor_map.window) is not None and (fault := window_fault(tensor_map, window)):
        return fault
    if window is None and any(not 1 <= extent <= MOST_BOX for extent in tensor_map.box):
        return f"the TMA box {tensor_map.box} has not 1 to {MOST_BOX} elements along each axis"
    if row % UNIT:
        return f"a row of its TMA box has {row} bytes, which is no multiple of {UNIT}"
    if tensor_map.swizzle and row > tensor_map.swizzle:
        return f"a row of its TMA box has {row} bytes, and its swizzle spans {tensor_map.swizzle}"
    # A device also accepts shorter rows.
    if tensor_map.swizzle and row < tensor_map.swizzle:
        return (
            f"a row of its TMA box has {row} bytes and its swizzle spans {tensor_map.swizzle}: "
            "the emulator knows only rows as long as the swizzle"
        )
    return ""


def window_fault(tensor_map: DecodedMap, window: DecodedWindow) -> str:
    """Returns the reason why a device refuses a map with an im2col window, or an empty text if a device accepts it."""
    rank, (channels, pixels) = len(tensor_map.extents), tensor_map.box
    if rank not in CORNER_BITS:
        return f"a map with a window has 3 to 5 axes, not {rank}"
    if not 1 <= channels <= MOST_BOX or not 1 <= pixels <= MOST_PIXELS:
        return f"a box of {channels} channels and {pixels} pixels; there are 1 to {MOST_BOX}, and 1 to {MOST_PIXELS}"
    most = 1 << CORNER_BITS[rank] - 1
    corners = (*window.lower, *window.upper)
    if any(not -most <= corner < most for corner in corners):
        return f"the corners {corners} are not all {-most} to {most - 1}, as those of {rank} axes are"
    if any(not 1 <= step <= MOST_STEP for step in window.steps):
        return f"the steps {window.steps} are not all 1 to {MOST_STEP}"
    for axis, (extent, lower, upper) in enumerate(
        zip(tensor_map.extents[1:-1], window.lower, window.upper, strict=True), 1
    ):
        # The upper corner counts from the last pixel of the axis (PTX ISA, "im2col mode").
        if extent - 1 + upper < lower:
            return f"its window has no pixel along axis {axis}, from {lower} to {extent - 1 + upper}"
    return ""
