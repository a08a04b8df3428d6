"""Simulated tables on disk, by workload and by the simulator's code: most changes leave the simulator as it is."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

Tables = Mapping[str, pa.Table]
ROOT = Path(__file__).resolve().parents[2]
MADE_OF = ("traceanalyzer/schema", "tracesim")
KEPT_S = 86_400


class Simulated(Protocol):
    """A function from a workload, as JSON, to its canonical tables."""

    def __call__(self, sim: str) -> Tables: ...


@cache
def code_hash() -> str:
    """Return the hash of all that decides what the simulator's tables hold."""
    made_of = hashlib.sha256(f"{pa.__version__} {np.__version__}".encode())
    for part in MADE_OF:
        for path in sorted((ROOT / part).rglob("*")):
            if path.suffix in (".py", ".sql"):
                made_of.update(f"\n{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return made_of.hexdigest()[:16]


def remembered(simulated: Simulated, folder: Path) -> Simulated:
    """Return the function with a memory on disk, which processes may share: a file appears whole or not at all."""

    for older in folder.iterdir():
        # Another run of other code may still be reading what is young.
        if older.name != code_hash() and time.time() - older.stat().st_mtime > KEPT_S:
            shutil.rmtree(older, ignore_errors=True)

    def looked_up(sim: str) -> Tables:
        own = folder / code_hash() / hashlib.sha256(sim.encode()).hexdigest()[:32]
        if own.is_dir():
            return {path.stem: _read(path) for path in own.iterdir()}
        tables = simulated(sim)
        unfinished = own.with_name(f"{own.name}.{os.getpid()}")
        unfinished.mkdir(parents=True, exist_ok=True)
        for name, table in tables.items():
            with pa.ipc.new_file(str(unfinished / f"{name}.arrow"), table.schema) as writer:
                writer.write_table(table)
        try:
            unfinished.rename(own)
        except OSError:  # another process was first
            shutil.rmtree(unfinished, ignore_errors=True)
        return tables

    return looked_up


def _read(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as source:
        return pa.ipc.open_file(source).read_all()
