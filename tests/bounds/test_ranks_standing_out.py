"""Ranks that stand out are named at any size, the second culprit too, and ranks that only wait for them are not."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from report_diagnoses import many_ranks
from workloads.wide_jobs import wide_job

from traceanalyzer.diagnosis import Diagnosis, RankSteps, StandsOut
from traceanalyzer.report import formats
from traceanalyzer.rules.diagnosis.diagnosing import diagnose
from traceanalyzer.rules.diagnosis.ranks import rank_steps
from traceanalyzer.rules.diagnosis.reporting import ledgers
from traceanalyzer.rules.evaluation.sandbox import readers
from traceanalyzer.rules.rule_set.loading import load_rules
from tracesim import in_memory, simulate_job

MOST_LINES = 150
RULES = load_rules(tests=False)


def ranks_of(scenario: Any, seed: int = 1) -> tuple[RankSteps, ...]:
    with in_memory.connect_tables(simulate_job({**scenario, "steps": 4}, seed).canonical_tables()) as connection:
        return rank_steps(connection, ledgers(connection))


def standing_out(ranks: tuple[RankSteps, ...]) -> dict[int | None, str]:
    return {item.rank: item.stands_out.bucket for item in ranks if item.stands_out}


@pytest.mark.check
def test_a_late_loader_and_a_slow_gpu_stand_out_and_those_that_wait_for_them_do_not() -> None:
    ranks = ranks_of(wide_job(8, late=5, slow=2, jitter=0.01, collectives=6))
    assert standing_out(ranks) == {5: "host.dataloader", 2: "compute"}
    (slow,) = (item.stands_out for item in ranks if item.rank == 2)
    assert slow is not None
    assert slow.bucket_more_share == pytest.approx(0.12, abs=0.01)
    assert slow.step_hits == len(ranks[2].own_ns)


@pytest.mark.check
def test_nobody_stands_out_in_a_healthy_job() -> None:
    assert standing_out(ranks_of(wide_job(8, jitter=0.02, collectives=6))) == {}


@pytest.mark.check
def test_stages_that_run_other_kernels_are_not_compared() -> None:
    job = dict(wide_job(8, collectives=2))
    longer = [{"repeat": 60, "do": [{"kernel": {"us": 120, "class": "attention"}}]}, *job["programs"][0]]
    job["programs"] = [*job["programs"][:4], *[longer] * 4]
    ranks = ranks_of(job)
    assert [item.role for item in ranks] == [0] * 4 + [1] * 4
    assert standing_out(ranks) == {}


@pytest.mark.check
def test_a_rank_that_is_late_in_one_step_had_an_accident() -> None:
    job = dict(wide_job(4, collectives=2))
    once = [{"next": {"us": [200, 200, 60_000, 200]}}, *job["programs"][0][1:]]
    job["programs"] = [once, *job["programs"][1:]]
    assert standing_out(ranks_of(job)) == {}


def wide_diagnosis(rank_count: int) -> Diagnosis:
    """A run in which the first rank of every hundred is 30 % slower in the first of four steps, and 7 % in others."""
    ranks = tuple(
        RankSteps(
            *(f"rank{rank}.json.gz", rank, 0, 0, (10_000_000,) * 4),
            (0.3, 0.07, 0.07, 0.07) if rank % 100 == 0 else (0.001,) * 4,
            StandsOut(4, 1_300_000, 0.13, "host.gc", 900_000, None) if rank % 100 == 0 else None,
        )
        for rank in range(rank_count)
    )
    return replace(many_ranks(), ranks=ranks)


def shown(diagnosis: Diagnosis, format_: str = "terminal") -> str:
    stream = io.StringIO()
    formats.write_diagnosis(diagnosis, format_, stream)
    return stream.getvalue()


def test_the_map_shows_the_slowest_rank_of_each_cell() -> None:
    lines = shown(wide_diagnosis(256)).splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("Ranks that stand out"))
    assert "253 of 256 ranks are as usual" in lines[at]
    assert [line.split()[1] for line in lines[at + 2 : at + 5]] == ["0", "100", "200"]
    assert "Python garbage collection, 900.0 µs longer" in lines[at + 2]
    assert "8 ranks in a cell" in lines[at + 5]
    cells = "▒···········▒············▒······"
    assert lines[at + 6 : at + 8] == [f"  step 1  {cells.replace('▒', '█')}", f"  step 2  {cells}"]


def test_markdown_shows_the_same_map() -> None:
    assert "step 2  ▒···········▒············▒······\n" in shown(wide_diagnosis(256), "markdown")


@pytest.mark.parametrize("rank_count", [256, 4_096])
def test_a_wide_run_takes_no_more_lines_than_a_narrow_one(rank_count: int) -> None:
    assert len(shown(wide_diagnosis(rank_count)).splitlines()) < MOST_LINES
    widest = max(len(line) for line in shown(wide_diagnosis(rank_count)).splitlines())
    assert widest <= 100


@pytest.mark.long
@pytest.mark.check
def test_both_culprits_among_64_ranks_are_named_by_the_default_report() -> None:
    def report(**culprits: int) -> str:
        tables = simulate_job(wide_job(64, jitter=0.03, **culprits), seed=1).canonical_tables()
        with in_memory.connect_tables(tables, readers=readers(RULES)) as connection:
            return shown(diagnose(connection, RULES, run_name="wide"))

    sick, healthy = report(late=17, slow=35), report()
    for rank, why in ((17, "waiting for the data loader"), (35, "its GPU computes")):
        (line,) = (line for line in sick.splitlines() if line.startswith(f"  rank {rank} ") and "all steps" in line)
        assert why in line
    assert "faster device" not in sick
    assert len(sick.splitlines()) <= MOST_LINES
    assert "stand out" not in healthy
    assert "straggler-wait" not in healthy
