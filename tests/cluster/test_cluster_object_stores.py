"""Workers that read from a bucket behind faults, and commands that read one object at the same time."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from object_servers import ENVIRONMENT, Fault, Proxy, Request, empty_bucket, proxy_of, s3_server
from tiers import needed
from workloads.wide_jobs import wide_job

from traceanalyzer.report.json import document
from traceanalyzer.run import open_run
from tracesim import simulate_job

pytestmark = pytest.mark.check

RANKS = 4
URL = "s3://bucket/run/"
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job of four ranks: one waits for its loader, the GPU of another is slow."""
    folder = tmp_path_factory.mktemp("job") / "run"
    folder.mkdir()
    simulate_job(wide_job(RANKS, late=1, slow=3, collectives=4)).write_kineto(folder, suffix=".json.gz")
    return folder


@pytest.fixture
def proxy(run: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy in front of a bucket that holds the run; the environment names it, also for new processes."""
    with s3_server() as server, proxy_of(server) as proxy:
        empty_bucket(server)({f"run/{file.name}": file.read_bytes() for file in run.iterdir()})
        for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": proxy.url}.items():
            monkeypatch.setenv(name, value)
        yield proxy


class Faults:
    """Answers the first request for a file slowly, and the next ones with 503 and half a body by turns."""

    def __init__(self) -> None:
        self.made: Counter[str] = Counter()
        self._asked: Counter[str] = Counter()

    def __call__(self, request: Request, number: int) -> Fault | None:
        self._asked[request.path] += 1
        kind = {1: "slow", 2: "503", 3: "cut", 4: "503", 5: "cut"}.get(self._asked[request.path], "none")
        if kind == "cut" and not request.is_body:
            kind = "503"
        self.made[kind] += 1
        return {"slow": Fault(pause_s=0.5), "503": Fault(status=503), "cut": Fault(body_share=0.5), "none": None}[kind]


def test_two_workers_that_read_from_a_bucket_behind_faults_give_the_diagnosis_of_the_folder(
    run: Path, proxy: Proxy, tmp_path: Path
) -> None:
    needed("distributed")
    from traceanalyzer.cluster.dask_executor import DaskExecutor
    from traceanalyzer.pipeline.planning import parse_cluster

    with open_run(run, store=tmp_path / "here") as opened:
        here = document(opened.diagnose())
    faults = proxy.faults = Faults()
    with (
        DaskExecutor(parse_cluster("local:2")) as executor,
        open_run(URL, store=tmp_path / "there", executor=executor) as opened,
    ):
        assert opened.unreadable == ()
        there = document(opened.diagnose())
        shown = seen_of(executor)
    assert there | {"run": ""} == here | {"run": ""}
    assert min(faults.made[kind] for kind in ("slow", "503", "cut")) >= RANKS
    kept = b"".join(file.read_bytes() for file in (tmp_path / "there").rglob("*") if file.is_file())
    assert "ingest_source-" in shown and b"s3://bucket/run/" in kept
    for name, secret in ENVIRONMENT.items():
        assert name == "AWS_REGION" or (secret not in shown and secret.encode() not in kept)


def seen_of(executor: Any) -> str:
    """Return what Dask's scheduler and workers keep and show of the tasks: their keys, and the logs."""
    client = executor._inner._client
    scheduler = client.cluster.scheduler
    return repr([list(scheduler.transition_log), client.get_scheduler_logs(), client.get_worker_logs()])


def test_two_commands_that_read_one_run_at_once_keep_one_copy_and_give_one_answer(
    run: Path, proxy: Proxy, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    both = threading.Barrier(2)

    def together(request: Request, number: int) -> None:
        """Answer a command's request for a body once the other one sends the same."""
        if request.is_body:
            both.wait(PATIENCE_S)

    proxy.faults = together
    command = [sys.executable, "-m", "traceanalyzer", "diagnose", f"{URL}rank1.json.gz", "--store", str(store)]
    more = ["--format", "json", "--quiet"]
    first, second = (subprocess.Popen([*command, *more], stdout=subprocess.PIPE) for _ in range(2))
    answers = [process.communicate()[0] for process in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0)
    assert len(proxy.bodies()) == 4  # each looked at the beginning, and read the whole
    assert answers[0] == answers[1]
    assert [len(list((store / part).iterdir())) for part in ("traces", "derived", "scratch")] == [1, 1, 0]
    proxy.requests.clear()
    proxy.faults = lambda request, number: None
    alone = subprocess.run([*command, *more], capture_output=True, check=True).stdout
    assert alone == answers[0] and proxy.bodies() == []
    assert json.loads(alone)["traces"]
