"""How often a verdict is wrong, and how often a real change is found."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from drawn_summaries import capture
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tiers import examples

from traceanalyzer.comparison import statistics
from traceanalyzer.comparison.comparing import compare
from traceanalyzer.comparison.gate import check_diff
from traceanalyzer.comparison.statistics import judge
from traceanalyzer.comparison.summary import DeviceTimes
from traceanalyzer.errors import TraceAnalyzerError

TRIALS = 1000
STEPS = 20


def drawn_captures(
    seed: int, count: int, *, spread: float, autocorrelation: float, step_sd: float = 0.02
) -> Iterator[list[float]]:
    """Yield the mean steps of `count` captures, trial after trial: steps depend on those before, captures differ."""
    random = np.random.default_rng(seed)
    shocks = random.standard_normal((TRIALS, count, STEPS))
    steps = np.empty_like(shocks)
    steps[..., 0] = shocks[..., 0]
    for at in range(1, STEPS):
        steps[..., at] = autocorrelation * steps[..., at - 1] + math.sqrt(1 - autocorrelation**2) * shocks[..., at]
    levels = np.exp(spread * random.standard_normal((TRIALS, count, 1)))
    means = (100e6 * levels * (1 + step_sd * steps)).mean(axis=2)
    yield from means.tolist()


@pytest.mark.check
@pytest.mark.parametrize("autocorrelation", [0.0, 0.6])
@pytest.mark.parametrize("spread", [0.0, 0.01, 0.05])
@pytest.mark.parametrize("count", [3, 5])
def test_captures_of_one_program_are_called_different_in_six_of_a_hundred_at_most(
    count: int, spread: float, autocorrelation: float
) -> None:
    trials = drawn_captures(20261123, 2 * count, spread=spread, autocorrelation=autocorrelation)
    verdicts = [judge(means[:count], means[count:], min_effect_share=0.02).verdict for means in trials]
    assert sum(verdict in ("slower", "faster") for verdict in verdicts) <= 0.06 * TRIALS


@pytest.mark.check
def test_one_capture_of_the_same_program_is_called_different_from_a_history_in_six_of_a_hundred_at_most() -> None:
    for history in (3, 5, 10):
        trials = drawn_captures(7, history + 1, spread=0.03, autocorrelation=0.3)
        verdicts = [judge(means[:-1], means[-1:], min_effect_share=0.02).verdict for means in trials]
        assert sum(verdict in ("slower", "faster") for verdict in verdicts) <= 0.06 * TRIALS


@pytest.mark.check
def test_five_percent_more_is_found_and_its_bucket_named() -> None:
    right = found = 0
    for means in drawn_captures(11, 8, spread=0.01, autocorrelation=0.3):
        base = [capture((mean / 1e6,) * 4, waits_ms={"host.op": 20, "host.dataloader": 10}) for mean in means[:4]]
        new = [
            capture((1.05 * mean / 1e6,) * 4, waits_ms={"host.op": 20, "host.dataloader": 10 + 0.05 * mean / 1e6})
            for mean in means[4:]
        ]
        diff = compare(base, new)
        found += diff.judgement.verdict == "slower"
        right += diff.judgement.verdict == "slower" and diff.ledger[0].bucket == "host.dataloader"
    assert found >= 0.95 * TRIALS
    assert right == found


@given(*(st.lists(st.floats(1, 1e9), min_size=2, max_size=6) for _ in range(2)))
@examples()
def test_welch_is_that_of_scipy(base: list[float], new: list[float]) -> None:
    if len(set(base)) < 2 or len(set(new)) < 2:
        return
    ours, theirs = statistics.welch(base, new), stats.ttest_ind(new, base, equal_var=False)
    limits = theirs.confidence_interval(0.95)
    scale = max(map(abs, (*base, *new)))
    assert ours.p_value == pytest.approx(theirs.pvalue, rel=1e-6, abs=1e-12)
    assert (ours.low, ours.high) == pytest.approx((limits.low, limits.high), rel=1e-6, abs=1e-9 * scale)


@given(*(st.lists(st.floats(1e5, 1e9), min_size=1, max_size=5) for _ in range(2)))
@examples()
def test_verdicts_mirror(base: list[float], new: list[float]) -> None:
    there, back = (judge(*sides, min_effect_share=0.02) for sides in ((base, new), (new, base)))
    mirrored = {"slower": "faster", "faster": "slower"}
    assert back.verdict == mirrored.get(there.verdict, there.verdict)


def test_captures_needed_are_those_of_the_power_table() -> None:
    table = {(0.01, 0.05): 3, (0.03, 0.05): 8, (0.03, 0.10): 3, (0.08, 0.10): 13, (0.08, 0.20): 5}
    needed = {key: statistics.captures_needed(key[0], math.log1p(key[1])) for key in table}
    assert needed == table


def test_captures_that_agree_are_the_same_and_captures_that_do_not_are_unsure() -> None:
    assert judge([100.0, 100.4, 99.7], [100.1, 99.9, 100.2], min_effect_share=0.02).verdict == "same"
    unsure = judge([100.0, 120.0], [90.0, 110.0], min_effect_share=0.02)
    assert unsure.verdict == "unsure"


def test_captures_needed_are_listed_from_the_largest_change_to_the_smallest() -> None:
    needed = judge([100.0, 120.0], [85.0, 105.0], min_effect_share=0.02).needed
    assert [(round(item.effect_share, 3), item.is_measured) for item in needed] == [
        (0.2, False),
        (0.138, True),
        (0.1, False),
        (0.05, False),
    ]
    captures = [item.captures or 0 for item in needed]
    assert captures == sorted(captures) and captures[0] > 1


def test_a_shown_change_below_the_least_effect_is_no_change() -> None:
    tight = judge([100.0, 100.01, 100.02], [101.0, 101.01, 101.02], min_effect_share=0.02)
    assert tight.low_share is not None and tight.low_share > 0
    assert tight.verdict == "same"


def test_one_capture_a_side_differs_at_most() -> None:
    steps = ([100.0, 101.0, 99.0, 100.5], [120.0, 121.0, 119.0, 120.5])
    assert judge([100.0], [120.0], steps_ns=steps, min_effect_share=0.02).verdict == "these captures differ"
    assert judge([100.0], [120.0], min_effect_share=0.02).verdict == "unsure"
    known = judge([100.0], [120.0], steps_ns=steps, min_effect_share=0.02, capture_spread=0.03)
    assert known.verdict == "slower"
    assert judge([100.0], [105.0], min_effect_share=0.02, capture_spread=0.03).verdict == "unsure"


def test_the_same_captures_are_the_same_without_a_test() -> None:
    one = capture()
    diff = compare([one], [one])
    assert diff.judgement.verdict == "same"
    assert not any(row.delta_ns for row in diff.ledger)


def test_steps_that_follow_each_other_are_thinned() -> None:
    slow_wave = [100 + 10 * math.sin(at / 6) for at in range(40)]
    assert statistics.autocorrelation_time(slow_wave) > 1.5
    assert len(statistics.thinned(slow_wave)) < len(slow_wave)
    assert statistics.thinned([1.0, 3.0, 1.0, 3.0, 1.0]) == [1.0, 3.0, 1.0, 3.0, 1.0]


def test_many_changes_are_corrected_for_being_many() -> None:
    assert statistics.holm([0.04, 0.03, 0.001]) == [False, False, True]
    assert statistics.holm([0.01, 0.02, 0.03]) == [True, True, True]
    assert statistics.false_discoveries([0.001, 0.9, 0.02]) == [True, False, True]


def test_without_scipy_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "scipy.special", None)
    with pytest.raises(TraceAnalyzerError, match="need SciPy") as raised:
        judge([1.0, 2.0], [3.0, 4.0], min_effect_share=0.02)
    assert raised.value.hint == "pip install 'gpu-traceanalyzer[stats]'"


@pytest.mark.check
@examples()
@given(
    st.lists(st.integers(0, 12), min_size=4, max_size=12),
    st.lists(st.integers(0, 12), min_size=4, max_size=12),
    st.lists(st.floats(0, 1), min_size=1, max_size=12),
)
def test_what_is_not_taken_from_scipy_stats_equals_it(base: list[int], new: list[int], p_values: list[float]) -> None:
    expected = stats.mannwhitneyu(base, new, method="exact").pvalue
    assert statistics.mann_whitney(base, new) == pytest.approx(expected, rel=1e-9)
    many = [[value + 13 * at for at in range(20) for value in side] for side in (base, new)]
    if len(base) * len(new) * 400 > statistics.MOST_EXACT_PAIRS:
        expected = stats.mannwhitneyu(*many, method="asymptotic").pvalue
        assert statistics.mann_whitney(*many) == pytest.approx(expected, rel=1e-9)
    shown = [bool(p <= statistics.ALPHA) for p in stats.false_discovery_control(p_values)]
    assert statistics.false_discoveries(p_values) == shown


@pytest.mark.parametrize(("new", "verdict"), [(40.0, "faster"), (77.0, "unsure"), (130.0, "unsure"), (160.0, "slower")])
def test_one_capture_a_side_shows_a_change_that_no_captures_differ_by(new: float, verdict: str) -> None:
    found = judge([100.0], [new], min_effect_share=0.02)
    assert found.verdict == verdict
    assert found.could_be_slower(0.02) is (verdict != "faster")
    assert found.because.startswith("one capture a side does not show how much captures")
    assert ("by how much cannot be known closer" in found.because) is (verdict != "unsure")


def test_one_capture_a_side_shows_nothing_where_the_work_is_not_known() -> None:
    assert judge([100.0], [40.0], min_effect_share=0.02, is_unit_sure=False).verdict == "unsure"


@pytest.mark.parametrize(("change", "state"), [(0.4, "passed"), (0.9, "unsure"), (1.15, "unsure"), (1.6, "failed")])
def test_a_gate_passes_and_fails_with_one_capture_a_side(change: float, state: str) -> None:
    base = capture()
    new = replace(base, devices=tuple(_longer(device, change) for device in base.devices), run=None, label="new")
    (check,) = check_diff(compare([replace(base, run=None)], [new]), (), ["slower"]).checks
    assert check.state == state


def _longer(device: DeviceTimes, factor: float) -> DeviceTimes:
    buckets = {name: round(ns * factor) for name, ns in (device.buckets or {}).items()}
    steps = tuple(round(ns * factor) for ns in device.steps_ns)
    return replace(device, window_ns=sum(buckets.values()), buckets=buckets, steps_ns=steps)
