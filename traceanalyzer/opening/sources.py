"""The objects of a run that lies in an object store or on a web server, as sources with their ingesters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from traceanalyzer.discovery import RunSources
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.remote.location import Location
from traceanalyzer.store.store import Store

if TYPE_CHECKING:
    from traceanalyzer.remote.finding import RemoteRun


def list_objects(remote: Sequence[Location], local: Sequence[Path]) -> RemoteRun:
    """Return the objects that a run's URLs name; raises TraceAnalyzerError where files are named, too."""
    from traceanalyzer.remote.finding import list_run

    if local:
        hint = "download the objects, or give one kind only"
        raise TraceAnalyzerError("files and objects of a store cannot be one run", str(local[0]), hint)
    return list_run(remote)


def recognise_objects(listed: RemoteRun, keeper: Store) -> RunSources:
    """Return the sources of a run, recognised by the first bytes of each object that the store does not know."""
    from traceanalyzer.remote.finding import recognise

    return recognise(listed, keeper)
