"""Tensor maps as arguments: their header, which arrays have one, the argument buffer, and copies by them."""

from __future__ import annotations

import ctypes
import json
import struct
from collections.abc import Iterator
from typing import Any

import hand_written
import numpy as np
import pytest
from fake_cuda import POINTER, WORD, FakeCuda
from im2col_kernel import at_random
from msgspec.structs import replace
from tensor_map_kernel import boxes, element_bytes, expected

from dsl.runtime import DeviceArray, Kernel, LaunchError, assemble, device_facts, synchronize, to_device
from dsl.runtime.arguments import MOST_MAPS, EncodedMaps, MappedValues, ParamLayout
from dsl.runtime.arrays import Array, row_major
from dsl.runtime.cuda import tensor_maps
from dsl.runtime.cuda.tensor_maps import SMALL_BIT, encode
from dsl.runtime.header import PREFIX, Argument, Header, HeaderTensor, parse, read, to_json, write
from dsl.runtime.tensor_map import MAP_BYTES, TensorMap, Window, of_array

TEXT = boxes("u16", (1, 0), (32, 10), 64)
PIXELS = replace(at_random(0), size=2, shape=(3, 9, 7, 32), row=32, window=Window((-1, -2), (1, -3), (2, 1)),
                 box=(32, 100), swizzle=64).text()  # fmt: skip
"""As TEXT, with a map that has a window."""


def parsed(header: Header) -> Header:
    """What is read of a written header."""
    return parse(json.loads(write(header).removeprefix(PREFIX)))


def test_a_map_is_read_back_equal() -> None:
    (header,) = read(TEXT).values()
    assert header.arguments[1] == Argument("map", "a", axes=(1, 0), box=(32, 10), swizzle=64)
    assert parsed(header) == header
    row = {"kind": "map", "of": "a", "axes": [1, 0], "box": [32, 10], "swizzle": 64}
    assert to_json(header)["arguments"][1] == row
    assert (header.argument_bytes(header.arguments[1]), header.argument_dtype(header.arguments[1])) == (128, "u8")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"of": "z"}, "arguments[1]"),
        ({"of": "x"}, "arguments[1]"),
        ({"axes": "10"}, "arguments[1].axes"),
        ({"axes": []}, "arguments[1].axes"),
        ({"axes": [0]}, "arguments[1].axes"),
        ({"axes": [0, 0]}, "arguments[1].axes"),
        ({"axes": [1, 2]}, "arguments[1].axes"),
        ({"axes": [1, -1]}, "arguments[1].axes"),
        ({"axes": [True, 0]}, "arguments[1].axes[0]"),
        ({"axes": [0, 1, 2, 3, 4, 5]}, "arguments[1].axes"),
        ({"box": 32}, "arguments[1].box"),
        ({"box": [32]}, "arguments[1].box"),
        ({"box": [32, 0]}, "arguments[1].box"),
        ({"box": [32, 257]}, "arguments[1].box"),
        ({"box": [32, 1.0]}, "arguments[1].box[1]"),
        ({"box": [12, 10]}, "arguments[1].box"),
        ({"box": [40, 10]}, "arguments[1].box"),
        ({"swizzle": 16}, "arguments[1].swizzle"),
        ({"swizzle": 256}, "arguments[1].swizzle"),
        ({"swizzle": None}, "arguments[1].swizzle"),
        ({"axis": 0}, "arguments[1].axis"),
    ],
)
def test_a_malformed_map_names_the_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(LaunchError) as caught:
        read(with_map(changes))
    assert caught.value.code == "ptx" and f"header field {field}:" in caught.value.message


@pytest.mark.parametrize("key", ["of", "axes", "box", "swizzle"])
def test_a_map_misses_a_field(key: str) -> None:
    with pytest.raises(LaunchError, match=rf"arguments\[1\]\.{key}: is missing"):
        read(with_map({}, key))


def test_a_window_is_read_back_equal() -> None:
    (header,) = read(PIXELS).values()
    window = Window((-1, -2), (1, -3), (2, 1))
    assert header.arguments[1] == Argument("map", "a", axes=(3, 2, 1, 0), box=(32, 100), swizzle=64, window=window)
    assert parsed(header) == header
    assert to_json(header)["arguments"][1] == {
        **{"kind": "map", "of": "a", "axes": [3, 2, 1, 0], "box": [32, 100], "swizzle": 64},
        "window": {"lower": [-1, -2], "upper": [1, -3], "steps": [2, 1]},
    }


WINDOW = {"lower": [-1, -2], "upper": [1, -3], "steps": [2, 1]}


@pytest.mark.parametrize(
    ("changes", "field", "says"),
    [
        ({"window": [1, 2]}, "window", "Expected `object | null`, got `array`"),
        ({"window": {}}, "window.lower", "is missing"),
        ({"window": {**WINDOW, "offsets": [0, 0]}}, "window.offsets", "is not known"),
        ({"window": {**WINDOW, "lower": [-1]}}, "window.lower", "has 1 elements, not 2"),
        ({"window": {**WINDOW, "lower": [-1, -1, -1]}}, "window.lower", "has 3 elements, not 2"),
        ({"window": {**WINDOW, "lower": [-129, 0]}}, "window.lower", "has -129, outside -128 to 127"),
        ({"window": {**WINDOW, "upper": [0, 128]}}, "window.upper", "has 128, outside -128 to 127"),
        ({"window": {**WINDOW, "upper": [0, 0.5]}}, "window.upper[1]", "Expected `int`, got `float`"),
        ({"window": {**WINDOW, "steps": [0, 1]}}, "window.steps", "has 0, outside 1 to 8"),
        ({"window": {**WINDOW, "steps": [1, 9]}}, "window.steps", "has 9, outside 1 to 8"),
        ({"box": [32]}, "box", "has 1 elements, not 2"),
        ({"box": [32, 1, 1, 1]}, "box", "has 4 elements, not 2"),
        ({"box": [32, 1025]}, "box", "has 1025, outside 1 to 1024"),
        ({"box": [264, 10]}, "box", "has 264 channels, more than 256"),
        ({"box": [12, 10]}, "box", "rows of 24 bytes, not a multiple of 16"),
        ({"box": [40, 10]}, "box", "rows of 80 bytes, more than the 64 of the swizzle"),
        ({"axes": [1, 0]}, "window", "is of a map of 2 axes, not 3 to 5"),
        ({"axes": [3, 2, 1, 1]}, "axes", "not each of the 4 axes of a once"),
        ({"axes": [2, 1, 0]}, "window.lower", "has 2 elements, not 1"),
    ],
)  # fmt: skip
def test_a_malformed_window_names_the_field(changes: dict[str, Any], field: str, says: str) -> None:
    with pytest.raises(LaunchError) as caught:
        read(with_map(changes, text=PIXELS))
    message = caught.value.message
    assert caught.value.code == "ptx" and f"header field arguments[1].{field}: " in message and says in message


@pytest.mark.parametrize(("rank", "least", "most"), [(3, -32768, 32767), (4, -128, 127), (5, -16, 15)])
def test_corners_of_each_rank(rank: int, least: int, most: int) -> None:
    """The fewer axes, the more bits; all of them are read."""
    text = next(probe for seed in range(99) if (probe := at_random(seed)).rank == rank).text()
    for corner in (least, most):
        fine = {"lower": [corner] * (rank - 2), "upper": [corner] * (rank - 2), "steps": [8] * (rank - 2)}
        (header,) = read(with_map({"window": fine}, text=text)).values()
        assert header.arguments[1].window == Window(*(tuple(each) for each in fine.values()))
        past = {**fine, "upper": [corner + (1 if corner > 0 else -1)] * (rank - 2)}
        with pytest.raises(LaunchError, match=rf"window.upper: has -?\d+, outside {least} to {most}"):
            read(with_map({"window": past}, text=text))


def with_map(changes: dict[str, Any], without: str = "", text: str = TEXT) -> str:
    """A text with other fields of its map."""
    line, _, body = text.partition("\n")
    record = json.loads(line.removeprefix(PREFIX))
    record["arguments"][1].update(changes)
    record["arguments"][1].pop(without, None)
    return f"{PREFIX}{json.dumps(record)}\n{body}"


@pytest.mark.parametrize(
    ("parameter", "says"),
    [
        (".param .align 32 .b8 box_1[128]", "needs .align 64"),
        (".param .b8 box_1[128]", "needs .align 64"),
        (".param .align 64 .b8 box_1[64]", "does not fit"),
        (".param .u64 box_1", "does not fit"),
    ],
)
def test_the_entry_must_take_a_map(parameter: str, says: str) -> None:
    with pytest.raises(LaunchError, match=rf"arguments\[1\] \(map a.*{says}"):
        read(TEXT.replace(".param .align 64 .b8 box_1[128]", parameter))


def test_what_a_map_asks_of_the_rest_of_the_header() -> None:
    tensor = HeaderTensor("a", "u16", ("rows", "columns"), strided=True, access="r", align=8)
    (header,) = read(TEXT).values()
    with pytest.raises(LaunchError, match=r"arguments\[1\]: .* whose align is 8, not a multiple of 16"):
        parsed(replace(header, params=(header.params[0], tensor, *header.params[2:])))
    with pytest.raises(LaunchError, match=r"arguments\[1\]: is a map, which sm_80 does not have"):
        parsed(replace(header, arch="sm_80"))
    absent = replace(tensor, align=16, optional=True, present=False)
    with pytest.raises(LaunchError, match=r"arguments\[1\]: is of a, which is not present"):
        parsed(replace(header, dims=(), params=(header.params[0], absent, *header.params[2:])))


def array(shape: tuple[int, ...], strides: tuple[int, ...] | None = None, dtype: str = "f32", at: int = 4096) -> Array:
    return Array("torch", at, shape, row_major(shape) if strides is None else strides, dtype, 0)


@pytest.mark.parametrize(
    ("given", "axes", "extents", "strides"),
    [
        (array((30, 40)), (1, 0), (40, 30), (160,)),
        (array((30, 40), dtype="e4m3", strides=(48, 1)), (1, 0), (40, 30), (48,)),
        (array((30, 40), strides=(1, 32)), (0, 1), (30, 40), (128,)),
        (array((5, 30, 40), strides=(40, 200, 1)), (2, 1, 0), (40, 30, 5), (800, 160)),
        (array((30, 40), strides=(0, 1)), (1, 0), (40, 30), (0,)),
        (array((1, 40), strides=(3, 1)), (1, 0), (40, 1), (16,)),
        (array((1, 40), strides=(-40, 1)), (1, 0), (40, 1), (16,)),
        (array((30, 1), strides=(4, 7)), (1, 0), (1, 30), (16,)),
        (array((40,), dtype="f64"), (0,), (40,), ()),
        (array((5, 30, 40)), (2, 1), (40, 150), (160,)),
        (array((5, 30, 40)), (2,), (6000,), ()),
        (array((5, 6, 7, 40)), (3, 2, 0), (40, 42, 5), (160, 6720)),
        (array((5, 30, 1, 40), strides=(1200, 40, 7, 1)), (3, 2), (40, 150), (160,)),
    ],
)
def test_the_map_of_an_array(given: Array, axes: tuple[int, ...], extents: Any, strides: Any) -> None:
    box = (16, 8, 2)[: len(axes)]
    found = of_array(given, Argument("map", "a", axes=axes, box=box, swizzle=64))
    assert found == TensorMap(given.itemsize, extents, strides, box, 64)


def test_the_span_of_a_map() -> None:
    assert TensorMap(2, (40, 30), (128,), (8, 8)).span == 29 * 128 + 80


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        (array((30, 40), at=4104), "array", "a is aligned to 8 bytes, a tensor map takes 16"),
        (array((30, 0)), "shape", "axis 1 of a has 0 elements, a tensor map takes 1 to 2147483648"),
        (array(((1 << 31) + 1, 4)), "shape", "axis 0 of a has 2147483649 elements"),
        (array((30, 41)), "array", "axis 0 of a has a stride of 164 bytes, a tensor map takes multiples of 16"),
        (array((30, 40), strides=(80, 2)), "array", "axis 1 of a has a stride of 8 bytes, a tensor map takes 4 there"),
        (array((30, 40), strides=(1, 32)), "array", "axis 1 of a has a stride of 128 bytes, a tensor map takes 4"),
        (array((30, 40), strides=(-40, 1)), "array", "a stride of -160 bytes, a tensor map takes 0 to less than"),
        (array((2, 40), strides=(1 << 38, 1)), "array", "a tensor map takes 0 to less than 1099511627776"),
    ],
)
def test_arrays_without_a_map(given: Array, code: str, message: str) -> None:
    with pytest.raises(LaunchError) as caught:
        of_array(given, Argument("map", "a", axes=(1, 0), box=(16, 8)))
    assert caught.value.code == code and message in caught.value.message and caught.value.hint


def test_boxes_are_stored_to_rows_of_whole_16_bytes() -> None:
    """What a device writes of the last ones are all 16."""
    argument = Argument("map", "a", axes=(1, 0), box=(16, 8))
    for columns in (36, 40):
        of_array(array((30, columns), strides=(64, 1)), argument, stored=True)
    cut = array((30, 37), strides=(64, 1))
    assert of_array(cut, argument).extents == (37, 30)
    with pytest.raises(LaunchError, match="axis 1 of a has 37 elements of 4 bytes, and TMA stores write whole 16"):
        of_array(cut, argument, stored=True)


@pytest.mark.parametrize(
    ("shape", "axes", "extents", "strides"),
    [
        ((3, 9, 32), (2, 1, 0), (32, 9, 3), (64, 576)),
        ((3, 9, 7, 32), (3, 2, 1, 0), (32, 7, 9, 3), (64, 448, 4032)),
        ((3, 9, 7, 5, 32), (4, 3, 2, 1, 0), (32, 5, 7, 9, 3), (64, 320, 2240, 20160)),
        ((9, 3, 7, 32), (3, 2, 0, 1), (32, 7, 9, 3), (64, 1344, 448)),
    ],
)
def test_the_map_of_an_array_with_a_window(shape: Any, axes: Any, extents: Any, strides: Any) -> None:
    spatial = len(shape) - 2
    window = Window((-1,) * spatial, (1, -2, 0)[:spatial], (2, 1, 1)[:spatial])
    found = of_array(array(shape, dtype="f16"), Argument("map", "a", axes=axes, box=(32, 128), window=window))
    assert found == TensorMap(2, extents, strides, (32, 128), 0, window)


def test_an_array_in_which_a_window_has_no_pixel() -> None:
    """An image of two rows, without padding, has no place for a filter of three."""
    argument = Argument("map", "a", axes=(3, 2, 1, 0), box=(32, 16), window=Window((0, 0), (-2, -2), (1, 1)))
    assert of_array(array((1, 3, 3, 32)), argument).extents == (32, 3, 3, 1)
    for shape, axis in (((1, 2, 9, 32), 1), ((1, 9, 2, 32), 2)):
        with pytest.raises(LaunchError) as caught:
            of_array(array(shape), argument)
        message = f"axis {axis} of a has 2 elements, of which a window from 0 to -1 has none"
        assert (caught.value.code, caught.value.message) == ("shape", message) and caught.value.hint
    images = replace(argument, window=Window((0, 0), (0, 0), (1, 1)))
    with pytest.raises(LaunchError, match="axis 0 of a has 0 elements"):
        of_array(array((0, 3, 3, 32)), images)


def test_a_launch_refuses_an_array_in_which_a_window_has_no_pixel() -> None:
    kernel, out = Kernel(PIXELS, device="emulator"), np.zeros(6400, np.uint8)
    with pytest.raises(LaunchError, match="pixels: axis 1 of a has 1 elements, of which a window from -2 to -3"):
        kernel(out, np.zeros((3, 1, 7, 32), np.uint16), 0, -1, -2, 0, 0, 0)


def test_a_launch_refuses_an_array_without_a_map() -> None:
    kernel, out = Kernel(TEXT, device="emulator"), np.zeros(640, np.uint8)
    wide = np.zeros((30, 48), np.uint16)
    with pytest.raises(LaunchError, match="box: axis 0 of a has a stride of 82 bytes") as caught:
        kernel(out, np.zeros((30, 41), np.uint16), 0, 0)
    assert caught.value.code == "array"
    with pytest.raises(LaunchError, match=r"box: axis 1 of a has a stride of 96 bytes"):
        kernel(out, wide.T, 0, 0)
    with pytest.raises(LaunchError, match="aligned to 2 bytes"):
        kernel(out, wide[:, 1:], 0, 0)


def test_a_grid_without_blocks_needs_no_map() -> None:
    """As with M = 0 of a product: nothing is launched, whatever the array is."""
    Kernel(boxes("u16", (1, 0), (32, 10), 64, grid=("rows", 1, 1)), device="emulator")(
        np.zeros(640, np.uint8), np.zeros((0, 41), np.uint16), 0, 0
    )


def copy_of_maps() -> str:
    """`copy`, which also gets maps of both arrays, and does nothing with them."""
    base = hand_written.header()
    tensors = tuple(replace(tensor, align=16) for tensor in base.tensors)
    maps = tuple(Argument("map", name, axes=(0,), box=(extent,)) for name, extent in (("x", 32), ("y", 64)))
    about = {"arch": "sm_90", "params": tensors, "arguments": (*base.arguments[:3], *maps)}
    taken = ".param .u32 copy_2"
    more = "".join(f", .param .align 64 .b8 copy_{number}[128]" for number in (3, 4))
    return hand_written.copy(**about).replace(taken, taken + more)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    monkeypatch.setattr(tensor_maps, "_objects", {})
    with FakeCuda() as entered:
        yield entered


def arguments_of(launch: int, sizes: list[int]) -> list[bytes]:
    """The bytes of the arguments that a launch was given."""
    addresses = (ctypes.c_uint64 * len(sizes)).from_address(launch)
    return [ctypes.string_at(address, size) for address, size in zip(addresses, sizes, strict=True)]


def first_words(launch: int) -> list[int]:
    """Both pointers and the addresses in both maps."""
    given = arguments_of(launch, [8, 8, 4, 128, 128])
    return [struct.unpack_from("<Q", each)[0] for each in (*given[:2], *given[3:])]


@pytest.mark.parametrize("framework", ["torch", "cupy"])
def test_each_launch_gets_the_maps_of_its_pointers(cuda: FakeCuda, framework: str) -> None:
    kernel = cuda.kernel(copy_of_maps())
    for number in (0, 0, 1, 2, 0, 1):
        kernel(*cuda.pair(framework, number))
        y = POINTER + number * (1 << 20)
        x = y + (1 << 16)
        assert first_words(cuda.driver.launches[-1]) == [y, x, x, y]
    # Two of each pair, which the class keeps by pointer: the driver makes one of each kind, and moves it.
    assert len(cuda.driver.encoded) + len(cuda.driver.replaced) == 6 and len(cuda.driver.encoded) <= 2


def test_what_does_not_change_is_not_packed_again(cuda: FakeCuda) -> None:
    kernel, pair = cuda.kernel(copy_of_maps()), cuda.pair("torch")
    kernel(*pair)
    (launch,) = kernel._classes.values()
    launch._free[0].bytes[-MAP_BYTES:] = bytes(MAP_BYTES)
    kernel(*pair)
    assert arguments_of(cuda.driver.launches[-1], [8, 8, 4, 128, 128])[-1] == bytes(MAP_BYTES)


def test_a_bound_launch_gets_its_maps(cuda: FakeCuda) -> None:
    kernel = cuda.kernel(copy_of_maps())
    bound = kernel.bind(*cuda.pair("torch", 3))
    bound()
    at = POINTER + 3 * (1 << 20)
    assert first_words(cuda.driver.launches[-1])[2:] == [at + (1 << 16), at]


def test_kernels_without_maps_pack_as_ever(cuda: FakeCuda) -> None:
    kernel = cuda.kernel()
    kernel(*cuda.pair("torch"))
    (launch,) = kernel._classes.values()
    assert launch._pack_into == kernel._layout.pack_into and not kernel._layout.maps


def test_where_maps_stand_in_the_buffer() -> None:
    """Between other fixed arguments, whose places are as without them."""
    (header,) = read(TEXT).values()
    dims = (Argument("dim", "rows"), *header.arguments, Argument("dim", "columns"))
    layout = ParamLayout(replace(header, arguments=dims))
    a_map = TensorMap(2, (48, 30), (96,), (32, 10), 64)
    mapped = MappedValues(layout, {header.arguments[1]: a_map}, lambda of, at: f"{of.extents} {at}".encode().ljust(128))
    buffer = bytearray(layout.template({}, {"rows": 30, "columns": 48}, 0, {}))
    mapped.pack_into(buffer, 0, 4096, 8192, -1, 2)
    given = layout.split(buffer)
    assert [len(each) for each in given] == [4, 8, 128, 4, 4, 4]
    assert given[2].rstrip() == b"(48, 30) 8192"
    assert [int.from_bytes(each, "little", signed=True) for each in (*given[:2], *given[3:])] == [30, 4096, -1, 2, 48]


def test_encoded_maps_are_kept_up_to_a_limit() -> None:
    made: list[int] = []
    maps = EncodedMaps(TensorMap(4, (8,), (), (8,)), lambda _, pointer: made.append(pointer) or bytes(MAP_BYTES))
    for pointer in (*range(MOST_MAPS), 0, MOST_MAPS, 0):
        assert maps[pointer] == bytes(MAP_BYTES)
        assert len(maps) <= MOST_MAPS
    assert made == [*range(MOST_MAPS), MOST_MAPS, 0]


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_what_the_driver_is_told(cuda: FakeCuda, size: int) -> None:
    context = cuda.kernel()._loaded[0].context
    found = encode(context, TensorMap(size, (40, 30), (512,), (32, 10), 64), POINTER)
    assert found == struct.pack("<16Q", POINTER, WORD & ~SMALL_BIT, *(0,) * 14)
    (told,) = cuda.driver.encoded
    assert told[:3] == (f"DATA_TYPE_UINT{8 * size}", 2, POINTER)
    assert told[3:7] == ([40, 30], [512], [32, 10], [1, 1])
    assert told[7:] == ("INTERLEAVE_NONE", "SWIZZLE_64B", "L2_PROMOTION_L2_128B", "FLOAT_OOB_FILL_NONE")


@pytest.mark.parametrize(("kind", "word"), [("bf16", "BFLOAT16"), ("u16", "UINT16"), ("", "UINT16")])
def test_the_driver_is_told_the_type_of_elements(cuda: FakeCuda, kind: str, word: str) -> None:
    encode(cuda.kernel()._loaded[0].context, TensorMap(2, (40, 30), (128,), (32, 10), 64, type=kind), POINTER)
    assert cuda.driver.encoded[0][0] == f"DATA_TYPE_{word}"


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_what_the_driver_is_told_of_a_window(cuda: FakeCuda, rank: int) -> None:
    context, spatial = cuda.kernel()._loaded[0].context, rank - 2
    window = Window((-1, -2, -3)[:spatial], (4, 5, 6)[:spatial], (2, 1, 8)[:spatial])
    extents, strides = (*(64, 10, 11, 12)[: rank - 1], 1), (64, 640, 7040, 84480)[: rank - 1]
    found = encode(context, TensorMap(1, extents, strides, (32, 1000), 32, window), POINTER)
    assert found == struct.pack("<16Q", POINTER, WORD & ~SMALL_BIT, *(0,) * 14)
    (told,) = cuda.driver.with_windows
    assert told[:5] == ("DATA_TYPE_UINT8", rank, POINTER, [*extents], [*strides])
    assert told[5:10] == ([*window.lower], [*window.upper], 32, 1000, [1, *window.steps, 1])
    assert told[10:] == ("INTERLEAVE_NONE", "SWIZZLE_32B", "L2_PROMOTION_L2_128B", "FLOAT_OOB_FILL_NONE")


def test_maps_of_one_array_with_other_windows_are_others(cuda: FakeCuda) -> None:
    """What the driver made last is moved to another array only where all of the map is the same."""
    context = cuda.kernel()._loaded[0].context
    windows = (Window((0, 0), (0, 0), (1, 1)), Window((0, 0), (0, 0), (1, 2)), None)
    for window in (*windows, *windows):
        box = (32, 16) if window else (32, 4, 4, 1)
        encode(context, TensorMap(1, (64, 10, 10, 3), (64, 640, 6400), box, 32, window), POINTER)
    assert (len(cuda.driver.encoded), len(cuda.driver.replaced)) == (3, 3)


def test_a_map_of_one_axis_has_a_stride_for_the_driver(cuda: FakeCuda) -> None:
    encode(cuda.kernel()._loaded[0].context, TensorMap(4, (40,), (), (32,)), POINTER)
    assert cuda.driver.encoded[0][1:6] == (1, POINTER, [40], [16], [32])
    assert cuda.driver.encoded[0][8] == "SWIZZLE_NONE"


@pytest.mark.parametrize(("version", "rows", "cleared"), [(13010, 127, True), (13010, 128, False), (13020, 127, False)])
def test_the_bit_of_small_arrays_is_cleared_where_drivers_err(
    cuda: FakeCuda, version: int, rows: int, cleared: bool
) -> None:
    cuda.driver.version = version
    found = encode(cuda.kernel()._loaded[0].context, TensorMap(4, (256, rows), (1024,), (32, 10)), POINTER)
    assert struct.unpack("<16Q", found)[1] == (WORD & ~SMALL_BIT if cleared else WORD)


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("dtype", ["u8", "u16", "u32"])
def test_kernels_with_maps_assemble(dtype: str, swizzle: int) -> None:
    text = boxes(dtype, (1, 0), ((swizzle or 48) // element_bytes(dtype), 10), swizzle)
    assert assemble(text, "sm_90").spill_stores == 0


def sources(dtype: str) -> dict[str, tuple[Any, tuple[int, int]]]:
    """Name → (array in host memory, the axes of its map)."""
    random = np.random.default_rng(1)

    def full(rows: int, columns: int) -> Any:
        return random.integers(0, 1 << 8 * element_bytes(dtype), (rows, columns), f"uint{dtype[1:]}")

    return {
        "rows": (full(70, 80), (1, 0)),
        "strided": (full(140, 160)[::2, 16:96], (1, 0)),
        "transposed": (full(80, 112).T[:70], (0, 1)),
        "one row": (full(3, 80)[1:2], (1, 0)),
        "large": (full(900, 160), (1, 0)),
    }


def skip_without_maps(device: str) -> None:
    if device == "cuda" and device_facts("cuda").arch < "sm_90":
        pytest.skip("no tensor maps before sm_90")


@pytest.mark.parametrize("source", ["rows", "strided", "transposed", "one row", "large"])
@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("dtype", ["u8", "u16", "u32"])
def test_a_copy_of_a_box(device: str, dtype: str, swizzle: int, source: str) -> None:
    """Inside, across each edge, and outside of arrays of less and more than 128 KiB.

    A box begins at a multiple of 16 bytes along the innermost axis: an H100 stops elsewhere (illegal instruction).
    """
    skip_without_maps(device)
    a, axes = sources(dtype)[source]
    box = ((swizzle or 48) // element_bytes(dtype), 10)
    kernel = Kernel(boxes(dtype, axes, box, swizzle), device=device)
    piece = 16 // element_bytes(dtype)
    columns, rows = (a.shape[axis] for axis in axes)
    last = (columns - 1) // piece * piece
    at = [(0, 0), (2 * piece, 3), (last, 2), (3 * piece, rows - 3), (-piece, -2), (last, rows - 1), (last + piece, 0)]
    for x, y in at:
        out = np.full(box[0] * box[1] * element_bytes(dtype), 77, np.uint8)
        kernel(out, a, x, y)
        np.testing.assert_array_equal(out, expected(a, axes, box, swizzle, x, y), f"box at {x}, {y}")


@pytest.mark.gpu
def test_other_device_arrays_have_other_maps() -> None:
    """The emulator's twin is `test_each_launch_gets_the_maps_of_its_pointers`."""
    skip_without_maps("cuda")
    kernel = Kernel(TEXT)
    hosts = [np.full((70, 80), number, np.uint16) for number in range(1, 4)]
    arrays, out = [to_device(host) for host in hosts], DeviceArray((640,), "u8")
    for number in (0, 1, 2, 0, 2):
        kernel(out, arrays[number], 56, 3)
        synchronize()
        np.testing.assert_array_equal(out.numpy(), expected(hosts[number], (1, 0), (32, 10), 64, 56, 3))


@pytest.mark.parametrize("row", [80, 0])
def test_rows_that_lie_at_one_place(device: str, row: int) -> None:
    """A stride of zero, as of an array that is broadcast."""
    skip_without_maps(device)
    base = np.arange(70 * 80, dtype=np.uint16).reshape(70, 80)
    a = np.lib.stride_tricks.as_strided(base, (70, 80), (2 * row, 2), writeable=False)
    out = np.zeros(640, np.uint8)
    Kernel(TEXT, device=device)(out, a, 56, 65)
    np.testing.assert_array_equal(out, expected(a, (1, 0), (32, 10), 64, 56, 65))
