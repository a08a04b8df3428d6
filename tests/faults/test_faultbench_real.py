"""Real traces of PyTorch on the CPU: what their names mean, and that a missing GPU is told from none."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from faultbench.real_cpu import PAIRS, RealPair, as_of_a_gpu_job, run_pair, state_share
from tiers import needed

import traceanalyzer
from traceanalyzer.cli import main

NOTHING_LEFT_TO_DIAGNOSE = 3
# Real processes on a busy machine are slowed by others: a capture is taken again before it counts.
CAPTURES = 3


@pytest.fixture
def genuine(root: Path) -> dict[str, object]:
    """A CPU-only job that waits for its loader, as PyTorch recorded it."""
    text = gzip.decompress((root / "sample_traces" / "torch_cpu_slow_loader" / "trace.json.gz").read_bytes())
    trace: dict[str, object] = json.loads(text)
    return trace


def diagnosed(trace: dict[str, object], folder: Path) -> tuple[int, str]:
    """Return the exit code of `diagnose`, and how severe the missing GPU is."""
    (folder / "rank0.json").write_text(json.dumps(trace))
    report = folder / "report" / "diagnosis.json"
    report.parent.mkdir()
    exit_code = main(["diagnose", str(folder / "rank0.json"), "-q", "--format", "json", "--output", str(report)])
    found = {finding["rule"]: finding["severity"] for finding in json.loads(report.read_text())["findings"]}
    return exit_code, found["tq-missing-gpu-activity"]


@pytest.mark.check
def test_a_gpu_job_without_its_kernels_is_not_diagnosed(genuine: dict[str, object], tmp_path: Path) -> None:
    assert diagnosed(as_of_a_gpu_job(genuine), tmp_path) == (NOTHING_LEFT_TO_DIAGNOSE, "blocker")


@pytest.mark.check
def test_a_job_of_the_cpu_alone_is_no_more_than_a_note_and_is_diagnosed(
    genuine: dict[str, object], tmp_path: Path
) -> None:
    assert diagnosed(genuine, tmp_path) == (0, "note")


@pytest.mark.check
def test_the_loaders_time_is_known_by_its_real_name(root: Path, tmp_path: Path) -> None:
    with traceanalyzer.open(root / "sample_traces" / "torch_cpu_slow_loader", store=tmp_path) as run:
        assert 0.8 < state_share(run, "host.dataloader") < 1


@pytest.mark.check
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.job)
def test_real_names_mean_what_rules_take_them_for(pair: RealPair) -> None:
    needed("torch")
    for _ in range(CAPTURES):
        wrong = run_pair(pair).wrong
        if not wrong:
            break
    assert wrong == ()
