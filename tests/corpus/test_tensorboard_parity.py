"""The TensorBoard plugin's numbers on public traces, as torch-tb-profiler 0.4.3 computes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import traceanalyzer

pytestmark = pytest.mark.check

RESNET = "resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz"
# Of every step, in microseconds: Kernel, Memcpy, Memset, Communication, Runtime, DataLoader, CPU Exec, Other.
STEPS = {
    5: (98598, 1941, 90, 0, 2796, 69317, 14091, 1115),
    6: (98570, 1947, 89, 0, 2762, 57669, 12968, 1148),
    7: (98596, 1931, 91, 0, 2877, 61257, 13768, 1213),
    8: (98623, 1938, 89, 0, 2841, 56453, 13420, 1200),
    9: (98504, 1937, 87, 0, 2788, 62690, 15025, 1141),
    10: (98641, 1798, 88, 0, 3381, 48185, 12773, 1117),
}
# Calls, host total and self, device total and self, in microseconds.
OPERATORS = [
    ("aten::conv2d", 36, 7527, 824, 12778, 0),
    ("aten::copy_", 6, 12619, 137, 11486, 11486),
    ("aten::cudnn_convolution", 36, 5212, 2821, 12778, 12778),
]


@pytest.fixture(scope="module")
def resnet(corpus: Path, store_of: Callable[[Path], Path]) -> Iterator[traceanalyzer.Run]:
    path = corpus / "kineto" / RESNET
    with traceanalyzer.open(path, store=store_of(path)) as run:
        yield run


def test_overview_of_the_device(resnet: traceanalyzer.Run) -> None:
    query = """
        SELECT utilisation_share, sm_efficiency_share, occupancy_percent
        FROM device_utilisation
        JOIN sm_efficiency USING (trace, device)
        JOIN occupancy USING (trace, device)
    """
    # The overview shows them as 55.51 %, 54.68 % and 49.13 %.
    assert resnet.sql(query).fetchall() == [
        (
            pytest.approx(0.5551408517455255, rel=1e-12),
            pytest.approx(0.546790410706937, rel=1e-9),
            pytest.approx(49.128004909286396, rel=1e-12),
        )
    ]


def test_every_step_is_broken_down_to_the_microsecond(resnet: traceanalyzer.Run) -> None:
    query = """
        SELECT step, kernel_ns, memcpy_ns, memset_ns, comm_ns, runtime_ns, loader_ns, cpu_ns, other_ns
        FROM step_breakdown
    """
    assert {row[0]: tuple(ns / 1000 for ns in row[1:]) for row in resnet.sql(query).fetchall()} == STEPS


def test_average_step(resnet: traceanalyzer.Run) -> None:
    rows = resnet.sql("SELECT round(avg(dur_ns) / 1e6, 1), round(avg(kernel_ns) / 1e3) FROM step_breakdown").fetchall()
    assert rows == [(177.6, 98589)]


def test_operator_view(resnet: traceanalyzer.Run) -> None:
    query = """
        SELECT
            name,
            call_count,
            host_sum_ns // 1000,
            host_self_sum_ns // 1000,
            device_sum_ns // 1000,
            device_self_sum_ns // 1000
        FROM op_summary
        WHERE (name, input_shapes) IN (
            ('aten::conv2d', '[[32,256,14,14],[1024,256,1,1],[],[],[],[],[]]'),
            ('aten::cudnn_convolution', '[[32,256,14,14],[1024,256,1,1],[],[],[],[],[],[],[]]'),
            ('aten::copy_', '[[32,3,224,224],[32,3,224,224],[]]')
        )
        ORDER BY name
    """
    assert resnet.sql(query).fetchall() == OPERATORS
    assert resnet.sql("SELECT count(*) FROM op_summary").fetchall() == [(577,)]


# What the plugin 0.4.3 shows for traces of newer profilers. It finds steps there without device work, because it knows
# no runtime call of theirs; the numbers below do not depend on it.
@pytest.mark.parametrize(
    ("trace", "utilisation", "efficiency", "occupancy"),
    [
        ("nccl_metadata_2024.json.gz", 0.2326278, 0.1686884, 35.31433),
        ("v100_training_2022.json.gz", 0.7938092, 0.5920521, 32.46432),
    ],
)
def test_overview_of_newer_traces(
    corpus: Path, tmp_path: Path, trace: str, utilisation: float, efficiency: float, occupancy: float
) -> None:
    query = """
        SELECT utilisation_share, sm_efficiency_share, occupancy_percent
        FROM device_utilisation
        JOIN sm_efficiency USING (trace, device)
        JOIN occupancy USING (trace, device)
    """
    with traceanalyzer.open(corpus / "kineto" / trace, store=tmp_path) as run:
        found = run.sql(query).fetchall()
    assert found == [
        (
            pytest.approx(utilisation, rel=1e-6),
            pytest.approx(efficiency, rel=1e-6),
            pytest.approx(occupancy, rel=1e-6),
        )
    ]
