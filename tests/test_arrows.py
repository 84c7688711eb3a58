"""Which room may import which, read from the imports of every module; and what a plain import must not load."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("dsl", "dsl.lowering", "dsl.ptx_templates", "dsl.runtime")
"""What `dsl` has beside these three is the first one: the language, its commands and its tools."""
ARROWS = {("dsl", "dsl.lowering"), ("dsl.lowering", "dsl.ptx_templates"), ("dsl", "dsl.runtime")}
MOST_ARROWS = {"dsl": 84, "dsl.lowering": 70, "dsl.runtime": 125, "dsl.runtime.emulator": 280}
"""Between what lies in a folder: its own folders and modules."""
MOST_LINES = 60
"""Of a function."""
VAGUE = {"utils", "helpers", "misc", "manager", "common"}
MODULES = sorted(p.relative_to(ROOT) for p in (ROOT / "dsl").rglob("*.py"))
PACKAGES = sorted({".".join(module.parent.parts) for module in MODULES})


Graph = dict[str, set[str]]


def dotted(module: Path) -> str:
    """`dsl/runtime/emulator/__init__.py` → `dsl.runtime.emulator`."""
    return ".".join(module.with_suffix("").parts).removesuffix(".__init__")


@cache
def imports(module: Path) -> frozenset[str]:
    """What `module` imports anywhere in it (in functions and for types, too), with the names that `from` takes: `a.b`
    for `from a import b`."""
    tree = ast.parse((ROOT / module).read_text())
    package = dotted(module) if module.name == "__init__.py" else dotted(module).rpartition(".")[0]
    out: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            out |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")
                base = ".".join([*parts[: len(parts) - node.level + 1], *([base] if base else [])])
            out |= {f"{base}.{alias.name}" for alias in node.names}
    return frozenset(out)


@cache
def graph() -> Graph:
    """The modules that each module imports. A name that `from` takes is a module, or stands in one."""
    names = {dotted(module) for module in MODULES}
    out: Graph = {}
    for module in MODULES:
        found = {name if name in names else name.rpartition(".")[0] for name in imports(module)}
        out[dotted(module)] = found & names - {dotted(module)}
    return out


def folded(modules: Graph, room_of: Callable[[str], str]) -> Graph:
    """The arrows between rooms: of their modules, but for those within one room."""
    out: Graph = {room_of(module): set() for module in modules}
    for module, others in modules.items():
        out[room_of(module)] |= {room_of(other) for other in others} - {room_of(module)}
    return out


def circles(arrows: Graph) -> list[tuple[str, ...]]:
    """The sets of nodes that reach each other (after Warshall)."""
    bits = {node: 1 << at for at, node in enumerate(arrows)}  # sets take 2 s for all modules
    reached = {node: sum(bits[other] for other in {*others}) for node, others in arrows.items()}
    for middle, bit in bits.items():
        for node, others in reached.items():
            if others & bit:
                reached[node] = others | reached[middle]
    on_one = [node for node in arrows if reached[node] & bits[node]]
    together = ({n for n in on_one if reached[node] & bits[n] and reached[n] & bits[node]} for node in on_one)
    return sorted({tuple(sorted(each)) for each in together})


def room(module: str) -> str:
    """That of ROOMS which a module lies in."""
    name = ".".join(module.split(".")[:2])
    return name if name in ROOMS else "dsl"


def inside(package: str) -> Graph:
    """The arrows between what lies in a package: its folders, and its modules."""
    front, depth = f"{package}.", package.count(".") + 2
    modules = {m: {o for o in others if o.startswith(front)} for m, others in graph().items() if m.startswith(front)}
    return folded(modules, lambda module: ".".join(module.split(".")[:depth]))


def test_circles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}) == [("b", "c")]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_no_circle_of_modules() -> None:
    """Imports inside functions and those for types count: what both need belongs below both."""
    assert circles(graph()) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_circle_of_folders(package: str) -> None:
    """Nor of folders and the modules beside them: each can be read after those that it imports."""
    assert circles(inside(package)) == []


@pytest.mark.parametrize("package", MOST_ARROWS)
def test_few_arrows_between_the_folders_of_a_package(package: str) -> None:
    arrows = inside(package)
    assert sum(map(len, arrows.values())) <= MOST_ARROWS[package], arrows


def test_no_file_of_lowering_lies_flat() -> None:
    assert [*(ROOT / "dsl" / "lowering").glob("*.py")] == [ROOT / "dsl" / "lowering" / "__init__.py"]


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_imports_follow_the_arrows(module: Path) -> None:
    own = room(dotted(module))
    others = {room(name) for name in imports(module) if name.split(".")[0] == "dsl"} - {own}
    assert {(own, other) for other in others} <= ARROWS


@pytest.mark.parametrize("module", [m for m in MODULES if m.parts[:3] == ("dsl", "runtime", "emulator")], ids=str)
def test_the_emulator_knows_nothing_of_the_rest(module: Path) -> None:
    """It judges what the compiler makes, so it shares no table, no reader and no code with it."""
    ours = {name for name in imports(module) if name.split(".")[0] == "dsl"}
    assert all(name.startswith("dsl.runtime.emulator") for name in ours), ours


def test_tests_and_benchmarks_are_imported_by_no_room() -> None:
    for module in MODULES:
        assert not {name.split(".")[0] for name in imports(module)} & {"tests", "benchmarks", "samples"}, module


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_modules_have_a_docstring_and_a_name_that_says_something(module: Path) -> None:
    assert ast.get_docstring(ast.parse((ROOT / module).read_text())), "no docstring"
    assert not VAGUE & {word for part in module.with_suffix("").parts for word in part.split("_")}


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_functions_are_short(module: Path) -> None:
    """Ruff holds their complexity (`C901` in pyproject.toml)."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    functions = [node for node in ast.walk(ast.parse((ROOT / module).read_text())) if isinstance(node, kinds)]
    lines = {node.name: (node.end_lineno or node.lineno) - node.lineno + 1 for node in functions}
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}


def test_no_two_classes_have_one_name() -> None:
    """Whoever looks for a name lands in the right room."""
    # Their lines and not their trees, of which all take 2.6 s.
    texts = ((ROOT / module).read_text() for module in MODULES)
    names = Counter(name for text in texts for name in re.findall(r"^ *class (\w+)[(:]", text, re.M))
    assert len(names) > 500 and not {name for name, count in names.items() if count > 1}


HEAVY = ("cuda", "llvmlite", "dsl.runtime.emulator", "torch", "jax", "cupy")


def loaded(statements: str) -> set[str]:
    """The modules that a fresh Python has loaded after `statements`."""
    command = [sys.executable, "-c", f"{statements}\nimport sys\nprint('\\nLOADED', *sys.modules)"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rpartition("LOADED")[2].split())


@pytest.mark.parametrize("statements", [f"import {name}" for name in ROOMS])
def test_a_plain_import_loads_no_driver_compiler_or_emulator(statements: str) -> None:
    assert not loaded(statements) & set(HEAVY)


def test_import_dsl_loads_no_command() -> None:
    """The commands as functions, and what notebooks need, are loaded at first use."""
    assert not {name for name in loaded("import dsl") if name.startswith(("dsl.command", "click", "IPython", "pandas"))}


def test_checking_a_file_needs_neither_numpy_nor_a_back_end() -> None:
    statements = (
        "from dsl.command import main\n"
        "try:\n    main(['check', 'samples/gelu.tile'])\n"
        "except SystemExit as end:\n    assert not end.code, end.code"
    )
    assert not loaded(statements) & {*HEAVY, "numpy"}
