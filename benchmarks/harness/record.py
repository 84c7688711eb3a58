"""Writes results as JSON, with the device, versions, sources and settings of the measurement."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from .rows import Row

PACKAGES = ("cuda-bindings", "llvmlite", "numpy", "torch", "triton", "nvidia-cudnn-cu13", "cupy-cuda13x")


def versions() -> dict[str, str]:
    """The versions of Python, the NVIDIA driver and the installed packages."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    if shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
        found["driver"] = subprocess.run(query, capture_output=True, text=True, timeout=60).stdout.strip()
    return found


def save(path: Path, rows: Iterable[Row], device: str, sources: Iterable[Path], **settings: Any) -> None:
    """Writes the rows with device, versions, command, settings, and the SHA-256 of the `.tile` files."""
    record = {
        "command": sys.argv,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": device,
        "versions": versions(),
        "sources": {source.name: sha256(source.read_bytes()).hexdigest() for source in sources},
        **settings,
        "rows": [asdict(row) for row in rows],
    }
    path.write_text(json.dumps(record, indent=1) + "\n")
