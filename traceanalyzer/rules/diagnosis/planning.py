"""Puts the fixes of what fired in order, and says which findings that leaves to report.

The time of each device is shared out among its findings, so that no two own the same nanosecond.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

import duckdb
from msgspec import Struct

from traceanalyzer.rules.diagnosis.firing import Evaluator, lower_confidence
from traceanalyzer.rules.evaluation import sandbox
from traceanalyzer.rules.evaluation.interventions import Device, claim_values, claimed_sql
from traceanalyzer.rules.evaluation.run_savings import Interventions
from traceanalyzer.rules.evaluation.sandbox import read_query
from traceanalyzer.rules.evaluation.scopes import RunScopes, Scope
from traceanalyzer.rules.evaluation.verdicts import Verdict
from traceanalyzer.rules.fix_plan.fix_order import ALTERNATIVE_SHARE, LATENT, FixOrder, Key, PlanContext, key_of
from traceanalyzer.rules.fix_plan.ordering import add_latent, find_joint, put_in_order, say_what_is_left
from traceanalyzer.rules.rule_file.model import FINDING, FIRED, ParamValue, Rule
from traceanalyzer.rules.rule_set.settings_in_force import Overrides

# A finding's place among those that claim; one about the whole run is charged on every device.
_TABLES = (
    "CREATE OR REPLACE TEMP TABLE claim_order"
    " (rule VARCHAR, trace_id INTEGER, device INTEGER, position INTEGER, refines VARCHAR[])",
    "CREATE OR REPLACE TEMP TABLE claims (position INTEGER, row_trace_id INTEGER, row_device INTEGER,"
    " item_id BIGINT, dur_ns BIGINT, bucket VARCHAR)",
)


def share_out(
    con: duckdb.DuckDBPyConnection,
    run: RunScopes,
    fired: Sequence[Verdict],
    values: Mapping[str, Mapping[str, ParamValue]],
) -> dict[Key, dict[str, int]]:
    """Return the nanoseconds that each fired finding owns of each bucket, by rule id and scope.

    The finding whose rule refines most deeply takes a row that several claim, then the one with the larger bound, then
    the first by id. The claims stay in the connection for `unexplained`.
    """
    for statement in _TABLES:
        con.execute(statement)
    claiming = [verdict for verdict in fired if not verdict.rule.claims.is_empty]
    depths = _depths([verdict.rule for verdict in claiming])
    order = sorted(claiming, key=lambda verdict: (-depths[verdict.rule.id], -(verdict.bound_ns or 0), verdict.rule.id))
    for position, verdict in enumerate(order):
        for trace_id, device in verdict.devices(run):
            refines = list(verdict.rule.refines)
            con.execute(
                "INSERT INTO claim_order VALUES (?, ?, ?, ?, ?)", [verdict.rule.id, trace_id, device, position, refines]
            )
    for rule in {verdict.rule.id: verdict.rule for verdict in claiming}.values():
        _write_claims(con, rule, values[rule.id])
    owned = sandbox.query(con, read_query("owned_time"), {}, sandbox.UNLIMITED).rows
    shares: dict[Key, dict[str, int]] = {}
    for position, bucket, owned_ns in owned:
        shares.setdefault(key_of(order[position]), {})[bucket] = int(owned_ns)
    return shares


def total_owned(shares: Mapping[Key, Mapping[str, int]]) -> dict[Key, int]:
    """Return the nanoseconds that each finding owns, of all buckets."""
    return {key: sum(buckets.values()) for key, buckets in shares.items()}


def find_refined(verdicts: Sequence[Verdict], owned: Mapping[Key, int]) -> dict[Key, str]:
    """Return the findings that a finer one replaces, with its rule: it refines them and leaves them no time to own."""
    return {key_of(item): finer for item in verdicts if (finer := _refined_by(item, verdicts, owned)) is not None}


def _refined_by(verdict: Verdict, verdicts: Sequence[Verdict], owned: Mapping[Key, int]) -> str | None:
    if owned.get(key_of(verdict), 0) > ALTERNATIVE_SHARE * (verdict.bound_ns or 0):
        return None
    finer = (item for item in verdicts if item.scope.covers(verdict.scope) and verdict.rule.id in item.rule.refines)
    best = max(finer, key=lambda item: (owned.get(key_of(item), 0), item.rule.id), default=None)
    return None if best is None or not owned.get(key_of(best)) else best.rule.id


def unexplained(con: duckdb.DuckDBPyConnection, run: RunScopes) -> tuple[tuple[str, int], ...]:
    """Return the time of the analysis windows that is no compute and that no finding owns, by bucket, largest first."""
    known = {"unjudged": [run.trace_ids[trace] for trace in sorted(run.unjudged)]}
    rows = sandbox.query(con, read_query("unexplained_time"), known, sandbox.UNLIMITED).rows
    return tuple((bucket, int(dur_ns)) for bucket, dur_ns in rows)


def _write_claims(con: duckdb.DuckDBPyConnection, rule: Rule, values: Mapping[str, ParamValue]) -> None:
    sql = claimed_sql(rule)
    if sql is None:
        return
    # The claim was run as a SELECT of its own before this, within its limits; only what passed there gets here.
    names = sandbox.check_select(con, sql)
    known = claim_values(rule, {**values, "rule": rule.id})
    with sandbox.limited(con, sandbox.UNLIMITED):
        con.execute(
            f"INSERT INTO claims SELECT position, row_trace_id, row_device, item_id, dur_ns, bucket FROM (\n{sql}\n)"
            " AS claimed JOIN claim_order USING (trace_id, device) WHERE claim_order.rule = $rule",
            {name: known[name] for name in names | {"rule"}},
        )


def _depths(rules: Sequence[Rule]) -> dict[str, int]:
    """Return how many refinements each rule is deep; a loop of refinements ends where it closes."""
    refines = {rule.id: rule.refines for rule in rules}

    def depth(rule_id: str, above: frozenset[str]) -> int:
        parents = [name for name in refines.get(rule_id, ()) if name not in above]
        return max((1 + depth(name, above | {rule_id}) for name in parents), default=0)

    return {rule_id: depth(rule_id, frozenset({rule_id})) for rule_id in refines}


class Planned(Struct, frozen=True):
    """The findings to report, and the order of their fixes."""

    fired: Sequence[Verdict]  # quality, findings and latent findings, without those that a finer one replaces
    suppressed: Set[Key]
    refined: Mapping[Key, str]  # what a finer finding replaces, with the rule of that one
    owned: Mapping[Key, Mapping[str, int]]  # by bucket
    orders: Mapping[Scope, FixOrder]


def plan_fixes(
    evaluator: Evaluator,
    context: PlanContext,
    overrides: Overrides,
    quality: Sequence[Verdict],
    verdicts: Sequence[Verdict],
) -> Planned:
    """Share the time out among what fired, drop what finer findings replace, and put the fixes in order.

    Two limits may hold each other up, so that neither fires alone. Fixes that matter only after others come last, and
    general ones say what finer ones leave.
    """
    con, run, values = evaluator.con, evaluator.run, evaluator.values
    timed = [verdict for verdict in verdicts if verdict.state == FIRED]
    suppressed = {key_of(v) for v in (*quality, *timed) if overrides.suppression(run, v) is not None}
    visible = [verdict for verdict in timed if key_of(verdict) not in suppressed]
    shares = share_out(con, run, timed, values)
    owned = total_owned(shares)
    refined = find_refined(visible, owned)
    orders = put_in_order(context, [verdict for verdict in visible if key_of(verdict) not in refined], owned)
    waiting = [verdict for verdict in verdicts if overrides.suppression(run, verdict) is None]

    def evaluate(rule: Rule, fixed: Interventions, added: Mapping[Device, int] | None) -> Sequence[Verdict]:
        if evaluator.question.settled.get(rule.id):
            return []
        return lower_confidence(evaluator.evaluate(rule, fixed, added), quality)

    orders = add_latent(context, waiting, orders, evaluate)
    orders |= add_latent(context, waiting, find_joint(context, waiting, orders, evaluate), evaluate)
    orders = say_what_is_left(
        context,
        orders,
        lambda rule, fixed, beside: lower_confidence(evaluator.evaluate_beside(rule, fixed, beside), quality),
    )
    warnings = [verdict for verdict in quality if verdict.state == FIRED]
    ordered = [_in_order(orders, verdict) for verdict in timed]
    items = (item for order in orders.values() for item in order.items if item.status == LATENT)
    latent = [verdict for item in items for verdict in item.candidate.verdicts]
    fired = [verdict for verdict in (*warnings, *ordered, *latent) if key_of(verdict) not in refined]
    if latent or refined:
        shares = share_out(con, run, [verdict for verdict in fired if verdict.rule.kind == FINDING], values)
    return Planned(fired, suppressed, refined, shares, orders)


def _in_order(orders: Mapping[Scope, FixOrder], verdict: Verdict) -> Verdict:
    """Return the verdict as it stands in the order of fixes, where it may say less than by itself."""
    items = (item for order in orders.values() for item in order.items if item.rule == verdict.rule.id)
    return next((own for item in items for own in item.candidate.verdicts if own.scope == verdict.scope), verdict)
