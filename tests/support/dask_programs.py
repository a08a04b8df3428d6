"""A scheduler and workers of Dask as processes of their own, as on a cluster that somebody else started."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

START_S = 60.0


@contextmanager
def dask_scheduler(file: Path) -> Iterator[None]:
    """Run a scheduler meanwhile, which has written its file."""
    with _dask("scheduler", "--scheduler-file", file, "--port", "0", "--no-dashboard", "--host", "127.0.0.1"):
        until_s = time.monotonic() + START_S
        while not file.exists():
            assert time.monotonic() < until_s
            time.sleep(0.05)
        yield


def dask_worker(scheduler: Path, **environment: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """Run a worker meanwhile, which nothing starts again."""
    worker = ("worker", "--scheduler-file", scheduler, "--no-nanny", "--nthreads", "1", "--no-dashboard")
    return _dask(*worker, **environment)


@contextmanager
def _dask(*arguments: str | Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-P", "-m", "dask", *map(str, arguments)]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ | environment
    ) as process:
        try:
            yield process
        finally:
            process.kill()
