"""Writes objects of a bucket, also under conditions: only where there is none yet, or only over a known version."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.remote import remote_object
from traceanalyzer.remote.location import Entry, Location, ReplacedError, TemporaryError
from traceanalyzer.remote.obstore_client import ObstoreClient

if TYPE_CHECKING:
    from obstore import PutMode, UpdateVersion

WRITABLE = ("s3", "gcs", "azure")
# A file that is larger is sent in parts of this size.
_PART_BYTES = 8 * 2**20
_PARTS_AT_ONCE = 2
_T = TypeVar("_T")


@dataclass(frozen=True)
class SmallObject:
    """An object's whole content, and the version that it is of."""

    data: bytes
    version: UpdateVersion


class Bucket:
    """Reads and writes one bucket or container; raises TraceAnalyzerError where it may not or cannot."""

    def __init__(self, location: Location) -> None:
        if location.extra not in WRITABLE:
            hint = "give a folder, or a place behind s3://, gs:// or az://"
            raise TraceAnalyzerError(f"no store can lie behind {location.scheme}://", str(location), hint)
        self.client = ObstoreClient(location)
        import obstore

        self._obstore = obstore
        self._location = location

    def get(self, key: str, most_bytes: int) -> SmallObject | None:
        """Return an object, cut where it has more bytes than a small one; None where there is none."""

        def get() -> SmallObject | None:
            try:
                with self.client.failing():
                    answer = self._obstore.get(self.client.store, key)
                    meta, data = answer.meta, b""
                    for block in answer.stream():
                        data += block
                        if len(data) > most_bytes:
                            break
            except ReplacedError:
                return None
            version: UpdateVersion = {}
            if meta["e_tag"] is not None:
                version["e_tag"] = meta["e_tag"]
            if meta["version"] is not None:
                version["version"] = meta["version"]
            return SmallObject(data, version)

        return self._repeated("cannot be read", key, get)

    def put(self, key: str, content: bytes | Path) -> None:
        """Write an object, whatever was there."""
        self._repeated("cannot be written", key, lambda: self._put(key, content, "overwrite"))

    def put_new(self, key: str, data: bytes) -> bool:
        """Write an object where there is none; return False where there is one.

        That may be this very one: an answer can be lost, and the request is sent again.
        """
        return self._repeated("cannot be written", key, lambda: self._put(key, data, "create"))

    def swap(self, key: str, data: bytes, version: UpdateVersion) -> bool:
        """Write an object over a version of it; return False where it has another one meanwhile, as `put_new` may."""
        return self._repeated("cannot be written", key, lambda: self._put(key, data, version))

    def delete(self, keys: Sequence[str]) -> None:
        """Remove objects."""

        def delete() -> None:
            # What another command has just removed is gone.
            with suppress(ReplacedError), self.client.failing("cannot be removed"):
                self._obstore.delete(self.client.store, list(keys))

        if keys:
            self._repeated("cannot be removed", keys[0], delete)

    def listing(self, key: str) -> Iterator[Entry]:
        """Yield all objects below a key."""
        return self.client.listing(key)

    def _put(self, key: str, content: bytes | Path, mode: PutMode) -> bool:
        from obstore import exceptions

        try:
            with self.client.failing("cannot be written"):
                try:
                    self._obstore.put(
                        self.client.store,
                        key,
                        content,
                        mode=mode,
                        chunk_size=_PART_BYTES,
                        max_concurrency=_PARTS_AT_ONCE,
                    )
                except (exceptions.AlreadyExistsError, exceptions.PreconditionError):
                    return False
        except ReplacedError as error:
            if mode not in ("overwrite", "create"):
                return False  # the version to write over is gone
            hint = "make it, or check its name"
            raise TraceAnalyzerError("there is no such bucket", str(self._location), hint) from error
        return True

    def _repeated(self, what: str, key: str, request: Callable[[], _T]) -> _T:
        """Return the answer to a request, which is sent again where that may help."""
        for attempt in range(remote_object.ATTEMPTS):
            try:
                return request()
            except TemporaryError as error:
                failed = self.client.error(what, error.__cause__ or error)
                time.sleep(remote_object.FIRST_PAUSE_S * 2**attempt)
        what = f"{failed.what}, {remote_object.ATTEMPTS} times in a row"
        raise TraceAnalyzerError(what, f"{self._location.base}{key}", failed.hint)
