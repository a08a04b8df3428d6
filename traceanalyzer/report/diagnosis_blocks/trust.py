"""How far to trust a diagnosis: its recordings, the rules that were checked and skipped, and what none explains."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from traceanalyzer.diagnosis import Diagnosis, LeftOut, Outcome, Override, Recording, TraceSummary
from traceanalyzer.diagnosis.shares import compute_share, unexplained_rest, unexplained_share
from traceanalyzer.diagnosis.verdict import judges_host, pooled_ledger
from traceanalyzer.report.blocks import Block, Bullets, Heading, Paragraph, Section, Table, Text
from traceanalyzer.text.words import bucket_words, counted, duration, gain, listed, percent, short_names

MOST_FILES = 8
# By traces.recorder. What any other program writes has no options that are known here.
_BY_RECORDER = {
    "kineto": "torch",
    "nsys": "nsys",
    "jax": "jax",
    "tensorflow": "tensorflow",
    "torch_xla": "torch_xla",
    "rocprof": "rocprof",
}


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
        of = (
            f"{pooled.recording_count} of {pooled.recording_count + len(others)}"
            if others
            else "both"
            if len(judged) == 2
            else f"all {len(judged)}"
        )
        return f"The steps of {of} recordings are pooled: {counted(pooled.step_count, 'step')}{_range_words(judged)}."
    if len(sessions) > 1:
        return "Every recording is judged by itself, and the slowest one stands for the run."
    name = short_names([trace.trace for trace in diagnosis.traces])[judged[0].trace]
    of_rest = max((item.step_count for item in others), default=0)
    most = max(item.step_count for item in judged)
    why = "the one with the most steps" if most > of_rest else "the latest"
    what = counted(most, "step") if most else "no steps are known"
    if len(judged) > 1:
        return f"One recording of each rank is judged, {why}: {what}."
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
    busy = {(ledger.trace, ledger.device): percent(compute_share(ledger)) for ledger in diagnosis.ledgers}
    names = short_names([trace.trace for trace in diagnosis.traces])
    reasons = {item.apart_because for item in rows if not item.is_judged}
    several = len({(item.trace, item.device) for item in rows}) > len({item.trace for item in rows})
    shown = rows if verbose else rows[:MOST_RECORDINGS]
    lines = [
        (
            f"{names[item.trace]}, device {item.device}" if several else names[item.trace],
            *_times(item),
            busy.get((item.trace, item.device), "–"),
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


def override_sections(diagnosis: Diagnosis) -> list[Section]:
    """Return every change, by where it comes from."""
    sections = []
    for origin in dict.fromkeys(override.origin for override in diagnosis.overrides):
        place = Path(origin).name if origin.endswith(".toml") else origin
        items = [_override_words(override) for override in diagnosis.overrides if override.origin == origin]
        notes = (Text(origin, "dim"),) if place != origin else ()
        sections.append(Section((Bullets(tuple(items)),), Heading(f"Changed by {place}", notes)))
    return sections


def _override_words(override: Override) -> Text:
    name = f"{override.rule} " if override.rule else ""
    until = f" until {override.until}" if override.kind == "suppressed" else ""
    reason = f": {override.reason}" if override.reason else ""
    return Text(f"{name}{override.what}{until}{reason}", "caution" if override.kind == "ended" else "dim")


# The reason of a rule that has nothing to look for in a run.
NOT_APPLICABLE = "not-applicable"
_NO_GPU_WORK = "missing-capability:gpu_ops"
# Reasons that another recording of the same job would not change.
_NOT_RECORDABLE = frozenset(
    {"error", "limit-reached", "missing-capability:hw_peaks", "missing-capability:kernel_names"}
)
# The name of a reason for programs, ahead of its words.
_NAME = re.compile(r"^[a-z]+(?:-[a-z]+)+: ")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
# More rules than these are counted, where not everything is asked for.
MOST_NAMES = 2
MOST_REASONS = 4


def skipped_sections(diagnosis: Diagnosis, *, verbose: bool) -> list[Section]:
    """Return the rules that lack data, one line for each reason; with `verbose` also those that do not apply."""
    sections = []
    lacking = skipped(diagnosis)
    if lacking:
        title = f"{counted(_rule_count(lacking), 'rule')} skipped: data not recorded"
        sections.append(_section(title, (Text("why → what to record", "dim"),), lacking, verbose=verbose))
    strangers = not_applicable(diagnosis)
    if strangers and verbose:
        count = _rule_count(strangers)
        title = f"{counted(count, 'rule')} {'does' if count == 1 else 'do'} not apply to this run"
        sections.append(_section(title, (), strangers, verbose=verbose))
    return sections


def skipped(diagnosis: Diagnosis) -> list[Outcome]:
    """Return the outcomes of rules that lacked data everywhere in the run."""
    return _abstained(diagnosis, strangers=False)


def not_applicable(diagnosis: Diagnosis) -> list[Outcome]:
    """Return the outcomes of rules that have nothing to look for in the run."""
    return _abstained(diagnosis, strangers=True)


def checked_words(diagnosis: Diagnosis, *, skips: bool = True) -> str:
    """Say how many rules were checked, and with `skips` how many not: `…; 3 rules skipped: data not recorded`."""
    lacking = {outcome.rule for outcome in skipped(diagnosis)}
    strangers = {outcome.rule for outcome in not_applicable(diagnosis)} - lacking
    rules = {outcome.rule for outcome in diagnosis.outcomes} - strangers
    words = f"{len(rules - lacking)} of {counted(len(rules), 'rule')} checked"
    if lacking and skips:
        words += f"; {counted(len(lacking), 'rule')} skipped: data not recorded"
    return words


def profiler_of(traces: Sequence[TraceSummary]) -> str | None:
    """Return the profiler whose recipe records traces like these; None: what recorded them has none."""
    return next((known for trace in traces if (known := _BY_RECORDER.get(trace.recorder or ""))), None)


def record_words(diagnosis: Diagnosis) -> str:
    """Name the command that prints how to record what rules lacked; '' where none is known, or none would help."""
    profiler = profiler_of(diagnosis.traces)
    lacking = [outcome for outcome in skipped(diagnosis) if outcome.reason not in _NOT_RECORDABLE]
    return f" To record what is missing: traceanalyzer record {profiler}" if lacking and profiler else ""


def _abstained(diagnosis: Diagnosis, *, strangers: bool) -> list[Outcome]:
    """Return the abstentions of rules about something else (about the GPU, where the host was judged), or of others."""
    looked = {outcome.rule for outcome in diagnosis.outcomes if outcome.state != "abstained"}
    of_others = {NOT_APPLICABLE, _NO_GPU_WORK} if judges_host(diagnosis) else {NOT_APPLICABLE}
    abstained = [o for o in diagnosis.outcomes if o.state == "abstained" and o.rule not in looked]
    return [outcome for outcome in abstained if (outcome.reason in of_others) == strangers]


def _rule_count(outcomes: Sequence[Outcome]) -> int:
    return len({outcome.rule for outcome in outcomes})


def _section(title: str, notes: tuple[Text, ...], outcomes: Sequence[Outcome], *, verbose: bool) -> Section:
    groups: dict[tuple[str, str, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        # What differs in numbers only, as on several devices, is one reason.
        detail = _NUMBER.sub("0", outcome.detail or "")
        groups[(outcome.reason or "", outcome.unlock or "", detail)].append(outcome)
    ordered = sorted(groups.items(), key=lambda group: (-_rule_count(group[1]), group[0]))
    shown = ordered if verbose else ordered[:MOST_REASONS]
    items = [_item(reason, unlock, group, verbose=verbose) for (reason, unlock, _), group in shown]
    if len(shown) < len(ordered):
        more = len(ordered) - len(shown)
        items.append(f"and {counted(more, 'more reason')}; -v lists {'it' if more == 1 else 'them'}")
    return Section((Bullets(tuple(Text(item) for item in items)),), Heading(title, notes))


def _item(reason: str, unlock: str, outcomes: Sequence[Outcome], *, verbose: bool) -> str:
    details = {_NAME.sub("", outcome.detail) for outcome in outcomes if outcome.detail}
    because = min(details, default=reason.rpartition(":")[2].replace("_", " "))
    because += ", and the like" if len(details) > 1 else ""
    names = sorted({outcome.rule for outcome in outcomes})
    named = ", ".join(names) if verbose or len(names) <= MOST_NAMES else f"{names[0]} and {len(names) - 1} more"
    return f"{because}{' → ' + unlock if unlock else ''}  ({named})"


MOST_BUCKETS = 4
# Shares of unexplained time below this are not worth a word.
LEAST_SHARE = 0.005
# Time of the host of which nothing is in the trace; from this share on it is worth a recording.
UNSEEN_HOST = "host.other"
TAIL = "edge.tail"
MUCH_UNSEEN_SHARE = 0.05
# Characters of a function's name; those of templates are longer.
MOST_NAME = 60


def below_noise_blocks(diagnosis: Diagnosis) -> tuple[Block, ...]:
    """Return what was found and may be chance, as the steps differ by more; each rule once, with its largest saving."""
    largest = {item.rule: item for item in reversed(diagnosis.below_noise)}
    if not largest:
        return ()
    worst = sorted(largest.values(), key=lambda item: -item.saving_share)
    floors = sorted({percent(item.noise_share) for item in diagnosis.below_noise})
    limit = f"savings under {floors[0]}" if len(floors) == 1 else "small savings"
    named = ", ".join(f"{item.rule} ({gain(item.saving_share)})" for item in worst)
    words = f"step times vary, so {limit} may be chance: {named}. Record more steps to tell."
    return (Paragraph(words, label=Text("below the noise", "strong")),)


def unexplained_sections(diagnosis: Diagnosis) -> list[Section]:
    """Return the largest buckets of the ledger that no finding owns."""
    window_ns = sum(ledger.window_ns for ledger in diagnosis.ledgers)
    parts = {bucket: ns for bucket, ns in diagnosis.not_explained if window_ns and ns > 0}
    rest = unexplained_rest(diagnosis)
    if not parts or rest.left < LEAST_SHARE:
        return []
    large, *more = sorted(parts.items(), key=lambda part: -part[1])[:MOST_BUCKETS]
    largest = [large, *(part for part in more if part[1] >= LEAST_SHARE * window_ns)]
    name = diagnosis.ledgers[0].device_name if diagnosis.ledgers else None
    if rest.gone < LEAST_SHARE:
        named = "; ".join(
            f"{bucket_words(bucket, name)} {unexplained_share(diagnosis, bucket, ns)}" for bucket, ns in largest
        )
    else:
        named = "; ".join(bucket_words(bucket, name) for bucket, _ in largest)
        named += f". Another {percent(rest.gone)} is in no finding either, but goes with the fixes above."
    blocks = [Paragraph(named, role="dim")]
    # What the host did after the last kernel.
    tails = [item.message for item in diagnosis.findings if item.rule == "tq-host-after-gpu" and TAIL in dict(largest)]
    blocks += [Paragraph(words, role="dim") for words in tails[:1]]
    if parts.get(UNSEEN_HOST, 0) >= MUCH_UNSEEN_SHARE * window_ns:
        blocks.append(Paragraph(_unseen_host(diagnosis), role="dim"))
    count = len(diagnosis.ledgers) if pooled_ledger(diagnosis) is None else 1
    whose = "" if count == 1 else " of both devices" if count == 2 else f" of all {count} devices"
    share = f"{percent(rest.left)} of the time{whose}"
    return [Section(tuple(blocks), Heading("Not explained by any rule", (Text(share),)))]


def _unseen_host(diagnosis: Diagnosis) -> str:
    """Say what the host did where no call and no range of it was recorded, or how to record it."""
    if diagnosis.host_functions:
        found = ", ".join(f"{_short(item.name)} {percent(item.share)}" for item in diagnosis.host_functions)
        return f"CPU samples show what the host did there: {found} of the samples."
    hint = f": {diagnosis.host_hint}" if diagnosis.host_hint else ""
    return f"What the host did there was not recorded{hint}."


def _short(name: str) -> str:
    return name if len(name) <= MOST_NAME else f"{name[: MOST_NAME - 1]}…"
