"""The ingesters of all formats, each made when it is its turn: those that come last take long to import."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pkgutil import resolve_name

from traceanalyzer.ingest import Ingester

# In the order in which they look at a file: module and class below traceanalyzer.ingest.
_FORMATS = (
    "amd:AmdIngester",
    "nsys:NsysIngester",
    "xla:XlaIngester",
    "trace_events:TraceEventIngester",
    "ncu:NcuIngester",
    "ncu:NcuReportIngester",
)


def ingesters() -> Iterator[Ingester]:
    """Yield every ingester of a file in a folder, in the order in which they look at it."""
    yield from map(_ingester, _FORMATS)
    yield _compressed_ingester()


def ingester_of_folders() -> Ingester:
    """Return the one that reads folders, too: an export with a file for each table."""
    return _ingester("nsys:NsysIngester")


@cache
def _ingester(name: str) -> Ingester:
    ingester: Ingester = resolve_name(f"traceanalyzer.ingest.{name}")()
    return ingester


@cache
def _compressed_ingester() -> Ingester:
    from traceanalyzer.ingest.packed import CompressedIngester

    return CompressedIngester(tuple(map(_ingester, _FORMATS)))
