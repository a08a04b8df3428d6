"""The page of differences from other tools: our numbers on it are what our metrics have on the named traces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from corpus_metrics import run_of

from traceanalyzer.hta import critical_path
from traceanalyzer.run import Run

pytestmark = pytest.mark.check
__all__ = ["run_of"]

_COSTS = "FROM operator_costs WHERE operator = 'aten::{}'"
# Of a trace: the metric, and the texts of its row on the page.
NUMBERS = [
    (
        "nccl_metadata_2024",
        "FROM step_breakdown WHERE step = 4",
        "'{:,} and {:,} µs', runtime_ns // 1000, cpu_ns // 1000",
    ),
    (
        "nccl_metadata_2024",
        "FROM step_breakdown WHERE step = 4",
        "'{:,} and {:,} µs', kernel_ns // 1000, comm_ns // 1000",
    ),
    ("nccl_metadata_2024", "FROM step_breakdown WHERE step = 4", "'{:,} µs', loader_ns // 1000"),
    ("v100_training_2022", "FROM step_breakdown WHERE step = 1009", "'{:,} µs', dur_ns // 1000"),
    ("h100_vit", "FROM step_breakdown", "'{} step of {:,} µs', count(*), sum(dur_ns)::BIGINT // 1000"),
    ("h100_bert_small", _COSTS.format("addmm"), "'{:.6f} GFLOP', sum(flops) / 1e9"),
    ("mi300_resnet_ddp_checkpoint", _COSTS.format("convolution_backward"), "'{:.3f} GFLOP', sum(flops) / 1e9"),
    ("mi300_sglang_prefill_decode", _COSTS.format("mm"), "'{:,.2f} GFLOP', sum(flops) / 1e9"),
    ("h100_vit", _COSTS.format("convolution"), "'{:,} B', sum(size_bytes)::BIGINT"),
    ("h100_vit", _COSTS.format("convolution"), "'{:.3f} and ', sum(op_sum_ns) / 1000"),
    ("mi300_resnet_ddp_checkpoint", _COSTS.format("convolution"), "' and {:,.1f} µs', sum(kernel_sum_ns) / 1000"),
    ("h100_bert_small", _COSTS.format("native_layer_norm"), "'{:,} B', sum(size_bytes)::BIGINT"),
    ("h100_owlv2_inference", _COSTS.format("add_"), "'{:,} B', sum(size_bytes)::BIGINT"),
    ("h100_owlv2_inference", _COSTS.format("_softmax"), "'{:,} B', sum(size_bytes)::BIGINT"),
    (
        "h100_owlv2_inference",
        _COSTS.format("copy_") + " AND reason IS NULL AND dur_ns > 0",
        "'{} calls, {:,.0f} µs', count(*), sum(kernel_sum_ns) / 1000",
    ),
    (
        "mi300_resnet_ddp_checkpoint",
        _COSTS.format("div"),
        "'{} calls, {:.2f} µs', count(*), sum(kernel_sum_ns) / 1000",
    ),
    ("triton_example", "FROM triton_kernels", "'{:,} B', sum(size_bytes)::BIGINT"),
    ("v100_training_2022", "FROM operator_costs", "'{:,} operations', sum(flops)::BIGINT"),
    ("compare_test", "FROM stream_idle WHERE stream = 7", "'{:,} µs', idle_ns // 1000"),
]


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    return (root / "docs" / "parity.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("trace", "source", "words"), NUMBERS)
def test_our_numbers_are_those_of_the_metrics(
    corpus: Path, run_of: Callable[[str], Run], page: str, trace: str, source: str, words: str
) -> None:
    ((text,),) = run_of(trace).connection.execute(f"SELECT format({words}) {source}").fetchall()
    assert any(f"`{trace}`" in line and text in line for line in page.splitlines()), text


def test_sizes_by_shape_and_as_stored(corpus: Path, run_of: Callable[[str], Run], page: str) -> None:
    query = f"SELECT sum(size_bytes), sum(stored_bytes) {_COSTS.format('div')}"
    ((shape_bytes, stored_bytes),) = run_of("mi300_resnet_ddp_checkpoint").connection.execute(query).fetchall()
    assert f"`mi300_resnet_ddp_checkpoint` has {shape_bytes:,} bytes by shape, and {stored_bytes:,} as stored." in page


@pytest.mark.parametrize(
    ("trace", "annotation", "instance", "window"),
    [
        ("cuda_sync_events_2023", "alex_net|0|0|0|measure|forward", 1, "the second `alex_net … forward`"),
        ("cuda_event_sync_multi_stream", "", 0, "all"),
        ("two_ranks_2023_rank-0", "ProfilerStep#551", 0, "step 551"),
    ],
)
def test_critical_paths(
    corpus: Path,
    run_of: Callable[[str], Run],
    page: str,
    trace: str,
    annotation: str,
    instance: int,
    window: str,
) -> None:
    path = critical_path(run_of(trace).connection, 0, annotation, instance)
    times = (path.span_ns, path.length_ns, path.kind_ns["left_out"])
    name = trace.replace("2023_rank", "2023/rank")
    assert f"| `{name}`, {window} | {' | '.join(f'{time_ns // 1000:,} µs' for time_ns in times)} |" in page
