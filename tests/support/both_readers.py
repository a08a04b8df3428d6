"""Chunks and traces read by the native reader and by DuckDB, for comparison."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest

from hatch_build import build_library
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest import IngestOptions, native
from traceanalyzer.ingest.sink import define_calls
from traceanalyzer.ingest.trace_events import TraceEventIngester, host_order
from traceanalyzer.ingest.trace_events.chunks import Chunk, ChunkFacts, ChunkParser, sql, type_gpu_work, typed_part
from traceanalyzer.ingest.trace_events.losses import Losses

ROOT = Path(__file__).resolve().parents[2]
FIRST_ID = 1000


@cache
def library() -> Path | None:
    """Return the native reader: that of the package, else one built for the tests; None without a compiler."""
    if native._library() is not None:
        return native.LIBRARY
    built = build_library(ROOT, target=Path(tempfile.mkdtemp(prefix="native-")) / "scanner.so")
    if built is not None:
        native.LIBRARY = built
        native._library.cache_clear()
    return built


def need_library() -> None:
    """Skip a test where no native reader can be had."""
    if library() is None:
        pytest.skip("there is no C compiler, and no native reader built before")


Parts = dict[str, tuple[list[tuple[str, str]], list[tuple[Any, ...]]]]


class BothReaders:
    """Reads chunks by each of the two readers."""

    def __init__(self, folder: Path) -> None:
        need_library()
        self._folder = folder
        self._database = duckdb.connect(config={"threads": 1})
        self._database.execute(sql("categories"))
        define_calls(self._database)
        self._database.execute(sql("macros"))
        categories = self._database.execute("SELECT raw, class, category FROM categories").fetchall()
        self._scanner = native.NativeScanner(categories)
        self._losses = Losses()

    def is_accepted(self, events: bytes) -> bool:
        """Return whether the native reader reads a chunk, and does not leave it to DuckDB."""
        return self._scanner.scan(events, look_for_stacks=True) is not None

    def is_typed(self, events: bytes) -> bool:
        """Return whether the native reader reads a chunk, and types its GPU work, too."""
        return self.is_accepted(events) and "gpu_typed" in self._scanner.tables(0)

    def read(self, events: bytes, *, natively: bool) -> tuple[ChunkFacts, Parts] | None:
        """Return the facts and the parts of a chunk; None where DuckDB finds it damaged."""
        scanner = self._scanner if natively else None
        losses = Losses()
        scratch = self._folder / "chunk.json"
        parser = ChunkParser(self._database.cursor(), scanner, scratch, losses, 0, unpadded=False)
        chunk = Chunk(events, 0)
        facts = parser.parse(chunk)
        if facts is None:
            return None
        assert parser.is_scanned is natively
        out = Path(tempfile.mkdtemp(dir=self._folder))
        parser.write(chunk, facts, 0, out, out / "args.parquet")
        assert not losses.rows() or not natively
        work = out / "gpu_events-000000000000.parquet"
        type_gpu_work(self._database, [str(work)], out / "gpu-typed.parquet")
        typed_part(work).unlink(missing_ok=True)
        parts = {path.name.split("-")[0]: self._rows(path) for path in sorted(out.glob("*.parquet"))}
        parts["defects"] = ([], [tuple(row.values()) for row in losses.rows()])
        return facts, parts

    def _rows(self, path: Path) -> tuple[list[tuple[str, str]], list[tuple[Any, ...]]]:
        rows = self._database.read_parquet(str(path))
        return [(name, str(kind)) for name, kind in zip(rows.columns, rows.types, strict=True)], rows.fetchall()


def assert_alike(readers: BothReaders, events: bytes) -> bool:
    """Hold both readings of a chunk against each other where the native reader accepts it; return whether it does."""
    if not readers.is_accepted(events):
        return False
    expected, found = readers.read(events, natively=False), readers.read(events, natively=True)
    assert expected is not None and found is not None
    assert found[0] == expected[0]
    for part, (columns, rows) in expected[1].items():
        assert found[1][part][0] == columns
        # Floats that are not a number would differ from themselves.
        assert repr(found[1][part][1]) == repr(rows), part
    return True


@contextmanager
def _reader(name: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(native.READER_VARIABLE, name)
        if name == "duckdb":
            patch.setattr(host_order, "MOST_SLICES", -1)
        yield


def tables_by(reader: str, path: Path, folder: Path, chunk_bytes: int) -> dict[str, Any]:
    """Return every table of a trace, read natively or all of it by DuckDB; or the message, where it is refused."""
    need_library()
    out = folder / reader
    out.mkdir(parents=True)
    try:
        with _reader(reader):
            TraceEventIngester(chunk_bytes).ingest(path, out, IngestOptions())
    except TraceAnalyzerError as error:
        return {"error": str(error)}
    files: dict[str, list[str]] = {}
    for file in sorted(out.rglob("*.parquet")):
        files.setdefault(str(file.relative_to(out)).split(".")[0].split("-")[0], []).append(str(file))
    with duckdb.connect() as database:
        return {
            name: repr(database.execute("FROM read_parquet($paths)", {"paths": paths}).fetchall())
            for name, paths in files.items()
        }


def assert_same_tables(path: Path, folder: Path, chunk_bytes: int) -> None:
    """Hold the tables of a trace by both readers against each other."""
    expected = tables_by("duckdb", path, folder, chunk_bytes)
    found = tables_by("native", path, folder, chunk_bytes)
    assert found.keys() == expected.keys()
    assert [name for name in expected if found[name] != expected[name]] == []


# Signs and texts at which readers of JSON part ways.
_HARD = (
    *(b'"', b"\\", b"\\\\", b'\\"', b"\\/", b"\\u0041", b"\\u00e9", b"\\ud83d\\ude00", b"\\u0000", b"\\u001f", b"\\x"),
    *("é".encode(), b"\xff", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80", b"\x00", b"\x1f", b"\x7f", b"\t", b"\r\n", b"\f"),
    *(
        b",",
        b":",
        b"{",
        b"}",
        b"[",
        b"]",
        b"{}",
        b"[]",
        b"[[]]",
        b'{"a":1}',
        b"null",
        b"true",
        b"false",
        b"NaN",
        b"inf",
    ),
    *(
        b"0",
        b"-0",
        b"00",
        b"1",
        b"-1",
        b".5",
        b"1.",
        b"1.50",
        b"-0.0",
        b"0.0000001",
        b"1e5",
        b"1E-3",
        b"1e400",
        b"5e-05",
    ),
    *(b"18446744073709551615", b"18446744073709551616", b"9223372036854775808", b"-9223372036854775808", b"4294967295"),
    *(
        b"1712345678901234.567",
        b"9007199254740993.5",
        b"8796093022208.001",
        b"8796093022207.9999",
        b"0.1234567",
        b"1.0005",
    ),
    *(b"0.9995", b"0.1234565", b"123456.7894999", b"-5.5", b"-0.4", b"0.30000000000000004", b"123456789.12345678"),
    *(
        b'"ts"',
        b'"dur"',
        b'"ph"',
        b'"X"',
        b'"M"',
        b'"s"',
        b'"i"',
        b'"C"',
        b'"cat"',
        b'"kernel"',
        b'"Kernel"',
        b'"cpu_op"',
    ),
    *(b'"python_function"', b'"cuda_runtime"', b'"overhead"', b'"cuda_sync"', b'"kernel_dispatch"', b'"nothing"'),
    *(b'"args"', b'"id"', b'"bind_id"', b'"id2"', b'"flow_in"', b'"correlation"', b'"External id"', b'"Input Dims"'),
    *(
        b'"grid"',
        b'"bytes"',
        b'"[1,2,3]"',
        b"[1,2,3]",
        b"[1,2.5,3]",
        b"[17592186044416,1,1]",
        b'"graph id"',
        b'"dtype"',
    ),
    *(b'"stream"', b'"device"', b'"Call stack"', b'"Python id"', b'"step_num"', b'"12"', b'"x"', b'""', b'"$a.py:1 f"'),
)
# Where a value, a key or a text begins or ends.
_PLACES = b'"{}[],:'


def mutated(events: bytes, chosen: random.Random) -> bytes:
    """Return a chunk with some values, signs or bytes changed, mostly so that it stays readable."""
    changed = bytearray(events)
    for _ in range(chosen.choice((1, 1, 1, 2, 3))):
        action = chosen.randrange(6)
        if action < 3:
            _replace_value(changed, chosen)
        elif action == 3:
            at = chosen.randrange(len(changed))
            changed[at : at + chosen.randrange(2)] = chosen.choice(_HARD)
        elif action == 4:
            changed[chosen.randrange(len(changed))] ^= 1 << chosen.randrange(8)
        else:
            start, other = chosen.randrange(len(changed)), chosen.randrange(len(changed))
            changed[start:start] = changed[other : other + chosen.choice((1, 4, 30))]
    return bytes(changed)


def _replace_value(changed: bytearray, chosen: random.Random) -> None:
    """Put a hard text in place of what lies between two signs of the structure."""
    start = chosen.randrange(len(changed))
    while start < len(changed) and changed[start] not in b":,[":
        start += 1
    end = start + 1
    while end < len(changed) and changed[end] not in _PLACES[1:]:
        end += 1
    if chosen.random() < 0.3 and b'"' in changed[start:end]:  # within a text
        start = changed.index(b'"', start)
        changed[start + 1 : start + 1] = chosen.choice(_HARD)
    else:
        changed[start + 1 : end] = b" " + chosen.choice(_HARD)
