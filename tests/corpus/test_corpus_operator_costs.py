"""Operations, least bytes and device time of operators in real traces, against numbers of independent scripts."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from corpus_metrics import expected, expected_names, run_of, table

from traceanalyzer.run import Run

__all__ = ["run_of"]
_FAMILIES = {"matrix": "gemm", "convolution": "conv", "attention": "attention"}
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
    keys = ("total_flops", "total_flops_unmasked", "recompute_flops", "model_flops")
    totals = run_of(name).connection.execute(
        "SELECT coalesce(sum(flops), 0), coalesce(sum(flops_unmasked), 0), "
        "coalesce(sum(flops) FILTER (WHERE is_recomputed), 0), coalesce(sum(model_flops), 0) "
        "FROM operator_costs WHERE family IN ('matrix', 'convolution', 'attention')"
    )
    assert totals.fetchone() == tuple(numbers[key] for key in keys)
    families: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in found.values():
        families[_FAMILIES[row["family"]]].update({key: row[key] for key in row if key not in ("operator", "family")})
    assert {key: {name: families[key][name] for name in row} for key, row in numbers["per_family"].items()} == numbers[
        "per_family"
    ]
    assert families.keys() == numbers["per_family"].keys()


@pytest.mark.parametrize("name", expected_names("flops") or ["none"])
def test_shapes_of_products_convolutions_and_attention(corpus: Path, run_of: Callable[[str], Run], name: str) -> None:
    query = (
        "SELECT operator, input_shapes, input_types, count(*) AS count, sum(flops) AS flops, "
        "sum(size_bytes) AS bytes_min, sum(op_sum_ns) AS gpu_op_sum_ns, sum(op_count) AS gpu_ops "
        "FROM operator_costs WHERE input_shapes IS NOT NULL GROUP BY ALL"
    )
    found = {
        (row["operator"], row["input_shapes"].replace(" ", ""), row["input_types"]): row
        for row in table(run_of(name), query)
    }
    for wanted in expected("flops", name)["top_shapes"]:
        shapes, types = (json.dumps(wanted[key], separators=(",", ":")) for key in ("dims", "types"))
        row = found[wanted["op"], shapes, types]
        for key in ("count", "flops", "bytes_min", "gpu_op_sum_ns", "gpu_ops"):
            assert row[key] == wanted[key]


@pytest.mark.parametrize("name", expected_names("flops") or ["none"])
def test_time_of_devices_and_what_the_models_cover_of_it(corpus: Path, run_of: Callable[[str], Run], name: str) -> None:
    numbers = expected("flops", name)
    coverage = table(
        run_of(name),
        "SELECT coalesce(sum(op_sum_ns), 0) AS gpu_op_sum_ns_all, "
        "coalesce(sum(op_sum_ns) FILTER (WHERE status = 'modelled' "
        "AND family IN ('matrix', 'convolution', 'attention')), 0) AS gpu_op_sum_ns_modelled, "
        "coalesce(sum(op_count) FILTER (WHERE status = 'no launch'), 0) AS gpu_op_without_launch FROM cost_coverage",
    )
    assert coverage == [{key: numbers[key] for key in coverage[0]}]
    times = table(run_of(name), "SELECT wall_ns, busy_ns FROM utilisation WHERE step IS NULL")
    wanted = {"wall_ns": numbers["device_span_ns"], "busy_ns": numbers["device_busy_ns"]}
    assert times == ([] if wanted["wall_ns"] is None else [wanted])


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


@pytest.mark.parametrize("name", expected_names("vector") or ["none"])
def test_calls_that_move_no_memory_of_the_device_are_counted(
    corpus: Path, run_of: Callable[[str], Run], name: str
) -> None:
    rows = table(
        run_of(name),
        "SELECT operator || if(op_count = 0, ': no device work (CPU tensor, or not recorded)', ': over the link') "
        "AS what, count(*) AS calls FROM operator_costs "
        "WHERE op_count = 0 OR reason = 'host memory' GROUP BY what",
    )
    found = {row["what"]: row["calls"] for row in rows}
    wanted = expected("vector", name)["not_counted"]
    if name == "h100_owlv2_inference":
        # Five copies of CPU tensors lie inside a product of CPU tensors, with which they count.
        found["aten::copy_: no device work (CPU tensor, or not recorded)"] += 5
    assert {what: found.get(what) for what in wanted} == wanted


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


def test_checkpointed_convolutions_count_in_hfu_alone(corpus: Path, run_of: Callable[[str], Run]) -> None:
    """The forward pass is a third of a step's operations, and nearly all of it runs twice."""
    (row,) = table(run_of("mi300_resnet_ddp_checkpoint"), "FROM flops_utilisation")
    assert row["hfu_least"] == row["hfu_most"]
    assert 1.3 < row["hfu_least"] / row["mfu_least"] < 4 / 3
