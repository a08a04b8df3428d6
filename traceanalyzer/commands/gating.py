"""What commands with a gate share: budgets of one run, and what a gate says on standard error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from traceanalyzer.errors import TraceAnalyzerError

if TYPE_CHECKING:
    from traceanalyzer.comparison.gate import GateResult
    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.run import Run


def check_budgets(run: Run, diagnosis: Diagnosis) -> GateResult:
    """Return what the project's budgets say of a run; raises where it has none that a single run can keep."""
    from traceanalyzer.comparison.gate import check_run
    from traceanalyzer.comparison.loading import summarize

    budgets = run.settings_file.read().budgets
    if not any(not budget.is_relative for budget in budgets):
        raise TraceAnalyzerError(
            "no budget for a single run was found",
            run.settings_file.path or "--budgets",
            "write [budgets] into a traceanalyzer.toml above the run: docs/comparison.md",
        )
    return check_run(summarize(run, diagnosis), budgets)


def tell_gate(gate: GateResult) -> None:
    """Write every check that does not pass to standard error: a command that fails says why, also a quiet one."""
    from traceanalyzer.comparison.gate import PASSED
    from traceanalyzer.report.diff_blocks.headline import limit_words, measured_words, note
    from traceanalyzer.text.visible import visible

    for check in gate.checks:
        if check.state != PASSED:
            words = f"{check.state}: {check.name}: {measured_words(check)}, {limit_words(check)}"
            click.echo(visible(words + (f" ({note(check)})" if note(check) else "")), err=True)
