"""Devices are asked in shares: several a task, so that few tasks are sent, and not too many events in one."""

from __future__ import annotations

from collections import Counter

import pytest

from traceanalyzer.pipeline.attributing import shares_of


@pytest.mark.parametrize(
    ("event_counts", "sizes"),
    [
        ([], []),
        ([1_000_000], [1]),
        ([100_000] * 20, [8, 8, 4]),
        ([1_000] * 200, [66, 66, 66, 2]),
        ([0] * 9, [9]),
        ([70_000, *[10] * 9, 70_000], [8, 3]),
    ],
)
def test_a_share_has_eight_devices_and_as_many_more_as_are_small(event_counts: list[int], sizes: list[int]) -> None:
    shares = shares_of(event_counts)
    assert shares == sorted(shares)
    assert [*Counter(shares).values()] == sizes
