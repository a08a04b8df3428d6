"""The inventory of a run as sections of blocks, or as JSON."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TextIO

from traceanalyzer.diagnosis import LeftOut
from traceanalyzer.diagnosis.flops import flops_rows
from traceanalyzer.report.blocks import Block, Bullets, Code, Heading, Paragraph, Section, Table, Text
from traceanalyzer.report.diagnosis_blocks.ledgers import flops_sections
from traceanalyzer.report.diagnosis_blocks.trust import left_out_sections
from traceanalyzer.report.inventory import Inventory, Row
from traceanalyzer.text import visible
from traceanalyzer.text.words import counted, duration, is_tpu, percent, short_names, size, times

MOST_TRACES = 16
MOST_DEFECTS = 8
MOST_METADATA = 12
LONGEST_VALUE = 200

SCHEMA_VERSION = 1

# Hints for viewers on how to draw.
_VIEWERS = ("process_", "thread_")
_DEFECT_ROLES = {"loss": "bad", "repair": "caution", "note": "dim"}


def sections(inventory: Inventory, run: str, *, verbose: bool = False) -> list[Section]:
    """Return the inventory; long lists are cut short unless everything is asked for."""
    traces = inventory.traces
    totals = (
        counted(len(traces), "trace"),
        size(sum(trace["size_bytes"] for trace in traces)),
        counted(sum(trace["event_count"] for trace in traces), "event"),
    )
    shown = traces if verbose else traces[:MOST_TRACES]
    return [
        Section((Heading(run, tuple(Text(words, "dim") for words in totals)),)),
        _traces(shown, len(traces) - len(shown)),
        *device_sections(inventory, verbose=verbose),
        *flops_sections(inventory.flops, verbose=verbose),
        *_links(shown, _unit(inventory)),
        *_captures(inventory.captures, verbose=verbose),
        *_events(inventory),
        Section(
            (Bullets(tuple(map(Text, inventory.uncertainties or ["no issues found"]))),), Heading("How far to trust it")
        ),
        *left_out_sections([LeftOut(**file) for file in inventory.left_out], verbose=verbose),
        *_missing(inventory),
        defects_section(inventory, verbose=verbose),
        *_metadata(inventory, verbose=verbose),
    ]


def write_json(inventory: Inventory, run: str, stream: TextIO) -> None:
    document = {
        "schema_version": SCHEMA_VERSION,
        "run": run,
        **dataclasses.asdict(inventory),
        "flops": flops_rows(inventory.flops),
    }
    visible.write_json(document, stream)


def _traces(traces: Sequence[Row], hidden: int) -> Section:
    """Return a row for each trace; what all share stands once, above."""
    names = short_names([trace["trace"] for trace in traces])
    kinds = sorted({_kind(trace) for trace in traces})
    rows = []
    for trace in traces:
        rank = "unknown" if trace["rank"] is None else f"{trace['rank']} ({trace['rank_source']})"
        world = f" of {trace['world_size']}" if trace["world_size"] else ""
        rows.append(
            (
                names[trace["trace"]],
                *([_kind(trace)] if len(kinds) > 1 else []),
                rank + world,
                f"{trace['event_count']:,}",
                duration(trace["span_ns"]) if trace["span_ns"] is not None else "–",
                f"{trace['step_count']} ({trace['step_source']})" if trace["step_count"] else "none found",
            )
        )
    kind = ["written by"] if len(kinds) > 1 else []
    columns = ("trace", *kind, "rank (source)", "events", "span", "steps (source)")
    table = Table(columns, tuple(rows), right=frozenset({2 + len(kind), 3 + len(kind)}))
    notes = (Text(kinds[0], "dim"),) if len(kinds) == 1 else ()
    return Section((table, *_more(hidden)), Heading("Traces", notes))


def _kind(trace: Row) -> str:
    recorder = trace["recorder"] or trace["format"]
    return f"{recorder}, {trace['producer'] or 'producer unknown'}; framework: {trace['framework'] or 'unknown'}"


def device_sections(inventory: Inventory, *, verbose: bool) -> list[Section]:
    """Return devices, those of the same kind on one line unless each is asked for."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    hosts = {trace["trace"]: trace["host"] for trace in inventory.traces}
    for device in inventory.devices:
        label = device["name"] or device["vendor"] or "unnamed"
        groups[(label, f"{device['trace']} {device['device']}" if verbose else "")].append(device)
    if not groups:
        return []
    rows = []
    for (label, _), devices in groups.items():
        first = devices[0]
        worked = len(_gpus_of([device for device in devices if device["gpu_op_count"]]))
        there = max(worked, _gpus_there(devices, hosts))
        sharing = max(device["process_count"] for device in devices)
        shared = ", shared" if sharing > 1 else ""
        rows.append(
            (
                label,
                f"{first['trace']}, device {first['device']}" if verbose else f"{worked} of {there}{shared}",
                "–" if first["compute_major"] is None else f"{first['compute_major']}.{first['compute_minor']}",
                "–" if first["sm_count"] is None else str(first["sm_count"]),
                "–" if first["memory_bytes"] is None else size(first["memory_bytes"]),
                f"{sum(device['gpu_op_count'] for device in devices):,}",
            )
        )
    place = "place" if verbose else "in use"
    columns = ("device", place, "compute capability", "SMs or CUs", "memory", "operations")
    return [Section((Table(columns, tuple(rows), right=frozenset({3, 4, 5})),), Heading("Devices"))]


def _gpus_of(devices: Sequence[Row]) -> set[object]:
    """Return what stands for each GPU: several recordings of a rank, or several processes, may show the same."""
    of_ranks: dict[tuple[int, int], object] = {}
    for device in devices:
        place = (device["rank_id"], device["device"])
        # An export without the name of its host names a GPU for itself alone.
        of_ranks.setdefault(place, device["gpu"] or place)
    return set(of_ranks.values())


def _gpus_there(devices: Sequence[Row], hosts: Mapping[str, str | None]) -> int:
    """Return how many GPUs the recorded machines have: each process names all of its own, by numbers of its own."""
    named = [device for device in devices if hosts[device["trace"]]]
    nameless = [device for device in devices if not hosts[device["trace"]]]
    return len({(hosts[device["trace"]], device["device"]) for device in named}) + len(_gpus_of(nameless))


def _unit(inventory: Inventory) -> str:
    devices = inventory.devices
    return "TPU" if devices and all(is_tpu(device["name"]) for device in devices) else "GPU"


def _links(traces: Sequence[Row], unit: str) -> list[Section]:
    with_work = [trace for trace in traces if trace["gpu_op_count"]]
    if not with_work:
        return []
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
    heading = Heading(f"{unit} operations linked to their origin", (Text("share of all operations", "dim"),))
    return [Section((Table(columns, tuple(rows), right=frozenset(range(1, 6))),), heading)]


def _captures(captures: Sequence[Row], *, verbose: bool) -> list[Section]:
    """Return how much of the replayed graphs each capture explains; those that explain nothing say so."""
    if not captures:
        return []
    whole = captures[0]
    if whole["kernel_count"]:
        share = f", {percent(whole['explained_share'])} of their time" if whole["explained_share"] is not None else ""
        note = f"operators for {whole['explained_count']:,} of {whole['kernel_count']:,} kernels of graphs{share}"
    else:
        note = "no replay of a graph was recorded node by node"
    shown = captures if verbose else captures[:MOST_TRACES]
    blocks = tuple(Paragraph(_explained(capture), label=Text(capture["capture"], "label")) for capture in shown)
    return [Section((*blocks, *_more(len(captures) - len(shown))), Heading("Captures of graphs", (Text(note, "dim"),)))]


def _explained(capture: Row) -> str:
    if capture["matched_count"]:
        return f"{counted(capture['matched_count'], 'kernel')} of graphs"
    return "matches no graph: it is of another graph, model or rank, or fits no better than another capture"


def _events(inventory: Inventory) -> list[Section]:
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for event in inventory.events:
        name = f"{_unit(inventory)} work" if event["class"] == "GPU work" else event["class"]
        counts[name][event["category"] or "other"] += event["event_count"]
    if not counts:
        return []
    width = max(map(len, counts))
    blocks = []
    for name, categories in counts.items():
        ordered = sorted(categories.items(), key=lambda item: -item[1])
        words = " · ".join(f"{category} {count:,}" for category, count in ordered)
        blocks.append(Paragraph(words, label=Text(f"{name:<{width}}")))
    return [Section(tuple(blocks), Heading("Events"))]


def _missing(inventory: Inventory) -> list[Section]:
    """Return what was not recorded, each with the option that records it."""
    if not inventory.missing:
        return []
    items = [sentence.rpartition(": ") for sentence in inventory.missing]
    blocks = tuple(Paragraph(f"{words}:", blocks=(Code(option, "python"),)) for words, _, option in items)
    return [Section(blocks, Heading("Not recorded"))]


def defects_section(inventory: Inventory, *, verbose: bool) -> Section:
    """Return what is wrong with the files; several files alike share a line unless all is asked for."""
    if not inventory.defects:
        return Section((), Heading("Defects", (Text("none: every event was read"),)))
    alike: dict[tuple[str, int, str, str], list[Row]] = defaultdict(list)
    for defect in inventory.defects:
        trace = defect["trace"] if verbose else ""
        alike[(defect["defect"], defect["defect_count"], defect["example"] or "", trace)].append(defect)
    groups = list(alike.values())
    shown = groups if verbose else groups[:MOST_DEFECTS]
    blocks = [_defect(group, is_alone=len(inventory.traces) == 1, verbose=verbose) for group in shown]
    heading = Heading("Defects", (Text("in the files, and what was done about them", "dim"),))
    return Section((*blocks, *_more(len(groups) - len(shown))), heading)


def _defect(group: Sequence[Row], *, is_alone: bool, verbose: bool) -> Block:
    defect = group[0]
    is_placed = defect["first_offset"] is not None
    place = f", first at byte {defect['first_offset']:,}" if is_placed and len(group) == 1 else ""
    trace = "" if is_alone else f" in {defect['trace'] if len(group) == 1 else f'each of {len(group)} traces'}"
    words = [f"{times(defect['defect_count'])}{trace}{place} · {defect['defect']}"]
    # Without a place, the example is what there is to look for.
    if defect["example"] and (verbose or not is_placed):
        words.append(f"for example {defect['example']}")
    label = Text(f"{defect['severity']:<6}", _DEFECT_ROLES.get(defect["severity"], "plain"))
    details = tuple(Paragraph(text, role="dim") for text in words)
    return Paragraph(defect["advice"], label=label, blocks=details)


def _metadata(inventory: Inventory, *, verbose: bool) -> list[Section]:
    """Return metadata, values that all traces share once; secrets were taken out before."""
    values: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in inventory.metadata:
        values[(row["key"], row["value"] or "")].append(row["trace"])
    if not values:
        return []
    ordered = sorted(values.items())
    telling = [item for item in ordered if len(item[0][1]) <= LONGEST_VALUE and not item[0][0].startswith(_VIEWERS)]
    shown = ordered if verbose else telling[:MOST_METADATA]
    blocks = []
    for (key, value), traces in shown:
        where = "" if len(traces) == len(inventory.traces) else f"  ({traces[0]}{', …' if len(traces) > 1 else ''})"
        blocks.append(Paragraph(f"{value}{where}", label=Text(key, "label")))
    heading = Heading("Metadata", (Text("secrets redacted", "dim"),))
    return [Section((*blocks, *_more(len(ordered) - len(shown))), heading)]


def _more(count: int) -> tuple[Block, ...]:
    return (Paragraph(f"and {count} more; -v lists them", role="dim"),) if count else ()
