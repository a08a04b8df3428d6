"""Blocks as GitHub-flavoured Markdown, for issues, pull requests and wikis."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TextIO

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
from traceanalyzer.report.renderers.terminal import STYLES, heat_lines
from traceanalyzer.text.visible import one_line, visible
from traceanalyzer.text.words import apportion

# Characters that could begin or end markup inside a line.
_MARKUP = re.compile(r"[\\`*_\[\]|~#$]")
# A comment keeps a name with an @ from calling a person.
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "@<!-- -->"}
# What makes a list or a rule of a line that begins with it.
_LIST_MARK = re.compile(r"^(?:[-+=]|\d+(?=[.)](?: |$)))")
_BACKTICKS = re.compile(r"`+")
_BAR_CELLS = 20


def render(sections: Sequence[Section], stream: TextIO) -> None:
    """Write sections, each with a heading of the second level; blocks stand apart by an empty line."""
    paragraphs = [text for section in sections for text in _section(section)]
    stream.write("\n\n".join(paragraphs) + "\n")


def _section(section: Section) -> Iterator[str]:
    if section.heading is not None and section.folded:
        yield f"<details><summary>{escaped(section.heading.title)}</summary>"
        yield from ([_joined(section.heading.notes)] if section.heading.notes else [])
    elif section.heading is not None:
        yield from _heading(section.heading, level=2)
    for block in section.blocks:
        yield from _block(block)
    if section.heading is not None and section.folded:
        yield "</details>"


def _block(block: Block) -> Iterator[str]:
    match block:
        case Heading():
            yield from _heading(block, level=1)
        case Facts():
            yield _joined(block.items)
        case Paragraph():
            label = f"**{escaped(block.label.words)}:** " if block.label else ""
            yield label + (_emphasized(Text(block.text, block.role)) if block.role == "strong" else escaped(block.text))
            for inner in block.blocks:
                yield from _block(inner)
        case Bullets():
            yield "\n".join(f"- {escaped(item.words)}" for item in block.items)
        case Code():
            yield _fenced(block)
        case Link():
            yield f"see {escaped(block.address)}"
        case Table():
            title = f"{block.title} ({block.note})" if block.title and block.note else block.title
            yield from ([escaped(title)] if title else [])
            yield _table(block.columns, block.rows, block.right)
        case Bar():
            cells = apportion([part.size for part in block.parts], _BAR_CELLS)
            rows = [
                (part.words, *part.cells, "█" * count, part.note)
                for part, count in zip(block.parts, cells, strict=True)
            ]
            yield _table(("", *block.columns, "", ""), rows, frozenset(range(1, len(block.columns) + 1)))
        case HeatMap():
            yield _heat_map(block)


def _heat_map(block: HeatMap) -> str:
    lines = ["".join(part if isinstance(part, str) else part[0] for part in line) for line in heat_lines(block)]
    return _fenced(Code("\n".join(line.rstrip() for line in lines)))


def _heading(heading: Heading, level: int) -> Iterator[str]:
    mark = f"{escaped(heading.mark.words)}. " if heading.mark else ""
    tag = f" ({escaped(heading.tag)})" if heading.tag else ""
    yield f"{'#' * level} {mark}{escaped(heading.title)}{tag}"
    if heading.notes:
        yield _joined(heading.notes)


def _joined(items: Sequence[Text]) -> str:
    return " · ".join(_emphasized(item) for item in items)


def _emphasized(text: Text) -> str:
    return f"**{escaped(text.words)}**" if "bold" in STYLES[text.role] else escaped(text.words)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], right: frozenset[int]) -> str:
    rule = ["---:" if at in right else "---" for at in range(len(columns))]
    lines = [[escaped(column) for column in columns], rule, *([escaped(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _fenced(block: Code) -> str:
    """Return code between more backticks than it has in a row."""
    code = "\n".join(visible(line.expandtabs(4)) for line in block.code.rstrip("\n").split("\n"))
    fence = "`" * max(3, *(len(run) + 1 for run in [*_BACKTICKS.findall(code), ""]))
    return f"{fence}{block.lang}\n{code}\n{fence}"


def escaped(text: str) -> str:
    """Return a text as Markdown that shows it as it is."""
    line = _MARKUP.sub(lambda found: "\\" + found[0], one_line(text))
    line = re.sub(r"[&<>@]", lambda found: _ENTITIES[found[0]], line)
    return _LIST_MARK.sub(lambda found: f"\\{found[0]}" if not found[0].isdigit() else f"{found[0]}\\", line)
