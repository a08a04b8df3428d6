"""Clears what would save nothing of a program, as another device of the same thread computes all the time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import duckdb

from traceanalyzer.rules.evaluation import sandbox
from traceanalyzer.rules.evaluation.removals import Device
from traceanalyzer.rules.evaluation.verdicts import Verdict
from traceanalyzer.rules.fix_plan.plan_context import PlanContext
from traceanalyzer.rules.rule_file.model import CLEAR, DEVICE, FINDING, FIRED
from traceanalyzer.rules.sql import read_query

HIDDEN_BY_DEVICES = "hidden-by-other-devices"


def clear_behind_other_devices(
    con: duckdb.DuckDBPyConnection, context: PlanContext, verdicts: Sequence[Verdict]
) -> list[Verdict]:
    """Return verdicts, those clear that save nothing of a program with several devices.

    A thread that launches the work of several devices ends with the last of them. What a fix saves on one device is no
    more than what the others leave: their windows without what they compute, and without what the same fix saves there.
    """
    windows = context.run.windows
    if len({trace_id for trace_id, _ in windows}) == len(windows):
        return list(verdicts)
    rows = sandbox.query(con, read_query("launching_threads"), {}, sandbox.UNLIMITED).dicts()
    threads: dict[Device, int] = {(row["trace_id"], row["device"]): row["thread_id"] for row in rows}
    compute_ns: dict[Device, int] = {(row["trace_id"], row["device"]): row["compute_ns"] for row in rows}
    saved = {(v.rule.id, context.run.key(v.place)): v.bound_ns or 0 for v in verdicts if v.state == FIRED}
    kept = []
    for verdict in verdicts:
        own = context.run.key(verdict.place)
        others = [key for key in threads if key[0] == own[0] and key != own and threads[key] == threads.get(own)]
        if others and verdict.place.device is not None and _can_save(verdict):
            left_ns = windows[own]["window_ns"] - max(
                compute_ns[key] - saved.get((verdict.rule.id, key), 0) for key in others
            )
            if left_ns < context.floor_ns(verdict.place):
                detail = "saves nothing of the program: another device computes all the time for the same thread"
                verdict = replace(verdict, state=CLEAR, reason=HIDDEN_BY_DEVICES, detail=detail, removals={})
        kept.append(verdict)
    return kept


def _can_save(verdict: Verdict) -> bool:
    rule = verdict.rule
    return (verdict.state, rule.kind, rule.scope) == (FIRED, FINDING, DEVICE) and verdict.bound_ns is not None
