"""Enlarge a real PyTorch profiler trace to a given size: copies of its events with shifted times and ids.

    python tests/benchmarks/enlarge.py TRACE FOLDER SIZE_MB [--plain]

writes FOLDER/big.json and, unless only the plain file is asked for, the same as big.json.gz and its event list alone
as array.json.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import sys
from pathlib import Path

# Ids that tie events together; each copy gets its own range.
_ID_STEP = 10_000_000
_SHIFTED = re.compile(
    rb'("ts"\s*:\s*)(\d+)|("(?:correlation|External id|external id|Python id|Python parent id|Ev Idx|id)"\s*:\s*)(\d+)'
)
_GAP_US = 1_000


def enlarge(source: Path, folder: Path, size_bytes: int, *, plain: bool = False) -> int:
    """Write copies of the trace's events until the file has the size; return the number of copies."""
    raw = source.read_bytes()
    text = gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw
    start = text.index(b"[", text.index(b'"traceEvents"')) + 1
    events, length = json.JSONDecoder().raw_decode(text[start - 1 :].decode("latin-1"))
    end = start - 1 + length - 1
    body = text[start:end].strip()
    timed = [event for event in events if event.get("ph") == "X"]
    span_us = int(max(e["ts"] + e["dur"] for e in timed) - min(e["ts"] for e in timed)) + _GAP_US
    copies = 0
    with (
        (folder / "big.json").open("wb") as whole,
        (Path(os.devnull) if plain else folder / "array.json").open("wb") as array,
    ):
        whole.write(text[:start])
        array.write(b"[")
        while whole.tell() < size_bytes:
            copy = _shifted(body, copies * span_us, copies * _ID_STEP)
            for out in (whole, array):
                out.write(b",\n" if copies else b"")
                out.write(copy)
            copies += 1
        whole.write(text[end:])
        array.write(b"]")
    if not plain:
        _compress(folder / "big.json", folder / "big.json.gz")
    return copies


def _compress(file: Path, packed: Path) -> None:
    with file.open("rb") as plain, gzip.open(packed, "wb", compresslevel=1) as out:
        shutil.copyfileobj(plain, out, 2**24)


def _shifted(body: bytes, shift_us: int, shift_id: int) -> bytes:
    def replace(match: re.Match[bytes]) -> bytes:
        if match[1]:
            return match[1] + str(int(match[2]) + shift_us).encode()
        return match[3] + str(int(match[4]) + shift_id).encode()

    return _SHIFTED.sub(replace, body)


if __name__ == "__main__":
    enlarge(Path(sys.argv[1]), Path(sys.argv[2]), int(float(sys.argv[3]) * 1e6), plain="--plain" in sys.argv[4:])
