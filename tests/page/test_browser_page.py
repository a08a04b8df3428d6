"""The page in a real browser: without a network and without errors, by mouse, by keys, without scripts, and printed."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import check_accessibility, opened_browser, visit
from drawn_summaries import capture, finding
from hostile_trace import write_hostile_trace

from traceanalyzer.comparison.comparing import compare
from traceanalyzer.report import formats
from traceanalyzer.report.html.page import page
from traceanalyzer.run import open_run

pytestmark = pytest.mark.check

WIDTHS = (320, 390, 768, 1200, 1920)
STRIP = "figure.timeline canvas"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for all tests."""
    with opened_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def sample(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a sample trace."""
    return _written(root / "sample_traces" / "slow_loader", tmp_path_factory.mktemp("sample"))


@pytest.fixture(scope="module")
def difference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a comparison."""
    base, new = (
        [capture((ms, ms + 1), waits_ms={"host.op": ms / 10}, findings=[finding()]) for ms in side]
        for side in ((100.0, 101.5, 99.5), (81.0, 81.5, 80.8))
    )
    file = tmp_path_factory.mktemp("difference") / "report.html"
    with file.open("w", encoding="utf-8") as stream:
        formats.write_diff(compare(base, new), None, "html", stream)
    return file


@pytest.fixture(scope="module")
def ranks(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run of two ranks with steps."""
    folder = tmp_path_factory.mktemp("ranks")
    (source,) = (root / "sample_traces" / "slow_loader").glob("*.json.gz")
    (folder / "run").mkdir()
    for rank in (0, 1):
        shutil.copyfile(source, folder / "run" / f"rank{rank}.json.gz")
    return _written(folder / "run", folder)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a hostile trace."""
    folder = tmp_path_factory.mktemp("hostile")
    return _written(write_hostile_trace(folder / "trace.json.gz"), folder)


def _written(trace: Path, folder: Path) -> Path:
    file = folder / "report.html"
    with open_run(trace, store=folder / "store") as run:
        file.write_text(page(run.diagnose(), run), encoding="utf-8")
    return file


def test_page_asks_for_nothing_but_itself_and_finds_no_error(browser: Any, sample: Path) -> None:
    with visit(browser, sample) as seen:
        assert seen.page.title().startswith("slow_loader")
        assert seen.page.evaluate("ta.data.excerpts.length") > 0
        assert seen.page.evaluate("ta.strips.length") > 1


def test_theme_button_switches_and_is_remembered(browser: Any, sample: Path) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    with visit(browser, sample, color_scheme="dark") as seen:
        dark = seen.page.evaluate(ground)
        seen.page.click("#theme")
        light = seen.page.evaluate(ground)
        assert dark != light
        assert seen.page.evaluate("document.documentElement.dataset.theme") == "light"
        assert seen.page.inner_text("#theme") == "Dark"


def test_tables_sort_by_value_and_filter_by_name(browser: Any, sample: Path) -> None:
    with visit(browser, sample) as seen:
        calls = "[...document.querySelectorAll('#t-kernels tbody tr')].map((row) => Number(row.cells[2].dataset.v))"
        seen.page.click("#t-kernels thead th:nth-child(3) button")
        assert seen.page.evaluate(calls) == sorted(seen.page.evaluate(calls), reverse=True)
        assert seen.page.get_attribute("#t-kernels thead th:nth-child(3)", "aria-sort") == "descending"
        seen.page.click("#t-kernels thead th:nth-child(3) button")
        assert seen.page.evaluate(calls) == sorted(seen.page.evaluate(calls))
        seen.page.fill("[data-for=t-operators] input", "FLASH_attention_forw")
        shown = seen.page.locator("#t-operators tbody tr:visible")
        assert shown.count() == 1 and "flash_attention_forward" in shown.first.inner_text()
        assert seen.page.inner_text("[data-for=t-operators] [role=status]").startswith("1 of ")


def test_keys_zoom_and_pan_by_exact_shares(browser: Any, sample: Path) -> None:
    with visit(browser, sample) as seen:
        length = seen.page.evaluate("ta.data.excerpts[0].length")
        assert seen.visible() == [0, length]
        seen.page.focus(STRIP)
        seen.page.keyboard.press("+")
        assert seen.visible() == pytest.approx([length / 4, length * 3 / 4], abs=1)
        seen.page.keyboard.press("ArrowRight")
        assert seen.visible() == pytest.approx([length * 0.35, length * 0.85], abs=1)
        seen.page.keyboard.press("-")
        assert seen.visible() == [0, length]
        seen.page.keyboard.press("n")
        assert seen.page.locator(".tip").is_visible()
        seen.page.keyboard.press("Enter")
        assert seen.page.evaluate("ta.strips[0].focus") >= 0
        assert seen.visible()[1] - seen.visible()[0] < length
        seen.page.keyboard.press("0")
        assert seen.visible() == [0, length]


def test_mouse_pans_zooms_with_control_and_leaves_the_wheel_to_the_page(browser: Any, sample: Path) -> None:
    with visit(browser, sample) as seen:
        seen.page.locator(STRIP).first.scroll_into_view_if_needed()
        box = seen.page.locator(STRIP).first.bounding_box()
        middle = (box["x"] + 148 + (box["width"] - 148) / 2, box["y"] + 30)
        length = seen.page.evaluate("ta.data.excerpts[0].length")
        seen.page.mouse.move(*middle)
        seen.page.mouse.wheel(0, 10)
        assert seen.visible() == [0, length]
        seen.page.keyboard.down("Control")
        seen.page.mouse.wheel(0, -100)
        seen.page.keyboard.up("Control")
        seen.wait_for("ta.strips[0].v[0] > 0")
        before = seen.visible()
        assert before[1] - before[0] == pytest.approx(0.8 * length, rel=1e-6)
        box = seen.page.locator(STRIP).first.bounding_box()
        middle = (middle[0], box["y"] + 30)
        seen.page.mouse.move(*middle)
        seen.page.mouse.down()
        seen.page.mouse.move(middle[0] + 40, middle[1], steps=4)
        seen.page.mouse.up()
        moved = before[0] - seen.visible()[0]
        assert moved == pytest.approx(40 / (box["width"] - 148) * (before[1] - before[0]), rel=0.02)
        seen.page.mouse.dblclick(*middle)
        assert seen.visible() == [0, length]


def test_what_is_seen_stands_in_the_address_and_a_link_restores_it(browser: Any, sample: Path) -> None:
    with visit(browser, sample) as seen:
        seen.page.focus(STRIP)
        seen.page.keyboard.press("+")
        seen.wait_for("location.hash.includes('@')")
        fragment = seen.page.evaluate("location.hash")
        shown = seen.visible()
    match = re.fullmatch(r"#(f-[\w-]+)@(\d+)-(\d+)", fragment)
    assert match is not None and [int(match[2]), int(match[3])] == pytest.approx(shown, abs=0.5)
    with visit(browser, sample, fragment) as seen:
        assert seen.visible() == pytest.approx(shown, abs=0.5)
        seen.wait_for(f"document.getElementById('{match[1]}').getBoundingClientRect().top < 200")
    for unknown in ("#f-nothing@1-2", "#top@", "#f-%E0%A4%A@1-2"):
        with visit(browser, sample, unknown) as seen:
            assert seen.visible()[0] == 0


def test_a_click_on_evidence_shows_its_place(browser: Any, sample: Path) -> None:
    with visit(browser, sample) as seen:
        before = seen.page.evaluate("ta.strips[0].picture.at")
        seen.page.click("article tr[data-excerpt]:nth-child(2)")
        after = seen.page.evaluate("ta.strips[0].picture.at")
        assert before != after
        assert seen.page.get_attribute("article tr[data-excerpt]:nth-child(2)", "aria-current") == "true"


def test_the_command_for_perfetto_names_the_place_that_is_shown(browser: Any, sample: Path) -> None:
    with visit(browser, sample) as seen:
        seen.page.click("article tr[data-excerpt]:nth-child(2)")
        command = seen.page.inner_text("article .open code")
        first, last = (float(ms) * 1e6 for ms in command.rpartition(" --at ")[2].split("-"))
        picture = seen.page.evaluate("ta.strips[0].picture")
        assert command.startswith("traceanalyzer view slow_loader --perfetto --at ")
        assert first == pytest.approx(picture["at"], abs=1)
        assert last - first == pytest.approx(picture["length"] + picture["cut"][1], abs=2)


def test_roofline_can_be_read_and_sorted(browser: Any, sample: Path) -> None:
    with visit(browser, sample) as seen:
        assert seen.page.locator("#roofline svg:visible").count() <= 1
        times = "[...document.querySelectorAll('#t-roofline tbody tr')].map((row) => Number(row.cells[3].dataset.v))"
        seen.page.click("#t-roofline thead th:nth-child(4) button")
        assert seen.page.evaluate(times) == sorted(seen.page.evaluate(times), reverse=True)


def test_flame_graph_changes_with_what_its_width_is(browser: Any, sample: Path) -> None:
    with visit(browser, sample) as seen:
        before = seen.page.evaluate("ta.strips.at(-1).picture.length")
        seen.page.select_option("#flames select", index=1)
        assert seen.page.evaluate("ta.strips.at(-1).picture.length") != before
        assert seen.page.evaluate("ta.strips.at(-1).boxes.length") > 3


def test_colours_of_ranks_change_between_the_time_and_the_median(browser: Any, ranks: Path) -> None:
    with visit(browser, ranks) as seen:
        for value, other in (("relative", "absolute"), ("absolute", "relative")):
            seen.page.check(f"#ranks [value={value}]")
            assert seen.page.locator(f"#ranks .{value} svg:visible").count() == 1
            assert seen.page.locator(f"#ranks .{other} svg:visible").count() == 0


def test_without_scripts_every_section_can_be_read(browser: Any, sample: Path) -> None:
    with visit(browser, sample) as seen:
        titles = seen.page.locator("h2").all_inner_texts()
    context = browser.new_context(java_script_enabled=False, offline=True)
    try:
        quiet = context.new_page()
        quiet.goto(sample.as_uri())
        assert quiet.locator("h2:visible").all_inner_texts() == titles
        assert quiet.locator("button:visible").count() == 0
        assert quiet.locator("svg[role=img]:visible").count() >= 3
        assert "The timeline needs scripts" in quiet.inner_text("main")
    finally:
        context.close()


def test_nothing_of_a_hostile_trace_runs_or_is_asked_for(browser: Any, hostile: Path) -> None:
    with visit(browser, hostile) as seen:
        assert seen.page.evaluate("window.stolen") is None
        assert seen.page.locator("h2").last.inner_text() == "How far to trust it"
        for strip in range(seen.page.evaluate("ta.strips.length")):
            seen.page.evaluate(f"ta.strips[{strip}].step(1)")
        seen.page.locator(".copy").first.dispatch_event("click")
        assert seen.page.locator("img, main script, main iframe").count() == 0


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_scrolls_sideways(browser: Any, sample: Path, difference: Path, hostile: Path, width: int) -> None:
    for file in (sample, difference, hostile):
        with visit(browser, file, viewport={"width": width, "height": 800}) as seen:
            assert seen.page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_summary_can_be_read_on_a_phone_and_notes_of_tiles_are_whole(browser: Any, sample: Path) -> None:
    cut = (
        "[...document.querySelectorAll('.tiles dd, .summary pre')].filter((e) => e.scrollWidth > e.clientWidth).length"
    )
    for width in (390, 1400):
        with visit(browser, sample, viewport={"width": width, "height": 800}) as seen:
            seen.page.click(".summary summary")
            seen.page.evaluate(
                "document.querySelector('.tiles dd.dim').textContent = 'Tesla V100-DGXS-32GB, in 2 recordings'"
            )
            assert seen.page.evaluate(cut) == 0
            assert seen.page.evaluate("document.querySelector('.summary pre').clientWidth") > 0.7 * min(width, 1000)


def test_names_in_evidence_can_be_read_on_a_phone(browser: Any, sample: Path) -> None:
    names = "[...document.querySelectorAll('.evidence td:has(.clip)')].map((cell) => cell.clientWidth)"
    with visit(browser, sample, viewport={"width": 320, "height": 800}) as seen:
        widths = seen.page.evaluate(names)
        lines = seen.page.evaluate("getComputedStyle(document.querySelector('.evidence .clip')).webkitLineClamp")
    assert widths and min(widths) >= 100
    # Names that begin alike differ within so many lines.
    assert lines == "4"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 1200])
def test_accessibility_has_no_violation(browser: Any, sample: Path, difference: Path, scheme: str, width: int) -> None:
    for file in (sample, difference):
        check_accessibility(browser, file, color_scheme=scheme, viewport={"width": width, "height": 900})


def test_page_prints(browser: Any, sample: Path) -> None:
    with visit(browser, sample, color_scheme="dark") as seen:
        printed = seen.page.pdf(format="A4")
        assert printed.startswith(b"%PDF") and len(printed) > 20_000
        seen.page.emulate_media(media="print")
        assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert not seen.page.locator("header").is_visible()
        # A sheet of A4 is as narrow as a phone, and has room for the drawings of a desk.
        seen.page.set_viewport_size({"width": 718, "height": 900})
        assert seen.page.locator("#time .wide svg").first.is_visible()
        assert not seen.page.locator("#time .narrow svg").first.is_visible()


def test_a_dark_page_is_printed_with_light_timelines(browser: Any, sample: Path) -> None:
    ground = "[...ta.strips[0].canvas.getContext('2d').getImageData(2, 2, 1, 1).data].slice(0, 3)"
    with visit(browser, sample, color_scheme="dark") as seen:
        assert max(seen.page.evaluate(ground)) < 64
        seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert min(seen.page.evaluate(ground)) > 224
        seen.page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert max(seen.page.evaluate(ground)) < 64


def test_a_printed_table_that_is_cut_says_so(browser: Any, sample: Path) -> None:
    note = "getComputedStyle(document.querySelector('.tall:has(#t-kernels)'), '::after').content"
    with visit(browser, sample) as seen:
        seen.page.emulate_media(media="print")
        assert seen.page.evaluate(note) == "none"
        seen.page.evaluate(
            "document.querySelector('#t-kernels tbody').append("
            "...Array.from({ length: 30 }, () => document.querySelector('#t-kernels tbody tr').cloneNode(true)))"
        )
        assert "25 rows" in seen.page.evaluate(note)


def test_what_the_notebook_shows_can_be_read_in_a_browser(browser: Any, root: Path, tmp_path: Path) -> None:
    cells = json.loads((root / "docs" / "notebook.ipynb").read_text(encoding="utf-8"))["cells"]
    shown = [output["data"].get("text/html") for cell in cells for output in cell.get("outputs", [])]
    ours = [html for html in map("".join, filter(None, shown)) if html.startswith('<div class="traceanalyzer"')]
    assert len(ours) > 2
    file = tmp_path / "notebook.html"
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Notebook</title><link rel="icon" href="data:,">'
    file.write_text(f"{head}<main><h1>Notebook</h1><h2>Outputs</h2>{''.join(ours)}</main>", encoding="utf-8")
    check_accessibility(browser, file)


def test_one_cell_that_is_hard_to_read_is_found_among_many_that_look_alike(browser: Any, tmp_path: Path) -> None:
    rows = "".join(f"<tr><td{' class=faint' if row == 150 else ''}>{row}</td></tr>" for row in range(200))
    file = tmp_path / "report.html"
    head = '<!doctype html><html lang="en"><title>Cells</title><style>.faint { color: #bbb }</style>'
    file.write_text(f"{head}<main><h1>Cells</h1><table><thead><tr><th>row<tbody>{rows}</table></main>")
    with pytest.raises(AssertionError, match="color-contrast"):
        check_accessibility(browser, file)
    file.write_text(file.read_text().replace("#bbb", "#333"))
    check_accessibility(browser, file)
