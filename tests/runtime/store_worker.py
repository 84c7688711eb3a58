"""A process that reads and writes entries of a store until it is killed. A key decides the content of its entry."""

from __future__ import annotations

import hashlib
import random
import sys
from pathlib import Path

from dsl.runtime.store import Store

KEYS = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(24)]


def content_of(key: str) -> bytes:
    return key.encode() * (1 + int(key[:4], 16) % 2000)


def main(folder: str, seed: int, limit: int) -> int:
    store, drawn = Store(Path(folder), limit), random.Random(seed)
    for _ in range(400):
        key = drawn.choice(KEYS)
        found = store.get("text", key)
        if found is None:
            store.put("text", key, content_of(key))
        elif found != content_of(key):
            print("WRONG", key)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
