"""What a later Python does otherwise: found by reading, and by a part of the tests on the newest Python here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from symtable import SymbolTable, symtable

import pytest

from tests.whole import is_whole

ROOT = Path(__file__).parents[1]
OTHERS = [python for python in ("3.11", "3.12", "3.13") if python != "{}.{}".format(*sys.version_info)]
COMPREHENSIONS = ("listcomp", "setcomp", "dictcomp")
HIDES = """
def outer(kind):
    def build(xs):
        kinds = [kind for kind in xs]
        return lambda: (kind, kinds)
    return build
"""


def hidden(table: SymbolTable) -> Iterator[tuple[int, str]]:
    """Comprehensions whose names their function takes from a function around it: (line, name)."""
    for inner in table.get_children():
        if inner.get_name() in COMPREHENSIONS and table.get_type() == "function":
            own = {symbol.get_name() for symbol in inner.get_symbols() if symbol.is_local()} & {
                *table.get_identifiers()
            }
            yield from ((inner.get_lineno(), name) for name in sorted(own) if table.lookup(name).is_free())
        yield from hidden(inner)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="comprehensions have no table of their own from Python 3.12 on")
def test_no_comprehension_hides_a_name_of_a_function_around_it() -> None:
    """Python 3.12.1 and 3.13.0 take the name out of the function, so that another one in it ends in a NameError."""
    assert [*hidden(symtable(HIDES, "<text>", "exec"))] == [(4, "kind")]
    assert not [*hidden(symtable(HIDES.replace("kind for kind", "each for each"), "<text>", "exec"))]
    paths = sorted((ROOT / "dsl").rglob("*.py"))
    found = {str(path): [*hidden(symtable(path.read_text(), str(path), "exec"))] for path in paths}
    assert not {path: places for path, places in found.items() if places}


PACKAGES = ("lark", "click", "rich", "markdown-it-py", "mdurl", "pygments", "numpy", "llvmlite", "msgspec", "filelock")
PACKAGES += ("pytest", "pluggy", "iniconfig", "packaging", "hypothesis", "sortedcontainers")
PART = (
    "tests/dsl/test_plugins.py::test_an_instruction_is_emitted_run_and_assembled",
    "tests/dsl/test_plugins.py::test_the_meaning_of_an_instruction_is_the_plug_ins_alone",
)
"""Of each room something, and what another Python did otherwise before."""


def interpreter(python: str) -> str:
    """A Python of that version, on the PATH or of pyenv's; skips where there is none."""
    installed = sorted(Path.home().glob(f".pyenv/versions/{python}.*/bin/python{python}"))
    for path in [shutil.which(f"python{python}"), *map(str, installed)]:
        if path and subprocess.run([path, "-c", ""], capture_output=True, timeout=60).returncode == 0:
            return path
    pytest.skip(f"no Python {python} is installed here")


def install(python: str, folder: Path) -> None:
    """What the tests import, in the versions of this environment; skips where pip finds none. A virtual environment
    takes ten times as long."""
    pip = [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), "--no-deps", "--no-compile"]
    pip += ["--only-binary=:all:", "--python-version", python, "--implementation", "cp"]
    pip += [f"{name}=={version(name)}" for name in PACKAGES]
    pip += [f"attrs=={version('attrs')}"] if find_spec("attr") else []  # which older versions of hypothesis import
    done = subprocess.run(pip, capture_output=True, text=True, timeout=300)
    if done.returncode:
        pytest.skip(f"pip installs nothing for Python {python}: {done.stderr.strip().splitlines()[-1]}")


@pytest.mark.skipif(not is_whole(), reason="takes 16 s, mostly of pip: .ci/full runs it, and all tests on each Python")
@pytest.mark.parametrize("python", OTHERS[-1:])
def test_a_part_of_the_tests_passes_on_each_python(python: str, tmp_path: Path) -> None:
    """On the newest one."""
    command = [interpreter(python), "-m", "pytest", "-p", "dsl.pytest_plugin", "-p", "no:cacheprovider", *PART]
    command += ["-o", "addopts="]
    install(python, tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
