"""Files: regular ones of a bounded size are read, and what is written is there whole or not at all."""

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
"""Bytes of a file that is no program: PTX, tuned data."""
MAX_LOG = 256 << 20
"""Bytes of a log: 40,000 trials with 132 choices each."""
MAX_LINE = 4 << 20
"""Bytes of a line of one; the longest that was seen has 60,000."""


def read_text(path: Path, most: int = MAX_BYTES) -> str:
    """The text of a regular file, without a mark of its byte order, which editors on Windows write in front; TileError
    of code `file` or `limit` where it is too large. A device or a pipe could go on for ever."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            what = "a directory" if stat.S_ISDIR(found.st_mode) else "no regular file"
            raise TileError("file", None, f"cannot read {path}: it is {what}")
        with path.open("rb") as file:
            raw = file.read(most + 1)
    except (OSError, ValueError, RuntimeError) as error:  # of a name with a NUL, of a loop of links
        why = getattr(error, "strerror", None) or error
        raise TileError("file", None, f"cannot read {path}: {why}", _with_suffix(path)) from None
    if len(raw) > most:
        size = max(found.st_size, len(raw))
        raise TileError("limit", None, f"{path} has {size} bytes; the limit is {most}")
    try:
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
    """Whether there is such a regular file; a name that can be none has none."""
    try:
        return path.is_file()
    except (OSError, ValueError, RuntimeError):
        return False


def write_text(path: Path, text: str) -> None:
    """Puts a text in the place of a file at once: whoever reads it, and a crash, finds the old one or the new one. What
    is no regular file (`/dev/stdout`, a pipe) is written to. TileError `file`."""
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        target = Path(os.path.realpath(path))  # a link stays one
        partial = target.with_name(f"{_prefix(target)}{os.getpid()}-{secrets.token_hex(4)}{PARTIAL}")
        try:
            with partial.open("x", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                if target.exists():
                    os.chmod(partial, stat.S_IMODE(target.stat().st_mode))
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
    """The lines of a log, one after the other; what is no UTF-8, or a line longer than MAX_LINE, which comes cut,
    spoils its own line alone. TileError `file`; `limit` where it has more than MAX_LOG bytes."""
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
    """A line more at the end of a log, in one write: lines of processes do not mix. It begins anew where the last
    writer was stopped within a line."""
    with path.open("a+b", buffering=0) as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - 1))
        begin = b"" if file.read(1) in (b"", b"\n") else b"\n"
        file.write(begin + line.encode() + b"\n")


def _prefix(target: Path) -> str:
    return f".{target.name[:80]}-"


def sweep(path: Path) -> None:
    """Removes what writers of a file left that were killed; for who is alone with it."""
    target = Path(os.path.realpath(path))
    for each in target.parent.glob(f"{glob.escape(_prefix(target))}*{PARTIAL}"):
        with suppress(OSError):
            each.unlink()


def _sync_folder(folder: Path) -> None:
    """A new name survives a loss of power once its folder is written."""
    with suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Alone with a file, among processes that ask for this: by a lock on a hidden file beside it, which the system
    takes back when its holder dies."""
    from filelock import FileLock

    target = Path(os.path.realpath(path))
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
