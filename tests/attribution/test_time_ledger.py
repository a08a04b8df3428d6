"""The time ledger closes on every real trace: on the device's span, on each step, and on compute."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from traceanalyzer.run import Run, open_run


@pytest.fixture(scope="module")
def run(corpus: Path, store_of: Callable[[Path], Path]) -> Iterator[Run]:
    """Every Kineto trace of the corpus as one run."""
    opened = open_run(corpus / "kineto", store=store_of(corpus / "kineto"))
    yield opened
    opened.close()


def test_ledger_sums_to_the_expected_span_and_compute_of_every_device(run: Run, corpus: Path) -> None:
    expected = {
        (trace, int(device)): (facts["span_ns"], facts["compute_ns"])
        for trace, found in json.loads((corpus / "expected" / "kineto.json").read_text()).items()
        for device, facts in found["devices"].items()
    }
    # A window that begins ahead of the first operation adds host time ahead of the span.
    rows = run.sql("""
        SELECT
            trace,
            device,
            sum(dur_ns)::BIGINT - any_value(ahead_ns),
            coalesce(sum(dur_ns) FILTER (WHERE bucket = 'compute'), 0)::BIGINT
        FROM time_ledger
        JOIN (
            SELECT
                traces.trace,
                device,
                greatest(0, min(ops.start_ns) - any_value(windows.start_ns))::BIGINT AS ahead_ns
            FROM gpu_ops AS ops
            JOIN windows USING (trace_id, device)
            JOIN traces USING (trace_id)
            GROUP BY traces.trace, device
        ) USING (trace, device)
        WHERE step IS NULL
        GROUP BY trace, device
    """).fetchall()
    assert {(trace, device): (span, compute) for trace, device, span, compute in rows} == expected


def test_rows_follow_each_other_without_gap_or_overlap(run: Run) -> None:
    broken = run.sql(
        "SELECT count(*) FROM (SELECT start_ns + dur_ns AS end_ns, lead(start_ns) OVER "
        "(PARTITION BY trace_id, device ORDER BY row_id) AS next_ns FROM ledger_rows) WHERE end_ns <> next_ns"
    ).fetchall()
    assert broken == [(0,)]


def test_each_step_closes_by_itself(run: Run) -> None:
    broken = run.sql(
        "SELECT trace, step FROM steps FULL JOIN (SELECT trace, device, step, sum(dur_ns) AS sum_ns FROM time_ledger "
        "WHERE step IS NOT NULL GROUP BY ALL) USING (trace, device, step) "
        "WHERE sum_ns IS DISTINCT FROM dur_ns AND dur_ns > 0"
    ).fetchall()
    assert broken == []


def test_the_loader_of_the_starving_run_is_worth_what_the_tensorboard_plugin_says(run: Run) -> None:
    rows = run.sql(
        "SELECT bound_share, owned_share, step_ms FROM host_cause_bounds "
        "WHERE trace = 'resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz' AND cause = 'host.dataloader'"
    ).fetchall()
    ((bound, owned, step_ms),) = rows
    assert 0.28 < bound < 0.38
    assert owned == pytest.approx(bound, abs=0.01)
    assert step_ms == pytest.approx(177.6, abs=5)


def test_nothing_removed_saves_nothing_and_no_bound_exceeds_its_window(run: Run) -> None:
    from traceanalyzer.attribution.replay.bounds import Bounds

    bounds = Bounds.load(run.connection)
    assert {bounds.bound(*place, frozenset()) for place in bounds.devices} == {0}
    assert (
        run.sql("SELECT trace, cause FROM host_cause_bounds WHERE bound_ns > window_ns OR bound_ns < 0").fetchall()
        == []
    )
