"""A run and a store in a container of Azure Blob Storage, which Azurite on loopback answers for."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from azure_server import ACCOUNT, KEY, azurite
from object_servers import Fault, Proxy, Request, proxy_of
from shared_stores import nothing_is_read
from trace_event_tables import events, slice_text

import traceanalyzer as ta
from traceanalyzer.cli import main
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.remote import remote_object
from traceanalyzer.remote.bucket import Bucket
from traceanalyzer.remote.location import Location, parse_url
from traceanalyzer.report.json import document
from traceanalyzer.run import open_run
from traceanalyzer.store import shared_store

pytest_plugins = ("shared_store_machines",)
pytestmark = pytest.mark.check
RUN, STORE = "az://bucket/run/", "az://bucket/team/ta/"
PATIENCE_S = 60.0
KERNEL = '{"device": 0, "stream": 7, "correlation": 1}'


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with azurite() as url:
        yield url


@pytest.fixture
def proxy(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy in front of the server, which is what the environment names."""
    with proxy_of(server) as proxy:
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
        monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", f"{proxy.url}/{ACCOUNT}")
        monkeypatch.setattr(remote_object, "FIRST_PAUSE_S", 0.01)
        yield proxy


@pytest.fixture
def container(proxy: Proxy, shared_run: Path) -> Bucket:
    """The container, with the run alone in it."""
    bucket = Bucket(Location("az", "bucket", "", is_folder=True))
    bucket.delete([entry.key for entry in bucket.listing("")])
    for file in shared_run.iterdir():
        bucket.put(f"run/{file.name}", file)
    proxy.requests.clear()
    return bucket


def diagnosed() -> dict[str, Any]:
    with open_run(RUN, store=STORE) as opened:
        return document(opened.diagnose()) | {"run": ""}


def attempts(container: Bucket) -> Counter[str]:
    keys = "\n".join(entry.key for entry in container.listing("team/ta"))
    found = re.findall(r"^((?:[^/\n]+/)*(?:traces|derived)/[^/\n]+)/(\w+)/", keys, re.MULTILINE)
    return Counter(folder for folder, _ in set(found))


def test_another_machine_gives_the_diagnosis_of_the_folder_without_reading_a_trace(
    expected_diagnosis: dict[str, Any],
    container: Bucket,
    machine: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert diagnosed() == expected_diagnosis
    machine("there")
    with monkeypatch.context() as patch:
        nothing_is_read(patch)
        assert diagnosed() == expected_diagnosis


def test_every_other_request_may_fail(
    expected_diagnosis: dict[str, Any], container: Bucket, proxy: Proxy, machine: Callable[[str], Path]
) -> None:
    proxy.faults = lambda request, number: Fault(status=503) if number % 2 else None
    assert diagnosed() == expected_diagnosis


def test_of_two_writers_the_first_counts_and_the_second_leaves_nothing(
    expected_diagnosis: dict[str, Any],
    container: Bucket,
    proxy: Proxy,
    machine: Callable[[str], Path],
) -> None:
    both = threading.Barrier(2)

    def together(request: Request, number: int) -> None:
        """Let each of the two write that an attempt of a trace is done once the other one does."""
        if request.method == "PUT" and "/traces/rank0" in request.path and "done.json" in request.path:
            both.wait(PATIENCE_S)

    proxy.faults = together
    command = [sys.executable, "-m", "traceanalyzer", "diagnose", RUN, "--store", STORE, "--format", "json", "-q"]
    writers = []
    for name in ("one", "other"):
        machine(name)
        writers.append(subprocess.Popen(command, stdout=subprocess.PIPE))
    answers = [json.loads(writer.communicate()[0]) | {"run": ""} for writer in writers]
    assert answers == [expected_diagnosis, expected_diagnosis]
    assert set(attempts(container).values()) == {1}


def test_a_write_under_a_condition_keeps_what_others_wrote(container: Bucket) -> None:
    assert container.put_new("x/head.json", b"1")
    assert not container.put_new("x/head.json", b"2")
    first = container.get("x/head.json", 100)
    assert first is not None and first.data == b"1"
    assert container.swap("x/head.json", b"3", first.version)
    assert not container.swap("x/head.json", b"4", first.version)
    last = container.get("x/head.json", 100)
    assert last is not None and last.data == b"3"
    container.delete(["x/head.json"])
    assert not container.swap("x/head.json", b"5", last.version)
    assert container.get("x/head.json", 100) is None


def test_what_is_gone_already_keeps_nothing_from_being_removed(container: Bucket) -> None:
    keys = [f"x/{number:03}" for number in range(300)]
    for key in (*keys[1::50], keys[-1]):  # a batch of Azure has 256
        container.put(key, b"")
    container.delete(keys)
    assert [entry.key for entry in container.listing("x")] == []


def test_an_object_that_is_replaced_meanwhile_is_an_error(container: Bucket, proxy: Proxy, tmp_path: Path) -> None:
    container.put("run2/rank0.json", events(slice_text("k", ts=0, cat='"kernel"', args=KERNEL)).encode())
    other = events(slice_text("other", ts=0, cat='"kernel"', args=KERNEL)).encode()

    def replaced(request: Request, number: int) -> None:
        if request.method == "GET" and request.path.endswith("/rank0.json"):
            proxy.faults = lambda request, number: None
            container.put("run2/rank0.json", other + b" ")

    proxy.faults = replaced
    with pytest.raises(TraceAnalyzerError, match="replaced"):
        ta.open("az://bucket/run2/", store=tmp_path / "store")


def test_a_sweep_takes_what_does_not_count(
    container: Bucket,
    machine: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    open_run(RUN, store=STORE).close()
    whole = {entry.key for entry in container.listing("team")}
    container.put("team/ta/traces/gone.json-0123456789abcdef/0123456789abcdef/0/traces.parquet", b"left")
    monkeypatch.setattr(shared_store, "OLD_AFTER_S", -1)
    assert main(["store", "sweep", STORE]) == 0
    assert capsys.readouterr().out.count("1 object") == 1
    assert {entry.key for entry in container.listing("team")} == whole


def test_a_key_of_another_account_is_one_sentence(container: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "AAAA")
    with pytest.raises(TraceAnalyzerError) as raised:
        ta.open(RUN)
    assert "403" in str(raised.value) and "AZURE_STORAGE_ACCOUNT_NAME" in str(raised.value.hint)
    assert parse_url(RUN).extra == "azure"
