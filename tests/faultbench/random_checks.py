"""Random jobs held against what is true of them: no alarm in a healthy one, and no promise that is not kept."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from faultbench.examining import Examined, examine_folder
from faultbench.judging import LOUD, promised_share
from faultbench.planted import Scenario, Without
from faultbench.random_jobs import ISSUING, RandomJob
from traceanalyzer.diagnosis import SEVERITIES, Finding
from tracesim import simulate_job

_APART = 0.01
_SURE = re.compile(r"(?:([\d.]+) %|(Nothing)) is sure to be saved")
# What each rule's fix takes away. Rules that are not here promise what no removal of a cause measures: small
# collectives can be fused, and others beside them stay.
REMOVED: Mapping[str, tuple[str, ...]] = {
    "dataloader-bound": ("host.dataloader",),
    "sync-in-step": ("host.sync",),
    "sampling-sync": ("host.sync",),
    "sync-per-launch": ("host.sync",),
    "launch-bound": ISSUING,
    "engine-host-gap": ISSUING,
    "gc-pauses": ("host.gc",),
    "recompile-steady-state": ("host.compile",),
    "alloc-in-steady-state": ("host.alloc",),
    "alloc-retry": ("host.alloc",),
    "h2d-exposed": ("dev.h2d",),
    "weight-streaming": ("dev.h2d", "host.memcpy_block"),
    "comm-blocking": ("dev.comm_transfer",),
}


def look(job: RandomJob) -> Examined:
    """Write a job's traces as they were recorded, and diagnose them."""
    simulated = simulate_job(job.scenario, job.seed)
    with tempfile.TemporaryDirectory() as folder:
        if job.recorded.way == "nsys":
            simulated.write_nsys(folder, job.recorded.graph_mode, job.recorded.schema)
        else:
            simulated.write_kineto(folder, job.recorded.dialect)
        return examine_folder(simulated, Path(folder))


def false_alarms(job: RandomJob) -> Iterator[str]:
    """Yield the false alarms about a healthy job."""
    for found in look(job).findings:
        if found.status != "latent" and SEVERITIES.index(found.severity) >= LOUD:
            yield f"{job.name}: {found.rule} ({found.severity}) promises {promised_share(found) or 0:.1%}"


def _fixed_job(found: Finding, scenario: Scenario) -> Without | None:
    """Return the job without the problem of a finding; None where no other job is that."""
    if found.rule == "h2d-pageable":
        return Without(instead={**scenario, "program": [_pinned(action) for action in scenario["program"]]})
    if found.rule == "comm-straggler-wait" and found.rank is not None:
        return Without({found.rank: ("host.dataloader",)})
    return Without(REMOVED[found.rule]) if found.rule in REMOVED else None


def _pinned(action: dict[str, Any]) -> dict[str, Any]:
    if "h2d" in action and not action["h2d"].get("pinned", True):
        return {"h2d": {"mb": action["h2d"]["mb"], "stream": "compute"}}
    return action


def _sure_share(found: Finding, promised: float) -> float:
    """Return the least saving that a finding states; what it promises where nothing is open."""
    stated = _SURE.search(found.message)
    if stated is None:
        return promised
    return 0.0 if stated[2] else float(stated[1]) / 100


def hold_promises(job: RandomJob) -> Iterator[str]:
    """Yield which findings of a job promise too much, or too little, of what running it without their cause saves.

    A finding that states what is sure may promise more; then it must not where the same job's waits are recorded.
    """
    rests_on_a_guess = False
    seen = look(job)
    for found in seen.findings:
        promised = promised_share(found)
        fixed = _fixed_job(found, job.scenario)
        if fixed is None or promised is None or found.status not in ("primary", "alternative"):
            continue
        truth = seen.true_share(fixed)
        where = "" if found.rank is None else f" on rank {found.rank}"
        if not (_sure_share(found, promised) - _APART <= truth <= promised + _APART):
            yield f"{job.name}: {found.rule}{where} promises {promised:.1%}, the truth is {truth:.1%}"
        rests_on_a_guess |= promised - truth > _APART
    if rests_on_a_guess:
        if job.scenario["sync_events"]:
            yield f"{job.name}: what it promises rests on a guess, though its waits are recorded"
        else:
            yield from hold_promises(replace(job, scenario={**job.scenario, "sync_events": True}))
