"""Blocks on a terminal or in a pipe: indents, colours where they are shown, and lines that fit the width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from rich.cells import cell_len

from traceanalyzer.report.blocks import (
    Bar,
    Block,
    Bullets,
    Code,
    Facts,
    Heading,
    HeatMap,
    Link,
    Paragraph,
    Section,
    Table,
    Text,
)
from traceanalyzer.report.renderers.page import Page, Part
from traceanalyzer.text.words import apportion

STYLES = {
    "plain": "",
    "strong": "bold",
    "dim": "dim",
    "label": "cyan",
    "good": "bold green",
    "caution": "yellow",
    "bad": "bold red",
    "blocker": "bold red",
    "critical": "bold red",
    "high": "red",
    "warning": "yellow",
    "medium": "yellow",
    "low": "cyan",
    "info": "cyan",
    "note": "dim",
}
# Colours of a bar's parts by the family of their keys, which stands before the dot.
_PALETTES = {
    "compute": ("green",),
    "host": ("yellow", "red", "magenta", "bright_magenta", "bright_yellow", "bright_red", "dark_orange", "pink3"),
    "dev": ("blue", "bright_blue", "cyan", "bright_cyan", "deep_sky_blue1", "turquoise2", "steel_blue1"),
}
_OTHER_COLOR = "bright_black"
# Without colours, the fill distinguishes the parts.
_FILLS = "█▒░▓╱+=:·"

# The levels of a heat map, which carry their meaning without colours, too.
_HEAT = "·░▒█"
_HEAT_STYLES = ("dim", "cyan", "yellow", "bold red")
_UNKNOWN_HEAT = " "
_BETWEEN_NAMES = 2

_INDENT = 2
_INDENT_BELOW_MARK = 3
# What belongs to a paragraph stands under its text where the label is short, else slightly below the label.
_LONGEST_SHORT_LABEL = 5


def render(sections: Sequence[Section], stream: TextIO) -> None:
    """Write sections with an empty line between them."""
    page = Page(stream)
    colors = _BarColors()
    for number, section in enumerate(sections):
        if number:
            page.blank()
        indent, blocks = 0, section.blocks
        if section.heading is not None:
            indent = _INDENT if section.heading.mark is None else _INDENT_BELOW_MARK
            if not _heading(page, section.heading):
                blocks = _with_tag(blocks, Text(section.heading.tag, "dim"))
        for block in blocks:
            _write(page, block, indent, colors)


class _BarColors:
    """Gives each key of a report's bars its colour: the next one of its family."""

    def __init__(self) -> None:
        self._spare = {family: list(colors) for family, colors in _PALETTES.items()}
        self._given: dict[str, str] = {}

    def of(self, key: str) -> str:
        if key not in self._given:
            spare = self._spare.get(key.split(".")[0])
            self._given[key] = spare.pop(0) if spare else _OTHER_COLOR
        return self._given[key]


def _write(page: Page, block: Block, indent: int, colors: _BarColors) -> None:
    match block:
        case Heading():
            _heading(page, block)
        case Facts():
            page.flow(_joined(block.items), indent=indent)
        case Paragraph():
            _paragraph(page, block, indent, colors)
        case Bullets():
            for item in block.items:
                page.paragraph(item.words, label="- ", indent=indent, style=STYLES[item.role])
        case Code():
            page.code(block.code, indent=indent, lang=block.lang)
        case Link():
            page.code(f"see  {block.address}", indent=indent, style="dim")
        case Table():
            _table(page, block, indent)
        case Bar():
            _bar(page, block, indent, colors)
        case HeatMap():
            for row in heat_lines(block):
                page.line(" " * indent, *row)


def heat_lines(block: HeatMap) -> list[list[Part]]:
    """Return the lines of a heat map: its legend, its rows, and the names of columns as far as there is room."""
    legend: list[Part] = []
    for level, words in enumerate(block.legend):
        legend += [(_HEAT[level], _HEAT_STYLES[level]), (f" {words}   ", "dim")]
    width = max(len(row.label) for row in block.rows)
    lines = [legend]
    for row in block.rows:
        cells: list[Part] = [
            (_UNKNOWN_HEAT, "dim") if level is None else (_HEAT[level], _HEAT_STYLES[level]) for level in row.levels
        ]
        lines.append([f"{row.label:<{width}}  ", *cells])
    apart = 1
    while apart < max(map(len, block.columns)) + _BETWEEN_NAMES:
        apart *= 2
    named = "".join(f"{name:<{apart}}" for name in block.columns[::apart])
    return [*lines, [" " * (width + 2), (named.rstrip(), "dim")]]


def _heading(page: Page, heading: Heading) -> bool:
    """Write a heading; return whether there was room for its tag."""
    mark = [_part(Text(f"{heading.mark.words}  ", heading.mark.role))] if heading.mark else []
    width = cell_len(heading.title) + cell_len(heading.tag) + 2 + (cell_len(mark[0][0]) if mark else 0)
    if heading.tag and width > page.width:
        page.paragraph(heading.title, label=mark[0] if mark else "", style="bold")
        return False
    title: list[Part] = [*mark, (heading.title, "bold")]
    tags = [_part(Text(f"  {heading.tag}", "dim"))] if heading.tag else []
    page.flow([*title, *tags, *_joined(heading.notes, before="  ")])
    return True


def _with_tag(blocks: Sequence[Block], tag: Text) -> tuple[Block, ...]:
    """Return blocks whose first line names the tag."""
    first = blocks[0] if blocks else None
    if isinstance(first, Facts):
        return (Facts((*first.items, tag)), *blocks[1:])
    return (Facts((tag,)), *blocks)


def _paragraph(page: Page, block: Paragraph, indent: int, colors: _BarColors) -> None:
    label = Text(f"{block.label.words}  ", block.label.role) if block.label else Text("")
    page.paragraph(block.text, label=_part(label), indent=indent, style=STYLES[block.role])
    width = cell_len(label.words)
    for inner in block.blocks:
        _write(page, inner, indent + (width if 0 < width <= _LONGEST_SHORT_LABEL else _INDENT), colors)


def _table(page: Page, block: Table, indent: int) -> None:
    if block.title:
        page.line(" " * indent, (block.title, "dim"), (f"  {block.note}" if block.note else "", "dim"))
        indent += _INDENT
    page.table(block.columns, block.rows, indent=indent, right=block.right, wraps_last=block.wraps_last)


def _bar(page: Page, block: Bar, indent: int, colors: _BarColors) -> None:
    """Write a stacked bar, then a line for each part with its cells in columns."""
    cells = apportion([part.size for part in block.parts], page.width - indent)
    fills = ["█" if page.colored else _FILLS[min(at, len(_FILLS) - 1)] for at in range(len(block.parts))]
    looks = [(fill, colors.of(part.key) if page.colored else "") for fill, part in zip(fills, block.parts, strict=True)]
    page.line(" " * indent, *((fill * count, color) for (fill, color), count in zip(looks, cells, strict=True)))
    width = max(len(part.words) for part in block.parts)
    widths = [max(len(part.cells[at]) for part in block.parts) for at in range(len(block.columns))]
    for part, look in zip(block.parts, looks, strict=True):
        values = "  ".join(f"{cell:>{cell_width}}" for cell, cell_width in zip(part.cells, widths, strict=True))
        page.line(" " * indent, look, f" {part.words:<{width}}  {values}  ", (part.note, "dim"))


def _joined(items: Sequence[Text], before: str = "") -> list[Part]:
    """Return facts with a point between them, so that a line may end before each."""
    return [_part(Text((" · " if at else before) + item.words, item.role)) for at, item in enumerate(items)]


def _part(text: Text) -> Part:
    return (text.words, STYLES[text.role])
