"""Whether each promise came true: measured on simulated jobs with one fault and with two, whose truth is known."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from drawn_summaries import MS, capture, finding

import traceanalyzer
from traceanalyzer.comparison.comparing import Diff, compare
from traceanalyzer.comparison.loading import summarize
from traceanalyzer.comparison.summary import NamedTime, NamedTimes, Summary
from traceanalyzer.comparison.verification import Promise, Verification
from traceanalyzer.report import formats
from tracesim import simulate_job

HEALTHY: dict[str, Any] = {"steps": 11, "kernels": 60, "pinned_gb_per_s": 20.0, "device": "H200"}
# Each with its fault: what the job has with it, and what it has once it is fixed.
FAULTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "dataloader-bound": ({"loader_us": 6_500}, {}),
    "sync-in-step": ({"host_us": 16, "item_per_step": 1}, {}),
    "attention-unfused": ({"attention": "unfused", "attention_layers": 5, "attention_us": 600}, {}),
    "h2d-pageable": (
        {"h2d_mb": 28, "h2d_pinned": False},
        {"h2d_mb": 28, "h2d_pinned": True, "h2d_stream": "compute"},
    ),
}

Summarized = Callable[[Mapping[str, Any]], Summary]


@pytest.fixture(scope="module")
def summarized(tmp_path_factory: pytest.TempPathFactory) -> Summarized:
    """Simulates a job, writes its trace, and summarizes it the way a user does; each job once."""
    folder = tmp_path_factory.mktemp("jobs")

    @cache
    def made(job: tuple[tuple[str, Any], ...]) -> Summary:
        path = folder / str(len(list(folder.iterdir())))
        simulate_job(dict(job), 0).write_kineto(path / "trace")
        with traceanalyzer.open(path / "trace", store=path / "store") as run:
            return summarize(run, run.diagnose(), "job")

    return lambda job: made(tuple(sorted(job.items())))


def job_of(*faults: str, fixed: tuple[str, ...] = ()) -> dict[str, Any]:
    """A job with some faults, of which some are fixed."""
    job = dict(HEALTHY)
    for name in faults:
        job.update(FAULTS[name][name in fixed])
    return job


def fix(summarized: Summarized, faults: tuple[str, ...], fixed: tuple[str, ...]) -> Diff:
    return compare([summarized(job_of(*faults))], [summarized(job_of(*faults, fixed=fixed))])


def verified(diff: Diff) -> Verification:
    assert diff.verification is not None
    return diff.verification


def by_rule(diff: Diff) -> dict[str, Promise]:
    return {item.rule: item for item in verified(diff).promises}


@pytest.mark.check
@pytest.mark.parametrize("fault", ["dataloader-bound", "attention-unfused", "h2d-pageable"])
def test_of_one_fault_the_measured_saving_holds_the_true_one(summarized: Summarized, fault: str) -> None:
    diff = fix(summarized, (fault,), (fault,))
    promise = by_rule(diff)[fault]
    true_ns = -diff.delta_ns
    assert promise.saved_least_ns is not None and promise.saved_most_ns is not None
    # Other buckets change a little, too.
    assert promise.saved_least_ns - 0.01 * true_ns <= true_ns <= promise.saved_most_ns + 0.01 * true_ns
    # Copies from pinned memory are exposed instead, so that much of the copies' time comes back.
    assert fault == "h2d-pageable" or promise.saved_most_ns - promise.saved_least_ns <= 0.05 * true_ns
    assert verified(diff).others_ns == true_ns - promise.saved_most_ns


@pytest.mark.check
def test_of_two_faults_each_has_the_saving_of_its_own_fix(summarized: Summarized) -> None:
    both = ("attention-unfused", "h2d-pageable")
    diff = fix(summarized, both, both)
    promises = by_rule(diff)
    for fault in both:
        alone_ns = -fix(summarized, both, (fault,)).delta_ns
        promise = promises[fault]
        assert promise.saved_least_ns is not None and promise.saved_most_ns is not None
        assert promise.saved_least_ns - 0.03 * alone_ns <= alone_ns <= promise.saved_most_ns + 0.03 * alone_ns
    most_ns = sum(promise.saved_most_ns or 0 for promise in promises.values())
    found = verified(diff)
    assert found.others_ns is not None
    assert (found.saved_ns, most_ns + found.others_ns) == (-diff.delta_ns, -diff.delta_ns)


@pytest.mark.check
def test_two_faults_that_hide_each_other_are_not_separable(summarized: Summarized) -> None:
    both = ("dataloader-bound", "sync-in-step")
    diff = fix(summarized, both, both)
    alone_ns = [-fix(summarized, both, (fault,)).delta_ns for fault in both]
    assert sum(alone_ns) > 1.2 * -diff.delta_ns > 1.2 * max(alone_ns)
    promises = by_rule(diff)
    assert {rule: promise.unknown for rule, promise in promises.items()} == {
        "dataloader-bound": "not separable from sync-in-step",
        "sync-in-step": "not separable from dataloader-bound",
    }
    assert all(promise.saved_most_ns is None for promise in promises.values())
    assert verified(diff).others_ns is None
    assert verified(diff).ratio == pytest.approx(1, abs=0.01)


LOADER, SYNC = finding("dataloader-bound", 0.2), finding("sync-in-step", 0.1)
CLEAR = dict.fromkeys(("dataloader-bound", "sync-in-step"), "clear")
WAITS = {"host.dataloader": 20.0, "host.sync": 10.0}


def test_each_finding_has_what_its_own_buckets_lost_and_the_parts_add_up() -> None:
    base = capture((100.0,) * 4, waits_ms=WAITS, findings=[LOADER, SYNC])
    new = capture((76.0,) * 4, waits_ms={"host.dataloader": 2.0, "host.sync": 5.0}, outcomes=CLEAR)
    diff = compare([base], [new])
    assert [(item.rule, item.saved_least_ns, item.saved_most_ns) for item in verified(diff).promises] == [
        ("dataloader-bound", 18 * MS, 18 * MS),
        ("sync-in-step", 5 * MS, 5 * MS),
    ]
    assert (verified(diff).saved_ns, verified(diff).others_ns) == (24 * MS, 1 * MS)


def test_time_that_comes_back_elsewhere_may_be_the_time_of_any_fix() -> None:
    base = capture((100.0,) * 4, waits_ms=WAITS, findings=[LOADER, SYNC])
    new = capture((74.0,) * 4, waits_ms={"host.op": 4.0}, outcomes=CLEAR)
    ranges = [(item.saved_least_ns, item.saved_most_ns) for item in verified(compare([base], [new])).promises]
    assert ranges == [(16 * MS, 20 * MS), (6 * MS, 10 * MS)]


def test_a_promise_is_open_where_more_time_came_back_than_it_promised() -> None:
    base = capture((100.0,) * 4, waits_ms={"host.dataloader": 20.0}, findings=[LOADER])
    new = capture((110.0,) * 4, waits_ms={"host.op": 30.0}, outcomes=CLEAR)
    diff = compare([base], [new])
    (loader,) = verified(diff).promises
    assert (loader.saved_least_ns, loader.unknown) == (None, "more time came back elsewhere")
    assert "more time came back elsewhere" in str(diff)


def test_findings_with_time_in_one_bucket_are_told_apart_only_where_all_of_it_is_gone() -> None:
    parts = [finding(rule, 0.1, owned_buckets={"host.op": 40 * MS}) for rule in ("launch-bound", "python-bound")]
    base = capture((100.0,) * 4, waits_ms={"host.op": 20.0}, findings=parts)
    clear = dict.fromkeys(("launch-bound", "python-bound"), "clear")
    gone = compare([base], [capture((80.0,) * 4, outcomes=clear)])
    assert [item.saved_least_ns for item in verified(gone).promises] == [10 * MS, 10 * MS]
    half = compare([base], [capture((90.0,) * 4, waits_ms={"host.op": 10.0}, outcomes=clear)])
    assert [item.unknown for item in verified(half).promises] == [
        "not separable from python-bound",
        "not separable from launch-bound",
    ]


def test_kernels_are_told_apart_by_their_class() -> None:
    parts = [
        finding("attention-unfused", 0.2, owned_buckets={"compute.softmax": 120 * MS}),
        finding("matmul-misaligned", 0.1, owned_buckets={"compute.gemm": 280 * MS}),
    ]
    clear = dict.fromkeys(("attention-unfused", "matmul-misaligned"), "clear")
    base = with_classes(capture((100.0,) * 4, findings=parts), {"gemm": 70, "softmax": 30})
    new = with_classes(capture((75.0,) * 4, outcomes=clear), {"gemm": 65, "softmax": 10})
    assert [(item.rule, item.saved_most_ns) for item in verified(compare([base], [new])).promises] == [
        ("attention-unfused", 20 * MS),
        ("matmul-misaligned", 5 * MS),
    ]


def test_kernels_that_ran_at_once_are_not_told_apart() -> None:
    parts = [
        finding("attention-unfused", 0.2, owned_buckets={"compute.softmax": 120 * MS}),
        finding("matmul-misaligned", 0.1, owned_buckets={"compute.gemm": 280 * MS}),
    ]
    clear = dict.fromkeys(("attention-unfused", "matmul-misaligned"), "clear")
    base = with_classes(capture((100.0,) * 4, findings=parts), {"gemm": 90, "softmax": 30})
    new = with_classes(capture((75.0,) * 4, outcomes=clear), {"gemm": 65, "softmax": 10})
    assert {item.unknown for item in verified(compare([base], [new])).promises} == {
        "not separable from matmul-misaligned",
        "not separable from attention-unfused",
    }


def with_classes(summary: Summary, ms_per_step: Mapping[str, float]) -> Summary:
    """A capture with these kernels, one of each class."""
    rows = tuple(NamedTime(kind, kind, 4, round(ms * 4 * MS)) for kind, ms in ms_per_step.items())
    return replace(summary, kernels=NamedTimes(rows, 4))


def test_time_that_is_not_in_the_compared_ledger_is_no_failed_promise() -> None:
    straggler = finding("comm-straggler-wait", 0.2, owned_buckets={"dev.straggler_wait": 80 * MS})
    base = capture((100.0,) * 4, findings=[straggler])
    new = capture((80.0,) * 4, outcomes={"comm-straggler-wait": "clear"})
    (promise,) = verified(compare([base], [new])).promises
    assert (promise.saved_most_ns, promise.unknown) == (None, "its time is not in the ledger that is compared")


def test_a_promise_is_per_unit_of_work_where_that_is_compared() -> None:
    loader = finding("dataloader-bound", 0.2, saving_ns=60 * MS, owned_buckets={"host.dataloader": 60 * MS})
    base = capture(
        (300.0,), has_steps=False, waits_ms={"host.dataloader": 60.0}, kernels={"k": (100, 240)}, findings=[loader]
    )
    new = capture((120.0,), has_steps=False, kernels={"k": (50, 120)}, outcomes={"dataloader-bound": "clear"})
    (promise,) = verified(compare([base], [new])).promises
    # The new window holds half the work, which is the unit.
    assert (promise.bound_ns, promise.saved_most_ns) == (30 * MS, 30 * MS)


def test_a_summary_of_an_older_release_says_that_its_time_is_not_recorded() -> None:
    base = capture((100.0,) * 4, waits_ms={"host.dataloader": 20.0}, findings=[finding(owned_buckets={})])
    diff = compare([base], [capture((80.0,) * 4, outcomes={"dataloader-bound": "clear"})])
    stream = io.StringIO()
    formats.write_diff(diff, None, "terminal", stream)
    assert "no time of its own is recorded" in " ".join(stream.getvalue().split())


@pytest.mark.check
def test_a_real_pair_says_what_became_of_its_promise(root: Path, tmp_path: Path) -> None:
    """The loader's wait of real PyTorch captures has no bound without GPU work, so nothing is promised."""
    sides = []
    for name in ("slow_1", "fixed_1"):
        path = root / "sample_traces" / "torch_cpu_pairs" / name
        with traceanalyzer.open(path, store=tmp_path / name) as run:
            sides.append(summarize(run, run.diagnose(), name))
    assert compare(sides[:1], sides[1:]).verification is None


@pytest.mark.parametrize(
    ("least_ms", "most_ms", "words"),
    [
        (7, 7, "70.0 %"),
        (25, 25, "all of it"),
        (7, 9, "70.0 % to 90.0 %"),
        (10, 25, "all of it"),
        (7, 25, "at least 70.0 %"),
        (-2, 9, "at most 90.0 %"),
        (-2, 25, "none to all of it"),
    ],
)
def test_how_much_of_a_promise_was_kept_is_said_without_shares_beyond_it(
    least_ms: int, most_ms: int, words: str
) -> None:
    promise = Promise("dataloader-bound", "", 10 * MS, {"host.dataloader": 25 * MS}, least_ms * MS, most_ms * MS)
    found = Verification((promise,), 10 * MS, 10 * MS, 1.0, 0, None)
    text = str(replace(compare([capture()], [capture()]), verification=found))
    (line,) = [line for line in text.splitlines() if line.lstrip().startswith("dataloader-bound")]
    assert line.endswith(f"  {words}")
