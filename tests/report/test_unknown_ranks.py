"""Reports of traces whose rank is unknown: they name no rank."""

from __future__ import annotations

from pathlib import Path

import pytest

from traceanalyzer.cli import main


@pytest.mark.check
@pytest.mark.parametrize("report", ["terminal", "markdown", "html"])
def test_a_rank_that_is_unknown_has_no_name(
    root: Path, report: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two cycles of one process under the file names of PyTorch's own handler, without metadata about ranks."""
    run = root / "tests" / "data" / "recordings" / "default_names_two_cycles"
    assert main(["diagnose", str(run), "--store", str(tmp_path / "store"), "--format", report]) == 0
    shown = capsys.readouterr().out
    assert "compute" in shown
    assert "rank None" not in shown
    assert "ranks None" not in shown
