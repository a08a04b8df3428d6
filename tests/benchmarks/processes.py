"""Whole processes timed from outside: wall seconds, CPU seconds and peak memory, as the system accounts for them."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
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
    # A process inherits the peak of the one that starts it: so a small one does.
    starter = [sys.executable, "-I", __file__, *command]
    answer = subprocess.run(starter, capture_output=True, text=True)
    if answer.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {answer.stderr[-2000:]}")
    return Cost(**json.loads(answer.stdout))


def _run_here(command: Sequence[str]) -> Cost:
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if (code := os.waitstatus_to_exitcode(status)) != 0:
        sys.exit(abs(code))
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
    """Return the peak memory of this process, without what it inherited from the one that started it."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


if __name__ == "__main__":
    print(json.dumps(asdict(_run_here(sys.argv[1:]))))
