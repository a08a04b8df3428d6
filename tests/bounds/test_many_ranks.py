"""A run of more ranks than are opened: every culprit is named in a short report, and evidence is of opened ranks."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from report_diagnoses import many_ranks
from workloads.wide_jobs import Planted, planted_job

from traceanalyzer.cli import main
from traceanalyzer.diagnosis import DetailRanks, Diagnosis, RankSteps, RunLedger, StandsOut
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.report import formats
from traceanalyzer.rules.diagnosis.ranks import choose_detail_ranks
from traceanalyzer.run import open_run
from tracesim import simulate_job

RANKS = 256
MISSING = 100
PLANTED = Planted.among(RANKS)
MOST_LINES = 150


def report_of(diagnosis: Diagnosis) -> str:
    stream = io.StringIO()
    formats.write_diagnosis(diagnosis, "terminal", stream)
    return stream.getvalue()


def of_rank(rank: int, own_ns: int, role: int = 0) -> RankSteps:
    usual = 10_000_000
    stands_out = StandsOut(4, own_ns - usual, own_ns / usual - 1, "compute", own_ns - usual, None)
    return RankSteps(
        f"rank{rank}.json", rank, 0, role, (own_ns,) * 4, (0.0,) * 4, stands_out if own_ns > usual else None
    )


STEPS = [of_rank(rank, 10_000_000 + (500_000 if rank in (17, 40) else 0), role=rank % 2) for rank in range(100)]
NAMES: dict[str, int | None] = {item.trace: item.rank for item in STEPS}
LEDGER = RunLedger(100, 4, (("compute", 100),), ((3, 90), (5, 9), (6, 1), (7, 0)))


def opened(detail_ranks: DetailRanks) -> tuple[str, ...] | None:
    screening = choose_detail_ranks(detail_ranks, NAMES, STEPS, LEDGER, many_ranks().findings)
    return None if screening is None else screening.opened


def test_small_runs_are_opened_whole() -> None:
    assert choose_detail_ranks(DetailRanks(), dict(list(NAMES.items())[:64]), STEPS[:64], LEDGER, ()) is None


def test_ranks_that_the_run_waits_for_are_opened_first_then_those_that_stand_out_and_one_of_each_role() -> None:
    chosen = opened(DetailRanks())
    assert chosen is not None
    assert chosen[:7] == tuple(f"rank{rank}.json" for rank in (3, 5, 6, 17, 40, 0, 1))


def test_no_more_ranks_are_opened_than_asked() -> None:
    assert opened(DetailRanks(most=2)) == ("rank3.json", "rank5.json")
    assert opened(DetailRanks(most=0)) == ()
    assert opened(DetailRanks(most=100)) is None
    assert opened(DetailRanks(ranks=(17, 99))) == ("rank17.json", "rank99.json")


def test_a_rank_that_is_not_there_cannot_be_opened() -> None:
    with pytest.raises(TraceAnalyzerError, match="no rank 100"):
        opened(DetailRanks(ranks=(100,)))


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Diagnosis:
    folder = tmp_path_factory.mktemp("planted")
    simulate_job(planted_job(RANKS), seed=1).write_kineto(folder, suffix=".json.gz")
    (folder / f"rank{MISSING}.json.gz").unlink()
    with open_run(folder) as run:
        return run.diagnose()


@pytest.mark.long
@pytest.mark.check
def test_every_culprit_among_256_ranks_is_named_in_a_short_report(planted: Diagnosis) -> None:
    report = report_of(planted)
    assert report.count("\n") <= MOST_LINES
    assert {item.rank for item in planted.ranks if item.stands_out} == PLANTED.ranks
    for rank in (PLANTED.late_loader, PLANTED.slow_gpu, PLANTED.slow_host):
        assert f"rank {rank} " in report
    because = {item.rank: item.stands_out.bucket for item in planted.ranks if item.stands_out}
    assert because[PLANTED.late_loader] == "host.dataloader"
    assert because[PLANTED.slow_host] == "host.python"
    assert {because[rank] for rank in (PLANTED.slow_gpu, *PLANTED.slow_node)} == {"compute"}
    assert f"{RANKS - 1} of {RANKS} ranks are in the run" in report
    first = next(finding for finding in planted.findings if finding.kind == "finding")
    assert (first.rule, first.rank) == ("dataloader-bound", PLANTED.late_loader)


@pytest.mark.long
@pytest.mark.check
def test_evidence_is_of_opened_ranks(planted: Diagnosis) -> None:
    screening = planted.screening
    assert screening is not None
    assert screening.rank_count == RANKS - 1
    assert len(screening.opened) <= 64
    proven = {finding.trace for finding in planted.findings if finding.evidence and finding.trace}
    assert proven
    assert proven <= set(screening.opened)
    assert f"All {RANKS - 1} ranks screened, {len(screening.opened)} opened" in report_of(planted)


@pytest.mark.check
@pytest.mark.parametrize(
    ("options", "hint"),
    [
        (["--open-ranks", "3-"], "for example 17,131 or 8-15"),
        (["--open-ranks", "9-2"], "for example 17,131 or 8-15"),
        (["--open-ranks", "7"], "it has 1, from 0 to 0"),
        (["--level", "screen", "--open", "3"], "give one of both"),
    ],
)
def test_ranks_that_cannot_be_opened_are_refused(
    options: list[str], hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", "sample_traces/healthy", "--store", str(tmp_path), *options]) == 2
    assert f"hint: {hint}" in capsys.readouterr().err


@pytest.mark.check
def test_a_run_of_one_rank_can_be_screened_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", "sample_traces/slow_loader", "--store", str(tmp_path), "--level", "screen"]) == 0
    out = capsys.readouterr().out
    assert "1 rank screened, none opened; no evidence is quoted." in out
    assert "Longest stretches" not in out
