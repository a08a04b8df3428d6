"""What became of findings, and whether promised savings came true."""

from __future__ import annotations

from traceanalyzer.comparison.comparing import Diff
from traceanalyzer.comparison.verification import Promise
from traceanalyzer.report.blocks import Block, Heading, Paragraph, Section, Table, Text
from traceanalyzer.report.diff_blocks.changes import signed_duration, unit_words
from traceanalyzer.text.words import duration, gain, percent


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
    fixed = "" if diff.judgement.verdict == "not comparable" else "; only “gone” is fixed"
    note = Text(f"the saving that each side promises{fixed}", "dim")
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
    rows = [_promise_row(item) for item in found.promises]
    if found.others_ns is not None:
        rows.append(("other changes", "", "", signed_duration(-found.others_ns), ""))
    ratio = percent(found.ratio) if found.ratio is not None and found.saved_ns > 0 else "–"
    rows.append(("together", f"up to {duration(found.together_ns)}", "", signed_duration(-found.saved_ns), ratio))
    columns = ("gone", "promised", "its time before", "measured", "of the promise")
    blocks: list[Block] = [Table(columns, tuple(rows), right=frozenset({1, 2}))]
    if any(item.saved_least_ns != item.saved_most_ns for item in found.promises):
        words = "A range: time that came back elsewhere may be the time of any fix."
        blocks.append(Paragraph(words, role="dim"))
    if diff.judgement.verdict in ("unsure", "these captures differ"):
        blocks.append(Paragraph("The change may be chance."))
    if found.limits_now is not None:
        share = f", {gain(found.limits_now_share)}" if found.limits_now_share else ""
        blocks.append(Paragraph(f"{found.limits_now}{share}.", label=Text("next", "good")))
    note = Text(f"{unit_words(diff)}; of each finding, what the buckets lost in which its time lay", "dim")
    return [Section(tuple(blocks), Heading("Promised and saved", (note,)))]


def _promise_row(item: Promise) -> tuple[str, ...]:
    before = duration(item.owned_ns) if item.owned_ns else "–"
    promised = f"up to {duration(item.bound_ns)}"
    if item.saved_least_ns is None or item.saved_most_ns is None:
        return item.rule, promised, before, item.unknown, "–"
    ends = sorted({duration(abs(ns)) for ns in (item.saved_least_ns, item.saved_most_ns)})
    if len(ends) == 1:
        return (
            item.rule,
            promised,
            before,
            signed_duration(-item.saved_most_ns),
            "all of it" if item.saved_most_ns >= item.bound_ns else percent(item.saved_most_ns / item.bound_ns),
        )
    least, most = (signed_duration(-ns) for ns in (item.saved_least_ns, item.saved_most_ns))
    shares = _kept(item.saved_least_ns / item.bound_ns, item.saved_most_ns / item.bound_ns)
    return item.rule, promised, before, f"{least} to {most}", shares


def _kept(least: float, most: float) -> str:
    """Say how much of a promise was kept at least and at most; beyond the promise, that is all of it."""
    if least >= 1:
        return "all of it"
    if most >= 1:
        return f"at least {percent(least)}" if least > 0 else "none to all of it"
    return f"{percent(least)} to {percent(most)}" if least > 0 else f"at most {percent(most)}"
