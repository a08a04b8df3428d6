"""Real traces: every pair of runs differs by exactly what its rows add up to, and known pairs come out as known."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from conftest import corpus_path, corpus_runs
from test_comparison_differences import check_exact
from tiers import TIER

from traceanalyzer.comparison.comparing import Diff, compare
from traceanalyzer.comparison.gate import check_diff
from traceanalyzer.comparison.loading import summarize
from traceanalyzer.comparison.summary import Summary, read_summaries, text_of
from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.run import open_run
from traceanalyzer.settings.budgets import Budget
from traceanalyzer.settings.settings import NO_SETTINGS

MS = 1e6
BASE = "kineto/resnet50_num_workers_0/worker0.{}.pt.trace.json.gz"
NEW = "more/resnet50_num_workers_4/worker0.{}.pt.trace.json.gz"
MOST_BYTES = 60_000
# All pairs are compared in the nightly tier; pairs of one run of so many in the check.
CHECKED_OF_RUNS = 8
# Every budget that compares with the base, at its strictest.
NO_CHANGE = (
    Budget("step", "slower", 0.0),
    Budget("ledger.compute", "more", 0.0),
    Budget("ledger.host.dataloader", "more", 0.0),
    Budget("findings", "new", "note"),
)
NO_OTHER_KERNELS = (Budget("kernel.*", "slower", 0.0), Budget("kernel.*", "more_launches", 0.0))


def summarized(path: Path, store: Path) -> Summary:
    with open_run(path, store=store) as run:
        return summarize(run, run.diagnose(settings=NO_SETTINGS))


@pytest.mark.check
@pytest.mark.parametrize("path", list(corpus_runs()), ids=lambda path: path.name)
def test_every_run_is_the_same_as_itself(
    path: Path,
    root: Path,
    tmp_path: Path,
    store_of: Callable[[Path], Path],
    diagnosis_of: Callable[[Path], Diagnosis],
) -> None:
    with open_run(path, store=store_of(path)) as run:
        one = summarize(run, diagnosis_of(path))
    text = text_of([one])
    assert len(text.encode()) <= MOST_BYTES
    jsonschema.validate(
        json.loads(text), json.loads((root / "docs" / "summary.schema.json").read_text(encoding="utf-8"))
    )
    (tmp_path / "summary.json").write_text(text, encoding="utf-8")
    assert read_summaries(tmp_path / "summary.json") == [one]
    diff = compare([one], [one])
    assert (diff.judgement.verdict, diff.delta_ns) == ("same", 0)
    assert not any(row.delta_ns for row in diff.ledger)
    assert not any(row.delta_ns for row in (*diff.kernels.rows, *diff.operators.rows))
    assert {item.state for item in diff.findings} <= {"same"}
    budgets = NO_CHANGE + (NO_OTHER_KERNELS if one.kernels.rows else ())
    assert check_diff(diff, budgets, ["any"]).exit_code() == 0


def test_every_pair_of_runs_adds_up(corpus: Path, store_of: Callable[[Path], Path]) -> None:
    runs = sorted(corpus_runs())[:: 1 if TIER == "nightly" else CHECKED_OF_RUNS]
    summaries = [summarized(path, store_of(path)) for path in runs]
    assert len(summaries) > 1
    for base, new in itertools.combinations(summaries, 2):
        check_exact(compare([base], [new]), compare([new], [base]))


@pytest.fixture(scope="module")
def sides(store_of: Callable[[Path], Path]) -> dict[str, Summary]:
    """The runs of the pairs below, with all rules."""
    if not corpus_path().is_dir():
        pytest.skip("no corpus")
    paths = {
        "slow a": BASE.format(1623143089861),
        "slow b": BASE.format(1623143566756),
        "fast a": NEW.format(1623212756351),
        "fast b": NEW.format(1623213129365),
        "mfu before": "more/mfu_2gpu_before.sqlite",
        "mfu after": "more/mfu_2gpu_after.sqlite",
        "thinned base": "kineto/compare_base.json.gz",
        "thinned test": "kineto/compare_test.json.gz",
    }
    return {name: summarized(corpus_path() / path, store_of(corpus_path() / path)) for name, path in paths.items()}


def pair(sides: dict[str, Summary], base: str, new: str) -> Diff:
    both = [[item for name, item in sides.items() if name.startswith(side)] for side in (base, new)]
    return compare(both[0], both[1])


def test_four_loader_workers_take_the_wait_away_and_two_captures_a_side_cannot_show_it(
    corpus: Path, sides: dict[str, Summary]
) -> None:
    diff = pair(sides, "slow", "fast")
    assert diff.judgement.verdict == "unsure"
    assert round(diff.delta_ns / diff.base_ns, 3) == -0.216
    assert (diff.ledger[0].bucket, round(diff.ledger[0].delta_ns / MS, 1)) == ("host.dataloader", -44.6)
    assert round(diff.judgement.p_value or 0, 2) == 0.13
    assert [round(share or 0, 2) for share in (diff.judgement.low_share, diff.judgement.high_share)] == [-0.49, 0.20]
    needed = {item.effect_share: item.captures for item in diff.judgement.needed}
    assert (needed[0.2], needed[0.1]) == (6, 16)
    states = {item.rule: item.state for item in diff.findings}
    assert states["dataloader-bound"] == "gone"
    assert states["optimizer-single-tensor"] == "in the noise"
    assert [rule for rule, state in states.items() if state == "gone"] == ["dataloader-bound"]
    assert diff.verification is not None
    (loader,) = diff.verification.promises
    assert loader.rule == "dataloader-bound"
    # The wait is gone; what came back in operators and in Python may be its time.
    assert [round((ns or 0) / MS, 1) for ns in (loader.bound_ns, loader.saved_least_ns, loader.saved_most_ns)] == [
        45.0,
        35.2,
        44.6,
    ]


@pytest.mark.parametrize("side", ["slow", "fast"])
def test_two_captures_of_one_program_are_never_slower_or_faster(
    corpus: Path, sides: dict[str, Summary], side: str
) -> None:
    for base, new in ((f"{side} a", f"{side} b"), (f"{side} b", f"{side} a")):
        assert pair(sides, base, new).judgement.verdict in ("unsure", "these captures differ")


def test_windows_of_one_length_are_compared_by_their_work(corpus: Path, sides: dict[str, Summary]) -> None:
    diff = pair(sides, "mfu before", "mfu after")
    assert (diff.alignment.kind, diff.alignment.confidence) == ("work", "low")
    assert diff.alignment.work_ratio == pytest.approx(0.882, abs=0.001)
    assert diff.delta_ns / diff.base_ns == pytest.approx(0.13, abs=0.01)


def test_thinned_traces_are_not_compared(corpus: Path, sides: dict[str, Summary]) -> None:
    diff = pair(sides, "thinned base", "thinned test")
    assert diff.judgement.verdict == "not comparable"
    assert "tq-thinned" in diff.judgement.because
    assert check_diff(diff, (), ["any"]).exit_code() == 3
