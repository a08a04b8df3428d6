"""Graph replays, iterations of engines and compiled code in real traces, against numbers of independent scripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from corpus_metrics import expected, expected_names, run_of, table

from traceanalyzer.run import Run

__all__ = ["run_of"]
NAMES = expected_names("views") or ["none"]
_ITERATION = {
    "dur_ns": "host_dur_ns",
    "tokens": "tokens",
    "context_requests": "context_requests",
    "context_tokens": "context_tokens",
    "generation_requests": "generation_requests",
    "generation_tokens": "generation_tokens",
    "attention_pairs_causal": "attention_pairs",
    "kind": "kind",
    "new_tokens": "new_tokens_at_most",
    "gpu_ops": "op_count",
    "gpu_busy_ns": "busy_ns",
    "gpu_span_ns": "span_ns",
    "first_gpu_op_after_start_ns": "first_wait_ns",
}


@pytest.mark.parametrize("name", NAMES)
def test_graph_launches(corpus: Path, run_of: Callable[[str], Run], name: str) -> None:
    numbers = expected("views", name)
    rows = table(run_of(name), "FROM graph_launches")
    assert [
        (r["call"], r["host_dur_ns"], r["op_count"], r["span_ns"], r["busy_ns"], r["first_wait_ns"])
        for r in rows
        if r["op_count"]
    ] == [
        (r["call"], r["call_ns"], r["gpu_ops"], r["span_ns"], r["busy_ns"], r["first_after_call_start_ns"])
        for r in numbers["graph_launches"]
    ]
    assert sum(not row["op_count"] for row in rows) == numbers["graph_launch_calls_without_gpu_op"]


@pytest.mark.parametrize("name", NAMES)
def test_iterations(corpus: Path, run_of: Callable[[str], Run], name: str) -> None:
    rows = table(run_of(name), "FROM iterations")
    wanted = expected("views", name)["iterations"]
    assert [row["name"] for row in rows] == [row["name"] for row in wanted]
    for row, numbers in zip(rows, wanted, strict=True):
        ((category,),) = (
            run_of(name)
            .connection.execute("SELECT DISTINCT raw_category FROM host_slices WHERE name = ?", [row["name"]])
            .fetchall()
        )
        assert category == numbers["category"]
        assert {key: row[column] for key, column in _ITERATION.items() if key in numbers} == {
            key: numbers[key] for key in _ITERATION if key in numbers
        }


@pytest.mark.parametrize("name", NAMES)
def test_compiled_code(corpus: Path, run_of: Callable[[str], Run], name: str) -> None:
    numbers = expected("views", name)
    kernels = table(run_of(name), "FROM triton_kernels")
    by_kind = Counter[str]()
    for row in kernels:
        by_kind[row["kind"]] += row["sum_ns"]
    assert by_kind == numbers["triton_ns_by_kind"]
    lookups = table(run_of(name), "SELECT name FROM host_slices WHERE name LIKE 'TorchDynamo Cache Lookup%'")
    assert len(lookups) == numbers["dynamo_cache_lookups"]
    assert {row["name"]: {"count": row["kernel_count"], "sum_ns": row["sum_ns"]} for row in kernels} == numbers[
        "triton_kernels"
    ]
    rows = table(run_of(name), "FROM compiled_regions")
    regions = {f"Torch-Compiled Region: {row['name']}": row["call_count"] for row in rows if row["kind"] == "region"}
    assert regions == numbers["compiled_regions"]
    graphs = {
        row["name"]: {
            "calls": row["call_count"],
            "host_ns": row["host_sum_ns"],
            "gpu_ops": row["op_count"],
            "gpu_op_sum_ns": row["op_sum_ns"],
            "triton_gpu_ops": row["triton_count"],
        }
        for row in rows
        if row["kind"] == "graph"
    }
    assert graphs == numbers["inductor_graphs"]
