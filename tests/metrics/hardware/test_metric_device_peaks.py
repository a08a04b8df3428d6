"""device_peaks: the names that drivers give devices find the rates of their model."""

from __future__ import annotations

import pytest
from text_tables import ask, connect


@pytest.mark.check
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


# Highest boost clocks in MHz: laptop parts have 128 cores an SM, a multiply-add each in a cycle.
LAPTOPS = {
    "RTX 3050": 1740,
    "RTX 3050 Ti": 1695,
    "RTX 3060": 1703,
    "RTX 3070": 1620,
    "RTX 3070 Ti": 1485,
    "RTX 3080": 1710,
    "RTX 3080 Ti": 1590,
    "RTX 4050": 2370,
    "RTX 4060": 2370,
    "RTX 4070": 2175,
    "RTX 4080": 2280,
    "RTX 4090": 2040,
}


def test_rates_of_laptop_parts_are_their_cores_at_the_highest_clock() -> None:
    rows = ask(
        connect("FROM hardware_peaks"),
        "SELECT pattern, sm_count, fp32_tflops, half_tflops FROM hardware_peaks WHERE is_laptop(pattern)",
    )
    rates = {pattern.removesuffix(" Laptop"): (sm_count, *tflops) for pattern, sm_count, *tflops in rows}
    assert rates.keys() == LAPTOPS.keys()
    for name, (sm_count, fp32_tflops, half_tflops) in rates.items():
        assert fp32_tflops == pytest.approx(sm_count * 128 * 2 * LAPTOPS[name] / 1e6, abs=0.06)
        assert half_tflops == pytest.approx(2 * fp32_tflops)


# Of a core in a cycle: 8 vector engines of 16 lanes, a multiply-add each; matrix engines do 8 times as much of TF32 and
# 16 times as much of BF16. The 1550 has two dies of 64 cores, and each is a device.
@pytest.mark.parametrize(("name", "core_count", "clock_mhz"), [("1550", 64, 1600), ("1100", 56, 1550)])
def test_rates_of_intels_parts_are_their_cores_at_the_highest_clock(name: str, core_count: int, clock_mhz: int) -> None:
    con = connect("FROM hardware_peaks JOIN hardware_details USING (pattern)")
    (rates,) = ask(
        con,
        "SELECT fp32_tflops, fp64_tflops, tf32_tflops, half_tflops FROM hardware_peaks "
        f"JOIN hardware_details USING (pattern) WHERE pattern LIKE '%Max {name}'",
    )
    vector_tflops = core_count * 8 * 16 * 2 * clock_mhz / 1e6
    assert rates == pytest.approx((vector_tflops, vector_tflops, 8 * vector_tflops, 16 * vector_tflops), rel=1e-3)


@pytest.mark.check
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


@pytest.mark.sampled
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
