"""Kernels, operators, modules, ranges, collectives and copies of a run as tables to sort and to filter.

Each number is shown for people and sorted by its value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from traceanalyzer.diagnosis.flops import WITHOUT_OPERATORS
from traceanalyzer.report.blocks import Paragraph
from traceanalyzer.report.html.document import Part, blocks_markup, filled, shown_name
from traceanalyzer.report.html.source import PageSource
from traceanalyzer.text.words import counted, duration, name_words, percent, size, told_apart

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


_IN_NAVIGATION = ("kernels", "modules")

Row = Mapping[str, Any]


def kernels(source: PageSource) -> Part | None:
    """Return the kernels of the analysis windows by their time."""
    columns = (
        PageColumn("kernel", "name", "name", letters=54),
        PageColumn("class", "class", "text"),
        PageColumn("calls", "launch_count", "count"),
        PageColumn("total", "sum_ns", "time"),
        PageColumn("mean", "mean_ns", "time"),
        PageColumn("longest", "max_ns", "time"),
        PageColumn("of kernel time", "share", "share"),
    )
    note = "that start in the analyzed time; kernels that run at once count in full"
    return _section(source, "kernels", "Kernels", note, columns, "sum_ns")


def operators(source: PageSource) -> Part | None:
    """Return the framework's operators by what they alone take on the device."""
    columns = (
        PageColumn("operator", "name", "name", letters=40),
        PageColumn("input shapes", "input_shapes", "name"),
        PageColumn("calls", "call_count", "count"),
        PageColumn("on the host", "host_sum_ns", "time"),
        PageColumn("self, host", "host_self_sum_ns", "time"),
        PageColumn("on the device", "device_sum_ns", "time"),
        PageColumn("self, device", "device_self_sum_ns", "time"),
    )
    note = "of the whole trace; self is without the operators inside"
    return _section(source, "operators", "Operators", note, columns, "device_self_sum_ns", "host_self_sum_ns")


def modules(source: PageSource) -> Part | None:
    """Return the layers of the model: modules of one class at one place together, with those inside."""
    columns = (
        PageColumn("module", "class", "name", letters=40),
        PageColumn("inside", "inside", "name"),
        PageColumn("modules", "module_count", "count"),
        PageColumn("calls", "call_count", "count"),
        PageColumn("on the host", "host_sum_ns", "time"),
        PageColumn("forward, device", "forward_ns", "time"),
        PageColumn("backward, device", "backward_ns", "time"),
        PageColumn("recomputed", "recomputed_ns", "time"),
        PageColumn("TFLOP/s", "tflops", "number"),
        PageColumn("of the model", "share", "share"),
    )
    note = "of the whole trace; modules of one class at one place are put together; times are with the modules inside"
    return _section(source, "modules", "Modules", note, columns, "device_ns")


def ranges(source: PageSource) -> Part | None:
    """Return what the program marked (record_function, NVTX, annotations of XLA), with what lies inside."""
    columns = (
        PageColumn("range", "name", "name", letters=40),
        PageColumn("inside", "inside", "name"),
        PageColumn("calls", "call_count", "count"),
        PageColumn("on the host", "host_sum_ns", "time"),
        PageColumn("self, host", "host_self_ns", "time"),
        PageColumn(f"{source.noun} busy", "busy_ns", "time"),
        PageColumn(f"{source.noun} idle inside", "idle_ns", "time"),
        PageColumn(f"{source.noun} operations", "op_count", "count"),
    )
    on_device = f"{source.noun} busy: time in which work launched inside runs; " if source.diagnosis.ledgers else ""
    note = f"of the whole trace; {on_device}ranges inside others share all numbers"
    return _section(source, "ranges", "Ranges that the program marked", note, columns, "busy_ns", "host_sum_ns")


def flops(source: PageSource) -> Part | None:
    """Return MFU and HFU of the run and its devices; none where no operator could count."""
    uses = source.diagnosis.flops
    if not uses or uses[0].reason in (*WITHOUT_OPERATORS, "no shapes"):
        return None
    if uses[0].mfu is None:
        return Part("flops", "FLOPs utilisation", blocks_markup([Paragraph(f"{uses[0].words}.")]))
    columns = (PageColumn("of", "place", "name"), PageColumn("MFU", "mfu", "text"), PageColumn("HFU", "hfu", "text"))
    rows = [{"place": use.place, "mfu": use.span_of(use.mfu), "hfu": use.span_of(use.hfu)} for use in uses]
    shown = rows[: source.limits.rows]
    body = table_markup("t-flops", "FLOPs utilisation", columns, shown, longest=source.limits.name_letters)
    return Part("flops", "FLOPs utilisation", body, note=uses[0].note)


def collectives(source: PageSource) -> Part | None:
    """Return the communication kernels by kind, group and size."""
    columns = (
        PageColumn("collective", "collective_kind", "name"),
        PageColumn("group", "group_name", "name"),
        PageColumn("ranks", "group_size", "count"),
        PageColumn("size", "size_bytes", "bytes"),
        PageColumn("kernels", "kernel_count", "count"),
        PageColumn("total", "sum_ns", "time"),
        PageColumn("longest", "max_ns", "time"),
        PageColumn("waiting for the last rank", "wait_ns", "time"),
        PageColumn("bus bandwidth, at least", "bus_bytes_per_s", "rate"),
    )
    note = "that start in the analyzed time, all ranks together"
    return _section(source, "collectives", "Collectives", note, columns, "sum_ns")


def copies(source: PageSource) -> Part | None:
    """Return the copies by direction and kinds of memory."""
    columns = (
        PageColumn("direction", "copy_kind", "name"),
        PageColumn("from", "src_kind", "name"),
        PageColumn("to", "dst_kind", "name"),
        PageColumn("copies", "copy_count", "count"),
        PageColumn("bytes", "size_bytes", "bytes"),
        PageColumn("total", "sum_ns", "time"),
        PageColumn("longest", "max_ns", "time"),
        PageColumn("bandwidth", "bytes_per_s", "rate"),
    )
    return _section(
        source, "copies", "Copies", "that start in the analyzed time, all devices together", columns, "sum_ns"
    )


def _section(
    source: PageSource, id_: str, title: str, note: str, columns: Sequence[PageColumn], weight: str, on_host: str = ""
) -> Part | None:
    """Return a table of rows by `weight`, their time on the device, or by `on_host` where nothing ran on one."""
    rows = source.rows(id_)
    if not rows:
        return None
    shown, rest = rows[: source.limits.rows], rows[source.limits.rows :]
    more = f"{counted(len(rest), 'more row')}, {_took(rows, rest, weight, on_host)}" if rest else ""
    filled_columns = [
        c for c in columns if any(row[c.key] is not None and (row[c.key] or c.form != "time") for row in shown)
    ]
    longest = min(source.limits.name_letters, 512)
    body = table_markup(f"t-{id_}", title, filled_columns, shown, more=more, longest=longest)
    return Part(id_, title, body, title if id_ in _IN_NAVIGATION else "", note)


def _took(rows: Sequence[Row], rest: Sequence[Row], weight: str, on_host: str) -> str:
    if on_host and not any(row[weight] for row in rows):
        return f"together {duration(sum(row[on_host] or 0 for row in rest))} on the host"
    rest_ns = sum(row[weight] or 0 for row in rest)
    return f"together {duration(rest_ns)}" if rest_ns else "none of which took time on the device"
