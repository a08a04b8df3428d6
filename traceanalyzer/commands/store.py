"""`traceanalyzer store`: what can be done with a store itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceanalyzer.commands.ingest import ingest
from traceanalyzer.commands.opening import RunPath
from traceanalyzer.commands.part import part
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.text.visible import visible
from traceanalyzer.text.words import counted

if TYPE_CHECKING:
    from traceanalyzer.remote.location import Location


@click.group()
def store() -> None:
    """Fill and look after a store: the place of computed tables that --store names."""


store.add_command(ingest)
store.add_command(part)


@store.command()
@click.argument("place", type=RunPath(), metavar="STORE")
def sweep(place: Path | Location) -> None:
    """Remove what killed commands left in a store, and nothing that a command may still use.

    STORE is a folder, or a place in a bucket, such as s3://bucket/ta/. There, attempts that were not finished within a
    day go, those that another one replaced, and what ranks left for a run that is attributed since; of a folder, what
    no process writes any more. So it can run at any time, for example every night.
    """
    from traceanalyzer.store.locating import is_own_store, locate_store

    if isinstance(place, Path) and not is_own_store(place):
        hint = "give what --store was given, or RUN/.traceanalyzer"
        raise TraceAnalyzerError("holds no store that you made there", place, hint)
    opened_store = locate_store(place, place).open()
    count = opened_store.sweep()
    click.echo(f"{counted(count, 'unfinished folder')} removed from {visible(str(opened_store.folder))}")
    if opened_store.shared is not None:
        from traceanalyzer.store.shared_store import sweep

        swept = sweep(opened_store.shared)
        size = f"{swept.size_bytes / 1e6:,.1f} MB"
        click.echo(f"{counted(swept.object_count, 'object')} of {size} removed from {visible(str(place))}")
