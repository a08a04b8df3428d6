"""`diagnose --brief`: three lines for a chat or a log."""

from __future__ import annotations

from pathlib import Path

import pytest

from traceanalyzer.cli import main


def lines(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], sample: str, *options: str) -> list[str]:
    main(["diagnose", str(root / "sample_traces" / sample), "--brief", "--store", str(tmp_path), *options])
    return capsys.readouterr().out.splitlines()


@pytest.mark.check
def test_a_slow_run_has_verdict_cause_and_fix(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verdict, cause, fix = lines(root, tmp_path, capsys, "slow_loader")
    assert verdict.startswith(
        "slow_loader: GPU busy with compute 39.6 % of each step. The GPU waits for the data loader"
    )
    assert cause.startswith("cause: The GPU waits for the next batch in every step.") and cause.endswith(
        "(dataloader-bound)"
    )
    assert fix.startswith("fix: ") and "num_workers=8" in fix


@pytest.mark.check
def test_a_healthy_run_has_one_line(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (verdict,) = lines(root, tmp_path, capsys, "healthy")
    assert verdict == "healthy: Healthy: GPU busy with compute 99.6 % of each step and no rule found an issue."


def test_it_goes_with_no_other_format(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(root / "sample_traces" / "healthy")
    assert main(["diagnose", run, "--brief", "--format", "json", "--store", str(tmp_path)]) == 2
    assert "--brief is text" in capsys.readouterr().err
