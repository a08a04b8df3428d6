"""A million distinct names cost time and memory as their number, and make no report longer."""

from __future__ import annotations

import gzip
import resource
import subprocess
import sys
from pathlib import Path

import pytest

COUNT = 1_000_000
MEMORY_MB = 4_000
MOST_CHARACTERS = 60_000
ARGS = '"args": {"device": 0, "stream": 7, "correlation": 1}'


@pytest.mark.check
def test_a_million_distinct_names_are_a_run(tmp_path: Path) -> None:
    path = tmp_path / "rank0.json.gz"
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.write('{"schemaVersion": 1, "traceEvents": [\n')
        for at in range(COUNT):
            file.write(
                f'{{"ph": "X", "cat": "kernel", "name": "kernel {at} of a million", "pid": 0, "tid": 7, '
                f'"ts": {at * 10}, "dur": 8, {ARGS}}},\n'
            )
        file.write('{"ph": "X", "cat": "cpu_op", "name": "last", "pid": 1, "tid": 1, "ts": 1, "dur": 5}]}')
    command = [sys.executable, "-m", "traceanalyzer", "diagnose", str(path), "--store", str(tmp_path / "store"), "-v"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 3), done.stderr
    assert len(done.stdout) < MOST_CHARACTERS
    peak_kb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // (1 if sys.platform == "linux" else 1024)
    assert peak_kb // 1024 < MEMORY_MB
