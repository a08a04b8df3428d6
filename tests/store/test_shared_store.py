"""A store in a bucket: what one machine published, another one reads; nothing damaged or forged is believed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from object_servers import ENVIRONMENT, Fault, Proxy, Request, bucket_content, remove_objects
from shared_stores import RANKS, RUN, STORE, Put, attempts, diagnosed, nothing_is_read, published

from traceanalyzer.cli import main
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.run import open_run
from traceanalyzer.store.shared_store import parse_done

pytest_plugins = ("shared_store_machines",)
pytestmark = pytest.mark.check
PATIENCE_S = 60.0


@pytest.mark.parametrize("at", [RUN, "on a disk"])
def test_another_machine_gives_the_same_diagnosis_without_reading_a_trace(
    at: str,
    shared_run: Path,
    expected_diagnosis: dict[str, Any],
    put_objects: Put,
    bucket_proxy: Proxy,
    machine: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = at if at == RUN else shared_run
    assert diagnosed(place) == expected_diagnosis
    machine("there")
    bucket_proxy.requests.clear()
    with monkeypatch.context() as patch:
        nothing_is_read(patch)
        assert diagnosed(place) == expected_diagnosis
    read = Counter(request.path for request in bucket_proxy.bodies() if "/run/" in request.path)
    assert set(read.values()) <= {1}  # the beginning, by which a trace is known


def test_a_second_run_reads_nothing_but_what_is_done(
    expected_diagnosis: dict[str, Any], put_objects: Put, bucket_proxy: Proxy, machine: Callable[[str], Path]
) -> None:
    assert diagnosed() == expected_diagnosis
    bucket_proxy.requests.clear()
    with open_run(RUN, store=STORE) as opened:
        assert opened.reused
    assert {request.method for request in bucket_proxy.requests} == {"GET"}
    listing, *others = bucket_proxy.requests
    assert listing.is_listing
    asked = Counter(request.path.rpartition("/")[2] for request in others)
    assert asked == {"traceanalyzer-store.json": 1, "done.json": RANKS + 1}


def test_what_is_here_and_was_removed_from_the_bucket_is_published_again(
    bucket_server: str,
    expected_diagnosis: dict[str, Any],
    put_objects: Put,
    machine: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert diagnosed() == expected_diagnosis
    before = attempts(bucket_server)
    remove_objects(bucket_server, [key for key in bucket_content(bucket_server) if key.startswith("team/")])
    with monkeypatch.context() as patch:
        nothing_is_read(patch)
        assert diagnosed() == expected_diagnosis
    assert attempts(bucket_server) == before


def diagnose(home: Path) -> subprocess.Popen[bytes]:
    """Start the command on a machine of its own."""
    own = {variable: str(home / variable) for variable in ("XDG_CACHE_HOME", "XDG_STATE_HOME")}
    command = [sys.executable, "-m", "traceanalyzer", "diagnose", RUN, "--store", STORE, "--format", "json", "-q"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | own)


def test_of_two_writers_the_first_counts_and_the_second_leaves_nothing(
    bucket_server: str, expected_diagnosis: dict[str, Any], put_objects: Put, bucket_proxy: Proxy, tmp_path: Path
) -> None:
    both = threading.Barrier(2)

    def together(request: Request, number: int) -> None:
        """Let each of the two write that an attempt of a trace is done once the other one does."""
        if request.method == "PUT" and request.path.startswith("/bucket/team/ta/traces/") and "done" in request.path:
            both.wait(PATIENCE_S)

    bucket_proxy.faults = together
    commands = [diagnose(tmp_path / name) for name in ("one", "other")]
    answers = [json.loads(command.communicate()[0]) | {"run": ""} for command in commands]
    assert [command.returncode for command in commands] == [commands[0].returncode] * 2
    assert answers == [expected_diagnosis, expected_diagnosis]
    assert set(attempts(bucket_server).values()) == {1}


@pytest.mark.parametrize("is_late", [False, True], ids=["before", "after"])
def test_a_command_that_is_killed_at_the_last_write_is_gone_on_with(
    is_late: bool,
    bucket_server: str,
    expected_diagnosis: dict[str, Any],
    put_objects: Put,
    bucket_proxy: Proxy,
    machine: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    killed: list[str] = []

    def killing(request: Request, number: int) -> Fault | None:
        if request.method == "PUT" and "rank1" in request.path and request.path.endswith("done.json"):
            killed.append(request.path)
            command.kill()
            return Fault(status=503, is_late=is_late)
        return None

    bucket_proxy.faults = killing
    command = diagnose(tmp_path / "dying")
    command.communicate()
    assert command.returncode < 0 and killed
    bucket_proxy.faults = lambda request, number: None
    machine("there")
    bucket_proxy.requests.clear()
    assert diagnosed() == expected_diagnosis
    bodies = Counter(request.path for request in bucket_proxy.bodies())
    assert bodies["/bucket/run/rank1.json.gz"] == (1 if is_late else 2)
    ((folder, count),) = [(name, count) for name, count in attempts(bucket_server).items() if "rank1" in name]
    assert count == (1 if is_late else 2), folder
    assert f"{folder}/done.json" in published(bucket_server)


@pytest.mark.parametrize("is_late", [False, True], ids=["refused", "answers lost"])
def test_a_bucket_that_fails_every_other_time_changes_nothing(
    is_late: bool,
    bucket_server: str,
    expected_diagnosis: dict[str, Any],
    put_objects: Put,
    bucket_proxy: Proxy,
    machine: Callable[[str], Path],
) -> None:
    asked: Counter[tuple[str, str]] = Counter()

    def failing(request: Request, number: int) -> Fault | None:
        place = request.method, request.path.partition("?")[0]
        asked[place] += 1
        return Fault(status=503, is_late=is_late) if asked[place] % 2 and "team/ta" in request.path else None

    bucket_proxy.faults = failing
    assert diagnosed() == expected_diagnosis
    machine("there")
    assert diagnosed() == expected_diagnosis
    assert set(attempts(bucket_server).values()) == {1}


def test_a_bucket_that_keeps_failing_ends_the_command_and_leaves_out_no_trace(
    put_objects: Put, bucket_proxy: Proxy, machine: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    bucket_proxy.faults = lambda request, number: (
        Fault(status=503) if request.method == "PUT" and "rank1" in request.path else None
    )
    assert main(["diagnose", RUN, "--store", STORE]) == 2
    said = capsys.readouterr()
    assert said.out == "" and "left out" not in said.err
    assert said.err.startswith("error: s3://bucket/team/ta/traces/rank1") and "503" in said.err


@pytest.mark.parametrize(
    ("faulty", "words"),
    [("done.json", "403 Forbidden"), ("traceanalyzer-store.json", "403 Forbidden")],
)
def test_a_bucket_that_may_not_be_written_is_one_sentence(
    faulty: str,
    words: str,
    put_objects: Put,
    bucket_proxy: Proxy,
    machine: Callable[[str], Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    bucket_proxy.faults = lambda request, number: (
        Fault(status=403) if request.method == "PUT" and request.path.endswith(faulty) else None
    )
    assert main(["ingest", RUN, "--store", STORE]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2 and words in said[0] and "AWS_PROFILE" in said[1]


def test_a_bucket_that_is_not_there_is_an_error_before_anything_is_read(
    put_objects: Put, bucket_proxy: Proxy, machine: Callable[[str], Path]
) -> None:
    with pytest.raises(TraceAnalyzerError, match="there is no such bucket"):
        open_run(RUN, store="s3://no-such-bucket/ta/")


def test_damaged_objects_are_not_believed_and_replaced(
    bucket_server: str,
    expected_diagnosis: dict[str, Any],
    put_objects: Put,
    machine: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert diagnosed() == expected_diagnosis
    objects = bucket_content(bucket_server)

    def one(place: str, table: str) -> tuple[str, bytes]:
        ((key, data),) = [item for item in objects.items() if f"/{place}" in item[0] and item[0].endswith(table)]
        return key, data

    for place, table in (("traces/rank0", "/gpu_ops.parquet"), ("derived/", "/windows.parquet")):
        key, data = one(place, table)
        put_objects({key: bytes(len(data))})
    key, data = one("traces/rank1", "/flows.parquet")
    put_objects({key: data[:-1]})
    remove_objects(bucket_server, [one("traces/rank2", "/threads.parquet")[0]])
    machine("there")
    assert diagnosed() == expected_diagnosis
    machine("elsewhere")
    with monkeypatch.context() as patch:
        nothing_is_read(patch)
        assert diagnosed() == expected_diagnosis


def done_text(files: object, attempt: object = "0123456789abcdef") -> str:
    return json.dumps({"attempt": attempt, "files": files})


STATED = {"size_bytes": 7, "sha256": "0" * 64}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "[" * 100_000,
        done_text({}, attempt=".."),
        done_text({}, attempt=7),
        done_text([]),
        done_text({"0/traces.parquet": 7}),
        done_text({"0/traces.parquet": {"size_bytes": "7", "sha256": "0" * 64}}),
        done_text({"0/traces.parquet": {"size_bytes": 7, "sha256": 7}}),
        *(
            done_text({"0/gpu_ops.parquet": STATED, name: STATED})
            for name in (
                "../../../../victim.txt",
                "/victim.txt",
                "0/../../victim.txt",
                "0/..",
                "..",
                "",
                ".hidden",
                "0/.hidden",
                "0/1/2.parquet",
                "seal.txt",
                "0\\..\\victim.txt",
                "0/gpu_ops.parquet\n",
                "0",
                "C:victim.txt",
            )
        ),
    ],
)
def test_a_list_that_no_store_wrote_is_none(text: str) -> None:
    assert parse_done(done_text({"0/gpu_ops.parquet": STATED, "members.json": STATED}).encode()) is not None
    assert parse_done(text.encode()) is None


@pytest.mark.parametrize("name", ["0/../../victim.txt", "0/gpu_ops.parquet/x", None])
def test_a_forged_list_of_files_writes_nothing_outside_and_is_replaced(
    name: str | None, bucket_server: str, put_objects: Put, machine: Callable[[str], Path], tmp_path: Path
) -> None:
    with open_run(f"{RUN}rank0.json.gz", store=STORE, attribution=False) as opened:
        ours = opened.sql("SELECT count(*) FROM gpu_ops").fetchall()
    (key,) = [key for key in bucket_content(bucket_server) if key.endswith("done.json")]
    done = json.loads(bucket_content(bucket_server)[key])
    files = {**done["files"], name: STATED}
    put_objects({key: (done_text(files, done["attempt"]) if name else " " * 9_000_000).encode()})
    machine("there")
    with open_run(f"{RUN}rank0.json.gz", store=STORE, attribution=False) as opened:
        assert opened.sql("SELECT count(*) FROM gpu_ops").fetchall() == ours
        assert not opened.reused
    assert not list(tmp_path.rglob("victim*"))
    now = json.loads(bucket_content(bucket_server)[key])
    assert now["attempt"] != done["attempt"] and now["files"].keys() == done["files"].keys()


def test_no_secret_comes_into_the_bucket_the_working_copy_or_what_is_said(
    bucket_server: str, put_objects: Put, machine: Callable[[str], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    home = machine("here")
    assert main(["ingest", RUN, "--store", STORE, "-v"]) == 0
    said = capfd.readouterr()
    kept = b"".join(file.read_bytes() for file in home.rglob("*") if file.is_file())
    kept += b"".join(key.encode() + data for key, data in published(bucket_server).items())
    for name, secret in ENVIRONMENT.items():
        assert name == "AWS_REGION" or (secret.encode() not in kept and secret not in said.out + said.err)


@pytest.mark.parametrize(
    ("store", "words"),
    [
        ("s3://key:hunter2@bucket/ta/", "a URL with a user or a password is not read"),
        ("s3://bucket/ta/?X-Amz-Signature=hunter2", "a URL with a query is not read"),
        ("https://server/ta/", "no store can lie behind https://"),
        ("hdfs://namenode/ta/", "no store can lie behind hdfs://"),
    ],
)
def test_a_place_that_no_store_can_lie_in_is_one_sentence(
    store: str, words: str, put_objects: Put, machine: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", RUN, "--store", store]) == 2
    said = capsys.readouterr().err
    assert words in said and "hint: " in said and "hunter2" not in said


def test_a_place_with_another_format_is_left_alone(
    bucket_server: str, put_objects: Put, machine: Callable[[str], Path]
) -> None:
    put_objects({"team/ta/traceanalyzer-store.json": b'{"format": 2}'})
    with pytest.raises(TraceAnalyzerError, match="another version"):
        open_run(RUN, store=STORE)
    assert list(published(bucket_server)) == ["traceanalyzer-store.json"]
