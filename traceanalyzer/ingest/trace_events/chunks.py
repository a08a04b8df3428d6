"""One chunk of the event list: parsed into typed rows, natively or by DuckDB, and written as Parquet parts."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct
from msgspec.structs import replace

from traceanalyzer.ingest.native import NativeScanner
from traceanalyzer.ingest.trace_events.losses import Losses
from traceanalyzer.ingest.trace_events.repair import SEPARATOR, repair

# Below this many µs a double keeps three decimals apart.
EXACT_DOUBLE_US = 2.0**43
# A damaged chunk is tried in pieces of this size, so that only the piece around the damage is read slowly.
PIECE_BYTES = 512 * 2**10
_LONG_TIME = re.compile(rb'("(?:ts|dur)"\s*:\s*)(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)(?=\s*[,}])')
_FRACTION_OF_LONG_TIME = re.compile(rb'"ts"\s*:\s*"?-?(?:\d{13,}\.\d|\d\.?\d*[eE]\+?\d)')
# DuckDB takes twice this for its buffer, fresh for every chunk: few events need the larger one.
_OBJECT_BYTES = (2**20, 2**25)
_ONE_COMMA = re.compile(rb"\s*,?\s*")
PARTS = ("host", "gpu_events", "other")
# Where values end matters, not what they are: Python refuses to convert numbers of thousands of digits.
_DECODER = json.JSONDecoder(strict=False, parse_int=len)
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


PART_OPTIONS = "FORMAT parquet, COMPRESSION lz4, PARQUET_VERSION V2"
# As the tables of the store; only the ids are looked for.
_ARGS_OPTIONS: dict[str, Any] = {
    "compression": "zstd",
    "compression_level": 1,
    "use_dictionary": False,
    "column_encoding": {"event_id": "DELTA_BINARY_PACKED"},
    "write_statistics": ["event_id"],
}


def part_options(schema: pa.Schema) -> dict[str, Any]:
    """Return how parts are written, which are read a few times and then removed."""
    coded = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    return {"compression": "none", "use_dictionary": coded, "write_statistics": False}


@cache
def sql(name: str) -> str:
    return (Path(__file__).parent / "sql" / f"{name}.sql").read_text(encoding="utf-8")


def _own(rows: pa.Table) -> pa.Table:
    """Return rows in memory of their own: that of a scanner is used again."""
    target = pa.BufferOutputStream()
    with pa.ipc.new_stream(target, rows.schema) as stream:
        stream.write_table(rows)
    return pa.ipc.open_stream(target.getvalue()).read_all()


def type_gpu_work(database: duckdb.DuckDBPyConnection, gpu_events: Sequence[str], path: Path) -> None:
    """Write the events that are GPU work as one typed part: of typed ones, if the scanner has typed them all."""
    typed = [str(typed_part(Path(file))) for file in gpu_events]
    is_typed = all(map(os.path.exists, typed))
    rows = sql("gpu_typed" if is_typed else "gpu").rstrip().removesuffix(";")
    files = typed if is_typed else list(gpu_events)
    database.execute(f"COPY ({rows}) TO $path ({PART_OPTIONS})", {"gpu_events": files, "path": str(path)})


def typed_part(gpu_events: Path) -> Path:
    """Return where the scanner writes, typed, what it writes to a part of GPU work."""
    return gpu_events.with_name(gpu_events.name.replace("gpu_events-", "gpu_typed-"))


class Chunk(Struct, frozen=True):
    """Whole events cut from the event list, with the comma before them; `offset` is in the decompressed file."""

    data: bytes | memoryview
    offset: int
    block: memoryview | None = None  # the memory that `data` lies in, where it can be used again

    @property
    def end(self) -> int:
        return self.offset + len(self.data)


class ChunkFacts(Struct, frozen=True):
    """The contents of a parsed chunk, and the place in the file where reading continues."""

    event_count: int
    has_gpu_work: bool
    flawed_count: int
    has_stacks: bool
    end: int
    ended: bool = False
    starved: bool = False
    offsets: tuple[int, ...] | None = None  # of each event, where the chunk was repaired


class ChunkParser:
    """Parses chunks on a DuckDB connection of its own; holds the rows of one chunk at a time.

    A native scanner reads what it does not refuse.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        scanner: NativeScanner | None,
        scratch: Path,
        losses: Losses,
        list_start: int,
        *,
        unpadded: bool,
        kept: dict[str, list[pa.Table]] | None = None,
    ) -> None:
        self._kept = kept
        self._connection = connection
        self._scanner = scanner
        self.is_scanned = False  # the scanner holds the rows
        self._scratch = scratch
        self._losses = losses
        self._list_start = list_start
        self._unpadded = unpadded
        self.has_stacks = False  # found in an earlier chunk

    def parse(self, chunk: Chunk) -> ChunkFacts | None:
        """Parse a chunk that is valid JSON into the rows it holds; None where it is not."""
        scanned = None
        if self._scanner is not None:
            scanned = self._scanner.scan(chunk.data, look_for_stacks=not self.has_stacks)
        self.is_scanned = scanned is not None
        if scanned is not None:
            self.has_stacks |= scanned.has_stacks
            return ChunkFacts(scanned.event_count, scanned.has_gpu_work, 0, scanned.has_stacks, chunk.end)
        if not self._load(chunk.data):
            return None
        return self._facts(chunk.end)

    def parse_damaged(self, chunk: Chunk, following: bytes, losses: Losses, *, at_end: bool) -> ChunkFacts:
        """Parse a chunk that is no valid JSON, piece by piece; an event cut at its end goes on in `following`."""
        self.is_scanned = False
        data = bytes(chunk.data) + following
        limit = len(chunk.data)
        offsets: list[int] = []
        position, ended, starved, loaded = 0, False, False, 0
        if not limit:
            self._load(b"")
        while position < limit and not (ended or starved):
            if loaded:
                self._keep_piece(loaded)
            stop = _piece_end(data, position, limit)
            if stop is not None and self._load(data[position:stop]):
                offsets += _event_offsets(data[position:stop], chunk.offset + position)
                position = stop
            else:
                repaired = repair(
                    data[position:],
                    (stop or limit) - position,
                    chunk.offset + position,
                    self._list_start,
                    at_end=at_end,
                    losses=losses,
                )
                offsets += self._load_events(repaired.events, repaired.offsets, losses)
                position += repaired.consumed
                ended, starved = repaired.ended, repaired.starved
            loaded += 1
        if loaded > 1:
            self._keep_piece(loaded)
            self._connection.execute(
                "CREATE OR REPLACE TEMP TABLE chunk AS SELECT * REPLACE (rowid AS position) FROM pieces"
            )
        facts = self._facts(chunk.offset + position)
        return replace(facts, ended=ended, starved=starved, offsets=tuple(offsets))

    def _keep_piece(self, number: int) -> None:
        """Keep the rows of a piece, the first or a further one, beside those of the pieces before it."""
        self._connection.execute(
            "CREATE OR REPLACE TEMP TABLE pieces AS FROM chunk" if number == 1 else "INSERT INTO pieces FROM chunk"
        )

    def write(self, chunk: Chunk, facts: ChunkFacts, first_event_id: int, stage: Path, args_path: Path) -> None:
        """Write the parsed rows as Parquet parts and count what they lack; parts of a scanner may be kept instead."""
        key = f"{first_event_id:012d}"
        args = args_path.with_name(f"{args_path.stem}-{key}.parquet")
        if self._scanner is not None and self.is_scanned:
            for part, rows in self._scanner.tables(first_event_id).items():
                if part == "args":
                    pq.write_table(rows, args, **_ARGS_OPTIONS)
                elif self._kept is not None:
                    self._kept.setdefault(part, []).append(_own(rows))
                elif not part.startswith("gpu") or not first_event_id or facts.has_gpu_work:
                    pq.write_table(rows, stage / f"{part}-{key}.parquet", **part_options(rows.schema))
            return
        for part in PARTS:
            # One file without GPU work has to show the columns.
            if part == "gpu_events" and first_event_id and not facts.has_gpu_work:
                continue
            self._copy(part, first_event_id, stage / f"{part}-{key}.parquet", "COMPRESSION lz4, PARQUET_VERSION V2")
        self._copy("args", first_event_id, args, "COMPRESSION zstd, COMPRESSION_LEVEL 1")
        for defect, count, position, example in self._defects() if facts.flawed_count else ():
            offset = facts.offsets[position] if facts.offsets else event_offset(chunk, position)
            self._losses.add(defect, offset, example, count)

    def close(self) -> None:
        """Free the rows of the last chunk."""
        self._connection.close()
        if self._scanner is not None:
            self._scanner.close()

    def _defects(self) -> list[tuple[str, int, int, str]]:
        return self._connection.execute(sql("losses")).fetchall()

    def _copy(self, part: str, first_event_id: int, path: Path, options: str) -> None:
        rows = sql(part).rstrip().removesuffix(";")
        self._connection.execute(
            f"COPY ({rows}) TO $path (FORMAT parquet, {options})", {"base": first_event_id, "path": str(path)}
        )

    def _load(self, text: bytes | memoryview) -> bool:
        """Load comma-separated events into the table `chunk`; False where they are no valid JSON."""
        events = memoryview(text)[len(_ONE_COMMA.match(text)[0]) :]  # type: ignore[index]
        if not self._read(events, sql("chunk"), {}):
            return False
        largest_us = self._connection.execute("SELECT max(abs(start_us)) FROM chunk").fetchall()[0][0]
        if (largest_us or 0) < EXACT_DOUBLE_US or _FRACTION_OF_LONG_TIME.search(events) is None:
            return True
        exact = sql("chunk").replace(
            "events_of($path, $object_bytes)", "exact_events_of($path, $object_bytes, $unpadded)"
        )
        return self._read(_LONG_TIME.sub(rb'\1"\2"', bytes(events)), exact, {"unpadded": self._unpadded})

    def _read(self, events: bytes | memoryview, query: str, parameters: dict[str, object]) -> bool:
        # One scratch file, written over and over: fresh pages for every chunk would cost as much as parsing it.
        with self._scratch.open("r+b" if self._scratch.exists() else "w+b") as file:
            file.write(b"[")
            file.write(events)
            file.write(b"]")
            file.truncate()
        for object_bytes in _OBJECT_BYTES:
            try:
                values = {"path": str(self._scratch), "object_bytes": object_bytes, **parameters}
                self._connection.execute(query, values)
            except (
                duckdb.InvalidInputException,
                duckdb.ConversionException,
                duckdb.OutOfRangeException,
                duckdb.OutOfMemoryException,
            ) as error:
                if "maximum_object_size" not in str(error):
                    return False
            else:
                return True
        return False

    def _load_events(self, events: list[bytes], offsets: list[int], losses: Losses) -> list[int]:
        """Load repaired events and return the offsets of those loaded; what DuckDB still refuses is lost."""
        refused = self._refused(events)
        if not refused:
            return offsets
        for index in refused:
            losses.add("unreadable-event", offsets[index], events[index][:160].decode(errors="replace"))
        kept = [index for index in range(len(events)) if index not in refused]
        self._load(b",".join(events[index] for index in kept))
        return [offsets[index] for index in kept]

    def _refused(self, events: list[bytes], first: int = 0) -> set[int]:
        """Return the positions of the events that cannot be loaded, found by halving."""
        if self._load(b",".join(events)):
            return set()
        if len(events) == 1:
            return {first}
        half = len(events) // 2
        return self._refused(events[:half], first) | self._refused(events[half:], first + half)

    def _facts(self, end: int) -> ChunkFacts:
        count, has_gpu_work, flawed, stacks = self._connection.execute(
            sql("facts"), {"look_for_stacks": not self.has_stacks}
        ).fetchall()[0]
        self.has_stacks |= stacks
        return ChunkFacts(count, has_gpu_work, flawed, stacks, end)


def _piece_end(data: bytes, position: int, limit: int) -> int | None:
    """Return where a piece of about PIECE_BYTES ends between two events; None: only the reader can find it."""
    if position + PIECE_BYTES >= limit:
        return limit if limit < len(data) else None
    separator = SEPARATOR.search(data, position + PIECE_BYTES, limit)
    return separator.start() + 1 if separator else None


def event_offset(chunk: Chunk, row: int) -> int:
    """Return the byte offset of an event of a valid chunk."""
    return _event_offsets(bytes(chunk.data), chunk.offset, row + 1)[row]


def _event_offsets(data: bytes, offset: int, count: int | None = None) -> list[int]:
    text = data.decode("latin-1")  # one character a byte
    offsets: list[int] = []
    position = 0
    while count is None or len(offsets) < count:
        while position < len(text) and text[position] in ", \t\r\n":
            position += 1
        if position >= len(text):
            break
        offsets.append(offset + position)
        position = _end_of_value(text, position)
    return offsets


def _end_of_value(text: str, start: int) -> int:
    """Return where the valid JSON value at `start` ends, however deep it nests."""
    try:
        return _DECODER.raw_decode(text, start)[1]
    except (RecursionError, ValueError):  # DuckDB's reader nests deeper, and knows inf and nan in small letters
        depth = 0
        for token in _STRING_OR_BRACKET.finditer(text, start):
            depth += (token[0] in "[{") - (token[0] in "]}")
            if depth == 0:
                return token.end()
        return len(text)


def metadata_rows(metadata: dict[str, Any], schema: pa.Schema) -> pa.Table:
    """Return the rows of the canonical table `metadata` that the keys of a file give."""
    rows = [{"key": key, "value": json.dumps(value, ensure_ascii=False)} for key, value in metadata.items()]
    return pa.Table.from_pylist(rows, schema)


_UNITRACE_PROCESS = re.compile(r"(?:RANK (?P<rank>\d{1,9}) )?(?:DEVICE|HOST)<(?P<host>[^>]+)>")


def said_by_processes(names: Iterable[str]) -> tuple[int | None, str | None]:
    """Return the rank and the host that unitrace's names of processes say; None where they say none, or several."""
    found = [match for name in names if (match := _UNITRACE_PROCESS.match(name))]
    ranks, hosts = {match["rank"] for match in found} - {None}, {match["host"] for match in found}
    return (int(*ranks) if len(ranks) == 1 else None), (hosts.pop() if len(hosts) == 1 else None)


def process_groups(metadata: dict[str, Any]) -> list[dict[str, object]]:
    """Return the ranks of each process group, which events show shortened."""
    info = metadata.get("distributedInfo")
    config = info.get("pg_config") if isinstance(info, dict) else None
    rows: dict[str, dict[str, object]] = {}
    for group in config if isinstance(config, list) else []:
        if isinstance(group, dict) and (ranks := group.get("ranks")) is not None:
            name = str(group.get("pg_name") or "")
            rows[name] = {"group_name": name, "ranks": ranks if isinstance(ranks, str) else json.dumps(ranks)}
    return list(rows.values())
