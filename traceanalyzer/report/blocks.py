"""The parts that every report is made of: what it says, in which order and in which role.

Blocks know nothing of diagnoses; renderers know nothing but blocks. A role is what a text is for (strong, dim, a
severity …); each renderer decides how a role looks.
"""

from __future__ import annotations

from dataclasses import dataclass

ROLES = ("plain", "strong", "dim", "label", "good", "caution", "bad")


@dataclass(frozen=True)
class Text:
    """A few words in a role: one of ROLES, or a severity."""

    words: str
    role: str = "plain"


@dataclass(frozen=True)
class Heading:
    """A title, an optional number or name before it, an identifier after it, and short facts that go with it."""

    title: str
    notes: tuple[Text, ...] = ()
    mark: Text | None = None
    tag: str = ""


@dataclass(frozen=True)
class Facts:
    """Short facts in a row."""

    items: tuple[Text, ...]


@dataclass(frozen=True)
class Paragraph:
    """Running text, after a label where it has one, and the blocks that belong to it."""

    text: str
    role: str = "plain"
    label: Text | None = None
    blocks: tuple[Block, ...] = ()


@dataclass(frozen=True)
class Bullets:
    """Short paragraphs, one for each item."""

    items: tuple[Text, ...]


@dataclass(frozen=True)
class Code:
    """Something to paste."""

    code: str
    lang: str = ""


@dataclass(frozen=True)
class Link:
    """An address to follow."""

    address: str


@dataclass(frozen=True)
class Table:
    """Rows of words; `right` names the columns of numbers.

    Where a page is too narrow, columns are cut; a last column that `wraps_last` continues on the next line instead.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()
    title: str = ""
    note: str = ""
    wraps_last: bool = False


@dataclass(frozen=True)
class BarPart:
    """A part of a bar: parts with the same key look alike in all bars of a report."""

    key: str
    words: str
    size: int
    cells: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True)
class Bar:
    """A whole that is cut into parts, with a legend of one line each; `columns` are the names of the parts' cells."""

    columns: tuple[str, ...]
    parts: tuple[BarPart, ...]


@dataclass(frozen=True)
class HeatRow:
    """A row of a heat map: the level of each cell, 0 for usual; None: nothing is known there."""

    label: str
    levels: tuple[int | None, ...]


@dataclass(frozen=True)
class HeatMap:
    """Rows of cells in a few levels; `legend` says what each level means, `columns` names each column."""

    columns: tuple[str, ...]
    rows: tuple[HeatRow, ...]
    legend: tuple[str, ...]


@dataclass(frozen=True)
class Section:
    """Blocks that stand together, below a heading where they have one; a folded one may be shown on demand."""

    blocks: tuple[Block, ...]
    heading: Heading | None = None
    folded: bool = False


Block = Heading | Facts | Paragraph | Bullets | Code | Link | Table | Bar | HeatMap
