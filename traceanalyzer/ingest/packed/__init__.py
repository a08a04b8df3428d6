"""Traces that came packed: compressed with zstd, xz or bzip2, or in an archive (zip, tar, compressed tar).

They may come from a stranger. What is unpacked is limited in bytes, in its ratio to the file, and in members; links,
devices and sparse files in archives are passed over, but for a link to a rank that is not packed; the names of members
never become paths.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from msgspec.structs import replace

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest import EXPECTED, MEMBERS_NAME, Ingester, IngestOptions
from traceanalyzer.ingest.nsys import is_report
from traceanalyzer.ingest.packed.archives import (
    below_common,
    is_archive,
    is_named_as_archive,
    members,
    missing_trace,
    safe_name,
    stem,
    unique,
    without_suffix,
)
from traceanalyzer.ingest.packed.streams import (
    BROKEN,
    COMPRESSED,
    COPY_BYTES,
    GZIP,
    HEAD_BYTES,
    HINT,
    LIMITS,
    Reader,
    UnpackBudget,
    UnpackLimits,
    head_of,
    opened,
    read_member,
)

__all__ = ["LIMITS", "ArchiveIngester", "CompressedIngester", "UnpackLimits"]
# Where a file ends early, what was asked for together with the end is lost.
_SMALL_BYTES = 2**16


class CompressedIngester:
    """Reads a trace that is compressed with zstd, xz or bzip2; every ingester reads gzip by itself."""

    name = "compressed"

    def __init__(self, inner: Sequence[Ingester], limits: UnpackLimits = LIMITS) -> None:
        self._inner = inner
        self._limits = limits

    def sniff(self, head: bytes, path: Path) -> bool:
        """Return whether a trace that one of the other ingesters reads is compressed here."""
        if not head.startswith(COMPRESSED):
            return False
        with tempfile.TemporaryDirectory() as scratch:
            beginning = Path(scratch) / safe_name(without_suffix(path).name)
            beginning.write_bytes(head_of(path))
            return _ingester_of(beginning, self._inner) is not None

    def ingest(self, path: Path, folder: Path, options: IngestOptions) -> None:
        """Unpack the file beside its tables, and read it; where it ends early, the trace does, too."""
        with tempfile.TemporaryDirectory(prefix=".unpacked-", dir=folder) as scratch:
            plain = Path(scratch) / safe_name(without_suffix(path).name)
            _decompress(path, plain, self._limits)
            ingester = _ingester_of(plain, self._inner)
            if ingester is None:
                raise TraceAnalyzerError("what is compressed in it is no trace that traceanalyzer reads", path, HINT)
            _ingest_as(path, ingester, plain, folder, options)


class ArchiveIngester:
    """Reads every trace in an archive as a trace of its own."""

    name = "archive"

    def __init__(self, inner: Sequence[Ingester], limits: UnpackLimits = LIMITS) -> None:
        self._inner = inner
        self._limits = limits

    def sniff(self, head: bytes, path: Path) -> bool:
        """Return whether this is an archive, from its first bytes (decompressed if it is gzip)."""
        return is_archive(head_of(path) if head.startswith(COMPRESSED) else head)

    def ingest(self, path: Path, folder: Path, options: IngestOptions) -> None:
        """Unpack and read one member after the other: `folder`/00003.0 holds the first trace of the fourth one.

        Raises TraceAnalyzerError where the archive is damaged or passes a limit, and where a trace in it cannot be
        read: a run without one of its ranks would look like a smaller run.
        """
        names: dict[str, str] = {}
        links: dict[str, str] = {}
        packed: list[str] = []
        reports: set[str] = set()
        nested: list[str] = []
        with tempfile.TemporaryDirectory(prefix=".unpacked-", dir=folder) as scratch:
            for number, (name, stream) in enumerate(members(path, self._limits, links)):
                packed.append(name)
                if is_report(Path(name)):
                    reports.add(stem(name))
                    continue
                place = Path(scratch) / str(number)
                place.mkdir()
                if is_named_as_archive(name):
                    if self._may_hold_traces(path, name, stream, place):
                        nested.append(name)
                    shutil.rmtree(place)
                    continue
                for part in self._ingest_member(path, name, stream, place, options):
                    kept = f"{number:05}.{part.name}"
                    part.replace(folder / kept)
                    names[kept] = name
                shutil.rmtree(place)
        missed = reports - {stem(name) for name in names.values()}
        if missed:
            hint = "export it to SQLite with `nsys export --type sqlite`, or unpack the archive"
            raise TraceAnalyzerError(f"holds a report of Nsight Systems, {min(missed)}", path, hint)
        if not names:
            raise TraceAnalyzerError("no traces in this archive", path, EXPECTED)
        if nested:
            hint = "unpack both, and give the folder: what is in it could be a rank of this run"
            raise TraceAnalyzerError(f"holds another archive, {min(nested)}, which is not opened", path, hint)
        if (link := missing_trace(links, packed, names.values())) is not None:
            hint = "pack it again with the files that links name: tar --dereference, or zip without --symlinks"
            raise TraceAnalyzerError(f"holds {link[0]}, a link to {link[1]}, which is not in it", path, hint)
        (folder / MEMBERS_NAME).write_text(json.dumps(unique(below_common(names))), encoding="utf-8")

    def _may_hold_traces(self, archive: Path, name: str, stream: Reader, place: Path) -> bool:
        """Return whether an archive in an archive holds a trace, or cannot be looked into."""
        file = place / safe_name(name)
        _copy(archive, stream, file)
        try:
            for _, member in members(file, self._limits):
                (place / "head").write_bytes(read_member(member, HEAD_BYTES, file))
                if _ingester_of(place / "head", self._inner) is not None:
                    return True
        except TraceAnalyzerError:
            return True
        return False

    def _ingest_member(
        self, archive: Path, name: str, stream: Reader, place: Path, options: IngestOptions
    ) -> list[Path]:
        """Return the folders of the traces in a member, none where it is no trace."""
        file, tables = place / safe_name(name), place / "tables"
        with file.open("wb") as target:
            target.write(read_member(stream, HEAD_BYTES, archive))
        # Most of what else lies in an archive shows by its beginning.
        if _ingester_of(file, self._inner) is None:
            return []
        _copy(archive, stream, file)
        ingester = _ingester_of(file, self._inner)
        if ingester is None:
            return []
        tables.mkdir()
        try:
            _ingest_as(archive, ingester, file, tables, options)
        except TraceAnalyzerError as error:
            raise TraceAnalyzerError(f"{name} in it: {error.what}", archive, error.hint) from error
        return sorted(part for part in tables.iterdir() if part.is_dir())


def _copy(archive: Path, stream: Reader, file: Path) -> None:
    """Write what is left of a member behind what a file holds."""
    with file.open("ab") as target:
        while block := read_member(stream, COPY_BYTES, archive):
            target.write(block)


def _ingest_as(source: Path, ingester: Ingester, file: Path, folder: Path, options: IngestOptions) -> None:
    report = options.report
    ingester.ingest(file, folder, replace(options, report=lambda progress: report(replace(progress, path=source))))


def _ingester_of(file: Path, inner: Sequence[Ingester]) -> Ingester | None:
    with file.open("rb") as content:
        head = content.read(HEAD_BYTES)
    if head.startswith(GZIP):
        head = head_of(file)
    return next((ingester for ingester in inner if ingester.sniff(head, file)), None)


def _decompress(source: Path, target: Path, limits: UnpackLimits) -> None:
    """Write what can be read of a compressed file; raise TraceAnalyzerError where nothing can."""
    written = 0
    with closing(opened(source)) as packed, target.open("wb") as plain:
        reader = UnpackBudget(limits, source).counting(packed)
        while True:
            try:
                block = reader.read(_SMALL_BYTES)
            except BROKEN as error:
                if written:
                    return
                raise TraceAnalyzerError(f"cannot be decompressed: {error}", source, "copy it again") from error
            if not block:
                return
            written += plain.write(block)
