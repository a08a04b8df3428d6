"""Which client reads a place; its library is imported when it is asked for."""

from __future__ import annotations

from traceanalyzer.remote.client import Client
from traceanalyzer.remote.location import Location


def client_of(location: Location) -> Client:
    """Return the client of a place; raise TraceAnalyzerError where its library is not installed."""
    if location.extra == "hdfs":
        from traceanalyzer.remote.fsspec_client import FsspecClient

        return FsspecClient(location)
    if location.extra == "http":
        from traceanalyzer.remote.http_client import HttpClient

        return HttpClient(location)
    from traceanalyzer.remote.obstore_client import ObstoreClient

    return ObstoreClient(location)
