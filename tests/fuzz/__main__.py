"""Try mutations for so many seconds: python -m fuzz SECONDS [SEED]; what fails is kept in tests/crashers."""

from __future__ import annotations

import hashlib
import os
import random
import re
import sys
import tempfile
import time
from pathlib import Path

from fuzz.mutating import mutate_json, mutate_sqlite, small_json, small_sqlite
from fuzz.trying import fault_of
from traceanalyzer.pipeline.finding import STORE_NAME

ROOT = Path(__file__).parents[2]
CRASHERS = ROOT / "tests" / "crashers"
# Larger traces take long to cut, and hold the same kinds of events.
MOST_BYTES = {".json": 2 * 2**20, ".gz": 100 * 2**10, ".sqlite": 3 * 2**20}
# How many times as many mutations are only ingested as go the whole way.
INGESTED_A_WHOLE = 4


def seeds(scratch: Path) -> list[tuple[str, bytes]]:
    """Return small traces made from the samples, and from the corpus where it is there."""
    corpus = Path(os.environ.get("TRACEANALYZER_CORPUS", ROOT.parent / "shared" / "corpus"))
    files = [path for folder in (ROOT / "sample_traces", corpus) for path in sorted(folder.rglob("*"))]
    found = []
    for path in files:
        if {"expected", STORE_NAME}.intersection(path.parts):
            continue
        if path.is_file() and path.stat().st_size <= MOST_BYTES.get(path.suffix, 0):
            if path.suffix == ".sqlite":
                found.append(("trace.sqlite", small_sqlite(path, scratch / "seed.sqlite")))
            elif path.name.endswith((".json", ".json.gz")):
                found.append(("trace.json", small_json(path)))
    return found


def run(seconds: float, seed: int) -> int:
    """Try mutations, print what fails, and return how many different faults there were."""
    chosen = random.Random(seed)
    faults: set[str] = set()
    count = {"ingest": 0, "diagnose": 0}
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        sources = seeds(scratch)
        print(f"seed {seed}: {len(sources)} traces to mutate", flush=True)
        started = time.monotonic()
        while time.monotonic() - started < seconds:
            name, data = chosen.choice(sources)
            json_like = name.endswith(".json")
            mutated = mutate_json(data, chosen) if json_like else mutate_sqlite(data, chosen, scratch / name)
            whole = chosen.randrange(INGESTED_A_WHOLE + 1) == 0
            fault = fault_of(mutated.data, name, whole=whole, is_readable=mutated.is_readable)
            count["diagnose" if whole else "ingest"] += 1
            if fault is not None and (kind := re.sub(r"\d+|/\S+", "", fault)[:160]) not in faults:
                faults.add(kind)
                kept = CRASHERS / f"{hashlib.sha1(mutated.data).hexdigest()[:10]}{Path(name).suffix}"
                kept.write_bytes(mutated.data)
                print(f"{kept.name}: {fault.strip()}", flush=True)
        took_s = time.monotonic() - started
    print(f"{sum(count.values())} executions in {took_s:.0f} s ({count}), {len(faults)} faults")
    return len(faults)


if __name__ == "__main__":
    length_s = float(sys.argv[1]) if len(sys.argv) > 1 else 600.0
    sys.exit(min(1, run(length_s, int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns())))
