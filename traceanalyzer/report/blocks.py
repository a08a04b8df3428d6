"""The parts that every report is made of: what it says, in which order and in which role.

Blocks know nothing of diagnoses; renderers know nothing but blocks. A role is what a text is for (strong, dim, a
severity …); each renderer decides how a role looks.
"""

from __future__ import annotations

from msgspec import Struct


class Text(Struct, frozen=True):
    """A few words in a role: plain, strong, dim, label, good, caution, bad, or a severity."""

    words: str
    role: str = "plain"


class Heading(Struct, frozen=True):
    """A title, an optional number or name before it, an identifier after it, and short facts that go with it."""

    title: str
    notes: tuple[Text, ...] = ()
    mark: Text | None = None
    tag: str = ""


class Facts(Struct, frozen=True):
    """Short facts in a row."""

    items: tuple[Text, ...]


class Paragraph(Struct, frozen=True):
    """Running text, after a label where it has one, and the blocks that belong to it."""

    text: str
    role: str = "plain"
    label: Text | None = None
    blocks: tuple[Block, ...] = ()


class Bullets(Struct, frozen=True):
    """Short paragraphs, one for each item."""

    items: tuple[Text, ...]


class Code(Struct, frozen=True):
    """Something to paste."""

    code: str
    lang: str = ""


class Link(Struct, frozen=True):
    """An address to follow."""

    address: str


class Table(Struct, frozen=True):
    """Rows of words; `right` names the columns of numbers.

    Where a page is too narrow, columns are cut; a last column that `wraps_last` continues on the next line instead.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()
    title: str = ""
    note: str = ""
    wraps_last: bool = False


class BarPart(Struct, frozen=True):
    """A part of a bar: parts with the same key look alike in all bars of a report."""

    key: str
    words: str
    size: int
    cells: tuple[str, ...]
    note: str = ""


class Bar(Struct, frozen=True):
    """A whole that is cut into parts, with a legend of one line each; `columns` are the names of the parts' cells."""

    columns: tuple[str, ...]
    parts: tuple[BarPart, ...]


class HeatRow(Struct, frozen=True):
    """A row of a heat map: the level of each cell, 0 for usual; None: nothing is known there."""

    label: str
    levels: tuple[int | None, ...]


class HeatMap(Struct, frozen=True):
    """Rows of cells in a few levels; `legend` says what each level means, `columns` names each column."""

    columns: tuple[str, ...]
    rows: tuple[HeatRow, ...]
    legend: tuple[str, ...]


class Section(Struct, frozen=True):
    """Blocks that stand together, below a heading where they have one; a folded one may be shown on demand."""

    blocks: tuple[Block, ...]
    heading: Heading | None = None
    folded: bool = False


Block = Heading | Facts | Paragraph | Bullets | Code | Link | Table | Bar | HeatMap
