"""Several recordings of one rank: which of them the report judges and why, and the steps of each.

Files that the run does not count, each with the reason: silence would say that they are part of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from traceanalyzer.diagnosis import DeviceLedger, Diagnosis, LeftOut, Recording
from traceanalyzer.diagnosis.verdict import compute_share, pooled_ledger
from traceanalyzer.report.blocks import Bullets, Heading, Paragraph, Section, Table, Text
from traceanalyzer.text.words import counted, duration, listed, percent, short_names

MOST_FILES = 8


def left_out_sections(files: Sequence[LeftOut], *, verbose: bool = False) -> list[Section]:
    """Return a note for each file that was left out; the last of many are counted unless all are asked for."""
    if not files:
        return []
    shown = files if verbose else files[:MOST_FILES]
    items = [f"{file.file} {file.reason}" + (f" ({file.hint})" if file.hint else "") for file in shown]
    if len(shown) < len(files):
        items.append(f"and {len(files) - len(shown)} more; -v lists them")
    return [Section((Bullets(tuple(Text(item, "dim") for item in items)),), Heading("Left out of the run"))]


MOST_RECORDINGS = 6


def recordings_words(diagnosis: Diagnosis) -> str:
    """Say which recordings of a rank the report judges and why, and what becomes of the others; empty: one each."""
    judged = [item for item in diagnosis.recordings if item.is_judged and item.recording_count > 1]
    others = [item for item in diagnosis.recordings if not item.is_judged]
    if not judged:
        return ""
    words = _judged_words(diagnosis, judged, others)
    reasons = dict.fromkeys(item.apart_because for item in others if item.apart_because)
    if reasons:
        what = "The other is" if len({item.session for item in others}) == 1 else "The others are"
        words += f" {what} only listed: {listed([*reasons])}."
    return words


def recordings_blocks(diagnosis: Diagnosis) -> tuple[Paragraph, ...]:
    """Return the sentence about several recordings of a rank as a block; nothing where each was recorded once."""
    words = recordings_words(diagnosis)
    return (Paragraph(words, role="dim"),) if words else ()


def _judged_words(diagnosis: Diagnosis, judged: Sequence[Recording], others: Sequence[Recording]) -> str:
    sessions = {item.session for item in judged}
    pooled = pooled_ledger(diagnosis)
    if pooled is not None:
        of = f"{pooled.recording_count} of {pooled.recording_count + len(others)}" if others else f"all {len(judged)}"
        return f"The steps of {of} recordings are pooled: {counted(pooled.step_count, 'step')}{_range_words(judged)}."
    if len(sessions) > 1:
        return "Every recording is judged by itself, and the slowest one stands for the run."
    name = short_names([trace.trace for trace in diagnosis.traces])[judged[0].trace]
    of_rest = max((item.step_count for item in others), default=0)
    most = max(item.step_count for item in judged)
    why = "the one with the most steps" if most > of_rest else "the latest"
    if len(judged) > 1:
        return f"One recording of each rank is judged, {why}: {counted(most, 'step')}."
    what = counted(most, "step") if most else "no steps are known"
    return f"Of {len(judged) + len(others)} recordings {name} is judged, {why}: {what}{_range_words(judged)}."


def _range_words(recordings: Sequence[Recording]) -> str:
    low = min((item.step_min_ns for item in recordings if item.step_min_ns is not None), default=None)
    high = max((item.step_max_ns for item in recordings if item.step_max_ns is not None), default=None)
    if low is None or high is None:
        return ""
    ends = dict.fromkeys((duration(low), duration(high)))
    return f" of {' to '.join(ends)}"


def recordings_table(diagnosis: Diagnosis, *, verbose: bool = False) -> Table | None:
    """Return a line for each recording: its steps, how busy the GPU is, and why it is not judged; None: one each."""
    rows = [item for item in diagnosis.recordings if item.recording_count > 1]
    if not rows:
        return None
    ledgers = {(ledger.trace, ledger.device): ledger for ledger in diagnosis.ledgers}
    names = short_names([trace.trace for trace in diagnosis.traces])
    reasons = {item.apart_because for item in rows if not item.is_judged}
    several = len({(item.trace, item.device) for item in rows}) > len({item.trace for item in rows})
    shown = rows if verbose else rows[:MOST_RECORDINGS]
    lines = [
        (
            f"{names[item.trace]}, device {item.device}" if several else names[item.trace],
            *_times(item),
            _busy(ledgers.get((item.trace, item.device))),
            "" if item.is_judged else "not judged" if len(reasons) == 1 else f"not judged: {item.apart_because}",
        )
        for item in shown
    ]
    note = f"{len(rows) - len(shown)} more with -v" if len(shown) < len(rows) else ""
    columns = ("recording", "steps", "step time", "GPU busy", "")
    return Table(columns, tuple(lines), right=frozenset({1, 2, 3}), note=note, wraps_last=True)


def _times(item: Recording) -> tuple[str, str]:
    if not item.step_count or item.step_mean_ns is None:
        return "–", duration(item.window_ns)
    return str(item.step_count), duration(item.step_mean_ns)


def _busy(ledger: DeviceLedger | None) -> str:
    return "–" if ledger is None else percent(compute_share(ledger))
