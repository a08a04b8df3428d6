"""Kernels, operators, modules, ranges, collectives and copies of the whole run as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from traceanalyzer.report.html.document import Part
from traceanalyzer.report.html.source import PageSource
from traceanalyzer.report.html.tables import PageColumn, table_markup
from traceanalyzer.text.words import counted, duration

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
        PageColumn("GPU busy", "busy_ns", "time"),
        PageColumn("GPU idle inside", "idle_ns", "time"),
        PageColumn("GPU operations", "op_count", "count"),
    )
    note = (
        "of the whole trace; GPU busy: time in which work launched inside runs; ranges inside others share all numbers"
    )
    return _section(source, "ranges", "Ranges that the program marked", note, columns, "busy_ns", "host_sum_ns")


def flops(source: PageSource) -> Part | None:
    """Return MFU and HFU of the run and its devices; none where no operator could count."""
    uses = source.diagnosis.flops
    if not uses or uses[0].reason == "no products":
        return None
    columns = (PageColumn("of", "place", "name"), PageColumn("utilisation", "words", "text"))
    rows = [{"place": use.place, "words": use.words} for use in uses[: source.limits.rows]]
    body = table_markup("t-flops", "FLOPs utilisation", columns, rows, longest=source.limits.name_letters)
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
    note = "of the whole trace, all ranks together"
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
    return _section(source, "copies", "Copies", "of the whole trace, all devices together", columns, "sum_ns")


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
