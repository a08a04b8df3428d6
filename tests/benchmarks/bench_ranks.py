"""How the time of a diagnosis grows with the ranks of a job, phase by phase, beside the bars that it must keep.

    python tests/benchmarks/bench_ranks.py [--ranks 32 64 128 256] [--jobs FOLDER]

The jobs are simulated: one rank waits for its data loader, and the GPU of another one is slower. `--jobs` keeps them
for the next time. CPU seconds, as other programs share the machine; each size is a process of its own, with an empty
store.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import math
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from processes import machine, own_peak_mb

PHASES = ("ingest", "attribution", "diagnosis", "report", "all")
MOST_EXPONENT = 1.2
MOST_CPU_S = {256: 110.0}
MOST_LINES = 150


def culprits(ranks: int) -> tuple[int, int]:
    """Return the rank with the slow loader and the rank with the slow GPU."""
    return ranks // 4 + 1, ranks // 2 + 3


def job_folder(jobs: Path, ranks: int) -> Path:
    """Return the folder with the traces of a job, simulated where they are not there."""
    folder = jobs / f"ranks{ranks}"
    if not folder.exists():
        from workloads.wide_jobs import wide_job

        from tracesim import simulate_job

        late, slow = culprits(ranks)
        fresh = jobs / f"fresh{ranks}"
        fresh.mkdir(parents=True)
        simulate_job(wide_job(ranks, late=late, slow=slow), seed=1).write_kineto(fresh, suffix=".json.gz")
        fresh.rename(folder)
    return folder


def measure(folder: Path, store: Path) -> dict[str, float]:
    """Return the CPU seconds of each phase of a diagnosis in this process, and what its report holds."""
    from traceanalyzer.report.formats import write_diagnosis
    from traceanalyzer.run import open_run

    cpu_s = [time.process_time()]
    with open_run(folder, store=store):
        pass
    cpu_s.append(time.process_time())
    shutil.rmtree(store / "derived")
    with open_run(folder, store=store) as run:
        cpu_s.append(time.process_time())
        diagnosis = run.diagnose()
    cpu_s.append(time.process_time())
    report = io.StringIO()
    write_diagnosis(diagnosis, "terminal", report)
    cpu_s.append(time.process_time())
    opened, again, diagnosed, written = (after - before for before, after in itertools.pairwise(cpu_s))
    standing_out = [item.rank for item in diagnosis.ranks if item.stands_out]
    named = [f"rank {rank} " in report.getvalue() for rank in culprits(len(diagnosis.traces))]
    return {
        "ingest": opened - again,
        "attribution": again,
        "diagnosis": diagnosed,
        "report": written,
        "all": cpu_s[0] + opened + diagnosed + written,
        "peak_mb": own_peak_mb(),
        "lines": report.getvalue().count("\n"),
        "named": float(sum(named) * (standing_out == sorted(culprits(len(diagnosis.traces))))),
    }


def exponent(ranks: list[int], cpu_s: list[float]) -> float:
    """Return the slope of time over ranks on logarithmic scales: 1 grows with the ranks, 2 with their square."""
    slope, _ = statistics.linear_regression([math.log(n) for n in ranks], [math.log(max(s, 1e-3)) for s in cpu_s])
    return slope


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[32, 64, 128, 256])
    parser.add_argument("--jobs", type=Path)
    parser.add_argument("--measure", type=Path, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(*options.measure)))
        return
    with tempfile.TemporaryDirectory() as name:
        jobs = options.jobs or Path(name)
        found: dict[int, dict[str, float]] = {}
        print(f"`diagnose` of simulated jobs, CPU seconds by phase ({machine()})\n")
        print("| ranks | " + " | ".join(PHASES) + " | peak MB | lines | culprits named |")
        print("|---:|" + "---:|" * (len(PHASES) + 3))
        for ranks in options.ranks:
            folder, store = job_folder(jobs, ranks), Path(name) / f"store{ranks}"
            command = [sys.executable, __file__, "--measure", str(folder), str(store)]
            answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found[ranks] = json.loads(answer.splitlines()[-1])
            shutil.rmtree(store)
            cells = [f"{found[ranks][phase]:.1f}" for phase in PHASES]
            cells += [
                f"{found[ranks]['peak_mb']:.0f}",
                f"{found[ranks]['lines']:.0f}",
                f"{found[ranks]['named']:.0f} of 2",
            ]
            print(f"| {ranks} | {' | '.join(cells)} |", flush=True)
    print("\n| what | bar | value |\n|---|---:|---:|")
    for phase in PHASES if len(found) > 1 else ():
        value = exponent(list(found), [of_job[phase] for of_job in found.values()])
        print(f"| {phase}: grows with ranks to the power of | {MOST_EXPONENT} | {value:.2f} |")
    for ranks, most_s in MOST_CPU_S.items():
        if ranks in found:
            print(f"| CPU seconds of {ranks} ranks | {most_s:.0f} | {found[ranks]['all']:.0f} |")
    print(
        f"| lines of the default report, at most | {MOST_LINES} | {max(item['lines'] for item in found.values()):.0f} |"
    )


if __name__ == "__main__":
    main()
