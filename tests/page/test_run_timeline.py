"""The whole-run timeline: it adds up to the ledger, stays small, can be searched, and seen without scripts."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from browser import opened_browser, visit
from html_pages import check_page, data_of, timeline_sums

from traceanalyzer.report.charts.svg import NARROW, WIDE
from traceanalyzer.report.html.page import page
from traceanalyzer.report.html.sections.timeline import (
    CELLS,
    LEAST_CELLS,
    MOST_CELLS,
    MOST_STEPS,
    RunLane,
    Stretch,
    frame_of,
    run_timeline,
    stretches,
)
from traceanalyzer.run import open_run
from traceanalyzer.text.words import bucket_words

MS = 1_000_000


def lane(trace: int, first: int, begin: int, last: int, device: int | None = 0) -> dict[str, Any]:
    return {"trace_id": trace, "device": device, "first_ns": first, "begin_ns": begin, "last_ns": last}


def step(number: int, start: int, end: int, drop_reason: str | None = None) -> dict[str, Any]:
    return {"step": str(number), "start_ns": start, "end_ns": end, "drop_reason": drop_reason}


def test_the_analyzed_time_of_all_ranks_begins_at_one_place() -> None:
    frame = frame_of([lane(0, 100, 150, 1_100), lane(1, 9_000, 9_200, 9_900)], {})
    assert frame.zeros == {0: -50, 1: 9_000}
    assert frame.cell_ns * frame.cell_count >= 1_150


def test_ranks_whose_collectives_end_together_are_on_one_clock() -> None:
    """Rank 1 begins 40 ns after rank 0: its clock is 9,000 ns ahead."""
    lanes = [lane(0, 100, 150, 1_100), lane(1, 9_140, 9_190, 10_100)]
    frame = frame_of(lanes, {0: 0, 1: 9_000})
    assert frame.zeros == {0: 100, 1: 9_100}
    assert frame_of(lanes, {0: 0}).zeros == {0: 100, 1: 9_140}


def test_devices_of_one_trace_share_its_clock() -> None:
    frame = frame_of([lane(0, 100, 150, 1_100, 0), lane(0, 120, 300, 1_200, 1)], {})
    assert frame.zeros == {0: 100}


@pytest.mark.parametrize("lanes", [1, 4, 8, 64])
def test_cells_are_few_however_long_the_run_is(lanes: int) -> None:
    frame = frame_of([lane(trace, 0, 0, 3_600_000 * MS) for trace in range(lanes)], {})
    assert LEAST_CELLS <= frame.cell_count <= min(MOST_CELLS, max(CELLS // lanes, LEAST_CELLS))


def test_a_run_of_a_few_nanoseconds_has_cells_of_one() -> None:
    frame = frame_of([lane(0, 5, 5, 12)], {})
    assert (frame.cell_ns, frame.cell_count) == (1, 7)


def test_steps_are_marks_and_many_share_one() -> None:
    few = stretches([step(0, -5, 10, "warm-up"), step(1, 10, 20)])
    assert few == [Stretch(0, 10, "0", False), Stretch(10, 20, "1", True)]
    many = stretches([step(at, at, at + 1) for at in range(3 * MOST_STEPS)])
    assert len(many) == MOST_STEPS and many[0].name == "0 to 2" and many[-1].end == 3 * MOST_STEPS


def areas(svg: str) -> dict[str, float]:
    """Return the area of the paths of a drawing by their class."""
    found: dict[str, float] = defaultdict(float)
    for path in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}path"):
        for piece in (path.get("d") or "").split("M")[1:]:
            wide, high = piece.split("h")[1].split("v-")
            found[path.get("class", "")] += float(wide) * float(high)
    return dict(found)


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("cells", [7, 600])
def test_areas_of_the_drawing_are_the_times(width: int, cells: int) -> None:
    kept = {at: {"compute": 50, "host-loader": 50} for at in range(cells)}
    svg = run_timeline([RunLane("GPU 0", [Stretch(0, 700, "1", True)], kept, {})], cells, 100, "a run", width=width)
    found = areas(svg)
    assert found["f-compute"] == pytest.approx(found["f-host-loader"])
    # Equal neighbours are one piece.
    assert svg.count("M") == 2 and 'aria-label="a run"' in svg


def test_what_is_outside_the_analyzed_time_is_pale() -> None:
    svg = run_timeline([RunLane("GPU 0", [], {}, {0: {"compute": 100}})], 1, 100, "a run")
    assert 'opacity=".4"' in svg


@pytest.mark.check
def test_kept_cells_add_up_to_the_ledger_of_every_device(root: Path, tmp_path: Path) -> None:
    (source,) = (root / "sample_traces" / "slow_loader").glob("*.json.gz")
    (tmp_path / "run").mkdir()
    for rank in (0, 1):
        shutil.copyfile(source, tmp_path / "run" / f"rank{rank}.json.gz")
    with open_run(tmp_path / "run", store=tmp_path / "store") as run:
        diagnosis = run.diagnose()
        text = page(diagnosis, run)
    check_page(text)
    sums = [{bucket_words(bucket): ns for bucket, ns in item.buckets if ns} for item in diagnosis.ledgers]
    assert timeline_sums(data_of(text)) == sums and len(sums) == 2
    assert [item["label"] for item in data_of(text)["timeline"]["lanes"]] == ["rank 0 GPU", "rank 1 GPU"]


@pytest.mark.check
def test_a_run_without_gpu_has_a_lane_of_the_thread_that_runs_its_steps(root: Path, tmp_path: Path) -> None:
    with open_run(root / "sample_traces" / "torch_cpu_slow_loader", store=tmp_path / "store") as run:
        diagnosis = run.diagnose()
        whole = data_of(page(diagnosis, run))
    (ledger,) = diagnosis.host_ledgers
    assert timeline_sums(whole) == [{bucket_words(bucket): ns for bucket, ns in ledger.buckets}]
    (host,) = whole["timeline"]["lanes"]
    steps = [whole["names"][name] for name in host["boxes"][3::6]]
    assert sum(not name.endswith("not counted") for name in steps) == ledger.step_count
    kinds = {entry["kind"] for entry in whole["timeline"]["index"]}
    assert kinds == {"operator", "range"}


@pytest.fixture(scope="module")
def sample(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a sample trace."""
    folder = tmp_path_factory.mktemp("sample")
    with open_run(root / "sample_traces" / "slow_loader", store=folder / "store") as run:
        (folder / "report.html").write_text(page(run.diagnose(), run), encoding="utf-8")
    return folder / "report.html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for all tests."""
    with opened_browser() as opened:
        yield opened


STRIP = "ta.strips.find((strip) => strip.id === 'timeline')"


@pytest.mark.check
def test_a_name_that_is_looked_for_is_marked_where_it_runs(browser: Any, sample: Path) -> None:
    with visit(browser, sample) as seen:
        seen.page.fill("#whole input", "flash_fwd")
        assert seen.page.locator("ul.found li").count() == 1
        said = seen.page.inner_text("p.found")
        marked = seen.page.evaluate(f"[...{STRIP}.marked.values()].map((cells) => cells.size)")
        whole = seen.page.evaluate("ta.data.timeline")
        names = seen.page.evaluate("ta.data.names")
        (entry,) = [item for item in whole["index"] if "flash_fwd" in names[item["name"]]]
        assert f"{entry['count']} calls" in said and marked == [sum(d != "0" for d in entry["places"][0][2])]
        seen.page.press("#whole input", "Enter")
        a, b = seen.page.evaluate(f"{STRIP}.v")
        assert b - a == pytest.approx(8 * whole["cell"] * whole["each"], rel=0.01)
        seen.page.fill("#whole input", "no such name")
        assert seen.page.inner_text("p.found").startswith("0 of ")
        assert seen.page.evaluate(f"{STRIP}.marked.size") == 0


@pytest.mark.check
def test_a_step_can_be_chosen_and_a_link_restores_it(browser: Any, sample: Path) -> None:
    with visit(browser, sample) as seen:
        seen.page.select_option("#whole .steps select", label="3")
        a, b = seen.page.evaluate(f"{STRIP}.v")
        boxes = seen.page.evaluate("ta.data.timeline.lanes[0].boxes")
        start, length = boxes[3 * 6 + 1], boxes[3 * 6 + 2]
        assert a < start and start + length < b and b - a < 1.1 * length
        seen.wait_for("location.hash.startsWith('#timeline@')")
        fragment = seen.page.evaluate("location.hash")
    with visit(browser, sample, fragment) as seen:
        assert seen.page.evaluate(f"{STRIP}.v") == pytest.approx([a, b], abs=1)


@pytest.mark.check
def test_a_column_says_what_its_time_was_spent_on(browser: Any, sample: Path) -> None:
    with visit(browser, sample) as seen:
        said = seen.page.evaluate(f"{STRIP}.columnWords({STRIP}.lanes[0], ta.data.timeline.length / 2)")
    assert said.startswith("GPU 0: ") and " ms of the trace" in said
    assert "GPU busy with compute" in said or "waiting for the data loader" in said


@pytest.mark.check
def test_without_scripts_the_timeline_is_a_drawing(browser: Any, sample: Path) -> None:
    context = browser.new_context(java_script_enabled=False, offline=True)
    try:
        quiet = context.new_page()
        quiet.goto(sample.as_uri())
        assert quiet.locator("#whole svg:visible").count() == 1
        assert not quiet.locator("#whole .tools").is_visible()
        quiet.click(".summary summary")
        assert "waits for the data loader" in quiet.inner_text(".summary pre")
    finally:
        context.close()
    with visit(browser, sample) as seen:
        assert seen.page.locator("#whole svg:visible").count() == 0
        assert seen.page.locator("#whole canvas").is_visible()


@pytest.mark.check
def test_summary_and_links_to_findings_are_copied(browser: Any, sample: Path) -> None:
    with visit(browser, sample) as seen:
        seen.page.evaluate(
            "Object.defineProperty(navigator, 'clipboard', "
            "{ value: { writeText: async (text) => { window.copied = text; } } })"
        )
        seen.page.click(".summary .copy")
        lines = seen.page.evaluate("window.copied").split("\n")
        assert lines[0].startswith("slow_loader: ") and lines[1].startswith("cause: ") and lines[2].startswith("fix: ")
        assert lines[3].startswith("time: GPU busy with compute 39.6 %, waiting for the data loader 60.0 %")
        seen.page.locator("article .anchor").first.click()
        address = seen.page.evaluate("window.copied")
        name = seen.page.get_attribute("article", "id")
        assert address == f"{sample.as_uri()}#{name}"
