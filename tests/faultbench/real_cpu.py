"""Real traces of PyTorch on the CPU: the names that it really writes mean what rules take them for, and no GPU is seen.

Without a GPU in the trace only the rules about a run on the CPU judge. What is measured is the share of the steps that
the names give to a cause, beside what mending it truly saves of the steps' time without the profiler: a table, and no
test, because it depends on what else the machine does.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import traceanalyzer
from faultbench import capturing
from faultbench.judging import POINTS
from traceanalyzer.attribution.columns import HOST_CODE
from traceanalyzer.attribution.host.host_states import slice_state
from traceanalyzer.rules.rule_set.loading import load_rules
from traceanalyzer.run import Run

_MIB = 2**20
# Real runs differ from each other, and recording costs time: what the names give may be this far from the truth.
_LEAST, _MOST, _POINTS = 0.8, 1.25, 5.0
_STEPS = "SELECT thread_id, start_ns, start_ns + dur_ns FROM host_slices WHERE name LIKE 'ProfilerStep#%'"
_SLICES = """
SELECT slice_id, parent_id, category, name, dur_ns
FROM host_slices
WHERE trace_id = 0
  AND thread_id = $thread
  AND start_ns BETWEEN $first AND $last
ORDER BY start_ns, depth
"""
_MEMORY = """
SELECT arg_max(allocated_bytes, start_ns)
FROM memory_events
WHERE device_type = 0 AND start_ns BETWEEN $first AND $last
"""


_REDUCED = """
SELECT thread_id, category, name, start_ns, start_ns + dur_ns
FROM host_slices
WHERE trace_id = 0 AND start_ns BETWEEN $first AND $last AND (name = $call OR category = 'annotation')
"""
_CALL = "c10d::allreduce_"
# Those about the recording or the host, and what may explain a finding about the host.
RULES_ON_CPU = {
    rule.id for rule in load_rules() if any(name.startswith(("tq-", "cpu-")) for name in (rule.id, *rule.attaches_to))
}
MANY = capturing.REDUCTIONS


@dataclass(frozen=True)
class RealRow:
    """What became of one real pair."""

    number: str
    name: str
    read: str  # what was read from the names
    verdict: str
    share: float | None  # of the steps' time, by the names
    true_share: float | None  # that mending it saved without the profiler
    wrong: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()  # times that do not fit, on a machine that does nothing else


@dataclass(frozen=True)
class RealPair:
    """A job of torch_cpu.py, and what its traces must tell."""

    number: str
    job: str
    name: str
    cause: str | None  # the host's state that the fault's time is read as
    rule: str | None = None  # that finds the fault


PAIRS: tuple[RealPair, ...] = (
    RealPair("1", "loader", "starving loader", "host.dataloader", "cpu-loader-bound"),
    RealPair("11", "leak", "24 MiB more in every step", None),
    RealPair("12", "garbage", "garbage every fourth step", "host.gc", "cpu-python-bound"),
    RealPair("17", "reductions", "many small reductions, gloo on 2 processes", "host.comm_cpu"),
    RealPair("21", "recompilation", "recompilation for every third batch", "host.compile", "cpu-compile-in-steps"),
)


def run_pair(pair: RealPair) -> RealRow:
    """Capture a pair and return what was read from it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ms = capturing.capture(pair.job, folder)
        fault, twin = (_read(folder / variant, pair) for variant in ("fault", "twin"))
        if pair.rule and pair.rule not in fault.found:
            fault = replace(fault, wrong=(*fault.wrong, f"{pair.rule} does not find the fault"))
    true_share = 1 - ms["twin"] / ms["fault"]
    if pair.cause == "host.comm_cpu":
        return _judge_reductions(pair, fault, twin, true_share)
    if pair.cause is None:
        read = f"{fault.kept_mib:.1f} MiB a step kept, twin {twin.kept_mib:.1f}"
        wrong = [] if 23 < fault.kept_mib < 25 and twin.kept_mib < 12 else [f"read {read}"]
        return RealRow(pair.number, pair.name, read, fault.verdict, None, None, (*wrong, *fault.wrong, *twin.wrong))
    read = f"{pair.cause} {fault.share:.0%} of the steps, twin {twin.share:.0%}"
    wrong = [] if fault.share > twin.share else [f"read {read}"]
    saved = 1 - (1 - fault.share) / (1 - twin.share)
    wrong += [*fault.wrong, *twin.wrong]
    return RealRow(
        pair.number, pair.name, read, fault.verdict, saved, true_share, tuple(wrong), _apart(saved, true_share)
    )


def _judge_reductions(pair: RealPair, fault: _Read, twin: _Read, true_share: float) -> RealRow:
    """Return what the fault's trace says that one reduction instead of many saves: all of their time but one's."""
    read = (
        f"{fault.reductions:.0f} reductions in {fault.share:.0%} of a step, "
        f"twin {twin.reductions:.0f} in {twin.share:.0%}"
    )
    wrong = [] if (fault.reductions, twin.reductions) == (MANY, 1) else [f"read {read}"]
    saved = fault.share * (1 - 1 / max(1, fault.reductions))
    wrong += [*fault.wrong, *twin.wrong]
    return RealRow(
        pair.number, pair.name, read, fault.verdict, saved, true_share, tuple(wrong), _apart(saved, true_share)
    )


def _apart(saved: float, true_share: float) -> tuple[str, ...]:
    if _LEAST * true_share - _POINTS / POINTS <= saved <= _MOST * true_share + _POINTS / POINTS:
        return ()
    return (f"the names give {saved:.0%}, the fix saved {true_share:.0%}",)


def run_without_gpu() -> RealRow:
    """Return what is told of a real CPU trace, and of it with the marks of a GPU job whose kernels are missing."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        capturing.capture("recompilation", folder)
        genuine = folder / "twin" / "rank0.json"
        (folder / "job").mkdir()
        (folder / "job" / "rank0.json").write_text(json.dumps(as_of_a_gpu_job(json.loads(genuine.read_text()))))
        severities = [_severity(folder / "job"), _severity(folder / "twin")]
    wrong = () if severities == ["blocker", "note"] else (f"tq-missing-gpu-activity is {severities}",)
    return RealRow(
        "25", "CPU-only trace of a GPU job", "tq-missing-gpu-activity", "blocker, twin: note", None, None, wrong
    )


def as_of_a_gpu_job(trace: dict[str, object]) -> dict[str, object]:
    """Return a CPU trace with what the profiler writes of a GPU job even where it cannot see the device."""
    events = list(trace["traceEvents"])  # type: ignore[call-overload]
    operators = [event for event in events if event.get("cat") == "cpu_op"][:50]
    place = {key: operators[0][key] for key in ("pid", "tid")}
    for number, operator in enumerate(operators):
        at = {**place, "ts": operator["ts"], "ph": "X", "dur": 4}
        args = {"cbid": 211, "correlation": number + 1}
        events.append({**at, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "args": args})
    properties = [{"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150_754_820_096, "numSms": 132}]
    return {**trace, "deviceProperties": properties, "traceEvents": events}


@dataclass(frozen=True)
class _Read:
    share: float
    kept_mib: float
    reductions: float  # a step
    verdict: str
    found: tuple[str, ...]
    wrong: tuple[str, ...]


def _read(folder: Path, pair: RealPair) -> _Read:
    with traceanalyzer.open(folder) as run:
        diagnosis = run.diagnose()
        found = tuple(finding.rule for finding in diagnosis.findings if finding.kind == "finding")
        judged = {outcome.rule for outcome in diagnosis.outcomes if outcome.state in {"clear", "fired"}}
        wrong = [f"{rule} judges a run without a GPU" for rule in sorted(judged - RULES_ON_CPU)]
        share, kept, count = 0.0, 0.0, 0.0
        if pair.cause is None:
            kept = _kept_mib(run)
        elif pair.cause == "host.comm_cpu":
            count, share = _reductions(run)
        else:
            share = state_share(run, pair.cause)
        return _Read(share, kept, count, ", ".join(found) or "nothing", found, tuple(wrong))


def _severity(folder: Path) -> str:
    with traceanalyzer.open(folder) as run:
        found = [item for item in run.diagnose().findings if item.rule == "tq-missing-gpu-activity"]
        return found[0].severity if found else "absent"


def _steps(run: Run) -> list[tuple[int, int, int]]:
    steps: list[tuple[int, int, int]] = run.connection.execute(
        _STEPS + " AND trace_id = 0 ORDER BY start_ns"
    ).fetchall()
    return steps


def state_share(run: Run, cause: str) -> float:
    """Return the share of the steps that the training thread spends in a state by its names."""
    steps = _steps(run)
    held = {"thread": steps[0][0], "first": steps[0][1], "last": steps[-1][2]}
    inside: set[int] = set()
    total_ns = 0
    for slice_id, parent_id, category, name, dur_ns in run.connection.execute(_SLICES, held).fetchall():
        if parent_id in inside:
            inside.add(slice_id)
        elif slice_state(category, name) == HOST_CODE[cause]:
            inside.add(slice_id)
            total_ns += dur_ns
    return float(total_ns / sum(end - start for _, start, end in steps))


def _reductions(run: Run) -> tuple[float, float]:
    """Return how many reductions gloo does in a step, and the share of the steps that they take: the middle step's.

    They follow one another, each called in the training thread, which waits, and done in one of gloo's threads: from
    the first call to the end of the last there is nothing else.
    """
    counts, shares = [], []
    for thread, start, end in _steps(run):
        held = {"first": start, "last": end, "call": _CALL}
        rows = run.connection.execute(_REDUCED, held).fetchall()
        called = [begin for own, _, name, begin, _ in rows if own == thread and name == _CALL]
        done = [over for _, kind, name, _, over in rows if slice_state(kind, name) == HOST_CODE["host.comm_cpu"]]
        counts.append(len(done))
        shares.append((max(done) - min(called)) / (end - start) if done and called else 0.0)
    return float(statistics.median(counts)), float(statistics.median(shares))


def _kept_mib(run: Run) -> float:
    """Return by how much more memory is in use after each step, from the first to the last."""
    ends = [
        run.connection.execute(_MEMORY, {"first": start, "last": end}).fetchall()[0][0] for _, start, end in _steps(run)
    ]
    return float((ends[-1] - ends[0]) / (len(ends) - 1) / _MIB)


def all_rows() -> Iterator[RealRow]:
    """Yield every real pair."""
    for pair in PAIRS:
        yield run_pair(pair)
    yield run_without_gpu()
