"""What a difference is made of: buckets of the ledger, kernels and operators."""

from __future__ import annotations

from collections.abc import Sequence

from traceanalyzer.comparison.comparing import Diff
from traceanalyzer.comparison.differences import SMALL_LEDGER_SHARE, LedgerRow, NamedDifference, NamedRow
from traceanalyzer.report.blocks import Block, Heading, Paragraph, Section, Table, Text
from traceanalyzer.report.diff_blocks.words import bar, signed_duration, unit_words
from traceanalyzer.report.words import bucket_words, counted, duration, name_words, percent, told_apart

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
    large, small = ledger_rows(diff, verbose=verbose)
    if not large and not small:
        return []
    widest = max((abs(row.delta_ns) for row in large), default=0)
    tested = any(row.shown != "not tested" for row in (*large, *small))
    lines = [
        (*_ledger_row(row, bucket_words(row.bucket), widest), *([_SHOWN[row.shown]] if tested else [])) for row in large
    ]
    if small:
        together = together_row(small)
        lines.append((*_ledger_row(together, counted(len(small), "smaller one"), widest), *([""] if tested else [])))
    whole = LedgerRow("", diff.base_ns, diff.new_ns)
    lines.append((*_ledger_row(whole, "together", 0), *([""] if tested else [])))
    columns = ("where the time goes", "base", "new", "difference", "", *(["sure"] if tested else []))
    heading = Heading("What the difference is made of", (Text(unit_words(diff), "dim"),))
    return [Section((Table(columns, tuple(lines), right=frozenset({1, 2, 3})),), heading)]


def ledger_rows(diff: Diff, *, verbose: bool = False) -> tuple[list[LedgerRow], list[LedgerRow]]:
    """Return the buckets that are shown, largest changes first, and those put together; none where nothing changed."""
    rows = [row for row in diff.ledger if row.base_ns or row.new_ns]
    if not any(row.delta_ns for row in rows):
        return [], []
    limit = 0 if verbose else SMALL_LEDGER_SHARE * diff.base_ns
    large = [row for row in rows if abs(row.delta_ns) >= limit and row.delta_ns][: None if verbose else MOST_BUCKETS]
    return large, [row for row in rows if row not in large]


def together_row(rows: Sequence[LedgerRow]) -> LedgerRow:
    """Return buckets as one row."""
    return LedgerRow("", sum(row.base_ns for row in rows), sum(row.new_ns for row in rows))


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
