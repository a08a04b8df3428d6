"""Rules that remove only the host time behind what they claim: never below what the job gains by running without it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb
import pytest

from traceanalyzer.diagnosis import Finding
from traceanalyzer.rules.diagnosis.diagnosing import diagnose
from traceanalyzer.rules.rule_file.model import Rule
from traceanalyzer.rules.rule_set.loading import load_rules
from tracesim import in_memory, simulate

Program = list[dict[str, Any]]
RULES = {rule.id: rule for rule in load_rules(tests=False)}
# What a bound may be above the truth: work around the fault that is removed along with it.
ALLOWED_SHARE = 0.02


def run_of(count: int, us: float, py_us: float = 3) -> dict[str, Any]:
    return {"repeat": count, "do": [{"kernel": {"class": "gemm", "us": us, "py_us": py_us}}]}


def in_turn(lengths_us: tuple[float, ...]) -> Program:
    """Return pauses of which each step has the next one."""
    steps = len(lengths_us)
    return [{"every": {"steps": steps, "phase": at}, "do": [{"py": us}]} for at, us in enumerate(lengths_us)]


COPY = {"h2d": {"mb": 100, "us": 6_000, "pinned": True, "stream": 31, "wait": False}}
SMALL_COPY = {"h2d": {"mb": 1, "pinned": True, "stream": 31, "wait": False}}
UPDATE_ON_CPU = {"annot": {"name": "Optimizer.step#AdamW.step"}, "do": [{"op": {"name": "aten::add_", "op_us": 9_000}}]}
CAPTURE = {"capture": {"instantiate_us": 4_000}, "do": [run_of(200, 12)]}
CROP = {"op": {"name": "aten::upsample_bilinear2d", "op_us": 3_000}}
TRIED = {"kernel": {"us": 2, "class": "conv", "op": "aten::empty"}}
SEARCH = {
    "op": {"name": "aten::cudnn_convolution", "op_us": 5, "do": [TRIED, {"sync": {"kind": "event"}}, {"py": 9_000}]}
}
SAVED = {"repeat": 20, "do": [{"d2h": {"mb": 4, "us": 2, "pinned": True}}, {"py": 9_000}]}
UNUSED = {"op": {"name": "torch.distributed.ddp.reducer::search_unused_parameters", "op_us": 3_000}}
BUFFERS = {
    "annot": {"name": "DistributedDataParallel.forward"},
    "do": [
        {"op": {"name": "aten::flatten_dense_tensors", "op_us": 3_000}},
        {"comm": {"us": 2, "op": "broadcast"}},
        {"op": {"name": "aten::unflatten_dense_tensors", "op_us": 9_000}},
    ],
}
LOADED = {"kernel": {"us": 1, "module_load_us": 30_000}}

# Of each rule: the fault, the job around it (before and after), and how the job is recorded.
CASES: Mapping[str, tuple[str, Program, Program, Program, Mapping[str, Any]]] = {
    "a pause with nothing queued": ("host-stalls", [{"item": 1}], [{"py": 8_000}], [run_of(50, 80)], {}),
    "a pause that queued work hides in part": ("host-stalls", [run_of(60, 80)], [{"py": 12_000}], [run_of(20, 80)], {}),
    "a pause behind a copy on another stream": (
        "host-stalls",
        [COPY, {"event_record": {"stream": 31, "event": "batch"}}],
        [{"py": 6_300}],
        [{"stream_wait": {"on": "compute", "event": "batch"}}, run_of(50, 80)],
        {},
    ),
    "a pause ahead of a copy that starts while the GPU still works": (
        "host-stalls",
        [run_of(60, 80)],
        [{"py": 9_000}],
        [SMALL_COPY, run_of(40, 60)],
        {},
    ),
    "pauses that queued work hides in every other step": (
        "host-stalls",
        [run_of(60, 80)],
        in_turn((4_500, 14_000)),
        [run_of(10, 60)],
        {},
    ),
    "a lead-in of the one recorded step": ("host-lead-in", [], [{"py": 12_000}], [run_of(50, 100)], {"steps": 1}),
    "a capture in every step": ("cudagraph-rerecord", [run_of(30, 40)], [CAPTURE], [run_of(100, 60), {"item": 1}], {}),
    "a capture that queued work hides in part": (
        "cudagraph-rerecord",
        [run_of(90, 60)],
        [CAPTURE],
        [run_of(20, 60)],
        {},
    ),
    "an update on the CPU beside a crop": (
        "optimizer-on-cpu",
        [run_of(30, 80), {"item": 1}, CROP, run_of(30, 80), {"d2h": {"mb": 200, "pinned": True}}, {"sync": "device"}],
        [UPDATE_ON_CPU],
        [{"h2d": {"mb": 200, "pinned": True, "stream": "compute"}}],
        {},
    ),
    "a search for an algorithm in every step": (
        "algorithm-search-in-steps",
        [run_of(30, 80)],
        [SEARCH],
        [run_of(60, 80)],
        {},
    ),
    "a checkpoint in every third step": (
        "checkpoint-in-window",
        [run_of(30, 80), {"item": 1}],
        [{"every": {"steps": 3, "phase": 1}, "do": [SAVED]}],
        [run_of(60, 80)],
        {},
    ),
    "buffers that are packed with nothing queued": (
        "ddp-settings",
        [run_of(30, 80), {"item": 1}],
        [BUFFERS],
        [run_of(60, 80)],
        {},
    ),
    "buffers whose packing queued work hides in part": (
        "ddp-settings",
        [run_of(60, 80)],
        [BUFFERS],
        [run_of(30, 80)],
        {},
    ),
    "a search for unused parameters that queued work hides in part": (
        "ddp-unused-parameters",
        [run_of(30, 80), {"item": 1}],
        [UNUSED],
        [run_of(60, 80)],
        {},
    ),
    "modules loaded on first use": (
        "startup-cost",
        [run_of(30, 80)],
        [LOADED],
        [run_of(60, 80), {"item": 1}],
        {"steps": 1},
    ),
}


def found(con: duckdb.DuckDBPyConnection, rule: Rule) -> Finding:
    (finding,) = (item for item in diagnose(con, [rule]).findings if item.rule == rule.id)
    return finding


def window_ns(con: duckdb.DuckDBPyConnection) -> int:
    ((length_ns,),) = con.sql("SELECT window_ns FROM attribution.windows").fetchall()
    return int(length_ns)


@pytest.mark.check
@pytest.mark.parametrize("case", CASES)
def test_the_bound_is_at_least_what_the_job_gains_without_the_fault(case: str) -> None:
    rule, before, fault, after, how = CASES[case]
    scenario = {"steps": 9, "sync_events": True, **how}
    sick, sound = (
        in_memory.connect_tables(simulate({**scenario, "program": program}, seed=1).canonical_tables())
        for program in ([*before, *fault, *after], [*before, *after])
    )
    truth = 1 - window_ns(sound) / window_ns(sick)
    bound = found(sick, RULES[rule]).saving_share
    assert bound is not None
    assert truth - 0.001 <= bound <= truth + ALLOWED_SHARE


def test_every_rule_that_removes_what_it_claims_has_a_case() -> None:
    removing = {rule.id for rule in RULES.values() if rule.removes_claimed}
    # Samples and calls of MPI are in exports alone: tests/simulator/test_simulator_nsys_evidence.py and
    # tests/nsys/test_nsys_programs.py compare these bounds.
    assert removing == {rule for rule, *_ in CASES.values()} | {"cpu-hot-function", "host-comm-straggler"}
