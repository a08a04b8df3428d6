"""Profiles of XLA: the `.xplane.pb` that JAX, TensorFlow and PyTorch/XLA write, on GPU, TPU and CPU."""

from __future__ import annotations

import mmap
import re
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest import IngestOptions

_NAMED = re.compile(r"\.xplane\.pb(?:\.gz)?$", re.IGNORECASE)
_GZIP = b"\x1f\x8b"
_PLANE, _TEXTS = 0x0A, (0x12, 0x1A, 0x22)
_REPLACED = b"\xef\xbf\xbd"
_COPY_BYTES = 2**22


class XlaIngester:
    """Reads profiles of XLA."""

    name = "xplane"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Return whether the bytes begin with a plane that has a name, or the file is named like a profile."""
        if path.is_dir() or not head:
            return False
        return _NAMED.search(path.name) is not None or begins_space(head)

    def ingest(self, path: Path, folder: Path, options: IngestOptions) -> None:
        """Read the file's one trace into `folder`/0."""
        # Only where there is a profile to read: what reads it takes a tenth of a second to import.
        from traceanalyzer.ingest.sink import TraceSink
        from traceanalyzer.ingest.xla.defects import ProfileDefects
        from traceanalyzer.ingest.xla.ingester import XlaTrace

        defects = ProfileDefects()
        with _unpacked(path, folder, defects) as plain:
            content = _mapped(plain, path)
            _refuse_others(content, path)
            with TraceSink(folder / "0") as sink:
                XlaTrace(content, path, sink, options, defects).write()


def begins_space(head: bytes) -> bool:
    """Return whether bytes begin a message of planes: a plane that names itself a host, a device or a task."""
    if not head or head[0] != _PLANE:
        return False
    return re.search(rb"/host:|/device:|Task Environment", head[:4096]) is not None


@contextmanager
def _unpacked(path: Path, folder: Path, defects: object) -> Iterator[Path]:
    """Give the file, or an unpacked copy of one that is gzip, as far as it goes."""
    with path.open("rb") as file:
        if file.read(2) != _GZIP:
            yield path
            return
    with tempfile.TemporaryDirectory(dir=folder, prefix=".unpacked-") as scratch:
        plain = Path(scratch) / "plain"
        with path.open("rb") as packed, plain.open("wb") as target:
            reader = zlib.decompressobj(wbits=31)
            try:
                while block := packed.read(_COPY_BYTES):
                    target.write(reader.decompress(block))
                target.write(reader.flush())
                is_whole = reader.eof
            except zlib.error:
                is_whole = False
        if not is_whole:
            defects.add("gzip-damaged")  # type: ignore[attr-defined]
        yield plain


def _mapped(plain: Path, path: Path) -> memoryview:
    if plain.stat().st_size == 0:
        raise TraceAnalyzerError("the file is empty", path, "the profiler wrote nothing: record again")
    # Arrays look into the mapped file as long as they live, so it is left to them to let it go.
    with plain.open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _refuse_others(content: memoryview, path: Path) -> None:
    """Raise TraceAnalyzerError for what is no profile, with what it is."""
    head = bytes(content[:4096])
    if head[0] not in (_PLANE, *_TEXTS):
        what = (
            "is text, and no profile of XLA"
            if _is_text(head)
            else "is no profile of XLA: its first byte is no field of one"
        )
        raise TraceAnalyzerError(what, path, "give the .xplane.pb that the profiler wrote")
    if head.count(_REPLACED) >= 2 and not _fits(content):
        what = "was saved as text (UTF-8), which destroyed it"
        raise TraceAnalyzerError(what, path, "copy it again as binary, for example with scp or in a zip archive")


def _is_text(head: bytes) -> bool:
    try:
        return head.decode().isprintable() or b"\n" in head
    except UnicodeDecodeError:
        return False


def _fits(content: memoryview) -> bool:
    """Return whether the fields of a file fit into it."""
    from traceanalyzer.ingest.xla.wire import DamageError, fields

    try:
        for _ in fields(content, 0, len(content)):
            pass
    except DamageError:
        return False
    return True
