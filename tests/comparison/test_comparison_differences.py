"""What a difference is made of adds up, in both directions, to the nanosecond."""

from __future__ import annotations

from fractions import Fraction

from drawn_summaries import MS, capture
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from traceanalyzer.comparison.comparing import Diff, compare
from traceanalyzer.comparison.differences import named_difference, plain_name, whole_ns
from traceanalyzer.comparison.summary import CompareOptions, Named, Summary

steps = st.lists(st.floats(0.001, 900), min_size=1, max_size=5)
waits = st.dictionaries(st.sampled_from(["host.dataloader", "host.op", "dev.dispatch"]), st.floats(0, 0.0003))
names = st.sampled_from(["a<1>", "a<2>", "void b(int)", "c_sm80", "triton_poi_fused_add_3", "triton_poi_fused_add_7"])
kernels = st.dictionaries(names, st.tuples(st.integers(1, 1000), st.floats(0, 100)), min_size=1)
captures = st.builds(
    lambda steps_ms, waits_ms, ran, has_steps: capture(steps_ms, waits_ms=waits_ms, kernels=ran, has_steps=has_steps),
    *(steps, waits, kernels, st.booleans()),
)
sides = st.lists(captures, min_size=1, max_size=3)


@given(sides, sides, st.sampled_from(["auto", "steps", "work"]))
@examples()
def test_ledger_difference_adds_up_and_mirrors_to_the_nanosecond(
    base: list[Summary], new: list[Summary], align: str
) -> None:
    there = compare(base, new, CompareOptions(align=align))
    back = compare(new, base, CompareOptions(align=align))
    check_exact(there, back)


def check_exact(there: Diff, back: Diff) -> None:
    assert sum(row.delta_ns for row in there.ledger) == there.delta_ns == there.new_ns - there.base_ns
    assert sum(row.base_ns for row in there.ledger) == there.base_ns == back.new_ns
    mirrored = {row.bucket: (row.new_ns, row.base_ns) for row in back.ledger}
    assert {row.bucket: (row.base_ns, row.new_ns) for row in there.ledger} == mirrored
    for difference in (there.kernels, there.operators, back.kernels, back.operators):
        assert all(row.count_ns + row.length_ns == row.delta_ns for row in difference.rows)


@given(st.dictionaries(st.text("ab", min_size=1, max_size=3), st.fractions(0, 1000, max_denominator=97), max_size=8))
@examples()
def test_whole_nanoseconds_add_up_to_the_rounded_sum_and_are_off_by_less_than_one(parts: dict[str, Fraction]) -> None:
    whole = whole_ns(parts)
    assert sum(whole.values()) == round(sum(parts.values(), Fraction(0)))
    assert all(abs(whole[name] - part) <= 1 for name, part in parts.items())


def test_a_bucket_on_one_side_counts_from_nothing() -> None:
    diff = compare([capture(waits_ms={"host.op": 10})], [capture(waits_ms={"host.io": 4})])
    assert {row.bucket: row.delta_ns for row in diff.ledger} == {
        "host.op": -10 * MS,
        "compute": 6 * MS,
        "host.io": 4 * MS,
    }


def named(**times: tuple[int, int]) -> dict[str, Named]:
    return {name: Named(name, "gemm", Fraction(count), Fraction(ns)) for name, (count, ns) in times.items()}


def test_a_change_is_more_launches_and_longer_launches() -> None:
    difference = named_difference(named(k=(10, 1000)), named(k=(12, 1800)))
    (row,) = difference.rows
    assert (row.state, row.delta_ns, row.count_ns, row.length_ns) == ("changed", 800, 200, 600)


def test_a_kernel_of_another_tile_and_architecture_is_renamed_and_another_one_added() -> None:
    base = {"volta_sgemm_128x64_nn": Named("volta_sgemm_128x64_nn", "gemm", Fraction(2), Fraction(100))}
    new = {
        "volta_sgemm_64x64_nn": Named("volta_sgemm_64x64_nn", "gemm", Fraction(2), Fraction(80)),
        "softmax": Named("softmax", "softmax", Fraction(1), Fraction(7)),
    }
    rows = {row.state: row for row in named_difference(base, new).rows}
    assert rows["renamed"].base_name == "volta_sgemm_128x64_nn"
    assert (rows["renamed"].delta_ns, rows["added"].count_ns) == (-20, 7)


def test_plain_names_leave_out_what_a_rebuild_changes() -> None:
    assert plain_name("void at::native::add<4, float>(int, float*)") == "at::native::add"
    assert plain_name("triton_poi_fused_add_3") == plain_name("triton_poi_fused_add_17")
    assert plain_name("ampere_sgemm_128x64_tn") == plain_name("ampere_sgemm_64x32_tn")
    assert plain_name("sm80_xmma_gemm") == plain_name("sm90_xmma_gemm")
    assert plain_name("softmax_forward") != plain_name("softmax_backward")


def test_windows_of_one_length_with_less_work_are_compared_by_work() -> None:
    base = capture((300,), kernels={"flash": (100, 120), "gemm": (50, 150)}, has_steps=False)
    new = capture((300,), kernels={"flash": (80, 96), "gemm": (40, 120)}, has_steps=False)
    diff = compare([base], [new])
    assert diff.alignment.kind == "work"
    assert (diff.base_ns, diff.new_ns) == (240 * MS, 300 * MS)
    assert diff.kernels.rows[0].delta_ns == 0


def test_kernels_that_disagree_on_the_work_forbid_a_verdict() -> None:
    base = capture((300,), kernels={"flash": (100, 100), "gemm": (50, 100)}, has_steps=False)
    new = capture((300,), kernels={"flash": (50, 100), "gemm": (50, 100)}, has_steps=False)
    diff = compare([base], [new])
    assert diff.judgement.verdict == "not comparable"
    assert [item.key for item in diff.blockers] == ["alignment"]
    accepted = compare([base], [new], CompareOptions(accepted=("alignment",)))
    assert accepted.judgement.verdict == "unsure"
