"""Rules as data: conditions over metrics that find what costs time, and what makes a trace untrustworthy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from traceanalyzer.rules.authoring.testing import RuleTestResult, run_rule_test, run_rule_tests
    from traceanalyzer.rules.diagnosis.diagnosing import diagnose
    from traceanalyzer.rules.diagnosis.explaining import Explanation, explain
    from traceanalyzer.rules.evaluation.sandbox import readers
    from traceanalyzer.rules.rule_file.model import Mistake, Rule, RuleFilesError
    from traceanalyzer.rules.rule_file.page import RulePage, rule_page
    from traceanalyzer.rules.rule_set.loading import check_settings, lint, load_rules, read_rules, rule_called

_MODULES = {
    "traceanalyzer.rules.authoring.testing": ("RuleTestResult", "run_rule_test", "run_rule_tests"),
    "traceanalyzer.rules.diagnosis.diagnosing": ("diagnose",),
    "traceanalyzer.rules.diagnosis.explaining": ("Explanation", "explain"),
    "traceanalyzer.rules.evaluation.sandbox": ("readers",),
    "traceanalyzer.rules.rule_file.model": ("Mistake", "Rule", "RuleFilesError"),
    "traceanalyzer.rules.rule_file.page": ("RulePage", "rule_page"),
    "traceanalyzer.rules.rule_set.loading": ("check_settings", "lint", "load_rules", "read_rules", "rule_called"),
}

__all__ = [
    "Explanation",
    "Mistake",
    "Rule",
    "RuleFilesError",
    "RulePage",
    "RuleTestResult",
    "check_settings",
    "diagnose",
    "explain",
    "lint",
    "load_rules",
    "read_rules",
    "readers",
    "rule_called",
    "rule_page",
    "run_rule_test",
    "run_rule_tests",
]


def __getattr__(name: str) -> Any:
    """Import a part when it is first asked for: a diagnosis that was kept needs none of them."""
    from importlib import import_module

    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
