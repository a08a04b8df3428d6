"""Tells by its first bytes which of PyTorch's files about memory a file is."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Literal

_HEAD_BYTES = 2**12


def memory_file_kind(path: Path) -> Literal["snapshot", "timeline"] | None:
    """Return whether a file is a snapshot or an exported timeline; None for anything else."""
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            head = file.read(2)
        if head[:1] == b"\x80":
            return "snapshot"
        with gzip.open(path) if head == b"\x1f\x8b" else path.open("rb") as content:
            start = b"".join(content.read(_HEAD_BYTES).split())
    except (OSError, EOFError, zlib.error):
        return None
    if start.startswith(b'{"segments"'):
        return "snapshot"
    return "timeline" if start.startswith(b"[[-1,1,") else None
