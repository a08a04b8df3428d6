"""Attribution and every metric on a store of 2.4 million events, on one a tenth of it, and on one ten times it.

    python tests/benchmarks/bench_attribution.py [--sizes-mb 100,1000,10000] [--trace FILE] [--runs 3]

The trace is a real one enlarged with shifted times and ids, ingested before the clock starts. Whole processes; a
metric is asked for all its rows, which go into Parquet files. Beside it, where it fits into memory, what `json.load`
takes for the same file: seconds differ from machine to machine, and from minute to minute, more than the ratio does.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from processes import JSON_LOAD, Cost, machine, median, python, run

ROOT = Path(__file__).resolve().parents[2]
DEFAULT_TRACE = ROOT.parent / "shared/corpus/kineto/h100_owlv2_inference.json.gz"
_INGEST = """
import sys
from traceanalyzer.cli import main
sys.exit(main(["ingest", sys.argv[1], "--store", sys.argv[2], "--quiet"]))
"""
_YARDSTICK = "`json.load` of the file"
_MOST_MB_OF_JSON = 2000
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
        with open_run(file, store=store, attribution=False) as opened:
            ((events, ops),) = opened.sql(
                "SELECT sum(event_count), (SELECT count(*) FROM gpu_ops) FROM traces"
            ).fetchall()
        commands = {
            "open and attribution": python(_ATTRIBUTION, file, store),
            "open, attribution, all metrics": python(_METRICS, file, store),
        }
        if size_mb <= _MOST_MB_OF_JSON:
            commands[_YARDSTICK] = python(JSON_LOAD, file)
        found: dict[str, list[Cost]] = {name: [] for name in commands}
        for _ in range(runs):
            for name, command in commands.items():
                found[name].append(run(command))
    return int(events), int(ops), {name: median(measured) for name, measured in found.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes-mb", default="100,1000,10000")
    parser.add_argument("--trace", type=Path, default=DEFAULT_TRACE)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    print(f"{machine()}. Median of {options.runs}.\n")
    print("| events | GPU operations | | time | CPU | peak memory | time to `json.load`'s |")
    print("|---:|---:|---|---:|---:|---:|---:|")
    for size_mb in map(int, options.sizes_mb.split(",")):
        events, ops, found = costs(options.trace, size_mb, options.runs)
        yardstick = found.get(_YARDSTICK)
        for name, cost in found.items():
            ratio = f"{cost.wall_s / yardstick.wall_s:.2f}" if yardstick else ""
            print(
                f"| {events:,} | {ops:,} | {name} | {cost.wall_s:.2f} s | {cost.cpu_s:.2f} s | {cost.peak_mb:,.0f} MB "
                f"| {ratio} |"
            )


if __name__ == "__main__":
    main()
