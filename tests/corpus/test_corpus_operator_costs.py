"""Operations, least bytes and device time of operators in real traces, against numbers of independent scripts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from corpus_metrics import expected, expected_names, run_of, table

from traceanalyzer.run import Run

__all__ = ["run_of"]

_BY_OPERATOR = """
    SELECT
        operator,
        family,
        count(*) AS count,
        sum(flops) AS flops,
        sum(flops_unmasked) AS flops_unmasked,
        sum(size_bytes) AS bytes_min,
        sum(op_count) AS gpu_ops,
        sum(op_sum_ns) AS gpu_op_sum_ns,
        sum(kernel_sum_ns) AS kernel_sum_ns,
        coalesce(sum(dur_ns), 0) AS gpu_op_union_ns,
        count(*) FILTER (WHERE op_count = 0) AS count_without_gpu_op,
        count(*) FILTER (WHERE is_recomputed) AS recompute_count,
        coalesce(sum(flops) FILTER (WHERE is_recomputed), 0) AS recompute_flops
    FROM operator_costs
"""


def by_operator(run: Run, condition: str) -> dict[str, dict[str, Any]]:
    rows = table(run, f"{_BY_OPERATOR} WHERE {condition} GROUP BY operator, family")
    return {row["operator"]: row for row in rows}


@pytest.mark.parametrize("name", expected_names("flops") or ["none"])
def test_products_convolutions_and_attention_of_real_traces(
    corpus: Path, run_of: Callable[[str], Run], name: str
) -> None:
    numbers = expected("flops", name)
    found = by_operator(run_of(name), "family IN ('matrix', 'convolution', 'attention') AND reason IS NULL")
    wanted = {
        operator: {key: value for key, value in row.items() if key != "family"}
        for operator, row in numbers["per_op"].items()
    }
    assert {operator: {key: row[key] for key in wanted.get(operator, row)} for operator, row in found.items()} == wanted
    total = table(
        run_of(name),
        "SELECT coalesce(sum(flops), 0) AS total, coalesce(sum(model_flops), 0) AS model FROM operator_costs "
        "WHERE family IN ('matrix', 'convolution', 'attention')",
    )
    assert total == [{"total": numbers["total_flops"], "model": numbers["model_flops"]}]


@pytest.mark.parametrize("name", expected_names("flops") or ["none"])
def test_calls_without_arguments_are_counted(corpus: Path, run_of: Callable[[str], Run], name: str) -> None:
    rows = table(
        run_of(name),
        "SELECT operator, count(*) AS calls FROM operator_costs "
        "WHERE reason IS NOT NULL AND family IN ('matrix', 'convolution', 'attention') GROUP BY ALL",
    )
    wanted = {what.partition(": ")[0]: count for what, count in expected("flops", name)["not_counted"].items()}
    assert {row["operator"]: row["calls"] for row in rows} == wanted


@pytest.mark.parametrize("name", expected_names("vector") or ["none"])
def test_least_bytes_of_operators_that_move_data(corpus: Path, run_of: Callable[[str], Run], name: str) -> None:
    found = by_operator(
        run_of(name),
        "family NOT IN ('matrix', 'convolution', 'attention') "
        "AND op_count > 0 AND reason IS DISTINCT FROM 'host memory'",
    )
    wanted = {
        operator: {key: value for key, value in row.items() if key != "family"}
        for operator, row in expected("vector", name)["per_op"].items()
    }
    assert {operator: {key: found[operator][key] for key in row} for operator, row in wanted.items()} == wanted


def test_utilisation_of_a_trace_whose_peak_is_known(corpus: Path, run_of: Callable[[str], Run]) -> None:
    (row,) = table(run_of("h100_vit"), "FROM utilisation WHERE step IS NULL")
    assert (row["wall_ns"], row["busy_ns"], row["flops"]) == (7_559_844, 1_225_310, 140_509_200_384)
    assert row["tflops"] == pytest.approx(140_509_200_384 / 7_559_844 / 1000)
    assert row["mfu"] == pytest.approx(140_509_200_384 / 7_559_844 / 1000 / 989)
    assert row["mfu_of_busy"] == pytest.approx(140_509_200_384 / 1_225_310 / 1000 / 989)


def test_utilisation_abstains_where_little_is_covered(corpus: Path, run_of: Callable[[str], Run]) -> None:
    (row,) = table(run_of("two_ranks_2023_rank-0"), "FROM utilisation WHERE step IS NULL")
    assert row["covered_share"] == pytest.approx(67_993_000 / 607_844_000)
    assert row["mfu"] is None


@pytest.mark.parametrize("name", ["h100_vit", "mi300_resnet_ddp_checkpoint", "mi300_vllm_full_graph"])
def test_coverage_holds_every_operation_once(corpus: Path, run_of: Callable[[str], Run], name: str) -> None:
    numbers = expected("flops", name)
    (row,) = table(run_of(name), "SELECT sum(op_sum_ns) AS all_ns FROM cost_coverage")
    assert row["all_ns"] == numbers["gpu_op_sum_ns_all"]
    unlinked = table(run_of(name), "SELECT op_count FROM cost_coverage WHERE status = 'no launch'")
    assert sum(row["op_count"] for row in unlinked) == numbers["gpu_op_without_launch"]
