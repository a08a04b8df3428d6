"""Rules as data: conditions over metrics that find what costs time, and what makes a trace untrustworthy."""

from traceanalyzer.rules.diagnosing import diagnose
from traceanalyzer.rules.explaining import Explanation, explain
from traceanalyzer.rules.loading import check_settings, lint, load_rules, read_rules, rule_called
from traceanalyzer.rules.model import Mistake, Rule, RuleFilesError
from traceanalyzer.rules.page import RulePage, rule_page
from traceanalyzer.rules.testing import RuleTestResult, run_rule_test, run_rule_tests
from traceanalyzer.rules.workspace import readers

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
