"""Blocks of a report as HTML."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from traceanalyzer.report.blocks import Bar, Block
from traceanalyzer.report.charts.ledger_bar import LedgerPart, ledger_bar
from traceanalyzer.report.charts.palette import token_of
from traceanalyzer.report.charts.svg import NARROW, WIDE
from traceanalyzer.report.html.markup import filled


def blocks_markup(blocks: Sequence[Block], *, level: int = 3) -> Markup:
    """Return blocks one after the other; headings among them have this level."""
    return filled("blocks.html", {"blocks": [_drawn(block) for block in blocks], "level": level})


def bar_markup(parts: Sequence[LedgerPart], columns: Sequence[str], says: str) -> Markup:
    """Return a bar for a desk and for a phone, and its legend as a table."""
    bars = [ledger_bar(parts, says, width=width) for width in (WIDE, NARROW)]
    keys = [token_of(part.bucket) for part in parts]
    return filled(
        "bar.html",
        {"wide": bars[0], "narrow": bars[1], "rows": list(zip(parts, keys, strict=True)), "columns": columns},
    )


def _drawn(block: Block) -> Block | Markup:
    if not isinstance(block, Bar):
        return block
    parts = [
        LedgerPart(item.key, item.words, item.size, item.cells[0] if len(item.cells) > 1 else "", item.cells[-1])
        for item in block.parts
    ]
    says = ", ".join(f"{part.words} {part.share}" for part in parts)
    return bar_markup(parts, block.columns, says)
