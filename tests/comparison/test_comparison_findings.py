"""What became of findings, of promises, and what else differs."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from drawn_summaries import FINGERPRINT, MS, capture, finding

from traceanalyzer.comparison.comparing import Diff, compare
from traceanalyzer.comparison.summary import CompareOptions, DeviceTimes, RunTimes, Summary

LOADER = finding()


def states(diff: Diff) -> dict[str, str]:
    return {item.rule: item.state for item in diff.findings}


def test_only_a_rule_that_looked_and_found_nothing_is_gone() -> None:
    base = [capture(findings=[LOADER])]
    after = {
        "gone": capture(outcomes={"dataloader-bound": "clear"}),
        "not looked": capture(outcomes={"dataloader-bound": "abstained"}),
        "in the noise": capture(outcomes={"dataloader-bound": "clear"}, below_noise={"dataloader-bound": 0.03}),
        "hidden": capture(findings=[replace(LOADER, status="suppressed")]),
        "same": capture(findings=[replace(LOADER, saving_share=0.21)]),
        "more": capture(findings=[replace(LOADER, saving_share=0.3)]),
        "less": capture(findings=[replace(LOADER, saving_share=0.1)]),
    }
    for state, new in after.items():
        assert states(compare(base, [new])) == {"dataloader-bound": state}


def test_a_rule_that_abstains_on_both_sides_has_no_row() -> None:
    assert compare([capture()], [capture(outcomes={"launch-bound": "abstained"})]).findings == ()


def test_a_latent_finding_is_hidden_while_others_come_before_it() -> None:
    latent = finding("tensor-cores-unused", status="latent")
    still_behind = capture(findings=[LOADER], outcomes={"tensor-cores-unused": "clear"})
    nothing_ahead = capture(outcomes={"tensor-cores-unused": "clear"})
    assert states(compare([capture(findings=[latent])], [still_behind]))["tensor-cores-unused"] == "hidden"
    assert states(compare([capture(findings=[latent])], [nothing_ahead]))["tensor-cores-unused"] == "gone"


def test_a_new_finding_says_whether_the_base_could_have_shown_it() -> None:
    new = [capture(findings=[LOADER])]
    (looked,) = compare([capture(outcomes={"dataloader-bound": "clear"})], new).findings
    (blind,) = compare([capture(outcomes={"dataloader-bound": "abstained"})], new).findings
    assert (looked.state, looked.is_looked_for) == ("new", True)
    assert (blind.state, blind.is_looked_for, blind.note) == ("new", False, "not looked for before")


def test_a_finding_in_fewer_than_half_the_captures_of_a_side_is_not_there() -> None:
    base = [capture(findings=[LOADER]), capture(), capture()]
    assert compare(base, [capture()]).findings == ()


def test_a_promise_stands_beside_what_was_saved_and_what_limits_now() -> None:
    launch = finding("launch-bound", 0.1)
    base = [capture((100.0,) * 4, waits_ms={"host.dataloader": 20}, findings=[LOADER, launch])]
    new = [capture((82.0,) * 4, findings=[launch], outcomes={"dataloader-bound": "clear"})]
    found = compare(base, new).verification
    assert found is not None
    assert [(item.rule, item.bound_ns) for item in found.promises] == [("dataloader-bound", 20 * MS)]
    assert (found.together_ns, found.saved_ns, found.ratio) == (20 * MS, 18 * MS, 0.9)
    assert (found.limits_now, found.limits_now_share) == ("launch-bound holds", 0.1)


def test_promises_of_overlapping_fixes_are_no_more_than_their_plan() -> None:
    findings = [finding("dataloader-bound", 0.3), finding("sync-in-step", 0.25)]
    base = [capture(findings=findings, joint_saving_ns=140 * MS)]
    found = compare(base, [capture((70.0,) * 4, outcomes=dict.fromkeys(("dataloader-bound", "sync-in-step"), "clear"))])
    assert found.verification is not None
    assert found.verification.together_ns == 35 * MS


def test_without_a_finding_that_is_gone_nothing_is_verified() -> None:
    assert compare([capture(findings=[LOADER])], [capture(findings=[LOADER])]).verification is None


def test_what_else_differs_is_named_beside_the_verdict() -> None:
    other = capture(fingerprint={**FINGERPRINT, "gpu": ("NVIDIA A100",), "records_stacks": True})
    diff = compare([capture()], [other])
    assert [(item.key, item.base, item.new, item.blocks) for item in diff.confounders] == [
        ("gpu", "NVIDIA H100 80GB HBM3", "NVIDIA A100", False),
        ("records_stacks", "not recorded", "yes", False),
    ]
    assert diff.judgement.verdict != "not comparable"


def test_two_devices_of_one_memory_size_are_alike() -> None:
    sizes = [34_079_899_648, 34_089_730_048, 85_000_000_000]
    one, alike, other = (capture(fingerprint={**FINGERPRINT, "memory_bytes": size}) for size in sizes)
    assert compare([one], [alike]).confounders == ()
    (found,) = compare([one], [other]).confounders
    assert (found.key, found.base, found.new) == ("memory_bytes", "31.7 GiB", "79.2 GiB")


def test_more_launches_a_step_are_named() -> None:
    diff = compare([capture(kernels={"k": (400, 80)})], [capture(kernels={"k": (480, 80)})])
    assert [(item.key, item.base, item.new) for item in diff.confounders] == [
        ("launches", "100 kernels a step", "120 kernels a step")
    ]


def test_a_blocked_side_another_mode_and_other_kernels_forbid_a_verdict() -> None:
    cases = {
        "blocked": capture(blocked="Most events were removed (tq-thinned)"),
        "mode": capture(fingerprint={**FINGERPRINT, "mode": ("inference",)}),
        "kernels": capture(kernels={"another": (10, 80)}),
        "gpu-work": capture(time_of="host"),
    }
    for key, new in cases.items():
        diff = compare([capture((99.0,) * 4)], [new])
        assert diff.judgement.verdict == "not comparable", key
        assert key in [item.key for item in diff.blockers]
        assert diff.ledger
        accepted = compare([capture((99.0,) * 4)], [new], CompareOptions(accepted=(key,)))
        assert accepted.judgement.verdict != "not comparable", key


def test_kernels_of_another_vendor_have_other_names() -> None:
    amd = capture(fingerprint={**FINGERPRINT, "vendor": ("amd",)}, kernels={"Cijk_Ailk": (10, 80)})
    assert "kernels" not in [item.key for item in compare([capture()], [amd]).confounders]


def test_asking_for_steps_that_a_side_does_not_have_forbids_a_verdict() -> None:
    diff = compare([capture((300,), has_steps=False)], [capture()], CompareOptions(align="steps"))
    assert (diff.judgement.verdict, diff.judgement.because) == ("not comparable", "a side has no steps")


def on_ranks(*steps_ms: float, run: bool = False, **changed: Any) -> Summary:
    devices = tuple(
        DeviceTimes(rank, 0, round(ms * 4 * MS), 4, (round(ms * MS),) * 4, {"compute": round(ms * 4 * MS)})
        for rank, ms in enumerate(steps_ms)
    )
    slowest = round(max(steps_ms) * 4 * MS)
    ledger = RunTimes(slowest, 4, {"compute": slowest - 8 * MS, "dev.comm_transfer": 8 * MS}) if run else None
    return capture(devices=devices, run=ledger, **changed)


def test_ranks_are_matched_and_the_slowest_is_compared_with_the_slowest() -> None:
    diff = compare([on_ranks(100, 110)], [on_ranks(102, 90)])
    assert (diff.base_ns, diff.new_ns) == (110 * MS, 102 * MS)
    assert (diff.base[0].place, diff.new[0].place) == ("rank 1 device 0", "rank 0 device 0")
    assert diff.ranks is not None
    assert [(row.place, row.base_ns, row.new_ns) for row in diff.ranks.rows] == [
        ("rank 1 device 0", 110 * MS, 90 * MS),
        ("rank 0 device 0", 100 * MS, 102 * MS),
    ]
    assert (round(diff.ranks.base_spread_share, 9), diff.ranks.weak_efficiency) == (0.1, None)


def test_the_runs_ledger_is_compared_where_ranks_wait_for_each_other() -> None:
    diff = compare([on_ranks(100, 110, run=True)], [on_ranks(100, 112, run=True)])
    assert diff.base[0].place == "the run"
    assert {row.bucket: row.delta_ns for row in diff.ledger} == {"compute": 2 * MS, "dev.comm_transfer": 0}


def test_one_rank_can_be_compared_alone() -> None:
    diff = compare([on_ranks(100, 110, run=True)], [on_ranks(90, 112, run=True)], CompareOptions(rank=0))
    assert (diff.base_ns, diff.new_ns) == (100 * MS, 90 * MS)


def test_ranks_are_matched_by_their_role_whatever_the_numbers_of_their_devices() -> None:
    base = on_ranks(100, 110)
    moved = [replace(device, device=(device.device or 0) + 4) for device in on_ranks(102, 90).devices]
    ranks = compare([base], [replace(base, devices=tuple(moved))]).ranks
    assert ranks is not None and ranks.weak_efficiency is None
    assert [(row.place, row.base_ns, row.new_ns) for row in ranks.rows] == [
        ("rank 1 device 4", 110 * MS, 90 * MS),
        ("rank 0 device 4", 100 * MS, 102 * MS),
    ]


def test_a_side_of_one_device_has_no_spread_and_other_programs_have_no_scaling_efficiency() -> None:
    base = on_ranks(100, 110, kernels={"dlrm": (40, 80.0)})
    diff = compare([base], [on_ranks(350, kernels={"resnet": (40, 300.0)})])
    assert diff.judgement.verdict == "not comparable"
    assert diff.ranks is not None
    assert (diff.ranks.weak_efficiency, diff.ranks.strong_efficiency) == (None, None)
    text = str(diff)
    assert "scaling efficiency" not in text
    assert re.search(r"slowest over fastest +\+10.0 % +–", text)


def test_another_number_of_ranks_is_told_with_its_scaling_efficiency() -> None:
    base = on_ranks(100, 100, fingerprint={**FINGERPRINT, "world_size": 2, "rank_count": 2})
    new = on_ranks(*(110.0,) * 4, fingerprint={**FINGERPRINT, "world_size": 4, "rank_count": 4})
    diff = compare([base], [new])
    assert [item.key for item in diff.confounders] == ["world_size"]
    assert diff.ranks is not None
    assert (diff.ranks.base_count, diff.ranks.new_count, diff.ranks.rows) == (2, 4, ())
    assert round(diff.ranks.weak_efficiency or 0, 4) == 0.9091
    assert round(diff.ranks.strong_efficiency or 0, 4) == 0.4545
