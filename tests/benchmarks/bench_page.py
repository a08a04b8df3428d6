"""What the page of a large trace costs beyond a warm `diagnose` of it, start-up included.

    python tests/benchmarks/bench_page.py [TRACE] [--size-mb 1000] [--runs 3]

`enlarge.py` makes the trace from copies of a real one's events. All run as whole processes, on tables that are there.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from enlarge import enlarge
from processes import Cost, machine, median, run

CORPUS = Path(os.environ.get("TRACEANALYZER_CORPUS", Path(__file__).resolve().parents[2].parent / "shared/corpus"))


def traceanalyzer(*arguments: str | Path) -> Cost:
    """Return what a whole command costs."""
    return run([sys.executable, "-m", "traceanalyzer", *map(str, arguments)])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path, nargs="?", default=CORPUS / "kineto/nccl_metadata_2024.json.gz")
    parser.add_argument("--size-mb", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, page = Path(name) / "run", Path(name) / "page.html"
        folder.mkdir()
        enlarge(options.trace, folder, options.size_mb * 10**6, plain=True)
        traceanalyzer("diagnose", folder)
        warm = median([traceanalyzer("diagnose", folder) for _ in range(options.runs)])
        pages = [traceanalyzer("diagnose", folder, "--format", "html", "-o", page) for _ in range(options.runs)]
        costs = {"`diagnose`, warm": warm, "the same with a page, the first": pages[0], "median of all": median(pages)}
        print(f"Page of a {options.size_mb} MB trace, {page.stat().st_size / 1e6:.2f} MB ({machine()})\n")
        print("| | wall s | CPU s | peak MB |\n|---|---:|---:|---:|")
        for what, cost in costs.items():
            print(f"| {what} | {cost.wall_s:.2f} | {cost.cpu_s:.2f} | {cost.peak_mb:.0f} |", flush=True)


if __name__ == "__main__":
    main()
