"""What is said of a GPU without compute time: no kernels, kernels of unknown lengths, or kernels elsewhere."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import report_diagnoses as diagnoses
from trace_event_tables import events, slice_text

from traceanalyzer.diagnosis.verdict import judge
from traceanalyzer.run import open_run

ARGS = '{"device": 0, "stream": 7, "correlation": 1}'


def idle(**changes: Any) -> str:
    trace = dataclasses.replace(diagnoses.trace(), **changes)
    return judge(diagnoses.sick(traces=(trace,), ledgers=(diagnoses.ledger(host__python=1.0),), findings=())).sentence


def test_a_gpu_without_kernels_ran_none() -> None:
    assert idle().startswith("The GPU ran no kernels, only copies")


def test_kernels_outside_of_the_window_ran_elsewhere() -> None:
    assert "its 7 kernels ran before or after it" in idle(kernel_count=7, kernel_sum_ns=1000)


@pytest.mark.check
@pytest.mark.parametrize("dur_us", [0, 0.0001])
def test_kernels_without_a_length_are_counted_from_the_trace(dur_us: float, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    kernels = (slice_text("k", ts=10 * i, dur=dur_us, cat='"kernel"', args=ARGS) for i in range(40))
    trace.write_text(events(*kernels, slice_text("Memset", ts=500, dur=1, cat='"gpu_memset"', args=ARGS)))
    with open_run(trace, store=tmp_path / "store", jobs=1) as run:
        sentence = judge(run.diagnose()).sentence
    assert sentence == "40 kernels ran, recorded with a length of 0 ns: how long the GPU computed is not known."


@pytest.mark.check
def test_kernels_on_devices_that_do_not_exist_are_not_said_to_be_none(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    lost = ARGS.replace("0", str(2**31), 1)
    kernels = (slice_text("k", ts=10 * i, dur=5, cat='"kernel"', args=lost) for i in range(40))
    trace.write_text(events(*kernels, slice_text("Memset", ts=500, dur=1, cat='"gpu_memset"', args=ARGS)))
    with open_run(trace, store=tmp_path / "store", jobs=1) as run:
        sentence = judge(run.diagnose()).sentence
    assert sentence.startswith("40 GPU operations named no device that exists: how long")
