"""Reads and writes files. Only regular files of limited size are read. A write is atomic: it succeeds or has no
effect."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dsl.lowering.ir.location import TileError

PARTIAL = ".new"
MAX_BYTES = 1 << 20
"""The size limit of a program's file, in bytes."""
MAX_TEXT = 64 << 20
"""The size limit of a file that is not a program, in bytes. Examples are PTX and tuned data."""
MAX_LOG = 256 << 20
"""The size limit of a log of tuning trials, in bytes. 40,000 trials with 132 choices each fit in a log."""
MAX_LINE = 4 << 20
"""The size limit of a log's line, in bytes. The longest line seen so far has 60,000 bytes."""


def read_text(path: Path, most: int = MAX_BYTES) -> str:
    """Returns the text of a regular file of at most `most` bytes. A byte order mark is removed. Raises TileError
    `limit` for a larger file. Raises TileError `file` if the file cannot be read or is not UTF-8."""
    try:
        found = path.stat()
        # Reading a device or a pipe might never end.
        if not stat.S_ISREG(found.st_mode):
            what = "a directory" if stat.S_ISDIR(found.st_mode) else "no regular file"
            raise TileError("file", None, f"cannot read {path}: it is {what}")
        with path.open("rb") as file:
            # The size from `stat` is not reliable: the file may have grown since, and files in /proc report 0.
            raw = file.read(most + 1)
    except (OSError, ValueError, RuntimeError) as error:
        raise _failed("read", path, error, _with_suffix(path)) from None
    if len(raw) > most:
        size = max(found.st_size, len(raw))
        raise TileError("limit", None, f"{path} has {size} bytes; the limit is {most}")
    try:
        # Editors on Windows put a byte order mark at the start of a file.
        return raw.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        message = f"{path} is no UTF-8 text: byte {error.start} is {raw[error.start]:#04x}"
        raise TileError("file", None, message) from None


def tuned_path(path: str | Path) -> Path:
    """Returns the path of the tuned data, for example `softmax.tuned.json` for `softmax.tile`."""
    return Path(path).with_suffix(".tuned.json")


def tuned_text(path: str | Path) -> str | None:
    """Returns the text of the tuned data of a program's file, as far as it can be read, or None if there is none."""
    try:
        return tuned_path(path).read_bytes().decode(errors="surrogateescape")
    except (OSError, ValueError):
        return None


def _failed(what: str, path: Path, error: Exception, hint: str | None = None) -> TileError:
    why = getattr(error, "strerror", None) or error
    return TileError("file", None, f"cannot {what} {path}: {why}", hint)


def _with_suffix(path: Path) -> str | None:
    with suppress(OSError, ValueError, RuntimeError):
        other = path.with_name(path.name + ".tile")
        return f"did you mean '{other}'?" if other.is_file() else None
    return None


def resolved(path: Path) -> Path:
    """Returns the absolute path, with symbolic links resolved. Raises TileError `file` if the links form a loop."""
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise _failed("read", path, error) from None


def is_file(path: Path) -> bool:
    """Whether the path is a regular file. An invalid file name gives False and raises no error."""
    try:
        return path.is_file()
    except (OSError, ValueError, RuntimeError):
        return False


def write_text(path: Path, text: str) -> None:
    """Replaces the text of a file atomically. A reader sees either the old text or the new text, even after a crash. A
    device or a pipe, such as `/dev/stdout`, is written directly. Raises TileError `file` if writing fails."""
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        import secrets  # takes 1 ms to import, and most commands write no file

        target = Path(os.path.realpath(path))
        # The target of a symbolic link is replaced, and the link stays. The text is first written to a partial file in
        # the target's folder, since a rename is atomic only within one file system. The random part of the partial
        # file's name distinguishes the threads of one process.
        partial = target.with_name(f"{_prefix(target)}{os.getpid()}-{secrets.token_hex(4)}{PARTIAL}")
        try:
            with partial.open("x", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                # The new file gets the permissions of the old file.
                if target.exists():
                    os.chmod(partial, stat.S_IMODE(target.stat().st_mode))
                # The data must reach the disk before the rename. Otherwise a crash could leave an empty file under the
                # final name.
                os.fsync(file.fileno())
            os.replace(partial, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(partial)
            raise
        _sync_folder(target.parent)
    except (OSError, ValueError) as error:
        raise _failed("write", path, error) from None


def read_lines(path: Path) -> Iterator[str]:
    """Yields the lines of a log. Invalid UTF-8 is replaced, and a line longer than MAX_LINE is truncated. So a damaged
    line does not affect other lines. Raises TileError `file` if the log cannot be read. Raises TileError `limit` if the
    log has more than MAX_LOG bytes."""
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
        raise _failed("read", path, error) from None


def append_line(path: Path, line: str) -> None:
    """Appends a line to a log. The line is appended by a single write, so that lines of several processes do not mix.
    If the log ends with an incomplete line of a killed process, a line break is written first."""
    with path.open("a+b", buffering=0) as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - 1))
        # Without the line break, the new line would become part of the incomplete line and be lost.
        begin = b"" if file.read(1) in (b"", b"\n") else b"\n"
        file.write(begin + line.encode() + b"\n")


def _prefix(target: Path) -> str:
    return f".{target.name[:80]}-"


def sweep(path: Path) -> None:
    """Removes the partial files of `path` that killed processes left behind. The caller must hold the file's lock."""
    import glob

    target = Path(os.path.realpath(path))
    for each in target.parent.glob(f"{glob.escape(_prefix(target))}*{PARTIAL}"):
        with suppress(OSError):
            each.unlink()


def _sync_folder(folder: Path) -> None:
    """Flushes a folder to the disk. Without the flush, a renamed file might not survive a loss of power."""
    with suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds an exclusive lock on a file. The lock excludes only processes that also call this function. The lock is
    taken on a hidden file in the same folder. The operating system releases the lock if the process dies."""
    # The import is here, since most commands write no file. Unlike `fcntl`, `filelock` also works on Windows.
    from filelock import FileLock

    target = Path(os.path.realpath(path))
    # The lock is not on the file itself, since `write_text` replaces the file. The lock would then stay on the old
    # file.
    lock = FileLock(target.with_name(f".{target.name}.lock"))
    try:
        lock.acquire()
    except (OSError, ValueError, NotImplementedError) as error:
        raise _failed("write", path, error) from None
    try:
        yield
    finally:
        lock.release()
