"""What made a trial, so that it can be repeated: the project's code, plug-ins, packages, tools, commit."""

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
"""The part of `dsl` that runs and counts code; the rest compiles it. Both decide results, counters and trials."""
PACKAGES = ("llvmlite", "numpy", "cuda-bindings")
TOOLS = ("ptxas", "nvdisasm")


def versions(plugins: Plugins = NONE) -> dict[str, str]:
    """What decides a trial besides device and driver: digests of the project's code and of the plug-ins, versions of
    Python, packages and tools; not of what is not installed. Trials of other versions are never used from a log."""
    return {**_installed(), **{f"plugin {name}": each for name, each in plugins.digests.items()}}


@cache
def _installed() -> dict[str, str]:
    """Computed once a process: files that change later are not the code that it has loaded."""
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
    """SHA-256 of the files, code and data, that compile and that run; 12 hexadecimal digits each."""
    made = {"compiler": hashlib.sha256(), "runtime": hashlib.sha256()}
    for path in sorted((root / "dsl").rglob("*")):
        if path.suffix not in (".md", ".pyc") and path.is_file():
            # The name is part of the digest: a moved file is another version.
            name = path.relative_to(root).as_posix()
            about = name.encode() + b"\0" + path.read_bytes() + b"\0"
            made["runtime" if name.startswith(f"{RUNTIME}/") else "compiler"].update(about)
    return {name: each.hexdigest()[:12] for name, each in made.items()}


@cache
def commit() -> str | None:
    """The commit of the project, with "-dirty" if files differ from it; None outside of a checkout of its own."""
    words = ["git", "-C", str(ROOT)]
    with suppress(OSError, subprocess.SubprocessError):
        about = {"capture_output": True, "text": True, "errors": "replace", "timeout": 10, "check": True}
        top = subprocess.run([*words, "rev-parse", "--show-toplevel"], **about)  # type: ignore[call-overload]
        # Installed into another project's repository, it would name that one's commit.
        if Path(top.stdout.rstrip("\n")).resolve() == ROOT.resolve():
            said = subprocess.run(  # type: ignore[call-overload]
                [*words, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"], **about
            )
            return str(said.stdout.strip())
    return None


def now() -> str:
    """The current time in UTC: `2026-11-28T06:30:00Z`."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def ptx_digest(ptx: str) -> str:
    """SHA-256 of a PTX text, without the paths by which files were given; 16 hexadecimal digits."""
    text = re.sub(r'^(//dsl .*?"source":\{"file":)"(?:[^"\\]|\\.)*"', r'\1""', ptx, flags=re.M)
    text = re.sub(r'^(\s*\.file\s+\d+) "[^"\n]*"', r'\1 ""', text, flags=re.M)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def differing(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The names whose versions differ, or that one side lacks."""
    return [name for name in dict.fromkeys([*now, *then]) if then.get(name) != now.get(name)]
