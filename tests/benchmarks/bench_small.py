"""What a user waits for on a small trace: `diagnose` cold (nothing stored) and warm, start-up included.

    python tests/benchmarks/bench_small.py [--runs 5] [TRACE …]

Beside it what HTA needs to load the same file. All run as whole processes.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from processes import Cost, machine, median, python, run

CORPUS = Path(__file__).resolve().parents[2].parent / "shared/corpus/kineto"
DEFAULT_TRACES = [
    CORPUS / f"{name}.json.gz" for name in ("h100_vit", "mi300_vllm_piecewise_graph", "nccl_metadata_2024")
]
_HTA = """
import sys, logging
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
TraceAnalysis(trace_files={0: sys.argv[1]})
"""


def diagnose(trace: Path, store: Path) -> Cost:
    """Return what a whole `diagnose` costs."""
    return run([sys.executable, "-m", "traceanalyzer", "diagnose", str(trace), "--store", str(store)])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", type=Path, nargs="*", default=DEFAULT_TRACES)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    print(f"`diagnose` of small traces ({machine()}); medians of {options.runs} whole processes\n")
    print("| trace | MB | cold s | warm s | peak MB | HTA load s |\n|---|---:|---:|---:|---:|---:|")
    for trace in options.traces:
        with tempfile.TemporaryDirectory() as name:
            plain, store = Path(name) / "rank0.json", Path(name) / "store"
            plain.write_bytes(gzip.decompress(trace.read_bytes()))
            cold, warm = [], []
            for _ in range(options.runs):
                shutil.rmtree(store, ignore_errors=True)
                cold.append(diagnose(plain, store))
                warm.append(diagnose(plain, store))
            hta = run(python(_HTA, plain))
            print(
                f"| {trace.name.split('.')[0]} | {plain.stat().st_size / 1e6:.1f} | {median(cold).wall_s:.2f} "
                f"| {median(warm).wall_s:.2f} | {median(cold).peak_mb:.0f} | {hta.wall_s:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
