"""A comparison of two sides as sections of blocks, in the order in which a report shows them."""

from __future__ import annotations

from traceanalyzer.comparison.comparing import Diff
from traceanalyzer.comparison.gate import GateResult
from traceanalyzer.report.blocks import Section
from traceanalyzer.report.diff_blocks.changes import (
    finding_sections,
    ledger_sections,
    named_sections,
    rank_sections,
    verification_sections,
)
from traceanalyzer.report.diff_blocks.headline import captures_sections, confounder_sections, gate_sections, headline


def diff_sections(diff: Diff, gate: GateResult | None = None, *, verbose: bool = False) -> tuple[Section, ...]:
    """Return the report of a comparison, with what a gate says where one was asked for."""
    return (
        headline(diff),
        *gate_sections(gate),
        *ledger_sections(diff, verbose=verbose),
        *captures_sections(diff, verbose=verbose),
        *finding_sections(diff),
        *verification_sections(diff),
        *rank_sections(diff, verbose=verbose),
        *named_sections(diff, verbose=verbose),
        *confounder_sections(diff),
    )
