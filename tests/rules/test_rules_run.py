"""Ranks wait for each other: findings are weighed by what the run saves, and not by what one rank does."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pyarrow.compute
import pytest
from bound_against_truth import what_ifs
from workloads.bases import pipelined_job

from traceanalyzer.attribution.replay.bounds import Bounds
from traceanalyzer.diagnosis import Diagnosis, Finding
from traceanalyzer.report import formats
from traceanalyzer.report.json import document
from traceanalyzer.rules.diagnosis.diagnosing import diagnose
from traceanalyzer.rules.evaluation.sandbox import readers
from traceanalyzer.rules.rule_set.loading import load_rules
from tracesim import SimulatedJob, in_memory, simulate_job

pc: Any = pyarrow.compute
RULES = load_rules()
DDP: dict[str, Any] = {
    "ranks": 4,
    "steps": 8,
    "kernels": 60,
    "comm_us": 1_600,
    "comm_count": 4,
    "comm_blocking": False,
    "clock_offset_us": [0, 3e6, -5e5, 77_777],
}
LOADER = "host.dataloader"
ONE_LATE = {**DDP, "faults": {"rank": 3, "loader_us": 8_000}}
TWO_LATE = {**DDP, "faults": [{"rank": 3, "loader_us": 8_000}, {"rank": 1, "loader_us": 7_000}]}
ALL_LATE = {**DDP, "loader_us": 8_000}
# Rank 1 is hardly late by itself, and what is left when rank 3 is not.
ONE_AND_A_LITTLE = {**DDP, "faults": [{"rank": 3, "loader_us": 8_000}, {"rank": 1, "loader_us": 4_750}]}


def diagnosed(tables: Mapping[str, pa.Table]) -> Diagnosis:
    return diagnose(in_memory.connect_tables(tables, readers=readers(RULES)), RULES)


@lru_cache
def simulated(key: str) -> tuple[SimulatedJob, Diagnosis]:
    scenario = {"one": ONE_LATE, "two": TWO_LATE, "all": ALL_LATE, "none": DDP, "little": ONE_AND_A_LITTLE}[key]
    job = simulate_job(scenario)
    return job, diagnosed(job.canonical_tables())


def of(diagnosis: Diagnosis, rule: str) -> list[Finding]:
    return [finding for finding in diagnosis.findings if finding.rule == rule]


def true_share(job: SimulatedJob, *ranks: int) -> float:
    return job.true_saving_share(dict.fromkeys(ranks, (LOADER,)))


@pytest.mark.check
def test_a_rank_that_nobody_waits_for_is_worth_what_the_second_slowest_leaves() -> None:
    job = simulate_job(TWO_LATE)
    bounds = Bounds.load(in_memory.connect_tables(job.canonical_tables()))
    skew = frozenset({"dev.straggler_wait"})
    saved = {rank: bounds.run(what_ifs(bounds, {rank: skew})).saved_ns for rank in range(4)}
    longest = max(device.window_ns for device in bounds.devices.values())
    assert saved[3] / longest == pytest.approx(true_share(job, 3), abs=0.005)
    assert saved[0] == saved[1] == saved[2] == 0


@pytest.mark.check
def test_the_straggler_is_named_and_is_worth_what_the_run_saves() -> None:
    job, diagnosis = simulated("two")
    (straggler,) = of(diagnosis, "comm-straggler-wait")
    assert (straggler.rank, straggler.same_on_ranks) == (3, ())
    assert straggler.run_saving_share == pytest.approx(true_share(job, 3), abs=0.01)
    assert straggler.saving_share == straggler.run_saving_share


@pytest.mark.check
def test_two_fixes_for_one_late_rank_are_alternatives_and_who_owns_the_waiting_goes_first() -> None:
    _, diagnosis = simulated("one")
    (straggler,), (loader,) = of(diagnosis, "comm-straggler-wait"), of(diagnosis, "dataloader-bound")
    assert (loader.rank, loader.status, straggler.status) == (3, "alternative", "primary")
    assert (straggler.owned_ns or 0) > (loader.owned_ns or 0) > 0
    assert loader.alternatives == ("comm-straggler-wait",)


@pytest.mark.check
def test_marginals_of_the_run_add_up_to_what_all_fixes_save() -> None:
    job, diagnosis = simulated("one")
    (plan,) = diagnosis.plans
    assert (plan.trace, plan.device, plan.step_count) == (None, None, 6)
    assert plan.window_ns - sum(fix.saving_ns for fix in plan.fixes) == plan.fixes[-1].left_ns
    joint = sum(fix.saving_ns for fix in plan.fixes) / plan.window_ns
    assert joint == pytest.approx(true_share(job, 3), abs=0.01)
    told = [finding.marginal_ns for finding in diagnosis.findings if finding.marginal_ns is not None]
    assert sum(told) == sum(fix.saving_ns for fix in plan.fixes)


@pytest.mark.check
def test_a_loader_that_is_slow_on_all_ranks_makes_no_straggler() -> None:
    job, diagnosis = simulated("all")
    assert of(diagnosis, "comm-straggler-wait") == []
    (loader,) = of(diagnosis, "dataloader-bound")
    assert loader.same_on_ranks == (0, 1, 2, 3)
    assert loader.run_saving_share == pytest.approx(true_share(job, 0, 1, 2, 3), abs=0.01)


@pytest.mark.check
def test_a_rank_that_is_clear_alone_belongs_to_the_finding_that_it_adds_to() -> None:
    job, diagnosis = simulated("little")
    (loader,) = of(diagnosis, "dataloader-bound")
    assert (loader.rank, loader.same_on_ranks) == (3, (1, 3))
    assert true_share(job, 1, 3) > true_share(job, 3) + 0.02
    assert loader.run_saving_share == pytest.approx(true_share(job, 1, 3), abs=0.005)
    (plan,) = diagnosis.plans
    assert [fix.rule for fix in plan.fixes].count("dataloader-bound") == 1


@pytest.mark.check
@pytest.mark.parametrize("key", ["one", *(pytest.param(key, marks=pytest.mark.check) for key in ("two", "all"))])
def test_time_is_owned_once_over_all_ranks(key: str) -> None:
    _, diagnosis = simulated(key)
    timed = [finding for finding in diagnosis.findings if finding.kind == "finding"]
    waits = sum(ledger.window_ns - dict(ledger.buckets)["compute"] for ledger in diagnosis.ledgers)
    single = [f for f in timed if len(f.same_on_ranks) <= 1]
    if len(single) == len(timed):
        assert sum(f.owned_ns or 0 for f in timed) + sum(ns for _, ns in diagnosis.not_explained) == waits
    assert sum(f.owned_ns or 0 for f in timed) <= waits


@pytest.mark.check
def test_what_other_ranks_hide_is_latent_and_says_so() -> None:
    # Rank 0 has a slow loader of its own, and waits for rank 3 anyway.
    scenario = {
        **DDP,
        "faults": [{"rank": 3, "kernel_scale": 3.0}, {"rank": 0, "item_per_step": 1, "loader_us": 6_000}],
    }
    diagnosis = diagnosed(simulate_job(scenario).canonical_tables())
    assert [finding.rule for finding in of(diagnosis, "dataloader-bound") if finding.status != "latent"] == []
    states = {(o.state, o.reason) for o in diagnosis.outcomes if o.rule == "dataloader-bound" and o.rank == 0}
    assert states == {("latent", "after-other-fixes")}


@pytest.mark.check
def test_healthy_ranks_have_no_findings_and_no_plan() -> None:
    _, diagnosis = simulated("none")
    assert [f.rule for f in diagnosis.findings if f.kind == "finding"] == []
    assert diagnosis.plans == ()


def without_rank(job: SimulatedJob, rank: int) -> Mapping[str, pa.Table]:
    tables = job.canonical_tables()
    kept = {name: [value != rank for value in table["trace_id"].to_pylist()] for name, table in tables.items()}
    return {name: table.filter(pa.array(kept[name], pa.bool_())) for name, table in tables.items()}


@pytest.mark.check
def test_without_a_rank_the_straggler_rule_abstains_and_says_what_to_record() -> None:
    diagnosis = diagnosed(without_rank(simulate_job(ONE_LATE), 2))
    outcomes = [o for o in diagnosis.outcomes if o.rule == "comm-straggler-wait"]
    assert [(o.state, o.reason) for o in outcomes] == [("abstained", "missing-ranks")]
    assert "one trace per rank" in (outcomes[0].unlock or "")
    assert all(finding.run_saving_ns is None for finding in diagnosis.findings)


def with_overhead(us: float) -> Diagnosis:
    """The job with a late rank 3, and a profiler that costs rank 1 this much of each step."""
    job = {**ONE_LATE, "faults": [{"rank": 3, "loader_us": 8_000}, {"rank": 1, "overhead_us": us}]}
    return diagnosed(simulate_job(job).canonical_tables())


@pytest.mark.check
def test_doubts_about_one_trace_lower_what_is_said_of_the_run() -> None:
    diagnosis = with_overhead(800)
    assert [(f.rank, f.severity) for f in of(diagnosis, "tq-profiler-overhead")] == [(1, "warning")]
    sure, unsure = of(simulated("one")[1], "comm-straggler-wait"), of(diagnosis, "comm-straggler-wait")
    assert [finding.confidence for finding in (*sure, *unsure)] == ["high", "medium"]


@pytest.mark.check
def test_a_blocker_on_one_rank_leaves_nothing_to_say_of_the_run() -> None:
    diagnosis = with_overhead(1_500)
    assert [(f.rank, f.severity) for f in of(diagnosis, "tq-profiler-overhead")] == [(1, "blocker")]
    (straggler,) = (o for o in diagnosis.outcomes if o.rule == "comm-straggler-wait")
    assert (straggler.state, straggler.reason) == ("abstained", "blocked by tq-profiler-overhead")
    loaders = {o.rank: o.state for o in diagnosis.outcomes if o.rule == "dataloader-bound"}
    assert (loaders[1], loaders[3]) == ("abstained", "fired")
    assert all(plan.trace is not None for plan in diagnosis.plans)


@pytest.mark.check
def test_the_report_shows_whom_the_run_waits_for(root: Path) -> None:
    _, diagnosis = simulated("one")
    ledger = diagnosis.run_ledger
    assert ledger is not None
    assert sum(dur_ns for _, dur_ns in ledger.buckets) == sum(dur_ns for _, dur_ns in ledger.ranks)
    assert abs(sum(dur_ns for _, dur_ns in ledger.buckets) - ledger.window_ns) <= 0.02 * ledger.window_ns
    assert ledger.ranks[0][0] == 3
    stream = io.StringIO()
    formats.write_diagnosis(diagnosis, "terminal", stream)
    assert "at each moment the time of the latest rank: rank 3 " in " ".join(stream.getvalue().split())
    schema = json.loads((root / "docs" / "diagnosis.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(document(diagnosis), schema)


@pytest.mark.check
def test_one_device_has_no_ledger_of_the_run() -> None:
    job = simulate_job({"steps": 5, "kernels": 40, "loader_us": 9_000})
    assert diagnosed(job.canonical_tables()).run_ledger is None


def changed(table: pa.Table, column: str, values: pa.ChunkedArray[Any]) -> pa.Table:
    at = table.schema.get_field_index(column)
    return table.set_column(at, table.schema.field(at), values)


@pytest.mark.check
@pytest.mark.parametrize(("scales", "rule"), [((1, 1, 1, 1), "pp-bubble"), ((1, 1, 1, 1.5), "pp-stage-imbalance")])
def test_stages_are_compared_though_batched_messages_name_no_peer(scales: tuple[float, ...], rule: str) -> None:
    named = simulate_job(pipelined_job(4, scales)).canonical_tables()
    slices, ops = named["host_slices"], named["gpu_ops"]
    ranges = pc.replace_substring_regex(slices["name"], "^nccl:.*", "nccl:coalesced")
    batched = {
        "host_slices": changed(slices, "name", ranges),
        "gpu_ops": changed(ops, "collective", pa.chunked_array([pa.nulls(ops.num_rows, pa.string())])),
        "event_args": named["event_args"].slice(0, 0),
    }
    (told,), (found,) = (of(diagnosed(tables), rule) for tables in (named, named | batched))
    assert found.saving_share == pytest.approx(told.saving_share, rel=0.2)


def kernel(us: int) -> dict[str, Any]:
    return {"kernel": {"us": us}}


def of_expert(us: int) -> list[dict[str, Any]]:
    exchange = {"comm": {"op": "all_to_all", "us": 300}}
    return [{"repeat": 4, "do": [*[kernel(80)] * 6, exchange, *[kernel(us)] * 5, exchange]}]


def of_stage(number: int) -> list[dict[str, Any]]:
    other = 1 - number
    send, receive = {"send": {"to": other, "us": 20}}, {"recv": {"from": other, "us": 20}}
    forward = [receive, kernel(1000)] if number else [kernel(1000), send]
    backward = [kernel(2000), send] if number else [receive, kernel(2000)]
    return [{"repeat": 4, "do": forward}, {"repeat": 4, "do": backward}]


@pytest.mark.check
@pytest.mark.parametrize("framework", ["vllm", "pytorch"])
@pytest.mark.parametrize(
    ("rule", "programs"),
    [
        ("pp-bubble", [of_stage(number) for number in (0, 1)]),
        ("moe-expert-imbalance", [of_expert(us) for us in (80, 80, 168, 80)]),
    ],
)
def test_fixes_are_of_a_program_that_serves_or_of_one_that_trains(
    rule: str, programs: Sequence[object], framework: str
) -> None:
    job = {"ranks": len(programs), "steps": 6, "programs": programs}
    tables = simulate_job(job).canonical_tables()
    traces = tables["traces"]
    at = traces.schema.get_field_index("framework")
    tables["traces"] = traces.set_column(at, traces.schema.field(at), pa.array([framework] * len(traces)))
    (finding,) = of(diagnosed(tables), rule)
    code = " ".join(str(fix.code) for fix in finding.fixes)
    assert ("vllm serve" in code) == (framework == "vllm")
    assert bool(re.search("Megatron|loss", code)) == (framework == "pytorch")
