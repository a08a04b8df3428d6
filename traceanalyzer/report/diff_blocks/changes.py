"""What changed: buckets of the ledger, kernels, operators and ranks, what became of findings, and of their promises.

Of ranks, it is said how the slowest changed, the spread, and what scaling kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from traceanalyzer.comparison.comparing import Diff
from traceanalyzer.comparison.differences import SMALL_LEDGER_SHARE, LedgerRow, NamedDifference, NamedRow, RankChanges
from traceanalyzer.comparison.verification import Promise
from traceanalyzer.report.blocks import Block, Heading, Paragraph, Section, Table, Text
from traceanalyzer.text.words import bucket_words, counted, duration, gain, name_words, percent, told_apart

BAR_CELLS = 10


def change(share: float) -> str:
    """Say a change of a share: `−21.6 %`, `+0.4 %`."""
    if abs(share) < 0.0005:
        return "0.0 %"
    words = f"{share * 100:,.0f} %" if share >= 10 else percent(abs(share))
    return f"{'−' if share < 0 else '+'}{words}"


def signed_duration(dur_ns: float) -> str:
    """Say a change of a time: `−44.60 ms`."""
    if not dur_ns:
        return "0"
    return f"{'−' if dur_ns < 0 else '+'}{duration(abs(dur_ns))}"


def bar(part: float, whole: float) -> str:
    """Return up to BAR_CELLS block characters."""
    return "█" * max(1, round(BAR_CELLS * abs(part) / whole)) if part and whole else ""


def unit_words(diff: Diff) -> str:
    if diff.alignment.kind == "work":
        return "per unit of work"
    return "per step" + (" on the host" if diff.sides[0][0].time_of == "host" else "")


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


MOST_BUCKETS = 8
MOST_NAMES = 6
MOST_NAMES_VERBOSE = 20
LONGEST_NAME = 72
# Whether the captures show that a row changed.
_SHOWN = {"shown": "yes", "not shown": "no", "not tested": "–"}
# Names whose time changes by less of the unit are not shown without -v.
SMALL_NAME_SHARE = 0.001


def ledger_sections(diff: Diff, *, verbose: bool) -> list[Section]:
    """Return the buckets of both sides; their differences add up to that of the unit."""
    rows = ledger_rows(diff, verbose=verbose)
    if not rows:
        return []
    widest = max(abs(row.delta_ns) if row.bucket else 0 for row, _ in rows)
    tested = any(row.shown != "not tested" for row in diff.ledger if row.base_ns or row.new_ns)
    lines = [
        (*_ledger_row(row, words, widest), *([_SHOWN[row.shown] if row.bucket else ""] if tested else []))
        for row, words in rows
    ]
    whole = LedgerRow("", diff.base_ns, diff.new_ns)
    lines.append((*_ledger_row(whole, "together", 0), *([""] if tested else [])))
    columns = ("where the time goes", "base", "new", "difference", "", *(["sure"] if tested else []))
    heading = Heading("What the difference is made of", (Text(unit_words(diff), "dim"),))
    return [Section((Table(columns, tuple(lines), right=frozenset({1, 2, 3})),), heading)]


def ledger_rows(diff: Diff, *, verbose: bool = False) -> list[tuple[LedgerRow, str]]:
    """Return the buckets in words, largest changes first, and the smaller ones as one; none where nothing changed."""
    rows = [row for row in diff.ledger if row.base_ns or row.new_ns]
    if not any(row.delta_ns for row in rows):
        return []
    limit = 0 if verbose else SMALL_LEDGER_SHARE * diff.base_ns
    large = [row for row in rows if abs(row.delta_ns) >= limit and row.delta_ns][: None if verbose else MOST_BUCKETS]
    shown, small = [(row, bucket_words(row.bucket)) for row in large], [row for row in rows if row not in large]
    together = LedgerRow("", sum(row.base_ns for row in small), sum(row.new_ns for row in small))
    return [*shown, (together, counted(len(small), "smaller one"))] if small else shown


def _ledger_row(row: LedgerRow, words: str, widest: int) -> tuple[str, ...]:
    times = (duration(row.base_ns) if row.base_ns else "–", duration(row.new_ns) if row.new_ns else "–")
    return (words, *times, signed_duration(row.delta_ns), bar(row.delta_ns, widest))


def named_sections(diff: Diff, *, verbose: bool) -> list[Section]:
    """Return the kernels and the operators whose time changes most."""
    sections = _named(
        diff, diff.kernels, "Kernels", "on each device; kernels that run at once count twice", verbose=verbose
    )
    if diff.sides[0][0].time_of == "host" or verbose:
        note = "host time without the operators inside"
        sections += _named(diff, diff.operators, "Operators", note, verbose=verbose)
    return sections


def _named(diff: Diff, difference: NamedDifference, title: str, note: str, *, verbose: bool) -> list[Section]:
    limit = 0 if verbose else SMALL_NAME_SHARE * diff.base_ns
    rows = [row for row in difference.rows if row.delta_ns and abs(row.delta_ns) >= limit]
    if not rows:
        return []
    shown = rows[: MOST_NAMES_VERBOSE if verbose else MOST_NAMES]
    tested = any(row.shown != "not tested" for row in shown)
    names = told_apart([_name(row) for row in shown], LONGEST_NAME)
    lines = [
        (name, *_named_row(row), *([_SHOWN[row.shown]] if tested else []))
        for name, row in zip(names, shown, strict=True)
    ]
    more = f"{len(rows) - len(shown)} more in JSON" if len(shown) < len(rows) else ""
    columns = ("name", "launches", "base", "new", "difference", "by count", "by duration")
    table = Table((*columns, *(["sure"] if tested else [])), tuple(lines), frozenset(range(1, 7)), note=more)
    blocks: list[Block] = [table, Paragraph(_sums(difference), role="dim")]
    heading = Heading(title, (Text(f"{unit_words(diff)}, {note}", "dim"),))
    return [Section(tuple(blocks), heading, folded=True)]


def _name(row: NamedRow) -> str:
    return name_words(row.name) if row.state == "changed" else f"{row.state}: {name_words(row.name)}"


def _named_row(row: NamedRow) -> tuple[str, ...]:
    return (
        _launches(row.base_launches, row.new_launches),
        duration(row.base_ns) if row.base_ns else "–",
        duration(row.new_ns) if row.new_ns else "–",
        signed_duration(row.delta_ns),
        signed_duration(row.count_ns),
        signed_duration(row.length_ns),
    )


def _launches(base: float, new: float) -> str:
    words = [f"{count:,.0f}" if count == round(count) else f"{count:,.1f}" for count in (base, new)]
    return words[0] if words[0] == words[1] else f"{words[0]} → {words[1]}"


def _sums(difference: NamedDifference) -> str:
    parts: Sequence[tuple[str, int]] = [
        (state, sum(row.delta_ns for row in difference.rows if row.state == state))
        for state in ("changed", "renamed", "added", "removed")
    ]
    changes = ", ".join(f"{state} {signed_duration(dur_ns)}" for state, dur_ns in parts if dur_ns)
    matched = [share for share in (difference.matched_base, difference.matched_new) if share is not None]
    names = (
        f"; {' and '.join(percent(share) for share in matched)} of the time in names of both sides" if matched else ""
    )
    whole = signed_duration(difference.new_ns - difference.base_ns)
    return f"together {whole}{f': {changes}' if changes else ''}{names}"


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
