"""Whole processes timed from outside: wall seconds, CPU seconds and peak memory, as the system accounts for them."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# What Python itself takes to read a trace: the yardstick of a machine.
JSON_LOAD = "import sys, json; json.load(open(sys.argv[1], 'rb'))"


@dataclass(frozen=True)
class Cost:
    """What one run of a command cost."""

    wall_s: float
    cpu_s: float
    peak_mb: float


def run(command: Sequence[str]) -> Cost:
    """Run a command to its end and return its cost; its output is thrown away."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    complaint = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise RuntimeError(f"{' '.join(command)}: {complaint.decode(errors='replace')[-2000:]}")
    wall_s = time.perf_counter() - started
    return Cost(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def median(costs: Sequence[Cost]) -> Cost:
    """Return the run with the median wall time."""
    middle = statistics.median_low([cost.wall_s for cost in costs])
    return next(cost for cost in costs if cost.wall_s == middle)


def python(script: str, *arguments: str | Path) -> list[str]:
    """Return the command that runs a piece of Python in this environment."""
    return [sys.executable, "-c", script, *map(str, arguments)]


def machine() -> str:
    """Return one line about the machine."""
    load = os.getloadavg()[0]
    return f"{os.cpu_count()} cores, load {load:.1f} at the start, Python {sys.version.split()[0]}"


def own_peak_mb() -> float:
    """Return the peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
