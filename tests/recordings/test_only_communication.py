"""A trace that holds nothing but communication says which rank the others wait for, and no time that it cannot know."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import rewritten_trace as rewritten
from rewritten_trace import Document

from traceanalyzer.report import formats
from traceanalyzer.run import open_run
from tracesim import simulate_job

JOB = {"ranks": 2, "steps": 12, "kernels": 4, "comm_us": 500, "faults": {"rank": 1, "loader_us": 9_000}}


def communication_alone(document: Document) -> Document:
    """Return the kernels of collectives without all else."""
    events = [
        event
        for event in document["traceEvents"]
        if event["ph"] == "M" or (event.get("cat") == "kernel" and event["name"].startswith("nccl"))
    ]
    return {**document, "traceEvents": events}


def diagnosed(path: Path, store: Path) -> tuple[dict[str, Any], str]:
    stream = io.StringIO()
    with open_run(path, store=store, with_settings=False) as run:
        diagnosis = run.diagnose()
        formats.write_diagnosis(diagnosis, "markdown", stream)
    return json.loads(diagnosis.to_json()), " ".join(stream.getvalue().split())


@pytest.mark.check
def test_the_last_rank_is_named_where_nothing_but_collectives_is_recorded(tmp_path: Path) -> None:
    for rank, file in enumerate(simulate_job(JOB).write_kineto(tmp_path / "job")):
        rewritten.write(communication_alone(rewritten.read(file)), tmp_path / "run" / f"rank{rank}.json.gz")
    found, screen = diagnosed(tmp_path / "run", tmp_path / "store")
    (finding,) = [item for item in found["findings"] if item["kind"] == "finding"]
    assert (finding["rule"], finding["rank"], finding["saving_ns"]) == ("comm-last-rank", 1, None)
    assert "No compute kernels were recorded; one rank comes last to the collectives" in screen
    assert "busy with compute" not in screen
    assert "No rule explains" not in screen


@pytest.mark.check
def test_a_reported_file_of_four_merged_ranks_names_the_last(corpus: Path, tmp_path: Path) -> None:
    file = corpus.parent / "recordings" / "small" / "merged_ranks_nccl_only.json.gz"
    if not file.is_file():
        pytest.skip(f"no {file.name}")
    found, _ = diagnosed(file, tmp_path)
    (finding,) = [item for item in found["findings"] if item["kind"] == "finding"]
    assert (finding["rule"], finding["rank"], finding["device"]) == ("comm-last-rank", 3, 5)
    assert "Rank 3 (device 5) enters 15 of 15 collectives last" in finding["message"]
    assert "for 36.0 to 60.9 ms" in finding["message"]
