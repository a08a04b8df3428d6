"""A diagnosis, or a part of it, as sections of blocks, in the order in which a report shows them.

A part is the findings of one rank, or the first few; the verdict stays that of the run.
"""

from __future__ import annotations

from dataclasses import replace

from msgspec import Struct

from traceanalyzer.diagnosis import Diagnosis, Finding
from traceanalyzer.diagnosis.verdict import RunVerdict, has_no_compute, judge, pooled_ledger, problems, quality_findings
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.report.blocks import Paragraph, Section
from traceanalyzer.report.diagnosis_blocks.findings import finding_sections
from traceanalyzer.report.diagnosis_blocks.headline import (
    below_noise_blocks,
    footer,
    headline,
    healthy_footer,
    healthy_headline,
    limits_trust,
    plan_sections,
    trust_blocks,
    unexplained_sections,
)
from traceanalyzer.report.diagnosis_blocks.ledgers import kernels_shown, ledger_sections, slowest_kernels
from traceanalyzer.report.diagnosis_blocks.ranks import rank_sections
from traceanalyzer.report.diagnosis_blocks.trust import (
    left_out_sections,
    override_sections,
    recordings_blocks,
    skipped_sections,
)
from traceanalyzer.text.words import counted, ranges


class Selection(Struct, frozen=True):
    """Which findings to show: those of a rank, those of the first rules in the order of fixes; None: all."""

    rank: int | None = None
    top: int | None = None

    def of(self, diagnosis: Diagnosis) -> Diagnosis:
        """Return a diagnosis with the chosen findings and ledgers alone; raises where the run has no such rank."""
        if self.rank is not None:
            known = sorted({trace.rank for trace in diagnosis.traces if trace.rank is not None})
            if self.rank not in known:
                hint = f"ranks here: {ranges(known)}" if known else "the traces name no ranks"
                raise TraceAnalyzerError(f"the run has no rank {self.rank}", "--rank", hint)
            diagnosis = replace(
                diagnosis,
                findings=tuple(finding for finding in diagnosis.findings if self._concerns(finding)),
                ledgers=tuple(ledger for ledger in diagnosis.ledgers if ledger.rank == self.rank),
                run_ledger=pooled_ledger(diagnosis),
                host_ledgers=tuple(ledger for ledger in diagnosis.host_ledgers if ledger.rank == self.rank),
            )
        if self.top is not None:
            rules = list(dict.fromkeys(finding.rule for finding in problems(diagnosis)))[self.top :]
            shown = tuple(finding for finding in diagnosis.findings if finding.rule not in rules)
            diagnosis = replace(diagnosis, findings=shown)
        return diagnosis

    def words(self, whole: Diagnosis, part: Diagnosis) -> str | None:
        """Say how much is not shown, and what the rest is of; None: the report is that of the whole run."""
        options = [f"--rank {self.rank}"] if self.rank is not None else []
        options += [f"--top {self.top}"] if self.top is not None else []
        shown, found = (len({finding.rule for finding in problems(of)}) for of in (part, whole))
        if self.rank is None and shown == found:
            return None
        count = f"{shown} of {counted(found, 'finding')} shown ({', '.join(options)})"
        return f"{count}; all but the ledger is of the whole run."

    def _concerns(self, finding: Finding) -> bool:
        return finding.rank is None or self.rank in (finding.rank, *finding.same_on_ranks)


EVERYTHING = Selection()


def diagnosis_sections(
    diagnosis: Diagnosis, *, verbose: bool = False, selection: Selection = EVERYTHING
) -> tuple[Section, ...]:
    """Return the report of a diagnosis; `verbose` adds definitions, rivals, further fixes and every skipped rule.

    `selection` chooses findings and ledgers; all else is of the whole run.
    """
    verdict = judge(diagnosis)
    part = selection.of(diagnosis)
    not_shown = selection.words(diagnosis, part)
    if verdict.state in ("healthy", "clear") and not verbose:
        return _healthy(diagnosis, verdict)
    trust, noise = trust_blocks(diagnosis, verbose=verbose), below_noise_blocks(diagnosis)
    # Where nothing can be said and nothing says why, what to record is the answer.
    is_mute = verdict.state in ("blocked", "no-gpu") and not any(map(limits_trust, quality_findings(diagnosis)))
    is_empty = has_no_compute(diagnosis)
    return (
        headline(diagnosis, verdict),
        *([Section(trust)] if trust else []),
        *([] if is_empty else ledger_sections(part, verbose=verbose)),
        *rank_sections(diagnosis),
        *plan_sections(diagnosis),
        *finding_sections(part, verbose=verbose),
        *([Section((Paragraph(not_shown, role="dim"),))] if not_shown else []),
        *([Section(noise)] if noise else []),
        *([] if is_empty else unexplained_sections(diagnosis)),
        *_counter_sections(diagnosis, verbose=verbose),
        *(skipped_sections(diagnosis, verbose=verbose) if verbose or is_mute else []),
        *override_sections(diagnosis),
        *left_out_sections(diagnosis.left_out, verbose=verbose),
        Section((footer(diagnosis, verbose=verbose, is_mute=is_mute),)),
    )


def _healthy(diagnosis: Diagnosis, verdict: RunVerdict) -> tuple[Section, ...]:
    """Return the verdict, what the GPU computes, and what was checked; what limits trust and was changed between."""
    kernels = slowest_kernels(diagnosis, most=kernels_shown(0, verbose=False))
    head, foot = (healthy_headline(diagnosis, verdict), *kernels), healthy_footer(diagnosis)
    between = (*recordings_blocks(diagnosis), *trust_blocks(diagnosis, verbose=False), *below_noise_blocks(diagnosis))
    more = [*_counter_sections(diagnosis, verbose=False), *override_sections(diagnosis)]
    more += left_out_sections(diagnosis.left_out)
    if not between and not more:
        return (Section((*head, foot)),)
    return (Section(head), *([Section(between)] if between else []), *more, Section((foot,)))


def _counter_sections(diagnosis: Diagnosis, *, verbose: bool) -> list[Section]:
    if diagnosis.kernel_counters is None:
        return []
    from traceanalyzer.report.diagnosis_blocks.counters import counter_sections

    return counter_sections(diagnosis.kernel_counters, verbose=verbose)
