"""What no fix changes is asked once: a rule that it keeps clear is not asked again behind other fixes."""

from __future__ import annotations

import pytest
from faultbench.examining import examine
from faultbench.planted import Fault
from faultbench.uncommon import UNCOMMON

from traceanalyzer.rules.evaluation import verdicts
from traceanalyzer.rules.evaluation.interventions import DeviceBound, Intervention
from traceanalyzer.rules.rule_file.sql_text import CHANGING, lasting_conditions

SELECT = "SELECT bound.*, waits.count FROM bound JOIN waits USING (trace_id)"


@pytest.mark.parametrize(
    ("select", "when", "lasting"),
    [
        (SELECT, "bound_share >= $min AND count >= 2 AND decodes", ["count >= 2", "decodes"]),
        (SELECT, "bound_share >= $min", []),
        (SELECT, "count >= 2 OR decodes AND is_own", ["count >= 2 OR decodes AND is_own"]),
        (SELECT, "count >= 2 OR bound_share >= 1", []),
        (SELECT, "(count >= 2 OR is_own) AND (decodes OR run_ns > 1)", ["(count >= 2 OR is_own)"]),
        (SELECT, "count BETWEEN 1 AND 2 AND bound_ns > 1", ["count BETWEEN 1 AND 2"]),
        (SELECT, "CASE WHEN a AND b THEN c ELSE d END AND claimed_ns > 0", ["CASE WHEN a AND b THEN c ELSE d END"]),
        (SELECT, "name = 'this AND that' AND step_share > 0", ["name = 'this AND that'"]),
        (SELECT, "name = 'it''s OR' -- or AND\n AND ms_per_step > 0", ["name = 'it''s OR'"]),
        (SELECT, "count >= 2 /* AND, or */ AND bound_share > 0", ["count >= 2"]),
        (SELECT, "BOUND_SHARE >= 1", []),
        ("SELECT bound.*, 2 * Bound_Share AS twice FROM bound", "twice > 1", []),
        ("SELECT *, 2 * bound_share AS twice FROM bound", "twice > 1", []),
        ("SELECT trace, hash(bound) AS hashed FROM bound", "hashed > 1", []),
        ("SELECT trace, b AS whole FROM bound AS b", "whole IS NULL", []),
        ("SELECT trace, b AS whole FROM bound b", "whole IS NULL", []),
        ("SELECT COLUMNS('_share$') AS share FROM bound", "share > 1", []),
    ],
)
def test_the_parts_of_a_condition_that_no_fix_changes(select: str, when: str, lasting: list[str]) -> None:
    assert [part.strip() for part in lasting_conditions(select, when)] == lasting


def test_the_columns_that_change_are_those_of_bounds_that_differ() -> None:
    window = dict.fromkeys(("trace", "rank", "device", "trace_id", "launch_link_share", "mode", "step_spread"), 0)
    window |= {"window_ns": 100, "step_count": 4}
    claims = {
        "claimed_ns": 2,
        "claimed_count": 3,
        "resolved_share": 0.5,
        "step_count": 2,
        "worst_ns": 7,
        "worst_step": 1,
    }
    before = DeviceBound(window, Intervention(), 10, run_ns=5, longest_ns=200).row({})
    after = DeviceBound(window, Intervention(), 20, after_fixes=True, run_ns=6, longest_ns=200).row(claims)
    assert sorted(name for name in after if before[name] != after[name]) == sorted(CHANGING)


@pytest.mark.check
@pytest.mark.parametrize(
    "fault", [UNCOMMON[0], *(pytest.param(fault, marks=pytest.mark.check) for fault in UNCOMMON[1:])]
)
def test_a_diagnosis_is_the_same_where_every_rule_is_asked_again(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    once = examine(fault.scenario, "tables")
    monkeypatch.setattr(verdicts, "lasting_conditions", lambda select, when: [])
    assert examine(fault.scenario, "tables").findings == once.findings
