"""The TOML files of templates as JSON, which takes a twentieth of the time to read.

The package contains them as `parsed.json`. After you change a TOML file, run `python dsl/ptx_templates/parsed.py` to
write the JSON again. Until then, each start parses the changed file, and a test fails.
"""

from __future__ import annotations

import json
import tomllib
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

DIRECTORY = Path(__file__).parent
PARSED = DIRECTORY / "parsed.json"


def parsed(name: str) -> dict[str, Any]:
    """Returns the content of the TOML file of the family `name`."""
    text = (DIRECTORY / f"{name}.toml").read_bytes()
    digest, content = _all().get(name, ("", b""))
    return msgspec.json.decode(content) if digest == sha256(text).hexdigest() else tomllib.loads(text.decode())


@cache
def _all() -> dict[str, tuple[str, msgspec.Raw]]:
    """Maps each family to the digest of its TOML file, and to the content as JSON text, which is decoded when the
    family is needed."""
    return msgspec.json.decode(PARSED.read_bytes(), type=dict[str, tuple[str, msgspec.Raw]])


def serialise() -> str:
    """Returns the text of `parsed.json`, with a line for each family."""
    lines = []
    for path in sorted(DIRECTORY.glob("*.toml")):
        row = [sha256(path.read_bytes()).hexdigest(), tomllib.loads(path.read_text(encoding="utf-8"))]
        lines.append(f"{json.dumps(path.stem)}:{json.dumps(row, separators=(',', ':'))}")
    return "{" + ",\n".join(lines) + "}\n"


if __name__ == "__main__":
    PARSED.write_text(serialise(), encoding="utf-8")
