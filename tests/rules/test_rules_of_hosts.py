"""Findings of runs without GPU work promise each time once."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from traceanalyzer import open_run
from traceanalyzer.diagnosis.verdict import judge, leading_finding, problems

STEP_US = 20_000


def _rank(rank: int, own_us: int, loader_us: int) -> dict[str, object]:
    """Return a trace whose steps load, compute for 1 ms, are outside operators for `own_us`, and exchange data."""
    events: list[dict[str, object]] = []

    def event(name: str, category: str, ts: int, dur: int) -> None:
        events.append({"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur})

    for step in range(1, 6):
        start = step * STEP_US
        event(f"ProfilerStep#{step}", "user_annotation", start, STEP_US)
        event("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "user_annotation", start, loader_us)
        event("aten::mm", "cpu_op", start + loader_us, 1000)
        exchange = start + loader_us + 1000 + own_us
        event("gloo:all_reduce", "user_annotation", exchange, start + STEP_US - exchange)
    return {"traceEvents": events, "distributedInfo": {"backend": "gloo", "rank": rank, "world_size": 2}}


@pytest.mark.check
@pytest.mark.parametrize(
    ("late", "other", "expected"),
    [
        ((16_000, 0), (1000, 0), {"cpu-rank-late": (), "cpu-python-bound": ("cpu-rank-late",)}),
        ((2000, 14_000), (1000, 0), {"cpu-rank-late": (), "cpu-loader-bound": ("cpu-rank-late",)}),
        ((1000, 16_000), (1000, 1000), {"cpu-rank-late": (), "cpu-loader-bound": ("cpu-rank-late",)}),
        # All ranks lose most of it: the finding that is about all of it covers the other.
        ((16_000, 0), (11_000, 0), {"cpu-python-bound": (), "cpu-rank-late": ("cpu-python-bound",)}),
        # What the rank does otherwise is no part of what makes it late.
        (
            (5000, 10_000),
            (5000, 0),
            {
                "cpu-rank-late": (),
                "cpu-loader-bound": ("cpu-rank-late",),
                "cpu-python-bound": (),
                "cpu-exchange-bound": (),
            },
        ),
    ],
)
def test_what_makes_a_rank_late_is_promised_once(
    tmp_path: Path, late: tuple[int, int], other: tuple[int, int], expected: dict[str, tuple[str, ...]]
) -> None:
    for rank, (own_us, loader_us) in enumerate((other, late)):
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(_rank(rank, own_us, loader_us)))
    with open_run(tmp_path, store=tmp_path / "store") as run:
        diagnosis = run.diagnose()
    findings = [item for item in diagnosis.findings if item.saving_share and 1 in (item.rank, *item.same_on_ranks)]
    lead = leading_finding(diagnosis)
    assert lead is not None and lead.status == "primary", "the headline promises what another finding explains"
    assert lead.title in judge(diagnosis).sentence
    assert problems(diagnosis)[0] == lead, "the first finding is of another rank than the headline"
    assert {item.rule: item.alternatives for item in findings} == expected
    assert sum(item.saving_share or 0 for item in findings if item.status == "primary") <= 1


@pytest.mark.check
def test_the_late_rank_is_shown_with_the_operators_that_make_it_late(tmp_path: Path) -> None:
    for rank, own_us in enumerate((1000, 16_000)):
        trace = _rank(rank, own_us, 0)
        events = trace["traceEvents"]
        assert isinstance(events, list)
        if rank:
            sorts = [
                {"ph": "X", "cat": "cpu_op", "name": "aten::sort", "pid": 1, "tid": 1, "ts": ts, "dur": 12_000}
                for ts in (event["ts"] + 1000 for event in events if event["name"] == "aten::mm")
            ]
            events += sorts
        # The rank that waits ends its steps a little later.
        for event in events:
            if event["name"].startswith("ProfilerStep") and not rank:
                event["dur"] += 1
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(trace))
    with open_run(tmp_path, store=tmp_path / "store") as run:
        diagnosis = run.diagnose()
    text = str(diagnosis)
    assert "rank 1 · the slowest of 2" in text
    assert re.search(r"operator +here +other ranks\n +aten::sort +60\.00 ms +0 ns\n", text)


def _compiled_rank(piece_count: int) -> dict[str, object]:
    """Return a trace of steps that are outside operators for most of their time, with compiled code in pieces."""
    trace = _rank(0, 16_000, 0)
    events = trace["traceEvents"]
    assert isinstance(events, list)
    # Each piece lies in the one before it.
    events += [
        {"ph": "X", "cat": "cpu_op", "name": f"Torch-Compiled Region: {piece}/0", "pid": 1, "tid": 1, **at}
        for event in list(events)
        if event["name"].startswith("ProfilerStep")
        for piece in range(piece_count + 1)
        for at in [{"ts": event["ts"] + 1500 + piece, "dur": 2000 - 2 * piece}]
    ]
    return {"traceEvents": events}


@pytest.mark.check
@pytest.mark.parametrize(("piece_count", "is_explained"), [(5, True), (1, False)])
def test_graph_breaks_explain_time_outside_operators_on_the_cpu(
    tmp_path: Path, piece_count: int, is_explained: bool
) -> None:
    (tmp_path / "rank0.json").write_text(json.dumps(_compiled_rank(piece_count)))
    with open_run(tmp_path, store=tmp_path / "store") as run:
        (finding,) = (item for item in run.diagnose().findings if item.rule == "cpu-python-bound")
    explained = [item.rule for item in finding.explanations]
    assert explained == (["graph-breaks-many"] if is_explained else [])
    assert all("CUDA" not in item.message for item in finding.explanations)
