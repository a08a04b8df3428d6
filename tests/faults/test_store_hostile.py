"""A store planted in a run's folder can neither claim anything nor make a command write or delete elsewhere."""

from __future__ import annotations

import errno
import fcntl
import json
import multiprocessing
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from trace_event_tables import events, slice_text

import traceanalyzer
from traceanalyzer.cli import main
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.pipeline.finding import STORE_NAME, locate_store
from traceanalyzer.store.owner import MARK_NAME, PARTS, user_key
from traceanalyzer.store.store import Store
from traceanalyzer.store.writing import held

KERNEL = '{"device": 0, "stream": 7, "correlation": 1}'
LONG_AGO_S = time.time() - 10 * 86_400


def trace(kernels: int) -> str:
    return events(*(slice_text(f"k{i}", ts=10 * i, cat='"kernel"', args=KERNEL) for i in range(kernels)))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user who has never used the program."""
    for variable in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / "home" / variable))
    return tmp_path / "home"


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "rank0.json").write_text(trace(3))
    return folder


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder elsewhere, with all that a store might be taken for, long untouched."""
    folder = tmp_path / "victim"
    for part in ("", *PARTS, "old"):
        (folder / part).mkdir(exist_ok=True)
        (folder / part / "precious.txt").write_text("precious")
    (folder / "record.json").write_text("{}")
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (LONG_AGO_S, LONG_AGO_S))
    return folder


def state(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return all that can be changed in a folder: modes, times and content."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            path.lstat().st_mtime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in (folder, *folder.rglob("*"))
    }


def op_count(run: Path, store: Path | None = None, *, attribution: bool = False) -> tuple[int, bool]:
    """Open a run and return its number of GPU operations and whether it came from the store."""
    with traceanalyzer.open_run(run, store=store, attribution=attribution, catalog=True) as opened:
        return opened.sql("SELECT count(*) FROM gpu_ops").fetchall()[0][0], opened.reused


def record(folder: str) -> str:
    return json.dumps({"path": "", "stamp": [0], "digest": "0", "folder": folder})


def plant_root_link(store: Path, victim: Path) -> None:
    shutil.rmtree(store, ignore_errors=True)
    store.symlink_to(victim)


def plant_part_links(store: Path, victim: Path) -> None:
    store.mkdir(exist_ok=True)
    for part in PARTS:
        shutil.rmtree(store / part, ignore_errors=True)
        (store / part).symlink_to(victim / part)


def plant_scratch_link(store: Path, victim: Path) -> None:
    store.mkdir(exist_ok=True)
    shutil.rmtree(store / "scratch", ignore_errors=True)
    (store / "scratch").symlink_to(victim)


def plant_answers_link(store: Path, victim: Path) -> None:
    store.mkdir(exist_ok=True)
    shutil.rmtree(store / "answers", ignore_errors=True)
    (store / "answers").symlink_to(victim)


def plant_many_answers(store: Path, victim: Path) -> None:
    (store / "answers").mkdir(parents=True, exist_ok=True)
    for number in range(40):
        (store / "answers" / f"{number:016x}.txt").symlink_to(victim / "precious.txt")


def plant_entry_links(store: Path, victim: Path) -> None:
    for part in PARTS:
        (store / part).mkdir(parents=True, exist_ok=True)
        for entry in (store / part).iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
            entry.symlink_to(victim / "old" if part != "sources" else victim / "record.json")
    for name in ("gone", "write-abcdefgh"):
        (store / "scratch" / name).symlink_to(victim)
    os.utime(store / "scratch" / name, (LONG_AGO_S, LONG_AGO_S), follow_symlinks=False)


def plant_file_links(store: Path, victim: Path) -> None:
    store.mkdir(exist_ok=True)
    for name in ("catalog.duckdb", "catalog.txt"):
        (store / name).unlink(missing_ok=True)
        (store / name).symlink_to(victim / "precious.txt")


def plant_traversing_records(store: Path, victim: Path) -> None:
    (store / "sources").mkdir(parents=True, exist_ok=True)
    old = [*(store / "sources").glob("*.json")] or [store / "sources" / "0123456789abcdef.json"]
    names = [f"../../../{victim.name}", "..", ".", "", str(victim), f"../../../{victim.name}/x-0123456789abcdef"]
    for number, name in enumerate(names):
        (store / "sources" / f"{number:016}.json").write_text(record(name))
    for file in old:
        file.write_text(record(names[0]))
    (store / "derived" / "0123456789abcdef").mkdir(parents=True, exist_ok=True)
    (store / "derived" / "0123456789abcdef" / "traces.txt").symlink_to(victim / "precious.txt")


def plant_broken_records(store: Path, victim: Path) -> None:
    (store / "sources").mkdir(parents=True, exist_ok=True)
    old = [*(store / "sources").glob("*.json")] or [store / "sources" / "0123456789abcdef.json"]
    for number, text in enumerate(("", "[]", "{", "null", "[" * 100_000, record("x").replace("[0]", "7"), "\0")):
        for file in old:
            file.write_text(text)
        (store / "sources" / f"{number:016}.json").write_text(text)
    os.mkfifo(store / "sources" / "fifo.json")


def plant_catalogue(store: Path, victim: Path) -> None:
    store.mkdir(exist_ok=True)
    (store / "catalog.duckdb").unlink(missing_ok=True)
    with duckdb.connect(str(store / "catalog.duckdb")) as catalog:
        catalog.execute("CREATE SCHEMA canonical")
        catalog.execute(f"CREATE VIEW gpu_ops AS FROM read_text('{victim / 'precious.txt'}')")
    if not (store / "catalog.txt").exists():
        (store / "catalog.txt").write_text("")


PLANTS = (
    plant_root_link,
    plant_part_links,
    plant_scratch_link,
    plant_answers_link,
    plant_many_answers,
    plant_entry_links,
    plant_file_links,
    plant_traversing_records,
    plant_broken_records,
    plant_catalogue,
)


@pytest.mark.check
@pytest.mark.parametrize("plant", PLANTS)
def test_a_store_that_came_with_the_traces_is_ignored_and_reaches_nothing(
    plant: Callable[[Path, Path], None], run_folder: Path, victim: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = run_folder / STORE_NAME
    plant(store, victim)
    before, planted = state(victim), sorted(os.walk(store))
    assert main(["info", str(run_folder)]) == 0
    assert f"{store} was not made there by you" in capsys.readouterr().err
    assert op_count(run_folder) == (3, True)
    (run_folder / "rank0.json").write_text(trace(4))
    assert op_count(run_folder) == (4, False)
    assert state(victim) == before
    assert sorted(os.walk(store)) == planted


@pytest.mark.check
@pytest.mark.parametrize("plant", PLANTS)
def test_what_is_unpacked_over_the_users_own_store_reaches_nothing(
    plant: Callable[[Path, Path], None], run_folder: Path, victim: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    op_count(run_folder, attribution=True)
    plant(run_folder / STORE_NAME, victim)
    before = state(victim)
    assert main(["info", str(run_folder)]) == 0
    assert "3 events" in capsys.readouterr().out
    assert op_count(run_folder) == (3, True)
    (run_folder / "rank0.json").write_text(trace(4))
    assert op_count(run_folder) == (4, False)
    assert op_count(run_folder) == (4, True)
    assert state(victim) == before


@pytest.mark.check
def test_the_catalogue_is_replaced_when_it_is_not_what_was_written(run_folder: Path, victim: Path) -> None:
    op_count(run_folder)
    plant_catalogue(run_folder / STORE_NAME, victim)
    op_count(run_folder)
    with duckdb.connect(str(run_folder / STORE_NAME / "catalog.duckdb"), read_only=True) as catalog:
        assert catalog.sql("SELECT count(*) FROM gpu_ops").fetchall() == [(3,)]


def forged_tables(run_folder: Path, tmp_path: Path) -> Path:
    """Return the tables of another trace, made by the same user and engine."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "rank0.json").write_text(trace(9))
    op_count(other)
    (tables,) = (other / STORE_NAME / "traces").iterdir()
    return tables


@pytest.mark.check
@pytest.mark.parametrize("keep_times", [True, False])
def test_forged_tables_under_the_right_name_are_not_read(run_folder: Path, tmp_path: Path, keep_times: bool) -> None:
    op_count(run_folder)
    (stored,) = (run_folder / STORE_NAME / "traces").iterdir()
    forged = forged_tables(run_folder, tmp_path)
    shutil.rmtree(stored)
    shutil.copytree(forged, stored, copy_function=shutil.copy2 if keep_times else shutil.copy)
    assert op_count(run_folder) == (3, False)


@pytest.mark.check
def test_a_copied_store_is_not_read(run_folder: Path, tmp_path: Path) -> None:
    op_count(run_folder)
    copied = Path(shutil.copytree(run_folder, tmp_path / "copied"))
    assert op_count(copied) == (3, False)
    assert locate_store(copied, None).ignored == copied / STORE_NAME


@pytest.mark.check
def test_the_mark_of_another_user_is_not_trusted(
    run_folder: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    op_count(run_folder)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other home"))
    assert op_count(run_folder) == (3, False)
    assert locate_store(run_folder, None).ignored == run_folder / STORE_NAME


@pytest.mark.check
def test_a_store_without_a_mark_is_not_read(run_folder: Path) -> None:
    op_count(run_folder)
    (run_folder / STORE_NAME / MARK_NAME).unlink()
    assert op_count(run_folder) == (3, False)
    assert locate_store(run_folder, None).ignored == run_folder / STORE_NAME


@pytest.mark.check
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("part", ["", *PARTS, "traces/*", "derived/*"])
def test_what_belongs_to_another_user_is_not_read(run_folder: Path, part: str) -> None:
    op_count(run_folder, attribution=True)
    store = run_folder / STORE_NAME
    for name in ("ranks", "cards"):  # only jobs and shared stores write there
        (store / name).mkdir(exist_ok=True)
    for path in [*store.glob(part)] if part else [store]:
        os.chown(path, 12345, 12345)
    assert op_count(run_folder, attribution=True)[0] == 3
    assert locate_store(run_folder, None).ignored == (None if "*" in part else store)


@pytest.mark.check
@pytest.mark.parametrize(
    "missing",
    [*PARTS, "traces/*/0", "traces/*/0/gpu_ops.parquet", "derived/*/windows.parquet", "catalog.*", "*/*/seal.txt"],
)
def test_a_store_that_lost_a_part_is_completed(run_folder: Path, missing: str) -> None:
    op_count(run_folder, attribution=True)
    for path in (run_folder / STORE_NAME).glob(missing):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    op_count(run_folder, attribution=True)
    assert op_count(run_folder, attribution=True) == (3, True)
    assert locate_store(run_folder, None).ignored is None
    assert (run_folder / STORE_NAME / "catalog.duckdb").exists()


@pytest.mark.check
def test_a_store_is_the_users_alone(run_folder: Path, home: Path, tmp_path: Path) -> None:
    (tmp_path / "named").mkdir(mode=0o755)
    op_count(run_folder, attribution=True)
    op_count(run_folder, tmp_path / "named", attribution=True)
    for store in (run_folder / STORE_NAME, tmp_path / "named", home / "XDG_STATE_HOME" / "traceanalyzer"):
        for path in (store, *store.rglob("*")):
            assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.check
def test_abandoned_scratch_folders_go_and_nothing_else(run_folder: Path) -> None:
    op_count(run_folder)
    scratch = run_folder / STORE_NAME / "scratch"
    for name in ("write-abcdefgh", "write-in_use01", "notes"):
        (scratch / name).mkdir()
        (scratch / name / "file").write_text("")
        os.utime(scratch / name, (LONG_AGO_S, LONG_AGO_S))
    (run_folder / "rank0.json").write_text(trace(4))
    with held(scratch / "write-in_use01"):
        op_count(run_folder)
    assert {path.name for path in scratch.iterdir()} == {"write-in_use01", "notes"}


@pytest.mark.check
def test_without_locks_what_is_young_is_left_alone(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(handle: int, kind: int) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    op_count(run_folder)
    scratch = run_folder / STORE_NAME / "scratch"
    for name in ("write-abcdefgh", "write-fresh123"):
        (scratch / name).mkdir()
    os.utime(scratch / "write-abcdefgh", (LONG_AGO_S, LONG_AGO_S))
    monkeypatch.setattr(fcntl, "flock", refuse)
    (run_folder / "rank0.json").write_text(trace(4))
    op_count(run_folder)
    assert {path.name for path in scratch.iterdir()} == {"write-fresh123"}


def test_a_named_store_with_other_content_is_refused_and_left_alone(
    run_folder: Path, victim: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = state(victim)
    assert main(["info", str(run_folder), "--store", str(victim)]) == 2
    error = capsys.readouterr().err
    assert "did not write in this place" in error
    assert "give --store a new folder" in error
    assert state(victim) == before


@pytest.mark.check
def test_a_named_store_may_be_a_link_to_the_users_folder(run_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "large disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "large disk")
    assert op_count(run_folder, tmp_path / "link") == (3, False)
    assert op_count(run_folder, tmp_path / "link") == (3, True)


@pytest.mark.check
def test_a_home_that_cannot_be_written_leaves_the_temporary_folder(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "temporary").mkdir()
    for variable in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / "file" / "below"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    assert op_count(run_folder) == (3, False)
    assert op_count(run_folder) == (3, True)
    shutil.rmtree(tmp_path / "temporary")
    (tmp_path / "temporary").write_text("")
    with pytest.raises(TraceAnalyzerError, match="no folder can be written for the key"):
        op_count(run_folder)


def test_a_key_folder_that_is_a_link_is_not_used(home: Path, victim: Path) -> None:
    (home / "XDG_STATE_HOME").mkdir(parents=True)
    (home / "XDG_STATE_HOME" / "traceanalyzer").symlink_to(victim)
    before = state(victim)
    user_key()
    assert state(victim) == before


def test_a_damaged_key_is_one_sentence(home: Path) -> None:
    user_key()
    (home / "XDG_STATE_HOME" / "traceanalyzer" / "store.key").write_bytes(b"short")
    with pytest.raises(TraceAnalyzerError, match="the key that marks stores as yours is damaged"):
        user_key()


def _first_claim(run: str, start: float, answers: multiprocessing.Queue[tuple[bytes, bool]]) -> None:
    time.sleep(max(0.0, start - time.time()))
    location = locate_store(Path(run), None)
    answers.put((user_key(), location.folder == Path(run) / STORE_NAME))


def test_first_commands_at_once_agree_on_key_and_store(run_folder: Path) -> None:
    context = multiprocessing.get_context("fork")
    answers: multiprocessing.Queue[tuple[bytes, bool]] = context.Queue()
    start = time.time() + 0.3
    processes = [context.Process(target=_first_claim, args=(str(run_folder), start, answers)) for _ in range(8)]
    for process in processes:
        process.start()
    found = [answers.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
    assert {key for key, _ in found} == {user_key()}
    assert all(own for _, own in found)
    assert [path.name for path in (run_folder / STORE_NAME).iterdir()] == [MARK_NAME]


@pytest.mark.check
def test_a_long_name_in_any_script_fits(run_folder: Path) -> None:
    (run_folder / f"{'跡' * 80}.json").write_text(trace(2).replace('"k1"', '"k9"'))
    assert op_count(run_folder) == (5, False)
    assert op_count(run_folder) == (5, True)


@pytest.mark.check
def test_a_store_opened_by_its_folder_finds_what_another_one_made(run_folder: Path) -> None:
    op_count(run_folder)
    store = Store(run_folder / STORE_NAME)
    assert store.trace_folder(run_folder / "rank0.json", lambda folder: pytest.fail("read again"))[1]
