"""Executes the Python text that a row has as its meaning: registers of a warp and images of memory in, the same out."""

import operator
from collections.abc import Callable
from functools import cache, reduce
from types import CodeType
from typing import Any

import ml_dtypes
import numpy as np
from template_kernel import ADDRESSES, LANES, given, written

from dsl.ptx_templates import Fragment, Instruction, Operand

FLOATS = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "tf32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
REGISTER_BYTES = {"pred": 4, "b16": 2, "b32": 4, "b64": 8, "f32": 4, "f64": 8}
OPAQUE = object()  # a value that the meaning does not say: a clock, a cache policy

Registers = dict[str, list[bytes]]  # of each operand, by lane: all its registers, one after the other


def kind_of(operand: Operand) -> str:
    """The type of an element: what the row says that the registers hold, else their PTX type."""
    return "b32" if operand.type == "pred" else (operand.element or operand.type).removesuffix("x2")


def decode(raw: bytes, kind: str) -> np.ndarray:
    """The elements of `raw`: floats as float64, integers exactly."""
    if kind in FLOATS:
        return np.frombuffer(raw, FLOATS[kind]).astype(np.float64)
    width = int(kind[1:])
    if width >= 8:
        values = np.frombuffer(raw, f"{'i' if kind[0] == 's' else 'u'}{width // 8}")
        return values.astype(object if width == 64 else np.int64)
    ones = np.unpackbits(np.frombuffer(raw, np.uint8), bitorder="little").astype(np.int64)
    values = ones.reshape(-1, width) @ (1 << np.arange(width))
    return values - (values >> (width - 1) << width) if kind[0] == "s" else values


def encode(values: Any, kind: str) -> bytes:
    """Bytes of the elements; floats are rounded to nearest even, integers wrap around."""
    if kind in FLOATS:
        return np.asarray(values).astype(FLOATS[kind]).tobytes()
    size = int(kind[1:]) // 8
    return b"".join((int(value) & (1 << 8 * size) - 1).to_bytes(size, "little") for value in np.ravel(values))


def value_of(raw: bytes, operand: Operand) -> Any:
    """The value of one lane, a scalar where the operand is a single element."""
    values = decode(raw, kind_of(operand))
    return values[0] if len(values) == 1 else values


class Lanes(int):
    """The value of one lane as an int, and those of the others by index."""

    values: list[int]

    def __new__(cls, lane: int, values: list[int]) -> "Lanes":
        self = super().__new__(cls, values[lane])
        self.values = values
        return self

    def __getitem__(self, lane: int) -> int:
        return self.values[lane]


class Mask(int):
    """Lanes named by the bits of an int."""

    def __iter__(self):
        return (lane for lane in range(LANES) if self >> lane & 1)


class Memory:
    """An image of memory as one row sees it: `memory[address]` is `width` bytes as a value of its operand."""

    def __init__(self, image: np.ndarray, width: int, row: Instruction):
        self.image, self.width, self.matrix = image, width, row.family.endswith("matrix")
        self.operand = next((operand for operand in row.operands if operand.name in "da"), None)

    def __getitem__(self, address: int) -> Any:
        raw = self.image[address : address + self.width].tobytes()
        if self.operand is None:
            return raw
        if self.matrix:
            return decode(raw, "b16")
        return value_of(raw.ljust(REGISTER_BYTES[self.operand.type], b"\0"), self.operand)

    def __setitem__(self, address: int, value: Any) -> None:
        raw = value if self.operand is None else encode(value, "b16" if self.matrix else kind_of(self.operand))
        self.image[address : address + self.width] = np.frombuffer(raw[: self.width], np.uint8)


def clamped(kind: str) -> Callable[[int], int]:
    """The bits of the integer of that type that is nearest."""
    width = int(kind[1:])
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if kind[0] == "s" else (0, (1 << width) - 1)
    return lambda value: min(max(int(value), low), high) & (1 << width) - 1


def saturated(kind: str) -> Callable[[float], int]:
    """The bits of the finite float of that 8-bit type that is nearest."""
    limit = float(ml_dtypes.finfo(FLOATS[kind]).max)
    return lambda value: encode(np.clip(value, -limit, limit), kind)[0]


def rounded_to_tf32(value: float) -> int:
    """10 bits of fraction, to nearest, ties away from zero; the others are zero."""
    return int.from_bytes(encode(value, "f32"), "little") + (1 << 12) & ~((1 << 13) - 1)


def half_of(kind: str) -> Callable[[int], int]:
    """From the bits of an 8-bit float to those of the f16; a NaN becomes the canonical one."""

    def convert(raw: int) -> int:
        value = decode(bytes([int(raw)]), kind)
        return 0x7FFF if np.isnan(value).any() else int.from_bytes(encode(value, "f16"), "little")

    return convert


def relu(value: Any) -> Any:
    """Of a float, or of the bits of an f16."""
    if isinstance(value, int):
        return 0 if value & 0x8000 else value
    return max(value, 0.0)


def nothing(*_: Any) -> Any:
    return OPAQUE


def vocabulary(shared_bytes: int) -> dict[str, Any]:
    """The names that a meaning may use beside its operands."""
    words: dict[str, Any] = dict.fromkeys(
        ("arrive", "wait", "fence", "commit_group", "wait_group", "wait_all"), nothing
    )
    words |= dict.fromkeys(("cta", "cluster", "gpu", "sys", "barrier", "threads", "n"))
    words |= dict.fromkeys(("warpid", "nwarpid", "smid", "nsmid", "total_smem_size"), OPAQUE)
    words |= dict.fromkeys(("clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo", "globaltimer_hi"), OPAQUE)
    words |= {name: getattr(np, name) for name in ("sqrt", "log2", "sin", "cos", "tanh", "stack")}
    words |= {"fmin": np.fmin, "fmax": np.fmax, "minimum": np.minimum, "maximum": np.maximum}
    words |= {"reduce": reduce, "and_": operator.and_, "or_": operator.or_, "xor": operator.xor}
    words |= {kind: clamped(kind) for kind in ("s8", "u8", "s16", "u16")}
    for kind in ("e4m3", "e5m2"):
        words |= {kind: saturated(kind), f"f16_from_{kind}": half_of(kind)}
    words |= {"tf32": rounded_to_tf32, "relu": relu, "policy": nothing, "leader": min}
    words |= {"clamp": lambda values: np.clip(values, -(1 << 31), (1 << 31) - 1)}
    words |= {"head": lambda raw, size: raw[: int(size)].ljust(len(raw), b"\0")}
    words |= {"active": range(LANES), "block": range(LANES), "dynamic_smem_size": shared_bytes}
    return words


@cache
def code_of(meaning: str) -> CodeType:
    return compile(meaning, "<meaning>", "exec")


@cache
def places_of(fragment: Fragment) -> list[list[tuple[int, int]]]:
    """Row and column of each element of each lane."""
    elements = range(2 ** len(fragment.register))
    return [[fragment.coordinate(lane, i) for i in elements] for lane in range(LANES)]


def execute(row: Instruction, registers: Registers, images: dict[str, np.ndarray]) -> dict[str, list[bytes | None]]:
    """The registers of the outputs by lane, None where the meaning leaves them open; `images` change in place.

    `registers` has the inputs, addresses as offsets into the image of their space.
    """
    words = vocabulary(len(images["shared"]))
    for effect in row.effects:
        if effect.space in images:
            width = 16 if row.family.endswith("matrix") else effect.bytes
            words[f"{effect.space}_memory"] = Memory(images[effect.space], width, row)
    if any(operand.fragment for operand in row.operands):
        return _execute_on_tiles(row, registers, words)
    results: dict[str, list[bytes | None]] = {operand.name: [] for operand in row.operands if written(operand)}
    code = code_of(row.meaning)
    for lane in range(LANES):
        names = words | {"lane": lane, "laneid": lane}
        for operand in filter(given, row.operands):
            names[operand.name] = value_of(registers[operand.name][lane], operand)
        if row.convergent and "a" in registers:
            everyone = [value_of(raw, row["a"]) for raw in registers["a"]]
            names["a"] = everyone if kind_of(row["a"]) in FLOATS else Lanes(lane, list(map(int, everyone)))
        if row.convergent and "mask" in registers:
            names["mask"] = Mask(names["mask"])
        exec(code, names)
        for name, by_lane in results.items():
            value = names[name]
            by_lane.append(None if value is OPAQUE else encode(value, kind_of(row[name])))
    return results


def _execute_on_tiles(row: Instruction, registers: Registers, words: dict[str, Any]) -> dict[str, list[bytes | None]]:
    """As `execute`, once for the warp, on the tiles that the fragments are of."""
    for operand in filter(given, row.operands):
        lanes = [decode(raw, kind_of(operand)) for raw in registers[operand.name]]
        if operand.name in ADDRESSES:
            words[operand.name] = [int(values[0]) for values in lanes]
            continue
        tile = np.zeros(operand.fragment.shape, lanes[0].dtype)
        for values, places in zip(lanes, places_of(operand.fragment), strict=True):
            for value, place in zip(values, places, strict=True):
                tile[place] = value
        words[operand.name] = tile
    exec(code_of(row.meaning), words)
    results: dict[str, list[bytes | None]] = {}
    for operand in filter(written, row.operands):
        tile = words[operand.name]
        results[operand.name] = [
            encode([tile[place] for place in places], kind_of(operand)) for places in places_of(operand.fragment)
        ]
    return results
