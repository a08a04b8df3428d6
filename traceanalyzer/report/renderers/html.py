"""Blocks as one HTML file: for reports that are made of blocks alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TextIO

from traceanalyzer.report.blocks import Heading, Section
from traceanalyzer.report.html.document import Part, document, part_of
from traceanalyzer.report.html.markup import blocks_markup

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
