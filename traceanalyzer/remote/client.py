"""What a client of a store offers, and what its failures mean: each kind of store has one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.remote.location import Location

# A listing of more is not one run: a wrong prefix would be read for hours.
MOST_OBJECTS = 100_000
_LONGEST_REASON = 200
_QUERY = re.compile(r"\?\S+")
_REQUEST = re.compile(r"Error performing \w+ \S+ in [^-]* - ")
_STATUS = re.compile(r"status code: (\d{3} [A-Za-z ]+[a-z])")
_CODE = re.compile(r"<Code>(\w+)</Code>")


@dataclass(frozen=True)
class Entry:
    """One object of a listing. The version is its entity tag, else the time of its last change; None: neither."""

    key: str
    size_bytes: int
    version: str | None
    changed_s: int = 0  # when it was last changed, in seconds since 1970; 0: unknown


class Client(Protocol):
    """Lists and reads one bucket, container or server."""

    def key_of(self, location: Location) -> str:
        """Return what the keys of all objects in a place begin with."""

    def entries(self, location: Location) -> Iterator[Entry]:
        """Yield all objects at or below a place; raise TraceAnalyzerError where they cannot be listed."""

    def read(self, entry: Entry, start: int, length: int) -> bytes:
        """Return bytes of an object, fewer where the body was cut.

        Raises ReplacedError for another version than the entry's, WholeOnlyError where parts cannot be asked for,
        TemporaryError where asking again may help, else TraceAnalyzerError.
        """

    def stream(self, entry: Entry) -> Iterator[bytes]:
        """Yield an object's bytes from the first on; raises what `read` does."""


class ReplacedError(Exception):
    """The object is not the one that was listed."""


class WholeOnlyError(Exception):
    """The server sends whole bodies only."""


class TemporaryError(Exception):
    """A request failed in a way that may pass."""


def missing_extra(location: Location, library: str) -> TraceAnalyzerError:
    """Return the error for a library that is not installed."""
    return TraceAnalyzerError(
        f"reading {location.scheme}:// needs {library}, which is not installed",
        str(location),
        f"pip install 'gpu-traceanalyzer[{location.extra}]'",
    )


def too_many(location: Location) -> TraceAnalyzerError:
    """Return the error for a place with more objects than a run has."""
    return TraceAnalyzerError(
        f"holds more than {MOST_OBJECTS:,} objects", str(location), "name the folder of one run, or its files"
    )


def reason_of(error: BaseException) -> str:
    """Return why a request failed, in a few words without addresses, queries and secrets."""
    from traceanalyzer.text.visible import MASK, masked

    text = str(error).strip()
    status, code = _STATUS.search(text), _CODE.search(text)
    if status is not None:
        return status[1] + (f" ({code[1]})" if code is not None else "")
    first = _REQUEST.sub("", text.splitlines()[0] if text else type(error).__name__)
    return masked(_QUERY.sub(f"?{MASK}", first))[:_LONGEST_REASON].rstrip(" :")
