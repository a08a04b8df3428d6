"""Stored tables are made again when anything that they are made from changes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from nsys_export import launched, write_sqlite
from trace_event_tables import events, slice_text

import traceanalyzer
from traceanalyzer.attribution import AttributionOptions
from traceanalyzer.run import open_run
from traceanalyzer.store import inputs
from traceanalyzer.store.inputs import DERIVED_SOURCES, TRACE_SOURCES, engine_files, engine_key

PACKAGE = Path(traceanalyzer.__file__).parent
KERNEL = '{"device": 0, "stream": 7, "correlation": 1}'

# Prints every file that Python or its modules open; what DuckDB opens itself are the traces' tables.
RECORDING = """
import os, sys
from pathlib import Path
opened = set()
sys.addaudithook(lambda event, values: opened.add(values[0]) if event == "open" else None)
"""
INGESTING = """
from traceanalyzer.discovery import discover
from traceanalyzer.ingest import IngestOptions
for number, (source, ingester) in enumerate(discover(Path(sys.argv[1])).sources):
    folder = Path(sys.argv[2], str(number))
    folder.mkdir()
    ingester.ingest(source, folder, IngestOptions())
"""
DERIVING = """
from traceanalyzer.attribution.tables import READS, attribute
from traceanalyzer.attribution import AttributionOptions
from traceanalyzer.query import engine
from traceanalyzer.query.canonical import FewTracesConnections
parts = sorted(path.parent for path in Path(sys.argv[2]).rglob("traces.parquet"))
traces = [engine.StoredTrace(part, part.name, part, rank, "name") for rank, part in enumerate(parts)]
connections = FewTracesConnections(dict(enumerate(traces)), READS)
def attributed(matched):
    for number in matched.trace_ids:
        with connections.holding([number]) as own:
            yield attribute(own, number, AttributionOptions(), matched.waits)
with engine.connect_canonical(traces) as connection:
    engine.compute_derived(connection, None, None, attributed)
"""
REPORTING = """
print(*(os.fspath(path) for path in opened if isinstance(path, (str, os.PathLike))), sep="\\n")
"""


def opened_by(code: str, *arguments: Path, no_bytecode: Path) -> set[Path]:
    """Run code in a new process, and return the files of the package that it opened."""
    command = [sys.executable, "-B", "-X", f"pycache_prefix={no_bytecode}", "-c", RECORDING + code + REPORTING]
    answer = subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, check=True)
    return {path for line in answer.stdout.splitlines() if (path := Path(line)).is_relative_to(PACKAGE)}


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    kernels = (slice_text(f"k{i}", ts=10 * i, cat='"kernel"', args=KERNEL) for i in range(3))
    (folder / "rank0.json").write_text(events(*kernels))
    write_sqlite(folder / "rank1.sqlite", launched())
    return folder


@pytest.mark.check
def test_the_keys_cover_every_file_that_ingesting_and_deriving_read(run_folder: Path, tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    tables.mkdir()
    ingesting = opened_by(INGESTING, run_folder, tables, no_bytecode=tmp_path / "none")
    deriving = opened_by(DERIVING, run_folder, tables, no_bytecode=tmp_path / "none")
    assert PACKAGE / "discovery" / "finding.py" in ingesting
    assert PACKAGE / "metrics" / "kernels" / "kernel_class_patterns.sql" in deriving
    assert ingesting - {PACKAGE / name for name in engine_files(TRACE_SOURCES)} == set()
    assert deriving - {PACKAGE / name for name in engine_files(DERIVED_SOURCES)} == set()


def test_every_part_of_a_key_has_files() -> None:
    for part in DERIVED_SOURCES:
        assert engine_files([part]), part


def test_a_class_of_kernels_with_another_name_is_another_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "package" / "metrics" / "kernels"
    folder.mkdir(parents=True)
    monkeypatch.setattr("traceanalyzer.store.inputs._PACKAGE", tmp_path / "package")
    keys = set()
    for name in ("matmul", "gemm"):
        (folder / "kernel_class_patterns.sql").write_text(f"SELECT '{name}' AS class")
        for remembered in (engine_key, inputs._code, inputs._code_digest):
            remembered.cache_clear()
        keys.add(engine_key(DERIVED_SOURCES))
    engine_key.cache_clear()
    assert len(keys) == 2


@pytest.mark.check
def test_a_rank_that_a_folder_was_renamed_to_is_not_served_from_the_old_tables(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "rank0").mkdir(parents=True)
    kernels = (slice_text(f"k{i}", ts=10 * i, cat='"kernel"', args=KERNEL) for i in range(3))
    (run / "rank0" / "trace.json").write_text(events(*kernels))
    options = AttributionOptions(names=())
    with open_run(run, options=options) as opened:
        before = opened.derived
    (run / "rank0").rename(run / "rank5")
    with open_run(run, options=options) as opened:
        assert [trace.rank for trace in opened.traces] == [5]
        assert opened.derived != before
