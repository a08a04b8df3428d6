"""Which calls of two ranks are one collective, where only their order says so."""

from __future__ import annotations

import random

import pytest

from traceanalyzer.attribution.matching_collectives import Call, in_order

US = 1_000
EXCHANGE = ("alltoall", "Float", 1 << 20, 1 << 20)


def recorded(ends_us: list[float], durs_us: list[float], rank: int) -> list[Call]:
    """Return the calls of a rank by their ends and durations."""
    return [
        Call((rank, rank), at, round((end - dur) * US), round(dur * US), EXCHANGE, None)
        for at, (end, dur) in enumerate(zip(ends_us, durs_us, strict=True))
    ]


def exchanges(count: int, jitter_us: float, seed: int) -> tuple[list[float], list[list[float]]]:
    """Return the ends of exchanges about every 10 ms, and how long each of two ranks is in them: the last one 12 µs."""
    draw = random.Random(seed)
    ends = [10_000 * (at + 1) + draw.uniform(-jitter_us, jitter_us) for at in range(count)]
    durs: list[list[float]] = [[], []]
    for _ in range(count):
        late, wait_us = draw.randrange(2), draw.uniform(100, 2_000)
        durs[late].append(12)
        durs[1 - late].append(12 + wait_us)
    return ends, durs


@pytest.mark.parametrize("late_us", [0, 5_000, 100_000])
@pytest.mark.parametrize("at", [0, 5, 11])
@pytest.mark.parametrize("offset_us", [0, -3_000_000])
def test_one_exchange_that_ends_late_on_one_rank_shifts_none(late_us: float, at: int, offset_us: float) -> None:
    ends, durs = exchanges(12, jitter_us=400, seed=at)
    others = [end + offset_us + (late_us if number == at else 0) for number, end in enumerate(ends)]
    matched = in_order({(0, 0): recorded(ends, durs[0], 0), (1, 1): recorded(others, durs[1], 1)})
    assert [[call.op_id for call in match] for match in matched] == [[number, number] for number in range(12)]
    transfers_us = sum(min(call.dur for call in match) for match in matched) / US
    assert transfers_us == pytest.approx(12 * 12)


def test_a_rank_that_began_to_record_one_exchange_later_is_shifted() -> None:
    ends, durs = exchanges(12, jitter_us=400, seed=3)
    matched = in_order({(0, 0): recorded(ends, durs[0], 0), (1, 1): recorded(ends[1:], durs[1][1:], 1)})
    assert [[call.op_id for call in match] for match in matched] == [
        [0],
        *([number + 1, number] for number in range(11)),
    ]


def test_equal_exchanges_at_equal_distances_are_matched_in_their_order() -> None:
    ends = [10_000.0 * at for at in range(1, 13)]
    calls = {(rank, rank): recorded(ends, [12.0] * 12, rank) for rank in range(2)}
    assert all(len(match) == 2 for match in in_order(calls))
