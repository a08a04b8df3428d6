"""The page: whole, small, the same bytes for the same run, with the numbers of the other reports, and harmless."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hostile_trace import SECRET, write_hostile_trace
from html_pages import MOST_BYTES, check_page, data_of, drops_of, numbers_of, parsed
from report_diagnoses import healthy, ledger, loader_finding, many_ranks, sick, without_gpu

from traceanalyzer.cli import main
from traceanalyzer.diagnosis import AttachedExplanation, Diagnosis, Evidence
from traceanalyzer.diagnosis.verdict import judge
from traceanalyzer.query import engine
from traceanalyzer.report import formats
from traceanalyzer.report.blocks import Bar, BarPart, Heading, Paragraph, Section, Table, Text
from traceanalyzer.report.charts.ledger_charts import MOST_COLUMNS, StepTime
from traceanalyzer.report.html import page as html_page
from traceanalyzer.report.html.document import address_markup, blocks_markup, cell_markup, code_markup, prose_markup
from traceanalyzer.report.html.excerpts import ExcerptPlace, ExcerptWindow, lanes_of
from traceanalyzer.report.html.page import page, page_of
from traceanalyzer.report.html.sections.ledger import note_of, slowest_steps
from traceanalyzer.report.html.sections.ranks import alike_words
from traceanalyzer.report.html.sections.tables import PageColumn, operators, table_markup
from traceanalyzer.report.html.source import Limits, Names, PageSource, queries, query
from traceanalyzer.run import Run, open_run
from traceanalyzer.text.words import bucket_words

GOLDEN = Path(__file__).parents[1] / "golden"
SAVINGS = "Cumulative savings (fixes applied in this order)"
_OWN = re.compile(r"(<(?:style|script)>).*?(</(?:style|script)>)|sha256-[^']+", re.DOTALL)


@pytest.fixture(scope="module")
def run(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A sample run, open."""
    with open_run(root / "sample_traces" / "slow_loader", store=tmp_path_factory.mktemp("page") / "store") as opened:
        yield opened


@pytest.fixture(scope="module")
def diagnosis(run: Run) -> Diagnosis:
    """Its diagnosis."""
    return run.diagnose()


def test_page_reads_as_approved(golden: bool) -> None:
    path = GOLDEN / "report_sick_page.html"
    text = _OWN.sub(r"\1\2", page(sick()))
    if golden:
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("diagnosis", [sick(), healthy(), many_ranks(), without_gpu()])
def test_page_of_a_diagnosis_alone_is_whole(diagnosis: Diagnosis) -> None:
    root = check_page(page(diagnosis))
    headline = next(root.iter("h1"))
    assert "".join(headline.itertext()).rstrip(".").lower() in judge(diagnosis).sentence.lower()
    assert headline.get("data-state") == judge(diagnosis).state


@pytest.mark.check
def test_page_of_a_run_has_every_section_that_it_can_fill(run: Run, diagnosis: Diagnosis) -> None:
    text = page(diagnosis, run)
    root = check_page(text)
    titles = ["".join(title.itertext()) for title in root.iter("h2")]
    assert titles == [
        *("Where the time goes", "Timeline", SAVINGS, "Findings", "Steps", "Kernels", "Operators"),
        *("Ranges that the program marked", "FLOPs utilisation", "Roofline", "Copies"),
        *("Host stacks", "How far to trust it"),
    ]
    assert page(diagnosis, run) == text


@pytest.mark.check
def test_copies_are_those_of_the_analyzed_time_as_kernels_are(run: Run) -> None:
    """The sample copies a batch to the device and a loss back in each of its seven steps, of which five count."""
    counts = [row[:4] for row in run.connection.execute(query("copies")).fetchall()]
    assert counts == [("HtoD", "pinned", "device", 5), ("DtoH", "device", "pinned", 5)]
    assert run.sql("SELECT sum(copy_count) FROM copies").fetchall() == [(14,)]


@pytest.mark.check
def test_page_holds_no_table_when_it_is_done_and_can_be_made_again(run: Run, diagnosis: Diagnosis) -> None:
    tables = "SELECT schema_name || '.' || table_name FROM duckdb_tables()"
    with run.connected(queries()) as connection:
        before = set(connection.execute(tables).fetchall())
        first = page_of(diagnosis, connection)
        assert set(connection.execute(tables).fetchall()) == before
        assert page_of(diagnosis, connection) == first


@pytest.mark.check
def test_page_says_the_numbers_of_the_diagnosis(run: Run, diagnosis: Diagnosis) -> None:
    root = parsed(page(diagnosis, run))
    assert numbers_of(root, "data-bucket") == dict(diagnosis.ledgers[0].buckets)
    plan = [(fix.rule, fix.saving_ns, fix.left_ns) for fix in diagnosis.plans[0].fixes]
    assert drops_of(root) == plan * 2
    cards = {card.get("data-rule"): int(card.get("data-ns", 0)) for card in root.iter("article")}
    assert cards == {finding.rule: finding.saving_ns for finding in diagnosis.findings}


@pytest.mark.check
def test_timeline_shows_the_evidence_and_the_thread_that_causes_it(run: Run, diagnosis: Diagnosis) -> None:
    data = data_of(page(diagnosis, run))
    excerpt = data["excerpts"][0]
    evidence = diagnosis.findings[0].evidence[0]
    row = dict(zip(evidence.columns, evidence.rows[0], strict=True))
    assert excerpt["mark"][1] - excerpt["mark"][0] == row["dur_ns"]
    assert excerpt["at"] + excerpt["mark"][0] == pytest.approx(row["at_ms"] * 1e6, abs=1_000)
    labels = [lane["label"] for lane in excerpt["lanes"]]
    assert labels[0] == "Time ledger" and "GPU stream 7" in labels and any("4242" in label for label in labels)
    waiting = [data["names"][name] for name in excerpt["lanes"][0]["boxes"][3::6]]
    assert any(name.startswith("waiting for the data loader") for name in waiting)
    host = next(lane for lane in excerpt["lanes"] if "4242" in lane["label"])
    names = [data["names"][name] for name in host["boxes"][3::6]]
    assert any("__getitem__" in name for name in names)


def test_columns_of_evidence_that_all_rows_share_are_said_once() -> None:
    columns = ("step", "ms", "during", "operator", "annotation")
    call = "cudaLaunchKernel_v7000"
    rows = ((1, 2.0, "aten::mm", None, call), (2, 1.0, "aten::add", "aten::add", call))
    finding = loader_finding(evidence=(Evidence("Longest", columns, rows),))
    root = parsed(page(sick(findings=(finding,))))
    (table,) = [item for item in root.iter("table") if item.get("class") == "evidence"]
    assert [head.text for head in table.iter("th")] == ["step", "time", "during"]
    captions = ["".join(item.itertext()) for item in root.iter("p") if item.get("class") == "caption"]
    assert "Longest · in all rows: annotation cudaLaunchKernel" in captions


def test_a_card_says_why_an_explanation_is_not_sure_and_what_shows_it() -> None:
    evidence = (Evidence("Longest waits", ("ms",), ((2.0,),)),)
    because = AttachedExplanation(
        *("few-workers", "Few workers", "medium", "no CPU samples", None, None, None, "Two workers read.", ""), evidence
    )
    card = next(parsed(page(sick(findings=(loader_finding(explanations=(because,)),)))).iter("article"))
    words = "".join(card.itertext())
    assert "Two workers read. (few-workers, medium confidence: no CPU samples)" in words and "Longest waits" in words


def test_a_long_verdict_is_a_headline_and_a_lead() -> None:
    unjudged = replace(healthy().ledgers[0], peaks_known=False)
    root = parsed(page(replace(healthy(), ledgers=(unjudged,))))
    headline = "".join(next(root.iter("h1")).itertext())
    lead = next("".join(item.itertext()) for item in root.iter("p") if item.get("class") == "lead")
    assert headline.endswith("no rule found an issue.") and lead.startswith("The kernels were not ")


@pytest.mark.check
def test_a_wait_for_the_host_is_shown_with_the_queue_of_launches(run: Run, diagnosis: Diagnosis) -> None:
    excerpt = data_of(page(diagnosis, run))["excerpts"][0]
    (lane,) = [lane for lane in excerpt["lanes"] if lane["label"] == "Queued launches"]
    changes = run.connection.execute(
        "SELECT start_ns - first_ns, stream, depth FROM queue_depth_changes JOIN canonical.traces USING (trace_id) "
        "ORDER BY start_ns"
    ).fetchall()
    depths: dict[int, int] = {}
    totals: dict[int, int] = {}
    for at, stream, depth in changes:
        depths[stream] = depth
        totals[at] = sum(depths.values())
    start, end = excerpt["at"], excerpt["at"] + excerpt["length"]
    assert max(lane["line"][1::2]) == max(total for at, total in totals.items() if start <= at < end)
    (a, b), line, edge = excerpt["mark"], lane["line"], 100_000
    assert all(value == 0 for time, value in zip(line[::2], line[1::2], strict=True) if a + edge < time < b - edge)


@pytest.mark.check
def test_a_wait_for_the_allocator_is_shown_with_the_memory_in_use(tmp_path: Path) -> None:
    calls = [
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at, "dur": 5, "pid": 1, "tid": 1}
        | {"args": {"correlation": at}}
        for at in (0, 20_000)
    ]
    kernels = [
        {"ph": "X", "cat": "kernel", "name": "k", "ts": at + 10, "dur": 50, "pid": 0, "tid": 7}
        | {"args": {"correlation": at, "device": 0, "stream": 7}}
        for at in (0, 20_000)
    ]
    frees = {"ph": "X", "cat": "cuda_runtime", "name": "cudaFree", "ts": 100, "dur": 19_000, "pid": 1, "tid": 1}
    events = [
        {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "ts": at, "pid": 1, "tid": 1, "s": "t"}
        | {"args": {"Total Allocated": total, "Bytes": 1, "Device Id": 0, "Device Type": 1, "Addr": at}}
        for at, total in ((50, 2**20), (10_000, 3 * 2**20))
    ]
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": [*calls, *kernels, frees, *events]}))
    with open_run(tmp_path / "trace.json", store=tmp_path / "store") as run:
        ((trace_id, first_ns, last_ns),) = run.sql("SELECT trace_id, first_ns, last_ns FROM traces").fetchall()
        with engine.connect(run.traces, run.derived, readers=queries()) as connection:
            source = PageSource(run.diagnose(), judge(run.diagnose()), connection, Limits(), Names(100))
            window = ExcerptWindow(first_ns, last_ns, last_ns, last_ns)
            lanes = lanes_of(source, ExcerptPlace(trace_id, 0, first_ns, last_ns), window, 100)
    (lane,) = [lane for lane in lanes if lane.label == "Memory in use"]
    first, second = lane.line[::2]
    assert second - first == 9_950_000 and lane.line[1::2] == (2**20, 3 * 2**20) and lane.note == "at most 3.0 MiB"


def test_a_healthy_or_empty_run_has_no_empty_sections() -> None:
    for diagnosis in (healthy(), without_gpu()):
        root = parsed(page(diagnosis))
        titles = ["".join(title.itertext()) for title in root.iter("h2")]
        assert "Findings" not in titles and SAVINGS not in titles
        assert titles[-1] == "How far to trust it"


def test_ranks_without_steps_show_what_each_spends() -> None:
    windows = [
        replace(ledger(), rank=rank, trace=f"rank{rank}", step_count=0, window_ns=1000, buckets=tuple(buckets.items()))
        for rank, buckets in enumerate(
            (
                {"compute": 600, "dev.comm_transfer": 150, "dev.straggler_wait": 50, "host.op": 200},
                {"compute": 900, "edge.tail": 100},
            )
        )
    ]
    root = check_page(page(replace(sick(), ledgers=tuple(windows), run_ledger=None, ranks=())))
    (section,) = [item for item in root.iter("section") if item.get("id") == "ranks"]
    rows = [[cell.get("data-v") for cell in row.iter("td")] for row in section.iter("tr")][1:]
    assert rows == [["0", "0", "1000", "0.6", "0.2", "0.2"], ["1", "0", "1000", "0.9", "0.0", "0.1"]]
    assert "60.0 % (rank 0) to 90.0 % (rank 1) of its window" in " ".join("".join(section.itertext()).split())


@pytest.mark.parametrize(
    ("means", "words"),
    [
        ([100e6, 100.2e6, 100.4e6], "All ranks work about as long: 100.0 ms to 100.4 ms a step."),
        ([100e6, 100e6], "All ranks work about as long: 100.0 ms a step."),
        (
            [46.7e6, 2.2e6, 46.7e6],
            "Rank 1 works shortest before it waits: 2.20 ms a step, 95.3 % under the median rank",
        ),
    ],
)
def test_ranks_of_which_one_works_shorter_are_not_said_to_be_alike(means: list[float], words: str) -> None:
    assert alike_words(range(len(means)), means).startswith(words)


def test_one_rank_has_no_section_of_ranks() -> None:
    assert not [item for item in check_page(page(sick())).iter("section") if item.get("id") == "ranks"]


def test_finding_cards_are_named_after_rule_rank_and_device() -> None:
    cards = [card.get("id") for card in parsed(page(sick())).iter("article")]
    assert "f-dataloader-bound-0-0" in cards


@pytest.mark.parametrize(("device_ns", "words"), [(0, "together 1.00 ms on the host"), (500, "together 500 ns")])
def test_rows_that_are_left_out_are_told_by_what_they_took(
    monkeypatch: pytest.MonkeyPatch, device_ns: int, words: str
) -> None:
    row = {
        **dict.fromkeys(("name", "input_shapes"), "x"),
        "call_count": 1,
        "host_sum_ns": 10**6,
        "host_self_sum_ns": 10**6,
        **dict.fromkeys(("device_sum_ns", "device_self_sum_ns"), device_ns),
    }
    monkeypatch.setattr(PageSource, "rows", lambda self, name, keys=(): [row, row] if name == "operators" else [])
    part = operators(PageSource(without_gpu(), judge(without_gpu()), None, Limits(rows=1), Names(100)))
    assert part is not None
    assert f"1 more row, {words}" in part.body


def test_names_that_begin_alike_are_told_apart_and_whole_where_they_are_pointed_at() -> None:
    names = [f"elementwise_kernel<128, 4, gpu_kernel_impl<{kind}<float>>>" for kind in ("AddFunctor", "MulFunctor")]
    rows = [{"name": name} for name in names]
    table = table_markup("t", "Kernels", [PageColumn("kernel", "name", "name", letters=30)], rows, longest=512)
    cells = list(parsed(f"<!doctype html><title>x</title>{table}").iter("td"))
    shown = ["".join(cell.itertext()) for cell in cells]
    assert len(set(shown)) == 2 and max(map(len, shown)) <= 30
    assert [cell.get("title") for cell in cells] == names


def test_more_than_a_dozen_findings_are_folded() -> None:
    findings = tuple(loader_finding(rule=f"rule-{at}", saving_ns=100 - at) for at in range(15))
    root = check_page(page(sick(findings=findings)))
    folded = next(item for item in root.iter("details") if item.get("class") == "more")
    assert len(list(folded.iter("article"))) == 3


@pytest.mark.check
def test_hostile_names_stay_text_and_secrets_stay_secret(tmp_path: Path) -> None:
    with open_run(write_hostile_trace(tmp_path / "trace.json.gz"), store=tmp_path / "store") as run:
        text = page(run.diagnose(), run)
    root = check_page(text)
    assert SECRET not in text
    assert {element.tag for element in root.iter()}.isdisjoint({"img", "iframe", "object", "base", "form"})
    assert "stolen" not in " ".join(
        value for element in root.iter() for name, value in element.attrib.items() if name == "href"
    )
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]", text)
    assert any("window.stolen" in name for name in data_of(text)["names"])


@pytest.mark.check
def test_page_stays_small_whatever_the_names(tmp_path: Path) -> None:
    events = []
    for at in range(3_000):
        name = f"kernel{at}_" + "x" * 4_000
        events.append({"ph": "X", "cat": "cpu_op", "name": name, "ts": at * 100, "dur": 90, "pid": 1, "tid": 1})
        call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at * 100 + 10, "dur": 5}
        events.append({**call, "pid": 1, "tid": 1, "args": {"correlation": at}})
        args = {"correlation": at, "device": 0, "stream": 7}
        events.append(
            {"ph": "X", "cat": "kernel", "name": name, "ts": at * 100 + 30, "dur": 20, "pid": 0, "tid": 7, "args": args}
        )
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    with open_run(path, store=tmp_path / "store") as run:
        text = page(run.diagnose(), run)
    assert len(text.encode()) < MOST_BYTES
    check_page(text)


@pytest.mark.check
def test_what_is_cut_to_keep_a_page_small_is_said(
    run: Run, diagnosis: Diagnosis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html_page, "MOST_BYTES", 10_000)
    text = page(diagnosis, run)
    assert "are cut: names over 128 letters, timelines over 400 slices, tables over 100 rows" in text
    for excerpt in data_of(text)["excerpts"]:
        assert sum(len(lane["boxes"]) // 6 for lane in excerpt["lanes"]) <= 400


def test_a_number_keeps_its_unit_and_backticks_are_code() -> None:
    markup = str(prose_markup("Saves <0.1 % or 3.5 ms of `sql <b>`; step 3 so far, 2 sets"))
    assert markup == (
        'Saves <span class="nb">&lt;0.1 %</span> or <span class="nb">3.5 ms</span> of <code>sql &lt;b&gt;</code>; '
        "step 3 so far, 2 sets"
    )


def test_a_long_name_in_a_sentence_breaks_at_its_joints_and_not_in_a_number() -> None:
    markup = str(prose_markup("most in transformers/image_processing_video.py(235): preprocess, not aten::copy_"))
    assert markup == "most in transformers/<wbr>image_<wbr>processing_<wbr>video.py(235): preprocess, not aten::copy_"


def test_long_code_goes_on_below_and_is_copied_as_it_is() -> None:
    root = parsed(f"<!doctype html><title>x</title><pre>{code_markup('for x in <a>:' + chr(10) + '    y()')}</pre>")
    block = next(root.iter("pre"))
    assert "".join(block.itertext()) == "for x in <a>:\n    y()"
    assert [line.get("class") for line in block] == ["l", "l"]


def test_a_long_name_breaks_at_its_joints_and_a_short_one_never() -> None:
    assert str(cell_markup("aten::copy_")) == '<span class="nb">aten::copy_</span>'
    assert str(cell_markup("a::batched__transpose_16x32<b>")) == (
        '<span class="clip">a::<wbr>batched__<wbr>transpose_<wbr>16x32&lt;<wbr>b&gt;</span>'
    )


def test_a_name_in_parts_breaks_between_them_and_not_in_a_word() -> None:
    assert str(cell_markup("nccl:broadcast_a")) == '<span class="clip">nccl:<wbr>broadcast_<wbr>a</span>'


def test_an_address_breaks_behind_its_slashes() -> None:
    assert str(address_markup("https://a.b/c&d/e.html")) == "https://a.b/<wbr>c&amp;d/<wbr>e.html"


def test_what_is_said_of_steps_fits_columns_and_a_line() -> None:
    few = [StepTime(at, 5_000_000, {}, "warm-up" if at < 2 else "") for at in range(4)]
    assert note_of(few) == "each step by what it was spent on; counted ones take 5.00 ms; * not counted (warm-up)"
    many = [StepTime(at, 5_000_000, {}, "warm-up" if at < 2 else "") for at in range(MOST_COLUMNS + 1)]
    assert note_of(many) == "how long each step takes; counted ones take 5.00 ms; 2 not counted (warm-up)"


def test_what_is_left_out_of_a_table_without_a_title_is_said() -> None:
    table = Table(("name",), (("aten::mm",),), note="12 more in JSON")
    assert '<p class="note">12 more in JSON</p>' in blocks_markup([table])


def test_blocks_alone_are_a_page_too() -> None:
    bar = Bar(
        ("time", "share"),
        (BarPart("compute", "GPU busy", 60, ("6 ms", "60.0 %")), BarPart("host.op", "<op>", 40, ("4 ms", "40.0 %"))),
    )
    sections = [
        Section((Heading("a run <b>", (Text("2 traces"),)), Paragraph("It is slower.", label=Text("so", "bad")))),
        Section((bar, Table(("name", "ms"), (("x</td>", "1"),), right=frozenset({1}))), Heading("What changed")),
    ]
    stream = io.StringIO()
    formats.render(sections, "html", stream)
    root = check_page(stream.getvalue())
    assert numbers_of(root, "data-bucket") == {"compute": 60, "host.op": 40}
    assert "x</td>" in "".join(root.itertext())


def test_run_ledger_stands_above_those_of_devices() -> None:
    devices = (ledger("a", 0, host__op=0.3), ledger("b", 1, host__op=0.1))
    root = check_page(page(replace(sick(), ledgers=devices)))
    assert "Devices" in ["".join(title.itertext()) for title in root.iter("h3")]


def test_a_page_of_tpus_says_tpu_and_the_words_of_its_ledger() -> None:
    one = replace(ledger(dev__h2d=0.3), device_name="TPU v6 Lite")
    source = PageSource(sick(ledgers=(one,)), judge(sick()), None, Limits(), Names(100))
    assert (source.noun, bucket_words("dev.h2d", source.model)) == ("TPU", "waiting for data from the host")
    text = page(sick(ledgers=(one,), findings=(), plans=()))
    assert ">TPU busy with compute</dt>" in text and "GPU busy" not in text.partition('id="trust"')[0]
    mixed = PageSource(sick(ledgers=(one, ledger(device=1))), judge(sick()), None, Limits(), Names(100))
    assert (mixed.noun, mixed.model) == ("GPU", None)


def test_steps_that_are_all_alike_are_not_listed_as_the_slowest() -> None:
    alike = [StepTime(at, 100_000 + at, {"compute": 100_000 + at}) for at in range(40)]
    assert slowest_steps(alike, None) == []
    (table,) = slowest_steps([*alike, StepTime(40, 120_000, {"compute": 100_000, "host.gc": 20_000})], None)
    assert [row[0] for row in table.rows] == ["40"]


@pytest.mark.check
def test_several_formats_come_from_one_analysis(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n", encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    trace = str(root / "sample_traces" / "slow_loader")
    also = [
        "--also",
        f"html={tmp_path / 'r.html'}",
        "--also",
        f"json={tmp_path / 'r.json'}",
        "--also",
        f"markdown={summary}",
    ]
    assert main(["diagnose", trace, "--store", str(tmp_path / "store"), *also]) == 0
    assert "waits for the data loader" in capsys.readouterr().out
    check_page((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["findings"]
    assert summary.read_text(encoding="utf-8").startswith("before\n# slow")
    assert main(["view", trace, "--store", str(tmp_path / "store"), "--no-open"]) == 0
    file = Path(capsys.readouterr().out.strip())
    assert file.read_bytes() == (tmp_path / "r.html").read_bytes()


def test_a_format_that_is_none_is_named(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(root / "sample_traces" / "slow_loader"), "--also", "pdf=x.pdf"]) == 2
    assert "unknown format 'pdf'" in capsys.readouterr().err


@pytest.mark.check
def test_a_time_to_view_that_is_none_names_its_own_option(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = [str(root / "sample_traces" / "slow_loader"), "--store", str(tmp_path)]
    assert main(["view", *run, "--perfetto", "--at", "5-2", "--no-open"]) == 2
    assert "error: --at: '5-2' is no window" in capsys.readouterr().err
