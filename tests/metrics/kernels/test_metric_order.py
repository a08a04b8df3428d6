"""Metrics are defined in the order in which they read each other; what cannot be defined is an error, never absent."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from traceanalyzer import metrics
from traceanalyzer.cli import main
from traceanalyzer.metrics import load_metrics, metrics_in_order, sources_in
from traceanalyzer.query import empty, engine
from traceanalyzer.rules.evaluation import sandbox
from traceanalyzer.rules.evaluation.sandbox import RuleLimitError
from traceanalyzer.run import open_run

SAMPLE = "sample_traces/slow_loader"
HEADER = "-- One row per thing.\n--\n-- columns:\n--   start_ns BIGINT start\n"


def metric_files(folder: Path, **queries: str) -> Path:
    """Write metrics with the same header and these queries."""
    for name, query in queries.items():
        (folder / f"{name}.sql").write_text(HEADER + query)
    return folder


def test_every_metric_comes_after_those_that_it_reads() -> None:
    order = list(metrics_in_order())
    for at, metric in enumerate(metrics_in_order().values()):
        assert metric.reads <= set(order[:at]), metric.name


def test_a_metric_reads_relations_and_the_arguments_of_macros_but_not_its_own_query_parts() -> None:
    sql = """
    WITH steps AS MATERIALIZED (
        SELECT name FROM attribution.steps  -- not FROM launches
    ),
    spans AS (FROM interval_subtract('kernel_gaps', 'spans') ANTI JOIN canonical.threads USING (trace_id))
    SELECT * FROM steps SEMI JOIN spans ON steps.name IS DISTINCT FROM spans.name JOIN copies USING (name)
    """
    assert sources_in(sql) == ["attribution.steps", "kernel_gaps", "canonical.threads", "copies"]


def test_a_metric_that_two_others_read_is_computed_once() -> None:
    assert "operator_arguments" in metrics_in_order()["memory_rates"].reads
    alone = engine.shared_metrics(["memory_rates"])
    both = engine.shared_metrics(["memory_rates", "operator_costs"])
    assert ("operator_arguments" in alone, "operator_arguments" in both) == (False, True)
    assert both.index("operator_models") < both.index("operator_arguments")
    # A table reads others once, however often it is read.
    assert "memory_rates" in (twice := engine.shared_metrics(["memory_rates"] * 2))
    assert "operator_arguments" not in twice


def test_what_a_computed_metric_reads_is_not_computed_for_those_that_read_the_metric() -> None:
    """`diagnose` modelled every call twice: for its rules, and for the FLOPs, which read what the rules had made."""
    with engine.connect_empty() as connection:
        engine.compute_once(connection, "operator_floors")
        engine.compute_shared(connection, "flops_utilisation")
        views = empty.metric_views(connection)
    assert {"operator_costs", "device_peaks", "operator_arguments"} <= views
    alone = engine.shared_metrics(["flops_utilisation"])
    assert set(engine.shared_metrics(["flops_utilisation"], {"operator_floors"})) < set(alone)
    assert "operator_costs" not in alone


_COUNTED_WHERE = re.compile(r"count\(\*\)\s+FILTER\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\s*OVER")


def test_no_window_counts_with_a_filter() -> None:
    """DuckDB 2.0 takes 0.7 s for 46,000 rows of count(*) FILTER (WHERE …) OVER (…), and 0.02 s for count_if(…)."""
    assert _COUNTED_WHERE.search("count(*) FILTER (WHERE a > (b)) OVER (ORDER BY a)")
    files = [
        file
        for folder in ("traceanalyzer", "rules")
        for file in Path(folder).rglob("*.*")
        if file.suffix in (".sql", ".yaml")
    ]
    assert len(files) > 200
    assert [str(file) for file in files if _COUNTED_WHERE.search(file.read_text(encoding="utf-8"))] == []


def test_metrics_that_read_attribution_through_others_need_it(tmp_path: Path) -> None:
    loaded = load_metrics(
        metric_files(
            tmp_path,
            above="SELECT start_ns FROM middle",
            middle="SELECT start_ns FROM steps",
            steps="SELECT start_ns FROM attribution.steps",
            beside="SELECT start_ns FROM canonical.gpu_ops",
        )
    )
    assert list(loaded) == ["beside", "steps", "middle", "above"]
    assert [name for name, metric in loaded.items() if metric.needs_attribution] == ["steps", "middle", "above"]


def test_metrics_that_read_each_other_are_an_error(tmp_path: Path) -> None:
    folder = metric_files(tmp_path, one="SELECT start_ns FROM two", two="SELECT start_ns FROM one")
    with pytest.raises(ValueError, match=r"these read each other: (one, two, one|two, one, two)"):
        load_metrics(folder)


def test_kept_metrics_are_those_of_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    loaded = load_metrics(Path(metrics.__file__).parent)
    for kept in (metrics.kept_metrics(), metrics.kept_metrics()):
        assert kept is not None
        assert list(kept.items()) == list(loaded.items())
    assert [file.suffix for file in (tmp_path / "traceanalyzer").iterdir()] == [".msgpack"]


def test_what_a_metric_reads_is_among_its_words() -> None:
    for metric in metrics_in_order().values():
        assert metric.reads <= metric.words
        assert {source.rpartition(".")[2] for source in sources_in(metric.sql)} <= metric.words


@pytest.fixture
def misspelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Metrics of which one names a column that its table lacks."""
    (tmp_path / "metrics").mkdir()
    folder = metric_files(
        tmp_path / "metrics", sound="SELECT start_ns FROM gpu_ops", wrong="SELECT strat_ns AS start_ns FROM gpu_ops"
    )
    (source,) = Path(metrics.__file__).parent.rglob("recordings.sql")  # matching collectives reads it
    shutil.copy(source, folder)
    monkeypatch.setattr(metrics, "load_metrics", lambda _: load_metrics(folder))
    monkeypatch.setattr(metrics, "kept_metrics", lambda: None)
    monkeypatch.setattr(empty, "_kept_database", lambda: None)
    forget_metrics()
    yield
    forget_metrics()  # what the test read is not for those after it


def forget_metrics() -> None:
    metrics.metrics_in_order.cache_clear()
    metrics.metrics.cache_clear()


@pytest.mark.check
@pytest.mark.usefixtures("misspelled")
@pytest.mark.parametrize("attribution", [True, False])
def test_a_metric_that_does_not_bind_is_an_error_with_its_name(root: Path, tmp_path: Path, attribution: bool) -> None:
    with (
        pytest.raises(ValueError, match=r'metric wrong: Binder Error: .*"strat_ns"'),
        open_run(root / SAMPLE, store=tmp_path / "store", attribution=attribution) as run,
    ):
        run.sql("FROM sound")


@pytest.mark.check
@pytest.mark.usefixtures("misspelled")
def test_the_command_line_names_a_metric_that_does_not_bind(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sql", str(root / SAMPLE), "FROM sound", "--store", str(tmp_path / "store")]) == 2
    assert 'internal error: ValueError: metric wrong: Binder Error: Referenced column "strat_ns"' in (
        capsys.readouterr().err
    )


def test_a_metric_that_takes_too_long_is_named_by_all_that_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "METRIC_LIMIT_S", 0.2)
    with engine.connect_empty() as connection:
        endless = "SELECT sum(a.range + b.range) AS x FROM range(10_000_000) AS a, range(10_000_000) AS b"
        engine.define_metric(connection, "kernel_summary", "VIEW", {"kernel_summary": endless})
        engine.compute_once(connection, "kernel_summary")
        with pytest.raises(duckdb.Error, match=r"kernel_summary was not computed, as it takes longer than 0.2 s"):
            connection.execute("SELECT count(*) FROM kernel_summary").fetchall()
        with pytest.raises(RuleLimitError, match=r"the metric kernel_summary was not computed"):
            sandbox.query(connection, "SELECT name FROM kernel_summary", {})
