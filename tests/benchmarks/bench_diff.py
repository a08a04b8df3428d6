"""What a comparison costs: `diff` of two summaries, and of two runs that were diagnosed before, start-up included.

    python tests/benchmarks/bench_diff.py [--runs 5]

The runs are two captures of a training of ResNet-50, 5 MB each. All run as whole processes; the CPU seconds say what a
command takes where other jobs hold the cores.
"""

from __future__ import annotations

import argparse
import gzip
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from processes import Cost, machine, median, run

CORPUS = Path(os.environ.get("TRACEANALYZER_CORPUS", Path(__file__).resolve().parents[2].parent / "shared/corpus"))
CAPTURES = (
    CORPUS / "kineto/resnet50_num_workers_0/worker0.1623143566756.pt.trace.json.gz",
    CORPUS / "more/resnet50_num_workers_4/worker0.1623213129365.pt.trace.json.gz",
)


def traceanalyzer(*arguments: str | Path) -> Cost:
    """Return what a whole command costs."""
    return run([sys.executable, "-m", "traceanalyzer", *map(str, arguments)])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        runs, summaries = [], []
        for side, capture in zip(("base", "new"), CAPTURES, strict=True):
            folder, summary = Path(name) / side, Path(name) / f"{side}.json"
            folder.mkdir()
            (folder / "rank0.json").write_bytes(gzip.decompress(capture.read_bytes()))
            traceanalyzer("export", "baseline", summary, folder)
            runs.append(folder)
            summaries.append(summary)
        print(f"`diff` ({machine()}); medians of {options.runs} whole processes\n")
        print("| of | time | CPU | peak memory |\n|---|---:|---:|---:|")
        for what, sides in (("two summaries", summaries), ("two runs, warm", runs)):
            cost = median([traceanalyzer("diff", *sides) for _ in range(options.runs)])
            print(f"| {what} | {cost.wall_s:.2f} s | {cost.cpu_s:.2f} s | {cost.peak_mb:.0f} MB |", flush=True)


if __name__ == "__main__":
    main()
