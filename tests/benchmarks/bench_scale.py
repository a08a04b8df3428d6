"""The acceptance table of runs of many ranks: what each thing may take at most, and what it takes here.

    python tests/benchmarks/bench_scale.py [--ranks 256] [--rank-mb 73] [--worker-mb 1 73 1000] [--jobs FOLDER]

Ratios are of CPU seconds, as other programs share the machine, except where it says wall. The job has a late loader, a
slow GPU, a slow host and a slow node, and one file is missing. `--jobs` keeps the jobs for the next time.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench_growth import DEFAULT_TRACE, RANKS, enlarged
from processes import machine, run

MISSING = 100
FEW = 8
EMPTY_TASKS = 300


def row(what: str, bar: str, value: str) -> None:
    """Print a row of the table."""
    print(f"| {what} | {bar} | {value} |", flush=True)


def command(name: str, source: Path, store: Path, *more: str) -> list[str]:
    """Return a command over a run, with a store of its own."""
    return [sys.executable, "-m", "traceanalyzer", name, str(source), "--store", str(store), "--quiet", *more]


def planted(jobs: Path, ranks: int) -> Path:
    """Return the folder of a job with its culprits, simulated where it is not there."""
    folder = jobs / f"planted{ranks}"
    if not folder.exists():
        from workloads.wide_jobs import planted_job

        from traceanalyzer.simulator import simulate_job

        fresh = jobs / f"fresh{ranks}"
        fresh.mkdir(parents=True)
        simulate_job(planted_job(ranks), seed=1).write_kineto(fresh, suffix=".json.gz")
        fresh.rename(folder)
    return folder


def culprits(ranks: int, report: str, diagnosis: dict[str, list[dict[str, object]]]) -> tuple[int, int]:
    """Return how many culprits a report names, and how many there are: three ranks, a node, and a missing file."""
    from workloads.wide_jobs import Planted

    there = Planted.among(ranks)
    out = {item["rank"] for item in diagnosis["ranks"] if item["stands_out"]}
    alone = [f"rank {rank} " in report for rank in (there.late_loader, there.slow_gpu, there.slow_host)]
    found = [*alone, out == there.ranks, f"{ranks - 1} of {ranks} ranks are in the run" in report]
    return sum(found), len(found)


def many_ranks(jobs: Path, ranks: int, stores: Path) -> None:
    """Print what a run of many ranks takes, beside one of few, and what its report says."""
    few, many = planted(jobs, FEW * 4), planted(jobs, ranks)
    missing = many / f"rank{MISSING}.json.gz"
    aside = jobs / missing.name
    missing.rename(aside)
    try:
        of_few = run(command("diagnose", few, stores / "few"))
        of_many = run(command("diagnose", many, stores / "many"))
        again = run(command("diagnose", many, stores / "many"))
        report, document = (
            subprocess.run(
                command("diagnose", many, stores / "many", "--format", format_),
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            for format_ in ("terminal", "json")
        )
    finally:
        aside.rename(missing)
    named, there = culprits(ranks, report, json.loads(document))
    ratio = of_many.cpu_s / (of_few.cpu_s * ranks / (FEW * 4))
    row(f"CPU of {ranks} ranks / {ranks // (FEW * 4)} × that of {FEW * 4}", "≤ 1.1", f"{ratio:.2f}")
    row(f"CPU of {ranks} ranks, peak of the command", "—", f"{of_many.cpu_s:.0f} s, {of_many.peak_mb:.0f} MB")
    row(f"culprits named by the default report of {ranks} ranks", f"all {there}", f"{named}")
    row("its lines", "≤ 150", f"{report.count(chr(10))}")
    row("second run of it, nothing new", "≤ 60 s", f"{again.wall_s:.1f} s wall, {again.cpu_s:.1f} s CPU")


def workers(jobs: Path, source: Path, sizes_mb: list[int], stores: Path) -> None:
    """Print the peak of a process that reads and attributes one trace of each size."""
    bars = {1: "≤ 300 MB", 73: "≤ 450 MB", 1_000: "≤ 1,200 MB"}
    for size_mb in sizes_mb:
        folder = jobs / f"one{size_mb}"
        trace = folder / "big.json" if folder.exists() else enlarged(source, folder, size_mb)
        part = [*command("part", trace, stores / f"one{size_mb}"), "--index", "0", "--of", "1", "--jobs", "1"]
        costs = [run(part), run(part)]  # the second one attributes what the first one read
        peak = max(cost.peak_mb for cost in costs)
        row(f"worker's peak, a trace of {size_mb:,} MB", bars.get(size_mb, "—"), f"{peak:.0f} MB")


def on_workers(jobs: Path, source: Path, rank_mb: int, stores: Path) -> None:
    """Print what eight ranks take on two processes of a cluster, beside two threads."""
    folder = jobs / f"eight{rank_mb}"
    if not folder.exists():
        first = enlarged(source, folder, rank_mb)
        for rank in range(RANKS):
            os.link(first, folder / f"rank{rank}.json")
        first.unlink()
    # `diagnose` of a run that is read already is left out on both sides.
    threads = run(command("ingest", folder, stores / "threads", "--jobs", "2"))
    cluster = run(command("ingest", folder, stores / "cluster", "--cluster", "local:2"))
    row(f"CPU of {RANKS} × {rank_mb} MB on 2 processes / 2 threads", "≤ 1.15", f"{cluster.cpu_s / threads.cpu_s:.2f}")
    row("the same, wall", "≤ 1.0", f"{cluster.wall_s / threads.wall_s:.2f}")


class CountedTasks(ThreadPoolExecutor):
    """Runs tasks, and counts them."""

    count = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.count += 1
        return super().submit(fn, *args, **kwargs)


def tasks(jobs: Path, stores: Path) -> None:
    """Print how many tasks a rank takes, to be read and attributed."""
    from traceanalyzer.run import open_run

    ranks = FEW * 4
    with CountedTasks(1) as executor, open_run(planted(jobs, ranks), store=stores / "counted", executor=executor):
        row("tasks a rank", "≤ 16", f"{executor.count / ranks:.1f}")


def scheduler() -> None:
    """Print what the scheduler takes for a task that does nothing."""
    from traceanalyzer.cluster.address import parse_cluster
    from traceanalyzer.cluster.dask_executor import DaskExecutor

    with DaskExecutor(parse_cluster("local:1")) as executor:
        executor.submit(int).result()
        started = time.process_time()
        for future in [executor.submit(int, number) for number in range(EMPTY_TASKS)]:
            future.result()
        spent_ms = 1000 * (time.process_time() - started) / EMPTY_TASKS
    row("client and scheduler, CPU a task", "≤ 2 ms", f"{spent_ms:.1f} ms")


def coordinator() -> None:
    """Print the rows of bench_cards.py."""
    script = Path(__file__).parent / "bench_cards.py"
    output = subprocess.run(
        [sys.executable, str(script), "--ranks", "4096"], check=True, capture_output=True, text=True
    ).stdout
    for line in io.StringIO(output.partition("| what | bar | value |")[2]):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 3 and cells[1].replace(",", "").isdigit():
            row(cells[0], f"≤ {cells[1]}", cells[2])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=256)
    parser.add_argument("--rank-mb", type=int, default=73)
    parser.add_argument("--worker-mb", type=int, nargs="+", default=[1, 73, 1_000])
    parser.add_argument("--trace", type=Path, default=DEFAULT_TRACE, help="the small one that is enlarged")
    parser.add_argument("--jobs", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        stores, jobs = Path(name) / "stores", options.jobs or Path(name)
        stores.mkdir()
        print(f"Acceptance of many ranks ({machine()})\n\n| what | bar | value |\n|---|---:|---:|")
        parts: list[Callable[[], None]] = [
            lambda: on_workers(jobs, options.trace, options.rank_mb, stores),
            lambda: many_ranks(jobs, options.ranks, stores),
            lambda: workers(jobs, options.trace, options.worker_mb, stores),
            coordinator,
            scheduler,
            lambda: tasks(jobs, stores),
        ]
        for part in parts:
            part()


if __name__ == "__main__":
    main()
