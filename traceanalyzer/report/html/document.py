"""The frame of every HTML report: head, styles, one script under a strict policy, and the data that it reads."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, TextIO

from markupsafe import Markup

from traceanalyzer.report.blocks import Heading, Section
from traceanalyzer.report.charts import palette
from traceanalyzer.report.charts.svg import hatch_patterns
from traceanalyzer.report.html.markup import blocks_markup, filled

REPORT_VERSION = 1
_ASSETS = Path(__file__).parent / "assets"
# In this order they are one script.
_SCRIPTS = ("page.js", "tables.js", "strips.js", "whole.js")


@dataclass(frozen=True)
class Part:
    """A section of a document: `id` and `nav` are its place in the links at the top; without `nav` it has none.

    `data` is what the script draws in it.
    """

    id: str
    title: str
    body: Markup
    nav: str = ""
    note: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


def part_of(section: Section, id_: str, body: Markup | None = None, nav: str = "") -> Part:
    """Return a section of a report as a part, with its heading; its blocks are the body unless another is given."""
    blocks = blocks_markup(section.blocks) if body is None else body
    if section.heading is None:
        return Part(id_, "", blocks)
    return Part(id_, section.heading.title, blocks, nav, " · ".join(item.words for item in section.heading.notes))


def document(name: str, parts: Sequence[Part], data: dict[str, Any] | None = None, foot: Markup | str = "") -> str:
    """Return a whole HTML file of parts; `data` is what the script draws, which is no part of the text."""
    script = _script()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    values = {
        "name": name,
        "parts": parts,
        "version": REPORT_VERSION,
        "script": Markup(script),
        "script_hash": digest,
        "style": Markup(style()),
        "patterns": Markup(hatch_patterns()),
        "data": json_markup({"report_data_version": REPORT_VERSION, **(data or {})}),
        "foot": foot,
    }
    return str(filled("document.html", values)) + "\n"


def json_markup(value: Any) -> Markup:
    """Return JSON that can stand in a script element: no `<` or `>` in it can end the element or a comment."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(
        text.replace("<", "\\u003c").replace(">", "\\u003e").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    )


@cache
def style() -> str:
    """Return the style sheet of a page."""
    return palette.style_sheet() + _asset("page.css")


@cache
def _script() -> str:
    text = "".join(_asset(name) for name in _SCRIPTS)
    if "</" in text or "<!--" in text:
        raise ValueError("a script must not hold what ends its element")
    return "\n" + text


@cache
def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


_MOST_LINKS = 7


def render(sections: Sequence[Section], stream: TextIO) -> None:
    """Write a whole HTML file; the first heading among the blocks is its name."""
    titles = [block.title for section in sections for block in section.blocks if isinstance(block, Heading)]
    parts = [_part(section, f"s-{at}", at < _MOST_LINKS) for at, section in enumerate(sections)]
    stream.write(document(titles[0] if titles else "report", parts))


def _part(section: Section, id_: str, linked: bool) -> Part:
    heading = section.heading
    if heading is None:
        return Part("", "", blocks_markup(section.blocks, level=1))
    mark = f"{heading.mark.words}  " if heading.mark else ""
    tag = f" ({heading.tag})" if heading.tag else ""
    nav = heading.title if linked and len(heading.title) <= 24 else ""
    return replace(part_of(section, id_, nav=nav), title=f"{mark}{heading.title}{tag}")
