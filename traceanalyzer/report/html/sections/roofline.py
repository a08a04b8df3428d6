"""What operators reach against the data sheet: a roofline of the slowest device, and a table of what is left."""

from __future__ import annotations

from typing import Any

from traceanalyzer.report.charts.roofline import Roof, RooflinePoint, roofline
from traceanalyzer.report.charts.svg import NARROW, WIDE
from traceanalyzer.report.diagnosis_blocks.ledgers import alike, group_place
from traceanalyzer.report.html.document import Part, filled, shown_name
from traceanalyzer.report.html.sections.tables import PageColumn, table_markup
from traceanalyzer.report.html.source import PageSource
from traceanalyzer.text.words import counted, duration, limit_words, listed, percent

MOST_POINTS = 80
# Fewer are no picture.
LEAST_POINTS = 3
# An operator with less of the time of all of them is not drawn.
LEAST_SHARE = 0.001
_COLUMNS = (
    PageColumn("operator", "operator", "name", letters=29),
    PageColumn("input shapes", "input_shapes", "name"),
    PageColumn("calls", "call_count", "count"),
    PageColumn("total", "dur_ns", "time"),
    PageColumn("headroom", "headroom_ns", "time"),
    PageColumn("of the roof", "floor_share", "share"),
    PageColumn("limited by", "limit", "text"),
    PageColumn("TFLOP/s", "tflops", "number"),
    PageColumn("bytes, at least", "bytes_per_s", "rate"),
    PageColumn("note", "note", "text"),
)
_NOTES = {"cache": "in cache", "suspect": "over the roof"}
_PRECISIONS = {
    "fp64": "FP64",
    "fp32": "FP32",
    "tf32": "TF32",
    "half": "FP16 or BF16",
    "fp8": "FP8",
    "int8": "INT8",
}


def section(source: PageSource) -> Part | None:
    """Return the modelled operators of the slowest device; none where shapes or the device's peaks are unknown."""
    if not source.diagnosis.ledgers:
        return None
    group = alike(source.diagnosis.ledgers)[0]
    trace = next((row for row in source.rows("run_traces") if row["trace"] == group.worst.trace), None)
    if trace is None:
        return None
    keys = [trace["trace_id"], group.worst.device]
    roofs = source.rows("roofs", keys)
    rows = [row for row in source.rows("roofline", keys) if row["floor_share"] is not None]
    if not roofs or not rows:
        return None
    known_share = source.rows("modelled_share", keys)[0]["share"]
    memory = roofs[0]["memory_gb_per_s"]
    note = f"of the whole trace; operations and bytes are known for {percent(known_share)} of the GPU time"
    note += f"; by the data sheet of {roofs[0]['name']}: {memory:,.0f} GB/s"
    if len(source.diagnosis.ledgers) > 1:
        note = f"{group_place(group, source.diagnosis.ledgers)}: {note}"
    values = {**_drawings(rows, roofs, memory), "table": _table(source, rows)}
    return Part("roofline", "Roofline", filled("roofline.html", values), "Roofline", note)


def _table(source: PageSource, rows: list[dict[str, Any]]) -> str:
    """Return the operators by the time above their roof."""
    ordered = sorted(rows, key=lambda row: -row["headroom_ns"])
    shown = [
        {
            **row,
            "note": _NOTES.get(row["status"]),
            "limit": limit_words(row["limited_by"]) if row["limited_by"] else None,
        }
        for row in ordered[: source.limits.rows]
    ]
    rest = len(rows) - len(shown)
    more = f"{counted(rest, 'more row')}, each with less headroom" if rest else ""
    columns = [column for column in _COLUMNS if any(row[column.key] is not None for row in shown)]
    longest = min(source.limits.name_letters, 512)
    return table_markup("t-roofline", "Operators against the roof", columns, shown, more=more, longest=longest)


def _drawings(rows: list[dict[str, Any]], roofs: list[dict[str, Any]], memory: float) -> dict[str, Any]:
    placed = [row for row in rows if row["tflops"] and row["flops_per_byte"]]
    least_ns = LEAST_SHARE * sum(row["dur_ns"] for row in placed)
    drawn = [row for row in placed if row["dur_ns"] >= least_ns][:MOST_POINTS]
    if len(drawn) < LEAST_POINTS:
        return {"wide": "", "narrow": "", "caption": ""}
    whole = sum(row["dur_ns"] for row in drawn)
    points = [_point(row, whole) for row in drawn]
    lines = [Roof(_PRECISIONS.get(roof["precision"], roof["precision"]), roof["peak_tflops"]) for roof in _peaks(roofs)]
    named = listed([f"{point.name} {point.tooltip.partition(': ')[2]}" for point in points[:3]])
    says = f"Roofline of {counted(len(points), 'operator')}. Most time: {named}."
    caption = (
        "Each mark is an operator with its input shapes; its area is its time. The roof of circles is compute (red "
    )
    caption += "lines), that of squares is memory (dotted line)."
    if len(rows) > len(placed):
        caption += f" Not drawn: {counted(len(rows) - len(placed), 'operator')} that only move data."
    return {
        "wide": roofline(points, lines, memory, says, width=WIDE),
        "narrow": roofline(points, lines, memory, says, width=NARROW),
        "caption": caption,
    }


def _peaks(roofs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [roof for roof in roofs if roof["peak_tflops"]]


def _point(row: dict[str, Any], whole_ns: int) -> RooflinePoint:
    name = shown_name(row["operator"], 40)
    tooltip = (
        f"{name}: {row['tflops']:,.1f} TFLOP/s, {percent(row['floor_share'])} of the roof, {duration(row['dur_ns'])}"
    )
    roof = row["roof"] or "memory"
    return RooflinePoint(name, row["flops_per_byte"], row["tflops"], row["dur_ns"] / whole_ns, roof, tooltip)
