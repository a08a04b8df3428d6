"""A pass over many devices at once gives each sync point the lead that a pass over its own device gives it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from workloads.workloads import JOBS

from traceanalyzer.attribution import Bounds, WhatIf
from traceanalyzer.attribution.buckets import Ints
from traceanalyzer.attribution.replay import batched
from traceanalyzer.attribution.replay.batched import DevicePart, starts
from traceanalyzer.attribution.replay.scan import UNCERTAINTIES
from traceanalyzer.attribution.replay.walk import Walk
from traceanalyzer.query import engine
from tracesim import simulate_job

# Devices with different numbers of events, which wait for one, two and more ops, for the host and for workers.
NAMES = ("ranks: pipeline", "ranks: starving workers on one", "ranks: groups", "ranks: gathering ahead")


def parts_of(name: str) -> Iterator[DevicePart]:
    """Return a part of each device, surely and as it may be at worst; every seventh op stands for a sync point."""
    with engine.connect_tables(simulate_job(JOBS[name]).canonical_tables()) as connection:
        bounds = Bounds.load(connection)
    for level in (bounds, *bounds.lower_bounds(UNCERTAINTIES).values()):
        for place in level.places:
            scan = level.devices[place].scan
            causes = sorted(scan.causes())
            removed = [frozenset(), frozenset(causes), *map(frozenset, itertools.pairwise(causes))]
            positions = np.flatnonzero(scan.is_op)[3::7].tolist()
            yield DevicePart(scan, positions, [scan.changes(WhatIf(of_one)) for of_one in removed])


def one_by_one(part: DevicePart, left: Ints) -> Ints:
    found = np.empty_like(left)
    for scenario, leads in enumerate(left.T.tolist()):
        walk = Walk(part.scan.events, part.changes[scenario % len(part.changes)])
        for row, (position, lead) in enumerate(zip(part.positions, leads, strict=True)):
            walk.advance(position + 1)
            found[row, scenario] = walk.starts[position]
            walk.ends[position] = lead
    return found


@pytest.fixture(scope="module")
def parts() -> list[DevicePart]:
    return [part for name in NAMES for part in parts_of(name)]


@pytest.mark.check
@pytest.mark.parametrize("block_bytes", [1 << 24, 1 << 18])
def test_each_meeting_starts_as_in_the_pass_over_its_device(
    parts: list[DevicePart], block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batched, "_BLOCK_BYTES", block_bytes)
    draw = np.random.default_rng(0)
    left = [draw.integers(0, 200_000, (len(part.positions), 2 * len(part.changes))) for part in parts]
    for part, of_part, found in zip(parts, left, starts(parts, left), strict=True):
        assert (found == one_by_one(part, of_part)).all()
    shifted = starts(parts, [of_part << 9 for of_part in left], bits=9)
    assert all((of_shifted >> 9 == found).all() for of_shifted, found in zip(shifted, starts(parts, left), strict=True))
