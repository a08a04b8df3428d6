"""A run's store: reused while nothing changed, rebuilt when something did, whole at any moment."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from trace_event_tables import events, slice_text

import traceanalyzer
from traceanalyzer.cli import main
from traceanalyzer.commands.comparing import load_summaries
from traceanalyzer.commands.run_options import RunOptions
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.pipeline import RunRequest
from traceanalyzer.pipeline.finding import STORE_NAME, locate_store
from traceanalyzer.schema import trace_tables
from traceanalyzer.store.inputs import digest_of
from traceanalyzer.store.owner import MARK_NAME, PARTS
from traceanalyzer.store.store import Store
from traceanalyzer.store.writing import is_sealed

KERNEL = '{"device": 0, "stream": 7, "correlation": 1}'


def trace(kernels: int = 3) -> str:
    return events(*(slice_text(f"k{i}", ts=10 * i, cat='"kernel"', args=KERNEL) for i in range(kernels)))


def op_count(path: Path, store: Path | None = None, *, catalog: bool = False) -> tuple[int, bool]:
    """Open a run and return its number of GPU operations and whether it came from the store."""
    with traceanalyzer.open_run(path, store=store, catalog=catalog) as run:
        return run.sql("SELECT count(*) FROM gpu_ops").fetchall()[0][0], run.reused


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "rank0.json").write_text(trace())
    return folder


@pytest.mark.check
def test_a_second_command_reads_parquet_only(run_folder: Path) -> None:
    assert op_count(run_folder) == (3, False)
    assert op_count(run_folder) == (3, True)


@pytest.mark.check
def test_a_table_without_rows_has_no_file_and_all_its_columns(run_folder: Path) -> None:
    with traceanalyzer.open_run(run_folder, catalog=True) as run:
        (stored,) = run.traces
        tables = {file.stem.partition("-")[0] for file in stored.folder.glob("*.parquet")}
        for name, table in trace_tables().items():
            answer = run.sql(f"FROM canonical.{name}")
            assert answer.columns == [column.name for column in table.columns], name
            assert (name in tables) == bool(answer.fetchall()), name
    assert {"traces", "gpu_ops"} <= tables < trace_tables().keys()
    with duckdb.connect(run_folder / STORE_NAME / "catalog.duckdb", read_only=True) as catalog:
        assert catalog.sql("FROM canonical.syncs").columns == [
            column.name for column in trace_tables()["syncs"].columns
        ]


@pytest.mark.check
def test_a_table_that_is_gone_from_the_store_is_no_table_without_rows(run_folder: Path) -> None:
    with traceanalyzer.open_run(run_folder) as run:
        (file,) = run.traces[0].folder.glob("gpu_ops*.parquet")
    file.unlink()
    assert op_count(run_folder) == (3, False)


@pytest.mark.check
@pytest.mark.parametrize(
    "name",
    [
        "s3:",
        *(
            pytest.param(name, marks=pytest.mark.check)
            for name in ("a?b=1", "runs:1", "memory:", "a*[b]", "{a,b}", "it's", "a%41;b#c")
        ),
    ],
)
def test_the_name_of_a_folder_is_no_url_no_pattern_and_no_parameter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / f"cache {name}"))
    Path(name).mkdir()
    (Path(name) / "rank0.json").write_text(trace())
    assert op_count(Path(name), catalog=True) == (3, False)
    assert op_count(Path(name)) == (3, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, f"cache {name}"])


@pytest.mark.check
def test_a_changed_file_is_read_again_and_its_old_tables_go(run_folder: Path) -> None:
    op_count(run_folder)
    (run_folder / "rank0.json").write_text(trace(5))
    assert op_count(run_folder) == (5, False)
    assert len(list((run_folder / STORE_NAME / "traces").iterdir())) == 1
    assert len(list((run_folder / STORE_NAME / "derived").iterdir())) == 1


@pytest.mark.check
def test_a_file_of_the_same_size_and_time_with_other_content_is_read_again(run_folder: Path) -> None:
    op_count(run_folder)
    file = run_folder / "rank0.json"
    state = file.stat()
    file.write_text(file.read_text().replace('"kernel"', '"cpu_op"'))
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert op_count(run_folder) == (0, False)


@pytest.mark.check
def test_a_touched_file_with_the_same_content_is_not_read_again(run_folder: Path) -> None:
    op_count(run_folder)
    os.utime(run_folder / "rank0.json")
    assert op_count(run_folder) == (3, True)


@pytest.mark.check
def test_a_file_that_joins_the_run_is_read_alone(run_folder: Path) -> None:
    op_count(run_folder)
    (run_folder / "rank1.json").write_text(trace(4))
    assert op_count(run_folder) == (7, False)
    assert op_count(run_folder) == (7, True)


@pytest.mark.check
def test_another_engine_reads_again(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    op_count(run_folder)
    monkeypatch.setattr("traceanalyzer.store.store.engine_key", lambda parts: "another engine")
    assert op_count(run_folder) == (3, False)


@pytest.mark.check
def test_inputs_are_never_written_to(run_folder: Path) -> None:
    file = run_folder / "rank0.json"
    before = file.read_bytes(), file.stat().st_mtime_ns
    op_count(run_folder)
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before


@pytest.mark.check
def test_the_store_lies_where_it_is_told(run_folder: Path, tmp_path: Path) -> None:
    assert op_count(run_folder, tmp_path / "elsewhere")[0] == 3
    assert not (run_folder / STORE_NAME).exists()


@pytest.mark.check
def test_a_folder_that_cannot_be_written_uses_the_cache(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A file where the store would be: root, who runs these tests in containers, may write anywhere else.
    (run_folder / STORE_NAME).write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert op_count(run_folder) == (3, False)
    assert op_count(run_folder) == (3, True)
    assert list((tmp_path / "cache" / "traceanalyzer").iterdir())


def test_a_store_that_cannot_be_written_is_one_sentence(run_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TraceAnalyzerError, match="the store is a link, a file or"):
        op_count(run_folder, tmp_path / "file")
    with pytest.raises(TraceAnalyzerError, match="the store cannot be written"):
        op_count(run_folder, tmp_path / "file" / "below")


@pytest.mark.check
def test_the_catalogue_opens_in_any_duckdb_with_comments(run_folder: Path) -> None:
    op_count(run_folder)
    assert not (run_folder / STORE_NAME / "catalog.duckdb").exists()
    op_count(run_folder, catalog=True)
    with duckdb.connect(str(run_folder / STORE_NAME / "catalog.duckdb"), read_only=True) as catalog:
        assert catalog.sql("SELECT kernel_count FROM device_time").fetchall() == [(3,)]
        assert catalog.sql("SELECT count(*) FROM host_slices").fetchall() == [(0,)]
        comments = dict(catalog.sql("SELECT view_name, comment FROM duckdb_views() WHERE NOT internal").fetchall())
        assert comments["device_time"].startswith("One row per trace and device")
        columns = catalog.sql(
            "SELECT column_name, comment FROM duckdb_columns() "
            "WHERE table_name = 'device_time' AND schema_name = 'main'"
        )
        assert all(comment for _, comment in columns.fetchall())


@pytest.mark.check
def test_a_moved_run_is_read_again_into_the_cache(run_folder: Path, tmp_path: Path) -> None:
    op_count(run_folder)
    moved = run_folder.rename(tmp_path / "moved")
    assert op_count(moved) == (3, False)
    assert op_count(moved) == (3, True)
    with traceanalyzer.open_run(moved, catalog=True) as run:
        assert run.found.location.ignored == moved / STORE_NAME
    with duckdb.connect(str(run.store / "catalog.duckdb"), read_only=True) as catalog:
        assert catalog.sql("SELECT count(*) FROM gpu_ops").fetchall() == [(3,)]


def _open_in_a_loop(folder: str) -> None:
    while True:
        for stored in (Path(folder) / STORE_NAME / "sources").glob("*.json"):
            stored.unlink()
        op_count(Path(folder))


@pytest.mark.check
def test_a_command_killed_at_any_moment_leaves_the_next_one_working(run_folder: Path) -> None:
    (run_folder / "rank0.json").write_text(trace(2000))
    context = multiprocessing.get_context("spawn")
    for delay_s in (0.9, 1.2, 1.5):
        process = context.Process(target=_open_in_a_loop, args=(str(run_folder),))
        process.start()
        time.sleep(delay_s)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert op_count(run_folder)[0] == 2000


def _open_once(folder: str, answers: multiprocessing.Queue[int]) -> None:
    answers.put(op_count(Path(folder))[0])


@pytest.mark.check
def test_two_commands_at_once_on_one_run_both_work(run_folder: Path) -> None:
    (run_folder / "rank0.json").write_text(trace(2000))
    context = multiprocessing.get_context("spawn")
    answers: multiprocessing.Queue[int] = context.Queue()
    processes = [context.Process(target=_open_once, args=(str(run_folder), answers)) for _ in range(3)]
    for process in processes:
        process.start()
    assert [answers.get(timeout=60) for _ in processes] == [2000] * 3
    for process in processes:
        process.join()
    assert len(list((run_folder / STORE_NAME / "traces").iterdir())) == 1
    assert list((run_folder / STORE_NAME / "scratch").iterdir()) == []


@pytest.mark.check
def test_what_another_command_removes_from_the_scratch_folder_meanwhile_is_no_error(run_folder: Path) -> None:
    op_count(run_folder)
    scratch = run_folder / STORE_NAME / "scratch"
    (scratch / "write-gone").symlink_to(scratch / "removed")
    (run_folder / "rank0.json").write_text(trace(4))
    assert op_count(run_folder) == (4, False)


@pytest.mark.check
def test_remembered_sources_hold_no_content(run_folder: Path) -> None:
    op_count(run_folder)
    (source,) = (run_folder / STORE_NAME / "sources").iterdir()
    assert json.loads(source.read_text()).keys() == {"path", "stamp", "digest", "folder"}


@pytest.mark.check
def test_ingest_alone_leaves_a_catalogue_and_the_next_command_completes_it(run_folder: Path) -> None:
    def catalogued() -> set[str]:
        with duckdb.connect(str(run_folder / STORE_NAME / "catalog.duckdb"), read_only=True) as catalog:
            return {
                name for (name,) in catalog.sql("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
            }

    with traceanalyzer.open_run(run_folder, attribution=False, catalog=True) as run:
        assert run.sql("SELECT kernel_count FROM device_time").fetchall() == [(3,)]
    assert "device_time" in catalogued()
    assert "time_ledger" not in catalogued()
    op_count(run_folder)
    assert {"device_time", "time_ledger"} <= catalogued()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(locate_store(tmp_path, tmp_path / "store").folder)


def copy_into(source: Path) -> Callable[[Path], None]:
    """Return what ingests a file by copying it."""

    def copy(folder: Path) -> None:
        (folder / "copy").write_bytes(source.read_bytes())

    return copy


def copied(store: Store, source: Path) -> str:
    return (store.trace_folder(source, copy_into(source))[0] / "copy").read_text()


def test_a_file_written_after_it_was_read_is_read_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "trace.json"
    source.write_text("old")
    publish = Store._publish

    def published_and_rewritten(store: Store, scratch: Path, target: Path) -> None:
        publish(store, scratch, target)
        source.write_text("written after it was read")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "_publish", published_and_rewritten)
        copied(store, source)
    assert copied(store, source) == "written after it was read"


def test_a_stored_file_written_after_it_was_compared_is_read_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "trace.json"
    source.write_text("old")
    copied(store, source)
    os.utime(source)

    def rewritten_meanwhile(folder: Path, key: bytes) -> bool:
        source.write_text("written after it was compared")
        return is_sealed(folder, key)

    with monkeypatch.context() as patch:
        patch.setattr("traceanalyzer.store.writing.is_sealed", rewritten_meanwhile)
        assert copied(store, source) == "old"
    assert copied(store, source) == "written after it was compared"


def test_a_file_that_changes_while_it_is_compared_is_an_error(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "trace.json"
    source.write_text("old")
    copied(store, source)

    def compared_and_rewritten(path: Path) -> str:
        found = digest_of(path)
        source.write_text("written while it was compared")
        return found

    with monkeypatch.context() as patch:
        patch.setattr("traceanalyzer.store.store.digest_of", compared_and_rewritten)
        for text in ("old", "newer"):  # what the store holds, and what it does not
            source.write_text(text)
            os.utime(source)
            with pytest.raises(TraceAnalyzerError, match="changed while it was read"):
                copied(store, source)
    assert copied(store, source) == "written while it was compared"


def test_a_file_that_changes_while_it_is_ingested_is_an_error(store: Store, tmp_path: Path) -> None:
    source = tmp_path / "trace.json"
    source.write_text("old")

    def ingested_and_rewritten(folder: Path) -> None:
        copy_into(source)(folder)
        source.write_text("written while it was ingested")

    with pytest.raises(TraceAnalyzerError, match="changed while it was read"):
        store.trace_folder(source, ingested_and_rewritten)
    assert copied(store, source) == "written while it was ingested"


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
import duckdb, pyarrow.parquet
import traceanalyzer.attribution, traceanalyzer.run, traceanalyzer.commands.store
from traceanalyzer.cli import main
from traceanalyzer.commands.comparing import load_summaries

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
sys.exit(main(["info", sys.argv[2], "--store", sys.argv[3]]))
"""


@pytest.mark.check
@pytest.mark.parametrize("size_bytes", [300, 2_500, 40_000])
def test_a_full_disk_names_the_store_and_leaves_nothing_behind(
    run_folder: Path, tmp_path: Path, size_bytes: int
) -> None:
    (run_folder / "rank0.json").write_text(trace(2000))
    store = tmp_path / "small disk"
    command = [sys.executable, "-c", FULL_DISK, str(size_bytes), str(run_folder), str(store)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 2, answer.stderr
    assert f"error: {store}: the store cannot be written: File too large" in answer.stderr
    assert "--store DIR" in answer.stderr
    assert list((store / "scratch").iterdir()) == []


@pytest.mark.check
def test_wherever_a_write_of_duckdb_or_arrow_fails_nothing_is_left_and_the_next_run_is_whole(
    run_folder: Path, tmp_path: Path
) -> None:
    (run_folder / "rank0.json").write_text(trace(2000))
    whole = tmp_path / "whole"
    assert main(["info", str(run_folder), "--store", str(whole)]) == 0
    largest = max(path.stat().st_size for path in whole.rglob("*") if path.is_file())
    sizes = [*sorted({round(largest ** (step / 24)) for step in range(25)}), 2**26]
    answers = []
    for size_bytes in sizes:
        store = tmp_path / str(size_bytes)
        command = [sys.executable, "-c", FULL_DISK, str(size_bytes), str(run_folder), str(store)]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        answers.append(answer.returncode)
        assert "Traceback" not in answer.stderr
        assert answer.returncode == 0 or answer.stderr.startswith(f"error: {store}"), answer.stderr
        assert not (store / "scratch").exists() or list((store / "scratch").iterdir()) == []
        assert main(["info", str(run_folder), "--store", str(store)]) == 0
        assert contents_of(store) == contents_of(whole)
    assert set(answers[:-1]) == {2} and answers[-1] == 0


def contents_of(store: Path) -> dict[str, bytes]:
    """Return the tables of a store by their paths."""
    return {str(path.relative_to(store)): path.read_bytes() for path in sorted(store.rglob("*.parquet"))}


@pytest.mark.check
def test_a_full_disk_leaves_no_trace_out(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (run_folder / "rank1.json").write_text(trace(4))
    publish = Store._publish

    def full_for_one(store: Store, scratch: Path, target: Path) -> None:
        if target.name.startswith("rank1"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        publish(store, scratch, target)

    monkeypatch.setattr(Store, "_publish", full_for_one)
    with pytest.raises(TraceAnalyzerError, match="the store cannot be written: No space left on device"):
        op_count(run_folder)


@pytest.mark.check
def test_the_store_of_a_comparison_serves_a_single_run_too(run_folder: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    opening = RunOptions(RunRequest(inputs=(), store=store, jobs=1, with_settings=False), quiet=True)
    load_summaries([run_folder], opening)
    assert op_count(run_folder, store) == (3, False)
    # Earlier versions left the folder above the runs' stores without a mark.
    (store / MARK_NAME).unlink()
    for part in PARTS:
        shutil.rmtree(store / part, ignore_errors=True)
    assert op_count(run_folder, store) == (3, False)


@pytest.mark.check
def test_the_store_of_a_summary_serves_a_single_run_too(run_folder: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert main(["baseline", "write", str(tmp_path / "base.json"), str(run_folder), "--store", str(store)]) == 0
    assert op_count(run_folder, store) == (3, False)


def test_the_store_of_a_comparison_is_never_a_folder_with_other_files(run_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "store" / "own").mkdir(parents=True)
    opening = RunOptions(RunRequest(inputs=(), store=tmp_path / "store", jobs=1, with_settings=False), quiet=True)
    with pytest.raises(TraceAnalyzerError, match="did not write"):
        load_summaries([run_folder], opening)
    assert [path.name for path in (tmp_path / "store").iterdir()] == ["own"]
