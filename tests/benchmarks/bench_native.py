"""The native reader of JSON traces beside DuckDB's, beside an earlier build, and beside json.load.

    python tests/benchmarks/bench_native.py [--size-mb 1000] [--trace FILE] [--runs 3] [--base CHECKOUT] [--no-json]

`ingest` and `diagnose` with nothing stored, of a trace enlarged and of the trace itself, as whole processes in turn.
Each value is the median of the runs; CPU seconds are those of user and system.
"""

from __future__ import annotations

import argparse
import gzip
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from processes import JSON_LOAD, Cost, machine, python, run

ROOT = Path(__file__).resolve().parents[2]
DEFAULT_TRACE = ROOT.parent / "shared/corpus/kineto/h100_owlv2_inference.json.gz"
_COMMAND = """
import os, shutil, sys
checkout, reader, store = sys.argv[1:4]
sys.path.insert(0, checkout)
if reader: os.environ["TRACEANALYZER_READER"] = reader
from traceanalyzer.__main__ import start
shutil.rmtree(store, ignore_errors=True)
sys.argv[1:] = [*sys.argv[4:], "--store", store]
start()
"""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size-mb", type=int, default=1000)
    parser.add_argument("--trace", type=Path, default=DEFAULT_TRACE)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--base", type=Path, help="a checkout of an earlier commit, to compare with")
    parser.add_argument("--no-json", action="store_true", help="leave json.load out")
    options = parser.parse_args()
    builds = {"base": (options.base, "")} if options.base else {}
    builds |= {"DuckDB": (ROOT, "duckdb"), "native": (ROOT, "native")}
    os.environ.pop("PYTHONPATH", None)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"Readers of JSON traces ({machine()}); medians of {options.runs} runs in turn\n")
        print(
            f"| what | {' | '.join(f'{build}: CPU s, peak MB' for build in builds)} | native / {next(iter(builds))} |"
        )
        print(f"|---|{'---:|' * len(builds)}---:|", flush=True)
        traces = _traces(options.trace, folder, options.size_mb)
        for trace in traces:
            label = f"{trace.stat().st_size / 1e6:.0f} MB"
            for words in (["ingest", "--quiet"], ["diagnose"]):
                commands = {
                    build: python(_COMMAND, checkout, reader, folder / "store", words[0], trace, *words[1:])
                    for build, (checkout, reader) in builds.items()
                }
                costs: dict[str, list[Cost]] = {build: [] for build in commands}
                for _ in range(options.runs):
                    for build, command in commands.items():
                        costs[build].append(run(command))
                _show(f"`{words[0]}` of {label}", costs)
        for trace in () if options.no_json else traces:
            cost = run(python(JSON_LOAD, trace))
            label = f"{trace.stat().st_size / 1e6:.0f} MB"
            print(f"\njson.load of {label}: {cost.cpu_s:.2f} CPU s, {cost.peak_mb:.0f} MB", flush=True)


def _traces(trace: Path, folder: Path, size_mb: int) -> list[Path]:
    small = folder / "small.json"
    small.write_bytes(gzip.decompress(trace.read_bytes()))
    run([sys.executable, str(Path(__file__).parent / "enlarge.py"), str(trace), str(folder), str(size_mb), "--plain"])
    return [folder / "big.json", small]


def _show(what: str, costs: dict[str, list[Cost]]) -> None:
    def middle(build: str, value: Callable[[Cost], float]) -> float:
        return statistics.median(value(cost) for cost in costs[build])

    values = [
        f"{middle(build, lambda cost: cost.cpu_s):.2f}, {middle(build, lambda cost: cost.peak_mb):.0f}"
        for build in costs
    ]
    first, last = next(iter(costs)), list(costs)[-1]
    ratios = [own.cpu_s / other.cpu_s for own, other in zip(costs[last], costs[first], strict=True)]
    print(f"| {what} | {' | '.join(values)} | {statistics.median(ratios):.2f} |", flush=True)


if __name__ == "__main__":
    main()
