"""Plug-ins: what they add is compiled, chosen, tried and verified; what is wrong in one is told at its line."""

from __future__ import annotations

import ast
import json
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import dsl
from dsl.calls.tuned import CallFacts, Entry, Tuned
from dsl.calls.tuned_file import read_tuned
from dsl.command import cli
from dsl.command.child import answer_of_child
from dsl.kernels.compile import compile_variant, levels_of
from dsl.kernels.kept_meaning import NotCompared
from dsl.kernels.plugin_files import load_plugins
from dsl.kernels.variant import Request
from dsl.lab.compiling import Compiler
from dsl.lab.model import MODELS
from dsl.lab.search import SEARCHES
from dsl.lab.trial import versions
from dsl.lowering.ir import time_limit
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.plugins import NONE, OPEN, current, give
from dsl.lowering.passes import PASSES, passes_of
from dsl.runtime import assemble
from dsl.runtime.errors import DeviceError
from dsl.text.program import load
from tests.dsl.lab_kernel import TINY, written

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "plugins"
ROWS = EXAMPLES / "rows.tile"
M = {"m": 64}
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a plug-in that imports all there is."""

    def made(text: str, name: str = "mine.py") -> Path:
        head = "from dsl.plugin import *\nfrom dsl.lowering.ir.function import walk\nfrom dsl.lowering.ops import OPS\n"
        (tmp_path / name).write_text(head + text)
        return tmp_path / name

    return made


def command(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(cli, [str(word) for word in words], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.return_value, done.output


def ptx(*plugins: Path, schedule: str = "plain", choices: dict[str, str] | None = None, arch: str = "sm_90") -> str:
    program = load(ROWS, plugins=load_plugins(plugins))
    return compile_variant(program, Request("rows", schedule, M, choices=choices or {}, arch=arch)).ptx


def told(path: Path) -> TileError:
    """What a compile says of a plug-in."""
    with pytest.raises(TileError) as error:
        ptx(path)
    assert error.value.code == "plugin" and error.value.loc is not None
    assert Path(error.value.loc.source.name).suffix in (".py", ".toml")
    return error.value


# ---- the examples of the documents ----


def counters(*words: object) -> dict[str, Any]:
    status, said = command("run", "--device", "emulator", *words, "--json")
    assert status == 0, said
    return json.loads(said)["counters"]


def test_a_layout_takes_fewer_shuffles() -> None:
    plugin = ["--plugin", EXAMPLES / "fewer_shuffles.py"]
    as_ever, other = counters(ROWS, *plugin), counters(ROWS, *plugin, "--choose", "vector.x.load=eight_lanes")
    assert (as_ever["shuffles"], other["shuffles"]) == (640, 96)
    _, said = command("why", ROWS, *plugin, "--choice", "vector")
    assert "eight_lanes: 4" in said and "choose vector.x.load: eight_lanes" in said
    _, said = command("schedule", ROWS, *plugin, "--choose", "vector.x.load=eight_lanes")
    assert "choose vector.x.load: eight_lanes" in said


def test_a_choose_line_takes_an_option_of_a_plug_in(tmp_path: Path) -> None:
    file, plugins = tmp_path / "rows.tile", [EXAMPLES / "fewer_shuffles.py"]
    file.write_text(ROWS.read_text().replace("16, 256\n", "16, 256\n    choose vector.x.load: eight_lanes\n"))
    forced = ptx(*plugins, choices={"vector": "eight_lanes"}).partition(".version")[2]
    mine = dsl.load(file, "emulator", plugins=plugins).compile("rows", "plain", m=64).ptx.partition(".version")[2]
    assert mine.count("shfl") == forced.count("shfl") == 6
    with pytest.raises(TileError, match="has no option 'eight_lanes' here") as error:
        dsl.load(file, "emulator").compile("rows", "plain", m=64)
    assert error.value.loc is not None and error.value.loc.line == 13


def test_passes_join_barriers_and_may_be_left_out() -> None:
    words = [ROWS, "--schedule", "across", "--plugin", EXAMPLES / "join_reductions.py"]
    assert counters(*words)["barriers"] == 256
    assert counters(*words, "--skip-pass", "loads_late")["barriers"] == 512
    status, said = command("verify", *words, "--given-only")
    assert status == 0 and f"{len(PASSES) + 2} passes and the PTX agree" in said


def test_a_directive_moves_a_load_ahead_of_barriers() -> None:
    words = [EXAMPLES / "early.tile", "--schedule", "ahead", "--plugin", EXAMPLES / "early.py"]
    _, text = command("compile", *words)
    assert text.rindex("ld.global") < text.index("bar.sync")
    assert command("verify", *words, "--given-only")[0] == 0
    _, text = command("compile", ROWS, "--schedule", "across")
    assert text.rindex("ld.global") > text.index("bar.sync")
    _, said = command("schedule", *words)
    assert "\n    early weight  # " in said
    assert "early VALUES" in command("explain", "early", *words[-2:])[1]


def test_the_word_of_a_directive_is_unknown_without_its_plug_in(tmp_path: Path) -> None:
    file = EXAMPLES / "early.tile"
    with pytest.raises(TileError, match="a schedule has no property 'early'") as error:
        dsl.load(file, "emulator").compile("rows", "ahead", m=64)
    assert error.value.loc is not None and error.value.loc.line == 5
    plugins = [EXAMPLES / "early.py"]
    (tmp_path / "rows.tile").write_text(ROWS.read_text())
    for line, wanted in (("early weight: 3", "early VALUES"), ("early weigth", "no value 'weigth'")):
        (tmp_path / "x.tile").write_text(file.read_text().replace("early weight", line))
        with pytest.raises(TileError, match=wanted) as error:
            dsl.load(tmp_path / "x.tile", "emulator", plugins=plugins).compile("rows", "ahead", m=64)
        assert error.value.errors[0].loc is not None and error.value.errors[0].loc.line == 5


def test_an_instruction_is_emitted_run_and_assembled() -> None:
    words = [ROWS, "--arch", "sm_100", "--plugin", EXAMPLES / "packed.py"]
    _, text = command("compile", *words)
    assert "mul.rn.f32x2" in text
    assert "f32x2" not in command("compile", *words, "--choose", "rule=own")[1]
    assert "f32x2" not in command("compile", ROWS, "--plugin", EXAMPLES / "packed.py")[1]  # sm_90 has none
    status, said = command("verify", *words)
    assert status == 0 and said.count("agree") == 3
    with suppress(DeviceError):  # where there is no assembler
        assert assemble(text, "sm_100", "rows", None).registers > 0


MEANT = ("a.astype(float)", "a[:1].repeat(3)", "a.nope", "np.add(a)")


@pytest.mark.parametrize("number", range(len(MEANT)))
def test_a_meaning_that_gives_something_else_is_told(write: Write, tmp_path: Path, number: int) -> None:
    name = f"mine{number}.f32"  # the emulator keeps what it was told by another file
    row = {
        "name": name,
        "asm": f"{name} {{d}}, {{a}}, {{b}};",
        "arch": "sm_80",
        "ptx": "7.0",
        "section": "",
        "meaning": "",
    }
    lines = [f"{key} = {json.dumps(text)}" for key, text in row.items()]
    operands = 'operands = ["out d f32", "in a f32", "in b f32"]'
    (tmp_path / "mine.toml").write_text("\n".join(["[[instruction]]", *lines, operands]))
    path = write(
        f"import numpy as np\ninstructions('mine.toml')\n@semantics('{name} : =f32 f32 f32 : sm_80 7.0')\n"
        f"def meant(a, b): return {MEANT[number]}\n@rule('mul', when=lambda op, target: op.result.dtype.is_float)\n"
        f"def mine(w, op, x): return w.template('{name}', x, op)[0]\n"
    )
    kernel = dsl.load(ROWS, "emulator", plugins=[path]).compile("rows", m=16)
    with pytest.raises(TileError) as error:
        kernel.run(np.zeros(16, np.float32), np.ones((16, 256), np.float16), np.ones(16, np.float32))
    assert error.value.code == "plugin" and error.value.loc is not None and error.value.loc.line in (6, 7)


def test_the_meaning_of_an_instruction_is_the_plug_ins_alone() -> None:
    """Halves are added, and not the words: what the emulator does is the function that was given."""
    (made, *_) = load_plugins([EXAMPLES / "packed.py"]).every("semantics")
    a, b = np.array([1.5, -2.0], np.float32), np.array([0.25, 8.0], np.float32)
    assert list(made(a.view(np.uint64), b.view(np.uint64)).view(np.float32)) == [1.75, 6.0]


# ---- what goes by plug-ins ----


def test_nothing_changes_without_one_and_two_never_mix(write: Write) -> None:
    before = ptx()
    changed = ptx(EXAMPLES / "fewer_shuffles.py", choices={"vector": "eight_lanes"})
    assert changed != before == ptx()
    module = dsl.load(ROWS, "emulator", plugins=[EXAMPLES / "join_reductions.py"])
    assert module.compile("rows", "across", m=64).ptx != dsl.load(ROWS, "emulator").compile("rows", "across", m=64).ptx
    assert passes_of(load(ROWS).plugins) is PASSES and load(ROWS).plugins is NONE


def test_a_file_is_read_once_for_each_of_its_texts(write: Write) -> None:
    text = '@pass_(after="sink")\ndef mine(function, target): pass\n'
    path = write(text)
    first = load_plugins([path, path])
    assert first is load_plugins([str(path)]) and len(first.added) == 1
    second = load_plugins([write(text + "# another text\n")])
    assert second is not first and second.digests != first.digests


def test_a_command_leaves_nothing_behind() -> None:
    command("compile", ROWS, "--plugin", EXAMPLES / "packed.py")
    assert current() is NONE


def test_other_processes_load_them_again(write: Write, tmp_path: Path) -> None:
    path = EXAMPLES / "fewer_shuffles.py"
    program = load(ROWS, plugins=load_plugins([path]))
    request = Request("rows", "plain", M, choices={"vector": "eight_lanes"})
    with Compiler(program, 1, "none") as compiler:
        made = compiler.made(request)
    assert made.error is None and made.taken["vector.x.load"] == "eight_lanes"
    assert versions(program.plugins).keys() - versions().keys() == {"plugin fewer_shuffles.py"}
    asked = {"file": str(ROWS), "device": "emulator", "why": "", "choose": {"vector": "eight_lanes"}}
    give(lambda: program.plugins)
    try:
        said = answer_of_child("dsl.command.request", asked, None, 100.0)
    finally:
        give(lambda: NONE)
    assert said["launches"][0]["counters"]["shuffles"] == 96


def test_what_was_tuned_under_one_serves_it_alone(tmp_path: Path) -> None:
    def entry(**plugins: str) -> Entry:
        return Entry("d", "f", {}, {}, {"n": 8}, (), (), "0", plugins=plugins)

    call, mine = CallFacts("f", {}, {}, {"n": 8}), {"mine": "1"}
    under = Tuned(None, [entry(mine="1")])
    found = under.find("d", call, mine)
    assert found is not None and found.entry.plugins == mine
    assert under.find("d", call, {}) is under.find("d", call, {"mine": "2"}) is None
    both = Tuned(None, [entry(mine="1"), entry()])
    for plugins, wanted in ((mine, mine), ({}, {}), ({"other": "1"}, {})):
        found = both.find("d", call, plugins)
        assert found is not None and found.entry.plugins == wanted
    file = tmp_path / "rows.tile"
    file.write_text(ROWS.read_text().replace("warps = 4", "tune warps in 4, 2"))
    words = ["--emulator", "--jobs", "1", "--log", tmp_path / "log.jsonl", "--plugin", EXAMPLES / "early.py"]
    assert command("tune", file, "--schedule", "plain", *words, "--write")[0] == 0
    (made,) = read_tuned(tmp_path / "rows.tuned.json").entries
    assert made.plugins.keys() == {"early.py"}
    assert "and are taken under it alone" in command("run", "--device", "emulator", file, "--explain")[1]


# ---- options ----


def test_a_cost_below_the_rules_wins_and_preferred_always(write: Write) -> None:
    text = '@option("l2_group")\ndef rows(about):\n    assert about.rule == "8" and about.of.name == "product"\n'
    program = Path(__file__).parents[2] / "samples" / "matmul.tile"

    def shown(path: Path, choice: str) -> str:
        words = ["--schedule", "mma_sync", "--plugin", path, "--choice", choice, "--all"]
        return command("why", program, *words)[1]

    def said(option: str) -> str:
        path = write(f"{text}    return Option('three', 3, {option})\n")
        return shown(path, "l2_group")

    assert "three*" in said("preferred=True, because='odd'") and "odd (mine.py:4)" in said(
        "preferred=True, because='odd'"
    )
    offered = said("cost=1.0")  # the choice has no costs
    assert "8*" in offered and "three: 1" in offered and "choose l2_group.grid: three" in offered
    swizzle = """
@option("swizzle")
def worse(about):
    return Option("worse", (), COST)
"""
    path = write(swizzle.replace(", COST", ""))
    assert "3, 4, 4*: 31" in shown(path, "swizzle.sa")
    path = write(swizzle.replace("COST", "cost=1"))
    assert "worse*: 1" in shown(path, "swizzle")


def test_a_change_of_layout_goes_by_another(write: Write) -> None:
    """By the layout that it has and by the one that it gets; results stay."""
    path = write('@option("convert_layout")\ndef via(about):\n    return Option("via", about.of.layout)\n')
    sample = Path(__file__).parents[2] / "samples" / "attention.tile"
    status, said = command(
        *("run", "--device", "emulator", sample, "s=32", "t=32", "--schedule", "attend_tile", "TM=128"),
        *("--plugin", path, "--choose", "convert_layout=via"),
    )
    assert status == 0, said


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        ("vector", "8", "it takes a Layout of [16, 256]"),
        ("vector", "type(about.of.tile.layout)", "it takes a Layout"),
        ("vector", "L.default((16, 256), 8)", "the block has 4 warps of 32 lanes; this is for 8"),
        ("vector", "L.registers((16, 256), [], [1, 2, 4, 8, 16], [32, 64])", "lies nowhere"),
    ],
)
def test_a_value_that_is_none_is_told(write: Write, kind: str, value: str, wanted: str) -> None:
    text = (
        f"from dsl.lowering.layouts.layout import Layout as L\n@option('{kind}')\n"
        f"def mine(about): return Option('mine', {value})\n"
    )
    error = told(write(text))
    assert wanted in error.message and error.loc is not None and error.loc.line == 5


@pytest.mark.parametrize(
    "value", ["7", "((3, 16),)", "((7, 128),)", "((7, 1),)", "((40, 16),)", "((7, 16), (7, 32))", "((7, 16), (4, 1))"]
)
def test_a_swizzle_that_is_none_is_told(write: Write, value: str) -> None:
    path = write(f"@option('swizzle')\ndef mine(about): return Option('mine', {value})\n")
    sample = Path(__file__).parents[2] / "samples" / "matmul.tile"
    with pytest.raises(TileError, match="gave 'mine' the value") as error:
        dsl.load(sample, "emulator", plugins=[path]).compile("product", "mma_sync", m=64, n=64, k=64)
    assert error.value.code == "plugin"


def test_the_kinds_that_are_open_are_those_that_hand_something_over() -> None:
    root = Path(__file__).parents[2]
    opened = set()
    for path in (root / "dsl" / "lowering").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and any(each.arg == "opening" for each in node.keywords):
                opened.add(ast.literal_eval(node.args[0]))
    assert opened == OPEN.keys()
    text = (root / "docs" / "plugins.md").read_text()
    assert all(f"| `{kind}` |" in text for kind in OPEN)


# ---- what is wrong ----

DIRECTIVE = '@directive("{}", subject="v", takes={}, doc="", example="", after="sink")\ndef f(*a): pass'
WRONG = {
    "import nosuch": (4, "ModuleNotFoundError"),
    "def f(:": (4, "SyntaxError"),
    "raise SystemExit(3)": (4, "SystemExit"),
    '@pass_(after="recompte")\ndef f(function, target): pass': (4, "no such pass"),
    "@pass_()\ndef f(function, target): pass": (4, "stands nowhere"),
    '@pass_(after="sink")\ndef simplify(function, target): pass': (4, "there is already"),
    '@option("swizle")\ndef f(about): pass': (4, "not open"),
    '@option("vector")\ndef f(about): return 3': (4, "gave 3"),
    '@option("vector")\ndef f(about): return Option("8", 8)': (4, "names its option '8'"),
    '@rule("mull")\ndef f(w, op, x): pass': (4, "no such operation"),
    '@rule("store")\ndef f(w, op, x): pass': (4, "which has none"),
    '@rule("mul")\ndef f(w, op, x): pass': (4, "gave None for an element"),
    '@rule("mul", whole=True)\ndef f(w, op): pass': (4, "without values"),
    '@rule("mul", when=lambda op, target: op.nope)\ndef f(w, op, x): pass': (4, "AttributeError"),
    '@rule("mul")\ndef f(w, op, x): return w.let("mull i7 1")': (4, "LLVM does not take"),
    '@semantics("add.f32 : =f32 f32 f32")\ndef f(a, b): pass': (4, "known already"),
    '@semantics("mine.f32 : f32")\ndef f(a): pass': (4, "one destination"),
    'instructions("nix.toml")': (4, "cannot read"),
    '@directive("unroll", subject="v", takes=None, doc="", example="", after="sink")\ndef f(*a): pass': (
        4,
        "exists already",
    ),
    '@directive("mine", subject="v", takes=3.5, doc="", example="", after="sink")\ndef f(*a): pass': (4, "takes 3.5"),
    'def g(x):\n    return x.nope\n@pass_(after="sink")\ndef f(function, target): g(function)': (5, "'f' raised"),
    '@pass_(after="sink")\ndef f(function, target): function.body.ops.reverse()': (4, "not well-formed"),
}


@pytest.mark.parametrize("text", WRONG, ids=range(len(WRONG)))
def test_a_mistake_is_told_at_its_line(write: Write, text: str) -> None:
    line, wanted = WRONG[text]
    error = told(write(text + "\n"))
    assert error.loc is not None and (error.loc.line, wanted in error.message) == (line, True), error.render()


def test_rows_that_do_more_than_compute_are_refused(write: Write, tmp_path: Path) -> None:
    row = (EXAMPLES / "packed.toml").read_text()
    path = write('instructions("mine.toml")\n')
    for text, wanted in (
        (row + "convergent = true\n", "does more than compute"),
        (row.replace("{op}.rn.f32x2", "{op}.f32").replace('"add", "sub", "mul"', '"rcp.approx"'), "already"),
        ("[", "no rows"),
    ):
        (tmp_path / "mine.toml").write_text(text)
        assert wanted in told(path).message


CHANGE = """
@pass_(before="assign_layouts")
def change(function, target):
    for op in walk(function.body):
        if op.name == "mul":
            op.spec, op.name = OPS["add"], "add"
"""


@pytest.mark.parametrize("name", ["run", "bench", "fuzz"])
def test_a_pass_that_changes_the_meaning_is_told_where_something_is_launched(write: Write, name: str) -> None:
    path = write(CHANGE)
    status, said = command(name, "--device", "emulator", ROWS, "--plugin", path)
    assert status == 2 and "mine.py:5:1: error[plugin]: 'change' changes what rows means: value 'r' differs" in said
    assert command("run", "--device", "emulator", ROWS, "--plugin", path, "--skip-pass", "change")[0] == 0


@pytest.mark.parametrize("behind", ["assign_layouts", "sink", "place_waits"])
def test_a_pass_sees_products_of_warp_groups(write: Write, tmp_path: Path, behind: str) -> None:
    file = tmp_path / "product.tile"
    file.write_text(
        "kernel f(c: f32[m, n], a: f16[m, k], b: f16[n, k]):\n    grid cdiv(m, 64), cdiv(n, 64)\n"
        "    i, j, acc = block(0) * 64, block(1) * 64, zeros(f32[64, 64])\n    for p in range(0, k, 64):\n"
        "        acc = dot(a[i : i + 64, p : p + 64], b[j : j + 64, p : p + 64].T, acc)\n"
        "    c[i : i + 64, j : j + 64] = acc\n\nexample:\n    a, b = randn(f16[64, 128]), randn(f16[64, 128])\n"
        "    c = empty(f32[64, 64])\n    f(c, a, b)\n    expect c ~= ref.matmul(a, b.T) within 1e-3\n"
    )
    name = "wgmma_wait" if behind == "place_waits" else "shared_view"
    path = write(
        f'@pass_(after="{behind}")\ndef mine(function, target):\n'
        f'    assert any(op.name == "{name}" for op in walk(function.body))\n'
    )
    status, said = command("run", "--device", "emulator", "--arch", "sm_90a", file, "--plugin", path)
    assert status == 0, said


def test_what_has_no_meaning_in_numpy_is_launched_with_a_warning(write: Write, tmp_path: Path) -> None:
    file = tmp_path / "asm.tile"
    file.write_text(
        "kernel f(y: s32[n], a: s32[n]):\n    grid 1\n    v = a[0 : 32]\n"
        '    y[0 : 32] = asm("add.s32 {d}, {0}, {1};", s32, v, v)\n\n'
        "example:\n    a = randint(s32[32], 0, 100)\n    y = empty(s32[32])\n    f(y, a)\n    expect y == a + a\n"
    )
    path = write('@pass_(after="sink")\ndef mine(function, target): pass\n')
    with pytest.warns(NotCompared, match="'mine' is not compared on f"):
        assert command("run", "--device", "emulator", file, "--plugin", path)[0] == 0


def test_verify_names_the_plug_ins_pass_and_rule(write: Write) -> None:
    status, said = command("verify", ROWS, "--plugin", write(CHANGE), "--given-only")
    assert status == 1 and "first diverging pass change (mine.py:5): value 'r' differs" in said
    text = "from dsl.lowering.ir.types import F32\n@rule('mul', when=lambda op, target: op.result.dtype is F32)\n"
    path = write(text + "def wrong(w, op, x): return w.let(f'fadd float {x[0]}, {x[1]}')\n")
    status, said = command("verify", ROWS, "--plugin", path, "--given-only")
    assert status == 1 and "first diverging pass rule wrong (mine.py:5): tensor 'y' differs" in said
    assert command("run", "--device", "emulator", ROWS, "--plugin", path)[0] == 1


def test_stages_have_the_passes_of_plug_ins_in_their_places(write: Write) -> None:
    path = write(
        '@pass_(after="sink")\ndef one(function, target): pass\n'
        '@pass_(after="sink")\ndef two(function, target): pass\n'
        '@pass_(before="one")\ndef zero(function, target): pass\n'
    )
    names = [name for name, _, _ in levels_of(load(ROWS, plugins=load_plugins([path])), Request("rows", "plain", M))]
    at = names.index("sink")
    assert names[at : at + 4] == ["sink", "zero", "one", "two"]


def test_a_pass_that_ends_the_process_is_a_mistake_of_the_plug_in(write: Write) -> None:
    """`dsl run` printed nothing, and its status was the plug-in's: 0."""
    path = write("@pass_(after='recompute')\ndef mine(function, target): raise SystemExit(0)\n")
    with pytest.raises(TileError, match="raised SystemExit: 0"):
        dsl.load(ROWS, "emulator", plugins=[path]).compile("rows", m=16)


# ---- what the user's code leaves, raises or never ends ----

LEFT = {
    "f.body = None": "`function.body` is None: it is a Block",
    "f.body.ops.append(3)": "3 stands among operations",
    "f.body.ops.append(f.body.ops[0])": "stands in two places",
    "walk(f.body)[0].operands = [None]": "it is no Value",
    "walk(f.body)[0].attrs = None": "its `attrs` is None",
    "f.warps = 3": "`function.warps` is 3",
    "f.grid = [1]": "`function.grid` is [1]",
    "f.holds = None": "`function.holds` is None",
    "f.attrs['unroll'] = 3": "`function.attrs['unroll']` is 3",
    "f.params[0].name = float('nan')": "`name` of nan",
    "f.body.args.clear()": "is none of the body's arguments",
    "walk(f.body)[-1].regions.append(f.body)": "a block stands in two places",
    "next(o for o in walk(f.body) if o.name == 'block_id').attrs['axis'] = 'x'": "its 'axis' is 'x'",
    "next(o for o in walk(f.body) if o.results).results[0].type = 'f32'": "a value of the type 'f32'",
}


@pytest.mark.parametrize("line", LEFT)
def test_what_a_pass_leaves_that_is_no_ir_is_told(write: Write, line: str) -> None:
    error = told(write(f"@pass_(before='assign_layouts')\ndef spoils(f, t):\n    {line}\n"))
    assert "'spoils' leaves" in error.message and LEFT[line] in error.message


def test_where_the_compiler_fails_behind_a_pass_the_pass_is_named(write: Write) -> None:
    """What it left is well-formed, but for what a pass of the compiler found out and emission needs."""
    lines = "for op in walk(f.body):\n        op.attrs.pop('offset', None)"
    file = write(f"@pass_(after='marks')\ndef spoils(f, t):\n    {lines}\n")
    with pytest.raises(TileError, match="'spoils' leaves IR that emission does not take: KeyError: 'offset'"):
        ptx(file, schedule="across")


@pytest.mark.parametrize(
    ("gave", "says"),
    [
        ("Option('one', about.options[about.rule], cost='x')", "the cost 'x'"),
        ("Option('one', about.options[about.rule], cost=float('nan'))", "the cost nan"),
        ("Option('one', about.options[about.rule], because=3)", "what is no text"),
        ("Option('one', object())", "the value"),
        ("about.options.clear()", "raised AttributeError"),
    ],
)
def test_an_option_of_wrong_kinds_is_told(write: Write, gave: str, says: str) -> None:
    assert says in told(write(f"@option('vector')\ndef mine(about):\n    return {gave}\n")).message


ENDLESS = {
    "pass": "@pass_(before='assign_layouts')\ndef mine(f, t):\n    while True:\n        pass\n",
    "a wait": "import time\n@pass_(before='assign_layouts')\ndef mine(f, t):\n    time.sleep(1000)\n",
    "option": "@option('vector')\ndef mine(about):\n    while True:\n        pass\n",
    "rule": "@rule('mul')\ndef mine(w, op, x):\n    while True:\n        pass\n",
    "when": "def ever(op, target):\n    while True:\n        pass\n@rule('mul', when=ever)\ndef mine(w, op, x): pass\n",
    "file": "while True:\n    pass\n",
    "who catches all": """\
@pass_(before='assign_layouts')
def mine(f, t):
    while True:
        try:
            [n for n in range(99)]
        except Exception:
            pass
""",
}


@pytest.fixture
def by_ctrl_c() -> Iterator[None]:
    """Python's own handler of SIGINT, which ends waits. Shells have background jobs ignore SIGINT: then this sleeps
    1000 seconds, and a suite that was started with & took as much longer."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("what", ENDLESS)
@pytest.mark.usefixtures("by_ctrl_c")
def test_what_does_not_end_is_told(write: Write, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_limit, "SECONDS", 0.2)
    error = told(write(ENDLESS[what]))
    assert "did not end in 0.2 seconds" in error.message and error.loc is not None and error.loc.line > 3


def test_a_limit_of_time_holds_in_other_threads_and_for_calls_in_calls() -> None:
    def endless() -> None:
        while True:
            pass

    def ends() -> str:
        try:
            with time_limit.limited(0.1):
                endless()
        except time_limit.Overdue:
            return "overdue"
        return "done"

    with ThreadPoolExecutor(2) as pool:
        assert {each.result() for each in [pool.submit(ends) for _ in range(3)]} == {"overdue"}
    with time_limit.limited(60):
        assert ends() == "overdue"
    with pytest.raises(time_limit.Overdue), time_limit.limited(0.1), time_limit.limited(60):
        endless()
    with pytest.raises(KeyboardInterrupt), time_limit.limited(60):
        raise KeyboardInterrupt


SEARCHES_THAT_FAIL = {
    "def ask(self, count):\n        return 1 / 0": "'Mine.ask' raised ZeroDivisionError",
    "def ask(self, count):\n        return None": "'Mine.ask' gave None",
    "def ask(self, count):\n        return [3]": "'Mine.ask' gave [3]",
    "def ask(self, count):\n        return self.points[:1]": "has requested known points",
    "def ask(self, count):\n        while True:\n            pass": "'Mine.ask' did not end in 0.2 seconds",
    "def __init__(self, *given):\n        raise OSError": "'Mine.__init__' raised OSError",
    "def tell(self, trials): return {}[0]\n    def ask(self, count): return self.take(self.fresh(), 1)":
    "'Mine.tell' raised KeyError",
    "rungs = 3\n    def ask(self, count):\n        return self.take(self.fresh(), 1)": "has left `rungs` 3",
}  # fmt: skip


@pytest.mark.parametrize("body", SEARCHES_THAT_FAIL)
def test_a_search_that_fails_is_told(write: Write, tmp_path: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_limit, "SECONDS", 0.2)
    head = "from dsl.lab.search import Search, search\n"
    file = write(f"{head}@search('mine')\nclass Mine(Search):\n    {body}\n")
    words = [written(tmp_path, TINY), "--emulator", "--jobs", 0, "--log", tmp_path / "log.jsonl", "--budget", 2]
    try:
        status, said = command("tune", *words, "--search", "mine", "--plugin", file)
    finally:
        SEARCHES.pop("mine", None)
    assert status == 2 and SEARCHES_THAT_FAIL[body] in said, said


MODELS_THAT_FAIL = {
    "def predict(self, features):\n        return 1 / 0": "'Mine.predict' raised ZeroDivisionError",
    "def predict(self, features):\n        return None": "'Mine.predict' gave None",
    "def predict(self, features):\n        return float('nan')": "'Mine.predict' gave nan",
    "def predict(self, features):\n        return features['nothing']": "the model needs 'nothing'",
    "def predict(self, features):\n        while True:\n            pass": "'Mine.predict' did not end",
}


@pytest.mark.parametrize("body", MODELS_THAT_FAIL)
def test_a_model_that_fails_is_told(write: Write, tmp_path: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_limit, "SECONDS", 0.2)
    head = "from dsl.lab.model import Model, model\n"
    file = write(f"{head}@model('mine')\nclass Mine(Model):\n    of = 'work'\n    {body}\n")
    words = [written(tmp_path, TINY), "--emulator", "--jobs", 0, "--log", tmp_path / "log.jsonl", "--budget", 1]
    try:
        status, said = command("tune", *words, "--model", "mine", "--plugin", file)
    finally:
        MODELS.pop("mine", None)
    assert status == 2 and MODELS_THAT_FAIL[body] in said, said


@pytest.mark.parametrize("mark", ["search", "model"])
def test_a_search_or_model_that_is_no_class_of_its_kind_is_told(write: Write, mark: str) -> None:
    error = told(write(f"from dsl.lab.{mark} import {mark}\n@{mark}('mine')\nclass Mine:\n    pass\n"))
    assert f"is no class derived from {mark.title()}" in error.message
