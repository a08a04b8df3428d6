"""Runs behind fsspec: its file system in memory stands for HDFS and the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from tiers import needed
from trace_event_tables import events, slice_text

import traceanalyzer as ta
from traceanalyzer.cli import main
from traceanalyzer.discovery import remote_finding
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.remote import remote_object
from traceanalyzer.remote.fsspec_client import FsspecClient
from traceanalyzer.remote.location import Entry
from traceanalyzer.remote.remote_object import RemoteObject

pytestmark = pytest.mark.check

KERNEL = '{"device": 0, "stream": 7, "correlation": 1}'
Put = Callable[[Mapping[str, bytes]], None]


def trace(rank: int, count: int = 3) -> bytes:
    kernels = (slice_text(f"k{rank}_{i}", ts=10 * i, cat='"kernel"', args=KERNEL) for i in range(count))
    return (events(*kernels)[:-1] + f', "distributedInfo": {{"rank": {rank}}}, "schemaVersion": 1}}').encode()


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Put]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    memory = needed("fsspec").filesystem("memory")

    def write(files: Mapping[str, bytes]) -> None:
        for name, data in files.items():
            memory.pipe_file(name, data)

    yield write
    memory.store.clear()
    memory.pseudo_dirs[:] = [""]


def test_a_folder_of_a_file_system_is_the_run_in_it(put: Put) -> None:
    put({"/run42/rank0.json": trace(0), "/run42/deep/rank1.json": trace(1), "/run42/a/b/rank2.json": trace(2)})
    with ta.open("memory://run42/", attribution=False) as run:
        assert [(item.trace, item.rank) for item in run.traces] == [("rank0.json", 0), ("deep/rank1.json", 1)]
        assert [str(item.path) for item in run.traces] == [
            "memory://run42/rank0.json",
            "memory://run42/deep/rank1.json",
        ]
    with ta.open("memory://run42", attribution=False) as run:
        assert run.reused
    put({"/run42/rank0.json": trace(0, count=7)})
    with ta.open("memory://run42", attribution=False) as run:
        assert run.sql("SELECT event_count FROM traces ORDER BY trace_id").fetchall() == [(7,), (3,)]


def test_a_file_that_is_replaced_while_it_is_read_is_an_error(put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    put({"/run42/rank0.json": trace(0, count=20_000)})
    monkeypatch.setattr(remote_object, "BLOCK_BYTES", 2**16)
    read = FsspecClient.read

    def replacing(client: FsspecClient, entry: Entry, start: int, length: int) -> bytes:
        if start == 4 * 2**16:
            put({"/run42/rank0.json": trace(0, count=20_000)})
        return read(client, entry, start, length)

    monkeypatch.setattr(FsspecClient, "read", replacing)
    with pytest.raises(
        TraceAnalyzerError, match=r"rank0\.json: the object was replaced or removed after it was listed"
    ):
        ta.open("memory://run42/", attribution=False)


def test_thousands_of_objects_are_looked_at_once(put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 3_000
    put({f"/run42/state{number}.bin": b"\x93weights" for number in range(count)} | {"/run42/rank0.json": trace(0)})
    heads: list[str] = []

    def counted(item: RemoteObject, most: int) -> bytes:
        heads.append(item.run_name)
        return remote_object.first_bytes(item, most)

    monkeypatch.setattr(remote_finding, "first_bytes", counted)
    for _ in range(2):
        with ta.open("memory://run42/", attribution=False) as run:
            assert [item.trace for item in run.traces] == ["rank0.json"]
    assert len(heads) == count + 1


def test_reading_is_given_up_where_many_objects_fail_alike(put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    put({f"/run42/rank{rank}.json": trace(rank, count=1) for rank in range(200)})
    asked: list[str] = []

    def refused(item: RemoteObject, most: int) -> bytes:
        asked.append(item.run_name)
        raise TraceAnalyzerError("cannot be read: 503 Service Unavailable", item.url, "try again later")

    monkeypatch.setattr(remote_finding, "first_bytes", refused)
    with pytest.raises(TraceAnalyzerError, match="reading was given up, as other objects fail alike"):
        ta.open("memory://run42/", attribution=False)
    assert 32 <= len(asked) < 64


def test_a_place_with_more_objects_than_a_run_has_is_an_error(put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traceanalyzer.remote.fsspec_client.MOST_OBJECTS", 3)
    put({f"/run42/rank{rank}.json": trace(rank, count=1) for rank in range(4)})
    with pytest.raises(TraceAnalyzerError, match="holds more than"):
        ta.open("memory://run42/")


def test_names_that_no_file_can_have_are_left_out(put: Put) -> None:
    put({"/run42/rank0.json": trace(0), f"/run42/{'x' * 300}.json": trace(1)})
    with ta.open("memory://run42/", attribution=False) as run:
        assert [item.trace for item in run.traces] == ["rank0.json"]
        assert [error.what for error in run.unreadable] == ["has a name that no file can have"]


def test_a_folder_of_parquet_files_says_what_to_do(put: Put) -> None:
    put({"/run42/rank0.json": trace(0), "/run42/rank1_pqtdir/StringIds.parquet": b"PAR1"})
    put({"/run42/rank2_pqtdir/StringIds.parquet": b"PAR1", "/run42/rank2.sqlite": b""})
    with ta.open("memory://run42/", attribution=False) as run:
        assert [error.where for error in run.unreadable] == [
            "memory://run42/rank1_pqtdir/StringIds.parquet",
            "memory://run42/rank2.sqlite",  # it is empty
        ]


def test_an_empty_object_named_like_a_trace_is_told_as_on_a_disk(put: Put) -> None:
    put({"/run42/rank0.json": trace(0), "/run42/rank1.json": b""})
    with ta.open("memory://run42/", attribution=False) as run:
        assert [str(error) for error in run.unreadable] == ["memory://run42/rank1.json: the file is empty"]


def test_hdfs_without_java_is_one_sentence(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    needed("fsspec")
    for variable in ("JAVA_HOME", "HADOOP_HOME", "ARROW_LIBHDFS_DIR"):
        monkeypatch.delenv(variable, raising=False)
    assert main(["ingest", "hdfs://namenode:8020/run42/"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("error: hdfs://namenode:8020/run42/: cannot be opened: ")
    assert said[1].startswith("hint: HDFS needs Java") and len(said) == 2
