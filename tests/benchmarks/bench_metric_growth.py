"""How every metric and rule grows with its trace: one trace several times in a row in time, for both formats.

    python tests/benchmarks/bench_metric_growth.py [--kineto FILE --times 4 16 64] [--nsys FILE --nsys-times 8 32]
        [--recordings 2 4 8]

With `--recordings`, also how they grow with the number of recordings of one rank, each of the shortest of these traces.

Each metric is computed alone, over the tables and metrics that it reads, in CPU seconds of the process. A rule has the
queries of its own that a diagnosis asks, evidence among them; metrics that several rules read were made before. An
exponent is the slope between the two longest traces: 1 is linear. Only what takes LEAST_S or longer there has one:
below, planning is all there is.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).parent))

from enlarge import enlarge_events, enlarge_export, record_again
from processes import machine, run

from traceanalyzer.query.engine import metrics
from traceanalyzer.rules.evaluation import sandbox
from traceanalyzer.rules.evaluation.interventions import claimed_sql
from traceanalyzer.rules.rule_set.loading import load_rules
from traceanalyzer.run import open_run

ROOT = Path(__file__).resolve().parents[2]
KINETO = ROOT / "sample_traces" / "slow_loader" / "rank0.json.gz"
LEAST_S = 0.1
WORST = 5


def metric_costs(trace: Path, store: Path) -> dict[str, float]:
    """Return the CPU seconds of every metric of a run."""
    costs = {}
    with open_run(trace, store=store) as opened:
        connection = opened.connection
        connection.execute("SELECT 1").fetchall()
        for name in metrics():
            before = time.process_time()
            connection.execute(f"CREATE OR REPLACE TEMP TABLE measured AS FROM {name}")
            costs[name] = time.process_time() - before
    return costs


def rule_costs(trace: Path, store: Path) -> dict[str, float]:
    """Return the CPU seconds of the queries of every rule in a diagnosis of a run."""
    rules = load_rules(tests=False)
    texts = {
        text: rule.id
        for rule in rules
        for text in (
            rule.select,
            claimed_sql(rule),
            rule.op_saving,
            rule.claims.compute_ops,
            *(item.select for item in rule.evidence),
        )
        if text
    }
    costs = dict.fromkeys((rule.id for rule in rules), 0.0)
    ask = sandbox.query

    def timed(con: Any, sql: str, *others: Any) -> sandbox.Rows:
        before = time.process_time()
        try:
            return ask(con, sql, *others)
        finally:
            asking = next((rule for text, rule in texts.items() if text in sql), None)
            if asking is not None:
                costs[asking] += time.process_time() - before

    with open_run(trace, store=store) as opened, mock.patch.object(sandbox, "query", timed):
        opened.diagnose()
    return costs


def exponents(times: Sequence[int], costs: Sequence[dict[str, float]]) -> Iterator[tuple[float, str]]:
    """Yield the exponent and the name of each metric that takes long enough to have one."""
    growth = math.log(times[-1] / times[-2])
    for name, cpu_s in costs[-1].items():
        if cpu_s >= LEAST_S:
            yield math.log(cpu_s / max(costs[-2][name], 1e-3)) / growth, name


def table(kind: str, traces: Sequence[Path], times: Sequence[int], folder: Path) -> None:
    """Print what a diagnosis and the metrics that grow fastest cost for each length of a trace."""
    diagnose = [sys.executable, "-m", "traceanalyzer", "diagnose", "--quiet"]
    whole = [run([*diagnose, str(trace), "--store", str(folder / f"d{trace.name}")]) for trace in traces]
    costs = [metric_costs(trace, folder / f"m{trace.name}") for trace in traces]
    lengths = (f"{count} × ({_size_mb(trace):.0f} MB)" for count, trace in zip(times, traces, strict=True))
    print(f"\n{kind}: {', '.join(lengths)}\n")
    heads = " | ".join(f"{count} ×" for count in times)
    print(f"| CPU s | {heads} | exponent |\n|---|{'---:|' * (len(times) + 1)}")
    growth = math.log(whole[-1].cpu_s / whole[-2].cpu_s) / math.log(times[-1] / times[-2])
    print(f"| diagnose, nothing stored | {' | '.join(f'{cost.cpu_s:.1f}' for cost in whole)} | {growth:.2f} |")
    print(f"| its peak MB | {' | '.join(f'{cost.peak_mb:.0f}' for cost in whole)} | |")
    worst(costs, times, "metrics")
    print(f"\n| CPU s | {heads} | exponent |\n|---|{'---:|' * (len(times) + 1)}")
    worst([rule_costs(trace, folder / f"r{trace.name}") for trace in traces], times, "rules")


def _size_mb(trace: Path) -> float:
    files = trace.iterdir() if trace.is_dir() else [trace]
    return sum(file.stat().st_size for file in files) / 1e6


def worst(costs: Sequence[dict[str, float]], times: Sequence[int], kind: str) -> None:
    """Print the rows of a table: those that grow fastest, and how many are long enough to have an exponent."""
    found = sorted(exponents(times, costs), reverse=True)
    for exponent, name in found[:WORST]:
        print(f"| {name} | {' | '.join(f'{cost[name]:.2f}' for cost in costs)} | {exponent:.2f} |", flush=True)
    print(f"\n{len(found)} of {len(costs[-1])} {kind} take {LEAST_S} s or longer.")


def main() -> None:
    """Print the tables of each format; those of exports need an export."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kineto", type=Path, default=KINETO)
    parser.add_argument("--times", type=int, nargs="+", default=[4, 16, 64])
    parser.add_argument("--nsys", type=Path)
    parser.add_argument("--nsys-times", type=int, nargs="+", default=[8, 32])
    parser.add_argument("--recordings", type=int, nargs="*", default=[])
    options = parser.parse_args()
    print(f"Growth of metrics ({machine()})")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        traces = [enlarge_events(options.kineto, folder / f"{count}.json", count) for count in options.times]
        table("PyTorch's profiler", traces, options.times, folder)
        if options.recordings:
            runs = [record_again(traces[0], folder / f"again{count}", count) for count in options.recordings]
            table("Recordings of one rank", runs, options.recordings, folder)
        if options.nsys is not None:
            exports = [enlarge_export(options.nsys, folder / f"{count}.sqlite", count) for count in options.nsys_times]
            table("Nsight Systems", exports, options.nsys_times, folder)


if __name__ == "__main__":
    main()
