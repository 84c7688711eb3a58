"""What schedules may compute: occupancy against the CUDA occupancy calculator's rules, contraction as a choice."""

from __future__ import annotations

import numpy as np
import pytest

import dsl
from dsl.kernels.variant import Request, build_variant
from dsl.lowering.ir.location import TileError
from dsl.text.program import parse_program

TEXT = """
kernel k(y: f32[n], x: f32[n]; A, B = 0):
    grid A + B
    y[0 : 128] = x[0 : 128] * x[0 : 128] + x[0 : 128]

schedule counted of k:
    A = occupancy({arguments})

schedule fused of k:
    A = 1
    tune FMA in false, true
    contract FMA
"""


@pytest.mark.parametrize(
    ("arguments", "arch", "blocks"),
    [
        ("4, 0", "sm_90", 16),  # 2048 threads
        ("1, 0", "sm_90", 32),  # blocks
        ("1, 0", "sm_86", 16),
        ("32, 0", "sm_89", 1),  # 1536 threads hold one block of 1024
        ("4, 100 * 1024", "sm_90", 2),  # 228 KB, of which each block takes one more
        ("4, 48 * 1024", "sm_86", 2),
        ("8, 0, 64", "sm_90", 4),  # 65536 registers
        ("8, 0, 65", "sm_90", 3),  # in eights
        ("4, n", "sm_90", 16),
    ],
)
def test_occupancy(arguments: str, arch: str, blocks: int) -> None:
    program = parse_program(TEXT.format(arguments=arguments))
    variant = build_variant(program, Request("k", "counted", {"n": 4096}, {}, arch=arch))
    assert variant.constants["A"] == blocks


def test_a_launch_evaluates_occupancy_too() -> None:
    """It depends on a dim, so the variant requires that it still holds."""
    program = parse_program(TEXT.format(arguments="4, 8 * n"))
    variant = build_variant(program, Request("k", "counted", {"n": 4096}, {}))
    assert any(r.text == "A == occupancy(4, 8 * n)" for r in variant.requires)


SEVERAL = """
def twice(v):
    return v + v

kernel k(y: f32[n], x: f32[n]; SIZE, ACT = relu):
    grid cdiv(n, SIZE)
    i = block(0) * SIZE
    y[i : i + SIZE] = ACT(x[i : i + SIZE])

kernel l(y: f32[n], x: f32[n]; SIZE, FLAG = false):
    grid cdiv(n, SIZE)
    y[0 : 8] = x[0 : 8]

schedule wide of k:
    tune SCALE in 1, 2
    SIZE = 64 * SCALE

schedule chosen of l:
    like k.wide
    warps = where(FLAG, 2, 8)
"""


def test_a_schedule_may_be_like_another_kernels_and_reads_the_constants_of_its_own() -> None:
    program = parse_program(SEVERAL)
    default = build_variant(program, Request("l", "chosen", {"n": 4096}, {}))
    assert (default.constants["SIZE"], default.constants["warps"]) == (64, 8)
    chosen = build_variant(program, Request("l", "chosen", {"n": 4096}, {}, {"FLAG": True, "SCALE": 2}))
    assert (chosen.constants["SIZE"], chosen.constants["warps"]) == (128, 2)


@pytest.mark.parametrize(
    ("name", "factor"), [(None, (0, 1)), ("relu", (0, 1)), ("twice", (2, 2)), ("abs", (-1, 1)), ("abs_", None)]
)
def test_a_constant_may_be_a_function_of_the_file_or_of_the_language(
    name: str | None, factor: tuple[int, int] | None
) -> None:
    module, x = dsl.parse(SEVERAL, device="emulator"), np.array([-1, 1, 3, -5], np.float32)
    y, given = np.zeros_like(x), {} if name is None else {"ACT": name}
    if factor is None:
        with pytest.raises(TileError, match="is a number or a function"):
            module.k(y, x, **given)
        return
    module.k(y, x, **given)
    assert np.array_equal(y, np.where(x < 0, x * factor[0], x * factor[1]))


@pytest.mark.parametrize(("fma", "contract"), [(False, "off"), (True, "fast")])
def test_contraction_is_a_choice(fma: bool, contract: str) -> None:
    program = parse_program(TEXT.format(arguments="4, 0"))
    variant = build_variant(program, Request("k", "fused", {"n": 4096}, {}, {"FMA": fma}))
    assert variant.function.attrs["contract"] == contract


CLASSES = """
kernel k(y: f32[rows, cols], x: f32[rows, cols], by: f32, of: f32; N):
    grid rows, cdiv(cols, N)
    v = x[block(0), block(1) * N : block(1) * N + N] * by + of
    y[block(0), block(1) * N : block(1) * N + N] = v

schedule a of k:
    N = minimum(next_pow2(cols), 128)
    warps = 1
    specialize of

schedule b of k:
    N, warps = 128, 1
    layout v: vector [minimum(4, pow2_divisor(cols))], lanes [32], warps [1]
"""


@pytest.mark.parametrize(
    ("schedule", "first", "other", "shared"),
    [
        ("a", (4, 100, 2.0, 1.0), (7, 100, 3.0, 1.0), True),  # rows and what is not specialised do not matter
        ("a", (4, 100, 2.0, 1.0), (4, 68, 2.0, 1.0), True),  # nor cols with equal N and divisor
        ("a", (4, 100, 2.0, 1.0), (4, 104, 2.0, 1.0), True),  # nor another divisor with as wide accesses
        ("a", (4, 100, 2.0, 1.0), (4, 102, 2.0, 1.0), False),  # one with narrower accesses
        ("a", (4, 100, 2.0, 1.0), (4, 60, 2.0, 1.0), False),  # another N
        ("a", (4, 100, 2.0, 1.0), (4, 100, 2.0, 5.0), False),  # another specialised value
        ("b", (4, 102, 2.0, 1.0), (4, 98, 2.0, 5.0), True),
        ("b", (4, 99, 2.0, 1.0), (4, 98, 2.0, 5.0), False),  # another layout
    ],
)
def test_shapes_of_a_class_share_a_variant(schedule, first, other, shared) -> None:
    module = dsl.parse(CLASSES, device="emulator")
    for rows, cols, by, of in (first, other):
        x = np.random.default_rng(cols).standard_normal((rows, cols)).astype(np.float32)
        y = np.zeros_like(x)
        module.k(y, x, by, of, schedule=schedule)
        assert (y == x * np.float32(by) + np.float32(of)).all()
    kernels = [
        module.compile("k", schedule, rows=rows, cols=cols, by=by, of=of) for rows, cols, by, of in (first, other)
    ]
    assert (kernels[0] is kernels[1]) == shared


def test_a_launch_without_arguments_leaves_out_optional_tensors_that_the_dispatch_lacks() -> None:
    text = """
kernel k(y: f32[n], x: f32[n], z: f32[n]?, w: f32[n]?):
    grid 1
    v = x[0 : 128]
    if given(z):
        v = v + z[0 : 128]
    if given(w):
        v = v * w[0 : 128]
    y[0 : 128] = v

dispatch d(y, x, z):
    k

dispatch lacking(y, z):
    k
"""
    module = dsl.parse(text, device="emulator")
    y, x, z = np.zeros(128, np.float32), np.arange(128, dtype=np.float32), np.ones(128, np.float32)
    module.d(y, x, z)
    assert (y == x + z).all()
    module.d(y, x, None)
    assert (y == x).all()
    with pytest.raises(TileError, match="needs 'x'"):
        module.lacking(y, z)


def test_a_schedule_asks_whether_an_optional_tensor_is_there() -> None:
    text = """
kernel k(y: s32[n], z: s32[n]?; N):
    grid 1
    y[0 : 128] = full(s32[128], N)

schedule s of k:
    N = where(given(z), 3, 5)

schedule wrong of k:
    N = where(given(y), 3, 5)
"""
    module, y = dsl.parse(text, device="emulator"), np.zeros(128, np.int32)
    for z, wanted in ((y.copy(), 3), (None, 5)):
        module.k(y, z, schedule="s")
        assert (y == wanted).all()
    with pytest.raises(TileError, match="'y' is no optional tensor"):
        module.k(y, None, schedule="wrong")


def test_a_schedule_asks_along_which_axis_elements_are_neighbours() -> None:
    text = """
kernel k(y: s32[n], x: s32[r, c; strided]; N):
    grid 1
    y[0 : 128] = full(s32[128], N)

schedule s of k:
    N = where(contiguous(x, 0), 3, where(contiguous(x, 1), 5, 7))

schedule plain of k:
    N = where(contiguous(y, 0), 9, 5)

schedule wrong of k:
    N = where(contiguous(y, 1), 3, 5)
"""
    module, y, x = dsl.parse(text, device="emulator"), np.zeros(128, np.int32), np.zeros((8, 8), np.int32)
    for view, wanted in ((x, 5), (x.T, 3), (x[::2, ::2], 7)):
        module.k(y, view, schedule="s")
        assert (y == wanted).all()
    module.k(y, x, schedule="plain")
    assert (y == 9).all()  # a tensor that is not strided is row-major
    with pytest.raises(TileError, match=r"schedules know no 'contiguous\(y, 1\)'"):
        module.k(y, x, schedule="wrong")


# ---- names on demand ----

DEMAND = """
kernel k(y: f32[n]; A, B = A * 2, C = 1, WARPS = 4):
    grid 1
    y[0 : 128] = 0.0

kernel l(y: f32[n]; A, B = 0, C = 1, WARPS = 4):
    grid 1
    y[0 : 128] = 0.0

schedule part:
    C = A + OPEN
    EVEN = n % A == 0
    warps = where(EVEN, 4, 2)

schedule wide of k:
    B = A + HALF
    HALF = A / 2
    tune A in 8, 16, 32
    WARPS = warps

schedule own of k:
    A = 64
    like wide

schedule twice of k:
    like wide
    A = A * 4
    B = B + A

schedule parted of k:
    like part, wide
    OPEN = 100

schedule nested of l:
    like k.own

schedule lacking of k:
    like part
    A = 8

schedule defaults of k:
    A = 12

{more}
"""


def said(schedule: str, kernel: str = "k", n: int = 128, more: str = "", **constants: object):
    program = parse_program(DEMAND.replace("{more}", more))
    return build_variant(program, Request(kernel, schedule, {"n": n}, {}, constants))


@pytest.mark.parametrize(
    ("schedule", "constants", "wanted"),
    [
        ("wide", {}, {"A": 8, "B": 12}),  # a line may read what stands below it
        ("wide", {"A": 32}, {"A": 32, "B": 48}),  # and what the caller gives
        ("own", {}, {"A": 64, "B": 96}),  # what is set wins over what it is like, and changes what is computed from it
        ("twice", {}, {"A": 32, "B": 80}),  # a name in its own definition is the one that it replaces
        ("twice", {"A": 16}, {"A": 16, "B": 40}),
        ("parted", {}, {"A": 8, "B": 12, "C": 108, "warps": 4, "WARPS": 4}),
        ("parted", {"A": 24}, {"A": 24, "B": 36, "C": 124, "warps": 2, "WARPS": 2}),
        ("defaults", {}, {"A": 12, "B": 24, "C": 1}),  # the kernel's own defaults read what is set, too
    ],
)
def test_a_name_means_the_last_definition_wherever_it_is_read(schedule, constants, wanted) -> None:
    variant = said(schedule, **constants)
    assert {name: variant.constants[name] for name in wanted} == wanted


def test_like_means_what_is_visible_where_it_stands() -> None:
    assert said("nested", "l").constants["B"] == 96  # k's wide, not one of l


def test_what_two_schedules_include_counts_once_and_before_both() -> None:
    """The second one does not undo what the first one replaces of it: constants, sets, properties."""
    more = "schedule base of k:\n    A, C = 1, A + 1\n    tune B in 1, 2\n    contract off\n"
    more += "schedule first of k:\n    like base\n    A, B = 10, 20\n    contract fast\n"
    more += "schedule second of k:\n    like base\n    C = A * 2\n"
    more += "schedule both of k:\n    like first, second\n"
    variant = said("both", more=more)
    assert {name: variant.constants[name] for name in "ABC"} == {"A": 10, "B": 20, "C": 20}
    assert not variant.schedule.tune and variant.schedule.attrs["contract"] == "fast"


def test_what_replaces_a_tune_set_is_not_tuned() -> None:
    assert list(said("wide").schedule.tune) == ["A"] and not said("own").schedule.tune


def test_tune_sets_stand_behind_those_that_they_depend_on() -> None:
    more = "schedule sets of k:\n    tune B in A, A + 1\n    like wide\n    tune C in B * 2, 1\n"
    assert said("sets", more=more).schedule.tune == {"A": [8, 16, 32], "B": [8, 9], "C": [16, 1]}


def test_what_nothing_asks_for_is_not_evaluated() -> None:
    more = "schedule spare:\n    LOST = missing + 1\n    C = 5\n\nschedule least of k:\n    like spare\n    A = 1\n"
    more += "schedule other of k:\n    like spare\n    A = LOST\n"
    assert said("least", more=more).constants["C"] == 5
    with pytest.raises(TileError, match="unknown name 'missing'"):
        said("other", more=more)


def test_what_a_part_leaves_open_is_told_with_the_line_that_is_like_it() -> None:
    with pytest.raises(TileError, match="unknown name 'OPEN'") as told:
        said("lacking")
    assert told.value.hint == "the part 'part' leaves it open: set it beside 'like part'"
    assert told.value.loc is not None and [at.line for at in told.value.loc.callers] == [38]


def test_a_variant_requires_what_names_between_come_to() -> None:
    """`C = A + OPEN` with OPEN of a dim: the launch evaluates the dim's expression, not the number of this variant."""
    more = "schedule dims of k:\n    like part\n    A, OPEN = 8, HALF + 1\n    HALF = n // 2\n"
    more += "schedule again of k:\n    like dims\n    C = C * 2\n"
    assert said("dims", more=more).constants["C"] == 73
    trees = {r.text: r.expr for r in said("dims", more=more).requires}
    assert trees["C == A + OPEN"] == ["==", "C", ["+", "A", ["+", ["//", "n", 2], 1]]]
    trees = {r.text: r.expr for r in said("again", more=more).requires}
    assert trees["C == C * 2"] == ["==", "C", ["*", ["+", "A", ["+", ["//", "n", 2], 1]], 2]]


def test_a_variant_requires_what_an_and_had_no_need_to_read() -> None:
    """`LAST` is not asked for where n is small; where it is not, the launch reads it."""
    more = "schedule far of k:\n    A = 8\n    C = where(n > 100 and n > LAST, 2, 3)\n"
    more += "    LAST = MORE * 2\n    MORE = n // 4\n"
    for n, wanted in ((64, 3), (512, 2)):
        variant = said("far", n=n, more=more)
        trees = {r.text: r.expr for r in variant.requires}
        last = ["*", ["//", "n", 4], 2]
        assert variant.constants["C"] == wanted
        assert trees["C == where(n > 100 and n > LAST, 2, 3)"] == [
            "==", "C", ["where", ["and", [">", "n", 100], [">", "n", last]], 2, 3],
        ]  # fmt: skip


def test_names_between_do_not_tell_classes_apart() -> None:
    text = CLASSES.replace(
        "    N = minimum(next_pow2(cols), 128)", "    WIDE = next_pow2(cols)\n    N = minimum(WIDE, 128)"
    )
    module = dsl.parse(text, device="emulator")
    kernels = [module.compile("k", "a", rows=4, cols=cols, by=2.0, of=1.0) for cols in (256, 512)]
    assert kernels[0] is kernels[1]


def test_a_chain_of_definitions_has_an_end() -> None:
    lines = "".join(f"    X{i} = X{i + 1} + 1\n" for i in range(2000))
    with pytest.raises(TileError, match="definitions read one another more than 64 deep"):
        said("deep", more=f"schedule deep of k:\n    A = X0\n{lines}    X2000 = 1\n")


TUPLES = """
def two(x, i):
    return x[i : i + 64], x[i + 64 : i + 128]

kernel k(y: f32[n], x: f32[n]):
    grid 1
    {lines}
    y[0 : 64] = a[1] + a[0]

schedule s of k:
    warps = 1
    layout a: vector [2], lanes [32], warps [1]
"""


@pytest.mark.parametrize(
    "lines",
    [
        "a = two(x, 0)",
        "a = tuple()\n    for static j in range(2):\n        a = append(a, x[j * 64 : j * 64 + 64])",
        "a = two(x, 0)\n    for j in range(3):\n        a = a[1], a[0] + 1.0",
    ],
)
def test_a_layout_of_a_tuple_is_that_of_its_tiles(lines: str) -> None:
    kernel = dsl.parse(TUPLES.replace("{lines}", lines), device="emulator").compile("k", "s", n=128)
    assert kernel.ptx.count("ld.global.nc.v2") + kernel.ptx.count("ld.global.v2") == 2
