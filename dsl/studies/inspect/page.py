"""Writes the HTML page: a single file without references to other files."""

from __future__ import annotations

import base64
import gzip
import html
import json
from pathlib import Path
from typing import Any

TEMPLATE = Path(__file__).with_name("page.html")


def page(data: dict[str, Any]) -> str:
    """The HTML of the page that shows `data`. `data["title"]` is its title.

    The data is compressed and encoded as base64, so that it cannot contain a closing HTML tag.
    """
    raw = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    # mtime=0, so that equal data gives an equal file.
    packed = base64.b64encode(gzip.compress(raw, 9, mtime=0)).decode()
    text = TEMPLATE.read_text(encoding="utf-8")
    return text.replace("{{title}}", html.escape(data["title"])).replace("{{data}}", packed)
