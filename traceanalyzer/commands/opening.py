"""What every command that reads a run shares: its options, and opening the run with progress on a terminal."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from traceanalyzer.commands.activity import Activity

if TYPE_CHECKING:
    from traceanalyzer.run import Run


@dataclass(frozen=True)
class RunOptions:
    """Which run to open, and how."""

    path: Path
    store: Path | None
    jobs: int | None
    verbose: bool
    quiet: bool
    step_pattern: str | None = None
    names: tuple[tuple[str, str], ...] | None = None  # as in AttributionOptions


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the argument RUN and the options that go with it, handed over as one `RunOptions`."""

    @functools.wraps(command)
    def gathered(run: Path, store: Path | None, jobs: int | None, verbose: bool, quiet: bool, **rest: Any) -> Any:
        return command(options=RunOptions(run, store, jobs, verbose, quiet), **rest)

    for decorate in reversed(
        (
            click.argument("run", type=click.Path(path_type=Path)),
            click.option("--store", type=click.Path(path_type=Path), metavar="DIR", help="Keep what is computed here."),
            click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Use at most N cores."),
            click.option("-v", "--verbose", is_flag=True, help="Say what is done, and leave nothing out."),
            click.option("-q", "--quiet", is_flag=True, help="Print the result alone: no progress, no notes."),
        )
    ):
        gathered = decorate(gathered)
    return gathered


step_pattern_option = click.option(
    "--step-pattern",
    metavar="REGEX",
    help="Take annotations whose names match for the steps, such as '^train_step'; else they are found.",
)


def step_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command be told which annotations are steps; goes below `run_options`."""

    @functools.wraps(command)
    def gathered(options: RunOptions, step_pattern: str | None, **rest: Any) -> Any:
        return command(options=replace(options, step_pattern=step_pattern), **rest)

    return step_pattern_option(gathered)


@contextmanager
def opened(options: RunOptions, *, attribution: bool = True) -> Iterator[tuple[Run, Activity]]:
    """Open a run, ingesting what is new in it; progress goes to standard error if that is a terminal."""
    from traceanalyzer.attribution import AttributionOptions
    from traceanalyzer.run import open_run

    with Activity(enabled=sys.stderr.isatty() and not options.quiet) as activity:
        started = time.monotonic()
        activity.phase(f"opening {options.path}")
        run = open_run(
            options.path,
            store=options.store,
            jobs=options.jobs,
            report=activity.read,
            attribution=attribution,
            options=AttributionOptions(options.step_pattern, options.names),
        )
        try:
            for error in run.unreadable:
                click.echo(f"warning: left out {error}" + (f" ({error.hint})" if error.hint else ""), err=True)
            if options.verbose:
                click.echo(_how_opened(run, time.monotonic() - started), err=True)
            yield run, activity
        finally:
            run.close()


def _how_opened(run: Run, seconds: float) -> str:
    traces = f"{len(run.traces)} trace{'' if len(run.traces) == 1 else 's'}"
    if run.reused:
        return f"{run.root}: {traces} unchanged, read from Parquet only ({seconds:.2f} s)"
    return f"{run.root}: {traces} ingested ({seconds:.2f} s); the next command reads Parquet only"
