"""What a report prints adds up: busy, saved and not explained are parts of one window, and a wait has one number."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import corpus_runs
from report_diagnoses import MS, sick

from traceanalyzer.cli import main
from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.diagnosis.shares import unexplained_rest
from traceanalyzer.report import formats
from traceanalyzer.run import open_run
from traceanalyzer.settings.settings import NO_SETTINGS
from tracesim import simulate_job

SAMPLES = Path(__file__).parents[2] / "sample_traces"
_NOT_FOR_PEOPLE = re.compile(
    r"\b(?:rank|device|step|stream) None\b|\bnan\b|\b(?:host|dev|edge)\.[a-z_]{3,}|[a-z]+-[a-z]+ ×\d|\b0x[0-9a-f]{6,}"
    r"|\(0 ns in all\)|\b0 kernels wait\b"
)
# Each of three numbers is rounded to a tenth of a per cent.
ROUNDED = 0.2


def test_time_that_goes_with_a_fix_is_not_unexplained_too() -> None:
    window_ns = 6 * 177.6 * MS
    # The loader's wait is 33 % of the time; without it 38 % goes, as later waits end with it.
    plans = tuple(
        replace(plan, fixes=(replace(plan.fixes[0], saving_ns=round(0.38 * window_ns)),)) for plan in sick().plans
    )
    owning = tuple(replace(item, owned_buckets={"host.dataloader": item.owned_ns or 0}) for item in sick().findings)
    diagnosis = sick(plans=plans, findings=owning, not_explained=(("host.python", round(0.11 * window_ns)),))
    rest = unexplained_rest(diagnosis)
    busy = dict(diagnosis.ledgers[0].buckets)["compute"] / diagnosis.ledgers[0].window_ns
    assert busy + 0.38 + rest.left <= 1 + 1e-6
    assert rest.left + rest.gone == pytest.approx(0.11)
    assert f"Not explained by any rule {100 * rest.left:.1f} %" in text_of(diagnosis)
    assert "goes with the fixes above" in text_of(diagnosis)


def test_fixes_that_make_kernels_shorter_leave_the_rest_alone() -> None:
    diagnosis = sick()
    plans = tuple(replace(plan, fixes=plan.fixes[1:]) for plan in diagnosis.plans)
    shares = sum(ns for _, ns in diagnosis.not_explained) / diagnosis.ledgers[0].window_ns
    assert unexplained_rest(replace(diagnosis, plans=plans)).left == pytest.approx(shares)


def test_devices_that_wait_differently_long_are_said_to_have_no_fix_for_that() -> None:
    ledger = sick().ledgers[0]
    ledgers = tuple(
        replace(ledger, device=device, window_ns=100, buckets=(("compute", busy), ("host.python", 100 - busy)))
        for device, busy in ((0, 20), (1, 10))
    )
    diagnosis = sick(ledgers=ledgers, run_ledger=None, findings=(), plans=(), not_explained=(("host.python", 170),))
    rest = unexplained_rest(diagnosis)
    assert rest.left == pytest.approx(0.8)
    assert rest.gone == 0
    assert "goes with the fixes above" not in text_of(diagnosis)


def test_a_finding_of_one_rank_promises_what_the_run_saves() -> None:
    diagnosis = sick(ledgers=tuple(replace(sick().ledgers[0], rank=rank) for rank in (0, 1)))
    quality, first, *rest = diagnosis.findings
    own = f"up to {100 * (first.saving_share or 0):.1f} % of the time"
    first = replace(first, message=f"A data loader that keeps up saves {own} (45.0 ms).")
    of_run, alike = (
        text_of(replace(diagnosis, findings=(quality, replace(first, run_saving_share=share), *rest)))
        for share in (0.1, first.saving_share)
    )
    assert "Rank 0: A data loader that keeps up saves up to 10.0 % of the run (45.0 ms)." in of_run
    assert own not in of_run
    assert "Rank 0: " not in alike and own in alike


def test_a_number_of_a_rank_that_is_no_promise_of_the_run_is_said_to_be_the_ranks() -> None:
    diagnosis = sick(ledgers=tuple(replace(sick().ledgers[0], rank=rank) for rank in (0, 1)))
    quality, first, *rest = diagnosis.findings
    for message in (
        "Warm-up holds up the GPU for up to 400 ms (33.0 % of the time).",
        f"{first.message} Only 20.0 % is sure to be saved: the trace does not say why.",
    ):
        finding = replace(first, message=message, run_saving_share=0.1)
        text = text_of(replace(diagnosis, findings=(quality, finding, *rest)))
        assert f"Rank 0 alone: {message}" in text


@pytest.mark.check
@pytest.mark.parametrize("name", ["healthy", "launch_bound", "slow_loader"])
def test_numbers_of_a_sample_trace_add_up(name: str, tmp_path: Path) -> None:
    with open_run(SAMPLES / name, store=tmp_path) as run:
        check(run.diagnose(settings=NO_SETTINGS))


@pytest.mark.check
def test_what_a_finding_saves_that_owns_no_time_is_not_unexplained_too(tmp_path: Path) -> None:
    """The host is late throughout and hides the loader: the finding about the loader owns no wait, and saves one."""
    job = {"ranks": 2, "kernels": 200, "kernel_us": 23, "host_us": 20, "comm_us": 400}
    simulate_job(job).write_kineto(tmp_path / "run")
    with open_run(tmp_path / "run", store=tmp_path / "store") as run:
        diagnosis = run.diagnose(settings=NO_SETTINGS)
    (finding,) = diagnosis.findings
    assert not finding.owned_buckets and finding.run_saving_share is not None
    assert unexplained_rest(diagnosis).gone == pytest.approx(finding.run_saving_share, rel=0.01)
    check(diagnosis)


@pytest.mark.check
@pytest.mark.parametrize("path", list(corpus_runs()), ids=lambda path: path.name)
def test_numbers_of_a_real_trace_add_up(path: Path, diagnosis_of: Callable[[Path], Diagnosis]) -> None:
    check(diagnosis_of(path))


@pytest.mark.check
@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("path", list(corpus_runs()), ids=lambda path: path.name)
def test_a_screen_of_a_real_trace_is_for_people(
    path: Path, width: int, diagnosis_of: Callable[[Path], Diagnosis], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    check_screen(screen_of(diagnosis_of(path)))


@pytest.mark.check
@pytest.mark.parametrize("path", list(corpus_runs())[::8], ids=lambda path: path.name)
def test_what_info_says_of_a_real_trace_is_for_people(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["info", str(path), "--store", str(tmp_path)]) == 0
    check_screen(capsys.readouterr().out)


def test_what_is_not_for_people_is_seen() -> None:
    for words in (
        "rank None",
        "nan %",
        "host.dataloader",
        "unknown-phase ×4,587",
        "at 0x7fc0a5e17790",
        "(0 ns in all)",
    ):
        with pytest.raises(AssertionError):
            check_screen(f"The GPU waits: {words}.")
    with pytest.raises(AssertionError):
        check_screen("  kernel<float, fl…   1.0 %\n  kernel<float, fl…   0.9 %\n")
    check_screen("  kernel<float, fl…   1.0 %\n\n  kernel<float, fl…   0.9 %\n")


def check_screen(text: str) -> None:
    """Assert that a report shows no codes, and no two equal names in one table."""
    assert _NOT_FOR_PEOPLE.findall(text) == []
    for table in text.split("\n\n"):
        names = re.findall(r"^ +(\S.*?…\S*) {2,}(?=[\d<])", table, re.MULTILINE)
        assert len(names) == len(set(names)), names


def check(diagnosis: Diagnosis) -> None:
    """Hold the numbers that a report prints to each other."""
    text = text_of(diagnosis)
    busy = numbers(r"busy with compute ([\d.]+) % (?!to)", text) or numbers(
        r"busy with compute [\d.]+ % to ([\d.]+) %", text
    )
    left = numbers(r"Not explained by any rule\s+([\d.]+) %", text) or [0.0]
    said = numbers(r"No rule explains ([\d.]+) %", text)
    assert all(share == left[0] for share in said)
    saved = 100 * saved_waits(diagnosis)
    if busy:
        assert busy[0] + saved + left[0] <= 100 + ROUNDED
    for finding in diagnosis.findings:
        share = finding.saving_share if finding.run_saving_share is None else finding.run_saving_share
        if not share or finding.status != "primary" or len(finding.same_on_traces) > 1:
            continue
        promised = numbers(r"(?:saves?|saved?|for) up to (?:[\d.]+ \S+ \()?([\d.]+) %", finding.message)
        own = [100 * one for one in (finding.saving_share, finding.run_saving_share) if one is not None]
        assert all(min(abs(number - one) for one in own) <= 0.1 for number in promised), finding.rule


def saved_waits(diagnosis: Diagnosis) -> float:
    """Return the share that the first fixes save, up to one that makes kernels shorter, of the device with least."""
    shorter = {
        finding.rule
        for finding in diagnosis.findings
        if any(bucket.startswith("compute") for bucket in finding.owned_buckets)
    }
    owning = {finding.rule for finding in diagnosis.findings if finding.owned_buckets}
    shares = []
    for plan in diagnosis.plans:
        first = itertools.takewhile(lambda fix: fix.rule not in shorter, plan.fixes)
        shares.append(sum(fix.saving_ns for fix in first if fix.rule in owning) / max(plan.window_ns, 1))
    return min(shares, default=0.0) if len(shares) == len(diagnosis.ledgers) or len(shares) == 1 else 0.0


def text_of(diagnosis: Diagnosis) -> str:
    """Return the report as one line."""
    return " ".join(screen_of(diagnosis).split())


def screen_of(diagnosis: Diagnosis) -> str:
    """Return the report as a terminal shows it."""
    stream = io.StringIO()
    formats.write_diagnosis(diagnosis, "terminal", stream)
    return stream.getvalue()


def numbers(pattern: str, text: str) -> list[float]:
    return [float(number) for number in re.findall(pattern, text)]
