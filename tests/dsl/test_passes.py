"""Passes as rows: what they need and give, what may be left out and by which commands."""

from __future__ import annotations

import json
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

import numpy as np
import pytest
from click.testing import CliRunner

import dsl
from dsl.command import cli
from dsl.kernels.compile import lower
from dsl.kernels.variant import Request, build_variant
from dsl.lowering import passes as rooms
from dsl.lowering.ir.location import TileError
from dsl.lowering.passes import EMISSION_NEEDS, PASSES, check_complete, run_passes
from dsl.schedules.properties import PROPERTIES
from dsl.text.program import Program, load
from tests.compile_and_run import through

ROOT = Path(__file__).parents[2]
SOFTMAX = ROOT / "samples" / "softmax.tile"


def request() -> tuple[Program, Request]:
    return load(SOFTMAX), Request("softmax_rows", "whole", {"rows": 8, "cols": 1000})


def said(*arguments: str) -> tuple[int, str]:
    """(exit status, output) of a command."""
    result = CliRunner().invoke(cli, arguments, standalone_mode=False)
    assert result.exception is None, result.exception
    return result.return_value or 0, result.output


def test_the_name_of_a_pass_is_its_module() -> None:
    """Functions of the same names hid the modules: `import dsl.lowering.passes.recompute as p` gave a function."""
    for found in iter_modules(rooms.__path__):
        assert isinstance(getattr(rooms, found.name), ModuleType), found.name


def test_each_need_is_given_by_an_earlier_pass_that_stays() -> None:
    given: set[str] = set()
    for each in PASSES:
        assert given >= set(each.needs), each.name
        given |= set(each.gives)
        assert not each.gives or not each.may_go
        assert set(each.reads) <= PROPERTIES.keys(), each.name
    assert given >= set(EMISSION_NEEDS)


@pytest.mark.parametrize("name", [each.name for each in PASSES if each.needs])
def test_a_pass_without_what_it_needs_is_refused_with_a_sentence(name: str) -> None:
    made = build_variant(*request())
    row = next(each for each in PASSES if each.name == name)
    with pytest.raises(TileError, match=rf"the pass '{name}' needs {row.needs[0]}, which '\w+' gives"):
        run_passes(made.function, made.target, [row])


def test_emission_without_what_it_needs_is_refused_with_a_sentence() -> None:
    made = build_variant(*request())
    run_passes(made.function, made.target, through("assign_layouts"))
    with pytest.raises(TileError, match="emission needs conversions lowered, which the pass 'lower_conversions' gives"):
        check_complete(made.function)
    with pytest.raises(TileError, match="emission needs"):
        lower(*request(), through("assign_layouts"))


def test_code_does_not_lean_on_passes_that_may_go() -> None:
    """Without dead-code removal emission named registers that nothing had made: 57 of the 299 sample variants."""
    free = {f"pass.{each.name}": "off" for each in PASSES if each.may_go and each.sound}
    x = np.random.default_rng(0).standard_normal((5, 1000)).astype(np.float32)
    plain, without = np.zeros_like(x), np.zeros_like(x)
    dsl.load(SOFTMAX, "emulator").softmax(plain, x)
    dsl.load(SOFTMAX, "emulator", choose=free).softmax(without, x)
    np.testing.assert_allclose(without, plain, rtol=1e-6)
    conv = str(ROOT / "samples" / "int8_conv.tile")
    status, output = said("run", conv, "--device", "emulator", "--skip-pass", "simplify", "--skip-pass", "clean")
    assert status == 0, output


def test_a_module_without_a_pass_has_kernels_of_its_own() -> None:
    with_all = dsl.load(SOFTMAX, "emulator").compile("softmax_rows", "whole", rows=8, cols=1000).ptx
    module = dsl.load(SOFTMAX, "emulator", choose={"pass.insert_barriers": "off"})
    assert "bar.sync" in with_all
    assert "bar.sync" not in module.compile("softmax_rows", "whole", rows=8, cols=1000).ptx
    for name in ("barriers", "place_shared"):
        module = dsl.load(SOFTMAX, "emulator", choose={f"pass.{name}": "off"})
        module.compile("softmax_rows", "whole", rows=8, cols=1000)
        with pytest.raises(TileError, match=f"no choice has the key 'pass.{name}'"):
            module.asked.check()


@pytest.mark.parametrize("command", ["run", "bench", "tune", "compile"])
def test_commands_leave_a_pass_out(command: str, tmp_path: Path) -> None:
    """Without barriers the emulator finds a race: that the pass is out shows."""
    file = tmp_path / "k.tile"
    file.write_text("""
kernel k(y: f32[256], x: f32[256]; B = 256):
    grid 1
    shared s: f32[256]
    s[0 : 256] = load(x[0 : 256])
    store(y[0 : 256], s[255 - arange(256)])

schedule s of k:
    warps = 4
    tune B in 256

example k:
    x = randn(f32[256])
    y = empty(f32[256])
    k(y, x)
    expect y == y
""")
    place = {"run": ["--device", "emulator"], "bench": ["--device", "emulator"], "compile": [],
             "tune": ["--emulator", "--json", "--log", str(tmp_path / "log.jsonl")]}[command]  # fmt: skip
    status, with_all = said(command, str(file), *place)
    assert status == 0, with_all
    status, without = said(command, str(file), *place, "--skip-pass", "insert_barriers")
    if command == "compile":
        assert "bar.sync" in with_all and "bar.sync" not in without
    elif command == "tune":
        trials = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
        assert len(trials) == 2 and trials[0]["status"] == "counted" != trials[1]["status"], trials
        assert trials[1]["choices"] == {"pass.insert_barriers": "off"} and "race" in trials[1]["reason"]
    else:
        assert status != 0 and "race" in without, without
    for name in ("no", "place_shared"):
        status, output = said(command, str(file), *place, "--skip-pass", name)
        assert status == 2 and name in output
