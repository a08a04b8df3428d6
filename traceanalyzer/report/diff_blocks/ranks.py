"""How the ranks changed: the slowest, the spread, and what scaling kept."""

from __future__ import annotations

from traceanalyzer.comparison.comparing import Diff
from traceanalyzer.comparison.rank_changes import RankChanges
from traceanalyzer.report.blocks import Block, Heading, Paragraph, Section, Table
from traceanalyzer.report.diff_blocks.words import change, signed_duration
from traceanalyzer.report.words import counted, duration, percent

MOST_RANKS = 6


def rank_sections(diff: Diff, *, verbose: bool) -> list[Section]:
    """Return the slowest device, mean and spread of both sides, and the ranks that changed most."""
    ranks = diff.ranks
    if ranks is None or (ranks.rows and all(row.base_ns == row.new_ns for row in ranks.rows)):
        return []
    rows = (
        ("devices", str(ranks.base_count), str(ranks.new_count), ""),
        ("slowest", *_times(ranks.base_worst_ns, ranks.new_worst_ns)),
        ("  which", ranks.base_worst, ranks.new_worst, ""),
        ("mean", *_times(ranks.base_mean_ns, ranks.new_mean_ns)),
        (
            "slowest over fastest",
            change(ranks.base_spread_share) if ranks.base_count > 1 else "–",
            change(ranks.new_spread_share) if ranks.new_count > 1 else "–",
            "",
        ),
    )
    blocks: list[Block] = [Table(("", "base", "new", "difference"), rows, right=frozenset({1, 2, 3}))]
    blocks += _scaling(ranks)
    changed = [row for row in ranks.rows if row.base_ns != row.new_ns]
    shown = changed if verbose else changed[:MOST_RANKS]
    if shown and len(ranks.rows) > 1:
        note = f"{len(changed) - len(shown)} more with -v" if len(shown) < len(changed) else ""
        lines = tuple((row.place, *_times(row.base_ns, row.new_ns)) for row in shown)
        blocks.append(Table(("rank", "base", "new", "difference"), lines, right=frozenset({1, 2, 3}), note=note))
    return [Section(tuple(blocks), Heading("Ranks"))]


def _times(base_ns: int, new_ns: int) -> tuple[str, str, str]:
    return duration(base_ns), duration(new_ns), signed_duration(new_ns - base_ns)


def _scaling(ranks: RankChanges) -> list[Block]:
    if ranks.weak_efficiency is None or ranks.strong_efficiency is None:
        return []
    words = (
        f"{counted(ranks.base_count, 'device')} → {counted(ranks.new_count, 'device')}: scaling efficiency "
        f"{percent(ranks.weak_efficiency)} where each device keeps its work a step (weak scaling), "
        f"{percent(ranks.strong_efficiency)} where the devices share the work of a step (strong scaling)."
    )
    return [Paragraph(words)]
