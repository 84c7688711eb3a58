"""`dsl new --from SAMPLE`: copies that compile without the checkout, and nothing of the user's is overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from dsl.command import cli, samples
from dsl.text.program import load

ROOT = Path(__file__).parents[2]


def new(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["new", *arguments], standalone_mode=False)
    assert result.exception is None, result.exception
    return result.return_value, result.output


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def packaged(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Samples as a wheel has them."""
    place = tmp_path_factory.mktemp("packaged")
    monkeypatch.setattr(samples, "PACKAGED", place)
    return place


@pytest.mark.parametrize("name", samples.sample_names())
def test_a_copy_of_each_sample_loads(name: str) -> None:
    assert new("mine.v2", "--from", name)[0] == 0  # a file may have names that no kernel has
    assert load(Path("mine.v2.tile")).examples
    assert Path("mine.v2.tile").read_text() == (ROOT / "samples" / f"{name}.tile").read_text()


def test_a_copy_brings_the_samples_that_it_imports() -> None:
    Path("below").mkdir()
    status, output = new("below/gradients.tile", "--from", "attention_backward.tile")
    assert (status, {path.name for path in Path("below").iterdir()}) == (0, {"gradients.tile", "attention.tile"})
    assert "below/attention.tile" in output and "dsl run below/gradients.tile" in output


def test_imports_of_imports_come_along_once(packaged: Path) -> None:
    text = "def {0}(x):\n    return x\n"
    for name, imports in {"a": "bc", "b": "c", "c": ""}.items():
        lines = [f'import "{each}.tile"\n' for each in imports]
        (packaged / f"{name}.tile").write_text("".join([*lines, text.format(name)]))
    assert list(samples.imported(packaged / "a.tile")) == ["b.tile", "c.tile"]


def test_tuned_data_come_along_under_the_new_name(packaged: Path) -> None:
    (packaged / "add.tile").write_text("# Sums\n")
    (packaged / "add.tuned.json").write_text("{}\n")
    assert new("mine", "--from", "add")[0] == 0 and Path("mine.tuned.json").read_text() == "{}\n"
    Path("mine.tile").unlink()
    assert "mine.tuned.json exists" in new("mine", "--from", "add")[1] and not Path("mine.tile").exists()


def test_two_copies_share_what_they_import_and_nothing_is_overwritten() -> None:
    assert new("fused", "--from", "softmax_fused")[0] == new("again", "--from", "softmax_fused")[0] == 0
    Path("softmax.tile").write_text("mine")
    status, output = new("third", "--from", "softmax_fused")
    assert status == 2 and "softmax.tile exists" in output and "another folder" in output
    assert Path("softmax.tile").read_text() == "mine" and not Path("third.tile").exists()
    assert new("fused", "--from", "add")[0] == 2 and "softmax" in Path("fused.tile").read_text()


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["mine", "--from", "sofmax"], "there is no sample 'sofmax'", "did you mean 'softmax'?"),
        (["mine", "--from", "xyzzy"], "there is no sample 'xyzzy'", "dsl new --list"),
        (["mine", "--from", ""], "there is no sample ''", "dsl new --list"),
        (["mine", "--from", "../README"], "there is no sample '../README'", "dsl new --list"),
        (["softmax", "--from", "softmax_fused"], "imports another 'softmax.tile'", "choose another name"),
        (["none/mine", "--from", "add"], "none/mine.tile: No such file or directory", ""),
        (["x" * 5000, "--from", "add"], "File name too long", ""),
        (["", "--from", "add"], "'.tile' cannot name the copy", "dsl new NAME.tile"),
        (["a\0b", "--from", "add"], "cannot name the copy", "dsl new NAME.tile"),
        ([], "NAME is missing", "dsl new --list"),
    ],
)
def test_mistakes_have_hints(folder: Path, words: list[str], message: str, hint: str) -> None:
    status, output = new(*words)
    assert status == 2 and message in output and hint in output, output
    assert not [*folder.iterdir()]


def test_the_list_says_what_each_sample_shows(folder: Path) -> None:
    status, output = new("--list")
    _, *lines = output.splitlines()
    assert status == 0 and [line.split()[0] for line in lines] == samples.sample_names()
    assert "add z = x + y, element by element" in [" ".join(line.split()) for line in lines]
    assert "softmax Softmax and log-softmax along rows of any length" in [" ".join(line.split()) for line in lines]
    assert all(len(line.split()) > 3 for line in lines) and not [*folder.iterdir()]


def test_a_checkout_has_its_own_samples_and_a_wheel_those_below_the_package(packaged: Path) -> None:
    (packaged / "only.tile").write_text("# One\n")
    assert samples.sample_names() == ["only"] and samples.summary("only") == "One"
    (packaged / "only.tile").unlink()
    packaged.rmdir()
    assert samples.folder() == packaged.parents[1] / "samples"
