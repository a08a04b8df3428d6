"""Pages of real traces: each is whole, small, accessible, and says the numbers of the JSON report."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import check_accessibility, opened_browser
from conftest import corpus_runs
from html_pages import check_page, data_of, drops_of, numbers_of, timeline_sums

from traceanalyzer.diagnosis import DeviceLedger, Diagnosis, HostLedger
from traceanalyzer.diagnosis.verdict import problems
from traceanalyzer.report.diagnosis_blocks import leading_plan, plan_fixes
from traceanalyzer.report.html.page import page
from traceanalyzer.report.html.sections.timeline import MOST_LANES
from traceanalyzer.run import open_run
from traceanalyzer.text.words import bucket_words


def by_words(ledger: DeviceLedger | HostLedger) -> dict[str, int]:
    """Return the time of a ledger's buckets by what people read; several may read alike."""
    words: Counter[str] = Counter()
    for bucket, dur_ns in ledger.buckets:
        words[bucket_words(bucket, ledger.device_name if isinstance(ledger, DeviceLedger) else None)] += dur_ns
    return +words


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for all pages."""
    with opened_browser() as opened:
        yield opened


@pytest.mark.check
@pytest.mark.parametrize("path", list(corpus_runs()), ids=lambda path: path.name)
def test_page_of_a_real_trace_is_whole_and_says_the_numbers_of_the_diagnosis(
    path: Path,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    store_of: Callable[[Path], Path],
    diagnosis_of: Callable[[Path], Diagnosis],
) -> None:
    diagnosis = diagnosis_of(path)
    with open_run(path, store=store_of(path)) as run:
        text = page(diagnosis, run)
        # Nothing in it is by chance. A part of the pages shows it: of all formats, of one rank and of several.
        assert zlib.crc32(path.name.encode()) % 3 or page(diagnosis, run) == text
    root = check_page(text)
    buckets = numbers_of(root, "data-bucket")
    every: list[DeviceLedger | HostLedger] = [*diagnosis.ledgers, *diagnosis.host_ledgers]
    of_devices = [diagnosis.run_ledger] if diagnosis.run_ledger else diagnosis.ledgers
    ledgers = [item.buckets for item in (*of_devices, *diagnosis.host_ledgers)]
    assert not buckets or buckets in [{b: ns for b, ns in item if ns or b == "compute"} for item in ledgers]
    if data_of(text)["timeline"]:
        of_lanes = timeline_sums(data_of(text))
        assert of_lanes == [by_words(item) for item in every][:MOST_LANES]
    plan = leading_plan(diagnosis)
    fixes = [] if plan is None else plan_fixes(diagnosis, plan)
    if len(fixes) > 1:
        # One drawing for a desk, one for a phone.
        assert drops_of(root) == [(fix.rule, fix.saving_ns, fix.left_ns) for fix in fixes] * 2
    cards = {item.get("data-rule"): item.get("data-ns") for item in root.iter("article")}
    firsts = {finding.rule: finding for finding in reversed(problems(diagnosis))}
    assert {rule: ns for rule, ns in cards.items() if ns} == {
        rule: str(firsts[rule].saving_ns) for rule in cards if rule and firsts[rule].saving_ns is not None
    }
    file = tmp_path / "report.html"
    file.write_text(text, encoding="utf-8")
    browser = request.getfixturevalue("browser")  # skips where there is none, once all above holds
    # All pages are made of the same parts: each half of them is looked at in one colour scheme.
    scheme = ("light", "dark")[zlib.crc32(path.name.encode()) % 2]
    check_accessibility(browser, file, fits_phones=True, color_scheme=scheme)


@pytest.mark.parametrize("name", ["more/mi300_qwen.json.gz", "kineto/h100_owlv2_inference.json.gz"])
def test_page_shows_modules_roofline_and_memory_where_they_were_recorded(
    corpus: Path, store_of: Callable[[Path], Path], name: str
) -> None:
    path = corpus / name
    with open_run(path, store=store_of(path)) as run:
        root = check_page(page(run.diagnose(), run))
        ((layers, outermost_ns),) = run.sql(
            "SELECT count(DISTINCT path), sum(forward_ns + backward_ns + recomputed_ns) FILTER (WHERE depth = 0) "
            "FROM layers"
        ).fetchall()
        ((rows, headroom_ns),) = run.sql(
            "SELECT count(*), max(headroom_ns) FROM operator_efficiency WHERE floor_ns IS NOT NULL"
        ).fetchall()
    titles = ["".join(title.itertext()) for title in root.iter("h2")]
    assert [title for title in titles if title in ("Device memory", "Modules", "Roofline")] == [
        "Device memory",
        "Modules",
        "Roofline",
    ]
    tables = {
        table.get("id"): [[cell.get("data-v") for cell in row] for row in table.iter("tr")][1:]
        for table in root.iter("table")
    }
    assert len(tables["t-modules"]) == layers and str(outermost_ns) in tables["t-modules"][0]
    assert len(tables["t-roofline"]) == rows and str(round(headroom_ns)) in tables["t-roofline"][0]


def test_page_says_what_takes_the_time_of_the_rank_that_the_run_waits_for(
    corpus: Path, store_of: Callable[[Path], Path]
) -> None:
    path = corpus / "more/dlrm_8_ranks"
    with open_run(path, store=store_of(path)) as run:
        diagnosis = run.diagnose()
        root = check_page(page(diagnosis, run))
    assert diagnosis.run_ledger is not None
    (section,) = [item for item in root.iter("section") if item.get("id") == "ranks"]
    said = re.search(r"waits most for rank (\d+): ([\d.]+) % of its time \((.+?)\)\.", "".join(section.itertext()))
    assert said is not None and int(said[1]) == diagnosis.run_ledger.ranks[0][0]
    parts = [float(share) for share in re.findall(r"([\d.]+) %", said[3])]
    assert len(parts) == 3 and 0.8 * float(said[2]) < sum(parts) <= float(said[2])
