"""Finds the traces of a run by their content, in what a user names: files, folders, archives, patterns."""

from __future__ import annotations

from traceanalyzer.discovery.finding import discover, find_sources, ingesters
from traceanalyzer.discovery.naming import natural_key, ranks_from_names
from traceanalyzer.discovery.run_sources import RunSources, find_run, with_ncu_tables
from traceanalyzer.ingest.unread_formats import read_head

__all__ = [
    "RunSources",
    "discover",
    "find_run",
    "find_sources",
    "ingesters",
    "natural_key",
    "ranks_from_names",
    "read_head",
    "with_ncu_tables",
]
