"""One object of a run in a store, read as a file, in memory that does not depend on its size."""

from __future__ import annotations

import io
import secrets
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

import xxhash

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.remote.location import (
    Client,
    Entry,
    Location,
    ReplacedError,
    TemporaryError,
    WholeOnlyError,
    reason_of,
)

# One block is read ahead of the one in use: this is half of what an open object holds in memory.
BLOCK_BYTES = 8 * 2**20
_BUFFER_BYTES = 2**18
ATTEMPTS = 5
FIRST_PAUSE_S = 0.2
_REPLACED = "the object was replaced or removed after it was listed"


@dataclass(frozen=True)
class ObjectStat:
    """How many bytes an object has, under the name that a file's state has for it."""

    st_size: int


@dataclass(frozen=True)
class RemoteObject:
    """An object as it was listed. Its text is its URL, without any secret."""

    entry: Entry
    url: str
    run_name: str  # its path in the run
    client: Client = field(repr=False, compare=False)
    log: RemoteObject | None = None  # of a database: what was written and is not in its file yet

    def __str__(self) -> str:
        return self.url

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to another process without the client: there, one is made with the credentials that are there."""
        return _object_elsewhere, (self.entry, self.url, self.run_name, self.log)

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.entry.key.rpartition("/")[2]

    def open(self, mode: Literal["rb"] = "rb") -> io.BufferedReader:
        return io.BufferedReader(Body(self), _BUFFER_BYTES)

    def stat(self) -> ObjectStat:
        return ObjectStat(self.entry.size_bytes)

    def is_file(self) -> bool:
        """Return False: it is no file of this machine."""
        return False

    @cached_property
    def digest(self) -> str:
        """What is different for another object, size or version; never the same again where versions are unknown."""
        logged = "" if self.log is None else self.log.digest
        version = self.entry.version or secrets.token_hex()
        return xxhash.xxh3_128_hexdigest(f"{self.url}\n{self.entry.size_bytes}\n{version}\n{logged}".encode())


def _object_elsewhere(entry: Entry, url: str, run_name: str, log: RemoteObject | None) -> RemoteObject:
    scheme, _, rest = url.partition("://")  # a key may hold what has a meaning in a URL that a user gives
    return RemoteObject(entry, url, run_name, _client_of(scheme, rest.partition("/")[0]), log)


@cache
def _client_of(scheme: str, host: str) -> Client:
    return client_of(Location(scheme, host, "", True))


class Body(io.RawIOBase):
    """The bytes of an object, block by block: a block that was cut or refused is asked for again where it ended.

    Raises TraceAnalyzerError where the object is not the one that was listed, and where asking again did not help.
    """

    def __init__(self, source: RemoteObject, block_bytes: int | None = None) -> None:
        self._source = source
        self._entry = source.entry
        self._block_bytes = block_bytes or BLOCK_BYTES
        self._position = 0
        self._block = memoryview(b"")
        self._block_start = 0
        self._ahead: tuple[int, Future[bytes]] | None = None
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="object")
        self._whole: _WholeBody | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._entry.size_bytes}[whence]
        self._position = max(0, origin + offset)
        return self._position

    def readinto(self, target: memoryview) -> int:  # type: ignore[override]
        if self._position >= self._entry.size_bytes:
            return 0
        at = self._position - self._block_start
        if not 0 <= at < len(self._block):
            self._block = memoryview(self._next_block(self._position))
            self._block_start, at = self._position, 0
        part = self._block[at : at + len(target)]
        target[: len(part)] = part
        self._position += len(part)
        return len(part)

    def close(self) -> None:
        if not self.closed:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._block, self._ahead = memoryview(b""), None
            if self._whole is not None:
                self._whole.close()
        super().close()

    def first_block(self) -> bytes:
        """Return the first block, and read no further."""
        return self._read_block(0)

    def _next_block(self, start: int) -> bytes:
        """Return the block that begins there, and have the one after it read meanwhile."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0] == start:
            block = ahead[1].result()
        else:
            if ahead is not None:
                with suppress(TraceAnalyzerError):
                    ahead[1].result()
            block = self._pool.submit(self._read_block, start).result()
        after = start + len(block)
        if after < self._entry.size_bytes:
            self._ahead = after, self._pool.submit(self._read_block, after)
        return block

    def _read_block(self, start: int) -> bytes:
        wanted = min(self._block_bytes, self._entry.size_bytes - start)
        parts: list[bytes] = []
        have, attempt = 0, 0
        while have < wanted:
            try:
                part = self._read_part(start + have, wanted - have)
            except ReplacedError as error:
                raise self._failed(_REPLACED, "run the command again when nothing writes there any more") from error
            except TraceAnalyzerError as error:
                raise self._failed(error.what, error.hint) from error
            except TemporaryError as error:
                part, reason = b"", reason_of(error)
            else:
                reason = "bodies end early"
            if part:
                parts.append(part)
                have, attempt = have + len(part), 0
            if have < wanted:
                attempt += 1
                if attempt == ATTEMPTS:
                    raise self._failed(
                        f"cannot be read: {reason}, {ATTEMPTS} times in a row",
                        f"read up to byte {start + have:,} of {self._entry.size_bytes:,}; run the command again later",
                    )
                time.sleep(FIRST_PAUSE_S * 2 ** (attempt - 1))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _read_part(self, start: int, length: int) -> bytes:
        if self._whole is None:
            try:
                return self._source.client.read(self._entry, start, length)
            except WholeOnlyError:
                self._whole = _WholeBody(self._source)
        return self._whole.read(start, length)

    def _failed(self, what: str, hint: str | None) -> TraceAnalyzerError:
        return TraceAnalyzerError(what, self._source.url, hint)


class _WholeBody:
    """A body from a server that sends whole ones only: after a failure it is read from its first byte again."""

    def __init__(self, source: RemoteObject) -> None:
        self._source = source
        self._stream: Iterator[bytes] | None = None
        self._position = 0
        self._rest = b""

    def read(self, start: int, length: int) -> bytes:
        """Return bytes, fewer where the body was cut."""
        if self._stream is None or start < self._position:
            self._stream, self._position, self._rest = self._source.client.stream(self._source.entry), 0, b""
        parts: list[bytes] = []
        try:
            while length:
                if not self._rest:
                    self._rest = next(self._stream, b"")
                    if not self._rest:
                        self.close()
                        break
                if self._position < start:
                    passed = min(len(self._rest), start - self._position)
                    self._position, self._rest = self._position + passed, self._rest[passed:]
                    continue
                part, self._rest = self._rest[:length], self._rest[length:]
                parts.append(part)
                self._position, length, start = self._position + len(part), length - len(part), start + len(part)
        except TemporaryError:
            self.close()
            if not parts:
                raise
        return b"".join(parts)

    def close(self) -> None:
        """End the request."""
        self._stream, self._rest = None, b""


def first_bytes(source: RemoteObject, count: int) -> bytes:
    """Return an object's first bytes, all where it has fewer."""
    with Body(source, count) as body:
        return body.first_block()


def fetch(source: RemoteObject, target: Path) -> None:
    """Write an object into a file, with the checks that reading has."""
    with source.open() as body, target.open("wb") as file:
        while block := body.read(BLOCK_BYTES):
            file.write(block)


def client_of(location: Location) -> Client:
    """Return the client of a place; raise TraceAnalyzerError where its library is not installed."""
    if location.extra == "hdfs":
        from traceanalyzer.remote.fsspec_client import FsspecClient

        return FsspecClient(location)
    if location.extra == "http":
        from traceanalyzer.remote.obstore_client import HttpClient

        return HttpClient(location)
    from traceanalyzer.remote.obstore_client import ObstoreClient

    return ObstoreClient(location)
