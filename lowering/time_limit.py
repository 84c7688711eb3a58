"""A limit of time for calls of the user's code, in whatever thread they are made."""

from __future__ import annotations

import ctypes
import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

SECONDS = 20.0
"""That one call of a plug-in may take. The slowest pass of the compiler's own takes 0.3 s of the largest sample."""
AGAIN = 1.0
"""Seconds after which a call is interrupted once more, where it has caught the first time."""


class Overdue(Exception):
    """A call took longer than it may."""


class _Interrupt(BaseException):
    """Raised in the thread of a call that is overdue; no `except Exception` catches it."""


class _Call:
    __slots__ = ("end", "is_overdue", "thread")

    def __init__(self, seconds: float):
        self.thread, self.end, self.is_overdue = threading.get_ident(), time.monotonic() + seconds, False


_calls: list[_Call] = []
_changed = threading.Condition()
_watcher: threading.Thread | None = None


@contextmanager
def limited(seconds: float | None = None) -> Iterator[None]:
    """Ends what is done within after so many seconds, SECONDS without: raises Overdue, whose traceback has the line
    that it was at. What waits in code that is not Python's ends when that does."""
    global _watcher
    call = _Call(SECONDS if seconds is None else seconds)
    with _changed:
        if _watcher is None or not _watcher.is_alive():
            _watcher = threading.Thread(target=_watch, name="dsl-time-limit", daemon=True)
            _watcher.start()
        _calls.append(call)
        _changed.notify()
    try:
        yield
    except (_Interrupt, KeyboardInterrupt) as interrupt:
        if not call.is_overdue:
            raise  # of a call around this one, or by Ctrl-C
        raise Overdue().with_traceback(interrupt.__traceback__) from None
    finally:
        _end(call)


def _end(call: _Call) -> None:
    """A call has ended. An interrupt that comes at that moment means nothing any more."""
    call.end = math.inf
    while call in _calls:
        try:
            with _changed:
                _calls.remove(call)
        except (_Interrupt, KeyboardInterrupt):
            if not call.is_overdue:
                raise
    if call.is_overdue:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(call.thread), None)
        with suppress(KeyboardInterrupt):
            time.sleep(0)


def _watch() -> None:
    while True:
        with _changed:
            first = min((call.end for call in _calls), default=math.inf)
            _changed.wait(None if first == math.inf else max(0.0, first - time.monotonic()))
            now = time.monotonic()
            for call in _calls:
                if now >= call.end:
                    call.is_overdue, call.end = True, now + AGAIN
                    _interrupt(call.thread)


def _interrupt(thread: int) -> None:
    """In the main thread as Ctrl-C does, which ends a wait, too; else before the next step of Python's."""
    is_main = thread == threading.main_thread().ident
    if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.pthread_kill(thread, signal.SIGINT)
    else:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(_Interrupt))
