"""What the page says first, the verdict and its numbers, and last, how far to trust it and which rules were skipped."""

from __future__ import annotations

from dataclasses import dataclass

from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.diagnosis.diagnosis import gpu_count
from traceanalyzer.diagnosis.findings import asks_for_recording, promised_ns
from traceanalyzer.diagnosis.shares import compute_share
from traceanalyzer.diagnosis.verdict import (
    RunVerdict,
    has_no_compute,
    is_recorded_again,
    leading_finding,
    pooled_ledger,
    problems,
    step_ns,
)
from traceanalyzer.report.blocks import Bullets, Heading, Section, Text
from traceanalyzer.report.brief import summary_lines
from traceanalyzer.report.diagnosis_blocks import (
    inventory_words,
    leading_plan,
    trust_blocks,
)
from traceanalyzer.report.diagnosis_blocks.ledgers import alike
from traceanalyzer.report.diagnosis_blocks.trust import (
    below_noise_blocks,
    checked_words,
    left_out_sections,
    override_sections,
    recordings_blocks,
    skipped,
    skipped_sections,
    unexplained_sections,
)
from traceanalyzer.report.html.document import Part, blocks_markup, filled, shown_name
from traceanalyzer.report.html.source import PageSource
from traceanalyzer.text.words import counted, duration, gain, percent, speedup, times

# What a sentence says of its cause behind the cause itself.
_PROMISE = ": fixing "


def section(source: PageSource) -> Part | None:
    """Return the verdict's cause as the headline of the page and the rest below it."""
    headline, lead = headline_of(source.diagnosis, source.verdict)
    values = {
        "inventory": inventory_words(source.diagnosis),
        "state": source.verdict.state,
        "headline": headline,
        "lead": lead,
        "warnings": blocks_markup(
            [*recordings_blocks(source.diagnosis), *trust_blocks(source.diagnosis, verbose=False)]
        ),
        "summary": "\n".join(summary_lines(source.diagnosis)),
    }
    return Part("verdict", "", filled("verdict.html", values))


def headline_of(diagnosis: Diagnosis, verdict: RunVerdict) -> tuple[str, str]:
    """Return the part of a verdict that names what to act on, and the others in their order."""
    sentences = [piece.rstrip(".") for piece in verdict.sentence.split(". ")]
    if len(sentences) == 1:
        sentences = sentences[0].split("; ", 1)
    lead = leading_finding(diagnosis)
    title = lead.title.rstrip(".").lower() if lead else ""
    at = next((at for at, words in enumerate(sentences) if title and words.lower().startswith(title)), 0)
    headline, promise, cost = sentences.pop(at).partition(_PROMISE)
    rest = [f"Fixing {cost}", *sentences] if promise else sentences
    return f"{_upper(headline)}.", " ".join(f"{_upper(words)}." for words in rest)


def _upper(words: str) -> str:
    return words[:1].upper() + words[1:]


# From this many steps on, their percentiles say something.
ENOUGH_STEPS = 8


@dataclass(frozen=True)
class Tile:
    """A number with what it is above and what goes with it below."""

    label: str
    number: str
    note: str


def numbers(source: PageSource) -> Part | None:
    """Return the numbers; none of a run without a window to speak of."""
    if (
        not source.diagnosis.ledgers
        or has_no_compute(source.diagnosis)
        or source.verdict.state in ("blocked", "host", "no-gpu")
    ):
        return None
    tiles = [_step(source), _compute(source), _fixes(source), _findings(source)]
    return Part("numbers", "", filled("numbers.html", {"tiles": tiles}))


def _step(source: PageSource) -> Tile:
    if (pooled := pooled_ledger(source.diagnosis)) is not None:
        note = f"mean of {pooled.step_count} in {pooled.recording_count} recordings"
        return Tile("Step time", duration(step_ns(pooled)), note)
    slowest = alike(source.diagnosis.ledgers)[0].worst
    if not slowest.step_count:
        return Tile("Window", duration(slowest.window_ns), "no steps found")
    note = f"mean of {slowest.step_count}" if slowest.step_count > 1 else "the only step"
    if slowest.step_count >= ENOUGH_STEPS:
        spread = source.rows("step_spread", [slowest.trace, slowest.device])
        if spread and spread[0]["p10_ns"] is not None:
            # More does not fit into the tile.
            note = f"{duration(spread[0]['p10_ns'])} to {duration(spread[0]['p90_ns'])} in 8 of 10"
    return Tile(
        "Step time" if len(source.diagnosis.ledgers) == 1 else "Step time of the slowest",
        duration(step_ns(slowest)),
        note,
    )


def _compute(source: PageSource) -> Tile:
    ledgers = source.diagnosis.ledgers
    pooled = pooled_ledger(source.diagnosis)
    shares = sorted(map(compute_share, ledgers)) if pooled is None else [compute_share(pooled)]
    names = sorted({ledger.device_name for ledger in ledgers if ledger.device_name})
    device = names[0] if len(names) == 1 else "" if not names else f"{len(names)} models"
    count = gpu_count(source.diagnosis)
    note = f"{count} × {device}" if count > 1 and device else device or counted(count, "device")
    if is_recorded_again(source.diagnosis):
        note += f", in {counted(len({ledger.trace for ledger in ledgers}), 'recording')}"
    low, high = percent(shares[0]), percent(shares[-1])
    return Tile(f"{source.noun} busy with compute", low if low == high else f"{low.removesuffix(' %')} to {high}", note)


def _fixes(source: PageSource) -> Tile:
    plan = leading_plan(source.diagnosis)
    joint = sum(promised_ns(plan, source.diagnosis.findings)) / plan.window_ns if plan else 0.0
    if plan is None or joint <= 0:
        found = problems(source.diagnosis)
        why = "record again to know" if any(map(asks_for_recording, found)) else "no saving can be computed"
        return Tile("All fixes together", "–", why if found else "nothing to save was found")
    return Tile("All fixes together", gain(joint), f"{speedup(joint)}, at best")


def _findings(source: PageSource) -> Tile:
    rules = {finding.rule for finding in problems(source.diagnosis)}
    lacking = {outcome.rule for outcome in skipped(source.diagnosis)}
    note = f"{counted(len(lacking), 'rule')} skipped: no data" if lacking else "every rule had its data"
    return Tile("Findings", str(len(rules)), note)


LONGEST_EXAMPLE = 240


def trust(source: PageSource) -> Part | None:
    """Return everything that limits what the page says; each rule that was skipped, with what to record."""
    diagnosis = source.diagnosis
    defects = _defects(source)
    suppressed = [
        Section(
            (Bullets(tuple(Text(f"{item.title} ({item.rule})") for item in diagnosis.suppressed)),),
            Heading("Suppressed"),
        )
    ]
    changed = [
        *([] if has_no_compute(diagnosis) else unexplained_sections(diagnosis)),
        *override_sections(diagnosis),
        *left_out_sections(diagnosis.left_out, verbose=True),
        *(suppressed if diagnosis.suppressed else []),
        *([Section((Bullets(tuple(defects)),), Heading("Defects of the traces"))] if defects else []),
    ]
    values = {
        "checked": checked_words(diagnosis),
        "quality": blocks_markup([*trust_blocks(diagnosis, verbose=True), *below_noise_blocks(diagnosis)]),
        "changed": [_titled(item) for item in changed],
        "skipped": [_titled(item) for item in skipped_sections(diagnosis, verbose=True)],
    }
    return Part("trust", "How far to trust it", filled("trust.html", values), "Trust")


def _defects(source: PageSource) -> list[Text]:
    """Say each kind of defect: how often, in which trace, what it means, and the first one as an example."""
    examples = {(row["trace"], row["defect"]): row["example"] for row in source.rows("defect_examples")}
    words = []
    for defect in source.diagnosis.defects:
        example = examples.get((defect.trace, defect.defect))
        shown = f"; for example {shown_name(example, LONGEST_EXAMPLE)}" if example else ""
        where = f"{times(defect.count)} in {defect.trace} ({defect.defect})"
        words.append(Text(f"{defect.advice.rstrip('.')}: {where}{shown}", "dim"))
    return words


def _titled(section: Section) -> dict[str, object]:
    heading = section.heading or Heading("")
    notes = " · ".join(item.words for item in heading.notes)
    return {"title": heading.title, "note": notes, "body": blocks_markup(section.blocks)}
