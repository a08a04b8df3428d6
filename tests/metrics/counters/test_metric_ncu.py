"""Counters of Nsight Compute: what they say of a launch, which kernel it is, and whether the model agrees."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import duckdb
import pytest
from text_tables import ask, connect

FADD, FMUL, FFMA, DADD, DMUL, DFMA = (
    f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum" for op in ("fadd", "fmul", "ffma", "dadd", "dmul", "dfma")
)
TENSOR = "sm__ops_path_tensor_src_{}_dst_{}.sum"
PIPE = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"
SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
MEMORY = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
NO_FP64 = {DADD: 0, DMUL: 0, DFMA: 0}
NO_FLOPS = {FADD: 0, FMUL: 0, FFMA: 0, **NO_FP64, PIPE: 0}


def sizes(grid: tuple[int, int, int] | None, block: tuple[int, int, int] | None) -> dict[str, int | None]:
    return {
        f"{name}_{axis}": None if size is None else size[place]
        for name, size in (("grid", grid), ("block", block))
        for place, axis in enumerate("xyz")
    }


def profiled(
    *launches: tuple[str, Mapping[str, float]],
    grid: tuple[int, int, int] | None = (9, 2, 1),
    block: tuple[int, int, int] | None = (128, 1, 1),
    capability: tuple[int | None, int | None] = (9, 0),
    unit: str | None = None,
) -> dict[str, list[dict[str, Any]]]:
    """Return the tables of launches with their values by metric; a metric's section is of no interest here."""
    of_all = {"file": "f", **sizes(grid, block), "compute_major": capability[0], "compute_minor": capability[1]}
    return {
        "ncu_launches": [{**of_all, "launch": number, "name": name} for number, (name, _) in enumerate(launches)],
        "ncu_metrics": [
            {
                "file": "f",
                "launch": number,
                "metric": metric,
                "value": float(value),
                "whole": int(value),
                "base_unit": unit,
            }
            for number, (_, values) in enumerate(launches)
            for metric, value in values.items()
        ],
    }


def kernels(*names: str, **more: Any) -> list[dict[str, Any]]:
    """Return kernels of 100 ns each, one after the other."""
    of_all = {"kind": "kernel", "dur_ns": 100, **sizes((9, 2, 1), (128, 1, 1)), **more}
    return [{"op_id": i, "start_ns": 1000 * i, "name": name, **of_all} for i, name in enumerate(names, 1)]


def flops_of(values: Mapping[str, float], capability: tuple[int, int] = (9, 0)) -> list[tuple[Any, ...]]:
    con = connect("FROM ncu_kernels", **profiled(("k", values), capability=capability))
    return ask(con, "SELECT fp32_flops, fp64_flops, tensor_flops, flops FROM ncu_kernels")


def test_a_multiply_add_is_two_operations() -> None:
    values = {FADD: 10, FMUL: 100, FFMA: 1000, DADD: 1, DMUL: 2, DFMA: 3, PIPE: 0}
    assert flops_of(values) == [(2110, 9, 0, 2119)]


def test_a_sum_without_one_of_its_parts_is_unknown() -> None:
    assert flops_of({FADD: 10, FMUL: 100, **NO_FP64, PIPE: 0}) == [(None, 0, 0, None)]
    assert flops_of({FADD: 1, FMUL: 1, FFMA: 1, **NO_FP64}) == [(4, 0, None, None)]
    assert flops_of({FADD: 1, FMUL: 1, FFMA: 1, PIPE: 0}) == [(4, None, 0, None)]


def test_devices_that_compute_in_pairs_need_those_counters_too() -> None:
    pairs = {name.replace("_pred", "2_pred"): count for name, count in ((FADD, 1), (FMUL, 10), (FFMA, 100))}
    single = {FADD: 1, FMUL: 1, FFMA: 1, **NO_FP64, PIPE: 0}
    assert flops_of(single, (10, 0)) == [(None, 0, 0, None)]
    assert flops_of({**single, **pairs}, (10, 0)) == [(4 + 2 + 20 + 400, 0, 0, 426)]


def test_operations_on_tensor_cores_add_up_over_paths_that_share_no_type() -> None:
    half, byte = TENSOR.format("fp16", "fp32"), TENSOR.format("int8", "int32")
    assert flops_of({**NO_FLOPS, half: 4096, byte: 512})[0][2:] == (4608, 4608)
    several = TENSOR.format("fp16_bf16_tf32", "fp32")
    assert flops_of({FADD: 0, FMUL: 0, FFMA: 0, **NO_FP64, half: 4096, several: 4096})[0][2:] == (None, None)


def test_no_operations_on_a_path_say_nothing_while_the_pipe_was_active() -> None:
    assert flops_of({**NO_FLOPS, TENSOR.format("fp16", "fp32"): 0, PIPE: 50})[0][2] is None


def test_operations_a_cycle_become_operations_by_clock_and_time() -> None:
    rate = ".per_cycle_elapsed"
    values = {FADD + rate: 2, FMUL + rate: 3, FFMA + rate: 4, "gpu__time_duration.sum": 2000}
    tables = profiled(("k", values))
    # Two microseconds at 1.5 GHz are 3000 cycles.
    tables["ncu_metrics"] += profiled(("k", {"smsp__cycles_elapsed.avg.per_second": 1_500_000_000}))["ncu_metrics"]
    assert ask(connect("FROM ncu_kernels", **tables), "SELECT fp32_flops FROM ncu_kernels") == [(13 * 3000,)]


@pytest.mark.parametrize(
    ("values", "capability", "answer"),
    [
        ({"dram__bytes.sum": 640, "dram__bytes_read.sum": 1}, (9, 0), (640, "counted")),
        ({"dram__bytes_read.sum": 600, "dram__bytes_write.sum": 40}, (8, 0), (640, "counted")),
        ({"dram__bytes_op_read.sum": 600, "dram__bytes_op_write.sum": 40}, (10, 0), (640, "counted")),
        ({"dram__bytes.sum.per_second": 2e9, "gpu__time_duration.sum": 320}, (9, 0), (640, "rate x time")),
        ({"dram__bytes_read.sum": 600}, (9, 0), (None, None)),
        ({"dram__bytes.sum": 0}, (12, 1), (None, None)),
        ({}, (9, 0), (None, None)),
    ],
)
def test_bytes_of_memory_come_from_what_was_collected(
    values: Mapping[str, float], capability: tuple[int, int], answer: tuple[int | None, str | None]
) -> None:
    con = connect("FROM ncu_kernels", **profiled(("k", {"x": 1, **values}), capability=capability))
    assert ask(con, "SELECT dram_bytes, dram_bytes_source FROM ncu_kernels") == [answer]


@pytest.mark.parametrize(
    ("values", "limited_by"),
    [
        ({SM: 59, MEMORY: 20}, "latency"),
        ({SM: 59, MEMORY: 20, "launch__waves_per_multiprocessor": 0.5}, "small grid"),
        ({SM: 90, MEMORY: 80}, "compute"),
        ({SM: 60, MEMORY: 70}, "memory"),
        ({SM: 85, MEMORY: 80}, "balanced"),
        ({SM: 85}, None),
    ],
)
def test_what_limits_a_launch_follows_the_thresholds_of_nvidia(
    values: Mapping[str, float], limited_by: str | None
) -> None:
    con = connect("FROM ncu_kernels", **profiled(("k", values)))
    assert ask(con, "SELECT limited_by FROM ncu_kernels") == [(limited_by,)]


def tiers(gpu_ops: list[dict[str, Any]], tables: dict[str, list[dict[str, Any]]], **more: Any) -> list[Any]:
    con = connect("FROM ncu_join", gpu_ops=gpu_ops, **tables, **more)
    return ask(con, "SELECT name, tier FROM ncu_join ORDER BY name")


OURS = "void at::k<4, f<float>, true>(int, f<float>, char*)"
THEIRS = "void at::k<(int)4, f<float>, (bool)1>(int, T2, char *)"


def test_names_of_two_demanglers_are_those_of_one_kernel() -> None:
    assert tiers(kernels(OURS), profiled((THEIRS, {SM: 50}))) == [(OURS, "launch")]


COPY = "at::copy(int)::{lambda()#3}::operator()() const::{lambda(c10::Half)#%d}"
NOCAST = (
    f"void at::(anonymous namespace)::each<128, at::nocast<{COPY}>(at::Iterator&, {COPY} const&)"
    "::{lambda(char const*, int)#1}, void const*>(int, at::nocast<float>)"
)
NVIDIAS_COPY = "at::copy(int)::[lambda() (instance 3)]::operator ()() const::[lambda(c10::Half) (instance %d)]"
NVIDIAS_NOCAST = (
    f"void at::<unnamed>::each<(int)128, void at::nocast<{NVIDIAS_COPY}>(at::Iterator &, const T1 &)"
    "::[lambda(const char *, int) (instance 1)], const void *>(int, T2)"
)


@pytest.mark.check
def test_kernels_of_lambdas_are_found_by_what_each_demangler_calls_them() -> None:
    one, two = (NOCAST % (number, number) for number in (1, 2))
    assert tiers(kernels(one), profiled((NVIDIAS_NOCAST % 1, {}))) == [(one, "launch")]
    assert tiers(kernels(one, two), profiled((NVIDIAS_NOCAST % 2, {}))) == [(one, None), (two, "launch")]
    of_float = NVIDIAS_NOCAST.replace("c10::Half", "float") % 1
    assert tiers(kernels(one), profiled((of_float, {}))) == [(one, None)]


def test_a_mangled_name_stands_for_the_only_kernel_of_its_function() -> None:
    tables = profiled(("_ZN2at1kILi4E1fIfELb1EEEviT0_Pc", {}))
    tables["ncu_launches"][0]["function_name"] = "k"
    assert tiers(kernels(OURS), tables) == [(OURS, "base name")]
    tables["ncu_launches"].append({**tables["ncu_launches"][0], "launch": 1, "name": "_ZN2at1kILi2E1fIfELb1EEEviT0_Pc"})
    assert tiers(kernels(OURS), tables) == [(OURS, None)]


@pytest.mark.check
def test_another_grid_or_none_is_the_same_kernel_but_not_the_same_launch() -> None:
    assert tiers(kernels(OURS), profiled((THEIRS, {}), grid=(9, 3, 1))) == [(OURS, "name")]
    assert tiers(kernels(OURS), profiled((THEIRS, {}), grid=None)) == [(OURS, "name")]
    assert tiers(kernels(OURS, **sizes(None, None)), profiled((THEIRS, {}), grid=None, block=None)) == [(OURS, "name")]


def test_a_bare_function_name_stands_for_its_only_kernel() -> None:
    assert tiers(kernels(OURS), profiled(("k", {}))) == [(OURS, "base name")]
    other = OURS.replace("4", "2")
    assert tiers(kernels(OURS, other), profiled(("k", {}))) == [(other, None), (OURS, None)]


def test_kernels_of_other_template_arguments_are_other_kernels() -> None:
    assert tiers(kernels(OURS), profiled((THEIRS.replace("4", "2"), {}))) == [(OURS, None)]


def test_names_that_differ_in_a_lambdas_parameters_only_are_not_confused() -> None:
    one, two = (f"void k<{{lambda({kind})#1}}>(int)" for kind in ("float", "double"))
    assert tiers(kernels(one, two), profiled((one, {}))) == [(two, None), (one, "launch")]


@pytest.mark.check
def test_another_compute_capability_is_another_machine() -> None:
    devices = [{"device": 0, "compute_major": 8, "compute_minor": 0}]
    assert tiers(kernels("k"), profiled(("k", {})), devices=devices) == [("k", None)]
    assert tiers(kernels("k"), profiled(("k", {}), capability=(8, 0)), devices=devices) == [("k", "launch")]
    assert tiers(kernels("k"), profiled(("k", {}), capability=(None, None)), devices=devices) == [("k", "launch")]


def test_coverage_is_of_kernels_without_communication() -> None:
    ops = [*kernels("k", "k", "other"), {**kernels("nccl")[0], "op_id": 9, "is_comm": True}]
    con = connect("FROM ncu_coverage", gpu_ops=ops, **profiled(("k", {SM: 75, MEMORY: 50})))
    columns = "sum_ns, launch_ns, name_ns, base_name_ns, matched_share, headroom_ns"
    assert ask(con, f"SELECT {columns} FROM ncu_coverage") == [(300, 200, 0, 0, 2 / 3, 50)]


def test_headroom_is_the_time_of_the_job_by_the_rate_it_uses_most() -> None:
    con = connect("FROM ncu_join", gpu_ops=kernels("k", "k"), **profiled(("k", {SM: 30, MEMORY: 80, "Duration": 7777})))
    assert ask(con, "SELECT kernel_count, sum_ns, headroom_ns FROM ncu_join") == [(2, 200, 40)]


def test_metrics_of_one_launch_may_lie_in_several_files() -> None:
    first = profiled(("k", {SM: 30, MEMORY: 80, "dram__bytes.sum": 50}))
    second = profiled(("k", {FADD: 1, FMUL: 1, FFMA: 4, PIPE: 0}))
    third = profiled(("k", {DADD: 0, DMUL: 0, DFMA: 3}))
    for name, other in (("g", second), ("h", third)):
        for table, rows in other.items():
            first[table] += [{**row, "file": name} for row in rows]
    columns = "profiled_count, headroom_ns, dram_bytes, flops"
    assert ask(connect("FROM ncu_join", gpu_ops=kernels("k"), **first), f"SELECT {columns} FROM ncu_join") == [
        (3, 20, 50, 1 + 1 + 2 * 4 + 2 * 3)
    ]
    # In one file, a launch without a metric that another has leaves the mean open.
    partial = profiled(("k", {"dram__bytes.sum": 50}), ("k", {SM: 30}))
    con = connect("FROM ncu_join", gpu_ops=kernels("k"), **partial)
    assert ask(con, f"SELECT {columns} FROM ncu_join") == [(2, None, None, None)]


def test_rates_of_versions_until_2021_have_other_names() -> None:
    values = {"SM [%]": 54.3, "Memory [%]": 82.5, "SOL DRAM": 82.4, "SOL L1/TEX Cache": 61.1, "SOL L2 Cache": 30.1}
    con = connect("FROM ncu_kernels", **profiled(("k", values), unit="%"))
    columns = "sm_percent, memory_percent, dram_percent, l1_percent, l2_percent, limited_by"
    assert ask(con, f"SELECT {columns} FROM ncu_kernels") == [(54.3, 82.5, 82.4, 61.1, 30.1, "memory")]


def model(
    *launches: Mapping[str, float],
    shapes: tuple[list[list[int]], ...] = ([[3, 5], [5, 7]],),
    kind: str = "float",
    extra: list[dict[str, Any]] | None = None,
    device: str | None = None,
) -> duckdb.DuckDBPyConnection:
    """Return a run in which one product after the other launches kernel k, with counters of k."""
    calls, args, runtime = [], [], []
    for number, dims in enumerate(shapes, 1):
        place = {"thread_id": 0, "depth": 0, "start_ns": 1000 * number - 500}
        calls.append(
            {
                **place,
                "slice_id": number,
                "category": "cpu_op",
                "name": "aten::mm",
                "dur_ns": 400,
                "input_shapes": json.dumps(dims),
            }
        )
        args.append({"event_id": number, "args": json.dumps({"Input type": [kind] * 2})})
        runtime.append({**place, "slice_id": 100 + number, "category": "runtime", "start_ns": 1000 * number - 400})
    ops = [{**op, "launch_id": 100 + op["op_id"]} for op in kernels(*("k" for _ in shapes))]
    devices = [{"device": 0, "name": device, "compute_major": 9, "compute_minor": 0}]
    return connect(
        "FROM ncu_model",
        host_slices=calls + runtime,
        event_args=args,
        gpu_ops=ops + (extra or []),
        devices=devices,
        **profiled(*(("k", values) for values in launches)),
    )


FLOPS = 2 * 3 * 5 * 7
BYTES = 4 * (15 + 35 + 21)


@pytest.mark.check
@pytest.mark.parametrize(
    ("counted", "verdict", "disagrees"),
    [(FLOPS, "agrees", False), (FLOPS * 1.05, "agrees", False), (FLOPS * 2, "more", True), (FLOPS // 2, "fewer", True)],
)
def test_operations_that_disagree_with_the_model_are_told(counted: float, verdict: str, disagrees: bool) -> None:
    con = model({**NO_FLOPS, FADD: counted})
    columns = "model_flops, flops_verdict, disagrees, compared_count, reason"
    assert ask(con, f"SELECT {columns} FROM ncu_model") == [(FLOPS, verdict, disagrees, 1, None)]


@pytest.mark.check
@pytest.mark.parametrize(
    ("counted", "device", "verdict"),
    [
        (BYTES, None, "agrees"),
        (BYTES * 2, None, "re-reads"),
        (100, None, "below"),
        (100, "NVIDIA H100 80GB HBM3", "cache"),
    ],
)
def test_the_traffic_factor_is_bytes_over_the_least(counted: int, device: str | None, verdict: str) -> None:
    con = model({"dram__bytes.sum": counted}, device=device)
    columns = "model_bytes, traffic_factor, bytes_verdict, disagrees"
    assert ask(con, f"SELECT {columns} FROM ncu_model") == [(BYTES, counted / BYTES, verdict, False)]


@pytest.mark.check
def test_fewer_bytes_than_caches_can_hide_are_impossible() -> None:
    side = 8192
    con = model({"dram__bytes.sum": 10**6}, shapes=([[side, side], [side, side]],), device="NVIDIA H100 80GB HBM3")
    assert ask(con, "SELECT model_bytes, bytes_verdict, disagrees FROM ncu_model") == [
        (3 * 4 * side * side, "impossible", True)
    ]


@pytest.mark.check
def test_one_launch_for_two_shapes_is_compared_with_neither() -> None:
    con = model({**NO_FLOPS, FADD: FLOPS}, shapes=([[3, 5], [5, 7]], [[3, 9], [9, 7]]))
    assert ask(con, "SELECT measured_flops, disagrees, reason FROM ncu_model") == [(None, False, "several shapes")] * 2


@pytest.mark.check
def test_counters_that_spread_are_of_several_shapes() -> None:
    con = model({**NO_FLOPS, FADD: FLOPS}, {**NO_FLOPS, FADD: FLOPS * 3})
    assert ask(con, "SELECT measured_flops, disagrees, reason FROM ncu_model") == [(None, False, "counters spread")]


@pytest.mark.check
def test_a_call_with_a_kernel_that_nobody_profiled_is_not_compared() -> None:
    more = [{**kernels("reduce")[0], "op_id": 9, "start_ns": 1200, "launch_id": 101}]
    con = model({**NO_FLOPS, FADD: 1}, extra=more)
    assert ask(con, "SELECT compared_count, disagrees, reason FROM ncu_model") == [
        (0, False, "other kernels without counters")
    ]


@pytest.mark.check
def test_half_precision_outside_tensor_cores_is_unknown_and_no_disagreement() -> None:
    con = model(NO_FLOPS, kind="c10::Half")
    assert ask(con, "SELECT measured_flops, flops_verdict, disagrees FROM ncu_model") == [(None, None, False)]


@pytest.mark.check
def test_a_run_without_counters_has_nothing_to_compare() -> None:
    con = model()
    assert ask(con, "FROM ncu_model") == []
    assert ask(con, "SELECT tier FROM ncu_join") == [(None,)]
