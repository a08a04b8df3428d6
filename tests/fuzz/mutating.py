"""Small traces made from real ones, and mutations of them: of values and structure first, and of bytes."""

from __future__ import annotations

import gzip
import json
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EVENTS_A_KIND = 6
ROWS_A_TABLE = 12
DIGITS = "9" * 400
ABSURD: tuple[object, ...] = (
    *(0, 1, -1, 2**31, 2**32 - 1, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), 2**64, 10**30, 0.5, -0.0, 1e300, -1e300),
    *(True, False, None, "", "0", "-1", "1e400", "NaN", "x", "é\u202e\x1b[31m", "\x00", "a" * 70_000, DIGITS),
    *([], {}, [[]], [None], {"a": None}, [1, "2", 3.0], {"name": "x", "value": {}}, [[[[[[[[[[]]]]]]]]]]),
)
NAMES = (
    "ProfilerStep#5",
    "ProfilerStep#99999999999999999999",
    "ncclDevKernel_AllReduce",
    "Memcpy HtoD (Pageable -> Device)",
    "cudaDeviceSynchronize",
    "cudaGraphLaunch",
    "[memory]",
    "process_name",
    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
)
# Without its list of events a file is no trace; every other value may be anything.
EVENT_LIST = "traceEvents"
PHASES = ("X", "B", "E", "b", "e", "n", "s", "t", "f", "C", "i", "M", "", "XX", None, 3)


def small_json(path: Path) -> bytes:
    """Return a trace with its first events of each kind."""
    raw = path.read_bytes()
    document = json.loads(gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw)
    events = document[EVENT_LIST] if isinstance(document, dict) else document
    count: dict[object, int] = {}
    kept = []
    for event in events:
        kind = (event.get("ph"), event.get("cat"))
        count[kind] = count.get(kind, 0) + 1
        if count[kind] <= EVENTS_A_KIND:
            kept.append(event)
    return json.dumps({**(document if isinstance(document, dict) else {}), EVENT_LIST: kept}).encode()


def small_sqlite(path: Path, target: Path) -> bytes:
    """Return an export with the first rows of each table."""
    target.write_bytes(path.read_bytes())
    with closing(sqlite3.connect(target, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            most = 400 if name == "StringIds" else ROWS_A_TABLE
            with suppress(sqlite3.Error):
                connection.execute(f'DELETE FROM "{name}" WHERE rowid NOT IN (SELECT rowid FROM "{name}" LIMIT {most})')
        connection.execute("VACUUM")
    return target.read_bytes()


@dataclass(frozen=True)
class Mutated:
    """A mutated file; `is_readable` says that only values were changed, each of which costs itself alone."""

    data: bytes
    is_readable: bool


def mutate_json(data: bytes, chosen: random.Random) -> Mutated:
    """Return a trace with some values, keys or events changed, and sometimes bytes, packing and ends."""
    document = json.loads(data)
    readable = True
    for _ in range(chosen.choice((1, 1, 2, 4, 12))):
        readable &= _mutate_place(document, chosen)
    text = json.dumps(document, ensure_ascii=chosen.random() < 0.5, allow_nan=True).encode(errors="surrogatepass")
    whole = text
    if chosen.random() < 0.2:
        text = mutate_bytes(text, chosen)
    readable &= text == whole
    if chosen.random() < 0.15:
        text = packed = gzip.compress(text, compresslevel=1)
        text = mutate_bytes(text, chosen) if chosen.random() < 0.6 else text
        readable &= text == packed
    return Mutated(text, readable)


def _mutate_place(document: Any, chosen: random.Random) -> bool:
    """Change one place; return whether that only put a value in place of another."""
    places = list(_places(document, 0))
    holder, key = chosen.choice(places) if chosen.random() < 0.3 else chosen.choice(_of_events(document) or places)
    action = chosen.randrange(8)
    if action < 4:
        holder[key] = _value(key, chosen)
        return bool(key != EVENT_LIST)
    if action == 4:
        del holder[key]
    elif action == 5 and isinstance(holder, list):
        holder.insert(chosen.randrange(len(holder) + 1), json.loads(json.dumps(holder[key])))
    elif action == 6 and isinstance(holder, list):
        other = chosen.randrange(len(holder))
        holder[key], holder[other] = holder[other], holder[key]
    else:
        other_holder, other_key = chosen.choice(places)
        with suppress(LookupError, TypeError):
            holder[key] = json.loads(json.dumps(other_holder[other_key]))
    return False


def _of_events(document: Any) -> list[tuple[Any, Any]]:
    events = document.get(EVENT_LIST) if isinstance(document, dict) else document
    return [place for event in events for place in _places(event, 2)] if isinstance(events, list) else []


def _places(value: Any, depth: int) -> Iterator[tuple[Any, Any]]:
    """Return every place in a document as its holder and its key."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        if depth < 6:
            yield from _places(value[key], depth + 1)


def _value(key: object, chosen: random.Random) -> object:
    if key == "ph":
        return chosen.choice(PHASES)
    if key == "name" and chosen.random() < 0.5:
        return chosen.choice(NAMES)
    if chosen.random() < 0.2:
        return chosen.randrange(-(2**65), 2**65) >> chosen.randrange(65)
    return json.loads(json.dumps(chosen.choice(ABSURD)))


def mutate_sqlite(data: bytes, chosen: random.Random, target: Path) -> Mutated:
    """Return an export with some values, rows, columns or tables changed, and sometimes bytes."""
    target.write_bytes(data)
    readable = True
    with closing(sqlite3.connect(target, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")
        for _ in range(chosen.choice((1, 1, 2, 5, 20))):
            # Most tables of an export are lists of names that nobody reads.
            tables = [
                name
                for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
                if not name.startswith(("ENUM_", "sqlite_"))
            ]
            if tables:
                with suppress(sqlite3.Error, OverflowError):
                    readable &= _mutate_table(connection, chosen.choice(tables), chosen)
    mutated = target.read_bytes()
    if chosen.random() < 0.15:
        return Mutated(mutate_bytes(mutated, chosen), is_readable=False)
    return Mutated(mutated, readable)


def _mutate_table(connection: sqlite3.Connection, table: str, chosen: random.Random) -> bool:
    """Change one place of a table; return whether that only put a value in place of another."""
    columns = [name for (name,) in connection.execute("SELECT name FROM pragma_table_info(?)", (table,)).fetchall()]
    column = chosen.choice(columns)
    action = chosen.randrange(10)
    row = f'(SELECT rowid FROM "{table}" ORDER BY random() LIMIT 1)'
    if action < 6:
        where = f"WHERE rowid = {row}" if chosen.random() < 0.8 else ""
        connection.execute(f'UPDATE "{table}" SET "{column}" = ? {where}', (_stored(chosen),))
    elif action == 6:
        connection.execute(f'UPDATE "{table}" SET "{column}" = "{chosen.choice(columns)}" WHERE rowid = {row}')
    elif action == 7:
        connection.execute(f'INSERT INTO "{table}" SELECT * FROM "{table}" WHERE rowid = {row}')
    elif action == 8:
        connection.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "{column}_gone"')
    else:
        connection.execute(f'DELETE FROM "{table}"' + (f" WHERE rowid = {row}" if chosen.random() < 0.7 else ""))
    return action < 6


def _stored(chosen: random.Random) -> object:
    if chosen.random() < 0.3:
        return chosen.randrange(-(2**63), 2**63) >> chosen.randrange(63)
    value = chosen.choice(ABSURD)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return str(value)
    return json.dumps(value).encode() if isinstance(value, list | dict) else value


def mutate_bytes(data: bytes, chosen: random.Random) -> bytes:
    """Return bytes with some flipped, cut out, doubled or zeroed, or with the end cut off."""
    changed = bytearray(data)
    for _ in range(chosen.choice((1, 1, 3, 10))):
        start = chosen.randrange(len(changed) or 1)
        length = chosen.choice((1, 1, 4, 64))
        match chosen.randrange(5):
            case 0 if changed:
                changed[min(start, len(changed) - 1)] ^= 1 << chosen.randrange(8)
            case 1:
                del changed[start : start + length]
            case 2:
                changed[start:start] = changed[start : start + length]
            case 3:
                changed[start : start + length] = bytes(len(changed[start : start + length]))
            case _:
                changed = changed[: start + 1] if chosen.random() < 0.3 else changed
    return bytes(changed)
