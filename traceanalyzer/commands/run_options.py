"""Common parts of the commands that read a run: its options, and opening the run with progress on a terminal.

The argument RUN: a path of this machine, or a URL. A person at a terminal is shown what the command is doing, once it
takes longer than a second.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import click

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.pipeline import RunRequest
from traceanalyzer.remote.location import Location, run_input
from traceanalyzer.text.visible import visible

if TYPE_CHECKING:
    import os

    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from traceanalyzer.ingest import Progress, Source
    from traceanalyzer.pipeline.planning import ClusterAddress
    from traceanalyzer.run import Run

# Shorter commands need no explanation, and a bar that flashes by is noise.
PATIENCE_S = 1.0


# The options of `diagnose` and `diff` by what they are for, as their help shows them.
_OPTION_SECTIONS = {
    "What is analyzed": "base new step rank device step-pattern ncu missing align min-effect capture-spread",
    "The report": "format output also force brief top open open-ranks level source-root verbose quiet",
    "Rules and settings": "rules set no-settings trust",
    "Exit status": "fail-on unsure budgets accept-difference",
    "Where and how it runs": "store from-store jobs cluster retries plan",
}


class Sectioned(click.Command):
    """A command whose help shows its options in sections; those without one come last."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by what they are for."""
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        shown = {option.opts[-1]: record for option in options if (record := option.get_help_record(ctx))}
        for title, names in _OPTION_SECTIONS.items():
            records = [shown.pop(f"--{name}") for name in names.split() if f"--{name}" in shown]
            with formatter.section(title):
                formatter.write_dl(records)
        with formatter.section("Other"):
            formatter.write_dl(list(shown.values()))


class Activity:
    """Shows phases and the reading of files on standard error; does nothing unless it is enabled."""

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._phase = ""
        self._files: dict[Source, Progress] = {}
        self._bars: Bars | None = None
        self._task: TaskID | None = None
        self._timer = threading.Timer(PATIENCE_S, self._show)
        self._timer.daemon = True

    def __enter__(self) -> Activity:
        if self._enabled:
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the display and leave the terminal clean for the result."""
        with self._lock:
            self._enabled = False
            self._timer.cancel()
            if self._bars is not None:
                self._bars.stop()
                self._bars = None

    def phase(self, text: str) -> None:
        """Name the current phase."""
        with self._lock:
            self._phase = text
            self._files.clear()
            self._refresh()

    def read(self, progress: Progress) -> None:
        """Show how far a file has been read."""
        with self._lock:
            self._files[progress.path] = progress
            self._refresh()

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        with self._lock:
            if not self._enabled:
                return
            self._bars = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(bar_width=30),
                TextColumn("{task.fields[detail]}"),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._task = self._bars.add_task(self._phase, total=None, detail="")
            self._bars.start()
            self._refresh()

    def _refresh(self) -> None:
        if self._bars is None or self._task is None:
            return
        if not self._files:
            self._bars.update(self._task, description=self._phase, total=None, completed=0, detail="")
            return
        files = self._files.values()
        read_bytes = sum(file.read_bytes for file in files)
        size_bytes = sum(file.size_bytes for file in files)
        event_count = sum(file.event_count for file in files)
        if read_bytes >= size_bytes:
            self._bars.update(self._task, description="linking", total=None, detail=f"{event_count:,} events read")
            return
        rate = read_bytes / max(time.monotonic() - self._started, 1e-3)
        self._bars.update(
            self._task,
            description="reading" if len(self._files) == 1 else f"reading {len(self._files)} files",
            total=size_bytes,
            completed=read_bytes,
            detail=(
                f"{read_bytes / 1e6:,.0f} of {size_bytes / 1e6:,.0f} MB, {event_count:,} events, {rate / 1e6:,.0f} MB/s"
            ),
        )


class RunPath(click.Path):
    """A run, or a store, as a user names it; completed as a path."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a path, or the place that a URL means; raises TraceAnalyzerError for a URL that is not read."""
        if isinstance(value, Location):
            return value
        given = run_input(value if isinstance(value, Path) else str(value))
        return super().convert(given, param, ctx) if isinstance(given, Path) else given


@dataclass(frozen=True)
class RunOptions:
    """The run to open and how, and what only a command needs to know."""

    request: RunRequest
    verbose: bool = False
    quiet: bool = False
    cluster: ClusterAddress | None = None  # where traces are read and attributed; None: in this process
    retries: int | None = None  # how often a task of the cluster that fails is tried again; None: as by default
    plan: bool = False  # only say what there is to do

    @property
    def path(self) -> Path | Location:
        """The run as the user names it; the first of several inputs."""
        first = self.request.inputs[0]
        return first if isinstance(first, Location) else run_input(first)

    def asking(self, **changes: Any) -> RunOptions:
        """Return these options with other fields of the request."""
        return replace(self, request=replace(self.request, **changes))


def store_option(meaning: str = "Folder or bucket (s3://bucket/ta/) for computed tables.") -> Callable[..., Any]:
    return click.option("--store", type=RunPath(), metavar="DIR", help=meaning)


jobs_option = click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Use at most N cores.")
quiet_option = click.option("-q", "--quiet", is_flag=True, help="Print only the result: no progress, no notes.")
no_settings_option = click.option("--no-settings", is_flag=True, help="Ignore traceanalyzer.toml.")
trust_option = click.option(
    "--trust", is_flag=True, help="Also use a traceanalyzer.toml in RUN itself, or of another user."
)


def with_options(command: Callable[..., Any], *options: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command with arguments and options, which its help shows in this order."""
    for option in reversed(options):
        command = option(command)
    return command


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the argument RUN and the options of a run, passed as one `RunOptions`."""
    return _with_run(command, click.argument("run", type=RunPath()))


def several_run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the arguments RUN..., which are one run, and the options of a run, passed as one `RunOptions`."""
    return _with_run(command, click.argument("run", type=RunPath(), nargs=-1, required=True))


def _with_run(command: Callable[..., Any], argument: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(command)
    def gathered(
        run: Path | Location | tuple[Path | Location, ...],
        store: Path | Location | None,
        jobs: int | None,
        ncu: tuple[Path, ...],
        trust: bool,
        verbose: bool,
        quiet: bool,
        **rest: Any,
    ) -> Any:
        inputs = run if isinstance(run, tuple) else (run,)
        request = RunRequest(inputs=inputs, store=store, jobs=jobs, trust=trust, ncu=ncu)
        return command(options=RunOptions(request, verbose, quiet), **rest)

    ncu_help = "Also read counters that `ncu --csv` printed; those in the run's folder are read anyway."
    return with_options(
        gathered,
        argument,
        store_option(),
        jobs_option,
        click.option("--ncu", type=click.Path(path_type=Path), multiple=True, metavar="FILE", help=ncu_help),
        trust_option,
        click.option("-v", "--verbose", is_flag=True, help="Print every detail, and what the command does."),
        quiet_option,
    )


step_pattern_option = click.option(
    "--step-pattern",
    metavar="REGEX",
    help="Use annotations with matching names as steps, for example '^train_step'; by default steps are detected.",
)


device_option = click.option(
    "--device",
    metavar="NAME[:SMS]",
    help="Model of the devices that the traces do not name, for example 'NVIDIA H100 80GB HBM3:132'.",
)


def step_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options for which annotations are steps and which devices ran; put it below `run_options`."""

    @functools.wraps(command)
    def gathered(options: RunOptions, step_pattern: str | None, device: str | None, **rest: Any) -> Any:
        steps = replace(options.request.options, step_pattern=step_pattern)
        return command(options=options.asking(options=steps, device=device), **rest)

    return step_pattern_option(device_option(gathered))


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options for where its work is done; put it below `several_run_options`."""

    @functools.wraps(command)
    def gathered(options: RunOptions, cluster: str | None, retries: int | None, plan: bool, **rest: Any) -> Any:
        address = None
        if cluster is not None:
            from traceanalyzer.pipeline.planning import parse_cluster

            address = parse_cluster(cluster)
        if retries is not None and address is None:
            raise TraceAnalyzerError("only tasks of a cluster are tried again", "--retries", "give --cluster, too")
        return command(options=replace(options, cluster=address, retries=retries, plan=plan), **rest)

    return with_options(
        gathered,
        click.option(
            "--cluster",
            metavar="WHERE",
            help="Read and attribute traces on Dask workers: local[:N], tcp://HOST:PORT, tls://HOST:PORT, "
            "file:SCHEDULER.json, env, slurm[:N] (docs/scale.md).",
        ),
        click.option(
            "--retries",
            type=click.IntRange(min=0),
            metavar="N",
            help="Have the cluster try a task that fails N times more, by default 2.",
        ),
        click.option("--plan", is_flag=True, help="Say what would be done, where and at what cost, and do nothing."),
    )


@contextmanager
def _executor(options: RunOptions) -> Iterator[Executor | None]:
    """Give what runs the tasks of a run; None: threads of this process."""
    if options.cluster is None:
        yield None
        return
    from traceanalyzer.cluster.dask_executor import RETRIES, DaskExecutor

    with DaskExecutor(options.cluster, RETRIES if options.retries is None else options.retries) as executor:
        yield executor


@contextmanager
def opened(
    options: RunOptions, *, attribution: bool = True, catalog: bool = False, shows_left_out: bool = False
) -> Iterator[tuple[Run, Activity]]:
    """Open a run and ingest what is new in it; progress goes to standard error if that is a terminal.

    Files that are set aside are named there, unless the command's own output names them.

    With `--plan`, it is only said what there is to do, and the command ends.
    """
    from traceanalyzer.run import open_requested

    request = replace(options.request, attribution=attribution, catalog=catalog)
    if options.plan:
        from traceanalyzer.pipeline.planning import plan_of

        for line in plan_of(request, options.cluster):
            click.echo(visible(line))
        raise click.exceptions.Exit(0)
    with Activity(enabled=sys.stderr.isatty() and not options.quiet) as activity, _executor(options) as executor:
        started = time.monotonic()
        activity.phase(f"opening {visible(str(options.path))}")
        run = open_requested(replace(request, report=activity.read, executor=executor))
        try:
            for error in run.unreadable:
                hint = f" ({visible(error.hint)})" if error.hint else ""
                click.echo(f"warning: left out {visible(str(error))}{hint}", err=True)
            for left_out in () if options.quiet or shows_left_out else run.set_aside:
                hint = f" ({visible(left_out.hint)})" if left_out.hint else ""
                click.echo(f"note: left out {visible(str(left_out))}{hint}", err=True)
            if run.found.location.ignored is not None and not options.quiet:
                ignored, used = visible(str(run.found.location.ignored)), visible(str(run.store))
                click.echo(
                    f"note: {ignored} was not made there by you (moved, copied or downloaded?) and is not used; the "
                    f"store is {used}",
                    err=True,
                )
            if request.with_settings and not options.quiet:
                note_ignored_settings(run)
            if options.verbose:
                click.echo(_how_opened(run, time.monotonic() - started), err=True)
            yield run, activity
        finally:
            run.close()


def note_ignored_settings(run: Run) -> None:
    """Say on standard error which settings files are not used, and how to use them."""
    for file in run.settings_file.ignored:
        click.echo(
            f"note: {visible(str(file))} may be a stranger's (it lies in the run, is a link, or others can write it) "
            "and is not used; --trust uses it",
            err=True,
        )


def _how_opened(run: Run, seconds: float) -> str:
    traces = f"{len(run.traces)} trace{'' if len(run.traces) == 1 else 's'}"
    if run.reused:
        return f"{visible(str(run.root))}: {traces} unchanged, read from Parquet only ({seconds:.2f} s)"
    return f"{visible(str(run.root))}: {traces} ingested ({seconds:.2f} s); the next command reads Parquet only"
