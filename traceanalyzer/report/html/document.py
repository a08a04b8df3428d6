"""The frame of every HTML report: head, styles, one script under a strict policy, and the data that it reads.

Templates are filled with what a report says, and blocks become HTML; every text is escaped, and steers nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, TextIO

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from traceanalyzer.report.blocks import Bar, Block, Heading, Section
from traceanalyzer.report.charts import svg
from traceanalyzer.report.charts.ledger_charts import ledger_bar
from traceanalyzer.report.charts.svg import NARROW, WIDE, Svg, hatch_patterns, token_of
from traceanalyzer.report.renderers.page import fitted
from traceanalyzer.text.visible import masked, one_line, visible

# Letters of code that have room in a card, and over the whole width.
CARD_CODE = 62
WIDE_CODE = 120


def blocks_markup(
    blocks: Sequence[Block | Markup], *, level: int = 3, alone: bool = False, width: int = WIDE_CODE
) -> Markup:
    """Return blocks one after the other; headings among them have this level, and code has room for `width` letters.

    Those that stand `alone` bring their colours and have no buttons, as there are no styles and no script.
    """
    drawn = [bar_markup(block, alone=alone) if isinstance(block, Bar) else block for block in blocks]
    return filled("blocks.html", {"blocks": drawn, "level": level, "alone": alone, "width": width})


def bar_markup(bar: Bar, *, alone: bool = False) -> Markup:
    """Return a bar for a desk and, unless it stands `alone`, for a phone, and its legend as a table."""
    drawn = [ledger_bar(bar, width=width, alone=alone) for width in ((WIDE,) if alone else (WIDE, NARROW))]
    rows = [(part, token_of(part.key)) for part in bar.parts]
    values = {
        "drawn": drawn,
        "rows": rows,
        "columns": bar.columns,
        "alone": alone,
        "codes": any(part.note for part in bar.parts),
    }
    return filled("bar.html", values)


# Names of traces have no limit; what is cut ends in an ellipsis.
LONGEST_NAME = 512
# A number and its unit stay on one line.
_QUANTITY = re.compile(r"(?:[−+]|&lt;)?\d[\d,.]* (?:%|[nµm]?s|[KMGT]?i?B|[GT]B/s|[GT]FLOP/s)(?!\w)")
# A name as short as this is never broken; a longer one is broken behind these.
_SHORT_LETTERS = 12
_JOINTS = re.compile(r"(?:::?|[_/.,<(])(?=[A-Za-z0-9])|[a-z0-9](?=[A-Z][a-z])")
_CODE = re.compile(r"`([^`]+)`")
_LONG_WORD = re.compile(r"[^\s`]{24,}")
_WORD_JOINTS = re.compile(r"(?<=[/_])(?=[A-Za-z0-9])|(?<=::)(?=\w)")


def filled(template: str, values: Mapping[str, Any]) -> Markup:
    """Return a template with its values; texts among them are escaped unless they are markup already."""
    return Markup(_environment().get_template(template).render(values))


def code_markup(code: str, lang: str = "", width: int = WIDE_CODE) -> Markup:
    """Return code in lines of this width where its language allows it; each is an element, for a phone to indent it."""
    lines = [escape(visible(line)) for line in fitted(code, lang, width)]
    return Markup("\n</span>").join(Markup('<span class="l">') + line for line in lines) + Markup("</span>")


def prose_markup(text: str) -> Markup:
    """Return a sentence as markup: numbers keep their units, long names break at joints, and backticks are code."""
    broken = _LONG_WORD.sub(lambda word: _WORD_JOINTS.sub("<wbr>", word[0]), str(escape(one_line(text))))
    quantities = _QUANTITY.sub(r'<span class="nb">\g<0></span>', broken)
    return Markup(_CODE.sub(r"<code>\1</code>", quantities))


def cell_markup(text: str) -> Markup:
    """Return a name in a narrow cell as markup: on one line where it is short, else on two, broken at its joints."""
    if len(text) <= _SHORT_LETTERS:
        return Markup('<span class="nb">{}</span>').format(one_line(text))
    pieces = _JOINTS.sub(r"\g<0>\n", one_line(text)).split("\n")
    return Markup('<span class="clip">{}</span>').format(Markup("<wbr>").join(pieces))


def address_markup(address: str) -> Markup:
    """Return an address as markup that breaks behind its slashes, and so not before its last letter."""
    return Markup("<wbr>").join(re.split(r"(?<=[^/]/)(?=[^/])", one_line(address)))


def shown_name(name: str | None, longest: int = LONGEST_NAME) -> str:
    """Return a name from a trace as a page shows it: on one line, its secrets masked, cut where it is very long."""
    if name is None:
        return "–"
    text = one_line(masked(name[: 4 * longest]))
    return text if len(text) <= longest else text[: longest - 1] + "…"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_harmless,
    )
    environment.filters["code"] = code_markup
    environment.filters["address"] = address_markup
    environment.filters["cell"] = cell_markup
    environment.filters["prose"] = prose_markup
    environment.tests["svg"] = lambda value: isinstance(value, Svg)
    environment.globals["kind"] = _kind
    return environment


def _harmless(value: Any) -> Any:
    return one_line(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _kind(block: Block) -> str:
    return type(block).__name__


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
    return svg.style_sheet() + _asset("page.css")


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
