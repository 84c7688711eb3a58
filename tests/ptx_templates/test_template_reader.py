"""The reader: names, expansion, laziness, errors."""

import subprocess
import sys
import tomllib

import pytest

from dsl import ptx_templates
from dsl.ptx_templates import Effect, Family, Operand, UnknownInstruction, families, family, instruction
from dsl.ptx_templates.instruction import ROLES
from dsl.ptx_templates.parsed import PARSED, serialise
from tests.work import at_most

EVERY_ROW = [(name, row) for name in families() for row in family(name)]
BOX = "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"

SMALL = """opcodes = ["add"]
arch = "sm_80"
ptx = "7.0"
section = "integer-arithmetic-instructions-add"
meaning = "d = a + {what(type)}"

[values]
type = ["u32", "v2.u32"]

[table.register]
"u32" = "b32"
"v2.u32" = "b32*2"

[table.what]
"u32" = "b"
"v2.u32" = "b, twice"

[[instruction]]
name = "add{sat}.{type}"
for = { sat = ["", ".sat"], type = "type" }
asm = "add{sat}.{type} {d}, {a}, {b};"
operands = ["out d {register(type)}", "in a {register(type)}", "in b b32"]
predicated = true
"""


def test_a_row_expands_to_the_product_of_its_variables_with_guarded_twins():
    small = Family("small", tomllib.loads(SMALL))
    plain = ["add.u32", "add.v2.u32", "add.sat.u32", "add.sat.v2.u32"]
    assert list(small) == [name for row in plain for name in (row, "@" + row)]
    assert len(small) == 8
    vector = small["add.sat.v2.u32"]
    assert vector.asm == "add.sat.v2.u32 {d}, {a}, {b};"
    assert vector.meaning == "d = a + b, twice"
    assert vector.operands == (Operand("d", "out", "b32", 2), Operand("a", "in", "b32", 2), Operand("b", "in", "b32"))
    assert vector.llvm() == ("add.sat.v2.u32 {$0, $1}, {$2, $3}, $4;", "=r,=r,r,r,r")


def test_a_guarded_row_keeps_what_its_outputs_had():
    guarded = Family("small", tomllib.loads(SMALL))["@add.v2.u32"]
    assert guarded["d"].role == "inout"
    assert guarded["mask"].type == "pred"
    assert guarded.llvm() == ("@$7 add.v2.u32 {$0, $1}, {$4, $5}, $6;", "=r,=r,0,1,r,r,r,b")
    assert [operand.name for operand in guarded.inputs] == ["d", "a", "b", "mask"]
    assert [operand.name for operand in guarded.outputs] == ["d"]


def test_effects_clobber_memory():
    row = instruction("@ld.global.L1::evict_last.v2.b64")
    assert row.effects == (Effect("reads", space="global", bytes=16),)
    assert row.llvm() == (
        "@$5 ld.global.L1::evict_last.v2.b64 {$0, $1}, [$4];",
        "=l,=l,0,1,l,b,~{memory}",
    )


def test_effects_state_space_order_scope_and_completion():
    assert instruction("atom.acq_rel.gpu.shared.cas.b64").effects == (
        Effect("updates", space="shared", bytes=8, order="acq_rel", scope="gpu"),
    )
    assert instruction("cp.async.cg.shared.global.L2::128B.zfill.16").effects == (
        Effect("reads", space="global", bytes=16, completion="commit group"),
        Effect("writes", space="shared", bytes=16, completion="commit group"),
    )
    assert instruction("cp.async.wait_group").effects == (Effect("waits", completion="commit group"),)
    assert instruction("bar.sync").effects == (Effect("synchronizes", scope="cta", order="acq_rel"),)
    assert instruction("@mbarrier.arrive.expect_tx.shared.b64").effects == (
        Effect("arrives", completion="mbarrier", order="release", scope="cta"),
    )
    assert instruction(BOX).effects == (
        Effect("reads", space="global", proxy="async", completion="mbarrier"),
        Effect("writes", space="shared", proxy="async", completion="mbarrier"),
    )


def test_the_longest_known_beginning_of_a_name_tells_its_family():
    assert instruction(BOX).family == instruction("@" + BOX).family == "tma"
    assert instruction("cp.async.wait_all").family == "cp_async"
    assert instruction("fence.mbarrier_init.release.cluster").family == "barrier"


def test_coordinates_are_a_vector_of_the_rank():
    assert instruction(BOX).llvm() == (f"{BOX} [$0], [$1, {{$2, $3, $4}}], [$5];", "r,l,r,r,r,r,~{memory}")


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_offsets_are_a_vector_of_the_spatial_axes(rank):
    row = instruction(BOX.replace("3d", f"{rank}d").replace(".tile", ".im2col"))
    assert (row["coordinates"].registers, row["offsets"].registers, row["offsets"].llvm_type) == (rank, rank - 2, "i16")
    assert row.llvm()[1] == f"r,l,{'r,' * rank}r,{'h,' * (rank - 2)}~{{memory}}"
    assert row.effects == instruction(BOX).effects and row.ptx == (8, 0) and row.target == "sm_90"


@pytest.mark.parametrize(
    ("name", "arch", "ptx", "expected"),
    [
        ("redux.sync.add.s32", "sm_75", None, False),
        ("redux.sync.add.s32", "sm_80", None, True),
        ("redux.sync.add.s32", "sm_90a", (7, 0), True),
        ("redux.sync.add.s32", "sm_90a", (6, 5), False),
        ("redux.sync.max.NaN.f32", "sm_100a", None, True),
        ("redux.sync.max.NaN.f32", "sm_100", None, False),
        ("redux.sync.max.NaN.f32", "sm_120a", None, False),
    ],
)
def test_available(name, arch, ptx, expected):
    assert instruction(name).available(arch, ptx) is expected


@pytest.mark.parametrize(
    ("name", "where", "close"),
    [
        ("ld.global.v4.b33", "access.toml", "ld.global.v4.b32"),
        ("@shfl.sync.idx.b32", "shfl.toml", "shfl.sync.idx.b32"),
        ("shf.sync.idx.b32", "ptx_templates", "shfl.sync.idx.b32"),
        ("", "ptx_templates", ""),
    ],
)
def test_an_unknown_instruction_names_the_file_and_close_ones(name, where, close):
    with pytest.raises(UnknownInstruction) as caught:
        instruction(name)
    assert str(caught.value).startswith(f"{where}: no instruction {name!r}")
    assert close in str(caught.value)
    assert isinstance(caught.value, KeyError)


def test_an_unknown_family_names_close_ones():
    with pytest.raises(UnknownInstruction, match="no family 'mma_sink'; close: mma_sync"):
        family("mma_sink")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "add{sat}.{type}"', 'name = "add.{type}{sat}"', "must have the variables of `for`, in their order"),
        ('sat = ["", ".sat"]', 'sat = ["", ""]', "repeats a name"),
        ("in a {register(type)}", "in a {registers(type)}", "small.toml: row 'add.u32': 'registers'"),
        ("in b b32", "in b b33", "small.toml: row 'add.u32': operand 'in b b33'"),
        ("in b b32", "from b b32", "operand 'from b b32'"),
        ("in b b32", "in b b32 u8 A1x1", "row 'add.u32': 'A1x1'"),
        ("in b b32", "in c b32", "places .* are not the operands"),
        ('arch = "sm_80"', 'arch = "80"', "'80' is not a target"),
    ],
)
def test_a_row_that_makes_no_sense_is_refused_with_its_place(old, new, message):
    assert old in SMALL
    with pytest.raises(ValueError, match=message):
        _ = Family("small", tomllib.loads(SMALL.replace(old, new)))["add.u32"]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("", "row 'add.u32': product: 'product'"),
        ('product = { m = 16, n = 8, k = 8, a = "{type}", b = "u32" }', "product: .*[Mm]issing .* 'c'"),
        ('product = { m = 16, n = 8, k = 8, a = "{type}", b = "u32", c = "u32", d = "u32" }', "product: .*'d'"),
    ],
)
def test_a_product_without_its_fields_is_refused_with_its_place(said, message):
    with pytest.raises(ValueError, match=message):
        Family("small", tomllib.loads(SMALL.replace('arch = "sm_80"', f'arch = "sm_80"\n{said}'))).product("add.u32")


def test_instructions_are_frozen_and_built_once():
    row = instruction("vote.sync.any.pred")
    assert instruction("vote.sync.any.pred") is row
    with pytest.raises(AttributeError, match="immutable"):
        row.name = "another"


def test_the_json_is_that_of_the_toml_files():
    assert PARSED.read_text(encoding="utf-8") == serialise(), "python dsl/ptx_templates/parsed.py"


def test_every_row_is_whole():
    for name, row in EVERY_ROW:
        built = family(name)[row]
        assert built.name == row
        assert built.asm.count(";") == 1 and built.asm.endswith(";"), row
        assert built.section and built.meaning, row
        assert "{" not in built.meaning and "(" not in built.section, row
        for operand in built.operands:
            assert operand.role in ROLES
            assert operand.role == "in" or operand.type != "immediate", row
        assert instruction(row) is built


def test_fragments_fill_their_registers():
    bits = {"b1": 1, "s4": 4, "u4": 4, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "b16": 16, "f16": 16, "bf16": 16}
    bits |= {"tf32": 32, "s32": 32, "f32": 32, "f64": 64}
    for name in ("mma_sync", "ldmatrix", "stmatrix"):
        for row in family(name).values():
            for operand in row.operands:
                if operand.fragment is not None:
                    elements = operand.registers * int(operand.type[1:]) // bits[operand.element]
                    assert elements == 2 ** len(operand.fragment.register), (row.name, operand.name)


def test_only_the_family_asked_for_is_read_and_without_numpy():
    program = (
        "import sys, dsl.ptx_templates.reader as reader\n"
        "from dsl import ptx_templates\n"
        "ptx_templates.instruction('shfl.sync.bfly.b32')\n"
        "assert reader.family.cache_info().currsize == 1\n"
        "assert 'numpy' not in sys.modules and 'difflib' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("name", families())
def test_reading_a_family_takes_some_thousand_calls(name):
    """Less than 2 ms on a quiet core, and less than 10 for all; mma_sync takes 9,200, nearly all of them TOML's."""
    family.cache_clear()
    with at_most(calls=20_000):
        family(name)


def test_the_package_names_what_it_exports():
    assert all(hasattr(ptx_templates, name) for name in ptx_templates.__all__)
