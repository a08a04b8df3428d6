"""The page of a comparison, and its form in a notebook: whole, harmless, and with the numbers of the comparison."""

from __future__ import annotations

import io
from xml.etree.ElementTree import Element

import pytest
from drawn_summaries import capture, finding
from html_pages import check_page

from traceanalyzer.comparison.comparing import Diff, compare
from traceanalyzer.comparison.gate import check_diff
from traceanalyzer.report import formats
from traceanalyzer.report.html.diff_page import DOT_PX

HOSTILE = '</script><img src=x onerror="stolen()">\u202e'
BASE = [
    capture((ms, ms + 1, ms - 1), label=f"slow {ms}", waits_ms={"host.dataloader": 20.0}, findings=[finding()])
    for ms in (100.0, 101.5, 99.5)
]
NEW = [
    capture((ms, ms + 1, ms - 1), label=f"fast {ms}", waits_ms={"host.op": 1.0}, outcomes={"dataloader-bound": "clear"})
    for ms in (81.0, 81.5, 80.8)
]
HOSTILE_SIDE = [capture(label=HOSTILE, kernels={HOSTILE: (40, 100.0)}, findings=[finding(title=HOSTILE)])]
PAIRS = {
    "faster": (BASE, NEW),
    "slower": (NEW, BASE),
    "the same": (BASE, BASE),
    "unsure": (BASE[:1], NEW[:1]),
    "without steps": ([capture(has_steps=False)], [capture((110.0,) * 4, has_steps=False)]),
    "not comparable": (BASE, [capture(blocked="Most events were removed (tq-thinned)")]),
    "hostile": (HOSTILE_SIDE, NEW),
}


def written(diff: Diff) -> str:
    stream = io.StringIO()
    formats.write_diff(diff, check_diff(diff, (), ["any"]), "html", stream)
    return stream.getvalue()


def deltas(root: Element) -> list[int]:
    """Return the differences of the drawing, of which there is one for a desk and one for a phone."""
    found = [int(row.get("data-delta-ns", 0)) for row in root.iter() if row.get("data-delta-ns")]
    half = len(found) // 2
    assert found[:half] == found[half:]
    return found[:half]


@pytest.mark.parametrize("name", PAIRS)
def test_page_is_whole_and_its_rows_add_up(name: str) -> None:
    diff = compare(*PAIRS[name])
    text = written(diff)
    root = check_page(text)
    assert sum(deltas(root)) == diff.delta_ns
    (headline,) = root.iter("h1")
    assert headline.get("data-state") == diff.judgement.verdict
    assert {element.tag for element in root.iter()}.isdisjoint({"img", "iframe", "form"})
    assert written(diff) == text


def test_page_has_the_sections_of_the_comparison() -> None:
    root = check_page(written(compare(BASE, NEW)))
    titles = ["".join(title.itertext()) for title in root.iter("h2")]
    assert titles == ["Gate", "What the difference is made of", "Captures", "Findings", "Promised and saved"]
    tiles = ["".join(tile.itertext()) for tile in root.iter("dd")]
    assert tiles[::2][2:] == ["−19.2 %", "1 gone"]
    # A dot for each step, in both drawings.
    assert sum(item.get("r") == str(DOT_PX) for item in root.iter()) == 2 * 3 * len([*BASE, *NEW])


def test_sides_that_are_not_comparable_have_no_change_in_their_headline_numbers() -> None:
    diff = compare(NEW, [capture(blocked="Most events were removed (tq-thinned)")])
    root = check_page(written(diff))
    assert diff.delta_ns > 0
    tiles = ["".join(tile.itertext()) for tile in root.iter("dd")]
    assert tiles[4:6] == ["–", "not comparable"]
    (headline,) = root.iter("h1")
    assert "%" not in "".join(headline.itertext())


@pytest.mark.parametrize("name", PAIRS)
def test_notebook_shows_a_comparison_without_scripts(name: str) -> None:
    diff = compare(*PAIRS[name])
    shown = diff._repr_html_()
    assert len(shown.encode()) <= 60_000
    assert "<script" not in shown and "<img" not in shown and "\u202e" not in shown
    assert ("data-delta-ns" in shown) == bool(diff.delta_ns)
    # A notebook has no style sheet of ours: numbers stand at the right by themselves.
    assert shown.count('class="num"') == shown.count('class="num" style="text-align:right"')
