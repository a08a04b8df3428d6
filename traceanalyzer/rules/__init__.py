"""Rules as data: conditions over metrics that find what costs time, and what makes a trace untrustworthy."""

from traceanalyzer.rules.authoring.testing import RuleTestResult, run_rule_test, run_rule_tests
from traceanalyzer.rules.diagnosis.diagnosing import diagnose
from traceanalyzer.rules.diagnosis.explaining import Explanation, explain
from traceanalyzer.rules.evaluation.workspace import readers
from traceanalyzer.rules.rule_file.model import Mistake, Rule, RuleFilesError
from traceanalyzer.rules.rule_file.page import RulePage, rule_page
from traceanalyzer.rules.rule_set.loading import check_settings, lint, load_rules, read_rules, rule_called

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
