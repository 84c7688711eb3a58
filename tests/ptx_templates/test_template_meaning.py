"""Every row does what its meaning says, on the emulator and on a GPU: random registers through a handmade kernel."""

import re
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pytest
from template_kernel import ADDRESSES, LANES, given, kernel, slots, written
from template_meaning import FLOATS, REGISTER_BYTES, decode, encode, execute, kind_of

from dsl.ptx_templates import Instruction, Operand, families, family
from dsl.runtime import Kernel

# PTX ISA, "Half Precision" and "Floating Point Instructions": the largest error, relative or absolute, of each
# approximation where the inputs below lie. In f64 the upper halves of a and d alone count, 2**-20 each.
RELATIVE = {
    "ex2.approx.f32": 2**-22,
    "rcp.approx.f32": 2**-23,
    "sqrt.approx.f32": 2**-23,
    "rsqrt.approx.f32": 2**-22.9,
    "div.approx.f32": 2**-22,
    "div.full.f32": 2**-22,
    "tanh.approx.f32": 2**-10.987,
    "ex2.approx.f16": 2**-9.9,
    "ex2.approx.bf16": 2**-7,
    "rcp.approx.f64": 2**-19,
    "rsqrt.approx.f64": 2**-19,
}
ABSOLUTE = {
    "lg2.approx.f32": 2**-22,
    "sin.approx.f32": 2**-20.5,
    "cos.approx.f32": 2**-20.5,
    "tanh.approx.f16": 2**-10.987,
    "tanh.approx.bf16": 2**-8,
}
DOMAIN = {"ex2": (-8, 8), "lg2": (0.5, 2), "sin": (-np.pi, np.pi), "cos": (-np.pi, np.pi), "tanh": (-4, 4)}
BATCH = 48
# Rows that mean nothing one by one, or nothing to a single warp: they have tests of their own, or are assembled alone.
APART = ("mbarrier", "tma", "wgmma")


def batches() -> Iterator[tuple[str, list[Instruction]]]:
    """Rows that one kernel executes: of one family, for one target."""
    for name in (name for name in families() if name not in APART):
        by_target = defaultdict(list)
        for row in family(name).values():
            by_target[row.target if row.arch > 90 else "sm_90"].append(row)
        for target, rows in by_target.items():
            for i in range(0, len(rows), BATCH):
                yield target, rows[i : i + BATCH]


BATCHES = list(batches())


def chunk(row: Instruction) -> int:
    """Bytes of an image of memory that each lane has for itself."""
    return 16 if row.family.endswith("matrix") else max([effect.bytes or 0 for effect in row.effects], default=0)


def some(operand: Operand, row: Instruction, offset: int, rng: np.random.Generator) -> list[bytes]:
    """Registers of an input for all lanes, with values that the row is defined for; its memory begins at `offset`."""
    kind, size = kind_of(operand), REGISTER_BYTES[operand.type] * operand.registers

    def integers(low: int, high: int) -> list[bytes]:
        return [encode(value, kind) for value in rng.integers(low, high, LANES)]

    if operand.name in ADDRESSES:
        lanes = rng.permutation(LANES) if row.family.endswith("matrix") else range(LANES)
        return [encode(offset + int(lane) * chunk(row), kind) for lane in lanes]
    if operand.type == "pred":
        return integers(0, 2)
    if operand.name == "mask":
        if row.family in ("vote", "redux") and rng.integers(2):
            return [encode(0xFFFF if lane < 16 else 0xFFFF0000, kind) for lane in range(LANES)]
        return [encode(0xFFFFFFFF, kind)] * LANES
    if operand.name == "source_size":
        return integers(0, chunk(row) + 1)
    if operand.name == "policy":
        return [encode(0x12F0000000000000, kind)] * LANES  # what createpolicy makes of evict_first
    if row.family == "shfl" and operand.name in "bc":
        if operand.name == "b":
            return integers(0, 40)
        segment = int(rng.choice([0, 0x10, 0x18, 0x1C, 0x1E]))
        return [encode(segment << 8 | (0 if ".up." in row.name else 31), kind)] * LANES
    if row.name.startswith("match"):
        return [encode(value, kind) for value in rng.integers(0, rng.choice([1, 3]), LANES)]
    if kind not in FLOATS:
        return [rng.bytes(size) for _ in range(LANES)]
    count = size // FLOATS[kind].itemsize
    if row.family == "mma_sync":
        values = rng.integers(-4, 5, (LANES, count))  # sums and products are exact in every type
    elif row.family == "math":
        values = rng.uniform(*DOMAIN.get(row.name.split(".")[0], (0.25, 16)), (LANES, count))
    else:
        values = rng.normal(scale=300, size=(LANES, count))
    return [encode(lane, kind) for lane in values]


def image_of(rows: list[Instruction], rng: np.random.Generator) -> tuple[np.ndarray, list[int]]:
    """Random memory, and where each row's part begins: floats that are no NaN where the row says so."""
    parts, offsets, size = [], [], 0
    for row in rows:
        operand = next((operand for operand in row.operands if operand.name in "da"), None)
        offsets.append(size)
        part = rng.integers(0, 256, LANES * chunk(row), np.uint8)
        if part.size and operand is not None and kind_of(operand) in FLOATS:
            dtype = FLOATS[kind_of(operand)]
            part = rng.normal(scale=300, size=part.size // dtype.itemsize).astype(dtype).view(np.uint8)
        parts.append(part)
        size += part.size
    return np.concatenate([*parts, np.zeros(-size % (4 * LANES) or 0, np.uint8)]), offsets


def bound(row: Instruction, expected: np.ndarray) -> np.ndarray:
    """The error that an approximation may have."""
    name = re.sub(r"\.ftz|x2$", "", row.name)
    if name in RELATIVE:
        return np.abs(expected) * RELATIVE[name]
    return np.full(expected.shape, ABSOLUTE[name])


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("target", "rows"), BATCHES, ids=[f"{rows[0].family}-{target}-{i}" for i, (target, rows) in enumerate(BATCHES)]
)
def test_meaning(target: str, rows: list[Instruction], seed: int, device: str):
    if device == "cuda" and target != "sm_90":
        pytest.skip("the GPU may lack these rows")
    if device == "emulator" and rows[0].family == "redux" and target == "sm_100a":
        pytest.skip("the emulator has no redux.sync of floats")
    rng = np.random.default_rng(seed)
    global_image, offsets = image_of(rows, rng)
    shared_image = rng.permutation(global_image) if rows[0].family != "atomic" else global_image.copy()
    images = {"global": global_image, "shared": shared_image}

    given_registers = []
    inputs = np.zeros((slots(rows, given), LANES, 8), np.uint8)
    slot = 0
    for row, offset in zip(rows, offsets, strict=True):
        registers = {operand.name: some(operand, row, offset, rng) for operand in row.operands if given(operand)}
        given_registers.append(registers)
        for operand in filter(given, row.operands):
            size = REGISTER_BYTES[operand.type]
            for lane, raw in enumerate(registers[operand.name]):
                for i in range(operand.registers):
                    inputs[slot + i, lane, :size] = np.frombuffer(raw[i * size : (i + 1) * size], np.uint8)
            slot += operand.registers

    outputs = np.zeros((slots(rows, written), LANES, 8), np.uint8)
    arguments = [inputs, outputs, images["global"].copy(), images["shared"].copy()]
    flat = [array.reshape(-1) if array.size else np.zeros(1, np.uint8) for array in arguments]
    version = max(max(row.ptx for row in rows), (7, 8))
    Kernel(kernel(rows, target, version, global_image.size), device=device)(*flat)

    slot = 0
    for row, registers in zip(rows, given_registers, strict=True):
        expected = execute(row, registers, images)
        for operand in filter(written, row.operands):
            size = REGISTER_BYTES[operand.type]
            for lane, raw in enumerate(expected[operand.name]):
                found = outputs[slot : slot + operand.registers, lane, :size].tobytes()
                if raw is None:
                    continue
                if row.family == "math":
                    kind = kind_of(operand)
                    error = np.abs(decode(found, kind) - decode(raw, kind))
                    assert (error <= bound(row, decode(raw, kind))).all(), (row.name, lane, error)
                else:
                    assert found == raw, (row.name, operand.name, lane, found.hex(), raw.hex())
            slot += operand.registers
    if images["global"].size:
        assert flat[2].tobytes() == images["global"].tobytes()
        assert flat[3].tobytes() == images["shared"].tobytes()
