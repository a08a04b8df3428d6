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
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

# Ids that tie events together; each copy gets its own range.
_ID_STEP = 10_000_000
_SHIFTED = re.compile(
    rb'("ts"\s*:\s*)(\d+)|("(?:correlation|External id|external id|Python id|Python parent id|Ev Idx|id)"\s*:\s*)(\d+)'
)
_GAP_US = 1_000


def enlarge_events(source: Path, target: Path, times: int) -> Path:
    """Write a trace that holds the events of another so many times, one after the other."""
    text, start, end, span_us = _read(source)
    body = text[start:end].strip()
    with target.open("wb") as out:
        out.write(text[:start])
        for copy in range(times):
            out.write(b",\n" if copy else b"")
            out.write(_shifted(body, copy * span_us, copy * _ID_STEP))
        out.write(text[end:])
    return target


def record_again(source: Path, folder: Path, times: int) -> Path:
    """Write recordings of one rank into a folder: so many times the events of a trace, each at another time."""
    text, start, end, span_us = _read(source)
    body = text[start:end].strip()
    folder.mkdir()
    for copy in range(times):
        events = _shifted(body, copy * 3 * span_us, 0)
        (folder / f"{'abcdefghijklmnop'[copy]}.json").write_bytes(text[:start] + events + text[end:])
    return folder


def enlarge_export(source: Path, target: Path, times: int) -> Path:
    """Write an export of Nsight Systems whose rows with a time are there so many times, one after the other."""
    shutil.copyfile(source, target)
    with closing(sqlite3.connect(target)) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = {
            name: [row[1] for row in database.execute(f'PRAGMA table_info("{name}")') if not row[5]] for name in names
        }
        timed = [name for name in names if "start" in columns[name]]
        first_ns = min(database.execute(f'SELECT min(start) FROM "{name}"').fetchone()[0] or 2**62 for name in timed)
        ends = [(name, "end" if "end" in columns[name] else "start") for name in timed]
        last_ns = max(database.execute(f'SELECT max("{end}") FROM "{name}"').fetchone()[0] or 0 for name, end in ends)
        tied = [name for name in timed if "correlationId" in columns[name]]
        ids = 1 + max(database.execute(f'SELECT max(correlationId) FROM "{name}"').fetchone()[0] or 0 for name in tied)
        steps = {"start": last_ns - first_ns + 1000, "end": last_ns - first_ns + 1000, "correlationId": ids}
        for name in timed:
            database.execute(f'CREATE TEMP TABLE once AS SELECT * FROM "{name}"')
            named = ", ".join(f'"{column}"' for column in columns[name])
            for copy in range(1, times):
                values = ", ".join(
                    f'"{column}" + {copy * steps.get(column, 0)}' if column in steps else f'"{column}"'
                    for column in columns[name]
                )
                database.execute(f'INSERT INTO "{name}" ({named}) SELECT {values} FROM once')
            database.execute("DROP TABLE once")
        database.commit()
    return target


def _read(source: Path) -> tuple[bytes, int, int, int]:
    """Return a trace's text, where its events begin and end there, and how long it lasts."""
    raw = source.read_bytes()
    text = gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw
    start = text.index(b"[", text.index(b'"traceEvents"')) + 1
    events, length = json.JSONDecoder().raw_decode(text[start - 1 :].decode("latin-1"))
    timed = [event for event in events if event.get("ph") == "X"]
    span_us = int(max(e["ts"] + e["dur"] for e in timed) - min(e["ts"] for e in timed)) + _GAP_US
    return text, start, start - 1 + length - 1, span_us


def enlarge(source: Path, folder: Path, size_bytes: int, *, plain: bool = False) -> int:
    """Write copies of the trace's events until the file has the size; return the number of copies."""
    text, start, end, span_us = _read(source)
    body = text[start:end].strip()
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
