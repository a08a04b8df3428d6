"""The joint scan of all ranks: what it leaves out is nothing, and its limit of what one rank saves alone holds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples
from workloads.wide_jobs import wide_job
from workloads.workloads import JOBS

from traceanalyzer.attribution.replay.bounds import Bounds
from traceanalyzer.attribution.replay.kernel import replay_alone
from traceanalyzer.attribution.replay.scan import WhatIf
from tracesim import in_memory, simulate_job


def bounds_of(scenario: Any, seed: int = 0) -> Bounds:
    with in_memory.connect_tables(simulate_job(scenario, seed).canonical_tables()) as connection:
        return Bounds.load(connection)


def questions(bounds: Bounds) -> list[dict[tuple[int, int], WhatIf]]:
    """Return one what-if for each cause of each device: that cause removed there alone."""
    return [
        {device_key: WhatIf(frozenset({cause}))}
        for device_key in bounds.device_keys
        for cause in sorted(bounds.causes(*device_key) | {"dev.straggler_wait"})
    ]


def check_limits(bounds: Bounds) -> None:
    """Check that nothing moves where nothing changes, and that one rank alone saves no more than its limit."""
    for device in bounds.devices.values():
        assert not replay_alone(device.scan.events, device.scan.changes(WhatIf())).any()
    queries = questions(bounds)
    for what_ifs, answer in zip(queries, bounds.runs(queries), strict=True):
        (device_key,) = what_ifs
        assert answer.saved_ns <= bounds.most_alone_ns(device_key)


@pytest.mark.long
@given(
    st.lists(st.sampled_from([200, 700, 1_500, 9_000]), min_size=8, max_size=8),
    st.lists(st.sampled_from([1.0, 1.0, 1.1, 1.4]), min_size=8, max_size=8),
    st.integers(0, 1_000),
)
@examples()
@pytest.mark.check
def test_one_rank_alone_saves_no_more_than_the_others_waited(
    loader_us: list[int], kernel_scale: list[float], seed: int
) -> None:
    job = dict(wide_job(8, jitter=0.02, collectives=4))
    job["programs"] = [[{"next": {"us": us}}, *job["programs"][0][1:]] for us in loader_us]
    job["faults"] = [{"rank": rank, "kernel_scale": scale} for rank, scale in enumerate(kernel_scale)]
    check_limits(bounds_of({**job, "steps": 3}, seed))


@pytest.mark.check
@pytest.mark.parametrize("name", JOBS)
def test_the_limit_of_one_rank_alone_holds_in_every_job(name: str) -> None:
    check_limits(bounds_of(JOBS[name]))


@pytest.mark.check
def test_ranks_that_never_come_last_alone_are_known_to_save_the_run_nothing() -> None:
    bounds = bounds_of({**wide_job(8, late=5, collectives=4), "steps": 3})
    assert [device_key for device_key in bounds.device_keys if bounds.most_alone_ns(device_key)] == [(5, 0)]
