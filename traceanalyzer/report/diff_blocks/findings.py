"""What became of findings, and whether promised savings came true."""

from __future__ import annotations

from traceanalyzer.comparison.comparing import Diff
from traceanalyzer.report.blocks import Block, Heading, Paragraph, Section, Table, Text
from traceanalyzer.report.diff_blocks.words import signed_duration
from traceanalyzer.report.words import duration, gain, percent


def finding_sections(diff: Diff) -> list[Section]:
    """Return each finding of a side with its state."""
    if not diff.findings:
        return []
    rows = tuple(
        (
            item.state,
            item.rule,
            _share(item.base_share, item.base_captures, len(diff.base)),
            _share(item.new_share, item.new_captures, len(diff.new)),
            f"{item.title.rstrip('.')}{f': {item.note}' if item.note else ''}",
        )
        for item in diff.findings
    )
    note = Text("the saving that each side promises; only “gone” is fixed", "dim")
    columns = ("state", "rule", "base", "new", "finding")
    return [Section((Table(columns, rows, frozenset({2, 3}), wraps_last=True),), Heading("Findings", (note,)))]


def _share(share: float | None, captures: int, of: int) -> str:
    words = "–" if share is None else gain(share)
    return f"{words} ({captures} of {of})" if 0 < captures < of else words


def verification_sections(diff: Diff) -> list[Section]:
    """Say of the findings that are gone what was promised, what was saved, and what limits the run now."""
    found = diff.verification
    if found is None:
        return []
    rows = tuple((item.title, item.rule, f"up to {duration(item.bound_ns)}") for item in found.promises)
    blocks: list[Block] = [Table(("gone", "rule", "promised a step"), rows, right=frozenset({2}))]
    ratio = f", {percent(found.ratio)} of it" if found.ratio is not None and found.saved_ns > 0 else ""
    together = "" if len(found.promises) == 1 else " together"
    words = f"Promised{together}: up to {duration(found.together_ns)} a step. "
    words += f"Measured: {signed_duration(-found.saved_ns)} a step{ratio}."
    if diff.judgement.verdict in ("unsure", "these captures differ"):
        words += " The change may be chance."
    blocks.append(Paragraph(words))
    if found.limits_now is not None:
        share = f", {gain(found.limits_now_share)}" if found.limits_now_share else ""
        blocks.append(Paragraph(f"{found.limits_now}{share}.", label=Text("next", "good")))
    return [Section(tuple(blocks), Heading("Promised and saved"))]
