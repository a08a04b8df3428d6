"""The terminal report: what it says, that it adds up, and that it fits."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from report_diagnoses import (
    healthy,
    ledger,
    loader_finding,
    many_ranks,
    plan,
    precision_finding,
    quality_finding,
    sick,
    trace,
    without_gpu,
)

from traceanalyzer.diagnosis import Diagnosis, Outcome
from traceanalyzer.report import terminal
from traceanalyzer.report.ledger_bar import alike
from traceanalyzer.report.page import aligned

GOLDEN = Path(__file__).parent / "golden"


def report(diagnosis: Diagnosis, *, verbose: bool = False) -> str:
    """Print a diagnosis as a pipe gets it."""
    stream = io.StringIO()
    terminal.write(diagnosis, stream, verbose=verbose)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("name", "diagnosis"),
    [("sick", sick()), ("healthy", healthy()), ("many_ranks", many_ranks()), ("without_gpu", without_gpu())],
)
def test_report_reads_as_approved(name: str, diagnosis: Diagnosis, golden: bool) -> None:
    path = GOLDEN / f"report_{name}.txt"
    if golden:
        path.write_text(report(diagnosis), encoding="utf-8")
    assert report(diagnosis) == path.read_text(encoding="utf-8")


def test_healthy_run_takes_two_lines() -> None:
    assert len(report(healthy()).splitlines()) == 2


@pytest.mark.parametrize("width", [60, 80, 100, 120])
@pytest.mark.parametrize("diagnosis", [sick(), many_ranks(), without_gpu()])
def test_no_line_passes_the_width_but_for_snippets(
    width: int, diagnosis: Diagnosis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    snippets = {line.strip() for f in diagnosis.findings for fix in f.fixes for line in (fix.code or "").splitlines()}
    long = [line for line in report(diagnosis).splitlines() if len(line) > width and line.strip() not in snippets]
    assert long == []


def test_ledger_legend_adds_up_to_the_whole() -> None:
    shares = {f"host__{name}": 0.0333 for name in ("python", "op", "sync", "gc", "io", "lock", "alloc", "compile")}
    text = report(sick(ledgers=(ledger("a", 0, 0, dev__h2d=0.004, dev__d2h=0.003, **shares),)))
    legend = re.findall(r"^  \S .+?(\d+\.\d) %", text.split("Where the time goes")[1].split("\n\n")[0], re.MULTILINE)
    assert sum(round(float(share) * 10) for share in legend) == 1000


def test_colours_carry_the_bar_where_they_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in report(sick())


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[(?:\d+;)*(?:3|9)\d", report(sick()))


def test_quality_that_limits_trust_comes_before_the_ledger() -> None:
    text = report(sick())
    assert text.index("Step 0 takes 4.1 times") < text.index("Where the time goes")


def test_blocker_is_the_verdict() -> None:
    text = report(sick(findings=(quality_finding("blocker"), loader_finding())))
    assert text.splitlines()[1].startswith("This trace cannot be judged: the profiler's warm-up")


def test_waterfall_ends_where_marginals_lead() -> None:
    text = report(sick())
    now, last = re.search(r"now +(\S+) ms", text), re.search(r"  tensor-cores-unused +(\S+) ms", text)
    assert now is not None
    assert last is not None
    assert float(now[1]) - float(last[1]) == pytest.approx((355.9 + 88.0) / 6, abs=0.1)


def test_equal_ledgers_of_many_ranks_are_told_once() -> None:
    groups = alike(many_ranks().ledgers)
    assert [len(group.members) for group in groups] == [30, 2]


def test_ledgers_that_differ_stay_apart() -> None:
    assert len(alike([ledger(host__python=0.1), ledger("b", 1, host__python=0.2)])) == 2


def test_same_rule_in_two_places_tells_its_fix_once() -> None:
    assert report(many_ranks()).count("Load batches in worker processes") == 1


def test_low_findings_take_one_line_each() -> None:
    text = report(sick(findings=(loader_finding(), loader_finding(rule="small", severity="info", message="Tiny."))))
    assert "Also seen" in text
    assert "Tiny." in text


@pytest.mark.parametrize(
    ("low_ms", "high_ms", "told"),
    [
        (59.0, 59.5, "about the same in every step"),
        (30.0, 80.0, "30.00 ms to 80.00 ms in 8 of 10 steps"),
        (1.0, 2.0, ""),
    ],
    ids=["even", "uneven", "mostly hidden today"],
)
def test_what_a_finding_takes_by_step_is_told_where_it_is_what_it_saves(
    low_ms: float, high_ms: float, told: str
) -> None:
    spread = {"step_p10_ns": round(low_ms * 1e6), "step_p90_ns": round(high_ms * 1e6), "step_hits": 6, "step_count": 6}
    text = " ".join(report(sick(findings=(loader_finding(**spread),))).split())
    ways = {"about the same in every step", "in 8 of 10 steps"}
    assert {way for way in ways if way in text} == {way for way in ways if way in told}
    assert told in text


def test_a_single_step_is_called_that() -> None:
    import dataclasses

    single = dataclasses.replace(ledger(host__python=0.3), step_count=1)
    assert "of the one step" in report(sick(ledgers=(single,)))


def test_the_name_of_a_reason_for_programs_is_not_printed() -> None:
    import dataclasses

    blind = dataclasses.replace(sick().outcomes[-1], state="abstained", reason="untrusted", detail="low-link-rate: 4 %")
    text = report(sick(outcomes=(blind,)))
    assert "  - 4 %" in text
    assert "low-link-rate" not in text


def test_sick_verdict_never_sums_bounds() -> None:
    both = (loader_finding(marginal_ns=0), precision_finding())
    assert "41.7" not in report(sick(findings=both)).splitlines()[1]


def test_names_with_markup_and_control_characters_are_printed_as_they_are() -> None:
    text = report(sick(findings=(loader_finding(message="void f[bold](int)[/] :smile: \x1b[31mred"),)))
    assert "void f[bold](int)[/] :smile:" in text
    assert "\x1b" not in text


def test_run_without_steps_speaks_of_the_whole() -> None:
    import dataclasses

    bare = dataclasses.replace(ledger(host__python=0.3), step_count=0, step_source=None)
    whole = dataclasses.replace(plan(), step_count=0)
    text = report(sick(ledgers=(bare,), findings=(loader_finding(),), plans=(whole,)))
    assert "a step" not in text
    assert "no steps" in text


def test_unknown_rank_is_not_invented() -> None:
    nameless = {"traces": (trace("a", rank=None),), "ledgers": (ledger("a", rank=None, host__python=0.3),)}
    text = report(sick(findings=(), **nameless))
    assert "rank" not in text.split("could not look")[0]


@pytest.mark.parametrize(
    ("count", "told"), [(5, "and 1 more reason; -v lists it"), (6, "and 2 more reasons; -v lists")]
)
def test_reasons_that_are_left_out_are_counted(count: int, told: str) -> None:
    blind = [Outcome(f"rule-{i}", "…", "abstained", "a", 0, 0, "missing", f"{'no ' * i}data") for i in range(count)]
    assert told in report(sick(outcomes=tuple(blind)))


def test_compute_leads_the_legend_even_where_there_is_next_to_none() -> None:
    text = report(sick(ledgers=(ledger("a", 0, 0, host__python=0.999),)))
    legend = text.split("Where the time goes")[1].splitlines()[2:4]
    assert "GPU computes" in legend[0]
    assert "Python" in legend[1]


def test_verdict_counts_the_fixes_that_the_order_tells() -> None:
    import dataclasses

    from traceanalyzer.diagnosis import PlannedFix

    third = PlannedFix("small", "alternative", round(8.8 * 1e6), 0, ("dataloader-bound",))
    three = dataclasses.replace(plan(), fixes=(*plan().fixes, third))
    small = loader_finding(rule="small", status="alternative", alternatives=("dataloader-bound",), marginal_order=3)
    findings = (loader_finding(), precision_finding(), small)
    assert "all 3 fixes together up to 42.5 %" in " ".join(report(sick(findings=findings, plans=(three,))).split())


def test_of_two_recordings_the_first_findings_order_is_told() -> None:
    import dataclasses

    other = dataclasses.replace(plan(), trace="rank1.json.gz", rank=1, fixes=plan().fixes[:1])
    assert "both fixes together up to 41.7 %" in report(sick(plans=(other, plan())))


@pytest.mark.parametrize(
    ("saving_share", "told"),
    [(0.32, "instead of dataloader-bound: they win mostly the same time"), (0.1, "needless after dataloader-bound")],
    ids=["equal", "smaller"],
)
def test_a_smaller_fix_is_not_told_to_be_enough(saving_share: float, told: str) -> None:
    rival = precision_finding()
    rival = loader_finding(
        rule=rival.rule, status="alternative", saving_share=saving_share, alternatives=("dataloader-bound",)
    )
    assert told in " ".join(report(sick(findings=(loader_finding(), rival))).split())


@pytest.mark.parametrize(
    ("saving_share", "told"),
    [
        (0.32, "or tensor-cores-unused, which wins mostly the same time"),
        (0.1, "covers tensor-cores-unused: what that would win is mostly won by this"),
    ],
    ids=["equal", "smaller"],
)
def test_a_fix_names_as_its_equal_only_what_wins_as_much(saving_share: float, told: str) -> None:
    rival = loader_finding(
        rule="tensor-cores-unused", status="alternative", saving_share=saving_share, alternatives=("dataloader-bound",)
    )
    first = loader_finding(alternatives=("tensor-cores-unused",))
    assert told in " ".join(report(sick(findings=(first, rival))).split())


def test_what_there_is_to_know_of_a_step_of_the_waterfall_is_never_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    import dataclasses

    from traceanalyzer.diagnosis import PlannedFix

    monkeypatch.setenv("COLUMNS", "70")
    third = PlannedFix("small", "alternative", round(8.8 * 1e6), 0, ("dataloader-bound",))
    text = report(sick(plans=(dataclasses.replace(plan(), fixes=(*plan().fixes, third)),)))
    waterfall = text.split("Fixed one after the other")[1].split("\n\n")[0]
    assert "…" not in waterfall
    assert "wins mostly the same time as dataloader-bound" in " ".join(waterfall.split())


def test_processes_of_one_export_stay_apart_in_a_narrow_table() -> None:
    cells = [(f"a_training_run_of_two_ranks.sqlite#pid{pid}", "1") for pid in (144, 145)]
    assert aligned(("trace", "rank"), cells, room=20)[1:] == ["…sqlite#pid144  1", "…sqlite#pid145  1"]


def test_verdict_without_findings_names_what_takes_most() -> None:
    text = " ".join(report(sick(findings=(), plans=())).split())
    assert "found the reason for the rest, mostly “waits for the CPU in Python” (7.1 %)." in text


def test_unexplained_shares_read_as_in_the_ledger() -> None:
    alone = ledger(host__python=0.55254, host__op=0.10254, dev__h2d=0.10254)
    waits = tuple(item for item in alone.buckets if item[0] != "compute")
    text = report(sick(ledgers=(alone,), findings=(), plans=(), not_explained=waits))
    shares = dict(re.findall(r"^  [▒░▓] (.+?)  .+?(\S+) %  ", text, re.MULTILINE))
    unexplained = " ".join(text.split("Not explained by any rule")[1].split("\n\n")[0].split())
    told = dict(re.findall(r"(\w[\w ]+?) (\d+\.\d) %", unexplained.partition("of the time ")[2]))
    assert len(shares) == 3
    assert shares.items() <= told.items()


def test_the_verdict_reads_as_the_ledger_where_shares_are_rounded_to_add_up() -> None:
    # One by one these are 50.1, 33.1, 14.9 and 1.8 %, which is 99.9 %.
    alone = ledger(host__other=0.33144, dev__unresolved=0.1492, host__launch_api=0.0179)
    waits = tuple(item for item in alone.buckets if item[0] != "compute")
    text = " ".join(report(sick(ledgers=(alone,), findings=(), plans=(), not_explained=waits)).split())
    assert "mostly “waits for the host, cause unknown” (33.2 %)" in text
    assert "33.2 % host.other" in text


def test_a_finding_on_one_of_several_devices_names_it() -> None:
    import dataclasses

    devices = (ledger(host__python=0.1), ledger(device=1, host__python=0.3))
    found = dataclasses.replace(quality_finding(), device=1)
    assert "warning  device 1: Step 0 takes" in report(sick(ledgers=devices, findings=(found,), plans=()))
    both = dataclasses.replace(found, same_on_devices=(0, 1))
    assert "warning  devices 0, 1: Step 0 takes" in report(sick(ledgers=devices, findings=(both,), plans=()))


@pytest.mark.parametrize("width", range(60, 80))
def test_a_number_and_its_unit_stay_on_one_line(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    text = report(sick(findings=(loader_finding(message="it takes 12 ms of 90 % in 4.5 GB/s " * 9),), plans=()))
    assert not re.search(r"\d\n +(?:ms|%|GB/s)", text)
    assert "\N{NO-BREAK SPACE}" not in text


@pytest.mark.parametrize(
    ("format_", "share", "advice"),
    [("nsys", 0.1, "NVTX ranges"), ("kineto", 0.1, "ProfilerActivity.CPU"), ("nsys", 0.04, None)],
)
def test_unexplained_time_of_the_host_says_what_would_show_it(format_: str, share: float, advice: str | None) -> None:
    import dataclasses

    alone = ledger(host__op=0.2, host__other=share)
    traces = (dataclasses.replace(trace(), format=format_),)
    unexplained = sick(traces=traces, ledgers=(alone,), findings=(), plans=(), not_explained=alone.buckets[1:])
    text = " ".join(report(unexplained).split())
    assert ("What the host did there was not recorded" in text) == (advice is not None)
    assert (advice or "") in text
