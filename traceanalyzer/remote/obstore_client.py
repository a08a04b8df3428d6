"""Reads S3, Google Cloud Storage, Azure Blob Storage and web servers through obstore.

The files of the AWS tools are read here; the environment and the roles of machines obstore reads by itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from configparser import ConfigParser, Error
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urldefrag, urljoin, urlsplit

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.remote.location import (
    MOST_OBJECTS,
    Entry,
    Location,
    ReplacedError,
    TemporaryError,
    WholeOnlyError,
    missing_extra,
    reason_of,
    too_many,
)

if TYPE_CHECKING:
    from obstore import GetOptions, GetResult, ObjectMeta
    from obstore.store import ClientConfig, ObjectStore, RetryConfig


# Where one of these is set, obstore finds credentials by itself.
_BY_ENVIRONMENT = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_SKIP_SIGNATURE",
)
_KEYS = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
}
_NO_KEYS = '`eval "$(aws configure export-credentials --profile {} --format env)"` puts its credentials there'


def s3_configuration(environment: Mapping[str, str], location: Location) -> dict[str, str]:
    """Return the region, the address and the keys of the user's profile, as far as the environment has none.

    Raises TraceAnalyzerError for a profile without keys, where nothing else can give some.
    """
    name = environment.get("AWS_PROFILE") or environment.get("AWS_DEFAULT_PROFILE") or "default"
    config = _read(environment.get("AWS_CONFIG_FILE"), "config")
    profile = dict(config[section]) if (section := _section(name)) in config else {}
    found: dict[str, str] = {}
    endpoint = (
        environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL") or profile.get("endpoint_url")
    )
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or profile.get("region")
    found |= {"endpoint": endpoint} if endpoint else {}
    found |= {"region": region} if region else {}
    is_named = "AWS_PROFILE" in environment or "AWS_DEFAULT_PROFILE" in environment
    if any(environment.get(variable) for variable in _BY_ENVIRONMENT):
        return found
    shared = _read(environment.get("AWS_SHARED_CREDENTIALS_FILE"), "credentials")
    keys = {**profile, **(dict(shared[name]) if name in shared else {})}
    found |= {ours: keys[theirs] for theirs, ours in _KEYS.items() if keys.get(theirs)}
    if "access_key_id" in found:
        return found
    if is_named or environment.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        what = f"the AWS profile {name!r} has no keys" if is_named else "no AWS credentials are set"
        raise TraceAnalyzerError(what, str(location), _NO_KEYS.format(name))
    return found


def _section(name: str) -> str:
    return name if name == "default" else f"profile {name}"


def _read(named: str | None, usual: str) -> ConfigParser:
    parser = ConfigParser(interpolation=None, strict=False)
    file = Path(named) if named else Path.home() / ".aws" / usual
    try:
        parser.read_string(file.read_text(encoding="utf-8"))
    except (OSError, Error, ValueError):
        return ConfigParser(interpolation=None)
    return parser


_PAGE = 1_000
_STREAM_BYTES = 2**20
# A request may take long where a line is slow; a line that says nothing is given up soon.
_CLIENT: ClientConfig = {
    "connect_timeout": timedelta(seconds=10),
    "read_timeout": timedelta(seconds=30),
    "timeout": timedelta(minutes=10),
}
# The body's own attempts come on top.
_RETRIES: RetryConfig = {
    "max_retries": 3,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2},
}
# What to do where somebody may not read, and where nothing answers as it should.
_REFUSED = {
    "s3": "check AWS_PROFILE or AWS_ACCESS_KEY_ID, AWS_REGION and AWS_ENDPOINT_URL, and what they may do",
    "gcs": "check GOOGLE_APPLICATION_CREDENTIALS or `gcloud auth application-default login`, and what they may do",
    "azure": "check AZURE_STORAGE_ACCOUNT_NAME and its key or identity in the environment, and what they may do",
    "http": "servers that need a login cannot be read: download the run, and give its folder",
}
_FAILED = {
    "s3": "check the bucket's name, AWS_REGION and AWS_ENDPOINT_URL, or try again later",
    "gcs": "check the bucket's name, or try again later",
    "azure": "check the container's name and AZURE_STORAGE_ACCOUNT_NAME, or try again later",
    "http": "check the address, or try again later",
}


# What the library says of a key with `..`, an empty part or control characters, which ends its listing.
_ODD_KEY = "invalid path"
_RENAME = "rename or move that object, or download the run"


class ObstoreClient:
    """Lists and reads one bucket, container or server; see `Client`."""

    def __init__(self, location: Location) -> None:
        self._location = location
        try:
            import obstore
        except ImportError as error:
            raise missing_extra(location, "obstore") from error
        self._obstore = obstore
        with self._told("cannot be opened"):
            self.store = _store_of(location)

    def key_of(self, location: Location) -> str:
        return location.key

    def entries(self, location: Location) -> Iterator[Entry]:
        """Yield all objects below a place, or the object that it names."""
        count = 0
        for entry in self.listing(location.key):
            count += 1
            if count > MOST_OBJECTS:
                raise too_many(location)
            if entry.key != location.key:  # what consoles write for an empty folder
                yield entry
        if not count and location.key:
            meta_of_one = self._head(location.key)
            if meta_of_one is not None:
                yield _entry(meta_of_one)

    def listing(self, key: str) -> Iterator[Entry]:
        """Yield all objects below a key, however many there are."""
        with self._told("cannot be listed"):
            for page in self._obstore.list(self.store, key or None, chunk_size=_PAGE):
                yield from map(_entry, page)

    def entry(self, key: str) -> Entry | None:
        meta = self._head(key)
        return None if meta is None else _entry(meta)

    def page(self, key: str, most_bytes: int) -> bytes:
        """Return a page of a server; raises TraceAnalyzerError where there is none."""
        with self._told("cannot be listed"):
            text = b""
            for block in self._obstore.get(self.store, key).stream(_STREAM_BYTES):
                text += block
                if len(text) > most_bytes:
                    break
            return text

    def read(self, entry: Entry, start: int, length: int) -> bytes:
        """Return bytes of an object, fewer where the body was cut."""
        end = start + length
        with self.failing():
            return bytes(self._get(entry, {"range": (start, end)}, (start, end)).bytes())

    def stream(self, entry: Entry) -> Iterator[bytes]:
        """Yield an object's bytes from the first on."""
        with self.failing():
            yield from self._get(entry, {}, (0, entry.size_bytes)).stream(_STREAM_BYTES)

    def _get(self, entry: Entry, options: GetOptions, wanted: tuple[int, int]) -> GetResult:
        if entry.version is not None and entry.version.startswith('"'):
            options["if_match"] = entry.version
        answer = self._obstore.get(self.store, entry.key, options=options)
        if not self._is_same(_entry(answer.meta), entry) or answer.range != wanted:
            raise ReplacedError
        return answer

    def _is_same(self, found: Entry, listed: Entry) -> bool:
        """Return whether an answer is of the version that was listed; the store itself has compared the tags, too."""
        if found.size_bytes != listed.size_bytes:
            return False
        # A store may write a tag in another way in a listing than ahead of a body.
        is_of_then = self._location.extra != "http" and found.changed_s == listed.changed_s != 0
        return found.version == listed.version or is_of_then

    def _head(self, key: str) -> ObjectMeta | None:
        with self._told("cannot be opened"):
            try:
                return self._obstore.head(self.store, key)
            except FileNotFoundError:
                return None

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """Turn failures into errors for the user."""
        try:
            yield
        except TraceAnalyzerError:
            raise
        except Exception as error:  # obstore's base class is no public name in every version
            raise self.error(what, error) from error

    def error(self, what: str, error: BaseException) -> TraceAnalyzerError:
        """Return what to say of a failure, and what to do about it."""
        from obstore import exceptions

        reason = reason_of(error)
        is_refused = isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError)
        if _ODD_KEY in reason:
            return TraceAnalyzerError(f"{what}: {reason}", str(self._location), _RENAME)
        hints = _REFUSED if is_refused or reason.startswith(("401", "403")) else _FAILED
        return TraceAnalyzerError(f"{what}: {reason}", str(self._location), hints[self._location.extra])

    @contextmanager
    def failing(self, what: str = "cannot be read") -> Iterator[None]:
        """Sort failures of a request into those of `Client.read`."""
        from obstore import exceptions

        try:
            yield
        except (ReplacedError, exceptions.PreconditionError, FileNotFoundError) as error:
            raise ReplacedError from error
        except exceptions.NotSupportedError as error:
            raise WholeOnlyError from error
        except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
            raise self.error(what, error) from error
        except (exceptions.BaseError, OSError) as error:
            raise TemporaryError(reason_of(error)) from error


def _entry(meta: ObjectMeta) -> Entry:
    return Entry(meta["path"], meta["size"], _version(meta), int(meta["last_modified"].timestamp()))


def _version(meta: ObjectMeta) -> str | None:
    """Return the entity tag, in quotes (Azure lists it without); a weak one or none: the time of the last change."""
    tag: str | None = meta["e_tag"]
    if tag and not tag.startswith("W/"):
        return tag if tag.startswith('"') else f'"{tag}"'
    changed = meta["last_modified"]
    return str(changed.isoformat()) if changed.timestamp() else tag


def _store_of(location: Location) -> ObjectStore:
    """Return the library's store of a bucket, with credentials from where the provider's own tools look."""
    from obstore.store import AzureStore, GCSStore, HTTPStore, S3Store

    scheme, host = location.scheme, location.host
    if scheme == "s3":
        config = s3_configuration(os.environ, location)
        endpoint = config.get("endpoint") or os.environ.get("AWS_ENDPOINT_URL", "")
        return S3Store(host, config=_any(config), client_options=_client(endpoint), retry_config=_RETRIES)
    if scheme == "gs":
        return GCSStore(host, client_options=_client(), retry_config=_RETRIES)
    if location.extra == "azure":
        client = _client(os.environ.get("AZURE_STORAGE_ENDPOINT") or os.environ.get("AZURE_ENDPOINT", ""))
        if scheme == "az":
            return AzureStore(host, client_options=client, retry_config=_RETRIES)
        return AzureStore.from_url(f"{scheme}://{host}", client_options=client, retry_config=_RETRIES)
    url = f"{scheme}://{quote(host, safe=':[]')}"
    return HTTPStore.from_url(url, client_options=_client(url), retry_config=_RETRIES)


def _any(config: Mapping[str, str]) -> Any:
    return dict(config)


def _client(endpoint: str = "") -> ClientConfig:
    """Return options of requests; without TLS only where the user names an address without."""
    return {**_CLIENT, "allow_http": endpoint.startswith("http://")} if endpoint else _CLIENT


_LONGEST_PAGE_BYTES = 16 * 2**20
# Files whose sizes are asked for at once.
_ASKERS = 16


class HttpClient:
    """Lists and reads one web server; see `Client`."""

    def __init__(self, location: Location) -> None:
        self._inner = ObstoreClient(location)

    def key_of(self, location: Location) -> str:
        return location.key

    def entries(self, location: Location) -> Iterator[Entry]:
        """Yield the files that a folder's page links to, and those of the folders in it, or the one file."""
        # Who forgets the slash at the end of a folder is led to its page as well; files have a suffix.
        names = self._links(location) if location.is_folder or "." not in location.name else []
        if not names and not location.is_folder:
            entry = self._inner.entry(location.key)
            yield from () if entry is None else (entry,)
            return
        keys: list[str] = []
        for name in names:
            inner = replace(location, key=f"{location.key}/{name.rstrip('/')}".lstrip("/"))
            keys += [f"{inner.key}/{link}" for link in self._links(inner)] if name.endswith("/") else [inner.key]
            if len(keys) > MOST_OBJECTS:
                raise too_many(location)
        with ThreadPoolExecutor(_ASKERS) as pool:
            files = pool.map(self._inner.entry, (key for key in keys if not key.endswith("/")))
            yield from (entry for entry in files if entry is not None)

    def read(self, entry: Entry, start: int, length: int) -> bytes:
        """Return bytes of a file, fewer where the body was cut."""
        return self._inner.read(entry, start, length)

    def stream(self, entry: Entry) -> Iterator[bytes]:
        """Yield a file's bytes from the first on."""
        return self._inner.stream(entry)

    def _links(self, folder: Location) -> list[str]:
        page = self._inner.page(folder.key, _LONGEST_PAGE_BYTES)
        url = f"{folder.base}{quote(folder.key)}/" if folder.key else folder.base
        return [name for name in linked_names(page, url) if not name.startswith(".")]


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if tag == "a" and name == "href" and value]


def linked_names(page: bytes, url: str) -> list[str]:
    """Return the names right below a folder that its page links to; those of folders end with a slash."""
    links = _Links()
    links.feed(page.decode("utf-8", "replace"))
    folder = urlsplit(url)
    names: dict[str, None] = {}
    for link in links.found:
        try:
            target = urlsplit(urldefrag(urljoin(url, link)).url)
        except ValueError:
            continue
        below = unquote(target.path.removeprefix(folder.path))
        is_near = target.netloc == folder.netloc and target.path.startswith(folder.path) and not target.query
        if is_near and below.rstrip("/") not in ("", ".", "..") and "/" not in below.rstrip("/"):
            names[below] = None
    return list(names)
