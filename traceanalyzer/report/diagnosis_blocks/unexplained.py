"""What no finding is about: savings below the noise of the steps, and time that no rule explains."""

from __future__ import annotations

from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.report.blocks import Block, Heading, Paragraph, Section, Text
from traceanalyzer.report.ledger_shares import unexplained_share
from traceanalyzer.report.unexplained_rest import unexplained_rest
from traceanalyzer.report.words import bucket_words, gain, percent

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
    if rest.gone < LEAST_SHARE:
        named = "; ".join(
            f"{bucket_words(bucket)} {unexplained_share(diagnosis, bucket, ns)}" for bucket, ns in largest
        )
    else:
        named = "; ".join(bucket_words(bucket) for bucket, _ in largest)
        named += f". Another {percent(rest.gone)} is in no finding either, but goes with the fixes above."
    blocks = [Paragraph(named, role="dim")]
    blocks += [Paragraph(words, role="dim") for words in _tails(diagnosis) if TAIL in dict(largest)]
    if parts.get(UNSEEN_HOST, 0) >= MUCH_UNSEEN_SHARE * window_ns:
        blocks.append(Paragraph(_unseen_host(diagnosis), role="dim"))
    share = f"{percent(rest.left)} of the time"
    return [Section(tuple(blocks), Heading("Not explained by any rule", (Text(share),)))]


def _tails(diagnosis: Diagnosis) -> list[str]:
    """Say what the host did after the last kernel."""
    return [finding.message for finding in diagnosis.findings if finding.rule == "tq-host-after-gpu"][:1]


def _unseen_host(diagnosis: Diagnosis) -> str:
    """Say what the host did where no call and no range of it was recorded, or how to record it."""
    if diagnosis.host_functions:
        found = ", ".join(f"{_short(item.name)} {percent(item.share)}" for item in diagnosis.host_functions)
        return f"CPU samples show what the host did there: {found} of the samples."
    hint = f": {diagnosis.host_hint}" if diagnosis.host_hint else ""
    return f"What the host did there was not recorded{hint}."


def _short(name: str) -> str:
    return name if len(name) <= MOST_NAME else f"{name[: MOST_NAME - 1]}…"
