"""Enlarge a real PyTorch profiler trace to a given size: copies of its events with shifted times and ids.

    python tests/benchmarks/enlarge.py TRACE OUT SIZE_MB
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path

# Ids that tie events together; each copy gets its own range.
_ID_STEP = 10_000_000
_SHIFTED = re.compile(
    rb'("ts"\s*:\s*)(\d+)|("(?:correlation|External id|external id|Python id|Python parent id|Ev Idx|id)"\s*:\s*)(\d+)'
)
_GAP_US = 1_000


def enlarge(source: Path, target: Path, size_bytes: int) -> int:
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
    with target.open("wb") as out:
        out.write(text[:start])
        while out.tell() < size_bytes:
            out.write(b",\n" if copies else b"")
            out.write(_shifted(body, copies * span_us, copies * _ID_STEP))
            copies += 1
        out.write(text[end:])
    return copies


def _shifted(body: bytes, shift_us: int, shift_id: int) -> bytes:
    def replace(match: re.Match[bytes]) -> bytes:
        if match[1]:
            return match[1] + str(int(match[2]) + shift_us).encode()
        return match[3] + str(int(match[4]) + shift_id).encode()

    return _SHIFTED.sub(replace, body)


if __name__ == "__main__":
    enlarge(Path(sys.argv[1]), Path(sys.argv[2]), int(float(sys.argv[3]) * 1e6))
