"""Findings that are alike on several ranks or devices are told once, with what differs as a range."""

from __future__ import annotations

from dataclasses import replace

import pytest
from faultbench.examining import examine
from faultbench.uncommon import UNCOMMON
from report_diagnoses import loader_finding

from traceanalyzer.diagnosis import Finding
from traceanalyzer.rules.diagnosis.findings import merge_ranks, ranged


def _untimed(message: str, rank: int, device: int = 0, trace: str | None = None) -> Finding:
    alike = replace(loader_finding(), message=message, saving_ns=None, saving_share=None)
    return replace(alike, trace=trace or f"rank{rank}.json", rank=rank, device=device)


def test_findings_that_differ_in_numbers_are_told_once_with_ranges() -> None:
    messages = ("About 3.5 % of 1,200 are there", "About 3.6 % of 1,200 are there")
    (merged,) = merge_ranks([_untimed(message, rank) for rank, message in enumerate(messages)])
    assert merged.message == "About 3.5–3.6 % of 1,200 are there"
    assert merged.same_on_ranks == (0, 1)


def test_findings_that_differ_in_words_stay_apart() -> None:
    assert len(merge_ranks([_untimed("seen in rank0.json", 0), _untimed("seen in rank1.json", 1)])) == 2


def test_findings_of_devices_of_one_process_are_told_once() -> None:
    (merged,) = merge_ranks([_untimed("one module", 0, device, "one.json") for device in range(3)])
    assert merged.same_on_devices == (0, 1, 2)
    assert (merged.same_on_ranks, merged.same_on_traces) == ((), ())


def test_findings_of_one_fix_are_told_once_where_they_are_about_as_grave() -> None:
    worst = replace(loader_finding(), rank=0, trace="rank0.json", saving_share=0.18, run_saving_ns=7, severity="high")
    other = replace(worst, rank=1, trace="rank1.json", saving_share=0.13)
    (merged,) = merge_ranks([other, worst])
    assert (merged.rank, merged.same_on_ranks, merged.saving_share) == (0, (0, 1), 0.18)
    assert len(merge_ranks([worst, replace(other, severity="medium")])) == 1
    assert len(merge_ranks([worst, replace(other, severity="low")])) == 2
    assert len(merge_ranks([worst, replace(other, severity="medium", run_saving_ns=None)])) == 2
    assert len(merge_ranks([worst, replace(other, run_saving_ns=6)])) == 2


def test_ranges_go_from_the_least_to_the_largest_number() -> None:
    assert ranged(["9 of 10 on H200", "1,000 of 10 on H200", "10 of 10 on H200"]) == "9–1,000 of 10 on H200"


@pytest.mark.check
def test_data_parallel_in_one_process_is_told_once_for_all_devices() -> None:
    fault = next(fault for fault in UNCOMMON if fault.number == "U14")
    told = {item.rule: item.same_on_devices for item in examine(fault.scenario, "tables").findings}
    assert told["dataparallel-used"] == (0, 1, 2, 3)
