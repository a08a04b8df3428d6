"""flops_utilisation: bounds of MFU and HFU over the analysis window, or why there are none."""

from __future__ import annotations

from typing import Any

import pytest
from text_tables import ask, connect

from traceanalyzer.diagnosis.flops import flops_uses

# An H100 computes 989 TFLOP/s of half precision: mm of 4096^3 takes 2 * 4096^3 operations, 138,967 ns.
MM_FLOPS = 2 * 4096**3
PEAK_PER_NS = 989_000
HALF = '["c10::Half","c10::Half"]'


def _run(
    operator: str = "aten::mm",
    shapes: str | None = "[[4096,4096],[4096,4096]]",
    types: str = HALF,
    concrete: str = "[]",
    device: str | None = "NVIDIA H100 80GB HBM3",
    other_ns: int = 0,
    other_types: str | None = None,
) -> Any:
    """Return what the metric says of a call whose kernel takes 500 µs of a window of 1 ms and more.

    Another kernel is of no operator, or of a product of `other_types`.
    """
    slices = [
        {"slice_id": 1, "category": "cpu_op", "name": operator, "start_ns": 0, "dur_ns": 100, "input_shapes": shapes},
        {"slice_id": 2, "category": "runtime", "name": "launch", "start_ns": 10, "dur_ns": 5, "op_id": 1},
    ]
    other = {"launch_id": 6, "cpu_op_id": 5} if other_types else {}
    ops: list[dict[str, Any]] = [
        {
            "op_id": 3,
            "kind": "kernel",
            "name": "gemm",
            "start_ns": 0,
            "dur_ns": 500_000,
            "launch_id": 2,
            "cpu_op_id": 1,
        },
        {"op_id": 4, "kind": "kernel", "name": "mine", "start_ns": 1_000_000, "dur_ns": other_ns, **other},
    ]
    if other_types:
        slices += [
            {
                "slice_id": 5,
                "category": "cpu_op",
                "name": operator,
                "start_ns": 200,
                "dur_ns": 100,
                "input_shapes": shapes,
            },
            {"slice_id": 6, "category": "runtime", "name": "launch", "start_ns": 210, "dur_ns": 5, "op_id": 5},
        ]
    args = [{"event_id": 5, "args": f'{{"Input type": {other_types}, "Concrete Inputs": []}}'}] if other_types else []
    args += [{"event_id": 1, "args": f'{{"Input type": {types}, "Concrete Inputs": {concrete}}}'}]
    windows = [{"device": 0, "start_ns": 0, "end_ns": 1_000_000 + other_ns, "window_ns": 1_000_000 + other_ns}]
    con = connect(
        "FROM flops_utilisation",
        host_slices=slices,
        gpu_ops=ops,
        event_args=args,
        devices=[{"device": 0, "name": device, "sm_count": 132}],
        windows=windows,
    )
    return ask(con, "SELECT mfu_least, mfu_most, hfu_least, hfu_most, known_share, reason FROM flops_utilisation")


@pytest.mark.check
@pytest.mark.parametrize("types", [HALF, HALF.replace("c10", "struct c10")])  # as PyTorch for Windows writes them
def test_a_product_over_its_window(types: str) -> None:
    ((*bounds, known, reason),) = _run(types=types)
    assert bounds == pytest.approx([MM_FLOPS / PEAK_PER_NS / 1_000_000] * 4)
    assert (known, reason) == (1, None)


@pytest.mark.check
def test_an_attention_with_an_unknown_mask_is_a_range() -> None:
    """4 heads of 1024 x 1024 pairs of 64 each: all of them, or 1024 * 1025 / 2 a head."""
    shapes = "[[1,4,1024,64],[1,4,1024,64],[1,4,1024,64]]"
    types = '["c10::Half","c10::Half","c10::Half"]'
    ((least, most, *_),) = _run("aten::_scaled_dot_product_flash_attention", shapes, types)
    assert most == pytest.approx(4 * 1024**2 * 2 * 128 / PEAK_PER_NS / 1_000_000)
    assert least / most == pytest.approx(1025 / 2048)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"shapes": None}, "no products"),
        ({"operator": "aten::relu"}, "no products"),
        ({"device": "Some Card"}, "unknown peak"),
        ({"types": '["c10::complex<float>","c10::complex<float>"]'}, "unknown peak"),
        ({"other_ns": 600_000}, "unknown work"),
        ({"shapes": "[[40960,4096],[4096,40960]]"}, "above peak"),
    ],
)
def test_what_cannot_be_known_has_a_reason_and_no_number(changes: dict[str, Any], reason: str) -> None:
    ((*bounds, _, found),) = _run(**changes)
    assert (bounds, found) == ([None] * 4, reason)


@pytest.mark.check
def test_a_product_of_a_type_without_a_peak_is_work_that_is_not_known() -> None:
    """500 µs of half precision, which has a peak, and 100 µs of complex numbers, which have none, in 1.1 ms."""
    ((*bounds, known, reason),) = _run(other_ns=100_000, other_types='["c10::complex<float>","c10::complex<float>"]')
    assert bounds == pytest.approx([MM_FLOPS / PEAK_PER_NS / 1_100_000] * 4)
    assert (known, reason) == (pytest.approx(5 / 6), None)


def _row(rank: int, **values: Any) -> dict[str, Any]:
    bounds = {"mfu_least": 0.3, "mfu_most": 0.3, "hfu_least": 0.4, "hfu_most": 0.4, "known_share": 1.0, "reason": None}
    return {"trace": f"r{rank}", "rank": rank, "device": 0, "wall_ns": 100, **bounds, **values}


def test_words_of_a_run_weigh_ranks_by_their_time() -> None:
    whole, first, second = flops_uses([_row(0), _row(1, wall_ns=300, mfu_least=0.1, mfu_most=0.2, known_share=0.8)])
    assert whole.words == "MFU at least 15.0 to 22.5 %, HFU at least 40.0 %"
    assert first.words == "MFU 30.0 %, HFU 40.0 %"
    assert second.place == "rank 1, device 0"
    assert whole.note.endswith("operations are not known for 20.0 % of the GPU time")


def test_processes_that_share_a_gpu_reach_its_peak_together() -> None:
    shared, *_ = flops_uses([_row(0, shared_gpu="a"), _row(1, shared_gpu="a")])
    assert (shared.place, shared.words) == ("the shared GPU", "MFU 60.0 %, HFU 80.0 %")
    # GPU a: two processes, GPU b: one.
    both, *_ = flops_uses([_row(0, shared_gpu="a"), _row(1, shared_gpu="a"), _row(2)])
    assert (both.place, both.words) == ("both devices", "MFU 45.0 %, HFU 60.0 %")
    too_much, *_ = flops_uses([_row(rank, shared_gpu="a") for rank in range(3)])
    assert too_much.reason == "above peak"


def test_recordings_of_one_rank_are_no_devices_of_their_own() -> None:
    again, *_ = flops_uses([_row(0, rank_id=0), _row(0, rank_id=0, mfu_least=0.1, mfu_most=0.1)])
    assert (again.place, again.words) == ("both recordings", "MFU 20.0 %, HFU 40.0 %")
    assert flops_uses([_row(0, rank_id=0)] * 3)[0].place == "all 3 recordings"


def test_one_rank_without_numbers_leaves_none_for_the_run() -> None:
    unknown = dict.fromkeys(("mfu_least", "mfu_most", "hfu_least", "hfu_most"))
    whole, *_ = flops_uses([_row(0), _row(1, **unknown, reason="unknown peak")])
    assert whole.words.startswith(
        "MFU and HFU unknown: the peaks of the device for the types that it computes with are not known: --device NAME"
    )


def test_a_bound_from_below_is_no_number_that_a_use_stays_under() -> None:
    tiny = dict.fromkeys(("mfu_least", "mfu_most", "hfu_least", "hfu_most"), 0.000_23)
    (use,) = flops_uses([_row(0, **tiny, known_share=0.8)])
    assert use.words == "MFU at least 0.02 %, HFU at least 0.02 %"


def test_numbers_of_a_tpu_are_over_the_whole_trace() -> None:
    (tpu,), (gpu,) = flops_uses([_row(0, name="TPU v6e")]), flops_uses([_row(0, name="NVIDIA H100 80GB HBM3")])
    assert tpu.note.startswith("of the peak rate over the whole trace;")
    assert gpu.note.startswith("of the peak rate over the analyzed time;")
