"""The versions that are needed to repeat a trial: the project's code, plug-ins, packages, tools, commit."""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version

from dsl.lowering.ir.plugins import NONE, Plugins

ROOT = Path(__file__).parents[2]
RUNTIME = "dsl/runtime"
"""The part of `dsl` that runs and counts code. The rest compiles code. A trial depends on both parts."""
PACKAGES = ("llvmlite", "numpy", "cuda-bindings")
TOOLS = ("ptxas", "nvdisasm")


def versions(plugins: Plugins = NONE) -> dict[str, str]:
    """All versions that a trial depends on, except device and driver. A trial of other versions in a log is never used.

    The result has digests of the project's code and of the plug-ins, and versions of Python, packages and tools.
    Packages and tools that are not installed are left out.
    """
    return {**_installed(), **{f"plugin {name}": each for name, each in plugins.digests.items()}}


@cache
def _installed() -> dict[str, str]:
    """The versions are computed once per process. Files that change later do not affect the code that the process has
    loaded."""
    from dsl.runtime.errors import DeviceError
    from dsl.runtime.tools import version_of

    found = digests(ROOT)
    found["python"] = python_version()
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    for tool in TOOLS:
        with suppress(DeviceError):
            found[tool] = version_of(tool)
    return found


def digests(root: Path) -> dict[str, str]:
    """SHA-256 digests of two sets of files: the files of the compiler, and the files of the runtime. Each digest has 12
    hexadecimal digits."""
    made = {"compiler": hashlib.sha256(), "runtime": hashlib.sha256()}
    for path in sorted((root / "dsl").rglob("*")):
        if path.suffix not in (".md", ".pyc") and path.is_file():
            # The name is part of the digest, since a moved file makes another version.
            name = path.relative_to(root).as_posix()
            about = name.encode() + b"\0" + path.read_bytes() + b"\0"
            made["runtime" if name.startswith(f"{RUNTIME}/") else "compiler"].update(about)
    return {name: each.hexdigest()[:12] for name, each in made.items()}


@cache
def commit() -> str | None:
    """The commit of the project, with "-dirty" if files differ from the commit. The result is None if the project has
    no git checkout of its own."""
    words = ["git", "-C", str(ROOT)]
    with suppress(OSError, subprocess.SubprocessError):
        about = {"capture_output": True, "text": True, "errors": "replace", "timeout": 10, "check": True}
        top = subprocess.run([*words, "rev-parse", "--show-toplevel"], **about)  # type: ignore[call-overload]
        # If the project is installed inside another repository, git would name that repository's commit.
        if Path(top.stdout.rstrip("\n")).resolve() == ROOT.resolve():
            said = subprocess.run(  # type: ignore[call-overload]
                [*words, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"], **about
            )
            return str(said.stdout.strip())
    return None


def now() -> str:
    """The current time in UTC, such as `2026-11-28T06:30:00Z`."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def ptx_digest(ptx: str) -> str:
    """SHA-256 of a PTX text, as 16 hexadecimal digits. Paths in the text are left out, since they depend on how the
    user gave them."""
    text = re.sub(r'^(//dsl .*?"source":\{"file":)"(?:[^"\\]|\\.)*"', r'\1""', ptx, flags=re.M)
    text = re.sub(r'^(\s*\.file\s+\d+) "[^"\n]*"', r'\1 ""', text, flags=re.M)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def differing(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The names whose versions differ, or that only one side has."""
    return [name for name in dict.fromkeys([*now, *then]) if then.get(name) != now.get(name)]
