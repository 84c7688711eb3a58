"""`dsl layout`: what its pictures show is what the layouts are, and what the compiler says of conflicts."""

from __future__ import annotations

import doctest
import itertools
import re
import xml.etree.ElementTree as ElementTree
from functools import cache
from math import prod
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from dsl.command import cli
from dsl.kernels.compile import lower
from dsl.kernels.variant import Request
from dsl.lowering.ir.function import Function
from dsl.lowering.ir.types import SharedType
from dsl.lowering.layouts.layout import BasisSpan, Layout, apply, bits_of
from dsl.lowering.machine.tensor_cores import accumulator, instructions
from dsl.lowering.shared.shared_map import swizzled
from dsl.pictures import names, registers, shared
from dsl.pictures.names import DrawnFragment, blocked_form, copies_of, describe, fragments, named_tiles
from dsl.text.program import load

ROOT = Path(__file__).parents[2]
SQUARE = dict.fromkeys(("m", "n", "a0", "a1", "b0", "b1"), 256)
HAND = "benchmarks/peers/by_hand/matmul.tile"
VARIANTS = {
    "softmax": ("samples/softmax.tile", "softmax_rows", "lanes", {"rows": 8, "cols": 1000}, {}),
    "transpose": (
        "samples/matmul_steps.tile",
        "matmul_shared",
        "cooperative",
        {"m": 256, "n": 256, "k": 64},
        {"T": "f16"},
    ),
    "f16": (HAND, "matmul_tensor", "square", SQUARE, {"T": "f16"}),
    "tf32": (HAND, "matmul_tensor", "square", SQUARE, {"T": "f32"}),
    "s8": (HAND, "matmul_bytes", "wide", SQUARE, {"T": "s8", "O": "s8"}),
}
CONFLICTS = """
kernel k(d: f32[m, n], a: f16[m, k], b: f16[k, n]):
    grid 1
    shared sa: f16[64, 64]
    shared sb: f16[64, 64]
    sa = load(a[0 : 64, 0 : 64])
    sb = load(b[0 : 64, 0 : 64])
    acc = dot(ldmatrix(sa[:, :]), ldmatrix(sb[:, :]), zeros(f32[64, 64]))
    store(d[0 : 64, 0 : 64], acc)

schedule s of k:
    swizzle sa: none
    swizzle sb: 3, 4, 3
    layout acc: warps [2, 2]
"""


@cache
def function(name: str) -> Function:
    file, kernel, schedule, dims, types = VARIANTS[name]
    return lower(load(ROOT / file), Request(kernel, schedule, dims, types)).variant.function


def dsl(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), standalone_mode=False, env={"COLUMNS": "120"})


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Any layout of a tile of rank 1 to 3: bits shuffled among the places, some XORed, some that hold copies."""
    shape = draw(st.lists(st.sampled_from([1, 2, 4, 8, 16]), min_size=1, max_size=3))
    bits = [1 << i for i in range(bits_of(prod(shape)))]
    order = draw(st.permutations(bits))
    mixed = [b ^ draw(st.sampled_from([0, *order[:i]])) for i, b in enumerate(order)]  # still a basis
    count = draw(st.integers(5, 7))
    stages = [*mixed, *[0] * max(0, count - len(mixed))]
    stages = draw(st.permutations(stages)) if draw(st.booleans()) else stages
    threads, rest = stages[-count:], stages[:-count]
    return Layout.registers(tuple(shape), rest, threads[:5], threads[5:])


def index(layout: Layout, coordinates: tuple[int, ...]) -> int:
    out = 0
    for extent, coordinate in zip(layout.shape, coordinates, strict=True):
        out = out * extent + coordinate
    return out


def check_picture(layout: Layout, cells: int, box: tuple[int, ...] | None = None) -> None:
    """Each cell, each step, each block and each bit of the picture against the layout's own map."""
    picture = registers.picture(layout, cells, box)
    shown = {}
    for line in picture.lines:
        for cell in line.cells:
            for i in range(cell.count):
                place = {"register": cell.register + i, "lane": cell.lane, "warp": cell.warp}
                element = index(layout, (*line.start[:-1], cell.column + i))
                assert layout.place(**place) == element
                shown[element] = place
    corner = {index(layout, c) for c in itertools.product(*map(range, picture.corner))}
    assert shown.keys() == corner and len(picture.lines) <= registers.MOST_LINES
    reached = list(shown)
    for step in picture.steps:
        stride = prod(layout.shape[step.axis + 1 :])
        for element, place in shown.items():
            changed = dict(place)
            for name, change in step.places:
                changed[name] = place[name] + change if step.exact else place[name] ^ change
            assert layout.place(**changed) == element + step.distance * stride
        reached = [e + d * stride for e in reached for d in (0, step.distance)]
    assert sorted(reached) == list(range(prod(layout.shape)))
    if len(layout.shape) <= 2:
        for i, row in enumerate(registers.blocks(picture)):
            for j, (text, warp) in enumerate(row):
                at = {"w": 0, "l": 0, "r": 0} | {part[0]: int(part[1:]) for part in text.split()}
                assert at["w"] == warp
                start = (i * picture.corner[0], j * picture.corner[-1])[-len(layout.shape) :]
                assert layout.place(register=at["r"], lane=at["l"], warp=at["w"]) == index(layout, start)
    check_bits(picture)


def check_bits(picture: registers.RegisterPicture) -> None:
    """The table of bits gives the coordinates of every place; what it does not name moves nothing."""
    layout = picture.layout
    starts, at = {}, 0
    for name, bases in layout.places:
        starts[name[0]] = at
        at += len(bases)
    for number in range(len(layout.flat)):
        coordinates = []
        for axis in picture.bits:
            value = 0
            for bit in axis:
                parts = [starts[p[0]] + int(p[1:]) for p in bit.split("^") if p]
                value = value << 1 | parts.count(number)
            coordinates.append(value)
        assert index(layout, tuple(coordinates)) == layout.flat[number]
    idle = {starts[name[0]] + int(name[1:]) for name in picture.idle}
    assert idle == {i for i, basis in enumerate(layout.flat) if not basis}


@given(layouts(), st.sampled_from([1, 4, 8]))
def test_a_picture_shows_the_layout(layout: Layout, cells: int) -> None:
    check_picture(layout, cells)


@pytest.mark.parametrize("name", VARIANTS)
def test_pictures_of_samples_show_their_layouts(name: str) -> None:
    f = function(name)
    spread = fragments(f)
    for tile in named_tiles(f):
        if not isinstance(tile.value.type, SharedType):
            layout = tile.value.tile.layout
            check_picture(layout, 8, spread[layout].box if layout in spread else None)


def test_the_corner_of_a_product_is_one_instruction() -> None:
    f = function("s8")
    layout = next(t.value.tile.layout for t in named_tiles(f) if t.name == "fa")
    assert str(fragments(f)[layout]) == "A of mma.sync.m16n8k32"
    assert registers.picture(layout, 8, fragments(f)[layout].box).corner == (16, 32)


def test_the_corner_of_a_product_with_permuted_columns_has_all_lanes() -> None:
    instruction = next(i for i in instructions() if i.shape == "m16n8k16")
    layout = accumulator(instruction, (64, 64), (2, 2), (1, 8))
    fragment = DrawnFragment(instruction, "C", (16, 8))
    assert describe(layout, {layout: fragment}) == "C of mma.sync.m16n8k16, warps [2, 2], contiguous [1, 8]"
    picture = registers.picture(layout, 8, fragment.box)
    assert picture.corner == (16, 32)
    assert {cell.lane for line in picture.lines for cell in line.cells} == set(range(32))


# ---- words -----------------------------------------------------------------------------------------------------


def rows(text: str) -> list[tuple[int, ...]]:
    return [tuple(map(int, found.split(", "))) for found in re.findall(r"\[([\d, ]+)\]", text)]


@pytest.mark.parametrize("shape", [(64,), (1, 32), (4, 256), (64, 2), (16, 16), (2, 4, 8)])
def test_a_blocked_layout_is_said_as_a_schedule_says_it(shape: tuple[int, ...]) -> None:
    ones = (1,) * (len(shape) - 1)
    for vector, lanes, warps in [
        ((*ones, 1), (*ones, 32), (*ones, 4)),
        ((*ones, 2), (*ones, 32), (4, *ones)),
        ((2, *ones), (32, *ones), (*ones, 2)),
        ((*ones, 2), (8, *ones[1:], 4) if ones else (32,), (2, *ones)),
    ]:
        layout = Layout.blocked(shape, vector, lanes, warps)
        found = blocked_form(layout)
        assert found is not None and Layout.blocked(shape, *found) == layout
        text, _, copies = describe(layout, {}).partition("; ")
        said = rows(text)
        assert Layout.blocked(shape, *([(1,) * len(shape)] if len(said) == 2 else []), *said) == layout
        assert copies == (f"{copies_of(layout)} threads hold each element" if copies_of(layout) > 1 else "")
        assert copies_of(layout) == 32 * prod(warps) * layout.count // prod(shape)


def test_the_examples_of_the_docstrings_hold() -> None:
    assert doctest.testmod(names).attempted > 0 and doctest.testmod(names).failed == 0


def test_products_are_said_with_their_instruction() -> None:
    f = function("f16")
    spread = fragments(f)
    said = {t.name: describe(t.value.tile.layout, spread) for t in named_tiles(f) if t.name in "fafbacc"}
    assert said["acc"] == "C of mma.sync.m16n8k16, warps [2, 2]"
    layout = next(t.value.tile.layout for t in named_tiles(f) if t.name == "acc")
    assert describe(layout.drop(1), spread).startswith("rows of C of mma.sync.m16n8k16, warps [2]; ")
    assert spread[layout.drop(0, keep=True)].box == (1, 8)
    assert describe(layout.reshape((2, 32, 64)), spread) == f"{said['acc']}; reshaped from [64, 64]"
    assert said["fb"] == "B of mma.sync.m16n8k16, warps [1, 2]; 2 threads hold each element"


def test_what_is_neither_is_said_by_its_bases() -> None:
    layout = Layout.registers((4, 16), [16], [2, 1, 4, 8, 32], [])
    assert describe(layout, {}) == str(layout)


# ---- shared memory ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", VARIANTS)
def test_the_passes_drawn_are_those_that_the_compiler_counts(name: str) -> None:
    f = function(name)
    for tile in named_tiles(f):
        if isinstance(tile.value.type, SharedType):
            check_shared(shared.picture(f, tile.value))


def check_shared(picture: shared.SharedPicture) -> None:
    assert picture.accesses
    size = picture.type.dtype.bytes
    for number, line in enumerate(picture.lines):
        for place, coordinates in enumerate(line):
            offset = 0
            for extent, coordinate in zip(picture.stage, coordinates, strict=True):
                offset = offset * extent + coordinate
            assert swizzled(offset * size, picture.type.swizzle) == 128 * number + picture.unit * place
    for access in picture.accesses:
        if access.beyond is not None and access.touches:
            assert len(access.passes) == access.beyond + 1
        served = [(bank, lane) for row in access.passes for bank, lanes in row for lane in lanes.split(",")]
        assert len({bank for bank, _ in served}) <= 32
        for row in access.passes:
            assert len({bank for bank, _ in row}) == len(row)


def test_conflicts_stand_out(tmp_path: Path) -> None:
    path = tmp_path / "conflicts.tile"
    path.write_text(CONFLICTS)
    dims = ["m=64", "n=64", "k=64"]
    listed = dsl("layout", str(path), *dims).stdout
    assert re.search(r"sa +shared f16\[64, 64\] +up to 8 passes over the banks", listed)
    assert re.search(r"sb +shared f16\[64, 64\] +swizzle 3, 4, 3; no bank conflicts", listed)
    drawn = dsl("layout", str(path), *dims, "--value", "sa").stdout
    assert "ldmatrix, 16 bytes a lane: 8 passes, 7 by conflicts" in drawn
    assert re.search(r"pass 8 +7", drawn) and re.search(r"store, 16 bytes a lane: no conflict", drawn)
    swizzled_rows = dsl("layout", str(path), *dims, "--value", "sb").stdout
    assert re.search(r"128 +1, 8 +1, 0 +1, 24 +1, 16", swizzled_rows)


def test_tiles_that_several_blocks_compute_say_so() -> None:
    """`blocks` was not shown, and the memory of an exchange had "no accesses"."""
    softmax = str(ROOT / "samples" / "softmax.tile")
    asked = ("layout", softmax, "cols=65536", "rows=4", "T=f32", "SHARING=4", "--schedule", "whole", "--arch", "sm_90a")
    listed = dsl(*asked).stdout
    assert "warps, clusters of 4 blocks" in listed
    assert re.search(r"v +f32\[1, \d+\] +vector \[1, 4\], lanes \[1, 32\], warps \[1, \d+\], blocks \[1, 4\]", listed)
    assert re.search(r"exchanged +shared u8\[\d+\] +used by cluster_gather", listed) and "no accesses" not in listed


def test_lanes_are_said_in_ranges() -> None:
    assert shared.ranges([0, 1, 2, 3, 8]) == "0-3,8"


# ---- the command ------------------------------------------------------------------------------------------------

MATMUL = str(ROOT / HAND)


def test_the_list_names_all_tiles() -> None:
    out = dsl("layout", MATMUL, "--kernel", "matmul_tensor", "--schedule", "square").stdout
    assert "matmul_tensor with square, 4 warps" in out
    assert re.search(r"\d+ +sa +shared f16\[ring 3, 2, 64, 64\] +swizzle 3, 4, 3; no bank conflicts", out)
    assert re.search(r"\d+ +acc +f32\[64, 64\] +C of mma\.sync\.m16n8k16, warps \[2, 2\]", out)


def test_a_value_is_drawn() -> None:
    out = dsl("layout", MATMUL, "--kernel", "matmul_tensor", "--schedule", "square", "--value", "acc").stdout
    assert re.search(r"row +w1 +r4 +r1 +l4 +l3 +l2", out) and re.search(r"column +w0 +r3 +r2 +l1 +l0 +r0", out)
    assert re.search(r"^ +9 +4 r2-3 +5 r2-3 +6 r2-3 +7 r2-3$", out, re.M)
    assert "column +8: register +4, +16: register +8, +32: warp +1" in out
    assert "row +16: register +16, +32: warp +2" in out and "shown: 16 x 8 of 64 x 64" in out


@pytest.mark.parametrize("value", ["acc", "sa", "v"])
def test_a_drawing_is_svg_with_every_cell(tmp_path: Path, value: str) -> None:
    path = tmp_path / "out.svg"
    arguments = ["layout", MATMUL, "--kernel", "matmul_tensor", "--schedule", "square", "--value", value]
    out = dsl(*arguments, "--svg", str(path)).stdout
    root = ElementTree.parse(path).getroot()
    assert root.tag.endswith("svg") and f"{path}: {2 if value == 'v' else 1} picture" in out
    texts = {e.text for e in root.iter() if e.tag.endswith("text")}
    drawn = dsl(*arguments).stdout
    cells = (
        set(re.findall(r"\b\d+ r\d+(?:-\d+)?", drawn))
        if value != "sa"
        else set(re.findall(r"\b\d+, \d+, \d+\b", drawn[99:]))
    )
    assert len(cells) >= 64 and cells <= texts
    right = [float(e.get("x")) + float(e.get("width")) for e in root.iter() if e.tag.endswith("rect") and e.get("x")]
    bottom = [float(e.get("y")) + float(e.get("height")) for e in root.iter() if e.tag.endswith("rect") and e.get("y")]
    assert max(right) <= float(root.get("width")) and max(bottom) <= float(root.get("height"))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--value", "ac"], "did you mean 'acc'"),
        (["--svg", "x.svg"], "--value NAME"),
        (["--kernel", "matmul_tenser"], "did you mean 'matmul_tensor'"),
        (["--arch", "sm_1"], "unknown target"),
    ],
)
def test_mistakes_are_errors(arguments: list[str], says: str) -> None:
    result = dsl("layout", MATMUL, *arguments)
    assert result.return_value == 2 and says in result.stderr and result.stdout == ""


def test_help_has_an_example_that_works() -> None:
    text = " ".join(dsl("layout", "--help").stdout.split())
    example = re.search(r"For example: dsl (layout samples/.*--value \w+)", text)
    assert example is not None
    arguments = example[1].replace("samples/", f"{ROOT}/samples/").split()
    assert "of mma.sync" in dsl(*arguments).stdout


def test_offsets_of_a_phase_are_those_of_its_lanes() -> None:
    """One phase of `ldmatrix` reads 8 rows of 16 bytes, in all banks once."""
    f = function("f16")
    tile = next(t for t in named_tiles(f) if t.name == "sa")
    access = next(a for a in shared.picture(f, tile.value).accesses if a.name == "ldmatrix")
    assert [touch.lane for touch in access.touches] == list(range(8))
    assert sorted(touch.offset % 128 for touch in access.touches) == list(range(0, 128, 16))
    span = BasisSpan([touch.offset for touch in access.touches if touch.lane in (1, 2, 4)])
    assert span.rank == 3 and all(
        apply([access.touches[1 << i].offset for i in range(3)], t.lane) == t.offset for t in access.touches
    )
