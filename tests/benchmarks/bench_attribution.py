"""Attribution and every metric on a store of 2.4 million events, on one a tenth of it, and on one ten times it.

    python tests/benchmarks/bench_attribution.py [--sizes-mb 100,1000,10000] [--trace FILE] [--runs 3]

The trace is a real one enlarged with shifted times and ids, ingested before the clock starts. Whole processes; a
metric is asked for all its rows, which go into Parquet files. Beside it, where it fits into memory, what `json.load`
takes for the same file: seconds differ from machine to machine, and from minute to minute, more than the ratio does.

The second table holds both bars: metrics that came after attribution take less than it does, and attribution with all
metrics takes a fifth of what `json.load` takes.
"""

from __future__ import annotations

import argparse
import json
import statistics
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
# What was there when attribution's time became the bar for what is added.
_FIRST_METRICS = """
allocations capabilities capability_kinds collective_matches collectives comm_share copies cuda_api_sum
cuda_gpu_kern_sum cuda_gpu_mem_size_sum cuda_gpu_mem_time_sum cuda_kern_exec_sum cuda_kern_exec_trace defects
device_activity device_peaks device_time device_utilisation engine_time gap_sizes gpu_op_origins
hardware_peaks host_cause_bounds host_waits kernel_class kernel_class_names kernel_class_patterns kernel_gaps
kernel_summary launches matrix_products nvtx_gpu_proj_sum nvtx_sum occupancy op_summary osrt_sum programs
queue_depth queue_depth_changes run_ledger sm_efficiency step_breakdown steps tensorboard_steps time_ledger
trace_files unfused_attention
"""
_MOST_SHARE_OF_YARDSTICK = 0.2
# The bars are for a gigabyte: 2.4 million events.
_MB_OF_BARS = 1000
_METRICS = (
    _FORGET
    + """
with open_run(sys.argv[1], store=sys.argv[2], attribution=False) as run:
    run.export(Path(sys.argv[2]) / "metrics")
"""
)


# CPU seconds of each metric, one after another on one core, as an export computes and writes them.
_EACH_METRIC = """
import sys, json, tempfile, time
from pathlib import Path
from traceanalyzer.query.metric_files import LAYOUTS, compute_metrics
from traceanalyzer.metrics import metrics
from traceanalyzer.run import open_run
ends = {}
with open_run(sys.argv[1], store=sys.argv[2]) as run, tempfile.TemporaryDirectory() as folder:
    def take(connection, name, query):
        connection.execute(f"COPY ({query}) TO '{folder}/{name}' ({LAYOUTS['parquet']})")
        ends[name] = time.process_time()
    before = time.process_time()
    compute_metrics(run.traces, lambda: run.derived, list(metrics()), take, jobs=1)
starts = [before, *ends.values()]
Path(sys.argv[3]).write_text(json.dumps({name: end - start for (name, end), start in zip(ends.items(), starts)}))
"""


def costs(trace: Path, size_mb: int, runs: int) -> tuple[int, int, dict[str, Cost], list[float]]:
    """Return events, GPU operations, and what attribution alone, and with all metrics, costs.

    The last are the CPU seconds of the metrics that are not among the first ones, in each run.
    """
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
        newer: list[float] = []
        for _ in range(runs):
            for name, command in commands.items():
                found[name].append(run(command))
            run(python(_EACH_METRIC, file, store, folder / "each.json"))
            each = json.loads((folder / "each.json").read_text())
            newer.append(sum(cpu_s for name, cpu_s in each.items() if name not in _FIRST_METRICS.split()))
    return int(events), int(ops), {name: median(measured) for name, measured in found.items()}, newer


def bars(events: int, found: dict[str, Cost], newer: list[float]) -> list[str]:
    """Return the rows of the second table: each bar, what was measured, and whether it is held."""
    attribution, whole = found["open and attribution"], found["open, attribution, all metrics"]
    cpu_s = statistics.median(newer)
    rows = [
        (
            "CPU of newer metrics to that of opening and attribution",
            f"{cpu_s:.2f} s to {attribution.cpu_s:.2f} s",
            cpu_s / attribution.cpu_s,
            1.0,
        ),
        (
            "time of all metrics to that of opening and attribution",
            f"{whole.wall_s - attribution.wall_s:.2f} s to {attribution.wall_s:.2f} s",
            whole.wall_s / attribution.wall_s - 1,
            1.0,
        ),
    ]
    if yardstick := found.get(_YARDSTICK):
        for what, ours, theirs in (
            ("time", whole.wall_s, yardstick.wall_s),
            ("CPU", whole.cpu_s, yardstick.cpu_s),
        ):
            rows.append(
                (
                    f"{what} of opening, attribution and all metrics to that of {_YARDSTICK}",
                    f"{ours:.2f} s to {theirs:.2f} s",
                    ours / theirs,
                    _MOST_SHARE_OF_YARDSTICK,
                )
            )
    return [
        f"| {events:,} | {what} | {measured} | {ratio:.2f} | {bar:g} | {'held' if ratio <= bar else 'missed'} |"
        for what, measured, ratio, bar in rows
    ]


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
    held: list[str] = []
    for size_mb in map(int, options.sizes_mb.split(",")):
        events, ops, found, newer = costs(options.trace, size_mb, options.runs)
        if size_mb == _MB_OF_BARS:
            held += bars(events, found, newer)
        yardstick = found.get(_YARDSTICK)
        for name, cost in found.items():
            ratio = f"{cost.wall_s / yardstick.wall_s:.2f}" if yardstick else ""
            print(
                f"| {events:,} | {ops:,} | {name} | {cost.wall_s:.2f} s | {cost.cpu_s:.2f} s | {cost.peak_mb:,.0f} MB "
                f"| {ratio} |"
            )
    if held:
        print("\n| events | | measured | ratio | bar | |\n|---:|---|---:|---:|---:|---|")
        print(*held, sep="\n")


if __name__ == "__main__":
    main()
