"""A part of a diagnosis to show: the findings of one rank, or the first few; the verdict stays that of the run."""

from __future__ import annotations

from dataclasses import dataclass, replace

from traceanalyzer.diagnosis import Diagnosis, Finding
from traceanalyzer.diagnosis.verdict import pooled_ledger, problems
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.text.words import counted, ranges


@dataclass(frozen=True)
class Selection:
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
