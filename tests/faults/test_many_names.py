"""A million distinct names are read in bounded memory, and thousands of them make no report longer."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

import traceanalyzer

MEMORY_MB = 2_000
MOST_CHARACTERS = 30_000
# ru_maxrss of a new program begins with what its parent held, here the worker of the tests.
MEASURED = """
import resource, runpy, sys
from pathlib import Path
try:
    runpy.run_module("traceanalyzer", run_name="__main__")
finally:
    status = Path("/proc/self/status")
    if status.exists():
        peak_mb = int(status.read_text().split("VmHWM:")[1].split()[0]) // 2**10
    else:
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 2**20
    print(peak_mb, file=sys.stderr)
"""
ARGS = '"args": {"device": 0, "stream": 7, "correlation": 1}'


def written(folder: Path, count: int) -> Path:
    """Write a trace with so many kernels, each with a name of its own."""
    path = folder / "rank0.json.gz"
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.write('{"schemaVersion": 1, "traceEvents": [\n')
        for at in range(count):
            file.write(
                f'{{"ph": "X", "cat": "kernel", "name": "kernel {at} of many", "pid": 0, "tid": 7, "ts": {at * 10}, '
                f'"dur": 8, {ARGS}}},\n'
            )
        file.write('{"ph": "X", "cat": "cpu_op", "name": "last", "pid": 1, "tid": 1, "ts": 1, "dur": 5}]}')
    return path


def peak_mb(*arguments: str | Path) -> int:
    """Return the most memory that a command took."""
    done = subprocess.run([sys.executable, "-c", MEASURED, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode in (0, 3), done.stderr
    return int(done.stderr.split()[-1])


def asked(*arguments: str | Path) -> str:
    command = [sys.executable, "-m", "traceanalyzer", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 3), done.stderr
    return done.stdout


@pytest.mark.check
def test_a_million_distinct_names_are_read_in_bounded_memory(tmp_path: Path) -> None:
    path = written(tmp_path, 1_000_000)
    assert peak_mb("ingest", path, "--store", tmp_path / "store") < MEMORY_MB
    with traceanalyzer.open_run(path, store=tmp_path / "store", attribution=False) as run:
        assert run.reused
        assert run.sql("SELECT count(DISTINCT name) FROM gpu_ops").fetchall() == [(1_000_000,)]


@pytest.mark.check
def test_a_thousand_distinct_names_make_no_long_report(tmp_path: Path) -> None:
    shown = asked("diagnose", written(tmp_path, 1_000), "--store", tmp_path / "store", "-v")
    assert len(shown) < MOST_CHARACTERS
