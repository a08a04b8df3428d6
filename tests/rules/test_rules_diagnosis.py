"""A diagnosis adds up: no time is owned twice, marginals sum to the joint bound, and silence has a reason."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest
from _pytest.mark import ParameterSet
from fixture_runs import open_fixture
from msgspec import structs
from report_diagnoses import loader_finding, plan, precision_finding, quality_finding
from self_check import closing
from text_tables import connect

import traceanalyzer.rules
from traceanalyzer.attribution.replay.bounds import Bounds
from traceanalyzer.cli import main
from traceanalyzer.diagnosis import Diagnosis, Finding, PlannedFix
from traceanalyzer.diagnosis.verdict import judge
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.report import formats
from traceanalyzer.report.json import document
from traceanalyzer.rules.diagnosis.diagnosing import diagnose
from traceanalyzer.rules.diagnosis.findings import message_of, references_of, sort_findings
from traceanalyzer.rules.diagnosis.firing import clear_if_little
from traceanalyzer.rules.evaluation.interventions import Intervention
from traceanalyzer.rules.evaluation.sandbox import readers
from traceanalyzer.rules.evaluation.scopes import Scope
from traceanalyzer.rules.evaluation.verdicts import Verdict
from traceanalyzer.rules.fix_plan.fix_order import Candidate, Ordered, fixes_of
from traceanalyzer.rules.rule_file.model import Rule
from traceanalyzer.rules.rule_set.loading import load_rules
from tracesim import in_memory, simulate, simulate_job

RULES = load_rules()
LOADER = {"steps": 8, "kernels": 120, "kernel_us": 60, "loader_us": 9000}
LOADER_OR_SYNC = {**LOADER, "item_per_step": 1}


def diagnosed(sim: Mapping[str, Any], *others: Rule, params: Mapping[str, Any] | None = None) -> Diagnosis:
    rules = (*RULES, *others)
    return diagnose(open_fixture(sim, {}, readers(rules)), rules, run_name="run", params=params)


@cache
def _diagnosed(sim: str) -> Diagnosis:
    return diagnosed(json.loads(sim))


def diagnosed_once(sim: Mapping[str, Any]) -> Diagnosis:
    """Diagnose a workload that several tests ask about."""
    return _diagnosed(json.dumps(sim))


def in_check(name: str, sim: dict[str, Any]) -> ParameterSet:
    return pytest.param(sim, id=name, marks=pytest.mark.check)


def of(diagnosis: Diagnosis, rule: str) -> Finding:
    return next(finding for finding in diagnosis.findings if finding.rule == rule)


def problems(diagnosis: Diagnosis) -> list[str]:
    return [finding.rule for finding in diagnosis.findings if finding.kind == "finding"]


def test_a_slow_loader_is_the_first_finding_with_its_saving_evidence_and_fix() -> None:
    found = diagnosed_once(LOADER).findings[0]
    assert (found.rule, found.severity, found.confidence, found.status) == (
        *("dataloader-bound", "critical", "high"),
        "primary",
    )
    truth = simulate(LOADER)
    saved = truth.window_ns - simulate({**LOADER, "loader_us": 0}).window_ns
    assert found.saving_share == pytest.approx(saved / truth.window_ns, abs=0.02)
    assert "num_workers" in (found.fixes[0].code or "")
    assert {"step", "start_ns", "dur_ns"} <= set(found.evidence[0].columns)


@pytest.mark.parametrize(
    ("dur_ns", "bucket", "during"),
    [(600, "host.op", "aten::mul"), (400, "host.op", "many, such as aten::mul"), (400, "host.sync", "aten::mul")],
    ids=["most of it", "one of many", "a wait that emptied the queue"],
)
def test_a_stretch_is_only_of_what_holds_most_of_it(dur_ns: int, bucket: str, during: str) -> None:
    con = connect(
        host_slices=[{"slice_id": 3, "category": "cpu_op", "name": "aten::mul", "start_ns": 0, "dur_ns": dur_ns}],
        ledger_rows=[
            {"row_id": 1, "kept": True, "bucket": bucket, "cause": bucket, "start_ns": 0, "dur_ns": 1000}
            | {"blame_kind": "slice", "blame_id": 3, "blame_name": "aten::mul"}
        ],
    )
    sql = (Path(traceanalyzer.rules.__file__).parent / "sql" / "longest_rows.sql").read_text()
    rows = con.execute(f"SELECT during FROM ({sql})", {"trace_id": 0, "device": 0, "causes": [bucket]}).fetchall()
    assert rows == [(during,)]


def two_devices(threads: tuple[int, int]) -> str:
    """Return a trace whose thread launches 2 ms of work on one device, 0.7 ms on the other, and waits for both.

    With two threads, each has a device of its own and waits until the next piece of work comes.
    """
    events = []
    for i in range(40):
        for device, us in ((0, 2_000), (1, 700)):
            at, correlation, host = i * 2_050 + 10 * device, 2 * i + device + 1, {"pid": 9, "tid": threads[device]}
            call = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "args": {"correlation": correlation}}
            wait = {"cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "args": {}}
            args = {"device": device, "stream": 7, "correlation": correlation}
            kernel = {"cat": "kernel", "name": "stencil", "pid": device, "tid": 7, "args": args}
            events.append({"ph": "X", "ts": at, "dur": 6, **call, **host})
            events.append({"ph": "X", "ts": at + 8, "dur": us, **kernel})
            if device == 1 or threads[0] != threads[1]:
                events.append({"ph": "X", "ts": at + 10, "dur": 2_000, **wait, **host})
    return json.dumps({"schemaVersion": 1, "traceEvents": events})


@pytest.mark.check
@pytest.mark.parametrize(("threads", "saves"), [((9, 9), False), ((9, 10), True)])
def test_a_device_that_waits_for_another_of_its_thread_saves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], threads: tuple[int, int], saves: bool
) -> None:
    trace = tmp_path / "trace.json"
    trace.write_text(two_devices(threads))
    main(["diagnose", str(trace), "-q", "--format", "json"])
    found = json.loads(capsys.readouterr().out)
    assert {item["device"] for item in found["ledgers"]} == {0, 1}
    assert any(item["saving_ns"] for item in found["findings"] if item["device"] == 1) == saves


@pytest.mark.check
def test_calls_that_take_longer_than_short_kernels_do_not_wait_for_them() -> None:
    diagnosis = diagnosed({"steps": 8, "kernels": 120, "kernel_us": 3, "host_us": 1, "launch_us": 9})
    assert problems(diagnosis)[0] == "launch-bound"
    assert "launch-blocking-mode" not in problems(diagnosis)


def test_a_message_names_calls_as_programs_write_them() -> None:
    (rule,) = (rule for rule in load_rules() if rule.id == "startup-cost")
    row = {"bound_ns": 100_000, "bound_share": 0.5, "during": "cudaGraphInstantiate_v12000", "worst_ns": 60_000}
    assert "the longest in cudaGraphInstantiate (60.0 µs)" in message_of(rule, rule.values(), row)


@pytest.mark.check
def test_two_fixes_for_one_time_are_alternatives_and_own_it_once() -> None:
    diagnosis = diagnosed_once(LOADER_OR_SYNC)
    loader, sync = of(diagnosis, "dataloader-bound"), of(diagnosis, "sync-in-step")
    assert (loader.status, sync.status) == ("primary", "alternative")
    assert sync.rule in loader.alternatives
    assert loader.rule in sync.alternatives
    window_ns = diagnosis.ledgers[0].window_ns
    assert (loader.owned_ns or 0) + (sync.owned_ns or 0) <= 0.01 * window_ns + (loader.saving_ns or 0)


@pytest.mark.check
@pytest.mark.parametrize(
    "sim",
    [
        pytest.param({"steps": 6, "kernels": 60}, id="plain"),
        in_check("many small kernels", {"steps": 6, "kernels": 300, "kernel_us": 12, "host_us": 1}),
        in_check("hidden loader", {"steps": 6, "kernels": 60, "loader_us": 2000}),
        in_check(
            "overlapped communication",
            {"steps": 6, "kernels": 60, "comm_us": 400, "comm_blocking": False, "comm_count": 4},
        ),
    ],
)
def test_a_healthy_run_has_no_finding(sim: dict[str, Any]) -> None:
    diagnosis = diagnosed(sim)
    assert problems(diagnosis) == []
    assert [finding.rule for finding in diagnosis.findings if finding.severity in ("warning", "blocker")] == []


@pytest.mark.check
@pytest.mark.parametrize(
    "sim",
    [
        pytest.param(LOADER, id="loader"),
        pytest.param(LOADER_OR_SYNC, id="loader or sync"),
        in_check("launch-bound", {"steps": 6, "kernels": 400, "kernel_us": 5, "host_us": 8, "item_per_step": 1}),
        in_check(
            "mixture",
            {"steps": 6, "kernels": 40, "kernel_us": 400, "precision": "fp32", "loader_us": 9000, "h2d_us": 2000},
        ),
    ],
)
def test_owned_time_unexplained_time_and_marginals_add_up(sim: dict[str, Any]) -> None:
    diagnosis = diagnosed_once(sim)
    window_ns = diagnosis.ledgers[0].window_ns
    buckets = dict(diagnosis.ledgers[0].buckets)
    timed = [finding for finding in diagnosis.findings if finding.kind == "finding"]
    on_host = sum(f.owned_ns or 0 for f in timed if f.rule not in ("fp32-matmul-no-tensor-core", "attention-unfused"))
    assert sum(buckets.values()) == window_ns
    assert on_host + sum(ns for _, ns in diagnosis.not_explained) == window_ns - buckets["compute"]
    assert sum(f.marginal_ns or 0 for f in timed) <= window_ns
    assert all(0 <= (f.saving_ns or 0) <= window_ns for f in timed)
    assert sorted(f.marginal_order or 0 for f in timed) == list(range(1, len(timed) + 1))


@pytest.mark.check
def test_marginals_sum_to_the_joint_bound() -> None:
    con = open_fixture(LOADER_OR_SYNC, {}, readers(RULES))
    timed = [finding for finding in diagnosed_once(LOADER_OR_SYNC).findings if finding.kind == "finding"]
    assert {finding.rule for finding in timed} == {"dataloader-bound", "sync-in-step"}
    joint = Bounds.load(con).bound(0, 0, frozenset({"host.dataloader", "host.sync"}))
    assert sum(finding.marginal_ns or 0 for finding in timed) == joint


# Copies are on the critical path of odd steps while each step reads a result. Without reading, the host runs ahead of
# all but step 1, before which the allocator drains the device; step 8 waits for the host's 80 ms in any case.
BOTH = ("host.sync", "dev.h2d")
COSTS_AFTER_SYNC: dict[str, Any] = {
    "steps": 9,
    "program": [
        {"every": {"steps": 20, "phase": 8}, "do": [{"py": {"us": 80_000}}]},
        {"next": {"us": 100}},
        {"every": {"steps": 2, "phase": 1}, "do": [{"h2d": {"mb": 300}}]},
        {"repeat": 60, "do": [{"kernel": {"us": 150, "py_us": 3}}]},
        {"every": {"steps": 20, "phase": 0}, "do": [{"free": 1}]},
        {"item": 1},
    ],
}


@pytest.mark.check
def test_a_fix_that_makes_the_window_longer_after_others_is_said_to_and_the_order_adds_up() -> None:
    run = simulate(COSTS_AFTER_SYNC)
    con = in_memory.connect_tables(run.canonical_tables(), readers=readers(RULES))
    diagnosis = diagnose(con, RULES)
    (plan,) = diagnosis.plans
    assert [fix.rule for fix in plan.fixes] == ["sync-in-step", "h2d-exposed"]
    ((first, last),) = con.execute("SELECT min(step), max(step) + 1 FROM attribution.steps WHERE kept").fetchall()
    savings = [run.true_saving(*causes, first_step=first, last_step=last) for causes in (("host.sync",), BOTH)]
    assert savings[1] < savings[0] - 0.03 * plan.window_ns
    assert plan.fixes[1].saving_ns == pytest.approx(savings[1] - savings[0], abs=0.001 * plan.window_ns)
    joint = Bounds.load(con).bound(0, 0, frozenset(BOTH))
    assert plan.window_ns - plan.fixes[-1].left_ns == sum(fix.saving_ns for fix in plan.fixes) == joint
    assert closing.marginals(diagnosis) == ()
    stream = io.StringIO()
    formats.write_diagnosis(diagnosis, "terminal", stream)
    assert re.search(r"h2d-exposed +\S+ ms +\+3\.8 %  delays nothing", stream.getvalue())


@pytest.mark.check
def test_what_only_matters_after_another_fix_is_told_as_that() -> None:
    sim = {"steps": 6, "kernels": 40, "kernel_us": 800, "precision": "fp32", "loader_us": 60000}
    diagnosis = diagnosed(sim)
    found = of(diagnosis, "fp32-matmul-no-tensor-core")
    assert problems(diagnosis) == ["dataloader-bound", "fp32-matmul-no-tensor-core"]
    assert (found.status, found.marginal_order, found.marginal_ns) == ("latent", 2, found.saving_ns)
    assert found.message.startswith("Once dataloader-bound is fixed: ")
    (outcome,) = [outcome for outcome in diagnosis.outcomes if outcome.rule == found.rule]
    assert (outcome.state, outcome.reason) == ("latent", "after-other-fixes")
    assert outcome.detail == "saves time once dataloader-bound is fixed"


@pytest.mark.check
def test_limits_as_strong_as_each_other_are_told_together() -> None:
    sim = {"steps": 11, "kernels": 60, "pinned_gb_per_s": 20.0, "device": "H200", "loader_us": 11102, "comm_us": 2038}
    sim |= {"attention_us": 900, "attention": "unfused", "attention_layers": 5}
    diagnosis = diagnosed(sim)
    assert problems(diagnosis) == ["dataloader-bound", "attention-unfused", "comm-blocking"]
    (plan,) = diagnosis.plans
    first, second, third = plan.fixes
    assert (first.after, second.after) == (("attention-unfused",), ("dataloader-bound",))
    assert third.after == ("dataloader-bound", "attention-unfused")
    assert first.saving_ns < 0.05 * plan.window_ns < second.saving_ns
    stream = io.StringIO()
    formats.write_diagnosis(diagnosis, "terminal", stream)
    headline = " ".join(stream.getvalue().split())
    assert "data loader, and attention writes its score matrix to memory: fixing only the first saves" in headline
    assert "as limiting as attention-unfused: fix both" in headline
    assert "with attention-unfused: up to −" in headline


# Two limits that take about as long as each other.
# The host takes 5.2 ms to launch a step; so do the copies of a step, and all kernels together with the collective.
TWO_LIMITS = {"ranks": 2, "steps": 6, "kernels": 200, "kernel_us": 10, "host_us": 20, "loader_us": 0}
LAUNCHING = ("host.launch_api", "host.op", "host.python")


@pytest.mark.check
@pytest.mark.parametrize(
    ("job", "ended", "leading"),
    [
        (TWO_LIMITS | {"comm_us": 3000}, "dev.comm_transfer", {"launch-bound", "comm-blocking"}),
        (TWO_LIMITS | {"comm_us": 2500}, "dev.comm_transfer", {"launch-bound", "comm-blocking"}),
        # A loader that saves little by itself does not lead, either.
        (TWO_LIMITS | {"comm_us": 3000, "loader_us": 300}, "dev.comm_transfer", {"launch-bound", "comm-blocking"}),
        (TWO_LIMITS | {"ranks": 1, "h2d_us": 5200, "h2d_mb": 100}, "dev.h2d", {"launch-bound", "h2d-exposed"}),
    ],
)
def test_two_limits_of_one_length_are_worth_what_a_run_without_both_takes_less(
    job: dict[str, Any], ended: str, leading: set[str]
) -> None:
    diagnosis = diagnosed(job)
    (plan,) = diagnosis.plans
    first, second = plan.fixes[:2]
    assert {first.rule, second.rule} == leading
    assert (first.after, second.after) == ((second.rule,), (first.rule,))
    truth = simulate_job(job)
    of_first = LAUNCHING if first.rule == "launch-bound" else (ended,)
    assert first.saving_ns / plan.window_ns == pytest.approx(truth.true_saving_share(of_first), abs=0.02)
    both = (first.saving_ns + second.saving_ns) / plan.window_ns
    assert both == pytest.approx(truth.true_saving_share((*LAUNCHING, ended)), abs=0.02)
    sentence = judge(diagnosis).sentence
    assert re.search(
        r"and compute waits for \S.*: fixing only the first saves \S.*, both fixes together up to (57|60)", sentence
    )
    assert all((fix.status, fix.alternatives) == ("alternative", ("launch-bound",)) for fix in plan.fixes[2:])


@pytest.mark.check
@pytest.mark.parametrize(
    "job",
    [
        TWO_LIMITS | {"kernel_us": 26, "ranks": 1, "precision": "fp32"},
        TWO_LIMITS | {"comm_us": 3500},
    ],
)
def test_a_slow_host_behind_a_limit_that_is_a_little_longer_is_named_with_it(job: dict[str, Any]) -> None:
    diagnosis = diagnosed(job)
    (plan,) = diagnosis.plans
    assert (plan.fixes[-1].rule, plan.fixes[-1].status) == ("launch-bound", "latent")
    assert plan.fixes[-1].saving_ns > 5 * plan.fixes[0].saving_ns
    assert (
        ", and the host launches kernels more slowly than the GPU runs them: fixing only" in judge(diagnosis).sentence
    )


@pytest.mark.check
def test_what_recording_stacks_takes_is_no_limit_behind_another_one() -> None:
    diagnosis = diagnosed(TWO_LIMITS | {"comm_us": 3000, "stacks": True})
    assert "launch-bound" not in {finding.rule for finding in diagnosis.findings}


def test_an_alternative_shortens_no_operation_that_the_fix_before_it_shortens() -> None:
    device = (0, 0)
    first, second = (
        Ordered(
            Candidate((Verdict(RULES[0], Scope(), "fired", interventions={device: intervention}),), 0),
            1,
            0,
            status=status,
        )
        for intervention, status in (
            (Intervention(savings={1: 10}), "primary"),
            (Intervention(frozenset({"host.sync"}), {1: 30, 2: 5}), "alternative"),
        )
    )
    assert fixes_of([first, second]) == {device: Intervention(frozenset({"host.sync"}), {1: 10, 2: 5})}


@pytest.mark.check
@pytest.mark.parametrize("comm_us", [1000, 8000])
def test_one_limit_that_is_much_longer_than_another_stands_alone(comm_us: int) -> None:
    diagnosis = diagnosed(TWO_LIMITS | {"comm_us": comm_us, "kernel_us": 20 if comm_us > 5000 else 10})
    assert "fixing only the first" not in judge(diagnosis).sentence
    assert diagnosis.plans[0].fixes[0].status == "primary"


@pytest.mark.check
def test_limits_as_strong_as_each_other_on_all_ranks_save_the_runs_time() -> None:
    job = {"ranks": 2, "steps": 11, "kernels": 60, "pinned_gb_per_s": 20.0, "device": "H200", "loader_us": 11102}
    job |= {"comm_us": 2038, "attention_us": 900, "attention": "unfused", "attention_layers": 5}
    diagnosis = diagnosed(job)
    (plan,) = diagnosis.plans
    first, second = plan.fixes[:2]
    assert (plan.trace, first.after, second.after) == (None, (second.rule,), (first.rule,))
    assert first.saving_ns < 0.05 * plan.window_ns < second.saving_ns
    found = of(diagnosis, second.rule)
    assert (found.status, found.run_saving_ns, found.marginal_ns) == ("latent", second.saving_ns, second.saving_ns)


@pytest.mark.check
def test_a_verdict_does_not_depend_on_other_rules() -> None:
    con = open_fixture(LOADER_OR_SYNC, {})
    everything = {(o.rule, o.state, o.reason) for o in diagnosed_once(LOADER_OR_SYNC).outcomes}
    alone = {
        (o.rule, o.state, o.reason)
        for rule in RULES
        if rule.id in ("sync-in-step", "launch-bound", "dataloader-bound")
        for o in diagnose(con, [rule]).outcomes
    }
    assert alone <= everything


@pytest.mark.check
def test_a_trace_without_gpu_work_leaves_nothing_clear() -> None:
    diagnosis = diagnosed({"steps": 4, "kernels": 20, "no_gpu": True})
    worst = diagnosis.findings[0]
    assert (worst.rule, worst.severity) == ("tq-missing-gpu-activity", "blocker")
    states = {(o.state, o.reason) for o in diagnosis.outcomes if not o.rule.startswith("tq-")}
    assert states == {("abstained", "missing-capability:gpu_ops")}
    assert all(o.unlock for o in diagnosis.outcomes if o.state == "abstained")


@pytest.mark.check
def test_an_empty_run_is_no_error() -> None:
    diagnosis = diagnose(in_memory.connect_tables({}), RULES)
    assert (diagnosis.findings, diagnosis.ledgers) == ((), ())


@pytest.mark.check
def test_a_missing_capability_only_moves_verdicts_to_abstained() -> None:
    full = {o.rule: o.state for o in diagnosed({**LOADER, "stacks": True}).outcomes}
    thin = {o.rule: o.state for o in diagnosed({**LOADER, "stacks": False, "shapes": False}).outcomes}
    changed = {rule: thin[rule] for rule in full if full[rule] != thin[rule]}
    assert "gc-pauses" in changed
    assert set(changed.values()) == {"abstained"}


@pytest.mark.check
def test_a_setting_moves_a_threshold_and_is_echoed() -> None:
    key = "dataloader-bound.min_share"
    assert "dataloader-bound" not in problems(diagnosed(LOADER, params={key: 0.9}))
    assert of(diagnosed(LOADER, params={key: "0.1"}), "dataloader-bound").params["min_share"] == 0.1
    with pytest.raises(TraceAnalyzerError, match="no parameter"):
        diagnosed(LOADER, params={"dataloader-bound.min_shares": 0.1})


@pytest.mark.check
def test_a_rule_that_raises_abstains_and_the_others_go_on() -> None:
    broken = replace(
        next(rule for rule in RULES if rule.id == "dataloader-bound"),
        id="broken",
        select="SELECT error('no') AS trace, 0 AS device, 0.0 AS bound_share, 0 AS ms_per_step, 0 AS step_share",
        fixes=(),
    )
    diagnosis = diagnosed(LOADER, broken)
    assert [(o.state, o.reason) for o in diagnosis.outcomes if o.rule == "broken"] == [("abstained", "error")]
    assert problems(diagnosis) == ["dataloader-bound"]


def test_findings_stand_in_the_order_of_fixes_of_the_device_with_most_to_save() -> None:
    first, second = loader_finding(), precision_finding()
    elsewhere = replace(first, rule="sync-in-step", device=1, saving_share=0.2, marginal_order=1)
    theirs = replace(plan(), device=1, fixes=(PlannedFix("sync-in-step", "primary", 9, 9),))
    found = sort_findings([elsewhere, second, first, quality_finding()], [theirs, plan()])
    assert [item.rule for item in found] == [
        "tq-warmup-in-window",
        *(fix.rule for fix in plan().fixes),
        "sync-in-step",
    ]


def test_of_findings_that_promise_nothing_the_gravest_comes_first() -> None:
    alike = replace(loader_finding(), saving_ns=None, saving_share=None, marginal_order=None, marginal_ns=None)
    mild = replace(alike, rule="a-fact", severity="low")
    grave = replace(alike, rule="pages-that-move", severity="high")
    assert [item.rule for item in sort_findings([mild, grave])] == ["pages-that-move", "a-fact"]


@pytest.mark.check
def test_a_connection_that_was_diagnosed_reads_the_run_alone_and_can_be_diagnosed_again() -> None:
    con = in_memory.connect_tables(simulate(LOADER).canonical_tables())
    first = diagnose(con, RULES)
    with pytest.raises(duckdb.Error):
        con.execute("FROM read_text('/etc/hostname')")
    assert diagnose(con, RULES) == first


def test_the_resnet_of_2021_is_bound_by_its_loader_and_leaves_tensor_cores_unused(corpus: Any, tmp_path: Any) -> None:
    from traceanalyzer.run import open_run

    with open_run(corpus / "kineto" / "resnet50_num_workers_0", store=tmp_path) as run:
        diagnosis = run.diagnose()
    timed = [finding for finding in diagnosis.findings if finding.kind == "finding"]
    assert timed[0].rule == "dataloader-bound"
    assert 0.28 <= (timed[0].saving_share or 0) <= 0.38
    assert "num_workers" in (timed[0].fixes[0].code or "")
    assert "tensor-cores-unused" in {finding.rule for finding in timed}
    for ledger in diagnosis.ledgers:
        mine = [f for f in timed if f.trace == ledger.trace]
        assert sum(f.owned_ns or 0 for f in mine) <= ledger.window_ns
        assert sum(f.marginal_ns or 0 for f in mine) <= ledger.window_ns


def test_a_saving_below_the_spread_of_the_steps_is_noise() -> None:
    rule = next(rule for rule in RULES if rule.id == "sync-in-step")
    verdict = Verdict(rule, Scope("t", 0), "fired", row={"bound_ns": 2, "bound_share": 0.02, "noise_share": 0.03})
    quiet = structs.replace(verdict, row={**verdict.row, "noise_share": 0.01})
    assert (clear_if_little(verdict, 0.01).state, clear_if_little(verdict, 0.01).reason) == (
        "clear",
        "below-noise-floor",
    )
    assert clear_if_little(quiet, 0.01).state == "fired"
    assert (clear_if_little(quiet, 0.03).state, clear_if_little(quiet, 0.03).reason) == ("clear", "too-little")


@pytest.mark.check
def test_what_the_noise_of_the_steps_hides_is_told_as_that() -> None:
    uneven = {"steps": 14, "kernels": 60, "gc_us": 20_000, "gc_every": 3, "comm_us": 200, "item_per_step": 1}
    diagnosis = diagnosed(uneven, params={"comm-blocking.min_share": 0.01})
    assert "comm-blocking" not in problems(diagnosis)
    (hidden,) = (item for item in diagnosis.below_noise if item.rule == "comm-blocking")
    assert 0.01 < hidden.saving_share < hidden.noise_share <= 0.05
    (told,) = (item for item in document(diagnosis)["below_noise"] if item["rule"] == "comm-blocking")
    assert told["saving_share"] == hidden.saving_share
    stream = io.StringIO()
    formats.write_diagnosis(diagnosis, "terminal", stream)
    assert f"comm-blocking (−{hidden.saving_share:.1%}".replace("%", " %") in " ".join(stream.getvalue().split())


@pytest.mark.check
def test_what_even_steps_tell_is_not_below_their_noise() -> None:
    even = diagnosed({"steps": 14, "kernels": 60, "comm_us": 150}, params={"comm-blocking.min_share": 0.01})
    assert problems(even) == ["comm-blocking"]
    assert even.below_noise == ()


@pytest.mark.check
def test_lost_records_lower_the_confidence_and_not_the_verdict() -> None:
    whole = of(diagnosed_once(LOADER), "dataloader-bound")
    lossy = diagnosed({**LOADER, "drop_kernels": 0.02})
    assert "tq-lost-records" in {finding.rule for finding in lossy.findings}
    assert (whole.confidence, of(lossy, "dataloader-bound").confidence) == ("high", "medium")


@pytest.mark.check
def test_a_finding_that_another_says_more_exactly_is_folded_into_it() -> None:
    loader = next(rule for rule in RULES if rule.id == "dataloader-bound")
    finer = replace(loader, id="our-loader", refines=("dataloader-bound",))
    diagnosis = diagnosed(LOADER, finer)
    assert problems(diagnosis) == ["our-loader"]
    outcome = next(o for o in diagnosis.outcomes if o.rule == "dataloader-bound")
    assert (outcome.state, outcome.reason, outcome.detail) == (
        *("fired", "refined"),
        "our-loader says the same more exactly",
    )


@pytest.mark.check
def test_a_finding_keeps_the_time_that_its_refinement_leaves() -> None:
    loader = next(rule for rule in RULES if rule.id == "dataloader-bound")
    half = replace(loader.claims, where="step % 2 = 0")
    finer = replace(loader, id="our-loader", refines=("dataloader-bound",), claims=half)
    assert set(problems(diagnosed(LOADER, finer))) == {"dataloader-bound", "our-loader"}


@pytest.mark.check
def test_a_general_finding_behind_a_finer_one_says_what_is_left() -> None:
    short = {"repeat": 20, "do": [{"kernel": {"us": 5, "py_us": 24}}]}
    diagnosis = diagnosed({"steps": 20, "steps_marked": False, "program": [{"py": 800}, short]})
    pauses, launches = of(diagnosis, "host-stalls"), of(diagnosis, "launch-bound")
    window_ns = diagnosis.ledgers[0].window_ns
    assert launches.message.startswith("Once host-stalls is fixed: ")
    assert f"saves up to {100 * (launches.saving_share or 0):.1f} % of the time" in launches.message
    assert (launches.saving_ns or 0) + (pauses.saving_ns or 0) <= window_ns
    stretches = [{tuple(row) for row in finding.evidence[0].rows} for finding in (pauses, launches)]
    assert stretches[0].isdisjoint(stretches[1])


@pytest.mark.check
def test_a_blocker_makes_time_abstain_with_its_reason_and_memory_go_on() -> None:
    diagnosis = diagnosed({**LOADER, "drop_kernels": 0.2})
    blocker = diagnosis.findings[0]
    assert (blocker.rule, blocker.severity) == ("tq-lost-records", "blocker")
    outcome = next(o for o in diagnosis.outcomes if o.rule == "dataloader-bound")
    assert (outcome.state, outcome.reason, outcome.detail) == (
        "abstained",
        "blocked by tq-lost-records",
        blocker.message,
    )
    assert outcome.unlock
    assert problems(diagnosis) == []
    memory = {o.reason for o in diagnosis.outcomes if o.rule == "memory-growth"}
    assert not any((reason or "").startswith("blocked") for reason in memory)


@pytest.mark.check
@pytest.mark.parametrize(("sim", "code"), [({**LOADER, "no_gpu": True}, 3), ({"steps": 4, "kernels": 20}, 0)])
def test_a_run_that_a_blocker_keeps_from_a_diagnosis_exits_with_three(
    sim: dict[str, Any], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.json"
    simulate(sim).write_kineto(trace)
    assert main(["diagnose", str(trace), "--fail-on", "critical"]) == code


CPU_OP = '{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 2}]}'


@pytest.mark.check
def test_a_trace_of_the_cpu_alone_says_what_the_host_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.json"
    trace.write_text(CPU_OP)
    assert main(["diagnose", str(trace)]) == 0
    assert "No GPU was used." in capsys.readouterr().out


@pytest.mark.check
def test_a_folder_with_one_blocked_trace_exits_with_three(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    run.mkdir()
    simulate({"steps": 4, "kernels": 20}).write_kineto(run / "good_rank0.json")
    simulate({**LOADER, "no_gpu": True}).write_kineto(run / "bad_rank1.json")
    assert main(["diagnose", str(run)]) == 3
    assert "bad_rank1.json" in capsys.readouterr().out


LONE_MEMSET = """{"traceEvents": [
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaMemsetAsync", "pid": 1, "tid": 1, "ts": 1, "dur": 2,
     "args": {"correlation": 1}},
    {"ph": "X", "cat": "gpu_memset", "name": "Memset (Device)", "pid": 0, "tid": 7, "ts": 5, "dur": 1.47,
     "args": {"device": 0, "stream": 7, "correlation": 1, "bytes": 4}}]}"""


@pytest.mark.check
def test_a_lone_memset_is_said_to_be_no_kernel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.json"
    trace.write_text(LONE_MEMSET)
    main(["diagnose", str(trace)])
    report = capsys.readouterr().out
    assert "ran no kernels" in report
    assert "tail" not in report


@pytest.mark.check
def test_a_finding_in_few_steps_says_in_how_many_and_an_even_one_between_what() -> None:
    rare = of(diagnosed({"steps": 16, "kernels": 40, "gc_us": 90_000, "gc_every": 5}), "gc-pauses")
    assert rare.step_count is not None
    assert 0 < (rare.step_hits or 0) < 0.3 * rare.step_count
    even = of(diagnosed({**LOADER, "steps": 12}), "dataloader-bound")
    assert even.step_hits == even.step_count
    assert 0 < (even.step_p10_ns or 0) <= (even.step_p90_ns or 0) < 1.1 * (even.step_p10_ns or 0)
    few = of(diagnosed({**LOADER, "steps": 6}), "dataloader-bound")
    assert (few.step_p10_ns, few.step_hits) == (None, few.step_count)


def test_a_program_in_cpp_is_not_sent_to_the_pages_of_pytorch() -> None:
    (rule,) = [rule for rule in load_rules() if rule.id == "launch-bound"]
    langs = [fix.lang for fix in rule.fixes]
    cpp = references_of(rule, [langs.index("cpp")])
    assert cpp and not any("pytorch.org" in address for address in cpp)
    assert references_of(rule, [langs.index("cpp"), langs.index("python")]) == rule.references
