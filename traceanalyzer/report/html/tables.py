"""Tables that a reader can sort and filter: each number is shown for people and sorted by its value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from traceanalyzer.report.html.markup import filled, shown_name
from traceanalyzer.text.words import duration, name_words, percent, size, told_apart

MOST_ROWS = 200
# So many are seen at a glance, and need no filter.
FEW_ROWS = 8
# Names are cut to this in a cell; the whole one shows where it is pointed at.
LONGEST_CELL = 96
# What is less reads 0.0 with one decimal.
LEAST_NUMBER = 0.05


@dataclass(frozen=True)
class PageColumn:
    """A column of a table: `key` names its value in a row; `form` says how it is shown."""

    title: str
    key: str
    form: str  # name, text, count, number, time, bytes, rate or share
    letters: int = 0  # of names: where longer ones that begin alike are cut, to be told apart


@dataclass(frozen=True)
class Cell:
    """A value as it is shown, what it is sorted by, and what shows where it is pointed at."""

    words: str
    order: int | float | None = None
    title: str = ""
    share: float | None = None
    is_name: bool = False  # of something: it breaks at its joints


def table_markup(
    id_: str,
    title: str,
    columns: Sequence[PageColumn],
    rows: Sequence[Mapping[str, Any]],
    *,
    more: str = "",
    longest: int,
) -> Markup:
    """Return rows as a table with a filter; `more` says what is left out of it, `longest` is where names are cut."""
    cells = list(zip(*(_column(column, [row[column.key] for row in rows], longest) for column in columns), strict=True))
    values = {
        "id": id_,
        "title": title,
        "columns": columns,
        "rows": cells,
        "more": more,
        "has_filter": len(rows) > FEW_ROWS,
    }
    return filled("table.html", values)


def _column(column: PageColumn, values: Sequence[Any], longest: int) -> list[Cell]:
    if column.form != "name":
        return [_cell(column.form, value, longest) for value in values]
    wholes = [shown_name(value, longest) for value in values]
    shown = told_apart([name_words(whole) for whole in wholes], column.letters or LONGEST_CELL)
    return [
        Cell(words, title=whole if whole != words else "", is_name=column.letters > 0)
        for words, whole in zip(shown, wholes, strict=True)
    ]


def _cell(form: str, value: Any, longest: int) -> Cell:
    if value is None:
        return Cell("–", order=-1 if form != "text" else None)
    if form == "text":
        return Cell(shown_name(str(value), longest))
    if form == "share":
        return Cell(percent(value), round(value, 6), share=value)
    if form == "number":
        return Cell("–" if not value else "<0.1" if 0 < value < LEAST_NUMBER else f"{value:,.1f}", round(value, 6))
    return Cell("–" if value == 0 and form != "count" else _NUMBERS[form](value).replace("-", "−"), round(value))


def _rate(bytes_per_s: float) -> str:
    unit, size_bytes = next(item for item in _RATES if bytes_per_s >= item[1] or item[1] == 1)
    return f"{bytes_per_s / size_bytes:,.1f} {unit}/s"


_RATES = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1))
_NUMBERS: dict[str, Callable[[float], str]] = {
    "count": lambda value: f"{value:,}",
    "time": duration,
    "bytes": size,
    "rate": _rate,
}
