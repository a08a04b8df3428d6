"""A saving that rests on a loader's workers is told with what is sure of it, and trusted less."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from traceanalyzer.diagnosis import Finding
from traceanalyzer.rules.diagnosis.diagnosing import diagnose
from traceanalyzer.rules.evaluation.sandbox import readers
from traceanalyzer.rules.rule_set.loading import load_rules
from tracesim import in_memory, simulate, simulate_job

RULES = load_rules()
SYNC: dict[str, Any] = {"steps": 14, "kernels": 100, "kernel_us": 80, "loader_us": 50, "item_per_step": 4}
UNEVEN = (9_000, 4_000, 31_000, 6_000, 14_000, 3_000, 22_000)
LOADERS: dict[str, dict[str, Any]] = {
    "uneven": {"loader_workers": 2, "worker_us": UNEVEN},
    "hidden": {"loader_workers": 4, "worker_us": 25_000},
    "none": {},
}
RANKS = [1, pytest.param(3, marks=pytest.mark.check)]


@cache
def findings(loader: str, ranks: int = 1) -> dict[str, Finding]:
    base = SYNC | LOADERS[loader]
    made = simulate(base, seed=1) if ranks == 1 else simulate_job({**base, "ranks": ranks, "comm_us": 500}, seed=1)
    con = in_memory.connect_tables(made.canonical_tables(), readers=readers(RULES))
    return {finding.rule: finding for finding in diagnose(con, RULES).findings}


@pytest.mark.check
@pytest.mark.parametrize("ranks", RANKS)
def test_what_rests_on_uneven_workers_is_told_with_what_is_sure(ranks: int) -> None:
    found = findings("uneven", ranks)
    assert found["sync-in-step"].saving_share == pytest.approx(0.09, abs=0.02)
    assert found["sync-in-step"].confidence == "low"
    assert "Nothing is sure to be saved: some batches were late" in found["sync-in-step"].message
    # Faster workers are what the loader's own fix is about.
    assert found["dataloader-bound"].confidence == "high"
    assert "sure to be saved" not in found["dataloader-bound"].message


@pytest.mark.check
@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("loader", ["hidden", "none"])
def test_workers_that_were_never_waited_for_leave_no_doubt(loader: str, ranks: int) -> None:
    found = findings(loader, ranks)["sync-in-step"]
    assert found.confidence == "high"
    assert "sure to be saved" not in found.message
