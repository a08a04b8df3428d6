"""What a device computes in its window: classes that add up to its compute time, and the kernels that take most."""

from __future__ import annotations

from typing import Any

import pytest
from fixture_runs import open_fixture
from text_tables import rows

from traceanalyzer.diagnosis import DeviceLedger, KernelClass, TopKernel
from traceanalyzer.rules.diagnosis import reporting

WINDOW = "window_ns  step_count  step_source\n100        2           ProfilerStep"
# Between the steps' kernels, the device waits for 10 ns; the copy kernel runs outside of the window.
#
#            0         20        40        60        80   90   100
#   stream 1 |  sgemm  |  sgemm  |  sgemm  |         |    |         | copy
#   stream 2           |  gelu   |                        |  nccl   |
KERNELS = """
    op_id  stream  name                is_comm  start_ns  dur_ns
    0      1       volta_sgemm_64x64   false    0         20
    1      1       volta_sgemm_64x64   false    20        20
    2      1       volta_sgemm_64x64   false    40        20
    3      2       elementwise_kernel  false    20        20
    4      2       ncclAllReduce       true     90        10
    5      1       CatArrayCopy        false    120       30
"""
LEDGER = """
    row_id  kept   bucket       start_ns  dur_ns
    1       true   compute      0         60
    2       true   host.python  60        40
    3       false  compute      120       30
"""


def ledger(
    kernels: str = KERNELS,
    ledger_rows: str = LEDGER,
    window: str = WINDOW,
    steps: str = "",
    **tables: list[dict[str, Any]],
) -> DeviceLedger:
    given = {
        "gpu_ops": [{"kind": "kernel", **row} for row in rows(kernels)],
        "attribution.ledger_rows": rows(ledger_rows),
        "windows": rows(window),
        **({"attribution.steps": rows(steps)} if steps else {}),
        **tables,
    }
    (device,) = reporting.ledgers(open_fixture(None, given))
    return device


def test_classes_add_up_to_the_compute_time_of_the_window() -> None:
    assert ledger().kernel_classes == (
        KernelClass("gemm", wall_ns=50, share=50 / 60, call_count=3),
        KernelClass("elementwise", wall_ns=10, share=10 / 60, call_count=1),
    )


def test_top_kernels_have_their_share_of_the_window_their_calls_and_their_mean() -> None:
    assert ledger().top_kernels == (
        TopKernel("volta_sgemm_64x64", "gemm", wall_ns=50, share=0.5, call_count=3, mean_ns=20),
        TopKernel("elementwise_kernel", "elementwise", wall_ns=10, share=0.1, call_count=1, mean_ns=20),
    )


def test_kernels_of_equal_time_stand_by_name_and_ten_are_kept() -> None:
    names = [f"kernel_{letter}" for letter in "lkjihgfedcba"]
    kernels = [f"{at}  {name}  false  {at * 5}  5" for at, name in enumerate(names)]
    found = ledger("\n".join(["op_id  name  is_comm  start_ns  dur_ns", *kernels]))
    assert [kernel.name for kernel in found.top_kernels] == sorted(names)[:10]
    assert [(item.name, item.call_count) for item in found.kernel_classes] == [("other", 12)]


def test_graphs_that_are_recorded_whole_have_the_compute_time_that_kernels_leave() -> None:
    #  0    kernel 20   ├ graph 1 ──── 60 ─┤  ├ graph 2, 20 ┤   100
    graphs = [
        {"op_id": 1, "kind": "graph", "name": "CUDA graph 1", "start_ns": 20, "dur_ns": 60},
        {"op_id": 2, "kind": "graph", "name": "CUDA graph 2", "start_ns": 80, "dur_ns": 20},
        {"op_id": 3, "kind": "kernel", "name": "gather", "start_ns": 0, "dur_ns": 20, "is_comm": False},
    ]
    computing = "row_id  kept  bucket   start_ns  dur_ns\n1       true  compute  0         100"
    window = "start_ns  end_ns  window_ns  step_count\n0         100     100        0"
    found = ledger(ledger_rows=computing, window=window, gpu_ops=graphs)
    assert [(item.name, item.wall_ns, item.call_count) for item in found.kernel_classes] == [
        ("graph", 80, 2),
        ("other", 20, 1),
    ]
    assert [(item.name, item.wall_ns, item.mean_ns) for item in found.top_kernels] == [
        ("CUDA graph 1", 60, 60),
        ("CUDA graph 2", 20, 20),
        ("gather", 20, 20),
    ]
    assert found.unjudged_share == 1


def test_a_window_in_which_no_kernel_computes_has_none() -> None:
    found = ledger(ledger_rows="row_id  kept  bucket       start_ns  dur_ns\n1       true  host.python  0         100")
    assert (found.kernel_classes, found.top_kernels) == ((), ())


@pytest.mark.check
@pytest.mark.parametrize(
    ("name", "known"), [("NVIDIA H100 80GB HBM3", True), ("Unheard-of 9000", False), (None, False)]
)
def test_peaks_are_known_for_known_models(name: str | None, known: bool) -> None:
    assert ledger(devices=[{"name": name}]).peaks_known is known


@pytest.mark.check
@pytest.mark.parametrize(
    ("name", "framework", "unjudged"),
    [
        ("ampere_sgemm_128x64_nn", "cuda", False),
        ("void gemm<(int)128, (int)8>(float *, float *, float *, int)", "cuda", True),
        ("convolutionRowsKernel", "cuda", True),
        ("softmax_kernel(float *, float *, int)", "cuda", True),
        ("softmax_kernel(float *, float *, int)", "pytorch", False),
        ("bodyForce(Body *, float, int)", "pytorch", True),
    ],
)
def test_a_kernel_of_the_programs_own_is_judged_by_no_rule(name: str, framework: str, unjudged: bool) -> None:
    kernel = {"op_id": 1, "kind": "kernel", "name": name, "is_comm": False, "start_ns": 0, "dur_ns": 60}
    traces = [{"framework": framework, "recorder": "nsys"}]
    assert ledger(gpu_ops=[kernel], traces=traces).unjudged_share == float(unjudged)


@pytest.mark.check
@pytest.mark.parametrize(
    ("source", "marked_ns"), [("ProfilerStep", 70), ("annotation", 70), ("optimizer", None), ("launches", None)]
)
def test_only_marked_steps_have_a_length_on_the_host(source: str, marked_ns: int | None) -> None:
    steps = """
        step  host_start_ns  host_end_ns  kept
        0     0              5            false
        1     5              65           true
        2     65             145          true
    """
    found = ledger(window=WINDOW.replace("ProfilerStep", source), steps=steps)
    assert found.marked_step_ns == marked_ns
