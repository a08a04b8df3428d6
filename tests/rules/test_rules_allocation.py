"""Who owns time that several findings claim, and in which order fixes are told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest
from fixture_runs import open_fixture
from msgspec import structs

from traceanalyzer.rules.diagnosis import planning
from traceanalyzer.rules.diagnosis.reporting import selected_over_all
from traceanalyzer.rules.evaluation.interventions import Intervention
from traceanalyzer.rules.evaluation.run_savings import Interventions
from traceanalyzer.rules.evaluation.scopes import Scope, read_scopes
from traceanalyzer.rules.evaluation.verdicts import Verdict, severity_of
from traceanalyzer.rules.fix_plan.fix_order import Candidate, order_fixes
from traceanalyzer.rules.rule_file.model import Claims, Rule
from traceanalyzer.rules.rule_set.loading import load_rules

PATTERN = next(rule for rule in load_rules() if rule.id == "dataloader-bound")
PLACE = Scope("test", 0)


@dataclass(frozen=True)
class Savings:
    """A replay in one line: fixing any cause of a group saves what the group is worth, once."""

    groups: Mapping[frozenset[str], int]

    def saved_ns(self, fix: Interventions) -> int:
        return sum(worth for group, worth in self.groups.items() if group & fix[0, 0].causes)


def rule_for(name: str, *causes: str, refines: tuple[str, ...] = (), effort: str = "code") -> Rule:
    fixes = (replace(PATTERN.fixes[0], effort=effort),)
    return replace(PATTERN, id=name, claims=Claims(causes), removes=causes, refines=refines, fixes=fixes)


def fired(rule: Rule, bound_ns: int) -> Verdict:
    row = {"bound_ns": bound_ns, "bound_share": bound_ns / 1000}
    return Verdict(
        rule, PLACE, "fired", row=row, fix_order=(0,), interventions={(0, 0): Intervention(frozenset(rule.removes))}
    )


def owned(*verdicts: Verdict) -> tuple[dict[str, int], dict[str, int]]:
    """Share out 100 ns of loader, 30 ns of sync and 5 ns that nobody claims; return owners and the rest."""
    rows = [
        {"row_id": 0, "kept": True, "bucket": "host.dataloader", "cause": "host.dataloader", "dur_ns": 100},
        {"row_id": 1, "kept": True, "bucket": "host.sync", "cause": "host.sync", "dur_ns": 30},
        {"row_id": 2, "kept": True, "bucket": "dev.dispatch", "cause": "dev.dispatch", "dur_ns": 5},
        {"row_id": 3, "kept": False, "bucket": "host.sync", "cause": "host.sync", "dur_ns": 999},
        {"row_id": 4, "kept": True, "bucket": "compute", "dur_ns": 500},
    ]
    con = open_fixture(None, {"ledger_rows": rows, "windows": [{"window_ns": 635}]})
    values = {verdict.rule.id: verdict.rule.values() for verdict in verdicts}
    shares = planning.total_owned(planning.share_out(con, read_scopes(con), verdicts, values))
    return {rule: ns for (rule, _), ns in shares.items()}, dict(planning.unexplained(con, read_scopes(con)))


@pytest.mark.check
def test_time_that_two_findings_claim_goes_to_the_larger_bound() -> None:
    small = fired(rule_for("a", "host.dataloader"), 10)
    large = fired(rule_for("b", "host.dataloader", "host.sync"), 50)
    assert owned(small, large) == ({"b": 130}, {"dev.dispatch": 5})


def test_a_refinement_takes_its_part_before_the_rule_it_refines() -> None:
    general = fired(rule_for("general", "host.dataloader", "host.sync"), 90)
    special = fired(rule_for("special", "host.sync", refines=("general",)), 10)
    assert owned(general, special) == ({"general": 100, "special": 30}, {"dev.dispatch": 5})


def test_refinements_that_go_in_circles_end() -> None:
    first = fired(rule_for("a", "host.sync", refines=("b",)), 10)
    second = fired(rule_for("b", "host.sync", refines=("a",)), 20)
    assert owned(first, second)[0] == {"b": 30}


@pytest.mark.check
def test_equal_claims_go_to_the_first_by_name_whatever_the_order() -> None:
    first, second = fired(rule_for("a", "host.sync"), 10), fired(rule_for("b", "host.sync"), 10)
    assert owned(first, second) == owned(second, first) == ({"a": 30}, {"host.dataloader": 100, "dev.dispatch": 5})


def test_what_no_finding_claims_is_told_by_bucket_largest_first() -> None:
    rest = owned()[1]
    assert list(rest.items()) == [("host.dataloader", 100), ("host.sync", 30), ("dev.dispatch", 5)]


def order_of(
    scan: Savings, *verdicts: Verdict, owned_ns: Mapping[str, int] | None = None
) -> list[tuple[str, int, str]]:
    fixes = [Candidate((verdict,), verdict.bound_ns or 0) for verdict in verdicts]
    items = order_fixes(scan.saved_ns, fixes, owned_ns or {}).items
    return [(item.rule, item.marginal_ns, item.status) for item in items]


def test_independent_fixes_come_largest_first_and_add_up() -> None:
    scan = Savings({frozenset({"host.sync"}): 30, frozenset({"host.gc"}): 200})
    sync, pauses = fired(rule_for("sync", "host.sync"), 30), fired(rule_for("gc", "host.gc"), 200)
    assert order_of(scan, sync, pauses) == [("gc", 200, "primary"), ("sync", 30, "primary")]


def test_a_small_fix_beside_a_large_one_is_no_alternative() -> None:
    # 330 saved together is within 10 % of 320 alone, and still both are worth doing.
    scan = Savings({frozenset({"host.sync"}): 10, frozenset({"host.gc"}): 320})
    sync, pauses = fired(rule_for("sync", "host.sync"), 10), fired(rule_for("gc", "host.gc"), 320)
    assert order_of(scan, sync, pauses)[1] == ("sync", 10, "primary")


def test_of_fixes_for_the_same_time_the_one_that_owns_it_goes_first() -> None:
    scan = Savings({frozenset({"host.sync", "host.dataloader"}): 360})
    loader, sync = fired(rule_for("loader", "host.dataloader"), 360), fired(rule_for("sync", "host.sync"), 360)
    found = order_of(scan, sync, loader, owned_ns={"loader": 356, "sync": 4})
    assert found == [("loader", 360, "primary"), ("sync", 0, "alternative")]


def test_of_fixes_for_the_same_time_the_easier_one_goes_first() -> None:
    scan = Savings({frozenset({"host.sync", "host.python"}): 360})
    gap = fired(rule_for("gap", "host.python", effort="config"), 350)
    wait = fired(rule_for("wait", "host.sync", effort="code"), 360)
    found = order_of(scan, wait, gap, owned_ns={"wait": 360})
    assert found == [("gap", 360, "primary"), ("wait", 0, "alternative")]
    assert order_of(scan, gap, wait, owned_ns={"wait": 360}) == found


def test_a_finding_that_no_known_fix_fits_goes_behind_those_for_the_same_time() -> None:
    scan = Savings({frozenset({"host.sync", "host.python"}): 360})
    none_fits = structs.replace(fired(rule_for("gap", "host.python"), 360), fix_order=())
    wait = fired(rule_for("wait", "host.sync", effort="redesign"), 360)
    assert order_of(scan, none_fits, wait) == [("wait", 360, "primary"), ("gap", 0, "alternative")]


def test_of_equal_fixes_for_the_same_time_the_first_by_id_goes_first() -> None:
    scan = Savings({frozenset({"host.sync", "host.python"}): 360})
    one, other = fired(rule_for("a", "host.python"), 360), fired(rule_for("b", "host.sync"), 360)
    assert order_of(scan, one, other) == order_of(scan, other, one)
    assert order_of(scan, other, one)[0][0] == "a"


def test_fixes_that_are_worth_more_together_are_told_as_a_pair() -> None:
    causes = frozenset({"host.sync"}), frozenset({"host.gc"})

    def worth(fix: Interventions) -> int:
        removed = fix[0, 0].causes
        return 900 if removed >= causes[0] | causes[1] else 100 * len(removed)

    fixes = [Candidate((fired(rule_for("sync", *causes[0]), 100),), 100)]
    fixes += [Candidate((fired(rule_for("gc", *causes[1]), 100),), 100)]
    order = order_fixes(worth, fixes, {})
    (pair,) = order.combinations
    assert (pair.enable, pair.are_alternatives, pair.together_ns) == (True, False, 900)
    assert [item.marginal_ns for item in order.items] == [100, 800]


def test_a_fix_that_costs_goes_last_and_is_told_with_what_it_costs() -> None:
    def worth(fix: Interventions) -> int:
        removed = fix[0, 0].causes
        copies = 0 if "dev.h2d" not in removed else 50 if len(removed) == 1 else -10
        return 300 * ("host.sync" in removed) + 100 * ("host.gc" in removed) + copies

    of_fixes = {"copy": "dev.h2d", "gc": "host.gc", "sync": "host.sync"}
    fixes = [Candidate((fired(rule_for(name, cause), 50),), 50) for name, cause in of_fixes.items()]
    marginals = [(item.rule, item.marginal_ns) for item in order_fixes(worth, fixes, {}).items]
    assert marginals == [("sync", 300), ("gc", 100), ("copy", -10)]


def test_of_savings_that_are_close_the_easier_fix_goes_first() -> None:
    scan = Savings({frozenset({"host.sync"}): 95, frozenset({"host.gc"}): 100})
    easy = fired(rule_for("easy", "host.sync", effort="one-line"), 95)
    hard = fired(rule_for("hard", "host.gc", effort="redesign"), 100)
    assert [name for name, _, _ in order_of(scan, easy, hard)] == ["easy", "hard"]


@pytest.mark.parametrize(
    ("share", "severity"),
    [(0.2, "critical"), (0.199, "high"), (0.1, "high"), (0.03, "medium"), (0.01, "low"), (0.0099, "info"), (0, "info")],
)
def test_severity_follows_what_can_be_saved(share: float, severity: str) -> None:
    assert severity_of(share) == severity


def test_a_rule_that_selects_no_steps_has_the_sums_of_all_recordings() -> None:
    con = open_fixture(None, {"windows": [{"window_ns": 100, "step_count": 2}]})
    run = read_scopes(con)
    sums = dict.fromkeys(("bound_ns", "saving_sum_ns", "claimed_ns", "claimed_count"), 60)
    pooled = {"window_ns": 300, "step_count": 6, **sums}
    rule = replace(PATTERN, select="SELECT trace, device, window_ns FROM bound")
    verdict = Verdict(rule, PLACE, "fired", row={"window_ns": 100}, pooled=pooled)
    assert selected_over_all(con, run, verdict, {})["window_ns"] == 300
    # Where it selects them, it has the sums for as many steps as its own recording has.
    verdict = structs.replace(verdict, row={"window_ns": 100, "step_count": 2})
    assert selected_over_all(con, run, verdict, {})["window_ns"] == 100
    verdict = structs.replace(verdict, row={"window_ns": 100, "step_count": 3})
    assert selected_over_all(con, run, verdict, {})["window_ns"] == 150
