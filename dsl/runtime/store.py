"""The compile cache on disk: a folder of entries that many processes read and write at once.

An entry is PTX text, or a record that `msgspec` decodes to the type that the reader names. Nothing is unpickled, and no
entry decides what Python code runs. A record may hold a library of the host, which launches kernels for XLA
(`dsl/jax`).

A writer writes a temporary file and renames it, so a reader sees a whole entry or none, also where writers are killed.
There are no locks. An entry begins with a digest of its name and its content. If the digest does not match, the entry
was damaged, and it is dropped, and made again. If the entries take more than the limit, those that were not used for
the longest time are removed."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import msgspec

MAGIC = b"dsl-cache 1\n"
PARTIAL = ".new"
"""The suffix of a file that a process is writing, or that a killed process has left behind."""
LEFT_BEHIND = 3600.0
"""The age in seconds above which a partial file is of a killed process. Writing an entry takes milliseconds."""
USED_AGAIN = 3600.0
"""A reader records the use of an entry if the last record is this many seconds old, since it costs a write."""
KEPT = 0.8
"""The share of the limit that remains after a removal, so that not each new entry removes another."""
MEBIBYTE = 1 << 20
LIMIT = 1024
"""The default size limit in MiB. The kernels of all samples take about 10 MiB."""
MOST_BYTES = 64 * MEBIBYTE
"""No entry is larger."""
OFF = ("off", "0", "no", "false")
"""Values of `DSL_CACHE` that switch the cache off."""

Record = TypeVar("Record")


class CachePlace(msgspec.Struct, frozen=True):
    """Where the cache is. `folder` is None if it is off. `why` says who decided this, or why the cache is off."""

    folder: Path | None
    limit: int
    """In bytes."""
    why: str


class Usage(msgspec.Struct, frozen=True):
    """The number of entries, and their size in bytes. `kinds` has both by the kind of entries."""

    entries: int
    bytes: int
    kinds: dict[str, tuple[int, int]]


class Store:
    """The entries in one folder. An entry is named by its kind, such as `ptx`, and a key, which is a hexadecimal
    digest of everything on which the content depends."""

    def __init__(self, folder: Path, limit: int = LIMIT * MEBIBYTE):
        self.folder, self.limit = folder, limit
        self._bytes: int | None = None
        """An estimate of the entries' size. It is None before this process has written an entry."""

    @cached_property
    def flaw(self) -> str | None:
        """Why no entries are read from the folder, or None. Whoever can write into the folder chooses the code that a
        GPU runs, so a folder of another user than root is not read, and no folder into which all can write."""
        try:
            found = os.stat(self.folder)
        except OSError:
            return None  # it does not exist yet
        mode = found.st_mode
        if not stat.S_ISDIR(mode):
            return f"{self.folder} is no folder"
        if os.name == "posix" and mode & stat.S_IWOTH:
            return f"every user may write into {self.folder}"
        if os.name == "posix" and found.st_uid not in (0, os.geteuid()):
            return f"{self.folder} belongs to another user"
        return None

    def path(self, kind: str, key: str) -> Path:
        return self.folder / f"{key}.{kind}"

    def get(self, kind: str, key: str) -> bytes | None:
        """Returns the content of an entry, or None if there is no such entry, or a damaged one."""
        if self.flaw is not None:
            return None
        path = self.path(kind, key)
        try:
            with open(path, "rb") as file:
                found = os.fstat(file.fileno())
                raw = file.read(MOST_BYTES) if stat.S_ISREG(found.st_mode) else b""
        except OSError:
            return None
        content = _content(path.name, raw)
        if content is None:
            self.drop(kind, key)
        elif time.time() - found.st_mtime > USED_AGAIN:
            with suppress(OSError):  # the folder may be read-only
                os.utime(path)
        return content

    def record(self, kind: str, key: str, of: type[Record]) -> Record | None:
        """Returns an entry as a record of the class `of`, or None. An entry that is no such record is dropped."""
        content = self.get(kind, key)
        if content is None:
            return None
        try:
            return msgspec.msgpack.decode(content, type=of)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self.drop(kind, key)
            return None

    def put(self, kind: str, key: str, content: bytes | msgspec.Struct) -> bool:
        """Writes an entry, and replaces an entry of the same name. Returns whether it was written: not if the folder
        may not be written, or if the content is too large or no data."""
        if isinstance(content, msgspec.Struct):
            try:
                content = msgspec.msgpack.encode(content)
            except (msgspec.MsgspecError, TypeError, OverflowError, RecursionError):
                return False
        path = self.path(kind, key)
        raw = MAGIC + _digest(path.name, content) + content
        if len(raw) > min(MOST_BYTES, self.limit) or self.flaw is not None or not self._write(path, raw):
            return False
        self._bytes = self.usage().bytes if self._bytes is None else self._bytes + len(raw)
        if self._bytes > self.limit:
            self._bytes = self._evict()
        return True

    def _write(self, path: Path, raw: bytes) -> bool:
        partial = path.with_name(f"{path.name}-{os.getpid()}-{os.urandom(4).hex()}{PARTIAL}")
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # There is no `fsync`: it takes longer than a compile on some disks, and the digest finds what a crash of
            # the machine loses.
            with open(partial, "xb") as file:
                file.write(raw)
            os.replace(partial, path)
        except OSError:
            with suppress(OSError):
                os.unlink(partial)
            return False
        except BaseException:  # a signal of this process
            with suppress(OSError):
                os.unlink(partial)
            raise
        return True

    def drop(self, kind: str, key: str) -> None:
        with suppress(OSError):
            os.unlink(self.path(kind, key))

    def _files(self) -> Iterator[tuple[str, os.stat_result]]:
        """Yields the path and status of each file of the cache, also of partial ones."""
        with suppress(OSError), os.scandir(self.folder) as found:
            for each in found:
                key, _, kind = each.name.partition(".")
                if kind and len(key) == 64:
                    with suppress(OSError):  # another process has removed it
                        yield each.path, each.stat(follow_symlinks=False)

    def usage(self) -> Usage:
        """Counts the entries."""
        kinds: dict[str, tuple[int, int]] = {}
        for path, found in self._files():
            kind = path.rpartition(".")[2]
            if not path.endswith(PARTIAL):
                count, size = kinds.get(kind, (0, 0))
                kinds[kind] = count + 1, size + found.st_size
        totals = [*zip(*kinds.values(), strict=True)] or [(), ()]
        return Usage(sum(totals[0]), sum(totals[1]), dict(sorted(kinds.items())))

    def _evict(self) -> int:
        """Removes the entries whose last use is the longest ago, and what killed processes have left behind. Returns
        the size of the remaining entries."""
        now, found, total = time.time(), [], 0
        for path, status in self._files():
            if path.endswith(PARTIAL):
                if now - status.st_mtime > LEFT_BEHIND:
                    with suppress(OSError):
                        os.unlink(path)
                continue
            found.append((status.st_mtime, path, status.st_size))
            total += status.st_size
        if total <= self.limit:
            return total
        for _, path, size in sorted(found):
            if total <= self.limit * KEPT:
                break
            with suppress(OSError):
                os.unlink(path)
            total -= size
        return total

    def clear(self) -> Usage:
        """Removes all entries. Returns what was removed."""
        before = self.usage()
        for path, _ in [*self._files()]:
            with suppress(OSError):
                os.unlink(path)
        self._bytes = None
        after = self.usage()
        return Usage(before.entries - after.entries, before.bytes - after.bytes, before.kinds)

    def is_writable(self) -> bool:
        """Whether an entry can be written. It tries, because permissions do not tell: a disk may be read-only."""
        if self.flaw is not None:
            return False
        probe = self.path("probe", "0" * 64)
        if not self._write(probe, b""):
            return False
        os.unlink(probe)
        return True


def _digest(name: str, content: bytes) -> bytes:
    # The name is part of it, so that an entry under another's name is no entry.
    return hashlib.sha256(b"%s\0%s" % (name.encode(), content)).digest()


def _content(name: str, raw: bytes) -> bytes | None:
    start = len(MAGIC)
    content = raw[start + 32 :]
    is_whole = raw[:start] == MAGIC and raw[start : start + 32] == _digest(name, content)
    return content if is_whole else None


def key_of(*parts: str | bytes) -> str:
    """Returns the digest of some texts. Texts that are divided differently have different digests."""
    digest = hashlib.sha256()
    for part in parts:
        raw = part if isinstance(part, bytes) else part.encode(errors="surrogatepass")
        digest.update(b"%d:" % len(raw))
        digest.update(raw)
    return digest.hexdigest()


# ---- the place ----

_set: CachePlace | None = None
_stores: dict[tuple[Path, int], Store] = {}


def set_cache(place: str | Path | bool | None = None, megabytes: float | None = None) -> None:
    """Places the compile cache for this process, and overrides `DSL_CACHE` and `DSL_CACHE_MB`.

    `place` is a folder, False (off), or None or True (as the environment says). `megabytes` limits its size."""
    global _set
    before = place_of_environment()
    limit = before.limit if megabytes is None else int(megabytes * MEBIBYTE)
    if place is False or (isinstance(place, str) and place.lower() in OFF):
        _set = CachePlace(None, limit, "dsl.set_cache switched it off")
    elif place is None or place is True:
        _set = None if megabytes is None else CachePlace(before.folder, limit, before.why)
    else:
        _set = CachePlace(Path(place).absolute(), limit, "dsl.set_cache")


def place() -> CachePlace:
    """Returns where the cache is."""
    return _set or place_of_environment()


def place_of_environment() -> CachePlace:
    asked, megabytes = os.environ.get("DSL_CACHE", ""), os.environ.get("DSL_CACHE_MB", "")
    try:
        limit = int(float(megabytes or LIMIT) * MEBIBYTE)
    except (ValueError, OverflowError):
        return CachePlace(None, 0, f"DSL_CACHE_MB is {megabytes!r}, no number")
    if asked.lower() in OFF:
        return CachePlace(None, limit, "DSL_CACHE switches it off")
    if asked:
        return CachePlace(Path(asked).absolute(), limit, "DSL_CACHE")
    return CachePlace(_default(), limit, "the user's cache folder")


def _default() -> Path:
    from platformdirs import user_cache_path  # takes 2 ms to import

    return user_cache_path("dsl", appauthor=False)


def store() -> Store | None:
    """Returns the store that this process uses, or None if the cache is off."""
    at = place()
    if at.folder is None or at.limit <= 0:
        return None
    key = at.folder, at.limit
    if key not in _stores:
        _stores[key] = Store(*key)
    return _stores[key]
