"""Everything that a report says about a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traceanalyzer.diagnosis.findings import BelowNoise, Finding, Outcome
from traceanalyzer.diagnosis.fix_plan import FixPlan
from traceanalyzer.diagnosis.inputs import LeftOut, Override, Recording, TraceDefect, TraceSummary
from traceanalyzer.diagnosis.kernel_counters import KernelCounters
from traceanalyzer.diagnosis.ledgers import DeviceLedger, HostFunction, HostLedger, RankSteps, RunLedger, Screening
from traceanalyzer.display import OpenTables, display

if TYPE_CHECKING:
    import pyarrow as pa


SCHEMA_VERSION = 1


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """Everything that a report says about a run."""

    run: str
    traces: tuple[TraceSummary, ...]
    ledgers: tuple[DeviceLedger, ...]
    findings: tuple[Finding, ...]  # quality first, then in the order of fixes
    outcomes: tuple[Outcome, ...]
    not_explained: tuple[tuple[str, int], ...]  # (bucket, ns) that no finding owns, compute left out
    defects: tuple[TraceDefect, ...]
    suppressed: tuple[Finding, ...] = ()  # findings that the project's settings silence: in no order of fixes
    overrides: tuple[Override, ...] = ()
    plans: tuple[FixPlan, ...] = ()
    below_noise: tuple[BelowNoise, ...] = ()  # largest first
    run_ledger: RunLedger | None = None  # None: one device, or ranks that cannot be followed together
    recordings: tuple[Recording, ...] = ()  # of runs in which a rank was recorded several times
    ranks: tuple[RankSteps, ...] = ()  # of runs with four devices and more whose steps are known
    host_functions: tuple[HostFunction, ...] = ()  # most samples first
    host_ledgers: tuple[HostLedger, ...] = ()  # of a run without GPU work
    host_hint: str | None = None  # how to record what the host does between recorded calls
    screening: Screening | None = None  # None: all ranks are opened
    kernel_counters: KernelCounters | None = None  # None: no table of Nsight Compute is read with the run
    left_out: tuple[LeftOut, ...] = ()  # files beside the traces that the run does not count
    schema_version: int = SCHEMA_VERSION

    def table(self, name: str) -> pa.Table:
        """Return findings, ledger, fixes or evidence as an Arrow table, one row each; raises for another name."""
        return display().diagnosis_table(self, name)

    def to_markdown(self) -> str:
        """Return the report as Markdown."""
        return display().diagnosis_text(self, "markdown")

    def to_json(self) -> str:
        """Return everything as JSON (docs/json.md)."""
        return display().diagnosis_text(self, "json")

    def to_html(self, path: str | Path, run: OpenTables | None = None) -> Path:
        """Write the report as a page and return its path; with its open run it has timelines and tables."""
        file = Path(path)
        file.write_text(display().diagnosis_page(self, run), encoding="utf-8")
        return file

    def __repr__(self) -> str:
        return f"<Diagnosis of {self.run}: {len(self.traces)} traces, {len(self.findings)} findings>"

    def __str__(self) -> str:
        return display().diagnosis_text(self, "terminal")

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text("…" if cycle else str(self))

    def _repr_html_(self) -> str:
        return display().diagnosis_in_notebook(self)
