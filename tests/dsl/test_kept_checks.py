"""`dsl check` with the compile cache finds what it finds without, also after edits of one block."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dsl.command import cli
from dsl.command.failures import record
from dsl.runtime import store as stores
from dsl.studies import check
from dsl.studies.check import check_file
from dsl.studies.findings import Findings
from dsl.studies.kept_checks import kept_findings

ROOT = Path(__file__).parents[2]
NAMES = (
    *("softmax", "matmul_w4", "layer_norm", "decode", "reduction", "int8_conv", "conv1d"),
    *("softmax_backward", "matmul_scaled"),  # notes within blocks
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(stores, "_set", None)
    monkeypatch.setenv("DSL_CACHE", str(tmp_path / "cache"))
    yield tmp_path / "cache"


def copied(name: str, folder: Path) -> Path:
    """A sample with the samples that it may import."""
    for path in (ROOT / "samples").glob("*.tile"):
        (folder / path.name).write_text(path.read_text())
    return folder / f"{name}.tile"


def data(found: Findings) -> tuple[Any, ...]:
    said = [[record(each) for each in part] for part in (found.sorted(), found.notes)]
    return found.variants, *said


def without_cache(path: Path, monkeypatch: pytest.MonkeyPatch) -> Findings:
    with monkeypatch.context() as patch:
        patch.setenv("DSL_CACHE", "off")
        return check_file(path)


def lowered(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Findings, int]:
    """The findings, and how many variants were lowered or built for them."""
    count = 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            nonlocal count
            count += 1
            return function(*given, **named)

        return call

    with monkeypatch.context() as patch:
        for name in ("lower", "build_variant"):
            patch.setattr(check, name, counted(getattr(check, name)))
        return check_file(path), count


def commented(text: str) -> str:
    return "# a comment\n" + text


def after_kernel(text: str) -> str:
    """One more statement in the first kernel."""
    return re.sub(r"(^    grid .*\n)", r"\1    one_more_name = 1 + 1\n", text, count=1, flags=re.M)


def wrong_kernel(text: str) -> str:
    return re.sub(r"(^    grid .*\n)", r"\1    one_more_name = no_such_name + 1\n", text, count=1, flags=re.M)


def wrong_schedule(text: str) -> str:
    return re.sub(r"(^schedule [^\n]*\n)", r"\1    maxnreg 3\n", text, count=1, flags=re.M)


def unread_name(text: str) -> str:
    return re.sub(r"(^schedule [^\n]*\n)", r"\1    NO_SUCH_CONSTANT = 3\n", text, count=1, flags=re.M)


def no_example(text: str) -> str:
    return re.split(r"^example", text, maxsplit=1, flags=re.M)[0]


def broken(text: str) -> str:
    return text + "\nschedule of of of\n"


def spaced(text: str) -> str:
    """White space and comments in each block, which move all that is behind them."""
    text = re.sub(r"(?<= )(=|\+|\*) ", r" \1  ", text)
    return re.sub(r"^(    \w[^\n#\"]*)$", r"\1  # a comment\n", text, flags=re.M)


def spaced_and_wrong(text: str) -> str:
    return wrong_schedule(spaced(text))


EDITS = (
    *(commented, after_kernel, wrong_kernel, wrong_schedule, unread_name, no_example, broken),
    *(spaced, spaced_and_wrong),
)


@pytest.mark.long
@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
@pytest.mark.parametrize("name", NAMES)
def test_edits_are_checked_as_without_the_cache(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, edit: Callable[[str], str]
) -> None:
    path = copied(name, tmp_path)
    text = path.read_text()
    first = check_file(path)
    path.write_text(edit(text))
    wanted = data(without_cache(path, monkeypatch))
    assert data(check_file(path)) == wanted  # the edited parts
    assert data(check_file(path)) == wanted  # the file as it is
    path.write_text(text)
    assert data(check_file(path)) == data(first)


@pytest.mark.parametrize("name", ["softmax", "int8_conv"])
def test_a_file_that_has_not_changed_is_not_checked(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = copied(name, tmp_path)
    first, many = lowered(path, monkeypatch)
    second, none = lowered(path, monkeypatch)
    assert many > 5 and none == 0 and data(first) == data(second)
    assert kept_findings(path) is not None


@pytest.mark.parametrize("edit", [commented, spaced], ids=lambda edit: edit.__name__)
@pytest.mark.parametrize("name", ["softmax", "int8_conv", "softmax_backward", "matmul_scaled"])
def test_an_edit_of_white_space_lowers_nothing(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, edit: Callable[[str], str]
) -> None:
    path = copied(name, tmp_path)
    check_file(path)
    path.write_text(edit(path.read_text()))
    found, count = lowered(path, monkeypatch)
    assert count == 0 and not found.errors


def test_an_edit_of_a_kernel_lowers_no_other_kernel(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither for the plans of the launches: what was found to fit them is kept."""
    path = copied("layer_norm", tmp_path)
    check_file(path)
    text = path.read_text()
    place = re.compile(r"^    grid .*\n", re.M).search(text, text.index("kernel sums("))
    assert place is not None
    path.write_text(f"{text[: place.end()]}    one_more_name = 1 + 1\n{text[place.end() :]}")
    kernels = set[str]()
    lower = check.lower
    with monkeypatch.context() as patch:
        patch.setattr(check, "lower", lambda *given, **named: kernels.add(given[1].kernel) or lower(*given, **named))
        assert not check_file(path).errors
    assert kernels == {"sums"}


def test_an_edit_of_a_schedule_lowers_its_variants_alone(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = copied("layer_norm", tmp_path)
    _, every = lowered(path, monkeypatch)
    text = path.read_text()
    one = re.search(r"^schedule turns [^\n]*\n", text, re.M)
    assert one is not None
    path.write_text(text[: one.end()] + "    maxnreg 128\n" + text[one.end() :])
    _, count = lowered(path, monkeypatch)
    assert 0 < count < every / 2


@pytest.mark.parametrize("what", ["import", "tuned", "name"])
def test_what_findings_depend_on_is_in_the_key(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    (tmp_path / "parts.tile").write_text("def doubled(x):\n    return x * 2\n")
    text = 'import "parts.tile"\n\nkernel twice(y: f32[n], x: f32[n]):\n    grid cdiv(n, 256)\n'
    text += "    i = block(0) * 256\n    y[i : i + 256] = doubled(x[i : i + 256])\n"
    path = tmp_path / "twice.tile"
    path.write_text(text)
    assert not check_file(path).errors
    if what == "import":
        (tmp_path / "parts.tile").write_text("def doubled(x):\n    return x * no_such_name\n")
    elif what == "tuned":
        path.with_suffix(".tuned.json").write_text('{"schema": 1, "entries": [3]}')
    else:
        path = path.rename(tmp_path / "other.tile")
    wanted = data(without_cache(path, monkeypatch))
    assert data(check_file(path)) == wanted
    assert bool(wanted[1]) == (what != "name")


def test_the_command_does_not_import_the_compiler_again(cache: Path, tmp_path: Path) -> None:
    path = copied("softmax", tmp_path)
    check_file(path)
    code = f"""
import sys
from dsl.command import main
try:
    main(["check", {str(path)!r}])
except SystemExit as stop:
    heavy = ("lark", "dsl.text.tree", "dsl.lowering.ir.function", "numpy")
    print("LOADED", [name for name in heavy if name in sys.modules], stop.code)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert "no errors in 19 variants" in done.stdout
    assert done.stdout.splitlines()[-1] == "LOADED [] 0", done.stderr
    assert "note:" in done.stderr  # notes are kept, too


def test_a_file_that_is_gone_is_an_error(cache: Path, tmp_path: Path) -> None:
    path = copied("conv1d", tmp_path)
    check_file(path)
    path.unlink()
    result = CliRunner().invoke(cli, ["check", str(path)], standalone_mode=False)
    assert result.return_value == 2 and "cannot read" in result.output
