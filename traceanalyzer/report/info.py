"""The inventory of a run on a terminal, or as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from typing import TextIO

from traceanalyzer.report.inventory import Inventory, Row
from traceanalyzer.report.page import Page
from traceanalyzer.report.words import counted, duration, percent, short_names, size

MOST_TRACES = 16
MOST_DEFECTS = 8
MOST_METADATA = 12
LONGEST_VALUE = 200

SCHEMA_VERSION = 1

# What only tells a viewer how to draw.
_VIEWERS = ("process_", "thread_")


def write(inventory: Inventory, run: str, stream: TextIO, *, verbose: bool = False) -> None:
    """Write the inventory; the many are cut short unless everything is asked for."""
    page = Page(stream)
    traces = inventory.traces
    total = f"{counted(len(traces), 'trace')} · {size(sum(t['size_bytes'] for t in traces))} · "
    page.line((run, "bold"), (f"  {total}{counted(sum(t['event_count'] for t in traces), 'event')}", "dim"))
    page.blank()
    shown = traces if verbose else traces[:MOST_TRACES]
    _write_traces(page, shown, len(traces) - len(shown))
    _write_devices(page, inventory, verbose=verbose)
    _write_links(page, shown)
    _write_events(page, inventory)
    _write_list(page, "How far to trust it", inventory.doubts or ["nothing speaks against it"])
    _write_list(page, "Not recorded", inventory.missing)
    write_defects(page, inventory, verbose=verbose)
    _write_metadata(page, inventory, verbose=verbose)


def write_json(inventory: Inventory, run: str, stream: TextIO) -> None:
    """Write the inventory as one JSON object."""
    document = {"schema_version": SCHEMA_VERSION, "run": run, **dataclasses.asdict(inventory)}
    json.dump(document, stream, indent=2, ensure_ascii=False, default=str)
    stream.write("\n")


def _write_traces(page: Page, traces: list[Row], hidden: int) -> None:
    """Write traces; what all share is said once, above."""
    names = short_names([trace["trace"] for trace in traces])
    kinds = sorted({f"{trace['format']}, {trace['producer'] or 'producer unknown'}" for trace in traces})
    rows = []
    for trace in traces:
        rank = "unknown" if trace["rank"] is None else f"{trace['rank']} ({trace['rank_source']})"
        world = f" of {trace['world_size']}" if trace["world_size"] else ""
        rows.append(
            (
                names[trace["trace"]],
                *([f"{trace['format']}, {trace['producer'] or 'producer unknown'}"] if len(kinds) > 1 else []),
                rank + world,
                f"{trace['event_count']:,}",
                duration(trace["span_ns"]) if trace["span_ns"] is not None else "–",
                f"{trace['step_count']} ({trace['step_source']})" if trace["step_count"] else "none found",
            )
        )
    kind = ["written by"] if len(kinds) > 1 else []
    columns = ("trace", *kind, "rank (told by)", "events", "span", "steps (told by)")
    page.line(("Traces", "bold"), (f"  {kinds[0]}" if len(kinds) == 1 else "", "dim"))
    page.table(columns, rows, indent=2, right=frozenset({2 + len(kind), 3 + len(kind)}))
    if hidden:
        page.line((f"  and {hidden} more; -v lists them", "dim"))
    page.blank()


def _write_devices(page: Page, inventory: Inventory, *, verbose: bool) -> None:
    """Write devices, those of the same kind on one line unless each is asked for."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for device in inventory.devices:
        label = device["name"] or device["vendor"] or "unnamed"
        groups[(label, f"{device['trace']} {device['device']}" if verbose else "")].append(device)
    if not groups:
        return
    rows = []
    for (label, _), devices in groups.items():
        first = devices[0]
        worked = [device for device in devices if device["gpu_op_count"]]
        capability = "" if first["compute_major"] is None else f"{first['compute_major']}.{first['compute_minor']}"
        rows.append(
            (
                label,
                f"{first['trace']}, device {first['device']}" if verbose else f"{len(worked)} of {len(devices)}",
                capability or "–",
                "–" if first["sm_count"] is None else str(first["sm_count"]),
                "–" if first["memory_bytes"] is None else size(first["memory_bytes"]),
                f"{sum(device['gpu_op_count'] for device in devices):,}",
            )
        )
    place = "place" if verbose else "at work"
    columns = ("device", place, "capability", "SMs or CUs", "memory", "operations")
    page.line(("Devices", "bold"))
    page.table(columns, rows, indent=2, right=frozenset({3, 4, 5}))
    page.blank()


def _write_links(page: Page, traces: list[Row]) -> None:
    with_work = [trace for trace in traces if trace["gpu_op_count"]]
    if not with_work:
        return
    page.line(("GPU operations linked to", "bold"), ("  what launched them, as shares of all", "dim"))
    columns = ("trace", "operations", "launch call", "operator", "annotation", "Python line")
    names = short_names([trace["trace"] for trace in with_work])
    rows = [
        (
            names[trace["trace"]],
            f"{trace['gpu_op_count']:,}",
            *(percent(trace[f"{link}_share"]) for link in ("launch", "cpu_op", "annotation", "python")),
        )
        for trace in with_work
    ]
    page.table(columns, rows, indent=2, right=frozenset(range(1, 6)))
    page.blank()


def _write_events(page: Page, inventory: Inventory) -> None:
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for event in inventory.events:
        counts[event["class"]][event["category"] or "other"] += event["event_count"]
    if not counts:
        return
    page.line(("Events", "bold"))
    width = max(map(len, counts))
    for name, categories in counts.items():
        ordered = sorted(categories.items(), key=lambda item: -item[1])
        page.paragraph(" · ".join(f"{category} {count:,}" for category, count in ordered), label=f"  {name:<{width}}  ")
    page.blank()


def _write_list(page: Page, title: str, sentences: list[str]) -> None:
    if not sentences:
        return
    page.line((title, "bold"))
    for sentence in sentences:
        words, _, option = sentence.rpartition(": ")
        if option.startswith("profile(") and len(sentence) + 4 > page.width:
            page.paragraph(f"{words}:", label="  - ")
            page.code(option, indent=4, style="")
        else:
            page.paragraph(sentence, label="  - ")
    page.blank()


def write_defects(page: Page, inventory: Inventory, *, verbose: bool) -> None:
    """Write what is wrong with the files; what is alike in several of them is told once unless all is asked for."""
    if not inventory.defects:
        page.line(("Defects", "bold"), "  none: every event was read")
        page.blank()
        return
    page.line(("Defects", "bold"), ("  in the files, and what became of them", "dim"))
    styles = {"loss": "red", "repair": "yellow", "note": "dim"}
    alike: dict[tuple[str, int, str, str], list[Row]] = defaultdict(list)
    for defect in inventory.defects:
        trace = defect["trace"] if verbose else ""
        alike[(defect["defect"], defect["defect_count"], defect["example"] or "", trace)].append(defect)
    groups = list(alike.values())
    for group in groups if verbose else groups[:MOST_DEFECTS]:
        defect = group[0]
        is_placed = defect["first_offset"] is not None
        place = f", first at byte {defect['first_offset']:,}" if is_placed and len(group) == 1 else ""
        traces = defect["trace"] if len(group) == 1 else f"each of {len(group)} traces"
        trace = f" in {traces}" if len(inventory.traces) > 1 else ""
        head = f"{defect['defect']} ×{defect['defect_count']:,}{trace}{place}"
        page.paragraph(head, label=(f"  {defect['severity']:<6}  ", styles.get(defect["severity"], "")))
        page.paragraph(defect["advice"], indent=10, style="dim")
        # Without a place, the example is what there is to look for.
        if defect["example"] and (verbose or not is_placed):
            page.paragraph(f"for example {defect['example']}", indent=10, style="dim")
    if not verbose and len(groups) > MOST_DEFECTS:
        page.line((f"  and {len(groups) - MOST_DEFECTS} more; -v lists them", "dim"))
    page.blank()


def _write_metadata(page: Page, inventory: Inventory, *, verbose: bool) -> None:
    """Write metadata, values that all traces share told once; secrets were taken out before."""
    values: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in inventory.metadata:
        values[(row["key"], row["value"] or "")].append(row["trace"])
    if not values:
        return
    page.line(("Metadata", "bold"), ("  secrets redacted", "dim"))
    ordered = sorted(values.items())
    telling = [item for item in ordered if len(item[0][1]) <= LONGEST_VALUE and not item[0][0].startswith(_VIEWERS)]
    shown = ordered if verbose else telling[:MOST_METADATA]
    for (key, value), traces in shown:
        text = value if verbose or len(value) <= LONGEST_VALUE else value[:LONGEST_VALUE] + "…"
        where = "" if len(traces) == len(inventory.traces) else f"  ({traces[0]}{', …' if len(traces) > 1 else ''})"
        page.paragraph(f"{text}{where}", label=(f"  {key}  ", "cyan"))
    if len(shown) < len(ordered):
        page.line((f"  and {len(ordered) - len(shown)} more; -v lists them", "dim"))
