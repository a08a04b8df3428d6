"""A run in a store that machines share: parts, workers, and sweeping."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from object_servers import Proxy, bucket_content
from shared_stores import RANKS, RUN, STORE, Put, attempts, diagnosed, nothing_is_read, published
from tiers import needed

from traceanalyzer.cli import main
from traceanalyzer.report.json import document
from traceanalyzer.run import open_run
from traceanalyzer.store import shared_store
from traceanalyzer.store.writing import _scratch_prefix

pytest_plugins = ("shared_store_machines",)
pytestmark = pytest.mark.check


def part(index: int, capsys: pytest.CaptureFixture[str]) -> str:
    code = main(["part", RUN, "--store", STORE, "--index", str(index), "--of", "2"])
    said = capsys.readouterr()
    assert code == 0, said.err
    return said.out


def test_parts_on_two_machines_leave_to_a_third_what_concerns_all_ranks(
    bucket_server: str,
    expected_diagnosis: dict[str, Any],
    put_objects: Put,
    bucket_proxy: Proxy,
    machine: Callable[[str], Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine("one")
    assert "2 files of other parts not read yet" in part(0, capsys)
    machine("other")
    assert "all files of the run are read: 2 traces attributed" in part(1, capsys)
    machine("one")
    bucket_proxy.requests.clear()
    assert part(0, capsys).startswith(
        "part 0 of 2: 0 files read, 2 in the store already\nall files of the run are read"
    )
    names = {
        request.path for request in bucket_proxy.bodies() if ".parquet" in request.path and "/traces/" in request.path
    }
    assert len(names) == 2 and all(name.endswith("/traces.parquet") for name in names)  # of the ranks of the other part
    machine("third")
    with monkeypatch.context() as patch:
        nothing_is_read(patch)
        assert diagnosed() == expected_diagnosis
    assert set(attempts(bucket_server).values()) == {1}


def test_a_part_reads_again_what_another_one_published_and_was_damaged(
    bucket_server: str,
    put_objects: Put,
    machine: Callable[[str], Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    machine("one")
    part(0, capsys)
    ((key, data),) = [
        item
        for item in bucket_content(bucket_server).items()
        if "/rank0" in item[0] and item[0].endswith("/traces.parquet")
    ]
    put_objects({key: bytes(len(data))})
    machine("other")
    assert "all files of the run are read: 2 traces attributed" in part(1, capsys)
    assert max(attempts(bucket_server).values()) == 2
    machine("third")
    with open_run(RUN, store=STORE) as opened:
        assert opened.reused


def test_a_file_that_no_part_can_read_does_not_keep_other_machines_waiting(
    shared_run: Path, put_objects: Put, machine: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    put_objects({"run/rank1.json.gz": (shared_run / "rank1.json.gz").read_bytes()[:64] + b"\0" * 64})
    machine("one")
    part(1, capsys)
    machine("other")
    assert "all files of the run are read" in part(0, capsys)


def test_workers_on_other_machines_give_the_same_diagnosis(
    bucket_server: str,
    expected_diagnosis: dict[str, Any],
    put_objects: Put,
    machine: Callable[[str], Path],
    bucket_proxy: Proxy,
) -> None:
    needed("distributed")
    from traceanalyzer.cluster.dask_executor import DaskExecutor
    from traceanalyzer.pipeline.planning import parse_cluster

    workers = machine("workers")
    with DaskExecutor(parse_cluster("local:2")) as executor:
        executor.submit(len, "started here").result()
        here = machine("here")
        with open_run(RUN, store=STORE, executor=executor) as opened:
            assert document(opened.diagnose()) | {"run": ""} == expected_diagnosis
    for home in (workers, here):
        assert len(list(home.glob("*/traceanalyzer/*-shared/traces/*"))) == RANKS
    assert list(workers.glob("*/traceanalyzer/*-shared/derived/*")) == []
    assert set(attempts(bucket_server).values()) == {1}


def test_a_sweep_takes_old_attempts_that_do_not_count_and_nothing_else(
    bucket_server: str,
    put_objects: Put,
    machine: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for index in (0, 1, 0):
        part(index, capsys)
    open_run(RUN, store=STORE).close()
    whole = published(bucket_server)
    ranks = {name for name in whole if name.startswith("ranks/")}
    (done,) = [name for name in whole if "traces/rank0" in name and name.endswith("done.json")]
    folder = done.rpartition("/")[0]
    orphans = {
        f"{folder}/0123456789abcdef/0/traces.parquet",
        "traces/gone.json-0123456789abcdef/0123456789abcdef/0/traces.parquet",
    }
    kept = {
        "notes.txt",
        f"{folder}/notes.txt",
        "traces/x/../y/0123456789abcdef/z",
        "runs/run-0/7.json",
        "derived/notes/0123456789abcdef/x",
    }
    put_objects({f"team/ta/{name}": b"left" for name in (*orphans, *kept) if ".." not in name})
    everything = set(published(bucket_server))

    def sweep() -> str:
        assert main(["store", "sweep", STORE]) == 0
        return capsys.readouterr().out

    assert "0 objects of 0.0 MB removed" in sweep()
    assert set(published(bucket_server)) == everything
    monkeypatch.setattr(shared_store, "OLD_AFTER_S", -1)
    assert f"{len(orphans) + len(ranks):,} objects of " in sweep()
    assert set(published(bucket_server)) == everything - orphans - ranks
    machine("there")
    with monkeypatch.context() as patch:
        nothing_is_read(patch)
        open_run(RUN, store=STORE).close()


def test_a_sweep_of_what_is_no_store_is_an_error_and_changes_nothing(
    put_objects: Put,
    bucket_server: str,
    machine: Callable[[str], Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "empty").mkdir()
    before = bucket_content(bucket_server)
    for place in ("s3://bucket/run/", str(tmp_path / "empty"), str(tmp_path / "gone")):
        assert main(["store", "sweep", place]) == 2
        assert "no store" in capsys.readouterr().err
    assert bucket_content(bucket_server) == before
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_sweep_of_a_folder_takes_what_a_killed_command_left(
    shared_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    open_run(shared_run, store=store).close()
    (store / "scratch" / f"{_scratch_prefix()}abc").mkdir(mode=0o700)
    (store / "scratch" / "notes").mkdir()
    assert main(["store", "sweep", str(store)]) == 0
    assert capsys.readouterr().out.startswith("1 unfinished folder removed from ")
    assert [path.name for path in (store / "scratch").iterdir()] == ["notes"]
    with open_run(shared_run, store=store) as opened:
        assert opened.reused
