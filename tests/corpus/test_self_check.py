"""The honesty checks hold on simulated runs and on every real trace, and notice when something is wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from conftest import corpus_path
from msgspec import structs
from self_check import changed_tables, check_run, closing, invariance
from self_check.bounding import shrinking
from workloads.step_programs import data_parallel, kernels

from traceanalyzer.attribution.replay.bounds import Bounds
from traceanalyzer.rules.diagnosis.diagnosing import diagnose
from traceanalyzer.rules.evaluation.sandbox import readers
from traceanalyzer.rules.rule_set.loading import load_rules
from traceanalyzer.run import open_run
from tracesim import in_memory, simulate, simulate_job

SIMULATED: dict[str, dict[str, Any]] = {
    "loader or sync": {"steps": 6, "kernels": 60, "kernel_us": 80, "loader_us": 6000, "item_per_step": 1},
    "launch-bound": {"steps": 6, "kernels": 200, "kernel_us": 5, "host_us": 8, "stacks": True, "shapes": True},
    "copies and collectives": {"steps": 6, "kernels": 40, "h2d_mb": 100, "sync_events": True, "comm_us": 3000},
    "four ranks": {"ranks": 4, "steps": 6, "kernels": 40, "comm_us": 500, "faults": {"rank": 3, "loader_us": 9000}},
}
# One rank waits for its copy in some steps and not in others.
TWO_LATE: dict[str, Any] = {
    "ranks": 2,
    "steps": 6,
    "program": data_parallel(per_bucket=4),
    "faults": [{"rank": 0, "loader_us": 9_000}, {"rank": 1, "loader_us": 8_000}],
}
# Half of the steps load late and wait for their copy; in the others it hides beside the step before.
HIDDEN_LATER: dict[str, Any] = {
    "steps": 8,
    "program": [
        {"next": {"us": [9_000] * 4 + [0] * 4}},
        {"h2d": {"mb": 64}},
        kernels(10, 100),
        {"py": 6_000},
        kernels(20, 200),
    ],
}


RULES = load_rules(tests=False)


def connected(scenario: dict[str, Any]) -> duckdb.DuckDBPyConnection:
    """Return a connection over a simulated run, for the built-in rules."""
    return in_memory.connect_tables(simulate_job(scenario).canonical_tables(), readers=readers(RULES))


@pytest.mark.check
@pytest.mark.parametrize("name", SIMULATED)
def test_every_check_holds_on_a_simulated_run(name: str) -> None:
    con = connected(SIMULATED[name])
    checks = check_run(con, diagnose(con, RULES))
    assert {check.claim: check.broken for check in checks if check.broken} == {}
    assert not any(check.skipped for check in checks)
    assert len(checks) >= 12


def real_runs() -> Iterator[Path]:
    """Name every trace of two parts of the corpus; those that lie in one folder together."""
    for folder in ("kineto", "nsys"):
        for path in sorted((corpus_path() / folder).glob("*")):
            yield path.relative_to(corpus_path())


@pytest.mark.check
@pytest.mark.parametrize("path", list(real_runs()), ids=str)
def test_every_check_holds_on_a_real_run(path: Path, corpus: Path, store_of: Callable[[Path], Path]) -> None:
    with open_run(corpus / path, store=store_of(corpus / path)) as run:
        checks = check_run(run.connection, run.diagnose())
    assert {check.claim: check.broken for check in checks if check.broken} == {}


@pytest.mark.check
def test_times_of_another_scale_have_the_same_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    # Thresholds are times too: with all of them a thousand times as long nothing else may know the unit.
    tables = simulate(SIMULATED["loader or sync"]).canonical_tables()
    told = invariance.shares(in_memory.connect_tables(tables))
    for name, module in list(sys.modules.items()):
        if name.startswith("traceanalyzer.attribution"):
            for constant, value in vars(module).items():
                if constant.endswith("_NS") and isinstance(value, int):
                    monkeypatch.setattr(module, constant, 1000 * value)
    scaled = invariance.shares(in_memory.connect_tables(changed_tables.scaled(tables, 1000)))
    assert scaled.keys() == told.keys()
    # Whole nanoseconds are a thousand times finer now.
    assert {key: share for key, share in scaled.items() if share != pytest.approx(told[key], abs=1e-5)} == {}


def test_a_window_that_truly_grows_when_more_is_removed_is_let_pass() -> None:
    run = simulate(HIDDEN_LATER)
    con = in_memory.connect_tables(run.canonical_tables())
    ((first, last),) = con.execute("SELECT min(step), max(step) + 1 FROM attribution.steps WHERE kept").fetchall()
    less, more = ("host.launch_api",), ("host.launch_api", "dev.h2d")
    true_less, true_more = (run.true_saving(*causes, first_step=first, last_step=last) for causes in (less, more))
    assert true_more < true_less
    bounds = Bounds.load(con)
    assert bounds.bound(0, 0, frozenset(more)) < bounds.bound(0, 0, frozenset(less))
    assert shrinking(bounds, [(0, 0)]) == ()


@pytest.mark.check
def test_fixes_of_ranks_that_wait_for_each_other_are_held_to_what_the_run_saves() -> None:
    con = connected(TWO_LATE)
    diagnosis = diagnose(con, RULES)
    first = next(finding for finding in diagnosis.findings if finding.marginal_order == 1)
    # The rank alone would gain more than the run does: the other one is late as well.
    assert (first.run_saving_ns or 0) < (first.saving_ns or 0)
    assert closing.marginals(diagnosis) == ()
    assert shrinking(Bounds.load(con), [(0, 0), (1, 0)]) == ()
    promised = replace(first, marginal_ns=(first.marginal_ns or 0) - 100_000)
    assert closing.marginals(replace(diagnosis, findings=(promised,))) != ()


def test_an_event_that_comes_later_when_more_is_removed_is_noticed() -> None:
    bounds = Bounds.load(in_memory.connect_tables(simulate(SIMULATED["loader or sync"]).canonical_tables()))
    device = bounds.devices[0, 0]
    # Time of operators that counts against the scan's lead: taking it out makes things later.
    costs = {cause: (at, -ns if cause == "host.python" else ns) for cause, (at, ns) in device.scan.costs.items()}
    changed = structs.replace(device.scan, costs=costs)
    wrong = structs.replace(bounds, devices={(0, 0): structs.replace(device, load=lambda: changed)})
    assert shrinking(bounds, [(0, 0)]) == ()
    assert shrinking(wrong, [(0, 0)]) != ()


def test_a_ledger_with_a_hole_is_noticed() -> None:
    con = in_memory.connect_tables(simulate(SIMULATED["loader or sync"]).canonical_tables())
    con.execute(
        "DELETE FROM attribution.ledger_rows WHERE row_id = (SELECT max(row_id) - 9 FROM ledger_rows WHERE kept)"
    )
    assert closing.gaps(con) != ()
    assert closing.open_windows(con) != ()


@pytest.mark.check
def test_time_that_is_owned_twice_is_noticed() -> None:
    con = connected(SIMULATED["loader or sync"])
    diagnosis = diagnose(con, RULES)
    twice = replace(diagnosis, findings=(*diagnosis.findings, *diagnosis.findings))
    assert closing.open_claims(diagnosis, RULES) == ()
    assert closing.open_claims(twice, RULES) != ()
    assert closing.marginals(twice) == () or closing.marginals(twice)[0].startswith("simulated.json")


@pytest.mark.check
def test_an_answer_that_depends_on_the_clock_is_noticed() -> None:
    con = connected(SIMULATED["loader or sync"])
    told = invariance.summary(con, diagnose(con, RULES))
    key = next(key for key, share in told.shares.items() if share)
    other = replace(told, shares={**told.shares, key: 0.5})
    assert invariance.differences(told, other) != ()
    assert invariance.differences(told, told) == ()


@pytest.mark.check
def test_a_finding_that_vanishes_with_its_evidence_is_noticed() -> None:
    con = connected(SIMULATED["loader or sync"])
    told = invariance.summary(con, diagnose(con, RULES))
    fired = {place: state for place, state in told.states.items() if state == "fired"}
    blind = replace(told, states=dict.fromkeys(fired, "clear"))
    rules = frozenset(rule for rule, _, _ in fired)
    assert len(invariance.turned_clear(told, blind, rules)) == len(fired)
    assert invariance.turned_clear(told, replace(told, states=dict.fromkeys(fired, "abstained")), rules) == ()


@pytest.mark.check
def test_bounds_that_abstain_are_not_asked() -> None:
    tables = simulate(SIMULATED["loader or sync"]).canonical_tables()
    thin = changed_tables.without_launches(tables)
    assert thin is not None
    con = in_memory.connect_tables(thin, readers=readers(RULES))
    assert Bounds.load(con).abstains(0, 0) is not None
    assert not any(check.broken for check in check_run(con, diagnose(con, RULES)))


@pytest.mark.check
def test_the_change_that_makes_a_difference_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def some_kernels(tables: changed_tables.Tables) -> changed_tables.Tables:
        ops = tables["gpu_ops"]
        kept = [op["op_id"] % 8 < 4 for op in ops.select(["op_id"]).to_pylist()]
        return {**tables, "gpu_ops": ops.filter(pa.array(kept))}

    claims = {"kernels do not matter": some_kernels, **dict(list(invariance.SAME_RUN.items())[:1])}
    monkeypatch.setattr(invariance, "SAME_RUN", claims)
    con = connected(SIMULATED["loader or sync"])
    checks = check_run(con, diagnose(con, RULES))
    assert [check.claim for check in checks if check.broken] == ["kernels do not matter"]
