"""What a user names as a run that is not on this machine, a URL without credentials, and what each client offers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, unquote, urlsplit

from traceanalyzer.errors import TraceAnalyzerError, suggestion

# The extra of the package that reads each kind of URL.
EXTRAS = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gcs",
    "gcs": "gcs",
    "az": "azure",
    "azure": "azure",
    "abfs": "azure",
    "abfss": "azure",
    "http": "http",
    "https": "http",
    "hdfs": "hdfs",
    "webhdfs": "hdfs",
    "sftp": "hdfs",
    "ssh": "hdfs",
    "smb": "hdfs",
    "ftp": "hdfs",
    "oss": "hdfs",
    "oci": "hdfs",
    "dbfs": "hdfs",
    "memory": "hdfs",
}
_OTHER_NAMES = {"s3a": "s3", "gcs": "gs", "azure": "az"}
_WITH_CONTAINER = ("abfs", "abfss")  # container@account, where others have a user
_WITHOUT_HOST = ("memory", "hdfs", "dbfs")
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://")
# A path has one slash left of the two.
_URL_AS_PATH = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):/(?!/)")
_SERVER = re.compile(r"(?:[^:@\[\]]*|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?")
_CREDENTIALS = "credentials are read from the provider's environment variables and configuration files only"


@dataclass(frozen=True)
class Location:
    """A place in an object store or on a server; its text is a URL that holds no secret."""

    scheme: str
    host: str  # bucket, container or server
    key: str  # without slashes around it
    is_folder: bool  # the URL ends with a slash

    def __str__(self) -> str:
        return f"{self.base}{self.in_url(self.key)}{'/' if self.is_folder and self.key else ''}"

    @property
    def base(self) -> str:
        """The URL of the bucket or server, which keys are added to."""
        return f"{self.scheme}://{self.host}/"

    @property
    def name(self) -> str:
        """The last part of the key, or the host: what the run is called."""
        return self.key.rpartition("/")[2] or self.host or self.scheme

    @property
    def extra(self) -> str:
        """The extra of the package that reads it."""
        return EXTRAS[self.scheme]

    def in_url(self, key: str) -> str:
        """Return a key as it stands in a URL of this kind."""
        return quote(key) if self.extra == "http" else key

    def resolve(self) -> Location:
        """Return it as it is: it has no other name."""
        return self


def run_input(given: str | Path) -> Path | Location:
    """Return what a user names as a run: a path, or the place that a URL means.

    Raises TraceAnalyzerError for a URL of a kind that cannot be read, and for one with credentials in it.
    """
    text = str(given)
    if isinstance(given, Path) and not given.exists():
        match = _URL_AS_PATH.match(text)
        if match is not None and match["scheme"].lower() in (*EXTRAS, "file"):
            text = text.replace(":/", "://", 1)
    if _URL.match(text) is None:
        return Path(given)
    if text.lower().startswith("file://"):
        return Path(unquote(urlsplit(text).path))
    return parse_url(text)


def parse_url(text: str) -> Location:
    """Return the place that a URL means; raise TraceAnalyzerError where it cannot be one, or holds credentials."""
    shown = without_credentials(text)
    scheme = text.partition("://")[0].lower()
    if scheme not in EXTRAS:
        hint = suggestion(scheme, EXTRAS, f"known: {', '.join(EXTRAS)}; or download the run and give its folder")
        raise TraceAnalyzerError(f"{scheme}:// is no kind of store that can be read", shown, hint)
    rest = text.partition("://")[2]
    if "?" in rest or ("#" in rest and scheme in ("http", "https")):
        raise TraceAnalyzerError(
            "a URL with a query is not read, because signatures and tokens stand there",
            shown,
            f"give it without; {_CREDENTIALS}",
        )
    host, _, path = rest.partition("/")
    if _has_user(scheme, host):
        raise TraceAnalyzerError(
            "a URL with a user or a password is not read", shown, f"give it without; {_CREDENTIALS}"
        )
    if not host and scheme not in _WITHOUT_HOST:
        raise TraceAnalyzerError("the URL names no bucket or server", shown, f"for example {scheme}://bucket/run42/")
    key = unquote(path) if scheme in ("http", "https") else path
    parts = [part for part in key.split("/") if part]
    if any(part in (".", "..") for part in parts):
        raise TraceAnalyzerError("a URL with . or .. among its parts is not read", shown, "give it without them")
    return Location(_OTHER_NAMES.get(scheme, scheme), host, "/".join(parts), path.endswith("/") or not parts)


def without_credentials(url: str) -> str:
    """Return a URL for people to read, also one that was a path: a user, a password and a query are masked."""
    from traceanalyzer.text.visible import MASK

    start, mark, rest = (url if "://" in url else url.replace(":/", "://", 1)).partition("://")
    rest, query, _ = rest.partition("?")
    if not query:
        rest, query, _ = rest.partition("#") if start.lower() in ("http", "https") else (rest, "", "")
    host, slash, path = rest.partition("/")
    if _has_user(start.lower(), host):
        _, at, server = rest.rpartition("@")  # a password may hold a slash
        host, slash, path = (MASK, at, server) if at else (MASK, "", "")
    return f"{start}{mark}{host}{slash}{path}" + (f"{query}{MASK}" if query else "")


def _has_user(scheme: str, host: str) -> bool:
    """Return whether there is more than a server and its port, or a container and its account."""
    container, _, account = host.rpartition("@")
    server = account if scheme in _WITH_CONTAINER and ":" not in container else host
    return _SERVER.fullmatch(server) is None


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
