"""Numbers as people read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.text.words import (
    apportion,
    counted,
    duration,
    gain,
    operations,
    percent,
    ranges,
    size,
    tenths_of_percent,
    told_apart,
    value_words,
)


@pytest.mark.parametrize(
    ("dur_ns", "words"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1_500, "1.50 µs"),
        (177_600_000, "177.6 ms"),
        (12_340_000, "12.34 ms"),
        (2_500_000_000, "2.50 s"),
        (-3_000_000, "-3.00 ms"),
    ],
)
def test_duration_has_the_unit_that_fits(dur_ns: int, words: str) -> None:
    assert duration(dur_ns) == words


@pytest.mark.parametrize(("share", "words"), [(0.032, "−3.2 %"), (0, "0.0 %"), (-0.014, "+1.4 %")])
def test_a_fix_that_costs_is_not_said_to_save_nothing(share: float, words: str) -> None:
    assert gain(share) == words


@pytest.mark.parametrize(("share", "words"), [(0, "0.0 %"), (0.0001, "<0.1 %"), (0.334, "33.4 %"), (1, "100.0 %")])
def test_small_share_never_reads_nothing(share: float, words: str) -> None:
    assert percent(share) == words


@pytest.mark.parametrize(
    ("numbers", "words"), [([], ""), ([3], "3"), ([0, 1], "0, 1"), ([7, 0, 1, 2, 3], "0-3, 7"), ([1, 1, 2, 3], "1-3")]
)
def test_ranges_are_short(numbers: list[int], words: str) -> None:
    assert ranges(numbers) == words


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=30), st.integers(0, 1000))
def test_apportioned_units_add_up_and_stay_within_one_of_exact(parts: list[float], total: int) -> None:
    units = apportion(parts, total)
    if sum(parts) > 0:
        assert sum(units) == total
        assert all(abs(unit - part * total / sum(parts)) <= 1 + 1e-6 for unit, part in zip(units, parts, strict=True))
    else:
        assert units == [0] * len(parts)


def test_values_read_by_the_unit_of_their_column() -> None:
    assert value_words("dur_ns", 1_500) == "1.50 µs"
    assert value_words("idle_share", 0.25) == "25.0 %"
    assert value_words("size_bytes", 12_400_000) == "11.8 MiB"
    assert value_words("size_mib", 48_828.1) == "47.7 GiB"
    assert value_words("at_ms", 1_204.5) == "1,204.500 ms"
    assert value_words("name", None) == "–"
    assert value_words("worst_step", 1_007) == "1007"
    assert value_words("calls", 2_020) == value_words("copy_count", 2_020) == "2,020"
    assert value_words("bucket", "host.gc") == "Python garbage collection"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("cudaDeviceSynchronize_v3020", "cudaDeviceSynchronize"),
        ("volta_sgemm_64x64_tn", "volta_sgemm_64x64_tn"),
        ("<built-in function zoom_shift>", "<built-in function zoom_shift>"),
        ("aten::add", "aten::add"),
        (
            "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16>(int)",
            "cunn_SoftMaxForward<8, BFloat16>(int)",
        ),
        (
            "void at::native::elementwise_kernel<(int)128, (int)-2, void at::native::copy_kernel<(bool)1>>(int)",
            "elementwise_kernel<128, -2, copy_kernel<1>>(int)",
        ),
        (
            "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, float>(int)",
            "kernel<int, int, float>(int)",
        ),
    ],
)
def test_names_lose_what_tells_them_from_no_other(name: str, told: str) -> None:
    assert value_words("name", name) == told


def test_operations_have_the_prefix_that_fits() -> None:
    assert [operations(count) for count in (0, 999, 1_000, 140_967_141_376, 2.5e15)] == [
        "0 FLOP",
        "999 FLOP",
        "1 kFLOP",
        "141 GFLOP",
        "2.5 PFLOP",
    ]


def test_counts_and_sizes() -> None:
    assert counted(1, "step") == "1 step"
    assert counted(1200, "step") == "1,200 steps"
    assert size(999) == "999 B"


@given(st.lists(st.integers(0, 10**9), min_size=2, max_size=12).filter(lambda parts: sum(parts[1:]) > 0))
def test_shares_add_up_and_compute_reads_as_everywhere(parts: list[int]) -> None:
    tenths = tenths_of_percent(parts)
    assert sum(tenths) == 1000
    assert tenths[0] / 10 == float(f"{parts[0] / sum(parts) * 100:.1f}")
    assert min(tenths) >= 0


def test_names_that_would_read_the_same_are_cut_where_they_begin_to_differ() -> None:
    names = [
        "gemm_bf16_MT128x128_a",
        "gemm_bf16_MT128x256_a",
        "gemm_bf16_MT256x256_a",
        "softmax_kernel_forward",
        "short",
    ]
    assert told_apart(names, 12) == ["gemm…128x12…", "gemm…128x25…", "gemm…256x25…", "softmax_ker…", "short"]
    assert told_apart(["same_name_here", "same_name_here"], 8) == ["same_na…", "same_na…"]
    assert told_apart(names, 40) == names
    # The first name ends where the others go on.
    assert told_apart(["GptOssForCausalLM", "GptOssForCausalLM/Block"], 16) == ["GptOs…orCausalLM", "GptOs…alLM/Block"]


@given(st.lists(st.text("ab<", max_size=30), max_size=6), st.integers(4, 20))
def test_no_name_is_longer_than_its_room(names: list[str], longest: int) -> None:
    shown = told_apart(names, longest)
    assert all(len(words) <= longest for words in shown)
    assert [name for name, words in zip(names, shown, strict=True) if len(name) <= longest and words != name] == []
