"""Attribution and every metric on a store of 2.4 million events, on one a tenth of it, and on one ten times it.

    python tests/benchmarks/bench_attribution.py [--sizes-mb 100,1000,10000] [--trace FILE] [--runs 3]

The trace is a real one enlarged with shifted times and ids, ingested before the clock starts. Whole processes; a
metric is asked for all its rows, which go into Parquet files.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from processes import Cost, machine, median, python, run

ROOT = Path(__file__).resolve().parents[2]
DEFAULT_TRACE = ROOT.parent / "shared/corpus/kineto/h100_owlv2_inference.json.gz"
_INGEST = """
import sys
from traceanalyzer.cli import main
main(["ingest", sys.argv[1], "--store", sys.argv[2], "--quiet"])
"""
# What is derived lies beside the traces in the store and is computed when it is not there.
_FORGET = """
import sys, shutil
from pathlib import Path
from traceanalyzer.run import open_run
for folder in Path(sys.argv[2]).glob("derived*"):
    shutil.rmtree(folder)
"""
_ATTRIBUTION = (
    _FORGET
    + """
with open_run(sys.argv[1], store=sys.argv[2]) as run:
    run.sql('SELECT count(*) FROM attribution.windows').fetchall()
"""
)
_METRICS = (
    _FORGET
    + """
with open_run(sys.argv[1], store=sys.argv[2], attribution=False) as run:
    run.export(Path(sys.argv[2]) / "metrics")
"""
)


def costs(trace: Path, size_mb: int, runs: int) -> tuple[int, int, dict[str, Cost]]:
    """Return events, GPU operations, and what attribution alone, and with all metrics, costs."""
    from traceanalyzer.run import open_run

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(
            [
                sys.executable,
                str(Path(__file__).parent / "enlarge.py"),
                str(trace),
                str(folder),
                str(size_mb),
                "--plain",
            ]
        )
        file, store = folder / "big.json", folder / "store"
        run(python(_INGEST, file, store))
        with open_run(file, store=store) as opened:
            ((events, ops),) = opened.sql(
                "SELECT sum(event_count), (SELECT count(*) FROM gpu_ops) FROM traces"
            ).fetchall()
        found = {
            "open and attribution": [run(python(_ATTRIBUTION, file, store)) for _ in range(runs)],
            "open, attribution, all metrics": [run(python(_METRICS, file, store)) for _ in range(runs)],
        }
    return int(events), int(ops), {name: median(measured) for name, measured in found.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes-mb", default="100,1000,10000")
    parser.add_argument("--trace", type=Path, default=DEFAULT_TRACE)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    print(f"{machine()}. Median of {options.runs}.\n")
    print("| events | GPU operations | | time | CPU | peak memory |")
    print("|---:|---:|---|---:|---:|---:|")
    for size_mb in map(int, options.sizes_mb.split(",")):
        events, ops, found = costs(options.trace, size_mb, options.runs)
        for name, cost in found.items():
            print(
                f"| {events:,} | {ops:,} | {name} | {cost.wall_s:.2f} s | {cost.cpu_s:.2f} s | {cost.peak_mb:,.0f} MB |"
            )


if __name__ == "__main__":
    main()
