"""Reads HDFS and what else fsspec knows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.remote.location import (
    MOST_OBJECTS,
    Entry,
    Location,
    ReplacedError,
    TemporaryError,
    missing_extra,
    reason_of,
    too_many,
)

_HDFS = "HDFS needs Java and Hadoop's libraries: set JAVA_HOME, HADOOP_HOME and CLASSPATH (`hadoop classpath --glob`)"
_OTHER = "check its address and its configuration, or download the run and give its folder"
# Of what a file system says of a file, what changes when it is written again.
_VERSIONS = ("etag", "ETag", "mtime", "modificationTime", "modified", "LastModified", "last_modified", "created")


class FsspecClient:
    """Lists and reads one file system; see `Client`."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._hint = _HDFS if location.scheme == "hdfs" else _OTHER
        try:
            from fsspec.core import url_to_fs
        except ImportError as error:
            raise missing_extra(location, "fsspec") from error
        try:
            # Listings that were kept would hide that a file changed.
            self._system, _ = url_to_fs(str(location), use_listings_cache=False)
        except Exception as error:  # every file system has its own
            raise self._error("cannot be opened", error) from error

    def key_of(self, location: Location) -> str:
        """Return the path of a place."""
        return str(self._system._strip_protocol(str(location))).rstrip("/")

    def entries(self, location: Location) -> Iterator[Entry]:
        """Yield all files below a place, or the file that it names."""
        try:
            found = self._system.find(self.key_of(location), detail=True)
        except FileNotFoundError:
            return
        except Exception as error:
            raise self._error("cannot be listed", error) from error
        if len(found) > MOST_OBJECTS:
            raise too_many(location)
        for path, info in found.items():
            yield Entry(path, info["size"], _version(info))

    def read(self, entry: Entry, start: int, length: int) -> bytes:
        """Return bytes of a file that looks as it was listed, before and after."""
        self._check(entry)
        try:
            block: bytes = self._system.cat_file(entry.key, start=start, end=start + length)
        except FileNotFoundError as error:
            raise ReplacedError from error
        except Exception as error:
            raise TemporaryError(reason_of(error)) from error
        self._check(entry)
        return block

    def stream(self, entry: Entry) -> Iterator[bytes]:
        """Yield a file's bytes: every file system reads parts, so that this is one."""
        yield self.read(entry, 0, entry.size_bytes)

    def _check(self, entry: Entry) -> None:
        try:
            info = self._system.info(entry.key)
        except FileNotFoundError as error:
            raise ReplacedError from error
        except Exception as error:
            raise TemporaryError(reason_of(error)) from error
        if (info["size"], _version(info)) != (entry.size_bytes, entry.version):
            raise ReplacedError

    def _error(self, what: str, error: Exception) -> TraceAnalyzerError:
        return TraceAnalyzerError(f"{what}: {reason_of(error)}", str(self._location), self._hint)


def _version(info: dict[str, Any]) -> str | None:
    """Return what changes when a file is written again; some listings give times as numbers."""
    known = {name: info[name] for name in _VERSIONS if info.get(name) is not None}
    plain = {name: value.timestamp() if isinstance(value, datetime) else value for name, value in known.items()}
    return " ".join(f"{name}={value}" for name, value in plain.items()) or None
