"""A run: the traces of one job, ingested once and open for questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from traceanalyzer.attribution import DEFAULT_OPTIONS, AttributionOptions
from traceanalyzer.diagnosis import DetailRanks, Diagnosis, KernelCounters, LeftOut, Override, flops
from traceanalyzer.display import display
from traceanalyzer.errors import TraceAnalyzerError, suggestion
from traceanalyzer.ingest import Progress
from traceanalyzer.pipeline import RunRequest, ignore
from traceanalyzer.pipeline.contents import ncu_tables_of, no_trace_beside, renew_catalog, traces_of
from traceanalyzer.pipeline.deriving import derived_of, diagnosis_key, keep_diagnosis, kept_diagnosis
from traceanalyzer.pipeline.finding import FoundRun, find
from traceanalyzer.pipeline.ingesting import ingest_all
from traceanalyzer.process import query_error
from traceanalyzer.remote.location import Location
from traceanalyzer.settings.hardware import with_device
from traceanalyzer.store.inputs import NcuTable, StoredTrace
from traceanalyzer.store.store import Store

if TYPE_CHECKING:
    import duckdb

    from traceanalyzer.answers.shown import RunTable, ShownAnswer
    from traceanalyzer.attribution.replay.bounds import ScansOf
    from traceanalyzer.rules.diagnosis.explaining import Explanation
    from traceanalyzer.settings.settings import Settings, SettingsFile

_TRACES_SHOWN = """
SELECT
    trace, rank, format, framework, event_count,
    (SELECT count(*) FROM canonical.gpu_ops AS ops WHERE ops.trace_id = traces.trace_id) AS gpu_op_count,
    (SELECT max(step_count) FROM attribution.windows AS windows WHERE windows.trace_id = traces.trace_id) AS step_count
FROM canonical.traces
ORDER BY trace_id
"""


@dataclass(frozen=True, kw_only=True, repr=False)
class Run:
    """An open run: a DuckDB connection over its tables and metrics, and the traces behind them."""

    found: FoundRun  # what was asked for, and where it lies
    traces: tuple[StoredTrace, ...]
    derived: Path | None  # folder of the attribution tables
    reused: bool  # nothing was ingested: every table came from Parquet
    unreadable: tuple[TraceAnalyzerError, ...] = ()  # files of the run that are not among its traces, and why
    set_aside: tuple[TraceAnalyzerError, ...] = ()  # files and traces that are none of the run's ranks, and why
    captures: tuple[StoredTrace, ...] = ()  # of these, what shows how the run's graphs were captured
    ncu_tables: tuple[NcuTable, ...] = ()  # tables of Nsight Compute, beside the traces or as in `open_run`
    catalog: Future[None] | None = None  # the catalogue being written beside what the caller does
    kept: ExitStack | None = None  # what is removed when the run is closed

    @property
    def root(self) -> Path | Location:
        """What the run is called after: the one input, or the folder of several."""
        return self.found.root

    @property
    def store(self) -> Path:
        """The folder of the run's tables."""
        return self.found.opened_store.folder

    @property
    def shared_store(self) -> Location | None:
        """What `store` is a working copy of."""
        return self.found.location.shared

    @property
    def settings_file(self) -> SettingsFile:
        """The project's settings, for all that is asked without others."""
        return self.found.settings_file

    @property
    def name(self) -> str:
        """What the run is called: the last part of its place."""
        return self.root.name or (self.root.resolve().name if isinstance(self.root, Path) else str(self.root))

    @cached_property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """A DuckDB connection over every table and metric, made when it is first asked for."""
        return self._connect(self._project(None))

    def connected(self, readers: Sequence[str]) -> duckdb.DuckDBPyConnection:
        """Return a connection of its own for these queries, with what the project says of its hardware."""
        return self._connect(self._project(None), readers)

    def _connect(
        self, project: Settings, readers: Sequence[str] | None = None, *, shared_later: bool = False
    ) -> duckdb.DuckDBPyConnection:
        """Return a connection with what a project says of its hardware, checked."""
        from traceanalyzer.query import engine

        connection = engine.connect(
            self.traces,
            self.derived,
            readers=readers,
            replaced=project.hardware.queries(),
            ncu_tables=self.ncu_tables,
            captures=self.captures,
            shared_later=shared_later,
        )
        try:
            project.hardware.check(connection)
        except TraceAnalyzerError:
            connection.close()
            raise
        return connection

    def _project(self, settings: Settings | None) -> Settings:
        """Return the settings that were given, else the project's, with the device that the run was opened with."""
        project = self.settings_file.read() if settings is None else settings
        return replace(project, hardware=with_device(project.hardware, self.found.request.device))

    def sql(self, query: str) -> duckdb.DuckDBPyRelation:
        """Return the relation of a query over canonical tables, attribution and metrics.

        Raises TraceAnalyzerError for a query that is wrong, with the place in it and what DuckDB suggests.
        """
        import duckdb

        try:
            return self.connection.sql(query)
        except duckdb.Error as error:
            raise query_error(str(error)) from error

    def table(self, name: str) -> RunTable:
        """Return a table or metric by its name: `.arrow()`, `.df()` and `.pl()` have its rows.

        Raises TraceAnalyzerError for a name that is none.
        """
        from traceanalyzer.answers.shown import RunTable

        known = [row[0] for row in self.connection.execute("SHOW TABLES").fetchall()]
        if name not in known:
            hint = suggestion(name, known, "`run.sql('SHOW TABLES')` lists metrics and tables")
            raise TraceAnalyzerError(f"no metric or table is called {name!r}", "run.table", hint)
        return RunTable(name, self.connection.table(f'"{name}"'))

    def whatif(self, *removed: str, faster: Mapping[str, float] | None = None, at_roof: bool = False) -> ShownAnswer:
        """Return the step time without causes (`host.dataloader`), or with `faster` kernels ({"gemm": 2}).

        With `at_roof` each operator takes its floor: the least time that the device's data sheet allows. All changes
        apply together. Raises TraceAnalyzerError for a name that is no cause, and without any change.
        """
        from traceanalyzer.answers.shown import ShownAnswer
        from traceanalyzer.attribution.replay.what_if import Change, causes_named, parse_faster, what_if

        if not (removed or faster or at_roof):
            raise TraceAnalyzerError(
                "no change was given", "run.whatif", "for example run.whatif('host.dataloader', faster={'gemm': 2})"
            )
        causes = tuple(dict.fromkeys(removed))
        causes_named(causes)
        speedups = tuple(parse_faster(f"{what}={factor:g}x") for what, factor in (faster or {}).items())
        answer = what_if(self.connection, Change(causes, speedups, at_roof), self.scans_of())
        return ShownAnswer(answer, self.name)

    def scans_of(self) -> ScansOf | None:
        """Return what returns the scans of the run's devices where they are too many to be held."""
        from traceanalyzer.pipeline.attributing import scans_of_run

        if (derived := self.derived) is None:
            return None
        return scans_of_run(derived, self.found.request.executor, self.shared_store or self.store, derived.name)

    def to_html(self, path: str | Path) -> Path:
        """Diagnose the run, write the report as a page, and return the page's path."""
        return self.diagnose().to_html(path, self)

    def diagnose(
        self,
        rule_paths: Sequence[Path] = (),
        params: Mapping[str, int | float | str | bool] | None = None,
        settings: Settings | None = None,
        opening: DetailRanks | None = None,
    ) -> Diagnosis:
        """Return what limits the run: findings in the order of fixes, with evidence and bounded savings.

        `params` overrides parameters of rules, keyed `rule.param`, and wins over `settings`: those of `settings_file`,
        unless others are given. `opening` says of how many ranks, or which, evidence is quoted: 64 at most by default.
        """
        project = self._project(settings)
        store, opening = Store(self.store), opening or DetailRanks()
        tables = (self.root, self.traces, self.derived, self.ncu_tables, self.captures)
        question = diagnosis_key(tables, project, rule_paths, params or {}, opening)
        diagnosis = kept_diagnosis(store, question)
        if diagnosis is None:
            diagnosis = self._diagnose(project, rule_paths, params or {}, opening)
            keep_diagnosis(store, question, diagnosis)
        return replace(diagnosis, left_out=self.left_out)

    @cached_property
    def left_out(self) -> tuple[LeftOut, ...]:
        """The files of the run that are not among its traces: those set aside, then those that cannot be read."""
        root = str(self.root).rstrip("/") + "/"
        errors = (*self.set_aside, *self.unreadable)
        return tuple(LeftOut(str(error.where).removeprefix(root), error.what, error.hint) for error in errors)

    def _diagnose(
        self,
        project: Settings,
        rule_paths: Sequence[Path],
        params: Mapping[str, int | float | str | bool],
        opening: DetailRanks,
    ) -> Diagnosis:
        from traceanalyzer.query.engine import compute_shared
        from traceanalyzer.rules.diagnosis.diagnosing import diagnose
        from traceanalyzer.rules.evaluation.sandbox import readers
        from traceanalyzer.rules.rule_set.loading import load_rules

        rules = load_rules((*project.rule_paths, *rule_paths), tests=False)
        with self._connect(project, [*readers(rules), flops.QUERY], shared_later=True) as connection:
            diagnosis = diagnose(
                connection, rules, params, str(self.root), project=project, opening=opening, scans_of=self.scans_of()
            )
            event_count = sum(trace.event_count for trace in diagnosis.traces)
            diagnosis = replace(diagnosis, flops=tuple(flops.flops_uses_in(connection, event_count, compute_shared)))
        if (options := self.found.options).steps is not None:
            chosen = Override("steps", None, f"{options.steps_words} alone", None, None, "--step")
            diagnosis = replace(diagnosis, overrides=(chosen, *diagnosis.overrides))
        return replace(diagnosis, kernel_counters=self._counted(project)) if self.ncu_tables else diagnosis

    def _counted(self, project: Settings) -> KernelCounters:
        from traceanalyzer.answers.kernel_counters import QUERIES, kernel_counters_of

        with self._connect(project, QUERIES) as connection:
            return kernel_counters_of(connection)

    def explain(
        self, rule_id: str, rule_paths: Sequence[Path] = (), settings: Settings | None = None
    ) -> list[Explanation]:
        """Return how a rule comes to its verdict in every place: each condition with the values that it sees."""
        from traceanalyzer.rules.diagnosis.explaining import explain
        from traceanalyzer.rules.evaluation.sandbox import readers
        from traceanalyzer.rules.rule_set.loading import check_settings, load_rules, rule_called

        project = self._project(settings)
        rules = load_rules((*project.rule_paths, *rule_paths), tests=False)
        rule = rule_called(rule_id, rules)
        values = rule.values(check_settings(rules, project.params).get(rule.id))
        with self._connect(project, readers([rule])) as connection:
            return explain(connection, rule, values, self.scans_of())

    def export(self, folder: str | Path, names: Sequence[str] = (), layout: str = "parquet") -> dict[str, Path]:
        """Write metrics, all unless some are named, as Parquet or CSV files into a folder; return the file of each.

        Attribution that is not there yet is computed beside the metrics that can do without. Raises TraceAnalyzerError
        where the folder cannot be written.
        """
        from traceanalyzer.query.metric_files import export_metrics

        replaced = self._project(None).hardware.queries()
        return export_metrics(
            self.traces,
            self._attributed,
            Path(folder),
            names,
            layout,
            self.found.request.jobs,
            replaced,
            self.ncu_tables,
            self.captures,
        )

    def _attributed(self) -> Path:
        return self.derived or derived_of(self.found.with_names(), self.traces, self.captures)

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
        columns = ["trace", "rank", "format", "framework", "event_count", "gpu_op_count", "step_count"]
        rows = self.connection.execute(_TRACES_SHOWN).fetchall()
        return str(display("html.notebook.rows_html", f"run {self.root}", columns, rows, False))

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_run(
    path: str | Path | Location | Sequence[str | Path | Location],
    *,
    store: str | Path | Location | None = None,
    jobs: int | None = None,
    report: Callable[[Progress], None] = ignore,
    attribution: bool = True,
    options: AttributionOptions = DEFAULT_OPTIONS,
    with_settings: bool = True,
    trust: bool = False,
    device: str | None = None,
    ncu: str | Path | Sequence[str | Path] = (),
    catalog: bool = False,
    executor: Executor | None = None,
    from_store: bool = False,
) -> Run:
    """Open a trace file, a folder or an archive of traces, or several of these as one run, ingesting what is new.

    An input may be a pattern, such as `run42/*.json`, or a URL, such as `s3://bucket/run42/`, of which the store lies
    in the user's cache; `-` is standard input, of which nothing is left when the run is closed, unless `store` names a
    folder.

    Without `attribution`, the tables that are computed from all of a run are left for later, and so are the metrics
    that build on them; `options` say how they are computed, with the names in the project's settings unless they have
    some (none without `with_settings`); with `trust`, also of a traceanalyzer.toml in the run's own folder
    (docs/settings.md). `jobs` is the number of cores to use (all by default); `report` receives how far reading is.
    `device` is the model of the devices that no trace names, as NAME or NAME:SMS. `ncu` are tables of Nsight Compute
    (`ncu --csv`) that lie elsewhere; those beside the traces are read anyway. With `catalog` the store gets a DuckDB
    database of every table and metric as views, `catalog.duckdb`, which later runs renew. An `executor` has its
    processes read and attribute the traces, one task each, where the default is threads of this process; they must see
    run and store under the same paths. Of many ranks they also answer what a diagnosis asks of their scans, for which
    the executor has to be there as long as the run. A file of a folder that cannot be read at all is left out and
    listed in `Run.unreadable`, and one that is no rank of the run in `Run.set_aside`; `from_store` reads none, and
    leaves out what the store lacks. Raises TraceAnalyzerError where nothing can be read.
    """
    inputs = (path,) if isinstance(path, str | Path | Location) else tuple(path)
    request = RunRequest(
        inputs=inputs,
        store=store,
        jobs=jobs,
        report=report,
        attribution=attribution,
        options=options,
        with_settings=with_settings,
        trust=trust,
        device=device,
        ncu=(ncu,) if isinstance(ncu, str | Path) else tuple(ncu),
        catalog=catalog,
        executor=executor,
        from_store=from_store,
    )
    return open_requested(request)


def open_requested(request: RunRequest) -> Run:
    """Open a run as `open_run` does, from its arguments in one."""
    with ExitStack() as kept:
        found = find(request, kept)
        opened_store = found.opened_store
        opened_store.claim_shared()
        unreadable = list(found.sources.unreadable)
        ingested = ingest_all(found, unreadable)
        folders = [(item.source, item.folder) for item in ingested]
        traces, set_aside, captures = traces_of(opened_store, found.sources, folders)
        ncu_tables = ncu_tables_of(found.sources, folders)
        if not traces:
            raise unreadable[0] if unreadable else no_trace_beside(ncu_tables, found.root)
        reused = all(item.was_there for item in ingested)
        derived = derived_of(found, traces, captures) if request.attribution else None
        return Run(
            found=found,
            traces=tuple(traces),
            derived=derived,
            reused=reused,
            unreadable=tuple(unreadable),
            set_aside=(*found.sources.set_aside, *set_aside),
            captures=tuple(captures),
            ncu_tables=tuple(ncu_tables),
            catalog=renew_catalog(
                opened_store, traces, derived, reused, ncu_tables, captures, requested=request.catalog
            ),
            kept=kept.pop_all(),
        )
