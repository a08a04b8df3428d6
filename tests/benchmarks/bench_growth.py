"""How ingest grows: one trace from 1 MB to 4 GB, and eight ranks on one core and on all.

    python tests/benchmarks/bench_growth.py [--sizes-mb 1 10 100 1000 4000] [--trace FILE] [--rank-mb 100]

The trace is a small real one enlarged with shifted times and ids. All run as whole processes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from processes import Cost, machine, run

ROOT = Path(__file__).resolve().parents[2]
DEFAULT_TRACE = ROOT.parent / "shared/corpus/kineto/h100_bert_small.json.gz"
RANKS = 8


def ingest(source: Path, store: Path, jobs: int) -> Cost:
    """Return what it costs to ingest a file or folder into a store that does not exist yet."""
    shutil.rmtree(store, ignore_errors=True)
    command = [sys.executable, "-m", "traceanalyzer", "ingest", str(source), "--store", str(store), "--quiet"]
    return run([*command, "--jobs", str(jobs)])


def enlarged(trace: Path, folder: Path, size_mb: int) -> Path:
    """Return a trace of the given size, the only file in its folder."""
    folder.mkdir()
    run([sys.executable, str(Path(__file__).parent / "enlarge.py"), str(trace), str(folder), str(size_mb), "--plain"])
    return folder / "big.json"


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes-mb", type=int, nargs="+", default=[1, 10, 100, 1000, 4000])
    parser.add_argument("--trace", type=Path, default=DEFAULT_TRACE)
    parser.add_argument("--rank-mb", type=int, default=100)
    options = parser.parse_args()
    cores = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"Ingest by size ({machine()})\n")
        print("| size MB | wall s | CPU s | CPU s a GB | peak MB |\n|---:|---:|---:|---:|---:|")
        for size_mb in options.sizes_mb:
            trace = enlarged(options.trace, folder / str(size_mb), size_mb)
            cost = ingest(trace, folder / "store", cores)
            bytes_read = trace.stat().st_size
            shutil.rmtree(trace.parent)
            gigabytes = bytes_read / 1e9
            print(
                f"| {1000 * gigabytes:,.0f} | {cost.wall_s:.2f} | {cost.cpu_s:.2f} | {cost.cpu_s / gigabytes:.1f} "
                f"| {cost.peak_mb:.0f} |",
                flush=True,
            )
        first = enlarged(options.trace, folder / "run", options.rank_mb)
        for rank in range(RANKS):
            os.link(first, folder / "run" / f"rank{rank}.json")
        first.unlink()
        print(f"\nIngest of {RANKS} ranks of {options.rank_mb} MB each\n")
        print("| cores | wall s | CPU s | peak MB |\n|---:|---:|---:|---:|")
        for jobs in sorted({1, cores}):
            cost = ingest(folder / "run", folder / "store", jobs)
            print(f"| {jobs} | {cost.wall_s:.2f} | {cost.cpu_s:.2f} | {cost.peak_mb:.0f} |", flush=True)


if __name__ == "__main__":
    main()
