"""Which room may import which, read from the imports of every module; and what a plain import must not load."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("dsl", "lowering", "ptx_templates", "runtime")
ARROWS = {("dsl", "lowering"), ("lowering", "ptx_templates"), ("dsl", "runtime")}
MOST_LINES = 60
"""Of a function."""
VAGUE = {"utils", "helpers", "misc", "manager", "common"}
MODULES = sorted(p.relative_to(ROOT) for room in ROOMS for p in (ROOT / room).rglob("*.py"))


Graph = dict[str, set[str]]


def dotted(module: Path) -> str:
    """`runtime/emulator/__init__.py` → `runtime.emulator`."""
    return ".".join(module.with_suffix("").parts).removesuffix(".__init__")


def imports(module: Path) -> set[str]:
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
    return out


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
    reached = {node: set(others) for node, others in arrows.items()}
    for middle in arrows:
        for others in reached.values():
            if middle in others:
                others |= reached[middle]
    return sorted({tuple(sorted(n for n in reached[node] if node in reached[n])) for node in arrows} - {()})


def room(module: str) -> str:
    """The folder below `dsl` (or `lowering`, `runtime`) that a module lies in; one outside of them is its own room."""
    return ".".join(module.split(".")[:2])


def test_circles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}) == [("b", "c")]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_no_circle_of_modules() -> None:
    """Imports inside functions and those for types count: what both need belongs below both."""
    assert circles(graph()) == []


@pytest.mark.parametrize("part", ["dsl", "lowering", "runtime"])
def test_no_circle_of_rooms(part: str) -> None:
    inside = {module: others for module, others in graph().items() if module.startswith(f"{part}.")}
    rooms = folded(inside, room)
    assert circles({name: others & rooms.keys() for name, others in rooms.items()}) == []


def test_few_arrows_between_the_rooms_of_dsl() -> None:
    inside = {m: {o for o in others if o.startswith("dsl")} for m, others in graph().items() if m.startswith("dsl")}
    arrows = folded(inside, room)
    assert sum(map(len, arrows.values())) <= 40, arrows


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_imports_follow_the_arrows(module: Path) -> None:
    room = module.parts[0]
    others = {name.split(".")[0] for name in imports(module)} & set(ROOMS) - {room}
    assert {(room, other) for other in others} <= ARROWS


@pytest.mark.parametrize("module", [m for m in MODULES if m.parts[:2] == ("runtime", "emulator")], ids=str)
def test_the_emulator_knows_nothing_of_the_rest(module: Path) -> None:
    """It judges what the compiler makes, so it shares no table, no reader and no code with it."""
    ours = {name for name in imports(module) if name.split(".")[0] in ROOMS}
    assert all(name.startswith("runtime.emulator") for name in ours), ours


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
    trees = (ast.parse((ROOT / module).read_text()) for module in MODULES)
    names = Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert not {name for name, count in names.items() if count > 1}


HEAVY = ("cuda", "llvmlite", "runtime.emulator", "torch", "jax", "cupy")


def loaded(statements: str) -> set[str]:
    """The modules that a fresh Python has loaded after `statements`."""
    command = [sys.executable, "-c", f"{statements}\nimport sys\nprint('\\nLOADED', *sys.modules)"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rpartition("LOADED")[2].split())


@pytest.mark.parametrize("statements", ["import runtime", "import dsl", "import lowering", "import ptx_templates"])
def test_a_plain_import_loads_no_driver_compiler_or_emulator(statements: str) -> None:
    assert not loaded(statements) & set(HEAVY)


def test_import_dsl_loads_no_command() -> None:
    """The commands as functions, and what notebooks need, are loaded at first use."""
    assert not {name for name in loaded("import dsl") if name.startswith(("dsl.command", "click", "IPython", "pandas"))}


@pytest.mark.skipif(find_spec("dsl.command.check") is None, reason="there is no `dsl check` yet")
def test_checking_a_file_needs_neither_numpy_nor_a_back_end() -> None:
    statements = (
        "from dsl.command import main\n"
        "try:\n    main(['check', 'samples/softmax.tile'])\n"
        "except SystemExit as end:\n    assert not end.code, end.code"
    )
    assert not loaded(statements) & {*HEAVY, "numpy"}
