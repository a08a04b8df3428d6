"""Numbers that are no JSON: decimal commas of a locale, and infinity and NaN in small letters."""

from __future__ import annotations

import pytest
from trace_event_tables import events, read


def kernel(ts: str, dur: str = "5.0", rest: str = "") -> str:
    args = f'"device": 0, "stream": 7, "correlation": 3{rest}'
    return (
        f'{{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": {ts}, "dur": {dur}, "args": {{{args}}}}}'
    )


def test_decimal_commas_are_read_as_points() -> None:
    grid = ', "blocks per SM": 7,757576, "warps per SM": -62,5e1, "grid": [1024, 1, 1], "block": [256, 1, 1]'
    tables = read(events(kernel("1,250", "5,5", grid), kernel("20", rest=grid), kernel("30.5")))
    assert [(op["start_ns"], op["dur_ns"]) for op in tables["gpu_ops"]] == [
        (1250, 5500),
        (20_000, 5000),
        (30_500, 5000),
    ]
    assert [op["blocks_per_sm"] for op in tables["gpu_ops"]] == [pytest.approx(7.757576)] * 2 + [None]
    assert [op["grid_x"] for op in tables["gpu_ops"]] == [1024, 1024, None]
    assert tables.defects == {"mended-text": 2}


@pytest.mark.check
@pytest.mark.parametrize("word", ["inf", "-inf", "nan", "Infinity", "NaN"])
@pytest.mark.parametrize("bad", [kernel("10.0", "-5.0"), kernel("10.0", '"x"')])
def test_a_word_for_a_number_before_a_damaged_event_costs_no_event(word: str, bad: str) -> None:
    tables = read(events(kernel("0.0", rest=f', "blocks per SM": {word}'), bad, kernel("20.0")))
    starts = [op["start_ns"] for op in tables["gpu_ops"]]
    assert starts[0] == 0
    assert starts[-1] == 20_000
    assert tables.defects


@pytest.mark.parametrize("word", ["inf", "nan"])
def test_a_word_for_a_duration_costs_one_event_at_most(word: str) -> None:
    tables = read(events(kernel("0.0"), kernel("10.0", word), kernel("20.0")))
    assert {op["start_ns"] for op in tables["gpu_ops"]} >= {0, 20_000}
    assert tables.defects


@pytest.mark.sampled
@pytest.mark.parametrize(
    "words", [["Infinity", "-nan", "NaN"], ["-nan", "+inf"], ["-nan"], ["-Infinity"], ["inf", "-NaN"]]
)
@pytest.mark.parametrize("chunk_bytes", [2**20, 512])
def test_every_word_for_a_number_is_counted(words: list[str], chunk_bytes: int) -> None:
    texts = []
    for at in range(40):
        first, second = words[2 * at % len(words)], words[(2 * at + 1) % len(words)]
        texts.append(kernel(f"{10 * at}.0", rest=f', "blocks per SM": {first}, "warps per SM": {second}'))
    tables = read(events(*texts), chunk_bytes=chunk_bytes)
    assert len(tables["gpu_ops"]) == 40
    assert tables.defects["bad-number"] == 80
