"""Metrics as files: all that `sql` gives, computed once each and at once, with the attribution that some need."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from traceanalyzer.cli import main
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.query import engine
from traceanalyzer.run import open_run

SAMPLE = "sample_traces/slow_loader"


def rows_of(file: Path) -> list[tuple[object, ...]]:
    """Return a file's rows as text, in an order of their own."""
    with duckdb.connect() as connection:
        return connection.execute(
            "SELECT COLUMNS(*)::VARCHAR FROM query_table([$1]) ORDER BY ALL", [str(file)]
        ).fetchall()


@pytest.mark.check
def test_files_hold_what_the_metrics_return(root: Path, tmp_path: Path) -> None:
    with open_run(root / SAMPLE, store=tmp_path / "store", attribution=False) as run:
        files = run.export(tmp_path / "metrics")
    assert sorted(files) == sorted(engine.metrics())
    assert sorted((tmp_path / "metrics").iterdir()) == sorted(files.values())
    with open_run(root / SAMPLE, store=tmp_path / "store") as run:
        for name, file in files.items():
            asked = run.sql(f"SELECT COLUMNS(*)::VARCHAR FROM {name} ORDER BY ALL").fetchall()
            assert rows_of(file) == asked, name
        filled = [name for name, file in files.items() if rows_of(file)]
    assert {"device_time", "time_ledger", "kernel_class", "cause_savings"} <= set(filled)


@pytest.mark.check
def test_attribution_that_is_there_is_taken(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_run(root / SAMPLE, store=tmp_path / "store") as run:
        monkeypatch.setattr(engine, "compute_derived", None)
        (file,) = run.export(tmp_path, ["time_ledger"]).values()
    assert rows_of(file)


@pytest.mark.check
def test_attribution_is_not_computed_for_metrics_that_do_without(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "compute_derived", None)
    with open_run(root / SAMPLE, store=tmp_path / "store", attribution=False) as run:
        (file,) = run.export(tmp_path, ["comm_share"]).values()
    assert rows_of(file)


@pytest.mark.check
def test_one_core_is_enough(root: Path, tmp_path: Path) -> None:
    with open_run(root / SAMPLE, store=tmp_path / "store", jobs=1, attribution=False) as run:
        assert len(run.export(tmp_path / "metrics")) == len(engine.metrics())


@pytest.mark.check
def test_named_metrics_are_written_as_csv(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "csv"
    arguments = ["metrics", "export", str(root / SAMPLE), str(folder), "device_time", "comm_share"]
    assert main([*arguments, "--format", "csv", "--store", str(tmp_path / "store")]) == 0
    assert sorted(file.name for file in folder.iterdir()) == ["comm_share.csv", "device_time.csv"]
    assert capsys.readouterr().out.startswith("2 metrics, ")
    assert (folder / "device_time.csv").read_text().startswith("trace,rank,device,op_count,")


@pytest.mark.parametrize(
    ("name", "told"),
    [("device_tim", "did you mean 'device_time'?"), ("gpu_ops", 'sql RUN "FROM gpu_ops" --format parquet')],
)
def test_a_name_that_no_metric_has_is_told(
    name: str, told: str, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["metrics", "export", str(root / SAMPLE), str(tmp_path / "out"), name]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_metric_in_the_place_of_the_folder_is_told(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["metrics", "export", str(root / SAMPLE), "steps"]) == 2
    assert "metrics export RUN FOLDER steps" in capsys.readouterr().err
    assert not (tmp_path / "steps").exists()


@pytest.mark.check
def test_a_folder_that_cannot_be_written_is_told_and_nothing_is_left(root: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with open_run(root / SAMPLE, store=tmp_path / "store", attribution=False) as run:
        with pytest.raises(TraceAnalyzerError, match="metrics cannot be written"):
            run.export(tmp_path / "file")
        (tmp_path / "out" / "device_time.parquet").mkdir(parents=True)
        with pytest.raises(TraceAnalyzerError, match="metrics cannot be written"):
            run.export(tmp_path / "out", ["device_time"])
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["device_time.parquet"]
    assert (tmp_path / "file").read_text() == "mine"
