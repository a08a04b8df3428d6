"""The acceptance table of runs of many ranks: what each thing may take at most, and what it takes here.

    python tests/benchmarks/bench_scale.py [--ranks 256] [--rank-mb 73] [--worker-mb 1 73 1000] [--jobs FOLDER]
        [--only workers] [--pairs 3]

Ratios are of CPU seconds, as other programs share the machine, except where it says wall. The job has a late loader, a
slow GPU, a slow host and a slow node, and one file is missing. `--jobs` keeps the jobs for the next time. A row that
cannot be measured says why.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench_growth import DEFAULT_TRACE, RANKS, enlarged
from processes import Cost, machine, run
from worker_peaks import NotingPeaks

from traceanalyzer.errors import TraceAnalyzerError

MISSING = 100
FEW = 8
EMPTY_TASKS = 300
SOON, LATE = 5, 100
CARDS = 4_096
Measurement = Callable[["Bench"], None]


@dataclass(frozen=True)
class Bench:
    """What the rows are measured with."""

    options: argparse.Namespace
    jobs: Path
    stores: Path


def row(what: str, bar: str, value: str) -> None:
    """Print a row of the table."""
    print(f"| {what} | {bar} | {value} |", flush=True)


def command(name: str, source: Path, store: Path, *more: str) -> list[str]:
    """Return a command over a run, with a store of its own."""
    return [sys.executable, "-m", "traceanalyzer", name, str(source), "--store", str(store), "--quiet", *more]


def planted(jobs: Path, ranks: int, *, healthy: bool = False) -> Path:
    """Return the folder of a job, with its culprits unless it is `healthy`, simulated where it is not there."""
    folder = jobs / f"{'healthy' if healthy else 'planted'}{ranks}"
    if not folder.exists():
        from workloads.wide_jobs import planted_job

        from tracesim import simulate_job

        fresh = jobs / f"fresh{ranks}"
        fresh.mkdir(parents=True)
        simulate_job(planted_job(ranks, healthy=healthy), seed=1).write_kineto(fresh, suffix=".json.gz")
        fresh.rename(folder)
    return folder


def copies(jobs: Path, trace: Path, count: int) -> Path:
    """Return a folder in which a trace lies so many times."""
    folder = jobs / f"copies{count}of{trace.stat().st_size}"
    if not folder.exists():
        folder.mkdir()
        suffix = ".json.gz" if trace.name.endswith(".gz") else ".json"
        for rank in range(count):
            os.link(trace, folder / f"rank{rank}{suffix}")
    return folder


def culprits(ranks: int, report: str, diagnosis: dict[str, list[dict[str, object]]]) -> tuple[int, int]:
    """Return how many culprits a report names, and how many there are: three ranks, a node, and a missing file."""
    from workloads.wide_jobs import Planted

    there = Planted.among(ranks)
    out = {item["rank"] for item in diagnosis["ranks"] if item["stands_out"]}
    alone = [f"rank {rank} " in report for rank in (there.late_loader, there.slow_gpu, there.slow_host)]
    found = [*alone, out == there.ranks, f"{ranks - 1} of {ranks} ranks are in the run" in report]
    return sum(found), len(found)


def many_ranks(bench: Bench) -> None:
    """Print what a run of many ranks takes, beside one of few, and what its report says."""
    ranks, jobs, stores = bench.options.ranks, bench.jobs, bench.stores
    few, many = planted(jobs, FEW, healthy=True), planted(jobs, ranks)
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
    ratio = of_many.cpu_s / (of_few.cpu_s * ranks / FEW)
    row(f"total CPU of {ranks} ranks / {ranks // FEW} × that of {FEW}", "≤ 1.1", f"{ratio:.2f}")
    row(f"CPU of {ranks} ranks, peak of the command", "—", f"{of_many.cpu_s:.0f} s, {of_many.peak_mb:.0f} MB")
    row(f"planted culprits named by the default report, {ranks} ranks", f"all {there}", f"{named}")
    row("its lines", "≤ 150", f"{report.count(chr(10))}")
    row(f"second run of {ranks} ranks, nothing new", "≤ 60 s", f"{again.wall_s:.1f} s wall, {again.cpu_s:.1f} s CPU")


def workers(bench: Bench) -> None:
    """Print the peak of a cluster's only worker, which opens a trace of each size, and many small ones."""
    bars = {1: "≤ 300 MB", 73: "≤ 450 MB", 1_000: "≤ 1,200 MB"}
    for size_mb in bench.options.worker_mb:
        folder = bench.jobs / f"one{size_mb}"
        if not folder.exists():
            enlarged(bench.options.trace, folder, size_mb)
        row(f"worker's peak, a trace of {size_mb:,} MB", bars.get(size_mb, "—"), f"{_peak_mb(bench, folder):.0f} MB")
    (trace,) = (bench.jobs / f"one{bench.options.worker_mb[0]}").iterdir()
    soon, late = (_peak_mb(bench, copies(bench.jobs, trace, count)) for count in (SOON, LATE))
    row(f"the same after {LATE} ranks of the smallest / after {SOON}", "1.0", f"{late / soon:.2f} ({late:.0f} MB)")


def _peak_mb(bench: Bench, folder: Path) -> float:
    from traceanalyzer.run import open_run

    with (
        cluster("local:1") as inner,
        NotingPeaks(inner, bench.stores / f"{folder.name}.peaks") as executor,
        open_run(folder, store=bench.stores / folder.name, executor=executor),
    ):
        return executor.peak_mb()


def cluster(address: str) -> Executor:
    """Return the executor that `--cluster` makes of an address."""
    from traceanalyzer.cluster.dask_executor import DaskExecutor
    from traceanalyzer.pipeline.planning import parse_cluster

    return DaskExecutor(parse_cluster(address))


def on_workers(bench: Bench) -> None:
    """Print what it takes to read and attribute eight ranks on two processes of a cluster, beside two threads."""
    rank_mb = bench.options.rank_mb
    folder = bench.jobs / f"eight{rank_mb}"
    if not folder.exists():
        first = enlarged(bench.options.trace, folder, rank_mb)
        for rank in range(RANKS):
            os.link(first, folder / f"rank{rank}.json")
        first.unlink()
    costs: dict[str, list[Cost]] = {"2 threads": [], "local:2": []}
    for pair in range(bench.options.pairs):
        for where, those in costs.items():
            store = bench.stores / f"{where} {pair}"
            those.append(run([sys.executable, __file__, "--open", str(folder), str(store), where]))
            shutil.rmtree(store)
    threads, processes = costs.values()
    cpu = sum(cost.cpu_s for cost in processes) / sum(cost.cpu_s for cost in threads)
    wall = sum(cost.wall_s for cost in processes) / sum(cost.wall_s for cost in threads)
    row(f"CPU of ingest + attribution, {RANKS} × {rank_mb} MB: Dask / threads", "≤ 1.15", f"{cpu:.2f}")
    few_cores = (os.cpu_count() or 1) < 2
    row("wall, 2 processes / 2 threads", "≤ 1.0", "not measured: one core" if few_cores else f"{wall:.2f}")


def open_there(folder: str, store: str, where: str) -> None:
    """Read and attribute a run in two threads of this process, or on a cluster."""
    from traceanalyzer.run import open_run

    with nullcontext() if where == "2 threads" else cluster(where) as executor:
        open_run(folder, store=store, jobs=2, executor=executor).close()


def tasks(bench: Bench) -> None:
    """Print how many tasks a rank takes, to be read and attributed."""
    from traceanalyzer.run import open_run

    folder = planted(bench.jobs, FEW, healthy=True)
    with (
        ThreadPoolExecutor(1) as inner,
        NotingPeaks(inner, bench.stores / "counted.peaks") as executor,
        open_run(folder, store=bench.stores / "counted", executor=executor),
    ):
        row("tasks a rank", "≤ 16", f"{executor.count / FEW:.1f}")


def cards(bench: Bench) -> None:
    """Print what it takes to open a run of thousands of traces that the store holds: one trace, copied."""
    from traceanalyzer.pipeline.ingesting import held_sources
    from traceanalyzer.run import open_run
    from traceanalyzer.store.store import Store

    template = planted(bench.jobs, FEW, healthy=True) / "rank0.json.gz"
    folder, store = copies(bench.jobs, template, CARDS), bench.stores / "cards"
    with open_run(template, store=store, attribution=False) as run_of_one:
        (trace,) = run_of_one.traces
    opened_store = Store(store)

    def copy(scratch: Path) -> None:
        shutil.copytree(trace.folder, scratch / trace.folder.name)

    for source in folder.iterdir():
        opened_store.trace_folder(source, copy)
    assert None not in held_sources(list(folder.iterdir()), opened_store)
    for what in ("`ingest` that writes the catalogue alone", "second `ingest`, nothing new"):
        cost = run(command("ingest", folder, store))
        row(f"{what}, {CARDS:,} traces", "≤ 60 s", f"{cost.wall_s:.1f} s wall, {cost.cpu_s:.1f} s CPU")


def scheduler(_bench: Bench) -> None:
    """Print what the scheduler takes for a task that does nothing."""
    with cluster("local:1") as executor:
        executor.submit(int).result()
        started = time.process_time()
        for future in [executor.submit(int, number) for number in range(EMPTY_TASKS)]:
            future.result()
        spent_ms = 1000 * (time.process_time() - started) / EMPTY_TASKS
    row("client and scheduler, CPU a task", "≤ 2 ms", f"{spent_ms:.1f} ms")


def coordinator(_bench: Bench) -> None:
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
    parser.add_argument("--pairs", type=int, default=3, help="of runs on processes and threads, by turns")
    parser.add_argument("--only", choices=list(MEASUREMENTS), nargs="+", default=list(MEASUREMENTS))
    parser.add_argument("--open", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.open:
        open_there(*options.open)
        return
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(options, options.jobs or Path(name), Path(name) / "stores")
        bench.jobs.mkdir(exist_ok=True)
        bench.stores.mkdir()
        print(f"Acceptance of many ranks ({machine()})\n\n| what | bar | value |\n|---|---:|---:|")
        for what in options.only:
            try:
                MEASUREMENTS[what](bench)
            except (TraceAnalyzerError, OSError, RuntimeError, ImportError) as error:
                row(what, "", f"not measured: {error}")


MEASUREMENTS: dict[str, Measurement] = {
    "on_workers": on_workers,
    "many_ranks": many_ranks,
    "workers": workers,
    "coordinator": coordinator,
    "scheduler": scheduler,
    "tasks": tasks,
    "cards": cards,
}

if __name__ == "__main__":
    main()
