"""The compile cache: a process finds what another one has compiled, and never what was compiled of something else."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from msgspec import Struct

import dsl
from dsl.calls.api import Module
from dsl.calls.plan import Workspace
from dsl.command import cli
from dsl.examples.shapes import examine
from dsl.kernels import identity, loaded
from dsl.runtime import store as stores
from tests.whole import is_whole

sys.path.insert(0, str(Path(__file__).resolve().parent))
from compile_cache_worker import digests

ROOT = Path(__file__).parents[2]
COMPUTED = ("cross_entropy", "matmul_grouped", "softmax_backward")
"""Samples whose examples compute the arguments of all launches, so that only a run plans them."""
SAMPLES = sorted(path for path in (ROOT / "samples").glob("*.tile") if path.stem not in COMPUTED)
WORKER = Path(__file__).with_name("compile_cache_worker.py")

PARTS = """
def doubled(x):
    return x * 2
"""
TEXT = """
import "parts.tile"

kernel twice(y: T[n], x: T[n]; T in f32|f16, BLOCK = 256):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    y[i : i + BLOCK] = doubled(x[i : i + BLOCK])

schedule plain of twice:
    warps = 4

schedule wide of twice:
    warps = 8
"""
X = np.arange(1000, dtype=np.float32)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(stores, "_set", None)
    monkeypatch.setenv("DSL_CACHE", str(tmp_path / "cache"))
    yield tmp_path / "cache"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "parts.tile").write_text(PARTS)
    path = tmp_path / "twice.tile"
    path.write_text(TEXT)
    return path


def entries(cache: Path, kind: str) -> set[str]:
    return {path.name for path in cache.glob(f"*.{kind}")}


class Called(Struct):
    """What a call returned, its PTX, and whether its plan was in the cache: then nothing was parsed."""

    y: Any
    ptx: str
    is_kept: bool


def called(path: Path, x: Any = X, arch: str = "sm_90", strict: bool = False, **named: Any) -> Called:
    plugins = named.pop("plugins", ())
    module = dsl.load(path, device="emulator", arch=arch, strict_bounds=strict, plugins=plugins)
    y = module.twice(x, **named)
    ((_, plan),) = module.twice._plans.items()
    return Called(y, plan.kernels[0].ptx, not module._loaded.is_parsed)


def test_a_second_module_parses_and_compiles_nothing(cache: Path, file: Path) -> None:
    first, second = called(file), called(file)
    assert (first.is_kept, second.is_kept) == (False, True)
    assert first.ptx == second.ptx and (second.y == 2 * X).all()


def test_a_first_call_imports_neither_the_parser_nor_the_compiler(cache: Path, file: Path) -> None:
    called(file)
    lines = [
        "import sys, numpy, dsl",
        f"m = dsl.load({str(file)!r}, device='emulator', arch='sm_90')",
        "x = numpy.arange(1000, dtype=numpy.float32)",
        "plan = m.twice.plan_for(*m.twice.order((x,), {}))",
        "heavy = ('lark', 'llvmlite', 'dsl.text.tree', 'dsl.lowering.ir.function', 'dsl.lowering.ir.choices')",
        "print('LOADED', [name for name in heavy if name in sys.modules], len(plan.kernels))",
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "LOADED [] 1", done.stderr


def test_a_kernel_of_the_cache_has_all_its_levels(cache: Path, file: Path) -> None:
    kernels = [
        dsl.load(file, device="emulator", arch="sm_90").compile("twice", n=1000, BLOCK=128, T="f32") for _ in range(2)
    ]
    first, second = kernels
    assert second.ptx == first.ptx and second.header == first.header
    assert type(second.compiled) is not type(first.compiled)
    assert (second.ir, second.llvm) == (first.ir, first.llvm)
    assert second.compiled.variant.constants == first.compiled.variant.constants


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


EDITS: dict[str, Callable[[Path], Any]] = {
    "text": lambda file: edit(file, "warps = 4", "warps = 2"),
    "comment": lambda file: edit(file, "\nkernel", "\n# a comment moves the lines\nkernel"),
    "import": lambda file: edit(file.with_name("parts.tile"), "x * 2", "x * 2.0"),
    "tuned data": lambda file: file.with_suffix(".tuned.json").write_text('{"schema": 1, "entries": []}'),
}


@pytest.mark.parametrize("what", EDITS)
def test_an_edit_is_a_miss(cache: Path, file: Path, what: str) -> None:
    called(file)
    assert called(file).is_kept
    EDITS[what](file)
    assert not called(file).is_kept
    assert called(file).is_kept


OTHERS: dict[str, dict[str, Any]] = {
    "constant": {"BLOCK": 128},
    "schedule": {"schedule": "wide"},
    "type": {"x": X.astype(np.float16)},
    "shape": {"x": X[:992]},
    "alignment": {"x": X[1:]},
    "target": {"arch": "sm_80"},
    "variant of the target": {"arch": "sm_90a"},
    "bounds": {"strict": True},
}


@pytest.mark.parametrize("what", OTHERS)
def test_another_call_is_a_miss(cache: Path, file: Path, what: str) -> None:
    called(file)
    made = called(file, **OTHERS[what])
    assert not made.is_kept
    again = called(file, **OTHERS[what])
    assert again.is_kept and again.ptx == made.ptx and (again.y == made.y).all()


def test_another_name_is_a_miss(cache: Path, file: Path) -> None:
    """The header and the line numbers of the PTX name the file."""
    called(file)
    module = dsl.load(file, device="emulator", arch="sm_90", name="mine.tile")
    assert (module.twice(X) == 2 * X).all() and module._loaded.is_parsed
    ((_, plan),) = module.twice._plans.items()
    assert plan.kernels[0].header.source.file == "mine.tile"


def test_another_compiler_is_a_miss(cache: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called(file)
    monkeypatch.setattr(identity, "_digests", {})
    monkeypatch.setattr(identity, "_digest_by_times", lambda store: "another")
    assert not called(file).is_kept
    assert called(file).is_kept


def test_a_changed_source_is_another_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "package" / "below").mkdir(parents=True)
    source = tmp_path / "package" / "below" / "a.py"
    source.write_text("a = 1\n")
    store = stores.Store(tmp_path / "cache")
    monkeypatch.setattr(identity, "PACKAGE", tmp_path / "package")

    def digest() -> str | None:
        monkeypatch.setattr(identity, "AT_IMPORT", identity._now())
        monkeypatch.setattr(identity, "_folders", {})
        return identity._digest_by_times(store)

    first = digest()
    assert first is not None and digest() == first
    source.write_text("a = 2\n")
    assert not identity.is_unchanged()
    assert digest() not in (None, first)
    source.write_text("a = 1\n")
    assert digest() == first and identity.is_unchanged()
    source.with_name("b.py").write_text("")
    assert not identity.is_unchanged()  # a file that the compiler may find by listing its folder
    assert digest() != first
    (tmp_path / "package" / "__pycache__").mkdir()
    (tmp_path / "package" / "__pycache__" / "a.pyc").write_text("")
    assert identity.is_unchanged()


def test_a_process_whose_compiler_was_edited_keeps_nothing(
    cache: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs the old text, and the new one is in the files."""
    monkeypatch.setattr(loaded, "is_unchanged", lambda: False)
    called(file)
    assert not {path.suffix for path in cache.glob("*")} - {".sources"}


def test_numbers_of_the_users_gpu_are_part_of_the_key(
    cache: Path, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    called(file)
    assert called(file).is_kept
    (tmp_path / "config" / "dsl").mkdir(parents=True)
    (tmp_path / "config" / "dsl" / "machines.toml").write_text('["H200"]\ngpu_launch_time = 3.0\n')
    assert not called(file).is_kept


PLUGIN = """
from dsl.plugin import pass_

@pass_(after="simplify")
def nothing(function, target):
    return None
"""


def test_a_plugin_is_part_of_the_key(cache: Path, file: Path, tmp_path: Path) -> None:
    plugin = tmp_path / "mine.py"
    plugin.write_text(PLUGIN)
    called(file)
    assert not called(file, plugins=[plugin]).is_kept
    assert called(file, plugins=[plugin]).is_kept
    plugin.write_text(PLUGIN + "\n# another text\n")
    assert not called(file, plugins=[plugin]).is_kept
    assert called(file).is_kept


def test_a_plugin_that_imports_other_files_is_not_kept(cache: Path, file: Path, tmp_path: Path) -> None:
    """These may change although its own text does not."""
    plugin = tmp_path / "mine.py"
    plugin.write_text("import numpy\n" + PLUGIN)
    for _ in range(2):
        assert not called(file, plugins=[plugin]).is_kept
    assert not entries(cache, "plan")


def damaged(path: Path, how: str) -> None:
    raw = path.read_bytes()
    if how == "empty":
        path.write_bytes(b"")
    elif how == "short":
        path.write_bytes(raw[:-7])
    else:
        path.write_bytes(raw[:-7] + bytes([raw[-7] ^ 4]) + raw[-6:])


@pytest.mark.parametrize("how", ["empty", "short", "changed"])
def test_damaged_entries_are_made_again(cache: Path, file: Path, how: str) -> None:
    first = called(file)
    names = {path.name for path in cache.iterdir()}
    for name in names:
        damaged(cache / name, how)
    second = called(file)
    assert not second.is_kept and second.ptx == first.ptx and (second.y == 2 * X).all()
    assert {path.name for path in cache.iterdir()} >= {name for name in names if not name.endswith(".sources")}
    assert called(file).is_kept


@pytest.mark.parametrize("kind", ["file", "front", "plan", "ptx", "family"])
def test_one_lost_entry_is_made_again(cache: Path, file: Path, kind: str) -> None:
    first = called(file)
    for name in entries(cache, kind):
        (cache / name).unlink()
    assert called(file).ptx == first.ptx
    assert entries(cache, kind) or kind == "family"  # a kept plan needs no family
    assert called(file).is_kept


def test_variants_of_other_processes_are_found_by_their_family(cache: Path, file: Path) -> None:
    """Rows that differ only in divisors that the code does not need share one kernel, as within a process."""
    shapes = [(64, 2), (1000, 1), (96, 2)]
    texts = []
    for shape, _ in shapes:
        module = dsl.load(file, device="emulator", arch="sm_90")
        texts.append(module.compile("twice", n=shape, BLOCK=256, T="f32").ptx)
    stores.set_cache(False)
    alone = dsl.load(file, device="emulator", arch="sm_90")
    assert texts == [alone.compile("twice", n=shape, BLOCK=256, T="f32").ptx for shape, _ in shapes]
    stores.set_cache()


def test_what_was_loaded_is_compiled_whatever_the_file_contains_later(cache: Path, file: Path) -> None:
    called(file)
    module = dsl.load(file, device="emulator", arch="sm_90")
    edit(file.with_name("parts.tile"), "x * 2", "x * 3")
    edit(file, "warps = 4", "warps = 1")
    assert (module.twice(X) == 2 * X).all()  # kept
    assert not module._loaded.is_parsed
    other = module.twice(X[:500])  # parsed and compiled now
    assert module._loaded.is_parsed and (other == 2 * X[:500]).all()
    assert (called(file).y == 3 * X).all()


def test_an_import_that_leads_elsewhere_is_a_miss(cache: Path, file: Path, tmp_path: Path) -> None:
    called(file)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "parts.tile").write_text(PARTS)
    other = tmp_path / "outside" / "twice.tile"
    other.write_text(TEXT)
    assert (called(other).y == 2 * X).all()
    parts = file.with_name("parts.tile")
    parts.rename(tmp_path / "others.tile")
    parts.symlink_to(tmp_path / "others.tile")
    assert not called(file).is_kept
    parts.unlink()
    with pytest.raises(dsl.TileError, match="there is no file"):
        called(file)


def test_errors_are_not_kept(cache: Path, file: Path) -> None:
    edit(file, "doubled(x", "tripled(x")
    for _ in range(2):
        with pytest.raises(dsl.TileError, match="tripled"):
            called(file)
    edit(file, "grid", "gird")
    for _ in range(2):
        with pytest.raises(dsl.TileError):
            dsl.load(file)


def test_nothing_is_written_where_nothing_may_be(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "no_folder").write_text("")
    monkeypatch.setattr(stores, "_set", None)
    monkeypatch.setenv("DSL_CACHE", str(tmp_path / "no_folder" / "cache"))
    for _ in range(2):
        made = called(file)
        assert not made.is_kept and (made.y == 2 * X).all()
    shown = CliRunner().invoke(cli, ["cache"], standalone_mode=False).output
    assert "may not be written" in shown


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_read(cache: Path, file: Path) -> None:
    called(file)
    before = {path.name for path in cache.iterdir()}
    cache.chmod(0o500)
    try:
        assert called(file).is_kept
        assert not called(file, BLOCK=128).is_kept
        assert {path.name for path in cache.iterdir()} == before
    finally:
        cache.chmod(0o700)


def test_the_limit_holds(cache: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSL_CACHE_MB", "0.01")
    for block in (32, 64, 128, 256, 512):
        called(file, BLOCK=block)
        assert sum(path.stat().st_size for path in cache.iterdir()) <= 0.01 * (1 << 20)
    assert called(file, BLOCK=512).is_kept and not called(file, BLOCK=32).is_kept


def test_off_means_off(cache: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSL_CACHE", "off")
    assert not called(file).is_kept and not called(file).is_kept
    assert not cache.exists()
    assert "off" in CliRunner().invoke(cli, ["cache"], standalone_mode=False).output


def test_the_command_counts_and_clears(cache: Path, file: Path) -> None:
    called(file)
    run = CliRunner().invoke
    shown = json.loads(run(cli, ["cache", "--json"], standalone_mode=False).output)
    assert shown["folder"] == str(cache) and shown["writable"] and shown["off"] is None
    assert shown["entries"] == len([*cache.iterdir()]) > 4
    assert shown["bytes"] == sum(path.stat().st_size for path in cache.iterdir())
    assert str(cache) in run(cli, ["cache"], standalone_mode=False).output
    assert "removed" in run(cli, ["cache", "clear"], standalone_mode=False).output
    assert not [*cache.iterdir()]
    assert not called(file).is_kept


def plans_of(module: Module, path: Path) -> Iterator[Any]:
    """The plans of the launches in the examples of a file."""
    program = dsl.load(path).program
    for example in program.examples:
        for launch in examine(program, example).launches:
            if launch.is_known:
                rest = {**launch.rest, **({} if launch.schedule is None else {"schedule": launch.schedule})}
                yield module[launch.line.name].plan_for(launch.arguments, rest)


def as_data(value: Any) -> Any:
    if isinstance(value, Workspace):
        loc = value.loc
        return value.dtype, value.shape, value.zero, value.zeroed, value.strides, str(loc), loc.text
    return value


@pytest.mark.long
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_plans_of_samples_are_kept_as_they_are(cache: Path, path: Path) -> None:
    first = [*plans_of(dsl.load(path, device="emulator", arch="sm_90a"), path)]
    module = dsl.load(path, device="emulator", arch="sm_90a")
    second = [*plans_of(module, path)]
    assert not module._loaded.is_parsed and len(first) == len(second) > 0
    for one, two in zip(first, second, strict=True):
        assert [kernel.ptx for kernel in one.kernels] == [kernel.ptx for kernel in two.kernels]
        assert [step.request for step in one.plan.steps] == [step.request for step in two.plan.steps]
        assert one.plan.reasons == two.plan.reasons and tuple(one.outputs) == tuple(two.outputs)
        arguments = [[as_data(each) for step in plan.plan.steps for each in step.arguments] for plan in (one, two)]
        assert arguments[0] == arguments[1]
        kept = [
            [id(a) for step in p.plan.steps for a in step.arguments if isinstance(a, Workspace)] for p in (one, two)
        ]
        assert len({*kept[0]}) == len({*kept[1]})  # launches share the workspaces that they shared


PROCESSES = 100 if is_whole() else 16
BLOCKS = (64, 128, 256, 512)


def test_processes_that_are_killed_at_random_compile_what_one_alone_does(
    cache: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DSL_CACHE", "off")
    expected = {block: digests(str(file), block) for block in BLOCKS}
    monkeypatch.setenv("DSL_CACHE", str(cache))
    drawn, left = random.Random(3), PROCESSES
    running: list[tuple[subprocess.Popen[str], int, float | None]] = []
    ended = killed = 0
    while left or running:
        while left and len(running) < 4:
            left -= 1
            block = drawn.choice(BLOCKS)
            until = time.monotonic() + drawn.uniform(0.1, 2.0) if drawn.random() < 0.5 else None
            command = [sys.executable, str(WORKER), str(file), str(block)]
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
            )
            running.append((process, block, until))
        for process, _, until in running:
            if until is not None and time.monotonic() > until and process.poll() is None:
                process.kill()
                killed += 1
        for process, block, _ in [each for each in running if each[0].poll() is not None]:
            said = process.communicate()[0].split()
            if process.returncode != -9:
                assert process.returncode == 0 and said == ["DIGESTS", *expected[block]]
                ended += 1
        running = [each for each in running if each[0].returncode is None]
        time.sleep(0.01)
    assert ended > PROCESSES // 4 and killed > 0
    for block in BLOCKS:
        assert digests(str(file), block) == expected[block]
