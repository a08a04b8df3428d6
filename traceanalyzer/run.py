"""A run: the traces of one job, ingested once and open for questions."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import duckdb
import pyarrow.parquet as pq

from traceanalyzer import engine
from traceanalyzer.attribution.vocabulary.options import DEFAULT_OPTIONS, AttributionOptions
from traceanalyzer.canonical import StoredTrace, connect_canonical
from traceanalyzer.discovery import RunSources, find_run, natural_key, ranks_from_names
from traceanalyzer.errors import TraceAnalyzerError, suggestion
from traceanalyzer.hardware import with_device
from traceanalyzer.ingest import Ingester, IngestOptions, Progress
from traceanalyzer.ingest.packed import member_names
from traceanalyzer.ingest.sink import parquet_options
from traceanalyzer.query_errors import query_error
from traceanalyzer.renamed import with_new_names
from traceanalyzer.run_table import RunTable
from traceanalyzer.settings import NO_SETTINGS_FILE, SettingsFile, locate_settings
from traceanalyzer.standard_input import STANDARD_INPUT, spooled
from traceanalyzer.store.store import Store, StoreWriteError, locate_store

if TYPE_CHECKING:
    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.rules import Explanation
    from traceanalyzer.settings import Settings
    from traceanalyzer.shown_answer import ShownAnswer


_TRACES_SHOWN = """
SELECT
    trace, rank, format, framework, event_count,
    (SELECT count(*) FROM canonical.gpu_ops AS ops WHERE ops.trace_id = traces.trace_id) AS gpu_op_count,
    (SELECT max(step_count) FROM attribution.windows AS windows WHERE windows.trace_id = traces.trace_id) AS step_count
FROM canonical.traces
ORDER BY trace_id
"""


def _ignore(progress: Progress) -> None:
    return None


@dataclass(frozen=True, repr=False)
class Run:
    """An open run: a DuckDB connection over its tables and metrics, and the traces behind them."""

    root: Path
    store: Path
    traces: tuple[StoredTrace, ...]
    derived: Path | None  # folder of the attribution tables
    reused: bool  # nothing was ingested: every table came from Parquet
    unreadable: tuple[TraceAnalyzerError, ...] = ()  # files of the run that are not among its traces, and why
    options: AttributionOptions = DEFAULT_OPTIONS  # what `derived` is computed with
    jobs: int | None = None  # cores to use; None: all
    catalog: Future[None] | None = None  # the catalogue being written beside what the caller does
    ignored_store: Path | None = None  # a store in the run's folder that this user's commands did not make there
    settings_file: SettingsFile = NO_SETTINGS_FILE  # the project's, for all that is asked without other settings
    device: str | None = None  # as in `open_run`
    kept: ExitStack | None = None  # what is removed when the run is closed

    @cached_property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """A DuckDB connection over every table and metric, made when it is first asked for."""
        return self._connect(self._project(None))

    def _connect(self, project: Settings, readers: Sequence[str] | None = None) -> duckdb.DuckDBPyConnection:
        """Return a connection with what a project says of its hardware, checked."""
        connection = engine.connect(self.traces, self.derived, readers=readers, replaced=project.hardware.queries())
        try:
            project.hardware.check(connection)
        except TraceAnalyzerError:
            connection.close()
            raise
        return connection

    def _project(self, settings: Settings | None) -> Settings:
        """Return the settings that were given, else the project's, with the device that the run was opened with."""
        project = self.settings_file.read() if settings is None else settings
        return replace(project, hardware=with_device(project.hardware, self.device))

    def sql(self, query: str) -> duckdb.DuckDBPyRelation:
        """Return the relation of a query over canonical tables, attribution and metrics.

        Raises TraceAnalyzerError for a query that is wrong, with the place in it and what DuckDB suggests.
        """
        try:
            return self.connection.sql(with_new_names(query))
        except duckdb.Error as error:
            raise query_error(str(error)) from error

    def table(self, name: str) -> RunTable:
        """Return a table or metric by its name: `.arrow()`, `.df()` and `.pl()` have its rows.

        Raises TraceAnalyzerError for a name that is none.
        """
        known = [row[0] for row in self.connection.execute("SHOW TABLES").fetchall()]
        name = with_new_names(f"FROM {name}").removeprefix("FROM ")
        if name not in known:
            hint = suggestion(name, known, "`run.sql('SHOW TABLES')` lists metrics and tables")
            raise TraceAnalyzerError(f"no metric or table is called {name!r}", "run.table", hint)
        return RunTable(name, self.connection.table(f'"{name}"'))

    def whatif(self, *removed: str, faster: Mapping[str, float] | None = None) -> ShownAnswer:
        """Return the step time without causes (`host.dataloader`), or with `faster` kernels ({"gemm": 2}).

        All changes apply together. Raises TraceAnalyzerError for a name that is no cause, and without any change.
        """
        from traceanalyzer.attribution.lead_scan.what_if import Change, causes_named, parse_faster, what_if
        from traceanalyzer.shown_answer import ShownAnswer

        if not removed and not faster:
            raise TraceAnalyzerError(
                "no change was given", "run.whatif", "for example run.whatif('host.dataloader', faster={'gemm': 2})"
            )
        causes = tuple(dict.fromkeys(map(with_new_names, removed)))
        causes_named(causes)
        speedups = tuple(parse_faster(f"{what}={factor:g}x") for what, factor in (faster or {}).items())
        answer = what_if(self.connection, Change(causes, speedups))
        return ShownAnswer(answer, self.root.name or self.root.resolve().name)

    def to_html(self, path: str | Path) -> Path:
        """Diagnose the run, write the report as a page, and return the page's path."""
        return self.diagnose().to_html(path, self)

    def diagnose(
        self,
        rule_paths: Sequence[Path] = (),
        params: Mapping[str, int | float | str | bool] | None = None,
        settings: Settings | None = None,
    ) -> Diagnosis:
        """Return what limits the run: findings in the order of fixes, with evidence and bounded savings.

        `params` overrides parameters of rules, keyed `rule.param`, and wins over `settings`: those of `settings_file`,
        unless others are given.
        """
        from traceanalyzer.rules import diagnose, load_rules, readers

        project = self._project(settings)
        rules = load_rules((*project.rule_paths, *rule_paths), tests=False)
        with self._connect(project, readers(rules)) as connection:
            return diagnose(connection, rules, params or {}, str(self.root), project=project, exclusive=True)

    def explain(
        self, rule_id: str, rule_paths: Sequence[Path] = (), settings: Settings | None = None
    ) -> list[Explanation]:
        """Return how a rule comes to its verdict in every place: each condition with the values that it sees."""
        from traceanalyzer.rules import check_settings, explain, load_rules, readers, rule_called

        project = self._project(settings)
        rules = load_rules((*project.rule_paths, *rule_paths), tests=False)
        rule = rule_called(rule_id, rules)
        values = rule.values(check_settings(rules, project.params).get(rule.id))
        with self._connect(project, readers([rule])) as connection:
            return explain(connection, rule, values, exclusive=True)

    def export(self, folder: str | Path, names: Sequence[str] = (), layout: str = "parquet") -> dict[str, Path]:
        """Write metrics, all unless some are named, as Parquet or CSV files into a folder; return the file of each.

        Attribution that is not there yet is computed beside the metrics that can do without. Raises TraceAnalyzerError
        where the folder cannot be written.
        """
        from traceanalyzer.export import export_metrics

        replaced = self._project(None).hardware.queries()
        return export_metrics(self.traces, self._attributed, Path(folder), names, layout, self.jobs, replaced)

    def _attributed(self) -> Path:
        options = _with_names(self.options, self.settings_file)
        return self.derived or _derive(Store(self.store), self.traces, options, self.jobs)

    def close(self) -> None:
        """Close the connection, if there is one, see the catalogue finished, and remove what standard input left."""
        if "connection" in self.__dict__:
            self.connection.close()
        if self.catalog is not None:
            self.catalog.result()
        if self.kept is not None:
            self.kept.close()

    def __repr__(self) -> str:
        ingested = "read from the store" if self.reused else "ingested"
        return f"<Run {self.root}: {len(self.traces)} trace{'' if len(self.traces) == 1 else 's'}, {ingested}>"

    def _repr_html_(self) -> str:
        from traceanalyzer.report.html.notebook import rows_html

        columns = ["trace", "rank", "format", "framework", "event_count", "gpu_op_count", "step_count"]
        rows = self.connection.execute(_TRACES_SHOWN).fetchall()
        return rows_html(f"run {self.root}", columns, rows, more=False)

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_run(
    path: str | Path | Sequence[str | Path],
    *,
    store: str | Path | None = None,
    jobs: int | None = None,
    report: Callable[[Progress], None] = _ignore,
    attribution: bool = True,
    options: AttributionOptions = DEFAULT_OPTIONS,
    trust: bool = False,
    device: str | None = None,
) -> Run:
    """Open a trace file, a folder or an archive of traces, or several of these as one run, ingesting what is new.

    An input may be a pattern, such as `run42/*.json`; `-` is standard input, of which nothing is left when the run is
    closed, unless `store` names a folder.

    Without `attribution`, the tables that are computed from all of a run are left for later, and so are the metrics
    that build on them; `options` say how they are computed, with the names in the project's settings unless they have
    some; with `trust`, also of a traceanalyzer.toml in the run's own folder (docs/settings.md). `jobs` is the number of
    cores to use (all by default); `report` receives how far reading is. `device` is the model of the devices that no
    trace names, as NAME or NAME:SMS. A file of a folder that cannot be read at all is left out and listed in
    `Run.unreadable`. Raises TraceAnalyzerError where nothing can be read.
    """
    inputs = [Path(path)] if isinstance(path, (str, Path)) else [Path(item) for item in path]
    with ExitStack() as kept:
        piped = kept.enter_context(spooled()) if Path(STANDARD_INPUT) in inputs else None
        found = find_run([item if piped is None or item != Path(STANDARD_INPUT) else piped for item in inputs])
        root = found.root
        if piped is not None and root == piped:
            root, store = Path(piped.name), store or piped.with_name("store")
        settings_file = locate_settings(root, trust=trust)
        if attribution:
            options = _with_names(options, settings_file)
        location = locate_store(root, None if store is None else Path(store))
        _check_name(location.folder)
        keeper = Store(location.folder)
        unreadable = list(found.unreadable)
        folders = _ingest_all(found.sources, keeper, jobs or os.cpu_count() or 1, report, unreadable)
        traces = _order(found, [(source, folder) for source, folder, _ in folders])
        reused = all(was_there for _, _, was_there in folders)
        derived = _derive(keeper, traces, options, jobs) if attribution else None
        writing = _renew_catalog(keeper, traces, derived, reused)
        return Run(
            root,
            keeper.folder,
            tuple(traces),
            derived,
            reused,
            tuple(unreadable),
            options,
            jobs,
            writing,
            location.ignored,
            settings_file,
            device,
            kept.pop_all(),
        )


def _ingest_all(
    sources: Sequence[tuple[Path, Ingester]],
    keeper: Store,
    jobs: int,
    report: Callable[[Progress], None],
    unreadable: list[TraceAnalyzerError],
) -> list[tuple[Path, Path, bool]]:
    """Return each source with its folder of traces and whether the store had it; all cores are used.

    Sources that cannot be read are listed in `unreadable`; if none can, the first error is raised.
    """
    options = IngestOptions(max(1, jobs // len(sources)), report)

    def ingest(item: tuple[Path, Ingester]) -> tuple[Path, Path, bool] | TraceAnalyzerError:
        source, ingester = item
        try:
            _check_name(source)
            folder, was_there = keeper.trace_folder(source, lambda scratch: _ingest(ingester, source, scratch, options))
        except StoreWriteError:
            raise
        except TraceAnalyzerError as error:
            return TraceAnalyzerError(error.what, error.where or source, error.hint)
        return source, folder, was_there

    with ThreadPoolExecutor(min(jobs, len(sources))) as pool:
        answers = list(pool.map(ingest, sources))
    errors = [answer for answer in answers if isinstance(answer, TraceAnalyzerError)]
    if len(errors) == len(answers):
        raise errors[0]
    unreadable += errors
    return [answer for answer in answers if not isinstance(answer, TraceAnalyzerError)]


def _check_name(path: Path) -> None:
    """Raise TraceAnalyzerError for a name that is no text here: DuckDB and Arrow take UTF-8 only."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        hint = "rename it, or set PYTHONUTF8=1 where the locale is not UTF-8"
        raise TraceAnalyzerError("the name is not UTF-8", path, hint) from error


def _ingest(ingester: Ingester, source: Path, scratch: Path, options: IngestOptions) -> None:
    ingester.ingest(source, scratch, options)


def _order(found: RunSources, folders: Sequence[tuple[Path, Path]]) -> list[StoredTrace]:
    """Return every trace of the run, by rank and then by name; `folders` are sources with their folders of traces."""
    files = [file for source, folder in folders for file in _stored_files(found, source, folder)]
    by_name = ranks_from_names([file.name for file in files])
    traces: list[StoredTrace] = []
    for file, name_rank in zip(files, by_name, strict=True):
        for part in file.parts:
            # Not read_table: it imports pyarrow.dataset, a quarter of a second.
            row = pq.ParquetFile(part / "traces.parquet").read(columns=["rank"]).to_pylist()[0]
            rank, told_by = (row["rank"], "metadata") if row["rank"] is not None else (name_rank, "name")
            name = file.name + (f"#{part.name.rpartition('.')[2]}" if len(file.parts) > 1 else "")
            traces.append(StoredTrace(part, name, file.path, rank, told_by if rank is not None else None))
    return sorted(traces, key=lambda t: (t.rank is None, t.rank or 0, natural_key(t.trace)))


@dataclass(frozen=True)
class _StoredFile:
    """One file of a run, also one in an archive: its name in the run, and the folders of its traces."""

    name: str
    path: Path
    parts: tuple[Path, ...]


def _stored_files(found: RunSources, source: Path, folder: Path) -> list[_StoredFile]:
    parts = sorted((part for part in folder.iterdir() if part.is_dir()), key=lambda part: natural_key(part.name))
    members = member_names(folder)
    if not members:
        return [_StoredFile(found.name(source), source, tuple(parts))]
    prefix = f"{found.name(source)}/" if len(found.sources) > 1 else ""
    by_member: dict[str, list[Path]] = {}
    for part in parts:
        by_member.setdefault(members[part.name], []).append(part)
    return [_StoredFile(prefix + name, source / name, tuple(owned)) for name, owned in by_member.items()]


def _with_names(options: AttributionOptions, settings_file: SettingsFile) -> AttributionOptions:
    """Return options with the names in the project's settings, unless they have some."""
    return options if options.names is not None else replace(options, names=settings_file.read().names)


def _derive(keeper: Store, traces: Sequence[StoredTrace], options: AttributionOptions, jobs: int | None) -> Path:
    def compute(scratch: Path) -> None:
        with connect_canonical(traces) as connection:
            for name, table in engine.compute_derived(connection, options, traces, jobs or os.cpu_count() or 1).items():
                pq.write_table(table, scratch / f"{name}.parquet", **parquet_options(table.schema))

    # Ranks may come from the files' names, which the folders of traces do not depend on.
    asked = f"{options.key()} {[trace.rank for trace in traces]}"
    return keeper.derived_folder([trace.folder for trace in traces], asked, compute)


def _renew_catalog(
    keeper: Store, traces: Sequence[StoredTrace], derived: Path | None, reused: bool
) -> Future[None] | None:
    """Begin to write the catalogue, unless it already shows what was opened.

    Below a folder with a question mark in its name there is none: DuckDB takes what follows for parameters.
    """
    if "?" in str(keeper.folder.absolute()):
        return None
    shown = keeper.catalog_shows()
    if reused and shown is not None and (derived is None or shown == derived.name):
        return None
    shows = "" if derived is None else derived.name
    beside = ThreadPoolExecutor(1)
    writing = beside.submit(keeper.replace_catalog, shows, lambda file: _write_catalog(file, traces, derived))
    beside.shutdown(wait=False)
    return writing


def _write_catalog(file: Path, traces: Sequence[StoredTrace], derived: Path | None) -> None:
    with engine.connect(traces, derived, file) as connection:
        engine.add_comments(connection)
