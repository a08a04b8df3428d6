"""diagnose --rank and --top: fewer findings are shown, how many is said, and the verdict stays that of the run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from traceanalyzer.cli import main
from tracesim import simulate_job

LATE_RANK = {
    "ranks": 3,
    "steps": 6,
    "kernels": 60,
    "comm_us": 500,
    "item_per_step": 1,
    "faults": {"rank": 2, "loader_us": 9_000},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job of three ranks of which one waits for its data loader."""
    folder = tmp_path_factory.mktemp("run42")
    simulate_job(LATE_RANK).write_kineto(folder)
    return folder


@pytest.fixture
def shown(run: Path, capsys: pytest.CaptureFixture[str]) -> Shown:
    """Runs `diagnose` with options and gives what it prints."""
    return Shown(run, capsys)


class Shown:
    """Runs `traceanalyzer diagnose RUN …` in this process."""

    def __init__(self, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._run, self._capsys = run, capsys

    def __call__(self, *options: str) -> str:
        assert main(["diagnose", str(self._run), "-q", *options]) == 0
        return self._capsys.readouterr().out


@pytest.mark.check
def test_the_findings_of_a_rank_are_its_own_and_those_of_the_run(shown: Shown) -> None:
    whole = json.loads(shown("--format", "json"))
    of_one = {finding["rule"] for finding in whole["findings"] if finding["rank"] == 2}
    assert of_one
    early, late = shown("--rank", "0"), shown("--rank", "2")
    for rule in of_one:
        assert f"  {rule}\n" in late
    assert "(--rank 2); all but the ledger is of the whole run." in " ".join(late.split())
    assert "rank 0, device 0" in early
    assert "rank 2, device 0" in late
    # The verdict is the same: the run is no healthier for a rank that is looked at alone.
    sentence = whole["verdict"]["sentence"]
    assert sentence in " ".join(early.split())
    assert sentence in " ".join(late.split())


@pytest.mark.check
def test_the_first_findings_are_shown_and_the_rest_is_counted(shown: Shown) -> None:
    rules = {f["rule"] for f in json.loads(shown("--format", "json"))["findings"] if f["kind"] == "finding"}
    assert len(rules) > 1
    page = shown("--top", "1")
    assert f"1 of {len(rules)} findings shown (--top 1)" in " ".join(page.split())
    assert "\n1  " in page
    assert "\n2  " not in page


@pytest.mark.check
def test_json_is_always_whole(shown: Shown) -> None:
    assert shown("--format", "json", "--top", "1", "--rank", "0") == shown("--format", "json")


@pytest.mark.check
def test_a_rank_that_is_not_there_is_an_error(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for format_ in ("terminal", "json"):
        assert main(["diagnose", str(run), "--rank", "9", "--format", format_]) == 2
        assert capsys.readouterr().err == "error: --rank: the run has no rank 9\nhint: ranks here: 0-2\n"
