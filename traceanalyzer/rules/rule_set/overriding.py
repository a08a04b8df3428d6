"""Applies what a project and the command line changed about the rules, and lists each change."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from traceanalyzer.diagnosis import Finding, Override
from traceanalyzer.errors import TraceAnalyzerError, suggestion
from traceanalyzer.rules.evaluation.places import RunPlaces
from traceanalyzer.rules.evaluation.verdicts import Verdict
from traceanalyzer.rules.rule_file.model import ParamValue, Rule
from traceanalyzer.settings.settings import NO_SETTINGS, Settings, Suppression

COMMAND_LINE = "--set"


@dataclass(frozen=True)
class Overrides:
    """The settings of a project and of this call, which wins."""

    settings: Settings = NO_SETTINGS
    params: Mapping[str, ParamValue] | None = None
    today: datetime.date | None = None

    def merged_params(self) -> dict[str, ParamValue]:
        """Return every parameter that is set, by 'rule.param'."""
        return {**self.settings.params, **(self.params or {})}

    def enabled(self, rules: Sequence[Rule]) -> list[Rule]:
        """Return the rules that are not switched off; raises where the settings name one that does not exist."""
        ids = {rule.id for rule in rules}
        for rule, where in self.settings.rules_named():
            if rule not in ids:
                raise TraceAnalyzerError(f"{where}: no such rule: {rule}", self.settings.path, suggestion(rule, ids))
        return [rule for rule in rules if rule.id not in self.settings.switched_off]

    def suppression(self, run: RunPlaces, verdict: Verdict) -> Suppression | None:
        """Return the suppression that hides a verdict today; None: it is shown."""
        trace = verdict.place.trace
        rank = run.ranks.get(trace or "")
        today = self.today or datetime.date.today()
        matching = (item for item in self.settings.suppressions if item.covers(verdict.rule.id, rank, trace))
        return next((item for item in matching if today <= item.until), None)

    def changes(self, rules: Sequence[Rule], suppressed: Sequence[Finding]) -> tuple[Override, ...]:
        """Return every change as a report shows it."""
        origin = str(self.settings.path)
        changes = [Override("rules", None, _shown(path), None, None, origin) for path in self.settings.rule_paths]
        changes += [
            Override("names", None, f"{cause} wherever a name matches {pattern}", None, None, origin)
            for cause, pattern in self.settings.names
        ]
        changes += [
            Override(kind, None, what, None, None, place)
            for kind, what, place in self.settings.hardware.changes(origin)
        ]
        changes += [
            Override("off", rule, "switched off", reason, None, origin)
            for rule, reason in self.settings.switched_off.items()
        ]
        changes += self._changed_params(rules, origin)
        today = self.today or datetime.date.today()
        for item in self.settings.suppressions:
            ended = item.until < today
            mine = [finding for finding in suppressed if item.covers(finding.rule, finding.rank, finding.trace)]
            what = "no longer suppressed: its time is up" if ended else _silenced(mine)
            changes.append(
                Override(
                    "ended" if ended else "suppressed", item.rule, what, item.reason, item.until.isoformat(), origin
                )
            )
        return tuple(changes)

    def _changed_params(self, rules: Sequence[Rule], origin: str) -> list[Override]:
        defaults = {f"{rule.id}.{name}": param.default for rule in rules for name, param in rule.params.items()}
        changes = []
        for key, value in self.merged_params().items():
            rule, _, name = key.partition(".")
            if key not in defaults:  # of a rule that is switched off
                continue
            by_call = key in (self.params or {})
            reason = None if by_call else self.settings.reasons.get(rule)
            what = f"{name} = {value} instead of {defaults[key]}"
            changes.append(Override("parameter", rule, what, reason, None, COMMAND_LINE if by_call else origin))
        return changes


def _silenced(findings: Sequence[Finding]) -> str:
    if not findings:
        return "suppressed, and not found"
    share = max(finding.saving_share or 0.0 for finding in findings)
    worth = f", up to −{share:.1%}".replace("%", " %") if share else ""
    return f"suppressed ({findings[0].severity}{worth})"


def _shown(path: Path) -> str:
    return f"rules of {path}"
