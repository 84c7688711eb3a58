"""Reading and writing files: only regular files of a bounded size are read, and a write is whole or has no effect."""

from __future__ import annotations

import glob
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dsl.lowering.ir.location import TileError
from dsl.text.tree import MAX_BYTES

PARTIAL = ".new"
MAX_TEXT = 64 << 20
"""The most bytes of a file that is not a program: PTX, tuned data."""
MAX_LOG = 256 << 20
"""The most bytes of a log: 40,000 trials with 132 choices each."""
MAX_LINE = 4 << 20
"""The most bytes of a line of a log; the longest that was seen has 60,000."""


def read_text(path: Path, most: int = MAX_BYTES) -> str:
    """The text of a regular file of at most `most` bytes, without a byte order mark. TileError: `limit` if it is
    larger, `file` if it cannot be read or is not UTF-8."""
    try:
        found = path.stat()
        # A device or a pipe may never end.
        if not stat.S_ISREG(found.st_mode):
            what = "a directory" if stat.S_ISDIR(found.st_mode) else "no regular file"
            raise TileError("file", None, f"cannot read {path}: it is {what}")
        with path.open("rb") as file:
            # The size that `stat` gave is not trusted: the file may grow in between, and files of /proc say 0.
            raw = file.read(most + 1)
    except (OSError, ValueError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or error
        raise TileError("file", None, f"cannot read {path}: {why}", _with_suffix(path)) from None
    if len(raw) > most:
        size = max(found.st_size, len(raw))
        raise TileError("limit", None, f"{path} has {size} bytes; the limit is {most}")
    try:
        # Editors on Windows write the byte order mark in front.
        return raw.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise TileError(
            "file", None, f"{path} is no UTF-8 text: byte {error.start} is {raw[error.start]:#04x}"
        ) from None


def _with_suffix(path: Path) -> str | None:
    with suppress(OSError, ValueError, RuntimeError):
        other = path.with_name(path.name + ".tile")
        return f"did you mean '{other}'?" if other.is_file() else None
    return None


def resolved(path: Path) -> Path:
    """The absolute path without links. TileError `file` for a loop of links."""
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or error
        raise TileError("file", None, f"cannot read {path}: {why}") from None


def is_file(path: Path) -> bool:
    """Whether the path is a regular file. A name that no file can have is none, not an error."""
    try:
        return path.is_file()
    except (OSError, ValueError, RuntimeError):
        return False


def write_text(path: Path, text: str) -> None:
    """Replaces the text of a file in one step: a reader, or a crash, finds the old text or the new one. A device or a
    pipe (`/dev/stdout`) is written to directly. TileError `file`."""
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        target = Path(os.path.realpath(path))
        # The file behind a link is replaced, and the link stays. The partial file lies in the same folder, since a
        # rename is atomic within a file system alone. Its random part keeps threads of one process apart.
        partial = target.with_name(f"{_prefix(target)}{os.getpid()}-{secrets.token_hex(4)}{PARTIAL}")
        try:
            with partial.open("x", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                # The new file has the permissions of the old one.
                if target.exists():
                    os.chmod(partial, stat.S_IMODE(target.stat().st_mode))
                # The data reach the disk before the rename does: else a crash may leave an empty file under the name.
                os.fsync(file.fileno())
            os.replace(partial, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(partial)
            raise
        _sync_folder(target.parent)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise TileError("file", None, f"cannot write {path}: {why}") from None


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a log, one by one. Bytes that are not UTF-8 are replaced, and a line longer than MAX_LINE is cut, so
    damage stays within its line. TileError `file`; `limit` if the log has more than MAX_LOG bytes."""
    if not is_file(path):
        raise TileError("file", None, f"cannot read {path}: it is no regular file")
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_LOG:
                message = f"{path} has {size} bytes; the limit of a log is {MAX_LOG}"
                raise TileError("limit", None, message, "another --log, or the lines of it that are wanted")
            while raw := file.readline(MAX_LINE):
                yield raw.decode("utf-8", "replace").rstrip("\r\n")
                while len(raw) == MAX_LINE and not raw.endswith(b"\n"):
                    raw = file.readline(MAX_LINE)
    except OSError as error:
        raise TileError("file", None, f"cannot read {path}: {error.strerror}") from None


def append_line(path: Path, line: str) -> None:
    """Appends a line to a log, in one write, so that the lines of several processes do not mix. If the last writer was
    stopped within a line, a line break comes first."""
    with path.open("a+b", buffering=0) as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - 1))
        # Without the break, the new line would be lost with the broken one.
        begin = b"" if file.read(1) in (b"", b"\n") else b"\n"
        file.write(begin + line.encode() + b"\n")


def _prefix(target: Path) -> str:
    return f".{target.name[:80]}-"


def sweep(path: Path) -> None:
    """Removes the partial files of writers that were killed. The caller holds the file's lock."""
    target = Path(os.path.realpath(path))
    for each in target.parent.glob(f"{glob.escape(_prefix(target))}*{PARTIAL}"):
        with suppress(OSError):
            each.unlink()


def _sync_folder(folder: Path) -> None:
    """Writes a folder to the disk: only then does a new name survive a loss of power."""
    with suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds the lock of a file, among the processes that use this function. The lock is on a hidden file beside it; the
    system releases it when its holder dies."""
    # Imported here, since most commands write no file. It locks on Windows, too, as `fcntl` cannot.
    from filelock import FileLock

    target = Path(os.path.realpath(path))
    # Not on the file itself: `write_text` replaces it, and the lock would be on the old one.
    lock = FileLock(target.with_name(f".{target.name}.lock"))
    try:
        lock.acquire()
    except (OSError, ValueError, NotImplementedError) as error:
        why = getattr(error, "strerror", None) or error
        raise TileError("file", None, f"cannot write {path}: {why}") from None
    try:
        yield
    finally:
        lock.release()
