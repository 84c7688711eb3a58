"""The examples of the table of error codes lead to the codes that they explain."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result

import dsl
from dsl.command import cli
from dsl.command.error_codes import ErrorCode, read_codes
from dsl.command.explain import read_words
from dsl.lowering.ir.location import TileError
from dsl.runtime.errors import RuntimeFault
from dsl.schedules.properties import PROPERTIES
from dsl.text.contracts import NAMES
from dsl.values.table import ROWS

ROOT = Path(__file__).parents[2]
CODES = read_codes()
SHOWN = {name: row for name, row in CODES.items() if row.shown}
BLOCKS = ("kernel", "import", "schedule", "dispatch", "example", "def")


def command(*arguments: str) -> Result:
    result = CliRunner().invoke(cli, list(arguments), standalone_mode=False)
    if isinstance(result.exception, click.ClickException):
        result.exit_code = result.exception.exit_code
    return result


def whole(example: str) -> str:
    """A text that is no block of its own stands in a kernel."""
    text = example.strip("\n")
    if text.split()[0] in BLOCKS:
        return text + "\n"
    body = text.replace("\n", "\n    ")
    return f"kernel k(y: f32[n], x: f32[n]):\n    grid 1\n    {body}\n"


def said(row: ErrorCode, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the example leads to, as the user sees it."""
    monkeypatch.chdir(folder)
    (folder / "softmax.tile").write_text((ROOT / "samples/softmax.tile").read_text())
    (folder / "std").symlink_to(ROOT / "samples/std")
    (folder / "plain.ptx").write_text(".version 8.0\n.target sm_80\n.address_size 64\n")
    if row.example.startswith("$ dsl "):
        return command(*shlex.split(row.example)[2:]).stderr
    if row.example.startswith(">>> "):
        x, y = np.zeros((8, 8), np.float32), np.zeros((8, 8), np.float32)
        softmax = dsl.load(ROOT / "samples/softmax.tile", device="emulator")["softmax"]
        with pytest.raises((RuntimeFault, TileError)) as caught:
            eval(row.example[4:], {"softmax": softmax, "x": x, "y": y})
        return f"error[{caught.value.code}]"
    (folder / "text.tile").write_text(whole(row.example))
    checked = command("check", "text.tile").stderr
    return checked if "error[" in checked else command("run", "text.tile", "--device", "emulator").stderr


@pytest.mark.parametrize("name", SHOWN)
def test_an_example_leads_to_its_code(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = said(SHOWN[name], tmp_path, monkeypatch)
    assert set(re.findall(r"error\[([a-z-]+)\]", text)) == {name}, text


def test_what_is_not_shown_needs_more_than_a_text() -> None:
    """A GPU, an edited file, a package that is not installed, a note, a fault of the compiler."""
    assert CODES.keys() - SHOWN.keys() == {
        "check", "tuned", "ir", "time-limit", "internal", "tool", "no-gpu", "cuda", "poisoned", "plugin",
    }  # fmt: skip


def test_explain_prints_all_of_a_row() -> None:
    shared = CODES["shared"]
    text = command("explain", "error[shared]").stdout
    assert "\n    shared s: f32[65536]\n    s[0" in text and shared.mend in text


def test_explain_says_what_words_of_messages_mean() -> None:
    """No word is the name of something else but `stage`, a buffer and a property: `explain` shows both."""
    words = read_words()
    assert words.keys() & {*CODES, *PROPERTIES, *NAMES, *ROWS} == {"stage"}
    assert PROPERTIES["stage"].usage in command("explain", "stage").stdout
    assert words["stage"] in command("explain", "stage").stdout.replace("\n", " ")
    overview = command("explain").stdout.partition("\nwords:\n")[2]
    assert [line.split()[0] for line in overview.splitlines()] == [*words]


@pytest.mark.parametrize(("name", "said"), [("workspace", "scratch memory"), ("aligned", "16 bytes"), ("sms", "cdiv")])
def test_explain_knows_what_only_dispatches_have(name: str, said: str) -> None:
    assert said in command("explain", name).stdout
