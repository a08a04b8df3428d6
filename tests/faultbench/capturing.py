"""Starts the jobs of torch_cpu.py in processes of their own: nothing here needs PyTorch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

REDUCTIONS = 100
RANKS = {"reductions": 2}


def capture(name: str, folder: Path) -> dict[str, float]:
    """Capture both variants of a job; returns ms a step without the profiler."""
    for variant in ("fault", "twin"):
        world = RANKS.get(name, 1)
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511", "WORLD_SIZE": str(world)}
        # What this process may import, its children may too: a test has this folder from pytest's settings alone.
        place["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        command = [sys.executable, "-m", "faultbench.torch_cpu", name, variant, str(folder)]
        running = [subprocess.Popen(command, env={**os.environ, **place, "RANK": str(rank)}) for rank in range(world)]
        exit_codes = [process.wait() for process in running]
        if any(exit_codes):
            raise RuntimeError(f"capturing {name}, {variant} failed")
    return {variant: float((folder / f"{variant}-0.ms").read_text()) for variant in ("fault", "twin")}
