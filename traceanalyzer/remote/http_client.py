"""Reads web servers: a file, or a folder by the links of the page that a server shows for one."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from html.parser import HTMLParser
from urllib.parse import quote, unquote, urldefrag, urljoin, urlsplit

from traceanalyzer.remote.client import MOST_OBJECTS, Entry, too_many
from traceanalyzer.remote.location import Location
from traceanalyzer.remote.obstore_client import ObstoreClient

_LONGEST_PAGE_BYTES = 16 * 2**20
# Files whose sizes are asked for at once.
_ASKERS = 16


class HttpClient:
    """Lists and reads one web server; see `Client`."""

    def __init__(self, location: Location) -> None:
        self._inner = ObstoreClient(location)

    def key_of(self, location: Location) -> str:
        """Return the key of a place."""
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
