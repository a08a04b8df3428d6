"""The rules that ship: each says what its own tests expect, and nothing in them is left to chance."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from _pytest.mark import ParameterSet

from traceanalyzer.query import engine
from traceanalyzer.rules.evaluation.sandbox import readers
from traceanalyzer.rules.rule_file.model import Rule, RuleTest
from traceanalyzer.rules.rule_set.loading import load_rules
from tracesim import in_memory
from tracesim.rule_lint import lint
from tracesim.rule_tests import rule_workspace, run_rule_test

RULES = {rule.id: rule for rule in load_rules()}


# A number and the word for many, where it may be one: '{copies:.0f} copies' and not '{copies:.0f copy|copies}'.
OF_MANY = re.compile(r"\{(\w+)(?::d|:\.0f)?\} (?:[a-z-]+ )?(?!is\b)[a-z-]+s\b")
# No counts, and what is never one alone.
NO_COUNTS = {
    "rank",
    "slowest_rank",
    "longest_step",
    "operator",
    "device_name",
    "short_name",
    "shown_name",
    "rank_count",
    "stage_count",
    "trace_count",
    "who",
    "how",
    "piece_count",
    "process_count",
    "collective_count",
    "doing",
    "remedy",
}

OF_TRAINING = re.compile(
    r"(?i)\btrain(s|ing|_step)?\b|train\.py|optimizer|backward|\bgradients?\b|\bloss(es)?\b|\bepoch"
)
# Conditions that hold where the trace shows backward passes, gradients or an optimizer.
SHOWS_TRAINING = re.compile(
    "(?<!FROM )'training'|(?<!NOT )is_training|(?<!NOT )accumulates|is_activations|adds_up_rows|takes_fused"
)
# What they find exists in training alone, or they say themselves where a word is of training.
FIND_TRAINING = {
    "anomaly-mode",
    "comm-fp32-gradients",
    "cpu-anomaly-mode",
    "cpu-autograd-function",
    "ddp-bucket-copies",
    "ddp-unused-parameters",
    "optimizer-on-cpu",
    "optimizer-single-tensor",
    "fp32-matmul-no-tensor-core",
    "program-offload",
    "recompute-with-headroom",
    "unbucketed-gradients",
    "unlike-step",
}
KERAS = re.compile(r"tf\.train\.CheckpointOptions|epoch\)")


def fires_in(test: RuleTest) -> bool:
    return bool(test.expect["state"] == "fired")


def is_simulated(test: RuleTest) -> bool:
    return test.sim is not None


def cases() -> Iterator[ParameterSet]:
    """Return every test of every rule; the loop has the first on literal rows that fires, or else any on such rows."""
    in_loop = {
        id(min(tests, key=lambda test: not fires_in(test)))
        for rule in RULES.values()
        if (tests := [test for test in rule.tests if not is_simulated(test)])
    }
    found = [(rule, test) for rule in RULES.values() for test in rule.tests]
    # One after the other where they share a simulated run.
    for rule, test in sorted(found, key=lambda case: repr(case[1].sim)):
        marks = () if id(test) in in_loop else (pytest.mark.check,)
        yield pytest.param(rule, test, id=f"{rule.id}: {test.name}", marks=marks)


@pytest.mark.parametrize(("rule", "test"), list(cases()))
def test_rule_says_what_its_test_expects(rule: Rule, test: RuleTest) -> None:
    result = run_rule_test(rule, test)
    assert result.failures == (), dict(result.row)


@pytest.mark.check
def test_no_rule_that_ships_has_a_mistake() -> None:
    assert [str(mistake) for mistake in lint()] == []


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_silent_cases_outnumber_loud_ones(rule: Rule) -> None:
    states = [test.expect["state"] for test in rule.tests]
    assert states.count("clear") >= states.count("fired") or rule.kind == "quality"


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_fix_that_only_records_again_leaves_the_program_as_it_is(rule: Rule) -> None:
    again = [
        fix for fix in rule.fixes if re.match(r"Record (?!.*\. [A-Z])|If the pause .*record|Record steady", fix.text)
    ]
    assert {fix.effort for fix in again} <= {"recording"} or rule.kind != "finding"


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_every_fix_of_a_finding_can_be_pasted(rule: Rule) -> None:
    assert all(fix.code for fix in rule.fixes)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_words_of_training_stand_only_where_the_trace_shows_it(rule: Rule) -> None:
    if rule.id in FIND_TRAINING:
        return
    texts = [rule.title, rule.message, rule.why]
    texts += [f"{fix.text} {fix.code}" for fix in rule.fixes if not SHOWS_TRAINING.search(fix.when or "")]
    assert [text for text in texts if OF_TRAINING.search(KERAS.sub("", text or ""))] == []


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_count_that_may_be_one_brings_its_word(rule: Rule) -> None:
    texts = (rule.message, *(item.detail or "" for item in rule.abstain))
    assert {name for text in texts for name in OF_MANY.findall(" ".join(text.split()))} <= NO_COUNTS


@pytest.mark.check
def test_evidence_at_a_place_says_how_long_it_is() -> None:
    # A timeline is drawn around the place; without its length it would show an instant and what is near.
    con = in_memory.connect_tables({})
    keys = {"trace": "test", "trace_id": 1, "rank": 0, "device": 0}
    for rule in RULES.values():
        for evidence in rule.evidence:
            if "start_ns" in evidence.select:
                values = {name: keys.get(name, 1) for name in re.findall(r"\$(\w+)", evidence.select)}
                columns = con.execute(evidence.select, values).description or []
                assert {"start_ns", "dur_ns"} <= {column[0] for column in columns}, (rule.id, evidence.title)


COPIES = [
    {"op_id": 1, "class": "copy", "operator": "aten::copy_", "name": "copy", "wall_ns": 400},
    {"op_id": 2, "class": "copy", "operator": "aten::cudnn_convolution", "name": "copy", "wall_ns": 800},
]
ADDITIONS = [
    {"op_id": 1, "class": "elementwise", "operator": "aten::add", "name": "add", "wall_ns": 400},
    {"op_id": 2, "class": "elementwise", "operator": None, "name": "triton_poi_fused_add", "wall_ns": 800},
]
WAITS = [
    {"wait_id": 1, "call_id": 1, "call": "cudaMemcpy", "start_ns": 1, "dur_ns": 9},
    {"wait_id": 2, "call_id": 2, "call": "cudaMemcpyAsync", "start_ns": 9, "dur_ns": 9, "exchange": "MPI"},
]
WAITED = {
    "traces": [{"trace": "test", "framework": "cuda", "first_ns": 0}],
    "windows": [{"start_ns": 0, "end_ns": 100, "step_count": 0}],
    "gpu_ops": [
        {"op_id": at, "launch_id": at, "copy_kind": "DtoH", "dst_kind": "pageable", "size_bytes": 8} for at in (1, 2)
    ],
    "host_waits": WAITS,
}


@pytest.mark.check
@pytest.mark.parametrize(
    ("rule", "tables", "shown"),
    [
        ("d2d-copies-excess", {"kernel_class": COPIES}, "aten::copy_"),
        ("unfused-elementwise", {"kernel_class": ADDITIONS}, "aten::add"),
        ("small-sync-copies", WAITED, "cudaMemcpy"),
        ("sync-in-step", WAITED, "cudaMemcpy"),
    ],
)
def test_evidence_is_of_what_the_finding_claims(
    rule: str, tables: dict[str, list[dict[str, object]]], shown: str
) -> None:
    """Copies of a convolution are no part of a finding on copies, fused kernels of one on unfused ones."""
    found = RULES[rule]
    values = {name: param.default for name, param in found.params.items()} | {"trace_id": 0, "device": 0}
    select = found.evidence[0].select
    used = {name: value for name, value in values.items() if f"${name}" in select}
    with rule_workspace(None, tables, readers=readers([found])) as con:
        rows = con.execute(select, used).fetchall()
    assert [shown in row for row in rows] == [True]


@pytest.mark.check
def test_small_copies_from_pageable_memory_are_no_part_of_what_pinning_saves() -> None:
    found = RULES["h2d-pageable"]
    copies = [
        {"op_id": at, "copy_kind": "HtoD", "src_kind": "pageable", "size_bytes": size_bytes}
        for at, size_bytes in ((1, 4096), (2, 1 << 20))
    ]
    rows = [{"row_id": at, "cause": "dev.h2d", "blame_kind": "op", "blame_id": at} for at in (1, 2)]
    with rule_workspace(None, {"gpu_ops": copies, "ledger_rows": rows}, readers=readers([found])) as con:
        select = f"SELECT row_id FROM ledger_rows WHERE {found.claims.where}"
        used = {name: param.default for name, param in found.params.items() if f"${name}" in select}
        assert con.execute(select, used).fetchall() == [(2,)]


@pytest.mark.check
def test_no_rule_names_a_part_of_its_query_as_a_metric_that_it_would_then_define() -> None:
    # Words of a rule's SQL decide which metrics its connection has; planning `layers` takes longer than most rules do.
    costly = {"layers", "modules", "operator_efficiency", "call_tree", "flame"}
    reading = {name for rule in RULES.values() for name in engine.named_in(readers([rule])) or set()}
    assert reading & costly == set()


def test_what_the_first_release_promises_is_there() -> None:
    assert {
        *("dataloader-bound", "launch-bound", "sync-in-step", "h2d-pageable", "h2d-exposed", "comm-blocking"),
        *("fp32-matmul-no-tensor-core", "tensor-cores-unused", "attention-unfused", "alloc-in-steady-state"),
        *("gc-pauses", "tq-missing-gpu-activity", "tq-warmup-in-window", "tq-truncated", "tq-too-few-steps"),
        *("tq-no-step-markers", "tq-lost-records", "tq-low-launch-link", "tq-missing-ranks"),
        *("tq-profiler-overhead", "tq-mixed-runs", "tq-bad-timestamps", "tq-graph-opaque", "weight-streaming"),
        *("recompile-steady-state", "memory-growth", "comm-small-messages", "engine-host-gap", "sampling-sync"),
        *("comm-straggler-wait", "comm-fp32-gradients", "fsdp-prefetch", "moe-expert-imbalance"),
        *("pp-bubble", "pp-stage-imbalance", "rank-compute-imbalance", "slow-gpu-rank", "host-noise-rank"),
        "gpu-clock-low",
        *("optimizer-single-tensor", "optimizer-on-cpu", "h2d-blocking", "launch-blocking-mode", "empty-cache-in-loop"),
        *("unfused-elementwise", "conv-layout", "matmul-misaligned", "fp64-kernels", "d2d-copies-excess", "oom-event"),
        *("d2h-large", "ddp-bucket-copies"),
        *("cudagraph-rerecord", "dataparallel-used", "ddp-settings", "step-time-jitter", "step-outliers-periodic"),
        *("dataloader-single-process", "python-bound", "graph-breaks-many", "kernel-hotspot", "fragmentation"),
    } <= RULES.keys()


def test_hints_for_nsys_name_no_option_of_another_profiler() -> None:
    foreign = re.compile(r"ProfilerActivity|record_shapes|with_stack|profile_memory|prof\.step|schedule\(|Kineto")
    con = in_memory.connect_tables({})
    hints = con.sql("SELECT hint FROM recording_hints WHERE recorder = 'nsys'").fetchall()
    assert [hint for (hint,) in hints if foreign.search(hint)] == []
