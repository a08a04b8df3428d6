"""Fixtures of tests that share a store: a bucket with a run, and machines that open it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from object_servers import ENVIRONMENT, Proxy, empty_bucket, proxy_of, s3_server
from shared_stores import RANKS, Put
from tiers import needed
from workloads.wide_jobs import wide_job

from traceanalyzer.remote import remote_object
from traceanalyzer.report.json import document
from traceanalyzer.run import open_run
from tracesim import simulate_job


@pytest.fixture(scope="module")
def bucket_server() -> Iterator[str]:
    needed("moto")
    with s3_server() as url:
        yield url


@pytest.fixture(scope="module")
def shared_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job") / "run"
    folder.mkdir()
    simulate_job(wide_job(RANKS, late=1, collectives=4)).write_kineto(folder, suffix=".json.gz")
    return folder


@pytest.fixture(scope="module")
def expected_diagnosis(shared_run: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The diagnosis of the run from a store on a disk."""
    with open_run(shared_run, store=tmp_path_factory.mktemp("disk") / "store") as opened:
        return document(opened.diagnose()) | {"run": ""}


@pytest.fixture
def bucket_proxy(bucket_server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy in front of the bucket, which is what the environment names."""
    with proxy_of(bucket_server) as bucket_proxy:
        for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": bucket_proxy.url}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(remote_object, "FIRST_PAUSE_S", 0.01)
        yield bucket_proxy


@pytest.fixture
def put_objects(bucket_server: str, shared_run: Path, bucket_proxy: Proxy) -> Put:
    """A function that writes objects past the proxy into a bucket that holds the run."""
    write = empty_bucket(bucket_server)
    write({f"run/{file.name}": file.read_bytes() for file in shared_run.iterdir()})
    return write


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """A function that lets the next commands be of another machine, and returns the folder of all its files."""

    def at(name: str) -> Path:
        for variable in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):
            monkeypatch.setenv(variable, str(tmp_path / name / variable))
        return tmp_path / name

    at("here")
    return at
