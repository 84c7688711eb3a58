"""The store of the compile cache: no entry that was damaged, renamed or half written is believed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from store_worker import KEYS, content_of

from dsl.runtime import store as stores
from dsl.runtime.store import LEFT_BEHIND, MAGIC, PARTIAL, Store, key_of, set_cache

KEY, OTHER = KEYS[:2]
WORKER = Path(__file__).with_name("store_worker.py")
ROOT = Path(__file__).parents[2]


class Pair(Struct):
    a: int
    b: str


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache")


def files(store: Store) -> list[str]:
    return sorted(os.listdir(store.folder))


def test_an_entry_is_read_back(store: Store) -> None:
    assert store.get("ptx", KEY) is None
    assert store.put("ptx", KEY, b"text")
    assert store.get("ptx", KEY) == b"text"
    assert (store.get("ptx", OTHER), store.get("plan", KEY)) == (None, None)
    assert files(store) == [f"{KEY}.ptx"]


def test_a_record_is_read_as_its_class(store: Store) -> None:
    store.put("pair", KEY, Pair(1, "x"))
    assert store.record("pair", KEY, Pair) == Pair(1, "x")
    store.put("pair", OTHER, b"\x01")
    assert store.record("pair", OTHER, Pair) is None
    assert files(store) == [f"{KEY}.pair"]


def test_a_record_that_is_no_data_is_not_written(store: Store) -> None:
    class Odd(Struct):
        value: Any

    assert not store.put("odd", KEY, Odd(object()))
    assert not store.put("odd", KEY, Odd(1 << 80))


def whole(store: Store) -> bytes:
    store.put("ptx", KEY, b"the text of a kernel")
    return store.path("ptx", KEY).read_bytes()


@pytest.mark.parametrize("at", range(0, len(MAGIC) + 32 + 20, 5))
def test_a_changed_byte_is_found(store: Store, at: int) -> None:
    raw = bytearray(whole(store))
    raw[at] ^= 1
    store.path("ptx", KEY).write_bytes(raw)
    assert store.get("ptx", KEY) is None
    assert files(store) == []  # it is dropped, and made again


@pytest.mark.parametrize("length", [0, 5, len(MAGIC), len(MAGIC) + 32, -1])
def test_a_short_entry_is_found(store: Store, length: int) -> None:
    raw = whole(store)
    store.path("ptx", KEY).write_bytes(raw[:length])
    assert store.get("ptx", KEY) is None


def test_a_longer_entry_is_found(store: Store) -> None:
    raw = whole(store)
    store.path("ptx", KEY).write_bytes(raw + b"x")
    assert store.get("ptx", KEY) is None


def test_an_entry_under_another_name_is_none(store: Store) -> None:
    whole(store)
    os.rename(store.path("ptx", KEY), store.path("ptx", OTHER))
    assert store.get("ptx", OTHER) is None


def test_an_entry_that_is_a_folder_is_none(store: Store) -> None:
    store.path("ptx", KEY).mkdir(parents=True)
    assert store.get("ptx", KEY) is None
    assert not store.put("ptx", KEY, b"text")


def test_the_least_recently_used_are_removed(store: Store) -> None:
    store.limit = 10_000
    now = time.time()
    for number, key in enumerate(KEYS[:9]):
        store.put("ptx", key, b"x" * 1000)
        os.utime(store.path("ptx", key), (now - 9000 + number,) * 2)
    assert store.get("ptx", KEYS[0]) is not None  # its use is recorded
    store.put("ptx", KEYS[9], b"x" * 1000)
    kept = [number for number, key in enumerate(KEYS) if store.get("ptx", key) is not None]
    assert kept[0] == 0 and kept[-1] == 9 and 1 not in kept
    assert store.usage().bytes <= store.limit


def test_what_is_larger_than_the_limit_is_not_kept(store: Store) -> None:
    store.limit = 1000
    assert not store.put("ptx", KEY, b"x" * 1000)
    assert store.get("ptx", KEY) is None


def test_partial_files_of_killed_processes_are_removed(store: Store) -> None:
    store.put("ptx", KEY, b"x" * 1000)
    old, new = (store.path("ptx", f"{KEY}").with_name(f"{KEY}.ptx-{n}-ab{PARTIAL}") for n in (1, 2))
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 2 * LEFT_BEHIND,) * 2)
    assert store.usage().entries == 1
    store.limit = 1500
    store.put("ptx", OTHER, b"x" * 1000)
    assert new.name in files(store) and old.name not in files(store)


def test_clear_removes_all(store: Store) -> None:
    for key in KEYS[:3]:
        store.put("ptx", key, b"text")
    assert store.clear().entries == 3
    assert files(store) == []


def test_other_files_in_the_folder_stay(store: Store) -> None:
    store.put("ptx", KEY, b"text")
    (store.folder / "notes.txt").write_text("mine")
    store.clear()
    assert files(store) == ["notes.txt"]


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_folder_that_all_may_write_is_not_read(store: Store) -> None:
    store.put("ptx", KEY, b"text")
    os.chmod(store.folder, 0o777)
    other = Store(store.folder)
    assert other.flaw is not None and other.get("ptx", KEY) is None and not other.put("ptx", OTHER, b"")


@pytest.mark.skipif(os.name != "posix", reason="users of POSIX")
def test_a_folder_of_another_user_is_not_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("ptx", KEY, b"text")
    owner = store.folder.stat()
    other = list(owner)
    other[4] = os.geteuid() + 1  # st_uid
    monkeypatch.setattr(stores.os, "stat", lambda path: os.stat_result(other))
    assert "another user" in (Store(store.folder).flaw or "") and Store(store.folder).get("ptx", KEY) is None
    other[4] = 0  # an administrator's, for all
    assert Store(store.folder).get("ptx", KEY) == b"text"


def test_the_folder_belongs_to_its_user_alone(store: Store) -> None:
    store.put("ptx", KEY, b"text")
    assert os.name != "posix" or store.folder.stat().st_mode & 0o777 == 0o700


def test_nothing_is_kept_where_a_file_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        store = Store(folder)
        assert not store.put("ptx", KEY, b"text") and store.get("ptx", KEY) is None and not store.is_writable()


def test_texts_that_are_divided_differently_have_other_keys() -> None:
    keys = {key_of("ab", "c"), key_of("a", "bc"), key_of("abc"), key_of("ab", "c", ""), key_of("", "ab", "c")}
    assert len(keys) == 5


def test_the_environment_and_python_place_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(stores, "_set", None)
    for word in ("off", "OFF", "0"):
        monkeypatch.setenv("DSL_CACHE", word)
        assert stores.store() is None
    monkeypatch.setenv("DSL_CACHE", str(tmp_path / "a"))
    monkeypatch.setenv("DSL_CACHE_MB", "2")
    assert (found := stores.store()) is not None and (found.folder, found.limit) == (tmp_path / "a", 2 << 20)
    set_cache(tmp_path / "b", megabytes=3)
    assert (found := stores.store()) is not None and (found.folder, found.limit) == (tmp_path / "b", 3 << 20)
    set_cache(False)
    assert stores.store() is None
    set_cache()
    assert (found := stores.store()) is not None and found.folder == tmp_path / "a"
    monkeypatch.setenv("DSL_CACHE_MB", "many")
    assert stores.store() is None


def start(folder: Path, seed: int, limit: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(WORKER), str(folder), str(seed), str(limit)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})


def damage(folder: Path, drawn: random.Random) -> None:
    """Changes a byte of an entry, or shortens it, as a faulty disk does."""
    paths = sorted(folder.glob("*.text"))
    if not paths:
        return
    path = drawn.choice(paths)
    try:
        size = path.stat().st_size
        with open(path, "r+b") as file:
            if drawn.random() < 0.5:
                file.truncate(drawn.randrange(size + 1))
            else:
                file.seek(drawn.randrange(max(size, 1)))
                file.write(b"\xff")
    except OSError:  # removed meanwhile
        return


def test_a_hundred_processes_that_are_killed_at_random_leave_no_wrong_entry(tmp_path: Path) -> None:
    """Some entries are damaged meanwhile, and the limit makes processes remove entries that others read."""
    folder, drawn, limit = tmp_path / "cache", random.Random(7), 900_000
    folder.mkdir(mode=0o700)
    left, running, killed = list(range(100)), list[tuple[subprocess.Popen[bytes], float | None]](), 0
    while left or running:
        while left and len(running) < 5:
            until = time.monotonic() + drawn.uniform(0.05, 0.6) if drawn.random() < 0.6 else None
            running.append((start(folder, left.pop(), limit), until))
        damage(folder, drawn)
        for process, until in running:
            if until is not None and time.monotonic() > until and process.poll() is None:
                process.kill()
                killed += 1
        for process, _ in [each for each in running if each[0].poll() is not None]:
            assert b"WRONG" not in process.communicate()[0] and process.returncode in (0, -9)
        running = [each for each in running if each[0].returncode is None]
        time.sleep(0.005)
    assert killed > 10
    store = Store(folder, limit)
    known = {key: store.get("text", key) for key in KEYS}
    assert all(found is None or found == content_of(key) for key, found in known.items())
    assert sum(found is not None for found in known.values()) > 3
    assert store.usage().bytes < 3 * limit
