"""The terminal report: what it says, that it adds up, and that it fits."""

from __future__ import annotations

import dataclasses
import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

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

from traceanalyzer.diagnosis import Diagnosis, Fix, FixPlan, KernelClass, LateBegin, Outcome, PlannedFix, RunLedger
from traceanalyzer.diagnosis.shares import shares_words
from traceanalyzer.diagnosis.verdict import judge
from traceanalyzer.report import formats
from traceanalyzer.report.brief import brief_lines, summary_lines
from traceanalyzer.report.diagnosis_blocks import plan_fixes
from traceanalyzer.report.diagnosis_blocks.findings import other_place_words
from traceanalyzer.report.diagnosis_blocks.ledgers import alike, classes_words
from traceanalyzer.report.renderers.page import Page, aligned

MS = 1_000_000
GOLDEN = Path(__file__).parents[1] / "golden"


def report(diagnosis: Diagnosis, output: str = "terminal", *, verbose: bool = False) -> str:
    """Print a diagnosis as a pipe gets it."""
    stream = io.StringIO()
    formats.write_diagnosis(diagnosis, output, stream, verbose=verbose)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("name", "diagnosis"),
    [
        ("sick", sick()),
        ("sick_verbose", sick()),
        ("healthy", healthy()),
        ("many_ranks", many_ranks()),
        ("without_gpu", without_gpu()),
    ],
)
def test_report_reads_as_approved(name: str, diagnosis: Diagnosis, golden: bool) -> None:
    path = GOLDEN / f"report_{name}.txt"
    text = report(diagnosis, verbose=name.endswith("_verbose"))
    if golden:
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_a_healthy_run_takes_two_lines_and_five_for_what_it_computes() -> None:
    assert len(report(healthy()).splitlines()) == 7


def busy(**changes: object) -> str:
    """Return the headline of the healthy run whose ledger differs in something."""
    ledgers = (dataclasses.replace(healthy().ledgers[0], **changes),)  # type: ignore[arg-type]
    text = report(dataclasses.replace(healthy(), ledgers=ledgers))
    return " ".join(text.split("What the GPU computes")[0].split())


def test_a_busy_run_is_healthy_only_where_rules_could_judge_its_kernels() -> None:
    assert busy().startswith("run42 Healthy: ")
    assert busy(unjudged_share=0.4).startswith("run42 Healthy: ")
    assert busy(unjudged_share=0.6) == (
        "run42 GPU busy with compute 97.5 % of each step and no rule found an issue; the kernels were not "
        "judged, as 60.0 % of their time is in kernels that no rule knows."
    )
    assert busy(peaks_known=False).endswith("not compared with the device, whose peak rates are not known.")


@pytest.mark.parametrize("changes", [{"peaks_known": False}, {"unjudged_share": 1.0}])
def test_a_busy_run_that_nobody_could_judge_keeps_its_state(changes: dict[str, Any]) -> None:
    diagnosis = dataclasses.replace(healthy(), ledgers=(dataclasses.replace(healthy().ledgers[0], **changes),))
    assert judge(diagnosis).state == "healthy"


@pytest.mark.parametrize(("marked_ms", "said"), [(160.0, False), (220.0, True), (170.0, False), (190.0, False)])
def test_the_headline_has_both_times_of_a_step_where_the_marked_one_is_longer(marked_ms: float, said: bool) -> None:
    words = f"of each step (177.6 ms on the device; the program marks {marked_ms:.1f} ms)"
    assert (words in busy(marked_step_ns=round(marked_ms * 1e6))) == said


def test_steps_that_the_program_does_not_mark_have_one_time() -> None:
    assert "marks" not in busy(marked_step_ns=None)
    assert "marks" not in busy(marked_step_ns=1, step_count=0)


def test_of_several_devices_the_slowest_says_what_it_computes() -> None:
    assert report(many_ranks()).count("What the GPU computes") == 1
    assert "rank 0, device 0: conv 60 %" in report(many_ranks())
    assert report(many_ranks(), verbose=True).count("What the GPU computes") == 32


def test_a_report_with_many_findings_shows_fewer_kernels() -> None:
    many = (loader_finding(),) * 3
    assert "CUDAFunctor_add" in report(sick(findings=many))
    assert "CUDAFunctor_add" not in report(sick(findings=(*many, precision_finding())))


def test_kernels_of_no_known_class_are_not_called_other() -> None:
    same = dataclasses.replace(ledger(), kernel_classes=(KernelClass("other", 997, 0.997, 9),))
    assert "no known class, such as a program's own" in classes_words(same)
    mixed = (KernelClass("other", 90, 0.9, 9), KernelClass("gemm", 10, 0.1, 1))
    assert classes_words(dataclasses.replace(same, kernel_classes=mixed)) == "other 90 %, gemm 10 % of kernel time"


def test_a_device_without_compute_kernels_says_nothing_of_them() -> None:
    idle = dataclasses.replace(sick().ledgers[0], kernel_classes=(), top_kernels=())
    assert "What the GPU computes" not in report(sick(ledgers=(idle,)))


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


def test_a_bucket_has_one_share_in_the_legend_the_page_and_the_summary() -> None:
    """With the small shares as one row, rounding the third share up would make the sum right."""
    small = {f"host__{name}": 0.0952 / 100 for name in ("gc", "io", "lock", "alloc", "compile", "preprocess", "offcpu")}
    one = ledger("a", 0, 0, host__sync=0.08305, host__python=0.03137, dev__h2d=0.0033, dev__d2h=0.0033, **small)
    every = shares_words(one, every=True)
    short = shares_words(one)
    assert {bucket: every[bucket] for bucket in short if bucket in every} == {
        b: s for b, s in short.items() if b in every
    }
    assert sum(round(10 * float(share.removesuffix(" %"))) for share in short.values()) == 1000
    (summary,) = [line for line in summary_lines(sick(ledgers=(one,))) if line.startswith("time: ")]
    assert f"CPU-bound: Python {every['host.python']}" in summary


def test_a_large_share_reads_as_it_rounds_and_small_ones_take_up_the_rest() -> None:
    """A copy of 29.94 % is 29.9 % beside a saving of 29.9 %, however many small buckets round down."""
    small = {f"host__{name}": 0.0104 / 100 for name in ("gc", "io", "lock", "alloc", "compile")}
    one = ledger(
        "a", 0, 0, dev__d2h=0.2994, dev__h2d=0.4542, host__module_load=0.1877, host__launch_api=0.0498, **small
    )
    for every in (False, True):
        shares = shares_words(one, every=every)
        assert [shares[bucket] for bucket in ("dev.h2d", "dev.d2h", "host.module_load")] == [
            "45.4 %",
            "29.9 %",
            "18.8 %",
        ]
        assert sum(round(10 * float(share.lstrip("<").removesuffix(" %"))) for share in shares.values()) <= 1005


def run_of_ranks(late: LateBegin | None) -> Diagnosis:
    """Two ranks; the run's path begins 30 of 100 ms after its window does."""
    path = RunLedger(100 * MS, 1, (("compute", 70 * MS), ("edge.head", 30 * MS)), ((7, 90 * MS), (1, 10 * MS)))
    ledgers = (ledger("a", 1, 0, host__op=0.3), ledger("b", 7, 0, host__op=0.1))
    return sick(ledgers=ledgers, run_ledger=dataclasses.replace(path, late_begin=late))


def test_the_rank_that_begins_late_is_named_with_the_time_that_the_others_wait() -> None:
    late = run_of_ranks(LateBegin(7, 1, 30 * MS))
    text = " ".join(report(late).split())
    assert "rank 7 begins 30.00 ms after rank 1, and is waited for" in text
    assert "before rank 7 begins 30.00 ms 30.0 %" in text and "before the first compute kernel" not in text
    assert any("before rank 7 begins 30.0 %" in line for line in summary_lines(late))
    assert "before rank 7 begins" in report(late, output="html")


@pytest.mark.parametrize("late", [None, LateBegin(None, 1, 30 * MS), LateBegin(7, 1, 20 * MS)])
def test_time_before_the_first_kernel_that_is_not_a_late_begin_keeps_its_words(late: LateBegin | None) -> None:
    text = report(run_of_ranks(late))
    assert "before the first compute kernel" in text and "begins" not in text.split("Cumulative")[0]


def test_colours_carry_the_bar_where_they_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in report(sick())


def test_a_bucket_has_one_colour_in_all_bars_of_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    first = ledger(host__python=0.3, host__op=0.2)
    second = ledger(device=1, host__op=0.3, host__gc=0.1, host__python=0.1)
    text = report(sick(ledgers=(first, second), findings=(), plans=()), verbose=True)
    colors = re.findall(r"(\x1b\[[\d;]+m)█\x1b\[0m CPU-bound: Python", text)
    assert len(colors) == 2
    assert len(set(colors)) == 1


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


def test_devices_that_differ_from_the_slowest_take_a_line_each() -> None:
    text = report(many_ranks())
    assert text.count("Where the time goes") == 1
    assert re.search(r"rank 11, devices 0, 1 +177\.6 ms +79\.0 %  CPU-bound: Python 20\.0 %", text)


def test_what_pays_only_after_other_fixes_waits_with_its_evidence() -> None:
    latent = loader_finding(rule="later", status="latent")
    assert "Longest waits" in report(sick(findings=(loader_finding(),)))
    assert "Longest waits" not in report(sick(findings=(latent,)))
    assert "Longest waits" in report(sick(findings=(latent,)), verbose=True)


def test_a_finding_that_no_real_trace_has_shown_says_so() -> None:
    assert "experimental" not in report(sick(findings=(loader_finding(),)))
    assert "experimental" in report(sick(findings=(loader_finding(is_experimental=True),)))


def test_equal_ledgers_of_many_ranks_are_told_once() -> None:
    groups = alike(many_ranks().ledgers)
    assert [len(group.members) for group in groups] == [30, 2]


def test_ledgers_that_differ_stay_apart() -> None:
    assert len(alike([ledger(host__python=0.1), ledger("b", 1, host__python=0.2)])) == 2


def test_same_rule_in_two_places_tells_its_fix_once() -> None:
    assert report(many_ranks()).count("Load batches in worker processes") == 1


def test_places_and_fixes_that_are_left_out_are_counted() -> None:
    found = loader_finding(fixes=loader_finding().fixes * 3)
    elsewhere = [loader_finding(rank=rank, trace=f"rank{rank}.json.gz") for rank in range(1, 5)]
    run = dataclasses.replace(many_ranks(), findings=(found, *elsewhere))
    text = " ".join(report(run).split())
    assert text.count("also only rank") == 2
    assert "-v adds definitions, 2 more fixes, 2 more places and what to record." in text


def test_another_place_says_which_fix_has_to_come_before() -> None:
    later = loader_finding(status="latent", rank=1, trace="rank1.json.gz", saving_share=0.334)
    plan = FixPlan("rank1.json.gz", 1, 0, 1000, 6, (PlannedFix(later.rule, "latent", 334, 600, after=("one", "two")),))
    run = dataclasses.replace(many_ranks(), findings=(loader_finding(), later))
    planned = dataclasses.replace(run, plans=(plan,))
    assert other_place_words(planned, later) == "only rank 1, device 0: up to −33.4 % once one and two are fixed"
    assert other_place_words(run, later) == "only rank 1, device 0: up to −33.4 % after other fixes"


def test_another_place_says_what_covers_its_saving() -> None:
    other = loader_finding(status="alternative", rank=1, trace="rank1.json.gz", alternatives=("b",), saving_share=0.2)
    run = dataclasses.replace(many_ranks(), findings=(loader_finding(rule="b"), other))
    assert other_place_words(run, other) == "only rank 1, device 0: up to −20.0 %, already covered by b"


def test_a_harmless_finding_of_a_rule_that_is_loud_elsewhere_is_shown() -> None:
    quiet = loader_finding(severity="info", rank=1, trace="rank1.json.gz", message="Tiny.")
    assert "Tiny." in report(dataclasses.replace(many_ranks(), findings=(loader_finding(), quiet)))


def test_low_findings_take_one_line_each() -> None:
    text = report(sick(findings=(loader_finding(), loader_finding(rule="small", severity="info", message="Tiny."))))
    assert "Minor findings" in text
    assert "Tiny." in text


@pytest.mark.parametrize(
    ("low_ms", "high_ms", "told"),
    [
        (59.0, 59.5, "about the same in every step"),
        (30.0, 80.0, "30.00 ms to 80.00 ms in 80 % of the steps"),
        (1.0, 2.0, ""),
    ],
    ids=["even", "uneven", "mostly hidden today"],
)
def test_what_a_finding_takes_by_step_is_told_where_it_is_what_it_saves(
    low_ms: float, high_ms: float, told: str
) -> None:
    spread = {"step_p10_ns": round(low_ms * 1e6), "step_p90_ns": round(high_ms * 1e6), "step_hits": 6, "step_count": 6}
    text = " ".join(report(sick(findings=(loader_finding(**spread),))).split())
    ways = {"about the same in every step", "in 80 % of the steps"}
    assert {way for way in ways if way in text} == {way for way in ways if way in told}
    assert told in text


def test_a_single_step_is_called_that() -> None:
    single = dataclasses.replace(ledger(host__python=0.3), step_count=1)
    assert "of the one step" in report(sick(ledgers=(single,)))


def test_the_name_of_a_reason_for_programs_is_not_printed() -> None:
    blind = dataclasses.replace(sick().outcomes[-1], state="abstained", reason="untrusted", detail="low-link-rate: 4 %")
    text = report(sick(outcomes=(blind,)), verbose=True)
    assert "  - 4 %" in text
    assert "low-link-rate" not in text


def test_sick_verdict_never_sums_bounds() -> None:
    both = (loader_finding(marginal_ns=0), precision_finding())
    assert "41.7" not in report(sick(findings=both)).splitlines()[1]


def test_sick_verdict_names_a_graver_problem_of_unknown_saving_first() -> None:
    unknown = {"saving_ns": None, "saving_share": None, "marginal_ns": None, "marginal_order": None}
    grave = loader_finding(rule="dominant-kernel", title="One kernel takes much of the time", **unknown)
    slight = dataclasses.replace(grave, severity="low")
    with_grave = " ".join(report(sick(findings=(precision_finding(), grave))).split())
    assert "One kernel takes much of the time. Matmuls run in full precision" in with_grave
    assert "time. Matmuls run" not in " ".join(report(sick(findings=(precision_finding(), slight))).split())


def test_the_headline_promises_no_faster_program_where_another_recording_is_the_fix() -> None:
    again = (Fix("Record steady state. Skip the first steps.", effort="recording"),)
    findings = tuple(dataclasses.replace(finding, fixes=again) for finding in sick().findings)
    sentence = judge(dataclasses.replace(sick(), findings=findings)).sentence
    assert sentence.endswith("The GPU waits for the data loader for up to 33.4 % of the time. Record steady state.")


def test_fixes_together_promise_nothing_of_one_that_only_records_again() -> None:
    again = (Fix("Record steady state. Skip the first steps.", effort="recording"),)
    plain = sick(findings=(loader_finding(), precision_finding()))
    recorded = sick(findings=(loader_finding(), dataclasses.replace(precision_finding(), fixes=again)))
    assert "both fixes together up to 41.7 %" in judge(plain).sentence
    assert judge(recorded).sentence.endswith("fixing it saves up to 33.4 % (1.50× faster).")
    assert [">−41.7 %<" in report(diagnosis, output="html") for diagnosis in (plain, recorded)] == [True, False]


def test_what_only_another_recording_does_without_is_no_row_of_the_savings() -> None:
    """Left out first, its time stays: the other fix leaves 177.6 − 14.67 ms of a step, as its own saving says."""
    again = (Fix("Record steady state. Skip the first steps.", effort="recording"),)
    first = dataclasses.replace(loader_finding(), fixes=again)
    diagnosis = sick(findings=(first, precision_finding()))
    assert [(fix.rule, fix.left_ns) for fix in plan_fixes(diagnosis, plan())] == [
        ("tensor-cores-unused", plan().window_ns - plan().fixes[1].saving_ns)
    ]
    for output in ("terminal", "html"):
        assert "Cumulative savings" not in report(diagnosis, output)
        assert "Cumulative savings" in report(sick(findings=(loader_finding(), precision_finding())), output)
    text = " ".join(report(diagnosis).split())
    assert "up to 33.4 % of the time, 59.32 ms per step" in text and "up to −33.4 %" not in text
    assert "−33.4 %" not in report(diagnosis, "html") and ">up to 33.4 %<" in report(diagnosis, "html")


@pytest.mark.parametrize("output", ["terminal", "html"])
def test_a_finding_that_no_known_fix_fits_says_so(output: str) -> None:
    bare = tuple(dataclasses.replace(finding, fixes=(), explanations=()) for finding in sick().findings)
    for verbose in (False, True):
        assert "None of the known fixes fits this program." in report(sick(findings=bare), output, verbose=verbose)
        assert "None of the known fixes" not in report(sick(), output, verbose=verbose)
    assert "fix: None of the known fixes fits this program." in brief_lines(sick(findings=bare))


def test_the_headline_says_what_makes_a_saving_doubtful_in_place_of_a_speedup() -> None:
    because = "the trace shows it in one step only"
    doubtful = dataclasses.replace(loader_finding(), confidence="low", confidence_because=because)
    said = judge(sick(findings=(doubtful,))).sentence
    assert f"fixing it saves up to 33.4 % (low confidence: {because})" in said
    assert "faster" not in said
    assert "(1.50× faster)" in judge(sick()).sentence


def test_names_with_markup_and_control_characters_are_printed_as_they_are() -> None:
    text = report(sick(findings=(loader_finding(message="void f[bold](int)[/] :smile: \x1b[31mred"),)))
    assert "void f[bold](int)[/] :smile:" in text
    assert "\x1b" not in text


def test_run_without_steps_speaks_of_the_whole() -> None:
    bare = dataclasses.replace(ledger(host__python=0.3), step_count=0, step_source=None)
    whole = dataclasses.replace(plan(), step_count=0)
    text = report(sick(ledgers=(bare,), findings=(loader_finding(),), plans=(whole,)))
    assert "a step" not in text
    assert "no steps" in text


def test_unknown_rank_is_not_invented() -> None:
    nameless = {"traces": (trace("a", rank=None),), "ledgers": (ledger("a", rank=None, host__python=0.3),)}
    text = report(sick(findings=(), **nameless))
    assert "rank" not in text.split("rules checked")[0]


def test_a_run_of_several_formats_names_them_as_a_sentence_does() -> None:
    traces = tuple(replace(trace("a"), format=name) for name in ("xplane", "kineto", "nsys"))
    assert "3 kineto, nsys and xplane traces" in report(sick(findings=(), traces=traces))


@pytest.mark.parametrize(
    ("count", "told"), [(5, "and 1 more reason; -v lists it"), (6, "and 2 more reasons; -v lists")]
)
def test_reasons_that_are_left_out_of_a_run_without_gpu_work_are_counted(count: int, told: str) -> None:
    blind = [Outcome(f"rule-{i}", "…", "abstained", "a", 0, 0, "missing", f"{'no ' * i}data") for i in range(count)]
    assert told in report(dataclasses.replace(without_gpu(), outcomes=tuple(blind)))


def test_skipped_rules_are_listed_on_demand_and_counted_otherwise() -> None:
    assert "2 rules skipped: data not recorded. -v adds" in " ".join(report(sick()).split())
    assert "profile(profile_memory=True)" not in report(sick())
    assert "- no collectives → trace every rank (comm-exposed)" in report(sick(), verbose=True)


def test_compute_leads_the_legend_even_where_there_is_next_to_none() -> None:
    text = report(sick(ledgers=(ledger("a", 0, 0, host__python=0.999),)))
    legend = text.split("Where the time goes")[1].splitlines()[2:4]
    assert "GPU busy with compute" in legend[0]
    assert "Python" in legend[1]


def test_verdict_counts_the_fixes_that_the_order_tells() -> None:
    from traceanalyzer.diagnosis import PlannedFix

    third = PlannedFix("small", "alternative", round(8.8 * 1e6), 0, ("dataloader-bound",))
    three = dataclasses.replace(plan(), fixes=(*plan().fixes, third))
    small = loader_finding(rule="small", status="alternative", alternatives=("dataloader-bound",), marginal_order=3)
    findings = (loader_finding(), precision_finding(), small)
    assert "all 3 fixes together up to 42.5 %" in " ".join(report(sick(findings=findings, plans=(three,))).split())


def test_verdict_does_not_count_a_fix_that_adds_nothing() -> None:
    from traceanalyzer.diagnosis import PlannedFix

    nothing = PlannedFix("small", "alternative", 0, plan().fixes[-1].left_ns, ("dataloader-bound",))
    three = dataclasses.replace(plan(), fixes=(*plan().fixes, nothing))
    small = loader_finding(rule="small", status="alternative", alternatives=("dataloader-bound",), marginal_order=3)
    findings = (loader_finding(), precision_finding(), small)
    assert ", 2 fixes together up to 41.7 %" in " ".join(report(sick(findings=findings, plans=(three,))).split())


@pytest.mark.parametrize(("step_count", "first"), [(6, "step"), (0, "kernel")])
def test_a_fix_that_only_moves_the_beginning_forward_says_what_begins(step_count: int, first: str) -> None:
    from traceanalyzer.diagnosis import PlannedFix

    longer = PlannedFix("small", "primary", -10_000_000, plan().fixes[-1].left_ns + 10_000_000)
    changed = dataclasses.replace(plan(), step_count=step_count, fixes=(*plan().fixes, longer))
    words = " ".join(report(sick(plans=(changed,))).split())
    assert f"delays nothing: only the first {first} begins earlier" in words


def test_of_two_recordings_the_first_findings_order_is_told() -> None:
    other = dataclasses.replace(plan(), trace="rank1.json.gz", rank=1, fixes=plan().fixes[:1])
    assert "both fixes together up to 41.7 %" in report(sick(plans=(other, plan())))


@pytest.mark.parametrize(
    ("saving_share", "told"),
    [
        (0.32, "instead of dataloader-bound: they save mostly the same time"),
        (0.1, "already covered by dataloader-bound, which saves this time too"),
    ],
    ids=["equal", "smaller"],
)
def test_a_smaller_fix_is_not_told_to_be_enough(saving_share: float, told: str) -> None:
    rival = precision_finding()
    rival = loader_finding(
        rule=rival.rule, status="alternative", saving_share=saving_share, alternatives=("dataloader-bound",)
    )
    assert told in " ".join(report(sick(findings=(loader_finding(), rival)), verbose=True).split())


@pytest.mark.parametrize(
    ("saving_share", "told"),
    [
        (0.32, "or tensor-cores-unused, which saves mostly the same time"),
        (0.1, "includes tensor-cores-unused: most of what it would save is saved by this"),
    ],
    ids=["equal", "smaller"],
)
def test_a_fix_names_as_its_equal_only_what_saves_as_much(saving_share: float, told: str) -> None:
    rival = loader_finding(
        rule="tensor-cores-unused", status="alternative", saving_share=saving_share, alternatives=("dataloader-bound",)
    )
    first = loader_finding(alternatives=("tensor-cores-unused",))
    assert told in " ".join(report(sick(findings=(first, rival)), verbose=True).split())


def test_what_there_is_to_know_of_a_step_of_the_waterfall_is_never_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    from traceanalyzer.diagnosis import PlannedFix

    monkeypatch.setenv("COLUMNS", "70")
    third = PlannedFix("small", "alternative", round(8.8 * 1e6), 0, ("dataloader-bound",))
    text = report(sick(plans=(dataclasses.replace(plan(), fixes=(*plan().fixes, third)),)))
    waterfall = text.split("Cumulative savings")[1].split("\n\n")[0]
    assert "…" not in waterfall
    assert "already covered by dataloader-bound" in " ".join(waterfall.split())


def test_processes_of_one_export_stay_apart_in_a_narrow_table() -> None:
    cells = [(f"a_training_run_of_two_ranks.sqlite#pid{pid}", "1") for pid in (144, 145)]
    assert aligned(("trace", "rank"), cells, room=20)[1:] == ["…sqlite#pid144  1", "…sqlite#pid145  1"]


def test_words_give_way_before_numbers() -> None:
    columns, right = ("time", "operations", "kind", "operator"), frozenset({0, 1})
    lines = aligned(columns, [("287.4 µs", "118 GFLOP", "launches", "aten::addmm")], room=35, right=right)
    assert lines[1] == "287.4 µs  118 GFLOP  launc…  aten:…"
    lines = aligned(columns, [("287.4 µs", "118 G", "kind", "aten")], room=28, right=right)
    assert lines == ["    time  opera…  kind  opera…", "287.4 µs   118 G  kind  aten"]


def test_words_that_numbers_leave_no_room_go_below_their_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    stream = io.StringIO()
    columns = ("operations", "share", "time", "calls", "headroom", "limited by", "operator")
    row = ("118 GFLOP", "50.0 %", "287.4 µs", "1,036", "235.0 µs", "host launches", "aten::addmm")
    Page(stream).table(columns, [row], right=frozenset(range(5)))
    assert [line.rstrip() for line in stream.getvalue().splitlines()] == [
        "operations   share      time  calls  headroom",
        "  limited by · operator",
        " 118 GFLOP  50.0 %  287.4 µs  1,036  235.0 µs",
        "  host launches · aten::addmm",
    ]


def test_verdict_without_findings_names_what_takes_most() -> None:
    text = " ".join(report(sick(findings=(), plans=())).split())
    assert "no rule explains the rest, mostly “CPU-bound: Python” (7.1 %)." in text


def test_verdict_without_findings_names_work_of_before_the_recording() -> None:
    text = " ".join(report(sick(findings=(), plans=(), not_explained=(("edge.queued_before_trace", 800_000),))).split())
    assert "; in the rest the recorded work waits for work that was launched before the recording began." in text


def test_verdict_without_launches_says_that_the_cause_is_unknown() -> None:
    without = sick(findings=(), plans=(), not_explained=(("edge.no_launch", 800_000),))
    text = " ".join(report(without).split())
    assert "; the cause of the rest is unknown: the trace does not show which calls launched the GPU's work." in text
    assert "no rule explains" not in text


def test_unexplained_shares_read_as_in_the_ledger() -> None:
    alone = ledger(host__python=0.55254, host__op=0.10254, dev__h2d=0.10254)
    waits = tuple(item for item in alone.buckets if item[0] != "compute")
    text = report(sick(ledgers=(alone,), findings=(), plans=(), not_explained=waits))
    shares = dict(re.findall(r"^  [▒░▓] (.+?)  .+?(\S+) %$", text, re.MULTILINE))
    unexplained = " ".join(text.split("Not explained by any rule")[1].split("\n\n")[0].split())
    told = dict(re.findall(r"(\w[-:\w ]+?) (\d+\.\d) %", unexplained.partition("of the time ")[2]))
    assert len(shares) == 3
    assert shares.items() <= told.items()


def test_the_verdict_reads_as_the_ledger_where_shares_are_rounded_to_add_up() -> None:
    # One by one these are 50.1, 33.1, 14.9 and 1.8 %, which is 99.9 %.
    alone = ledger(host__other=0.33144, dev__unresolved=0.1492, host__launch_api=0.0179)
    waits = tuple(item for item in alone.buckets if item[0] != "compute")
    text = " ".join(report(sick(ledgers=(alone,), findings=(), plans=(), not_explained=waits)).split())
    assert "mostly “CPU-bound: work not recorded” (33.2 %)" in text
    assert re.search(r"work not recorded \S+ ms 33\.2 %", text)


def test_a_finding_on_one_of_several_devices_names_it() -> None:
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


@pytest.mark.parametrize(("share", "is_told"), [(0.1, True), (0.04, False)])
@pytest.mark.parametrize("hint", ["add ProfilerActivity.CPU to the activities", None])
def test_unexplained_time_of_the_host_says_what_would_show_it(share: float, is_told: bool, hint: str | None) -> None:
    alone = ledger(host__op=0.2, host__other=share)
    diagnosis = sick(ledgers=(alone,), findings=(), plans=(), not_explained=alone.buckets[1:], host_hint=hint)
    text = " ".join(report(diagnosis).split())
    words = (
        f"What the host did there was not recorded: {hint}." if hint else "What the host did there was not recorded."
    )
    assert (words in text) == is_told


def test_columns_of_evidence_do_not_say_a_name_twice() -> None:
    from traceanalyzer.diagnosis import Evidence

    rows = (
        (1.0, "train.py(3): step", "train.py(3): step"),
        (0.9, "many, such as model.py(7): forward", "model.py(7): forward"),
        (0.8, "aten::mm", "model.py(9): forward"),
    )
    finding = loader_finding(evidence=(Evidence("Longest stretches", ("ms", "during", "python"), rows),))
    text = report(sick(findings=(finding,)))
    assert text.count("train.py(3): step") == text.count("model.py(7): forward") == 1
    assert text.count("model.py(9): forward") == 1
    alone = replace(finding, evidence=(Evidence("Longest stretches", ("ms", "during", "python"), rows[:2]),))
    assert "during" in report(sick(findings=(alone,))) and "python" not in report(sick(findings=(alone,)))


def test_what_no_rule_explains_on_several_devices_is_said_to_be_of_all() -> None:
    ledgers = tuple(replace(sick().ledgers[0], rank=rank, trace=f"rank{rank}.json") for rank in range(3))
    assert "% of the time of all 3 devices" in " ".join(report(sick(ledgers=ledgers)).split())
    assert "% of the time of both devices" in " ".join(report(sick(ledgers=ledgers[:2])).split())
    one = " ".join(report(sick()).split())
    assert "Not explained by any rule" in one and " devices" not in one.split("Not explained by any rule")[1]
