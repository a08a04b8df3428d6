"""Pages as a test reads them: parsed strictly, with what every page must keep to."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
from collections import Counter
from typing import Any
from xml.etree.ElementTree import Element

from tiers import needed

_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)
_POLICY = re.compile(r"script-src 'sha256-([^']+)'")
MOST_BYTES = 2_000_000


def parsed(page: str) -> Element:
    """Return the tree of a page; fails where an HTML5 parser finds an error."""
    html5lib = needed("html5lib")
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
    root: Element = parser.parse(page)
    return root


def data_of(page: str) -> Any:
    """Return the data that the page's script draws."""
    match = _DATA.search(page)
    assert match is not None and "<" not in match[1]
    return json.loads(match[1])


def check_page(page: str) -> Element:
    """Assert what holds of every page, and return its tree."""
    root = parsed(page)
    assert len(page.encode()) < MOST_BYTES
    ids = Counter(element.get("id") for element in root.iter() if element.get("id"))
    assert [name for name, count in ids.items() if count > 1] == []
    for element in root.iter():
        assert not any(name.lower().startswith("on") for name in element.attrib), element.attrib
        link = element.get("href")
        if link and link.startswith("#"):
            assert link[1:] in ids, link
        elif link:
            assert link.startswith(("https://", "data:")), link
        assert element.get("src") is None
        for label in (element.get("aria-labelledby") or "").split():
            assert label in ids, label
    scripts = list(root.iter("script"))
    assert [script.get("type") for script in scripts] == [None, "application/json"]
    script, policy = _SCRIPT.search(page), _POLICY.search(page)
    assert script is not None and policy is not None
    assert base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode() == policy[1]
    levels = [int(element.tag[1]) for element in root.iter() if element.tag in ("h1", "h2", "h3", "h4")]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(below - above <= 1 for above, below in itertools.pairwise(levels))
    check_data(data_of(page))
    return root


def check_data(data: Any) -> None:
    """Assert that all that the script draws lies where it is said to lie, and is named."""
    names, tokens = len(data.get("names", [])), len(data.get("tokens", []))
    for excerpt in data.get("excerpts", []):
        assert excerpt["length"] > 0
        for lane in excerpt["lanes"]:
            line = lane.get("line", [])
            assert line[::2] == sorted(line[::2]) and all(0 <= time <= excerpt["length"] for time in line[::2])
            assert all(value >= 0 for value in line[1::2]) and bool(line) != bool(lane["boxes"])
            boxes = [lane["boxes"][at : at + 6] for at in range(0, len(lane["boxes"]), 6)]
            for row, start, length, name, token, link in boxes:
                assert 0 <= row < lane["rows"] and name < names and token < tokens and link >= 0
                assert 0 <= start and length >= 0 and start + length <= excerpt["length"]
    check_timeline(data.get("timeline"), names, tokens)
    stacks = data.get("stacks") or []
    for at in range(0, len(stacks), 5):
        assert -1 <= stacks[at] < at // 5 and stacks[at + 1] < names


def check_timeline(whole: Any, names: int, tokens: int) -> None:
    """Assert that a whole-run timeline has few cells, none holds more than its length, and all it names is there."""
    if not whole:
        return
    count = whole["length"] // whole["cell"]
    assert count * whole["cell"] == whole["length"] and count * len(whole["lanes"]) <= 6_144
    assert all(token < tokens for token, _ in whole["buckets"])
    for lane in whole["lanes"]:
        held: Counter[int] = Counter()
        for numbers in (lane["cells"], lane["outside"]):
            for cell, bucket, dur_ns in zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True):
                assert 0 <= cell < count and bucket < len(whole["buckets"]) and dur_ns > 0
                held[cell] += dur_ns
        assert max(held.values()) <= whole["cell"]
        ends = [start + length for start, length in zip(lane["boxes"][1::6], lane["boxes"][2::6], strict=True)]
        assert len(ends) <= 401 and all(0 < end <= whole["length"] + whole["cell"] for end in ends)
    for entry in whole["index"]:
        assert entry["name"] < names and entry["count"] > 0
        for _, first, digits in entry["places"]:
            assert first >= 0 and digits[0] != "0" and digits[-1] != "0"
            assert (first + len(digits) - 1) * whole["each"] < count


def timeline_sums(data: Any) -> list[dict[str, int]]:
    """Return for each lane of the whole-run timeline the time in the analyzed part of its ledger, by words."""
    sums = []
    for lane in data["timeline"]["lanes"]:
        held: Counter[str] = Counter()
        for bucket, dur_ns in zip(lane["cells"][1::3], lane["cells"][2::3], strict=True):
            held[data["timeline"]["buckets"][bucket][1]] += dur_ns
        sums.append(dict(held))
    return sums


def numbers_of(root: Element, attribute: str) -> dict[str, int]:
    """Return the numbers that elements carry as `data-ns` by another attribute of theirs."""
    return {
        str(element.get(attribute)): int(element.get("data-ns") or 0)
        for element in root.iter()
        if element.get(attribute) and element.get("data-ns")
    }


def drops_of(root: Element) -> list[tuple[str, int, int]]:
    """Return rule, saving and time left of each row of the drawings of the plan."""
    rows = [element for element in root.iter() if element.get("data-left-ns")]
    return [(row.get("data-rule", ""), int(row.get("data-ns", 0)), int(row.get("data-left-ns", 0))) for row in rows]
