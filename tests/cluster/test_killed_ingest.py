"""Commands that are killed while they write a trace: the next one does it again, and nothing torn is ever read."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from trace_event_tables import events, slice_text

from traceanalyzer.cli import main
from traceanalyzer.ingest.trace_events.stream import CHUNK_BYTES

pytestmark = pytest.mark.check

KERNEL = '{"device": 0, "stream": 7, "correlation": 1}'
KERNELS = 20_000
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one trace that is read in three chunks."""
    folder = tmp_path_factory.mktemp("job") / "run"
    folder.mkdir()
    launch = '{"correlation": 1, "stack": "' + "x" * (2 * CHUNK_BYTES // KERNELS) + '"}'
    kernels = (slice_text(f"k{i % 9}", ts=10 * i, dur=8, cat='"kernel"', args=KERNEL) for i in range(KERNELS))
    launches = (
        slice_text("cudaLaunchKernel", ts=10 * i, dur=1, cat='"cuda_runtime"', args=launch) for i in range(KERNELS)
    )
    (folder / "rank0.json").write_text(events(*kernels, *launches))
    return folder


def started(name: str, run: Path, store: Path) -> subprocess.Popen[bytes]:
    share = ("--index", "0", "--of", "1") if name == "part" else ()
    command = [sys.executable, "-m", "traceanalyzer", name, str(run), "--store", str(store), "--jobs", "1", *share]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def diagnosed(run: Path, store: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["diagnose", str(run), "--store", str(store), "--format", "json", "--quiet"]) == 0
    return json.loads(capsys.readouterr().out)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def untouched(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of a command that nothing happened to."""
    store = tmp_path_factory.mktemp("untouched") / "store"
    with started("ingest", run, store) as process:
        assert process.wait() == 0
    return store


def parts_of(store: Path) -> list[Path]:
    """Return the files of events that are written so far, of a trace that is not in its place."""
    return list(store.glob("scratch/write-*/stage-*/*.parquet"))


@pytest.mark.parametrize("name", ["part", "diagnose"])
def test_a_command_that_is_killed_between_two_parts_of_a_trace_is_run_again(
    name: str, run: Path, untouched: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    with started(name, run, store) as process:
        until_s = time.monotonic() + PATIENCE_S
        while not parts_of(store):
            assert process.poll() is None and time.monotonic() < until_s, process.communicate()
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
    left = parts_of(store)
    assert left and not (store / "traces").exists()
    with started(name, run, store) as process:
        assert process.wait() == 0
    (trace,) = (store / "traces").iterdir()
    assert not any(file.exists() for file in left) and list((store / "scratch").iterdir()) == []
    assert diagnosed(run, store, capsys) == diagnosed(run, untouched, capsys)
    (fresh,) = (untouched / "traces").iterdir()
    assert contents(trace) == contents(fresh)


def contents(trace: Path) -> dict[str, bytes]:
    return {str(file.relative_to(trace)): file.read_bytes() for file in trace.rglob("*.parquet")}
