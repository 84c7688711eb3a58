"""Finds the versions on which a trial depends: the project's code and commit, plug-ins, packages and tools."""

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
    """Returns all versions that a trial depends on, except those of the device and the driver. Logged trials with other
    versions are never reused.

    For the project's code and the plug-ins, the version is a digest. For Python, packages and tools, it is the version
    number. Packages and tools that are not installed are left out.
    """
    return {**_installed(), **{f"plugin {name}": each for name, each in plugins.digests.items()}}


@cache
def _installed() -> dict[str, str]:
    """The versions are computed once per process, because files that change later do not affect loaded code."""
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
    """A SHA-256 digest of the compiler's files, and one of the runtime's files. Each digest has 12 hexadecimal
    digits."""
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
    """The git commit of the project, with "-dirty" appended if files differ from the commit. Returns None if the
    project has no git checkout of its own."""
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
    """A SHA-256 digest of a PTX text with 16 hexadecimal digits. Paths of source files are left out, because they
    depend on how the user typed them."""
    text = re.sub(r'^(//dsl .*?"source":\{"file":)"(?:[^"\\]|\\.)*"', r'\1""', ptx, flags=re.M)
    text = re.sub(r'^(\s*\.file\s+\d+) "[^"\n]*"', r'\1 ""', text, flags=re.M)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def differing(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The names whose versions differ, or that only one dict has."""
    return [name for name in dict.fromkeys([*now, *then]) if then.get(name) != now.get(name)]
