"""What compiles: a digest of the compiler's own files and of LLVM, for the keys of the compile cache."""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from dsl.runtime.store import Store, key_of

PACKAGE = Path(__file__).parents[1]
SKIPPED = ("__pycache__", "samples")
"""Folders of the package that the compiler does not read. A wheel contains the samples."""
SETTLED = 2.0
"""The age in seconds from which a file's time tells its content. A file may be written twice within one tick of the
file system's clock."""

Status = tuple[str, int, int, int, int]
"""The path of a file, and its size, number, and times of change in nanoseconds."""


def _status(path: str, found: os.stat_result) -> Status:
    return path, found.st_size, found.st_ino, found.st_mtime_ns, found.st_ctime_ns


def _files(folder: str) -> Iterator[Status]:
    """Yields the status of each file below a folder."""
    with os.scandir(folder) as found:
        for each in found:
            if each.is_dir():
                if each.name not in SKIPPED:
                    yield from _files(each.path)
            elif not each.name.endswith(".pyc"):
                yield _status(each.path, each.stat())


@cache
def _llvm() -> tuple[Path, ...]:
    """Returns the files that tell which LLVM is installed. Importing it takes 50 ms."""
    spec = importlib.util.find_spec("llvmlite")
    if spec is None or spec.origin is None:
        return ()
    folder = Path(spec.origin).parent
    return (folder / "_version.py", *sorted((folder / "binding").glob("*llvmlite*.*")))


def _now() -> tuple[Status, ...] | None:
    """Returns the status of all files, or None if they cannot be looked at."""
    try:
        llvm = [_status(str(path), path.stat()) for path in _llvm()]
        return (*sorted(_files(str(PACKAGE))), *llvm)
    except OSError:
        return None


AT_IMPORT = _now()
"""Taken before the compiler is imported. Whoever edits the compiler meanwhile has the new text in the files, and the
old one in this process."""


def _names(folder: str) -> set[str]:
    return {name for name in os.listdir(folder) if name not in SKIPPED and not name.endswith(".pyc")}


_folders: dict[str, set[str]] = {}


def folders() -> dict[str, set[str]]:
    """Returns the names that each folder of the package had when this process imported this module."""
    if not _folders:
        for name, *_ in AT_IMPORT or ():
            while name.startswith(f"{PACKAGE}{os.sep}"):
                folder, _, own = name.rpartition(os.sep)
                _folders.setdefault(folder, set()).add(own)
                name = folder
    return _folders


def is_unchanged() -> bool:
    """Whether this process runs the compiler that `compiler_digest` describes. Takes 1 ms."""
    try:
        for folder, names in folders().items():
            if _names(folder) != names:
                return False
        for path, size, number, changed, moved in AT_IMPORT or ():
            found = os.stat(path)
            if (found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size) != (changed, moved, number, size):
                return False
    except OSError:
        return False
    return AT_IMPORT is not None


_digests: dict[Path, str | None] = {}


def compiler_digest(store: Store) -> str | None:
    """Returns the digest of the compiler's files, of LLVM's version and of Python's, or None if there is none. The
    store keeps it by the times of the files, since reading them takes 10 ms."""
    if store.folder not in _digests:
        _digests[store.folder] = _digest_by_times(store)
    return _digests[store.folder]


def _digest_by_times(store: Store) -> str | None:
    if AT_IMPORT is None:
        return None
    key = key_of("sources", repr(AT_IMPORT), sys.version)
    known = store.get("sources", key)
    if known is not None:
        return known.decode()
    found = _digest_of_contents()
    newest = max(max(status[3:]) for status in AT_IMPORT) / 1e9
    if found is not None and time.time() - newest > SETTLED and is_unchanged():
        store.put("sources", key, found.encode())
    return found


def _digest_of_contents() -> str | None:
    parts: list[str | bytes] = [sys.version]
    try:
        for name, size, *_ in AT_IMPORT or ():
            path = Path(name)
            if path.is_relative_to(PACKAGE):
                parts += [path.relative_to(PACKAGE).as_posix(), path.read_bytes()]
            else:  # LLVM's library has 100 MB
                parts += [path.name, path.read_bytes() if path.suffix == ".py" else str(size)]
    except OSError:
        return None
    return key_of(*parts)
