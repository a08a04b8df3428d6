"""Runs on web servers: folders by their pages, servers with and without ranges."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nsys_export import launched, write_sqlite
from object_servers import Fault, Proxy, file_server, proxy_of
from tiers import needed
from trace_event_tables import events, slice_text

import traceanalyzer as ta
from traceanalyzer.cli import main
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.remote import remote_object
from traceanalyzer.remote.obstore_client import linked_names

pytestmark = pytest.mark.check

KERNEL = '{"device": 0, "stream": 7, "correlation": 1}'


def trace(rank: int, count: int = 3) -> bytes:
    kernels = (slice_text(f"k{rank}_{i}", ts=10 * i, cat='"kernel"', args=KERNEL) for i in range(count))
    return (events(*kernels)[:-1] + f', "distributedInfo": {{"rank": {rank}}}, "schemaVersion": 1}}').encode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "www" / "run 42"
    (folder / "deep").mkdir(parents=True)
    (folder / "rank0.json").write_bytes(trace(0, count=20_000))
    (folder / "deep" / "rank1.json").write_bytes(trace(1))
    (folder / ".hidden.json").write_bytes(trace(2))
    (folder / "notes.txt").write_bytes(b"hello")
    write_sqlite(folder / "rank2.sqlite", launched())
    return folder


@pytest.fixture
def proxy(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Proxy]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(remote_object, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(remote_object, "BLOCK_BYTES", 2**18)
    needed("obstore")
    with file_server(folder.parent) as url, proxy_of(url) as proxy:
        yield proxy


def facts_of(*inputs: Any, store: Path | None = None) -> list[tuple[Any, ...]]:
    with ta.open(list(inputs), store=store, attribution=False) as run:
        return run.sql("SELECT trace, rank, event_count, truncated FROM traces ORDER BY trace").fetchall()


def test_a_folder_of_a_web_server_is_the_run_in_it(proxy: Proxy, folder: Path, tmp_path: Path) -> None:
    url = f"{proxy.url}/run%2042/"
    assert facts_of(url) == facts_of(folder, store=tmp_path / "store") == facts_of(url.rstrip("/"))
    proxy.requests.clear()
    with ta.open(url) as run:
        assert run.reused
    assert not [request for request in proxy.bodies() if not request.path.rstrip("/").endswith(("42", "deep"))]


def test_one_file_of_a_web_server_is_a_run(proxy: Proxy) -> None:
    assert facts_of(f"{proxy.url}/run%2042/deep/rank1.json") == [("rank1.json", 1, 3, False)]


def test_a_body_that_is_cut_is_read_again_where_a_server_has_no_ranges(proxy: Proxy, folder: Path) -> None:
    whole = (folder / "rank0.json").stat().st_size
    cut = iter([0.3, 0.6])
    proxy.faults = lambda request, number: (
        Fault(body_share=next(cut, None)) if request.is_body and "Range" not in request.headers else None
    )
    assert facts_of(f"{proxy.url}/run%2042/rank0.json") == [("rank0.json", 0, 20_000, False)]
    assert whole > 4 * remote_object.BLOCK_BYTES


def test_a_file_that_is_written_while_it_is_read_is_an_error(proxy: Proxy, folder: Path) -> None:
    import os

    def writing(request: Any, number: int) -> Fault | None:
        if request.is_body:
            os.utime(folder / "rank0.json", (10**9 + number, 10**9 + number))
        return None

    proxy.faults = writing
    with pytest.raises(TraceAnalyzerError, match="was replaced or removed after it was listed"):
        facts_of(f"{proxy.url}/run%2042/rank0.json")


def test_what_a_web_server_has_not_is_one_sentence(proxy: Proxy, capsys: pytest.CaptureFixture[str]) -> None:
    for url in (f"{proxy.url}/nothing.json", f"{proxy.url}/nothing/", "http://127.0.0.1:1/run42/"):
        assert main(["ingest", url]) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"error: {url}: ") and len(said.splitlines()) == 2


def test_links_that_lead_elsewhere_are_not_followed() -> None:
    page = b"""<a href="../">up</a> <a href="/run/">here</a> <a href="a.json">a</a> <a href="/run/b%20c.json">b</a>
        <a href="deep/">d</a> <a href="http://elsewhere/run/e.json">e</a> <a href="deep/f.json">f</a>
        <a href="?C=N;O=D">sort</a> <a href="..%2Fg.json">g</a> <a href="%2e%2e/">h</a> <a href="http://[">i</a>"""
    assert linked_names(page, "http://server/run/") == ["a.json", "b c.json", "deep/"]
