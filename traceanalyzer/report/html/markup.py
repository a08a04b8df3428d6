"""Templates filled with what a report says; every text is escaped, and steers nothing.

Blocks of a report as HTML.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from traceanalyzer.report.blocks import Bar, Block
from traceanalyzer.report.charts.ledger_bar import ledger_bar
from traceanalyzer.report.charts.palette import token_of
from traceanalyzer.report.charts.svg import NARROW, WIDE, Svg
from traceanalyzer.report.code_lines import fitted
from traceanalyzer.text.visible import masked, one_line, visible


def blocks_markup(blocks: Sequence[Block | Markup], *, level: int = 3, alone: bool = False) -> Markup:
    """Return blocks one after the other; headings among them have this level.

    Those that stand `alone` bring their colours, as there are no styles.
    """
    drawn = [bar_markup(block, alone=alone) if isinstance(block, Bar) else block for block in blocks]
    return filled("blocks.html", {"blocks": drawn, "level": level})


def bar_markup(bar: Bar, *, alone: bool = False) -> Markup:
    """Return a bar for a desk and, unless it stands `alone`, for a phone, and its legend as a table."""
    drawn = [ledger_bar(bar, width=width, alone=alone) for width in ((WIDE,) if alone else (WIDE, NARROW))]
    rows = [(part, token_of(part.key)) for part in bar.parts]
    return filled("bar.html", {"drawn": drawn, "rows": rows, "columns": bar.columns, "alone": alone})


# Names of traces have no limit; what is cut ends in an ellipsis.
LONGEST_NAME = 512
# A number and its unit stay on one line.
_QUANTITY = re.compile(r"(?:[−+]|&lt;)?\d[\d,.]* (?:%|[nµm]?s|[KMGT]?i?B|[GT]B/s|[GT]FLOP/s)(?!\w)")
# Letters of code that have room in a card, and over the whole width.
CARD_CODE = 62
WIDE_CODE = 120
# A name as short as this is never broken; a longer one is broken behind these.
_SHORT_LETTERS = 12
_JOINTS = re.compile(r"(?:::?|[_/.,<(])(?=[A-Za-z0-9])|[a-z0-9](?=[A-Z][a-z])")
_CODE = re.compile(r"`([^`]+)`")


def filled(template: str, values: Mapping[str, Any]) -> Markup:
    """Return a template with its values; texts among them are escaped unless they are markup already."""
    return Markup(_environment().get_template(template).render(values))


def code_markup(code: str, lang: str = "", width: int = WIDE_CODE) -> Markup:
    """Return code in lines of this width where its language allows it; each is an element, for a phone to indent it."""
    lines = [escape(visible(line)) for line in fitted(code, lang, width)]
    return Markup("\n</span>").join(Markup('<span class="l">') + line for line in lines) + Markup("</span>")


def prose_markup(text: str) -> Markup:
    """Return a sentence as markup: numbers keep their units, and what stands in backticks is code."""
    quantities = _QUANTITY.sub(r'<span class="nb">\g<0></span>', str(escape(one_line(text))))
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
    environment.globals["CARD_CODE"] = CARD_CODE
    return environment


def _harmless(value: Any) -> Any:
    return one_line(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _kind(block: Block) -> str:
    return type(block).__name__
