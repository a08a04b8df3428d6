"""What advice depends on: the profiler that recorded a trace, and what the program is written with."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from text_tables import ask, connect
from trace_event_tables import events, slice_text

from traceanalyzer.cli import main
from traceanalyzer.rules.rule_file.model import Rule
from traceanalyzer.rules.rule_set.loading import load_rules
from tracesim.rule_tests import run_rule_test

RULES = {rule.id: rule for rule in load_rules()}
CALLS_CUDA = re.compile(r"\bcuda[A-Z]\w+\(|<<<")


@pytest.mark.parametrize("recorder", ["kineto", "nsys", "rocprof", "jax", "tensorflow", "chrome", None])
def test_every_recorder_has_a_hint_for_every_capability(recorder: str | None) -> None:
    con = connect(traces=[{"trace": "test", "recorder": recorder, "framework": None}])
    wanted = {name for (name,) in ask(con, "SELECT capability FROM capability_kinds")} | {"host_activity"}
    assert {what for (what,) in ask(con, "SELECT what FROM trace_hints WHERE hint IS NOT NULL")} == wanted
    assert ask(con, "SELECT what FROM trace_hints GROUP BY what HAVING count(*) > 1") == []


@pytest.mark.parametrize(
    ("recorder", "framework", "hint"),
    [
        ("kineto", "pytorch", "call prof.step() in every iteration, with schedule(wait=1, warmup=2, active=5)"),
        ("nsys", "cuda", 'name a range after each step: nvtxRangePushA("step 7"); or name them with --step-pattern'),
        ("nsys", "vllm", 'name a range after each step: torch.cuda.nvtx.range_push(f"step {i}"); or name them'),
        ("nsys", "cupy", 'name a range after each step: cupy.cuda.nvtx.RangePush(f"step {i}")'),
        ("jax", "jax", "name them with --step-pattern"),
    ],
)
def test_hints_are_for_the_recorder_and_the_framework(recorder: str, framework: str, hint: str) -> None:
    con = connect(traces=[{"trace": "test", "recorder": recorder, "framework": framework}])
    assert ask(con, "SELECT hint FROM trace_hints WHERE what = 'steps'")[0][0].startswith(hint)


# recorder, framework, and which of is_pytorch, is_engine, is_cuda and is_offload hold.
@pytest.mark.check
@pytest.mark.parametrize(
    ("recorder", "framework", "kinds"),
    [
        ("kineto", "pytorch", "pytorch"),
        ("kineto", "vllm", "pytorch engine"),
        ("kineto", "tensorrt", "pytorch"),
        ("nsys", "pytorch", "pytorch"),
        ("nsys", "sglang", "pytorch engine"),
        ("nsys", "tensorrt", "cuda"),
        ("nsys", "cuda", "cuda"),
        ("nsys", "cupy", "cuda"),
        ("nsys", "openacc", "offload"),
        ("nsys", "openmp", "offload"),
        ("nsys", "jax", ""),
        ("jax", "jax", ""),
        ("rocprof", "hip", "cuda"),
        ("chrome", None, ""),
    ],
)
def test_pytorch_is_only_where_pytorch_runs(recorder: str, framework: str | None, kinds: str) -> None:
    con = connect(traces=[{"trace": "test", "recorder": recorder, "framework": framework}])
    row = ask(con, "SELECT is_pytorch, is_engine, is_cuda, is_offload FROM programs")[0]
    names = ("pytorch", "engine", "cuda", "offload")
    assert " ".join(name for name, holds in zip(names, row, strict=True) if holds) == kinds


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_calls_of_cuda_are_advice_for_programs_that_make_them(rule: Rule) -> None:
    told = [fix for fix in rule.fixes if fix.lang == "cpp" and CALLS_CUDA.search(fix.code or "")]
    assert all("is_cuda" in (fix.when or "") for fix in told)


@pytest.mark.check
@pytest.mark.parametrize(
    "name",
    [
        *("h2d-blocking", "h2d-pageable", "h2d-exposed", "d2h-large"),
        *("launch-bound", "sync-in-step", "sync-per-launch"),
    ],
)
def test_programs_of_directives_get_directives(name: str) -> None:
    rule = RULES[name]
    loud = next(test for test in rule.tests if test.expect["state"] == "fired" and test.sim)
    offload = [{"trace": "test", "recorder": "nsys", "framework": "openacc"}]
    test = replace(loud, tables={"traces": offload}, expect={"state": "fired", "fix": "#pragma acc"})
    assert run_rule_test(rule, test).failures == ()


@pytest.mark.check
def test_info_and_diagnosis_name_recorder_and_framework(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.json"
    trace.write_text(events(slice_text("vllm/v1/engine/core.py(12): step")))
    assert main(["info", str(trace)]) == 0
    assert "Traces  kineto, PyTorch profiler (Kineto), schema 1; framework: vllm" in capsys.readouterr().out
    main(["diagnose", str(trace), "--format", "json"])
    told = json.loads(capsys.readouterr().out)
    assert (told["traces"][0]["recorder"], told["traces"][0]["framework"]) == ("kineto", "vllm")
    assert told["host_hint"] == "add ProfilerActivity.CPU to the activities"
