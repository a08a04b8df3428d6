"""Ranks that meet in collectives and have no steps: a fix saves of the run what running it without the cause saves."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from traceanalyzer.attribution.replay.bounds import Bounds
from traceanalyzer.attribution.replay.scan import WhatIf
from traceanalyzer.rules.diagnosis.diagnosing import diagnose
from traceanalyzer.rules.rule_set.loading import load_rules
from tracesim import in_memory, simulate_job

pytestmark = pytest.mark.check

APART_SHARE = 0.002
SLOW = {"rank": 1, "kernel_scale": 1.3}


def program(seed: int, pause_us: float = 0) -> list[dict[str, Any]]:
    """Return collectives between kernels of which no two stretches are alike, so that no step is found."""
    draw = random.Random(seed)
    parts: list[dict[str, Any]] = []
    for number in range(24):
        kernels = {"repeat": draw.randint(3, 30), "do": [{"kernel": {"us": draw.randint(20, 120)}}]}
        pause = [{"py": pause_us}] if pause_us and number % 3 == 1 else []
        wait = [{"item": 1}] if number % 4 == 2 else []
        parts += [kernels, *pause, *wait, {"comm": {"us": draw.randint(100, 400)}}]
    return parts


def job(ranks: int, parts: list[dict[str, Any]], **faults: Any) -> Iterator[duckdb.DuckDBPyConnection]:
    scenario = {"ranks": ranks, "steps": 1, "steps_marked": False, "program": parts, **faults}
    with in_memory.connect_tables(simulate_job(scenario, 1).canonical_tables()) as connection:
        yield connection


def window_ns(con: duckdb.DuckDBPyConnection) -> int:
    ((steps, length_ns),) = con.execute("SELECT max(step_count), max(window_ns) FROM attribution.windows").fetchall()
    assert steps == 0
    return int(length_ns)


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize(
    ("rule", "sick", "sound"),
    [
        ("comm-straggler-wait", {"faults": SLOW}, {}),
        ("host-stalls", {"pause_us": 2_500}, {"pause_us": 0}),
    ],
)
def test_a_fix_saves_of_the_run_what_running_it_without_the_cause_saves(
    rule: str, sick: dict[str, Any], sound: dict[str, Any], ranks: int
) -> None:
    rules = [item for item in load_rules(tests=False) if item.id == rule]
    windows, found = [], []
    for fault in (sick, sound):
        parts = program(3, fault.get("pause_us", 0))
        for con in job(ranks, parts, **{key: value for key, value in fault.items() if key == "faults"}):
            windows.append(window_ns(con))
            found += [item for item in diagnose(con, rules).findings if fault is sick]
    truth = 1 - windows[1] / windows[0]
    assert truth >= 0.05
    assert found
    assert [item.run_saving_share for item in found] == pytest.approx([truth] * len(found), abs=APART_SHARE)


@pytest.mark.parametrize("ranks", [2, 3])
def test_one_rank_alone_saves_no_more_than_its_limit(ranks: int) -> None:
    for con in job(ranks, program(5, 2_500), faults=SLOW):
        bounds = Bounds.load(con)
        queries = [
            {device_key: WhatIf(frozenset({cause}))}
            for device_key in bounds.device_keys
            for cause in sorted(bounds.causes(*device_key) | {"dev.straggler_wait"})
        ]
        for (device_key,), answer in zip(queries, bounds.runs(queries), strict=True):
            assert 0 <= answer.saved_ns <= bounds.most_alone_ns(device_key)
