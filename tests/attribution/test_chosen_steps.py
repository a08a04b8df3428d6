"""`diagnose --step`: the chosen steps alone, with the times that they have among all steps."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from traceanalyzer.attribution import AttributionOptions
from traceanalyzer.cli import main
from traceanalyzer.run import open_run

_LEDGER = "SELECT bucket, sum(dur_ns)::BIGINT FROM time_ledger WHERE step = ? GROUP BY bucket ORDER BY bucket"


@pytest.fixture(scope="module")
def sample(root: Path) -> Path:
    """A sample run with steps 0 to 6, of which 1 to 5 are analysed."""
    return root / "sample_traces" / "slow_loader"


def diagnosed(sample: Path, store: Path, *arguments: str) -> int:
    return main(["diagnose", str(sample), "--store", str(store), "--no-settings", "--quiet", *arguments])


@pytest.mark.check
@pytest.mark.parametrize("step", [0, 3])
def test_a_chosen_step_has_the_ledger_and_kernels_that_it_has_among_all(
    sample: Path, store_of: Callable[[Path], Path], tmp_path: Path, step: int
) -> None:
    with open_run(sample, store=store_of(sample)) as run:
        among_all = dict(run.connection.execute(_LEDGER, [step]).fetchall())
        ((kernel_ns,),) = run.connection.execute(
            "SELECT sum(sum_ns)::BIGINT FROM kernels_by_step WHERE step = ?", [step]
        ).fetchall()
    with open_run(sample, store=tmp_path, options=AttributionOptions(steps=(step, step))) as run:
        diagnosis = run.diagnose()
        (ledger,) = diagnosis.ledgers
        ((window_kernel_ns,),) = run.connection.execute(
            "SELECT sum(sum_ns)::BIGINT FROM kernels_by_step WHERE kept"
        ).fetchall()
    assert {bucket: ns for bucket, ns in ledger.buckets if ns} == among_all
    assert diagnosis.findings[0].rule == "dataloader-bound"
    assert ledger.step_count == 1 and window_kernel_ns == kernel_ns


@pytest.mark.check
def test_report_names_the_chosen_steps_and_asks_for_no_longer_recording(
    sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert diagnosed(sample, tmp_path, "--step", "2-3", "--format", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["ledgers"][0]["step_count"] == 2
    assert [(item["kind"], item["what"]) for item in document["overrides"]] == [("steps", "steps 2-3 alone")]
    assert "tq-too-few-steps" not in {finding["rule"] for finding in document["findings"]}
    assert diagnosed(sample, tmp_path, "--step", "2-3") == 0
    assert "steps 2-3 alone" in capsys.readouterr().out.partition("\n")[0]


@pytest.mark.check
@pytest.mark.parametrize(
    ("text", "words"),
    [("9", "no GPU work in step 9"), ("3-2", "names no steps"), ("x", "names no steps"), ("7-9", "any of steps 7-9")],
)
def test_steps_that_are_not_there_are_an_error(
    sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    assert diagnosed(sample, tmp_path, "--step", text) == 2
    assert words in capsys.readouterr().err
