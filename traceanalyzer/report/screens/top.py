"""The largest kernels, operators and so on of a run as sections of blocks, or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TextIO

from traceanalyzer.answers.top import TopAnswer, question_of
from traceanalyzer.report.blocks import Heading, Paragraph, Section, Table, Text
from traceanalyzer.text import visible
from traceanalyzer.text.words import counted, duration, limit_words, listed, name_words, operations, percent, size

SCHEMA_VERSION = 1
_LEAST_REST = 0.005
_INDENT = "\N{NO-BREAK SPACE}" * 2  # Markdown and pages keep these
# Columns that most runs have no values in, and that are left out without a word.
_RARE = frozenset({"recomputed_ns"})


def _rate(bytes_per_s: float) -> str:
    """Say a rate in powers of ten, as data sheets and nccl-tests do."""
    for unit, unit_bytes in (("TB/s", 1e12), ("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)):
        if bytes_per_s >= unit_bytes:
            return f"{bytes_per_s / unit_bytes:,.1f} {unit}"
    return f"{bytes_per_s:.0f} B/s"


# Column of an answer → its words on a screen, and how a value is written. The name comes last, where it may be long.
_SHOWN: dict[str, tuple[str, Callable[[Any], str]]] = {
    "sum_ns": ("time", duration),
    "busy_ns": ("GPU busy", duration),
    "host_self_ns": ("host", duration),
    "idle_ns": ("idle", duration),
    "call_count": ("calls", lambda count: f"{count:,}"),
    "mean_ns": ("mean", duration),
    "max_ns": ("longest", duration),
    "size_bytes": ("bytes", size),
    "bytes_per_s": ("bandwidth", _rate),
    "bus_bytes_per_s": ("bus bandwidth", _rate),
    "headroom_ns": ("headroom", duration),
    "floor_share": ("of roof", percent),
    "flops_share": ("of peak FLOP/s", percent),
    "bytes_share": ("of peak bandwidth", percent),
    "sm_share": ("SMs", percent),
    "memory_share": ("memory", percent),
    "tflops": ("TFLOP/s", lambda rate: f"{rate:.1f}"),
    "allocation_count": ("allocations", lambda count: f"{count:,}"),
    "largest_bytes": ("largest", size),
    "module_count": ("modules", lambda count: f"{count:,}"),
    "flops": ("operations", operations),
    "forward_ns": ("forward", duration),
    "backward_ns": ("backward", duration),
    "recomputed_ns": ("recomputed", duration),
    "host_sum_ns": ("host", duration),
    "self_ns": ("self", duration),
    "op_count": ("GPU ops", lambda count: f"{count:,}"),
    "iteration_count": ("count", lambda count: f"{count:,}"),
    "tokens": ("tokens", lambda count: f"{count:,}"),
    "p50_ns": ("median", duration),
    "p95_ns": ("95 %", duration),
    "p99_ns": ("99 %", duration),
    "busy_share": ("busy", percent),
    "gap_sum_ns": ("gaps", duration),
    "tokens_per_s": ("tok/s", lambda rate: f"{rate:,.0f}"),
    "rank": ("rank", str),
    "device": ("device", str),
    "kind": ("kind", str),
    "limited_by": ("limited by", str),
    "tier": ("found by", str),
    "group_size": ("ranks", str),
    "group_desc": ("group", str),
    "class": ("class", str),
    "category": ("category", str),
    "name": ("name", name_words),
    "operator": ("operator", name_words),
    "input_shapes": ("shapes", name_words),
    "path": ("module", name_words),
}
_TEXTS = {"class", "category", "name", "group_desc", "kind", "limited_by", "tier", "operator", "input_shapes", "path"}


def sections(answer: TopAnswer, run: str) -> list[Section]:
    """Return the largest rows with their share, and how much is not shown."""
    question = question_of(answer.what, answer.by, answer.metric)
    heading = f"top {answer.what} by {answer.by}{', as a tree' if answer.is_tree else ''}"
    window = "analysis window" if question.has_steps else "all that was recorded"
    where = [f"step {answer.step}" if answer.step is not None else window]
    where += [] if answer.rank is None else [f"rank {answer.rank}"]
    head = Heading(run, (Text(f"{heading} · {' · '.join(where)}"),))
    if answer.nothing is not None:
        return [Section((head, Paragraph(answer.nothing.rstrip("."), role="caution")))]
    ordered = question.by[answer.by]
    names = [name for name in _SHOWN if name in (*question.keys, *question.values)]
    if ordered == "headroom_ns":
        names = [name for name in names if name != "flops"]  # the rate says the same, and leaves room for names
    known = {name for name in names if any(row[name] is not None for row in answer.rows)}
    empty = [_SHOWN[name][0] for name in names if name not in known and name not in _RARE]
    names = [ordered, *(name for name in names if name in known and name != ordered)]
    columns = [_SHOWN[name][0] for name in names]
    has_shares = question.has_shares and (answer.by in question.wholes or not question.tree)
    rows = []
    for row in answer.rows:
        cells = ["–" if row[name] is None else _written(question.metric, name, row) for name in names]
        cells[-1] = f"{_INDENT * row['depth']}{cells[-1]}" if answer.is_tree else cells[-1]
        part_ns = -1 if row[ordered] is None else row[ordered]
        share = percent(part_ns / answer.whole_ns) if answer.whole_ns and part_ns >= 0 else "–"
        rows.append((cells[0], *([share] if has_shares else []), *cells[1:]))
    if has_shares:
        names.insert(1, "share")
        columns.insert(1, "share")
    right = frozenset(i for i, name in enumerate(names) if name not in _TEXTS)
    table = Table(tuple(columns), tuple(rows), right=right)
    more = f"{counted(answer.left_out_count, 'row')} not shown; --top shows more. " if answer.left_out_count else ""
    shares = f"Share: of {question.share_of}. " if answer.by == "time" and answer.by in question.wholes else ""
    rest = answer.elsewhere_ns / answer.whole_ns if answer.whole_ns else 0
    if rest >= _LEAST_REST:
        shares = f"{shares}{percent(rest)} of it was launched outside any {answer.what.removesuffix('s')}. "
    unknown = f"Not recorded, or not known: {listed(empty)}. " if empty else ""
    note = (
        f"{more}{shares}{question.meaning} {unknown}`traceanalyzer metrics show {answer.metric}` has the definitions."
    )
    return [Section((head, table)), Section((Paragraph(note, role="dim"),))]


def _written(metric: str, name: str, row: Mapping[str, Any]) -> str:
    if name == "limited_by" and metric == "operator_efficiency":
        return limit_words(row[name])
    some_unknown = name == "size_bytes" and "sized_count" in row and row["sized_count"] < row["call_count"]
    return ("at least " if some_unknown else "") + _SHOWN[name][1](row[name])


def write_json(answer: TopAnswer, run: str, stream: TextIO) -> None:
    visible.write_json(document(answer, run), stream)


def document(answer: TopAnswer, run: str) -> dict[str, Any]:
    """Return the answer as plain values that JSON can hold."""
    return {
        "schema_version": SCHEMA_VERSION,
        "run": run,
        "top": answer.what,
        "by": answer.by,
        "rank": answer.rank,
        "step": answer.step,
        "metric": answer.metric,
        "meaning": question_of(answer.what, answer.by, answer.metric).meaning,
        "row_count": answer.row_count,
        "whole_ns": answer.whole_ns,
        "elsewhere_ns": answer.elsewhere_ns,
        "nothing": answer.nothing,
        "rows": [dict(row) for row in answer.rows],
    }
