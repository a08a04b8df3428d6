"""Comparisons for Python: runs and files of summaries in, a difference out.

Where a rank was recorded several times, each recording of the ranks is a capture.
"""

from __future__ import annotations

import datetime
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from traceanalyzer.comparison import summary
from traceanalyzer.comparison.comparing import Diff, compare
from traceanalyzer.diagnosis import SEVERITIES, Diagnosis, Finding
from traceanalyzer.query import engine
from traceanalyzer.run import Run, open_run
from traceanalyzer.text.words import short_names
from traceanalyzer.version import __version__

_WARNING = SEVERITIES.index("warning")
_WARM_UP_FROM = 4  # of so many marked steps, the first is warm-up, as on devices
_ROW_BYTES = 70  # of a row without its name
# A file each, named after what its rows are.
_QUERIES = ("device_steps", "facts", "host_buckets", "host_steps", "kernels", "operators")
_OUTCOMES = ("fired", "latent", "clear", "abstained")

Row = dict[str, Any]


def summarize(run: Run, diagnosis: Diagnosis, label: str | None = None) -> summary.Summary:
    """Return the summary of an open run and its diagnosis; `label` replaces the name of the run's folder."""
    folder = Path(__file__).parent / "sql"
    queries = {name: (folder / f"{name}.sql").read_text(encoding="utf-8") for name in _QUERIES}
    with engine.connect(run.traces, run.derived, readers=[*queries.values()], captures=run.captures) as connection:

        def rows(name: str) -> list[Row]:
            table: list[Row] = connection.sql(queries[name]).to_arrow_table().to_pylist()
            return table

        facts, device_steps = rows("facts"), rows("device_steps")
        on_host = not any(trace.gpu_op_count for trace in diagnosis.traces)
        devices = (
            _host_times(rows("host_steps"), rows("host_buckets")) if on_host else _device_times(diagnosis, device_steps)
        )
        kernels, operators = rows("kernels"), rows("operators")
    step_count = sum(max(device.step_count, 1) for device in devices) or 1
    trace_steps = _steps_of_traces(diagnosis, devices, on_host=on_host)
    taken_ns = min((row["taken_ns"] for row in facts if row["taken_ns"] is not None), default=None)
    return summary.Summary(
        label=label or _name(run),
        taken_at=None if taken_ns is None else _utc(taken_ns),
        made_by=__version__,
        blocked=_blocked(diagnosis, devices, on_host=on_host),
        time_of="host" if on_host else "device",
        fingerprint=_fingerprint(diagnosis, facts, device_steps, on_host=on_host),
        devices=_with_few_ledgers(devices),
        run=_run_times(diagnosis),
        kernels=_named_times(kernels, summary.MOST_KERNELS, summary.MOST_KERNEL_BYTES, step_count),
        operators=_named_times(operators, summary.MOST_OPERATORS, summary.MOST_OPERATOR_BYTES, trace_steps),
        findings=_findings(diagnosis),
        outcomes=_outcomes(diagnosis),
        below_noise={item.rule: item.saving_share for item in reversed(diagnosis.below_noise)},
        joint_saving_ns=_joint_saving_ns(diagnosis),
        quality=_quality(diagnosis),
    )


def _name(run: Run) -> str:
    name = run.name
    return short_names([name])[name]


def _blocked(diagnosis: Diagnosis, devices: Sequence[summary.DeviceTimes], *, on_host: bool) -> str | None:
    from traceanalyzer.diagnosis.verdict import blocker_of, has_unjudged_traces

    if on_host:
        return None if devices else "no GPU work and no marked steps are in the trace"
    if not devices:
        return "no window of GPU work could be analyzed"
    blocker = blocker_of(diagnosis)
    if blocker is None and has_unjudged_traces(diagnosis):
        blocker = next(finding for finding in diagnosis.findings if finding.severity == "blocker")
    return None if blocker is None else f"{blocker.title.rstrip('.')} ({blocker.rule})"


def _device_times(diagnosis: Diagnosis, device_steps: Sequence[Row]) -> list[summary.DeviceTimes]:
    steps = {(row["trace"], row["device"]): tuple(row["steps_ns"]) for row in device_steps}
    times = [
        summary.DeviceTimes(
            ledger.rank,
            ledger.device,
            ledger.window_ns,
            ledger.step_count,
            steps[(ledger.trace, ledger.device)],
            {name: dur_ns for name, dur_ns in sorted(ledger.buckets) if dur_ns},
        )
        for ledger in diagnosis.ledgers
    ]
    return sorted(times, key=_place)


def _host_times(steps: Sequence[Row], buckets: Sequence[Row]) -> list[summary.DeviceTimes]:
    by_trace: dict[tuple[str, int | None], list[int]] = defaultdict(list)
    for row in steps:
        by_trace[(row["trace"], row["rank"])].append(row["dur_ns"])
    times = []
    for (trace, rank), marked in by_trace.items():
        kept = marked[1:] if len(marked) >= _WARM_UP_FROM else marked
        held = {row["bucket"]: row["dur_ns"] for row in buckets if row["trace"] == trace}
        times.append(summary.DeviceTimes(rank, None, sum(kept), len(kept), tuple(kept), held))
    return sorted(times, key=_place)


def _place(device: summary.DeviceTimes) -> tuple[bool, int, int, int]:
    return device.rank is None, device.rank or 0, device.device or 0, device.window_ns


def _with_few_ledgers(devices: Sequence[summary.DeviceTimes]) -> tuple[summary.DeviceTimes, ...]:
    """Return devices of which only the slowest keep their buckets and steps, where there are many."""
    order = sorted(range(len(devices)), key=lambda at: (-bool(devices[at].step_count), -devices[at].step_ns, at))
    places = {at: place for place, at in enumerate(order)}
    return tuple(
        replace(
            device,
            steps_ns=device.steps_ns[: summary.MOST_STEPS] if places[at] < summary.MOST_STEP_LISTS else (),
            buckets=device.buckets if places[at] < summary.MOST_LEDGERS else None,
        )
        for at, device in enumerate(devices)
    )


def _steps_of_traces(diagnosis: Diagnosis, devices: Sequence[summary.DeviceTimes], *, on_host: bool) -> int:
    """Return the kept steps of every trace, added up: operators run once for all devices of a trace."""
    if on_host:
        return sum(max(device.step_count, 1) for device in devices) or 1
    steps: dict[str, int] = {}
    for ledger in diagnosis.ledgers:
        steps[ledger.trace] = max(steps.get(ledger.trace, 1), ledger.step_count)
    return sum(steps.values()) or 1


def _run_times(diagnosis: Diagnosis) -> summary.RunTimes | None:
    ledger = diagnosis.run_ledger
    if ledger is None:
        return None
    return summary.RunTimes(
        ledger.window_ns, ledger.step_count, {name: ns for name, ns in sorted(ledger.buckets) if ns}
    )


def _named_times(rows: Sequence[Row], most: int, most_bytes: int, step_count: int) -> summary.NamedTimes:
    named = [summary.NamedTime(row["name"], row["class"], row["launch_count"], row["dur_ns"]) for row in rows]
    sizes = accumulate(_ROW_BYTES + len(json.dumps(row.name, ensure_ascii=False).encode()) for row in named)
    kept = min(most, sum(size <= most_bytes for size in sizes))
    rest = named[kept:]
    return summary.NamedTimes(
        tuple(named[:kept]),
        step_count,
        len(rest),
        sum(item.launch_count for item in rest),
        sum(item.dur_ns for item in rest),
    )


def _findings(diagnosis: Diagnosis) -> tuple[summary.FindingSummary, ...]:
    from traceanalyzer.diagnosis.findings import worth_share

    worst: dict[str, tuple[Finding, str]] = {}
    visible = [(finding, finding.status) for finding in diagnosis.findings]
    silenced = [(finding, "suppressed") for finding in diagnosis.suppressed]
    for finding, status in (*visible, *silenced):
        if finding.kind == "quality":
            continue
        if finding.rule not in worst or worth_share(finding) > worth_share(worst[finding.rule][0]):
            worst[finding.rule] = finding, status
    summaries = []
    for finding, status in worst.values():
        of_run = finding.run_saving_share is not None
        summaries.append(
            summary.FindingSummary(
                finding.rule,
                finding.title,
                finding.severity,
                status,
                "run" if finding.trace is None else "rank" if finding.device is None else "device",
                finding.run_saving_ns if of_run else finding.saving_ns,
                finding.run_saving_share if of_run else finding.saving_share,
                _steps_of(diagnosis, finding),
                finding.owned_buckets,
            )
        )
    return tuple(summaries)


def _steps_of(diagnosis: Diagnosis, finding: Finding) -> int:
    """Return the steps in which a finding's saving lies: those of its device, or of all recordings that are pooled."""
    from traceanalyzer.diagnosis.verdict import ledger_of, pooled_ledger

    pooled = pooled_ledger(diagnosis)
    if pooled is not None and finding.run_saving_share is not None:
        return pooled.step_count
    ledger = ledger_of(diagnosis, finding)
    return 0 if ledger is None else ledger.step_count


def _outcomes(diagnosis: Diagnosis) -> dict[str, str]:
    states: dict[str, str] = {}
    for outcome in diagnosis.outcomes:
        if outcome.kind == "finding":
            before = states.get(outcome.rule, _OUTCOMES[-1])
            states[outcome.rule] = min(before, outcome.state, key=_OUTCOMES.index)
    return dict(sorted(states.items()))


def _joint_saving_ns(diagnosis: Diagnosis) -> int | None:
    """Return what all fixes together save per step of the plan with most to save, times its steps."""
    plans = [plan for plan in diagnosis.plans if plan.fixes]
    # A plan of pooled recordings has the steps of all of them, which are no device's.
    if not plans or (diagnosis.run_ledger is not None and diagnosis.run_ledger.recording_count > 1):
        return None
    return max(sum(fix.saving_ns for fix in plan.fixes) for plan in plans)


def _quality(diagnosis: Diagnosis) -> dict[str, str]:
    found = [item for item in diagnosis.findings if item.kind == "quality"]
    return {item.rule: item.severity for item in found if SEVERITIES.index(item.severity) >= _WARNING}


def _fingerprint(
    diagnosis: Diagnosis, facts: Sequence[Row], device_steps: Sequence[Row], *, on_host: bool
) -> dict[str, summary.Fact]:
    used = [row for row in facts if row["has_work"]]
    ranks = {row["rank"] for row in facts if row["rank"] is not None}
    found: dict[str, summary.Fact] = {
        "gpu": _names(row["gpu"] for row in used),
        "vendor": _names(row["vendor"] or row["trace_vendor"] for row in used),
        "gpu_count": len(used),
        "sm_count": _one(row["sm_count"] for row in used),
        "memory_bytes": _one(row["memory_bytes"] for row in used),
        "world_size": max((row["world_size"] or 0 for row in facts), default=0) or None,
        "rank_count": len(ranks) or len(diagnosis.traces),
        "format": _names(row["format"] for row in facts),
        "recorder": _names(row["recorder"] for row in facts),
        "framework": _names(row["framework"] for row in facts),
        "mode": _names(row["mode"] for row in device_steps),
        "step_source": ("ProfilerStep",) if on_host else _names(row["step_source"] for row in device_steps),
        "truncated": any(row["truncated"] for row in facts),
        "losses": tuple(sorted({item.defect for item in diagnosis.defects if item.severity == "loss"})),
        "settings": tuple(sorted(f"{item.rule or 'all'}: {item.kind} {item.what}" for item in diagnosis.overrides)),
    }
    for option in ("shapes", "stacks", "memory", "sync_events"):
        found[f"records_{option}"] = any(row[f"has_{option}"] for row in facts)
    for version in ("driver", "cuda_driver", "cuda_runtime", "cupti", "rocm", "pytorch", "nsys"):
        found[version] = _one(row[version] for row in facts)
    return found


def _names(values: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(sorted({value for value in values if value is not None}))


def _one(values: Iterable[Any]) -> str | int | None:
    """Return the value that all rows share, the different ones as text, or None."""
    found = sorted({value for value in values if value is not None}, key=str)
    if len(found) == 1:
        value: str | int = found[0]
        return value.strip('"') if isinstance(value, str) else value
    return ", ".join(str(value) for value in found) or None


def _utc(taken_ns: int) -> str:
    moment = datetime.datetime.fromtimestamp(taken_ns // 1_000_000_000, datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


# Opens some files of a run as a run of their own.
Reopen = Callable[[Sequence[Path]], AbstractContextManager["Run"]]


@dataclass(frozen=True)
class RunCaptures:
    """The summaries of a run's captures, and in words which recordings are none."""

    summaries: tuple[summary.Summary, ...]
    left_out: tuple[str, ...] = ()


def captures_of(run: Run, reopen: Reopen) -> RunCaptures:
    """Return one summary of a run; where its ranks were recorded several times, one of each recording.

    Recordings of other work than those that are judged are left out: they are no captures of one configuration.
    """
    diagnosis = run.diagnose()
    files = _files_of_recordings(run, diagnosis)
    if not files:
        return RunCaptures((summarize(run, diagnosis),))
    summaries = []
    for of_one in files:
        with reopen(of_one) as recording:
            summaries.append(summarize(recording, recording.diagnose()))
    left_out = tuple(f"{item.trace}: {item.apart_because}" for item in diagnosis.recordings if not item.is_judged)
    return RunCaptures(tuple(summaries), tuple(dict.fromkeys(left_out)))


def _files_of_recordings(run: Run, diagnosis: Diagnosis) -> list[tuple[Path, ...]]:
    """Return the files of each recording; none where a rank was recorded less often, or files hold several."""
    rows = run.connection.execute(
        "SELECT session, path, recording_count, trace FROM recordings JOIN canonical.traces USING (trace_id, trace) "
        "ORDER BY trace_id"
    ).fetchall()
    paths = [Path(path) for _, path, _, _ in rows]
    counts = {count for _, _, count, _ in rows}
    if len(counts) != 1 or counts == {1} or len(set(paths)) < len(paths) or not all(map(Path.is_file, paths)):
        return []
    unjudged = {item.trace for item in diagnosis.recordings if not item.is_judged}
    files: dict[int, list[Path]] = {}
    for path, (session, _, _, trace) in zip(paths, rows, strict=True):
        if trace not in unjudged:
            files.setdefault(session, []).append(path)
    return [tuple(files[session]) for session in sorted(files)]


Captures = str | Path | summary.Summary


def diff(
    base: Captures | Sequence[Captures],
    new: Captures | Sequence[Captures],
    options: summary.CompareOptions = summary.DEFAULT_COMPARE_OPTIONS,
) -> Diff:
    """Return what differs between two sides, each one capture or several: runs, files of summaries, or summaries.

    `print` shows the report of the command, and a notebook shows it as Markdown. Raises TraceAnalyzerError where a run
    cannot be read.
    """
    return compare(load(base), load(new), options)


def load(captures: Captures | Sequence[Captures]) -> list[summary.Summary]:
    """Return the summaries of captures, in their order; each recording of a rank in a run is one."""
    loaded: list[summary.Summary] = []
    for item in [captures] if isinstance(captures, str | Path | summary.Summary) else captures:
        if isinstance(item, summary.Summary):
            loaded.append(item)
        elif summary.is_summary_file(Path(item)):
            loaded += summary.read_summaries(Path(item))
        else:
            with open_run(item) as run:
                loaded += captures_of(run, partial(_reopened, run)).summaries
    return loaded


def _reopened(run: Run, files: Sequence[Path]) -> Run:
    return open_run(list(files), store=run.shared_store or run.store)
