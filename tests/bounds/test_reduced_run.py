"""The scan over reduced ranks gives what the scan over all events gives, or says how far off it is at most."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tiers import examples
from workloads.wide_jobs import wide_job
from workloads.workloads import JOBS

from traceanalyzer.attribution.replay.all_ranks import ROUNDS, JointScan, ReducedRun
from traceanalyzer.attribution.replay.bounds import Bounds
from traceanalyzer.attribution.replay.device_bounds import RankScans, StoredScans, scans_in
from traceanalyzer.attribution.replay.scan import UNCERTAINTIES, WhatIf
from traceanalyzer.attribution.replay.sync_points import RankCalls, SyncPoints
from traceanalyzer.query import engine
from tracesim import in_memory, simulate_job

OF_RANKS = [name for name in JOBS if name.startswith("ranks: ")]
WITHOUT_STEPS = {
    "ranks": 4,
    "steps": 1,
    "steps_marked": False,
    "jitter": 0.03,
    "faults": {"rank": 3, "kernel_scale": 1.3},
    "program": [
        {
            "repeat": 6,
            "do": [{"repeat": 20, "do": [{"kernel": {"us": 60}}]}, {"repeat": 3, "do": [{"comm": {"us": 150}}]}],
        },
        {"repeat": 9, "do": [{"kernel": {"us": 40}}]},
    ],
}
JITTER = {**wide_job(4, late=1, slow=2, jitter=0.03, collectives=6), "steps": 3}


def bounds_of(scenario: Any, seed: int = 0) -> Bounds:
    with in_memory.connect_tables(simulate_job(scenario, seed).canonical_tables()) as connection:
        return Bounds.load(connection)


def stored_bounds(connection: Any, folder: Path) -> Bounds:
    """Return bounds whose scans are read from files, a group of rows for each rank."""
    for name in ("replay_events", "replay_costs", "replay_needs"):
        rows = connection.sql(f"SELECT * FROM attribution.{name} ORDER BY trace_id, device, position").to_arrow_table()
        with pq.ParquetWriter(folder / f"{name}.parquet", rows.schema) as writer:
            for trace_id in sorted(set(rows["trace_id"].to_pylist())):
                writer.write_table(rows.filter(pc.field("trace_id") == trace_id))
    return Bounds.load(connection, partial(scans_in, StoredScans(lambda _: folder)), held_devices=0)


def joint(bounds: Bounds) -> JointScan:
    assert isinstance(bounds.together, JointScan)
    return bounds.together


def reduced(run: JointScan) -> ReducedRun:
    return ReducedRun(run.sync_points, RankScans(run.scans.__getitem__, lambda _: {}))


def questions(bounds: Bounds) -> list[list[WhatIf]]:
    """Return what-ifs: each cause, each two, and all, everywhere; each cause on one rank; and kernels twice as fast."""
    scans = joint(bounds).scans
    causes = sorted({"dev.straggler_wait"}.union(*(scan.causes() for scan in scans)))
    sets = [frozenset({cause}) for cause in causes]
    sets += [frozenset(pair) for pair in itertools.pairwise(causes)]
    queries = [[WhatIf(removed)] * len(scans) for removed in (*sets, frozenset(causes))]
    for one in (0, len(scans) // 2):
        queries += [
            [WhatIf(frozenset({cause})) if at == one else WhatIf() for at in range(len(scans))] for cause in causes
        ]
    faster = [
        dict(zip(scan.op_id[scan.events.is_op].tolist(), (scan.dur[scan.events.is_op] // 2).tolist(), strict=True))
        for scan in scans
    ]
    return [*queries, [WhatIf(savings=savings) for savings in faster]]


def differences(run: JointScan, queries: Sequence[Sequence[WhatIf]], rounds: int = ROUNDS) -> tuple[int, int]:
    """Return by how much a shift at a sync point differs at most, and the most that was stated; check each against
    it.
    """
    small = replace(reduced(run), rounds=rounds)
    found, whole = small.shifts(queries), [*map(run.shifts, queries)]
    worst = 0
    for scan, calls in enumerate(small.sync_points.calls):
        low, high = small.sync_points.first[scan : scan + 2]
        true = np.zeros((high - low, len(queries)), np.int64)
        for column, of_scans in enumerate(whole):
            ends = of_scans[scan]
            true[:, column] = 0 if ends is None else ends[calls.position]
        difference = np.abs(found.shift_ns[low:high] - true)
        assert (difference <= found.off_ns[low:high]).all()
        worst = max(worst, int(difference.max(initial=0)))
    return worst, int(found.off_ns.max(initial=0))


@pytest.mark.check
def test_a_job_with_jitter_is_scanned_exactly() -> None:
    bounds = bounds_of(JITTER)
    assert differences(joint(bounds), questions(bounds)) == (0, 0)


@pytest.mark.check
def test_leads_of_one_round_say_how_far_off_they_may_be() -> None:
    bounds = bounds_of({**JITTER, "steps": 12})  # in fewer steps, one round is exact
    worst, stated = differences(joint(bounds), questions(bounds), rounds=1)
    assert 0 < worst <= stated


@pytest.mark.check
def test_collectives_in_another_order_on_each_rank_are_left_out_alike() -> None:
    bounds = bounds_of(JITTER)
    scans = list(joint(bounds).scans)
    at = np.flatnonzero(scans[1].match >= 0)
    scans[1].match[at[[3, 4]]] = scans[1].match[at[[4, 3]]]
    sizes = dict(zip(*np.unique(np.concatenate([scan.match for scan in scans]), return_counts=True), strict=True))
    run = JointScan.of_scans(scans, {int(match): int(size) for match, size in sizes.items()})
    small = SyncPoints.of_calls(
        [*map(RankCalls.of_scan, scans)], {int(match): int(size) for match, size in sizes.items()}
    )
    assert [calls.position.tolist() for calls in small.calls] == [sorted(own) for own in run.sync_points.positions]
    assert small.count < sum(int((scan.match >= 0).sum()) for scan in scans)


@pytest.mark.check
@pytest.mark.parametrize("scenario", [JITTER, WITHOUT_STEPS], ids=["steps", "no steps"])
def test_scans_that_are_read_when_asked_bound_the_run_as_held_ones_do(scenario: Any, tmp_path: Path) -> None:
    with in_memory.connect_tables(simulate_job(scenario).canonical_tables()) as connection:
        held, stored = Bounds.load(connection), stored_bounds(connection, tmp_path)
        assert all(device.is_whole is (scenario is WITHOUT_STEPS) for device in held.devices.values())
        queries = [dict(zip(held.device_keys, what_ifs, strict=True)) for what_ifs in questions(held)]
        levels = [(held, stored)]
        levels += zip(
            held.lower_bounds(UNCERTAINTIES).values(), stored.lower_bounds(UNCERTAINTIES).values(), strict=True
        )
        for of_held, of_stored in levels:
            assert of_stored.runs(queries) == of_held.runs(queries)
        for device_key in held.device_keys:
            assert stored.most_alone_ns(device_key) >= held.most_alone_ns(device_key)
            assert stored.causes(*device_key) == held.causes(*device_key)
            alone = [of_query[device_key] for of_query in queries]
            assert stored.bounds(*device_key, alone) == held.bounds(*device_key, alone)
            scan = held.devices[device_key].scan
            for what_if in alone:
                assert stored.devices[device_key].taken_ns(what_if) == scan.taken_ns(scan.changes(what_if))
        of_each = {device_key: [of_query[device_key] for of_query in queries] for device_key in held.device_keys}
        assert stored.bounds_of_each(of_each) == held.bounds_of_each(of_each)
        assert stored.taken_of_each(of_each) == held.taken_of_each(of_each)


@pytest.mark.check
@pytest.mark.parametrize("scenario", [JITTER, WITHOUT_STEPS], ids=["steps", "no steps"])
def test_what_is_not_shown_to_be_exact_is_stated_as_an_interval_around_it(scenario: Any, tmp_path: Path) -> None:
    with in_memory.connect_tables(simulate_job(scenario).canonical_tables()) as connection:
        held, stored = Bounds.load(connection), stored_bounds(connection, tmp_path)
        assert isinstance(stored.together, ReducedRun)
        hasty = replace(stored, together=replace(stored.together, rounds=1))
        queries = [dict(zip(held.device_keys, what_ifs, strict=True)) for what_ifs in questions(held)]
        true, stated = held.runs(queries), hasty.runs(queries)
    for of_true, of_stated in zip(true, stated, strict=True):
        assert of_stated.saved_ns - of_stated.open_ns <= of_true.saved_ns <= of_stated.saved_ns
        assert all(of_stated.devices[device_key] >= saved_ns for device_key, saved_ns in of_true.devices.items())
    assert any(of_stated.open_ns for of_stated in stated)


@pytest.mark.check
def test_tables_of_ranks_are_the_same_when_they_are_written_rank_by_rank(tmp_path: Path) -> None:
    canonical = simulate_job(JITTER).canonical_tables()
    with in_memory.connect_tables(canonical) as connection:
        held = {name: connection.sql(f"FROM attribution.{name}").to_arrow_table() for name in engine.derived_tables()}
    with in_memory.connect_tables(canonical) as connection:
        connection.execute("DROP SCHEMA attribution CASCADE")
        left = engine.compute_derived(connection, folder=tmp_path)
        for name, table in held.items():
            rows = left[name] if name in left else pq.read_table(tmp_path / f"{name}.parquet")
            assert rows.to_pylist() == table.to_pylist(), name


@pytest.mark.check
@pytest.mark.parametrize("name", OF_RANKS)
def test_every_job_is_scanned_exactly(name: str) -> None:
    bounds = bounds_of({**JOBS[name], "jitter": 0.05}, seed=1)
    for one in (bounds, *bounds.lower_bounds(UNCERTAINTIES).values()):
        assert differences(joint(one), questions(bounds)) == (0, 0)


@given(
    st.lists(st.sampled_from([200, 700, 1_500, 9_000]), min_size=4, max_size=4),
    st.lists(st.sampled_from([1.0, 1.0, 1.1, 1.4]), min_size=4, max_size=4),
    st.lists(st.sampled_from([1.0, 1.0, 40.0, 90.0]), min_size=4, max_size=4),
    st.sampled_from([0.0, 0.02, 0.2]),
    st.integers(0, 1_000),
)
@examples()
@pytest.mark.check
def test_random_jobs_are_scanned_within_what_is_stated(
    loader_us: list[int], kernel_scale: list[float], host_scale: list[float], jitter: float, seed: int
) -> None:
    job = dict(wide_job(4, jitter=jitter, collectives=4))
    job["programs"] = [[{"next": {"us": us}}, *job["programs"][0][1:]] for us in loader_us]
    scales = zip(kernel_scale, host_scale, strict=True)
    job["faults"] = [{"rank": rank, "kernel_scale": gpu, "host_scale": host} for rank, (gpu, host) in enumerate(scales)]
    bounds = bounds_of({**job, "steps": 3}, seed)
    _, stated = differences(joint(bounds), questions(bounds))
    assert stated <= 0.005 * max(device.window_ns for device in bounds.devices.values())
