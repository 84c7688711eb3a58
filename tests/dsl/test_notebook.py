"""`%%tile`: cells that are `.tile` files, wrong ones in the words of the command line; the notebook of docs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_shell import FakeShell, ran
from lab_kernel import TURN

from dsl.command.notebook import CellError
from dsl.runtime.cuda import driver
from dsl.runtime.errors import DeviceError
from dsl.runtime.tools import find

ROOT = Path(__file__).resolve().parents[2]
LAB = ROOT / "docs" / "examples" / "lab.ipynb"


# ---- cells ----


@pytest.fixture
def shell() -> FakeShell:
    made = FakeShell()
    made.run_cell("%load_ext dsl")
    return made


def test_a_cell_makes_a_module(shell: FakeShell) -> None:
    assert shell.run_cell(f"%%tile\n{TURN}") is shell.user_ns["tile"]
    shell.run_cell(f"%%tile other\n{TURN}")
    x, y = np.ones((2, 32, 32), np.float32)
    shell.user_ns["other"].turn(y, x)
    assert np.allclose(y, np.e)
    assert str(shell.run_cell("import dsl\ndsl.layouts(other)")).startswith("turn with s")


def test_mistakes_of_a_cell_are_located_in_it(shell: FakeShell) -> None:
    wrong = TURN.replace("exp(load", "exq(load").replace("exp: fast", "exp: fsat")
    with pytest.raises(CellError) as found:
        shell.run_cell(f"%%tile turned\n{wrong}")
    (text,) = found.value._render_traceback_()
    assert text.startswith("turned.tile:7:9: error[name]: unknown function 'exq'\n    7 |     v = exq(load(")
    second = "turned.tile:12:15: error[schedule]: math is one of exact, fast\n   12 |     math exp: fsat\n"
    assert f"\n{second}" in text
    assert "turned" not in shell.user_ns
    with pytest.raises(CellError, match=r"^bad\.tile:1:1: error\[syntax\]"):
        shell.run_cell("%%tile bad\nkernl k():\n")


def test_a_later_mistake_leaves_the_earlier_module(shell: FakeShell) -> None:
    first = shell.run_cell(f"%%tile k\n{TURN}")
    with pytest.raises(CellError):
        shell.run_cell("%%tile k\nkernel\n")
    assert shell.user_ns["k"] is first


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("3x", "'3x' is not a Python name"),
        ("a b", "does not take 'b'"),
        ("--rn", "does not take '--rn'"),
        ("a --run --bogus", "error[option]: No such option"),
        ("a --run m=3", "has no 'm' to set"),
        ("'a", "No closing quotation"),
    ],
)
def test_a_line_that_is_wrong_says_what_it_takes(shell: FakeShell, line: str, says: str) -> None:
    with pytest.raises(CellError, match=re.escape(says)):
        shell.run_cell(f"%%tile {line}\n{TURN}")


def test_a_cell_runs_its_examples(shell: FakeShell) -> None:
    found = shell.run_cell(f"%%tile turned --run n=64 --device emulator\n{TURN}")
    assert found.record["passed"] and found[0].dims == {"n": 64} and str(found).startswith("turned.tile\n")
    with pytest.raises(CellError, match=r"FAILED: max error (.|\n)*written by thread .* at turned\.tile:9"):
        shell.run_cell(f"%%tile turned --run --device emulator\n{TURN.replace('1e-4, 1e-4', '0')}")
    racing = TURN.replace("math exp: fast", "math exp: fast\n    choose barrier.b.load: none")
    with pytest.raises(CellError, match=r"^turned\.tile:9:5: error\[finding\]: turn with s: race"):
        shell.run_cell(f"%%tile turned --run --device emulator\n{racing}")


def test_cells_import_each_other_and_files_what_lies_beside_them(shell: FakeShell, tmp_path: Path) -> None:
    shell.run_cell("%%tile twice\ndef twice(x):\n    return x + x\n")
    text = 'import "{}.tile"\n\n' + TURN.replace(
        "v = exp(load(a[0 : T, 0 : T]).T)", "v = twice(load(a[0 : T, 0 : T]).T)"
    )
    text = text.replace("    math exp: fast\n", "    warps = 4\n").replace("exp(x) within 1e-4, 1e-4", "x + x within 0")
    assert shell.run_cell(f"%%tile --run --device emulator\n{text.format('twice')}").record["passed"]
    (tmp_path / "double.tile").write_text("def twice(x):\n    return x + x\n")
    shell.run_cell(f"%%tile {tmp_path / 'doubled.tile'}\n{text.format('double')}")
    assert shell.user_ns["doubled"].program.path == tmp_path / "doubled.tile"


def test_the_shell_of_ipython_shows_an_error_without_a_traceback() -> None:
    pytest.importorskip("IPython", reason="IPython is not installed: pip install 'dsl[notebook]'")
    script = f"""
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(colors="NoColor")
for text in ("%load_ext dsl", "%%tile turned\\n" + {TURN!r}, "turned", "%%tile\\nkernl k():\\n"):
    done = shell.run_cell(text)
formatted, _ = shell.display_formatter.format(shell.run_cell("import dsl; dsl.layouts(turned)").result)
print(sorted(formatted))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "<Module turned.tile: turn>" in done.stdout and "Traceback" not in done.stdout + done.stderr
    assert re.search(r"^tile\.tile:1:1: error\[syntax\]", done.stdout + done.stderr, re.M)
    assert "['text/html', 'text/plain']" in done.stdout


# ---- the notebook of the documents ----


def test_the_notebook_of_the_documents_runs(update_golden: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the emulator, wherever the test runs. Its outputs are those of now, up to numbers, which are the assembler's,
    too. `--update-golden` writes it anew."""
    monkeypatch.setattr(driver, "unavailable", lambda: "no CUDA driver")
    now = ran(LAB)
    if update_golden:
        LAB.write_text(json.dumps(now, indent=1, ensure_ascii=False) + "\n")
    try:
        find("nvdisasm")
    except DeviceError:
        return  # fewer columns
    assert [*map(words_of, json.loads(LAB.read_text())["cells"])] == [*map(words_of, now["cells"])]


def words_of(cell: dict[str, Any]) -> list[str]:
    texts = [text for output in cell.get("outputs", ()) for text in output.get("text", output.get("data", {}).values())]
    return re.findall(r"[A-Za-z_]+", "\n".join("".join(text) for text in texts))
