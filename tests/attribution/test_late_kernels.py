"""Kernels that the profiler lost at the start take no step short: what was recorded whole counts.

PyTorch's profiler registers its clock with CUPTI once a session; each further session of a process then loses the
kernels that it sees first (pytorch/pytorch#192021, torch 2.10).
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from traceanalyzer.run import open_run

GPU = ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation")
TRACE = "sample_traces/launch_bound/rank0.json.gz"


def without_first_kernels(trace: dict[str, Any], share: float) -> dict[str, Any]:
    """Leave out the work of the GPU that begins in the first share of its time, and the arrows to it."""
    starts = [event["ts"] for event in trace["traceEvents"] if event.get("cat") in GPU]
    since = min(starts) + share * (max(starts) - min(starts))
    of_gpu = [event for event in trace["traceEvents"] if event.get("cat") in GPU or event.get("ph") == "f"]
    lost = {id(event) for event in of_gpu if event["ts"] < since}
    kept = [event for event in trace["traceEvents"] if id(event) not in lost]
    return trace | {"traceEvents": kept}


def diagnosed(trace: dict[str, Any], folder: Path) -> tuple[list[tuple[int, str | None]], float, list[str]]:
    """Return the steps with why each is dropped, the mean of those that count in ms, and what warnings say."""
    (folder / "rank0.json").write_text(json.dumps(trace))
    with open_run(folder / "rank0.json", store=folder / "store", jobs=1) as run:
        steps = run.connection.sql("SELECT step, drop_reason FROM steps ORDER BY step").fetchall()
        ((mean_ms,),) = run.connection.sql("SELECT avg(dur_ns) / 1e6 FROM steps WHERE kept").fetchall()
        return steps, mean_ms, [item.message for item in run.diagnose().findings if item.rule == "tq-lost-records"]


@pytest.fixture
def trace(root: Path) -> dict[str, Any]:
    with gzip.open(root / TRACE) as file:
        loaded: dict[str, Any] = json.load(file)
    return loaded


@pytest.mark.check
def test_a_step_that_lacks_its_first_kernels_is_no_step(trace: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    _, whole_ms, warned = diagnosed(trace, tmp_path / "whole")
    assert warned == []
    (tmp_path / "late").mkdir()
    steps, mean_ms, warned = diagnosed(without_first_kernels(trace, 0.5), tmp_path / "late")
    assert [why for _, why in steps[:4]] == ["no GPU work"] * 3 + ["cut short"]
    assert mean_ms == pytest.approx(whole_ms, rel=0.02)
    assert len(warned) == 1
    assert "kernel launches have no kernel" in warned[0]
    assert "Time and steps before the first kernel are left out." in warned[0]


@pytest.mark.check
@pytest.mark.parametrize("share", [0.05, 0.2, 0.35])
def test_no_number_of_a_step_follows_how_much_is_lost(trace: dict[str, Any], tmp_path: Path, share: float) -> None:
    (tmp_path / "whole").mkdir()
    _, whole_ms, _ = diagnosed(trace, tmp_path / "whole")
    (tmp_path / "late").mkdir()
    _, mean_ms, warned = diagnosed(without_first_kernels(trace, share), tmp_path / "late")
    assert mean_ms == pytest.approx(whole_ms, rel=0.02)
    assert len(warned) == 1
