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
    stacks = data.get("stacks") or []
    for at in range(0, len(stacks), 5):
        assert -1 <= stacks[at] < at // 5 and stacks[at + 1] < names


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
