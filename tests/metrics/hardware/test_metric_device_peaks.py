"""device_peaks: the names that drivers give devices find the rates of their model."""

from __future__ import annotations

import pytest
from text_tables import ask, connect


@pytest.mark.parametrize(
    ("name", "sm_count", "half_tflops"),
    [
        ("Orin", 16, 42.5),
        ("Orin", 8, 19.2),
        ("Orin", 4, None),  # the Orin Nano with 4 GB is not in the table
        ("NVIDIA GB200", 152, 2500),
        ("NVIDIA B200", 148, 2250),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 188, 503.8),
        ("NVIDIA RTX 6000 Ada Generation", 142, 364.2),
        ("NVIDIA GeForce RTX 5070", 48, 61.7),
        ("NVIDIA GeForce RTX 5070 Ti", 70, 87.9),
        ("AMD Instinct MI355X", 256, 2516.6),
    ],
)
def test_a_device_has_the_rates_of_its_model(name: str, sm_count: int, half_tflops: float | None) -> None:
    con = connect(
        devices=[{"device": 0, "name": name, "sm_count": sm_count}],
        gpu_ops=[{"op_id": 1, "device": 0, "kind": "kernel", "start_ns": 1, "dur_ns": 1}],
    )
    assert ask(con, "SELECT half_tflops FROM device_peaks") == [(half_tflops,)]


@pytest.mark.parametrize(
    ("name", "sm_count", "cache_mib", "link_gb_per_s"),
    [
        ("NVIDIA A800-SXM4-80GB", 108, 40, 200),
        ("NVIDIA GeForce RTX 3070", 46, 4, None),
        ("NVIDIA GeForce RTX 3080", 68, 5, None),
        ("NVIDIA GeForce RTX 3080 Ti", 80, 6, None),
        ("NVIDIA GeForce RTX 4070", 46, 36, None),
        ("NVIDIA GeForce RTX 4070 SUPER", 56, 48, None),
        ("NVIDIA GeForce RTX 5090", 170, 96, None),
        ("NVIDIA RTX A6000", 84, 6, None),
        ("NVIDIA RTX 6000 Ada Generation", 142, 96, None),
        ("AMD Instinct MI355X", 256, 256, 537.6),
    ],
)
def test_a_device_has_the_cache_and_the_links_of_its_model(
    name: str, sm_count: int, cache_mib: int, link_gb_per_s: float | None
) -> None:
    con = connect(
        devices=[{"device": 0, "name": name, "sm_count": sm_count}],
        gpu_ops=[{"op_id": 1, "device": 0, "kind": "kernel", "start_ns": 1, "dur_ns": 1}],
    )
    assert ask(con, "SELECT cache_bytes, link_gb_per_s FROM device_details") == [(cache_mib * 2**20, link_gb_per_s)]


@pytest.mark.parametrize("name", ["NVIDIA GeForce RTX 4080 Laptop GPU", "Quadro RTX 5000 with Max-Q Design"])
@pytest.mark.parametrize("sm_count", [58, None])
def test_a_laptops_device_has_no_cache_of_the_larger_one_with_its_name(name: str, sm_count: int | None) -> None:
    con = connect(
        devices=[{"device": 0, "name": name, "sm_count": sm_count}],
        gpu_ops=[{"op_id": 1, "device": 0, "kind": "kernel", "start_ns": 1, "dur_ns": 1}],
    )
    assert ask(con, "SELECT cache_bytes FROM device_details") == [(None,)]


def test_a_laptops_device_of_unknown_size_has_no_rates_of_the_larger_one() -> None:
    con = connect(
        devices=[{"device": 0, "name": "NVIDIA GeForce RTX 5080 Laptop GPU", "sm_count": None}],
        gpu_ops=[{"op_id": 1, "device": 0, "kind": "kernel", "start_ns": 1, "dur_ns": 1}],
    )
    assert ask(con, "SELECT fp32_tflops FROM device_peaks") == [(None,)]
