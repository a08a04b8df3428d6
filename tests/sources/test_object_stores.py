"""Runs in a bucket: read as the same files are on a disk, once, by a real S3 server on loopback."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from nsys_export import launched, write_sqlite
from object_servers import ENVIRONMENT, PAGE_OBJECTS, Fault, Proxy, Request, empty_bucket, proxy_of, s3_server
from tiers import needed
from trace_event_tables import events, slice_text

import traceanalyzer as ta
from traceanalyzer.cli import main
from traceanalyzer.discovery.remote_finding import list_run
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.remote import remote_object
from traceanalyzer.remote.location import parse_url
from traceanalyzer.remote.remote_object import Body
from traceanalyzer.run import Run

pytestmark = pytest.mark.check  # a server of its own takes seconds to start

KERNEL = '{"device": 0, "stream": 7, "correlation": 1}'
Put = Callable[[Mapping[str, bytes]], None]


def trace(rank: int, count: int = 3) -> bytes:
    kernels = (slice_text(f"k{rank}_{i}", ts=10 * i, cat='"kernel"', args=KERNEL) for i in range(count))
    return (
        events(*kernels)[:-1] + f', "distributedInfo": {{"rank": {rank}, "world_size": 2}}, "schemaVersion": 1}}'
    ).encode()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    needed("moto")
    with s3_server() as url:
        yield url


@pytest.fixture
def proxy(server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Proxy]:
    """A proxy in front of an empty bucket, which is what the environment names."""
    with proxy_of(server) as proxy:
        for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": proxy.url}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        monkeypatch.setattr(remote_object, "FIRST_PAUSE_S", 0.01)
        yield proxy


@pytest.fixture
def put(server: str, proxy: Proxy) -> Put:
    """A function that writes objects into a new bucket called run, past the proxy."""
    return empty_bucket(server)


def facts_of(run: Run) -> list[tuple[Any, ...]]:
    """Return of each trace its name, rank, events and kernels."""
    query = """
        SELECT trace, rank, event_count, list(name ORDER BY name)
        FROM gpu_ops JOIN traces USING (trace_id) GROUP BY ALL ORDER BY trace
    """
    return run.sql(query).fetchall()


def report_of(run: Run) -> dict[str, Any]:
    from traceanalyzer.report.json import write

    stream = io.StringIO()
    write(run.diagnose(), stream)
    return json.loads(stream.getvalue())  # type: ignore[no-any-return]


def test_a_run_in_a_bucket_has_the_diagnosis_of_its_folder(put: Put, root: Path, tmp_path: Path) -> None:
    folder = root / "sample_traces" / "slow_loader"
    put({f"jobs/slow_loader/{file.name}": file.read_bytes() for file in folder.iterdir() if file.is_file()})
    with ta.open("s3://bucket/jobs/slow_loader/") as run, ta.open(folder, store=tmp_path / "store") as here:
        assert run.name == here.name == "slow_loader"
        theirs, ours = report_of(run), report_of(here)
    assert theirs.pop("run") == "s3://bucket/jobs/slow_loader/" and ours.pop("run") == str(folder)
    assert theirs == ours


def test_every_format_is_read_from_a_bucket_as_from_a_disk(put: Put, tmp_path: Path) -> None:
    folder = tmp_path / "run42"
    (folder / "deep").mkdir(parents=True)
    (folder / "rank0.json").write_bytes(trace(0))
    (folder / "deep" / "rank1 ü.json.gz").write_bytes(gzip.compress(trace(1)))
    (folder / "rank2.json.zst").write_bytes(pa.compress(trace(2), codec="zstd", asbytes=True))
    write_sqlite(folder / "rank3.sqlite", launched())
    (folder / "notes.txt").write_bytes(b"hello")
    files = [file for file in folder.rglob("*") if file.is_file()]
    put({file.relative_to(tmp_path).as_posix(): file.read_bytes() for file in files})
    put({"run42/a/b/rank9.json": trace(9), "run42/.hidden/rank8.json": trace(8), "run421/rank7.json": trace(7)})
    with ta.open("s3://bucket/run42") as run, ta.open(folder, store=tmp_path / "store") as here:
        assert facts_of(run) == facts_of(here)
        assert len(facts_of(run)) == 4
        assert {str(item.path) for item in run.traces} >= {"s3://bucket/run42/deep/rank1 ü.json.gz"}


def test_a_second_diagnosis_takes_one_listing_and_no_body(proxy: Proxy, put: Put) -> None:
    put({"run42/rank0.json": trace(0), "run42/rank1.json": trace(1), "run42/notes.txt": b"hello"})
    with ta.open("s3://bucket/run42/") as run:
        assert not run.reused
        first = facts_of(run)
    proxy.requests.clear()
    with ta.open("s3://bucket/run42") as run:  # with or without the slash
        assert run.reused
        assert facts_of(run) == first
    assert [request.is_listing for request in proxy.requests] == [True]


def test_only_an_object_that_was_replaced_is_read_again(proxy: Proxy, put: Put) -> None:
    put({"run42/rank0.json": trace(0), "run42/rank1.json": trace(1)})
    ta.open("s3://bucket/run42/", attribution=False).close()
    put({"run42/rank1.json": trace(1, count=5)})
    proxy.requests.clear()
    with ta.open("s3://bucket/run42/", attribution=False) as run:
        assert [row[2] for row in facts_of(run)] == [3, 5]
        assert len(list((run.store / "traces").iterdir())) == 2
    assert {request.path for request in proxy.bodies()} == {"/bucket/run42/rank1.json"}


def test_the_store_lies_in_the_cache_and_no_two_runs_share_one(put: Put, tmp_path: Path) -> None:
    put({"run42/rank0.json": trace(0), "run43/rank0.json": trace(0)})
    stores = set()
    for name in ("run42", "run43"):
        with ta.open(f"s3://bucket/{name}", attribution=False) as run:
            stores.add(run.store)
    assert len(stores) == 2
    assert {store.parent for store in stores} == {tmp_path / "cache" / "traceanalyzer"}


def test_a_listing_of_many_pages_is_read_whole(proxy: Proxy, put: Put) -> None:
    count = 3 * PAGE_OBJECTS + 1
    put({f"run42/rank{rank}.json": trace(rank, count=1) for rank in range(count)})
    with ta.open("s3://bucket/run42/", attribution=False, jobs=2) as run:
        assert [item.rank for item in run.traces] == list(range(count))
    assert len(proxy.listings()) == 4


def test_one_object_a_pattern_and_several_places_are_runs(put: Put) -> None:
    put({f"run42/rank{rank}.json": trace(rank, count=1) for rank in range(3)} | {"run42/x/rank3.json": trace(3, 1)})

    def names(*urls: str) -> list[str]:
        with ta.open(list(urls), attribution=False) as run:
            return [item.trace for item in run.traces]

    assert names("s3://bucket/run42/rank1.json") == ["rank1.json"]
    assert names("s3://bucket/run42/rank[01].json") == ["rank0.json", "rank1.json"]
    assert names("s3://bucket/run42/*/rank*.json") == ["x/rank3.json"]
    assert names("s3://bucket/run42/rank0.json", "s3://bucket/run42/x/") == ["rank0.json", "x/rank3.json"]


def test_an_archive_is_opened_where_it_is_named(put: Put) -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("rank0.json", trace(0))
        archive.writestr("rank1.json", trace(1))
    put({"run42/run.zip": target.getvalue()})
    with ta.open("s3://bucket/run42/run.zip", attribution=False) as run:
        assert [str(item.path) for item in run.traces] == [
            "s3://bucket/run42/run.zip/rank0.json",
            "s3://bucket/run42/run.zip/rank1.json",
        ]
    with pytest.raises(TraceAnalyzerError, match="no traces in this folder"):
        ta.open("s3://bucket/run42/", attribution=False)


def test_a_log_beside_a_database_is_part_of_what_is_remembered(put: Put, tmp_path: Path) -> None:
    write_sqlite(tmp_path / "rank0.sqlite", launched())
    put({"run42/rank0.sqlite": (tmp_path / "rank0.sqlite").read_bytes()})
    ta.open("s3://bucket/run42/", attribution=False).close()
    put({"run42/rank0.sqlite-wal": b""})
    with ta.open("s3://bucket/run42/", attribution=False) as run:
        assert not run.reused
        assert len(run.traces) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("diagnose", "{}"),
        ("diagnose", "{}", "--format", "json"),
        ("info", "{}"),
        ("ingest", "{}"),
        ("sql", "{}", "SELECT trace, path FROM traces"),
        ("top", "kernels", "{}"),
        ("metrics", "export", "{}", "OUT", "kernel_summary"),
        ("whatif", "{}", "--remove", "host.dataloader"),
        ("memory", "{}"),
        ("rules", "explain", "dataloader-bound", "{}"),
        ("diff", "{}", "{}"),
        ("export", "speedscope", "{}", "-o", "OUT"),
        ("export", "perfetto", "{}", "-o", "OUT"),
        ("export", "baseline", "OUT", "{}"),
        ("config", "show", "{}"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_every_command_that_opens_a_run_takes_a_url(
    arguments: tuple[str, ...], put: Put, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put({"run42/rank0.json.gz": (root / "sample_traces" / "slow_loader" / "rank0.json.gz").read_bytes()})
    url = "s3://bucket/run42/"
    code = main([argument.format(url).replace("OUT", str(tmp_path / "out")) for argument in arguments])
    said = capsys.readouterr()
    assert code in (0, 3), said.err
    assert "error" not in said.err


def test_what_is_not_there_is_one_sentence(put: Put, capsys: pytest.CaptureFixture[str]) -> None:
    put({"run42/rank0.json": trace(0)})
    for url in ("s3://bucket/run4/", "s3://bucket/run42/rank7.json", "s3://nobody/run42/"):
        assert main(["ingest", url]) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"error: {url}: ") and "Traceback" not in said
        assert len(said.splitlines()) == 2


def test_local_files_and_objects_are_not_one_run(put: Put, tmp_path: Path) -> None:
    put({"run42/rank0.json": trace(0)})
    with pytest.raises(TraceAnalyzerError, match="cannot be one run"):
        ta.open(["s3://bucket/run42/", str(tmp_path)])


# What goes wrong on the way.


def test_an_answer_of_503_is_asked_for_again(proxy: Proxy, put: Put) -> None:
    put({f"run42/rank{rank}.json": trace(rank) for rank in range(2)})
    seen: dict[str, int] = {}

    def twice(request: Request, number: int) -> Fault | None:
        seen[request.path] = seen.get(request.path, 0) + 1
        return Fault(status=503) if seen[request.path] <= 2 else None

    proxy.faults = twice
    with ta.open("s3://bucket/run42/", attribution=False) as run:
        assert [row[2] for row in facts_of(run)] == [3, 3]
    assert max(seen.values()) > 2


def test_a_body_that_is_cut_goes_on_where_it_ended(
    proxy: Proxy, put: Put, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data = trace(0, count=20_000)
    (tmp_path / "rank0.json").write_bytes(data)
    put({"run42/rank0.json": data})
    monkeypatch.setattr(remote_object, "BLOCK_BYTES", 2**18)
    proxy.faults = lambda request, number: Fault(body_share=0.5) if request.is_body and number % 2 else None
    with (
        ta.open("s3://bucket/run42/", attribution=False) as run,
        ta.open(tmp_path / "rank0.json", store=tmp_path / "store", attribution=False) as here,
    ):
        assert facts_of(run) == facts_of(here)
        assert run.sql("SELECT truncated FROM traces").fetchall() == [(False,)]
    assert all("If-Match" in request.headers or "if-match" in request.headers for request in proxy.bodies())


def test_a_slow_server_is_waited_for(proxy: Proxy, put: Put) -> None:
    put({"run42/rank0.json": trace(0)})
    proxy.faults = lambda request, number: Fault(pause_s=1.0)
    with ta.open("s3://bucket/run42/", attribution=False) as run:
        assert len(facts_of(run)) == 1


@pytest.mark.parametrize("removed", [False, True])
def test_an_object_that_is_replaced_after_the_listing_is_an_error_and_no_mixture(
    proxy: Proxy, put: Put, monkeypatch: pytest.MonkeyPatch, removed: bool, server: str
) -> None:
    put({"run42/rank0.json": trace(0, count=20_000)})
    monkeypatch.setattr(remote_object, "BLOCK_BYTES", 2**16)
    bodies = [0]

    def replacing(request: Request, number: int) -> Fault | None:
        bodies[0] += request.is_body
        if request.is_body and bodies[0] == 5:
            put({"run42/rank0.json": trace(0, count=19_999)})
        if removed and bodies[0] >= 5 and request.is_body:
            return Fault(status=404)
        return None

    proxy.faults = replacing
    with pytest.raises(TraceAnalyzerError) as caught:
        ta.open("s3://bucket/run42/", attribution=False)
    assert str(caught.value) == ("s3://bucket/run42/rank0.json: the object was replaced or removed after it was listed")
    assert caught.value.hint
    proxy.faults = lambda request, number: None
    with ta.open("s3://bucket/run42/", attribution=False) as run:
        assert facts_of(run)[0][2] == 19_999


@pytest.mark.parametrize(
    ("fault", "words", "hint"),
    [
        (Fault(status=403), "403 Forbidden", "AWS_PROFILE"),
        (Fault(status=500), "500 Internal Server Error", "try again later"),
    ],
    ids=["refused", "broken"],
)
def test_a_store_that_cannot_be_listed_is_one_sentence(
    proxy: Proxy, put: Put, fault: Fault, words: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    proxy.faults = lambda request, number: fault
    assert main(["diagnose", "s3://bucket/run42/"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert said[0].startswith("error: s3://bucket/run42/: cannot be listed: ") and words in said[0]
    assert said[1].startswith("hint: ") and hint in said[1]


def test_an_object_that_may_not_be_read_is_named_with_what_to_check(proxy: Proxy, put: Put) -> None:
    put({f"run42/rank{rank}.json": trace(rank) for rank in range(2)})
    bodies: dict[str, int] = {}

    def refusing(request: Request, number: int) -> Fault | None:
        bodies[request.path] = bodies.get(request.path, 0) + request.is_body
        return Fault(status=403) if "rank1" in request.path and bodies[request.path] > 1 else None

    proxy.faults = refusing
    with ta.open("s3://bucket/run42/", attribution=False) as run:
        (error,) = run.unreadable
    assert str(error) == "s3://bucket/run42/rank1.json: cannot be read: 403 Forbidden"
    assert "AWS_PROFILE" in (error.hint or "")


def test_an_object_that_cannot_be_read_is_left_out_and_named(proxy: Proxy, put: Put) -> None:
    put({f"run42/rank{rank}.json": trace(rank) for rank in range(3)})
    proxy.faults = lambda request, number: Fault(body_share=0.0) if "rank1" in request.path else None
    with ta.open("s3://bucket/run42/", attribution=False) as run:
        assert [item.rank for item in run.traces] == [0, 2]
        (error,) = run.unreadable
    assert error.where == "s3://bucket/run42/rank1.json"
    assert error.what.startswith("cannot be read: ")
    proxy.faults = lambda request, number: None
    proxy.requests.clear()
    with ta.open("s3://bucket/run42/", attribution=False) as run:  # a failure is not remembered, what was read is
        assert [item.rank for item in run.traces] == [0, 1, 2]
    assert {request.path for request in proxy.bodies()} == {"/bucket/run42/rank1.json"}


def test_an_object_is_read_in_memory_that_does_not_depend_on_its_size(proxy: Proxy, put: Put) -> None:
    import tracemalloc

    block, blocks = 2**18, 40
    content = bytes(range(256)) * (block * blocks // 256)
    put({"run42/rank0.json": content})
    (item,) = list_run([parse_url("s3://bucket/run42/rank0.json")]).objects
    tracemalloc.start()
    try:
        with Body(item, block) as body:
            at = 0
            target = bytearray(50_000)
            while count := body.readinto(memoryview(target)):
                assert target[:count] == content[at : at + count]
                at += count
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert at == len(content)
    assert peak < len(content) / 2  # the proxy runs in this process, and holds blocks, too
    assert len(proxy.bodies()) == blocks


def test_an_object_travels_to_another_process_without_credentials(put: Put, proxy: Proxy) -> None:
    put({"run/rank0.json": trace(0)})
    (found,) = list_run([parse_url("s3://bucket/run/")]).objects
    packed = pickle.dumps(found)
    for name, secret in ENVIRONMENT.items():
        assert name == "AWS_REGION" or secret.encode() not in packed
    there = pickle.loads(packed)
    assert (there, there.digest, str(there)) == (found, found.digest, str(found))
    assert there.open().read() == trace(0)
