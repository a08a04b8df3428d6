"""Real traces as `activities=[ProfilerActivity.CUDA]` writes them: the same GPU work, and nothing of the host."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import traceanalyzer as ta
from traceanalyzer.diagnosis.verdict import judge

pytestmark = pytest.mark.check
OF_GPU = {"kernel", "gpu_memcpy", "gpu_memset"}
Event = dict[str, Any]


def exposed_share(events: list[Event]) -> float:
    """Return the share of the time from the first to the last operation in which only collectives run, of kernels."""
    work = [(round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000), e) for e in events if e.get("cat") in OF_GPU]
    kernels = [(start, end, "nccl" in e["name"].lower()) for start, end, e in work if e["cat"] == "kernel"]
    bounds = sorted({at for start, end, _ in kernels for at in (start, end)})
    index = {at: number for number, at in enumerate(bounds)}
    running = {is_comm: [0] * (len(bounds) + 1) for is_comm in (True, False)}
    for start, end, is_comm in kernels:
        running[is_comm][index[start]] += 1
        running[is_comm][index[end]] -= 1
    exposed = comm = compute = 0
    for number, at in enumerate(bounds[:-1]):
        comm, compute = comm + running[True][number], compute + running[False][number]
        exposed += (bounds[number + 1] - at) * (comm > 0 and compute == 0)
    span: int = max(end for _, end, _ in work) - min(start for start, _, _ in work)
    return exposed / span


@pytest.mark.parametrize("name", ["kineto/mi300_resnet_ddp_checkpoint", "more/ddp_unbucketed_allreduce"])
def test_collectives_that_run_alone_are_named_and_no_cause_is(corpus: Path, tmp_path: Path, name: str) -> None:
    whole = json.loads(gzip.decompress((corpus / f"{name}.json.gz").read_bytes()))
    events = [event for event in whole["traceEvents"] if event.get("cat") in OF_GPU or event.get("ph") == "M"]
    file = tmp_path / "rank0.json"
    file.write_text(json.dumps(whole | {"traceEvents": events}))
    with ta.open(file, store=tmp_path / "store") as run:
        diagnosis = run.diagnose()
    (finding,) = [finding for finding in diagnosis.findings if finding.kind != "quality"]
    assert finding.rule == "comm-exposed"
    assert finding.saving_ns is None
    assert f"For {exposed_share(events):.0%} of the time".replace("%", " %") in finding.message.replace(
        "\N{NO-BREAK SPACE}", " "
    )
    assert "The cause of" in judge(diagnosis).sentence and "No rule explains" not in judge(diagnosis).sentence
