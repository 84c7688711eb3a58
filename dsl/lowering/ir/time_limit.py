"""Limits the time of calls of the user's code, in any thread."""

from __future__ import annotations

import ctypes
import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

SECONDS = 20.0
"""The time limit of one call of a plug-in. The compiler's slowest pass takes 0.3 s for the largest sample."""
AGAIN = 1.0
"""The number of seconds until a call that caught an interrupt is interrupted again."""

TURNS = 1000
"""The maximum number of times that a thread yields to let a pending interrupt arrive. Once is usually sufficient."""


class Overdue(Exception):
    """Raised if a call exceeded its time limit."""


class _Interrupt(BaseException):
    """Raised in a thread whose call exceeded its limit. `except Exception` does not catch it."""


class _Call:
    __slots__ = ("end", "is_overdue", "thread")

    def __init__(self, seconds: float):
        self.thread, self.end, self.is_overdue = threading.get_ident(), time.monotonic() + seconds, False


_calls: list[_Call] = []
_changed = threading.Condition()
_watcher: threading.Thread | None = None


@contextmanager
def limited(seconds: float | None = None) -> Iterator[None]:
    """A context manager that raises Overdue after `seconds` seconds (default: SECONDS). The traceback of Overdue
    contains the interrupted line. Code that waits outside of Python, for example in C, is interrupted only when it
    returns."""
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
            raise  # meant for a call around this one, or caused by Ctrl-C
        raise Overdue().with_traceback(interrupt.__traceback__) from None
    finally:
        _end(call)


def _end(call: _Call) -> None:
    """Ends a call. An interrupt that arrives meanwhile is ignored."""
    call.end = math.inf
    while call in _calls:  # repeated if an interrupt arrives before the call is removed
        try:
            with _changed:
                _calls.remove(call)
        except (_Interrupt, KeyboardInterrupt):
            if not call.is_overdue:
                raise
    if call.is_overdue:
        with suppress(_Interrupt, KeyboardInterrupt):
            if not _is_ended_by_a_signal(call.thread):
                _raise_in(call.thread)  # replaces a pending interrupt
            for _ in range(TURNS):
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
    """Interrupts a thread. The main thread gets a SIGINT, which also ends a wait. Other threads are interrupted before
    their next Python instruction."""
    if _is_ended_by_a_signal(thread):
        signal.pthread_kill(thread, signal.SIGINT)
    else:
        _raise_in(thread)


def _is_ended_by_a_signal(thread: int) -> bool:
    # SIGINT is used only with Python's own handler, because another handler might ignore it.
    is_main = thread == threading.main_thread().ident
    return is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _raise_in(thread: int) -> None:
    """Raises _Interrupt in a thread. At most one _Interrupt is pending, and it is never withdrawn: CPython would then
    check for it at each call, and under a profiler Python 3.11 hangs in this check."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(_Interrupt))
