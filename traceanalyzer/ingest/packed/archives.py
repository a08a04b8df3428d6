"""The regular files in zip and tar archives, one after the other.

Names of packed files: as text for people, and as harmless file names.
"""

from __future__ import annotations

import re
import stat
import struct
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import Any, cast

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest.packed.streams import (
    BROKEN,
    HINT,
    TAIL_BYTES,
    Reader,
    UnpackBudget,
    UnpackLimits,
    damaged,
    opened,
)

_SUFFIXES = (".zst", ".xz", ".bz2")
_ARCHIVE = re.compile(r"\.(zip|tgz|tar(\.[a-z0-9]+)?)$", re.IGNORECASE)
_LONGEST = 80
_LONGEST_TARGET = 4096  # bytes of what a link names


def readable_name(name: str) -> str:
    """Return a member's name as text, without the parts of it that mean a folder above; '' where nothing is left."""
    text = name.encode("utf-8", "replace").decode("utf-8")
    return "/".join(part for part in re.split(r"[/\\]", text) if part not in ("", ".", ".."))


def safe_name(name: str) -> str:
    """Return a file name of harmless characters that ends as the given one does."""
    return "t" + re.sub(r"[^A-Za-z0-9_.-]", "_", name.rpartition("/")[2])[-_LONGEST:]


def without_suffix(path: Path) -> Path:
    """Return a path without the suffix of a compressed file."""
    return path.with_suffix("") if path.suffix.lower() in _SUFFIXES else path


def is_named_as_archive(name: str) -> bool:
    """Return whether a name is that of an archive; files of other kinds, such as models, may begin as archives do."""
    return _ARCHIVE.search(name) is not None


def missing_trace(links: Mapping[str, str], packed: Iterable[str], traces: Iterable[str]) -> tuple[str, str] | None:
    """Return a link and its target where the link is named as a trace is but for numbers, and the target is not packed.

    A link may name another one.
    """
    there = Counter(_last(name) for name in (*packed, *links))
    shapes = {_shape(name) for name in traces}
    for link, target in sorted(links.items()):
        is_there = there[_last(target)] > (_last(link) == _last(target))
        if _shape(link) in shapes and not is_there:
            return link, target
    return None


def _last(name: str) -> str:
    return name.rpartition("/")[2]


def _shape(name: str) -> str:
    return re.sub(r"\d+", "0", _last(name))


def stem(name: str) -> str:
    return str(PurePosixPath(name).with_suffix(""))


def below_common(names: Mapping[str, str]) -> dict[str, str]:
    """Return names without the folders that all of them lie in."""
    paths = [name.split("/") for name in names.values()]
    common = 0
    while all(len(path) > common + 1 and path[common] == paths[0][common] for path in paths):
        common += 1
    return {part: "/".join(name.split("/")[common:]) for part, name in names.items()}


def unique(names: Mapping[str, str]) -> dict[str, str]:
    """Return names that no two members (the number ahead of the point in a part) share: `a.json`, `a.json~2`."""
    owners: dict[str, str] = {}
    found: dict[str, str] = {}
    for part, name in names.items():
        member, candidate, count = part.partition(".")[0], name, 1
        while owners.setdefault(candidate, member) != member:
            count += 1
            candidate = f"{name}~{count}"
        found[part] = candidate
    return found


_ZIP, _ZIP_END, _ZIP_WIDE_END = b"PK\x03\x04", b"PK\x05\x06", b"PK\x06\x06"
_ZIP_END_BYTES, _ZIP_WIDE_END_BYTES, _ZIP_COMMENT_BYTES = 22, 56, 2**16
_IN_WIDE_END = 2**32 - 1
_TAR_MAGIC_AT, _TAR_MAGIC = 257, b"ustar"
_WITHOUT_CONTENT = (
    *(tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE),
    *(tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE),
)

# What Python's readers of archives raise beside their own errors where numbers or texts of a header are damaged.
_MALFORMED = (ValueError, ArithmeticError, LookupError, TypeError, AttributeError, struct.error)


def is_archive(head: bytes) -> bool:
    """Return whether plain bytes begin a zip or tar archive."""
    return head.startswith((_ZIP, _ZIP_END)) or head[_TAR_MAGIC_AT:].startswith(_TAR_MAGIC)


def members(path: Path, limits: UnpackLimits, links: dict[str, str] | None = None) -> Iterator[tuple[str, Reader]]:
    """Return the regular files of an archive, each with its name and a stream that is good until the next one.

    Hidden files are left out. `links` takes the target of each link by the link's name. Raises TraceAnalyzerError where
    the archive is damaged or passes a limit.
    """
    budget = UnpackBudget(limits, path)
    with path.open("rb") as file:
        is_zip = file.read(4) in (_ZIP, _ZIP_END)
    try:
        found = _zip_members(path, budget, limits) if is_zip else _tar_members(path, budget, limits)
        for count, (name, stream) in enumerate(found, start=1):
            if links is not None and isinstance(stream, str):
                links[readable_name(name)] = readable_name(stream)
            if count > limits.members:
                raise TraceAnalyzerError(f"holds more than {limits.members:,} files", path, HINT)
            readable = readable_name(name)
            if (
                stream is not None
                and not isinstance(stream, str)
                and readable
                and not any(part.startswith(".") for part in readable.split("/"))
            ):
                yield readable, stream
    except BROKEN as error:
        raise damaged(path, error) from error
    except _MALFORMED as error:
        raise damaged(path, f"a header of a member cannot be read ({error})") from error
    except (RuntimeError, NotImplementedError) as error:  # encrypted, or packed in a way that Python does not know
        raise TraceAnalyzerError(f"cannot be unpacked: {error}", path, HINT) from error


# A regular file, the target of a link, or nothing that has content.
_Member = tuple[str, Reader | str | None]


def _zip_members(path: Path, budget: UnpackBudget, limits: UnpackLimits) -> Iterator[_Member]:
    if _directory_bytes(path) > limits.directory_bytes:
        raise TraceAnalyzerError(f"holds more than {limits.members:,} files, or very long names", path, HINT)
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)
            if kind == stat.S_IFLNK:
                with archive.open(info) as stream:
                    yield info.filename, stream.read(_LONGEST_TARGET).decode("utf-8", "replace")
                continue
            if info.is_dir() or kind not in (0, stat.S_IFREG) or info.filename.startswith("__MACOSX/"):
                yield info.filename, None
                continue
            with archive.open(info) as stream:
                yield info.filename, budget.counting(cast("Reader", stream))


def _directory_bytes(path: Path) -> int:
    """Return how long the list of a zip file's members is, as its end says; 0 where it does not."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _ZIP_COMMENT_BYTES - _ZIP_END_BYTES - _ZIP_WIDE_END_BYTES))
        tail = file.read()
    end, wide_end = tail.rfind(_ZIP_END), tail.rfind(_ZIP_WIDE_END)
    size = struct.unpack_from("<I", tail, end + 12)[0] if 0 <= end <= len(tail) - _ZIP_END_BYTES else 0
    if size == _IN_WIDE_END and 0 <= wide_end <= len(tail) - _ZIP_WIDE_END_BYTES:
        size = struct.unpack_from("<Q", tail, wide_end + 40)[0]
    return int(size)


def _tar_members(path: Path, budget: UnpackBudget, limits: UnpackLimits) -> Iterator[_Member]:
    class Header(tarfile.TarInfo):
        """A header of which no text is read that is too long."""

        def _proc_member(self, archive: tarfile.TarFile) -> Any:
            is_text = self.type not in (*tarfile.REGULAR_TYPES, *_WITHOUT_CONTENT)
            if is_text and self.size > limits.header_bytes:
                raise tarfile.ReadError(f"one header has {self.size:,} bytes")
            return super()._proc_member(archive)  # type: ignore[misc]

    with closing(opened(path)) as packed:
        plain = budget.counting(packed)
        with tarfile.open(fileobj=cast("Any", plain), mode="r|", tarinfo=Header) as archive:
            for header in archive:
                cast("Any", archive).members = []  # else all are kept
                is_plain = header.isreg() and not header.issparse()
                target = header.linkname if header.issym() or header.islnk() else None
                yield header.name, cast("Reader", archive.extractfile(header)) if is_plain else target
        if plain.tail != bytes(TAIL_BYTES):
            raise tarfile.ReadError("the end mark is missing")
