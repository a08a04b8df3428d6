"""Ingest and diagnosis of a PyTorch profiler trace, beside HTA's load, json.load and a bare DuckDB copy.

    python tests/benchmarks/bench_ingest.py [--size-mb 1000] [--trace FILE] [--runs 3] [--no-hta]

The trace is a real one enlarged with shifted times and ids. All run as whole processes, in turn.
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
import sys, shutil
from traceanalyzer.__main__ import start
shutil.rmtree(sys.argv[2], ignore_errors=True)
sys.argv[1:] = ["ingest", sys.argv[1], "--store", sys.argv[2], "--quiet"]
start()
"""
_DIAGNOSE = _INGEST.replace('"ingest"', '"diagnose"')
BARE_COPY = """
import sys, duckdb
duckdb.sql("SET preserve_insertion_order = false")
rows = duckdb.read_json(sys.argv[1], format="array", maximum_object_size=2**26, columns={
    "ph": "VARCHAR", "cat": "VARCHAR", "name": "VARCHAR", "pid": "VARCHAR", "tid": "VARCHAR", "ts": "DOUBLE",
    "dur": "DOUBLE", "id": "VARCHAR", "bp": "VARCHAR", "s": "VARCHAR", "args": "JSON"})
rows.write_parquet(sys.argv[2], compression="zstd")
"""
HTA_LOAD = """
import sys, logging
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
TraceAnalysis(trace_files={0: sys.argv[1]})
"""


def prepare(trace: Path, folder: Path, size_mb: int) -> dict[str, Path]:
    """Write the enlarged trace as JSON, gzip and bare event array, in a process that takes its memory with it."""
    run([sys.executable, str(Path(__file__).parent / "enlarge.py"), str(trace), str(folder), str(size_mb)])
    return {"json": folder / "big.json", "gzip": folder / "big.json.gz", "array": folder / "array.json"}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size-mb", type=int, default=1000)
    parser.add_argument("--trace", type=Path, default=DEFAULT_TRACE)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--no-hta", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        about = machine()
        files = prepare(options.trace, folder, options.size_mb)
        commands = {
            "traceanalyzer ingest .json": python(_INGEST, files["json"], folder / "store"),
            "traceanalyzer ingest .json.gz": python(_INGEST, files["gzip"], folder / "store"),
            "traceanalyzer diagnose .json, nothing stored": python(_DIAGNOSE, files["json"], folder / "store"),
            "bare DuckDB read_json to Parquet": python(BARE_COPY, files["array"], folder / "bare.parquet"),
            "json.load": python(JSON_LOAD, files["json"]),
            "HTA load": python(HTA_LOAD, files["json"]),
        }
        slow = {"json.load", "HTA load"}
        if options.no_hta:
            del commands["HTA load"]
        costs: dict[str, list[Cost]] = {name: [] for name in commands}
        for turn in range(options.runs):
            for name, command in commands.items():
                if turn == 0 or name not in slow:
                    costs[name].append(run(command))
        show(about, options.size_mb, {name: median(runs) for name, runs in costs.items()})


def show(about: str, size_mb: int, costs: dict[str, Cost]) -> None:
    """Print costs and ratios as a Markdown table."""
    own = costs["traceanalyzer ingest .json"]
    print(f"Ingest of a {size_mb} MB trace ({about}); medians of whole processes, ratio to our .json\n")
    print("| | wall s | CPU s | peak MB | wall / ours |")
    print("|---|---|---|---|---|")
    for name, cost in costs.items():
        ratio = cost.wall_s / own.wall_s
        print(f"| {name} | {cost.wall_s:.1f} | {cost.cpu_s:.1f} | {cost.peak_mb:.0f} | {ratio:.2f} |")
    bare = costs["bare DuckDB read_json to Parquet"].wall_s
    cold = costs["traceanalyzer diagnose .json, nothing stored"]
    print("\n| what | bar | value |\n|---|---:|---:|")
    print(f"| ingest to the bare copy, wall | 1.5 | {own.wall_s / bare:.1f} |")
    print(f"| diagnose with nothing stored to the bare copy, wall | 3.0 | {cold.wall_s / bare:.1f} |")
    print(f"| peak of ingest, MB | 700 | {own.peak_mb:.0f} |")


if __name__ == "__main__":
    main()
