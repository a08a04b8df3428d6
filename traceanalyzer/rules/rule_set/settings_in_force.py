"""What a project and the command line changed about the rules; and all settings of a run, with their origin."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from msgspec import Struct

from traceanalyzer.diagnosis import Finding, Override
from traceanalyzer.errors import TraceAnalyzerError, suggestion
from traceanalyzer.query import engine
from traceanalyzer.remote.location import Location
from traceanalyzer.rules.evaluation.scopes import RunScopes
from traceanalyzer.rules.evaluation.verdicts import Verdict
from traceanalyzer.rules.rule_file.model import ParamValue, Rule
from traceanalyzer.rules.rule_set.loading import check_settings, load_rules
from traceanalyzer.settings.hardware import with_device
from traceanalyzer.settings.settings import NO_SETTINGS, Settings, Suppression, locate_settings

COMMAND_LINE = "--set"


class Overrides(Struct, frozen=True):
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

    def suppression(self, run: RunScopes, verdict: Verdict) -> Suppression | None:
        """Return the suppression that hides a verdict today; None: it is shown."""
        trace = verdict.scope.trace
        rank = run.ranks.get(trace or "")
        today = self.today or datetime.date.today()
        matching = (item for item in self.settings.suppressions if item.covers(verdict.rule.id, rank, trace))
        return next((item for item in matching if today <= item.until), None)

    def changes(self, rules: Sequence[Rule], suppressed: Sequence[Finding]) -> tuple[Override, ...]:
        """Return every change as a report shows it."""
        origin = str(self.settings.path)
        changes = [Override("rules", None, f"rules of {path}", None, None, origin) for path in self.settings.rule_paths]
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
            hidden = [finding for finding in suppressed if item.covers(finding.rule, finding.rank, finding.trace)]
            what = "no longer suppressed: its time is up" if ended else _silenced(hidden)
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


# Variables that change what a command does or shows.
VARIABLES = ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "TRACEANALYZER_TRACEBACK", "XDG_CACHE_HOME", "XDG_STATE_HOME")


class Setting(Struct, frozen=True):
    """One thing that is set: what, to which value, instead of what, why, and by which file, option or variable."""

    name: str
    value: str
    default: str | None
    reason: str | None
    origin: str


class SettingsInForce(Struct, frozen=True):
    """The settings of a run, the file that they come from, and nearer files that are not used."""

    run: Path | Location
    file: Path | None  # None: no traceanalyzer.toml that counts
    ignored: tuple[Path, ...]
    settings: tuple[Setting, ...]


def settings_in_force(run: Path | Location, *, trust: bool = False, device: str | None = None) -> SettingsInForce:
    """Return the settings that hold for a run; raises TraceAnalyzerError for a mistake in them."""
    if isinstance(run, Path) and not run.exists():
        raise TraceAnalyzerError("no such file or folder", run, "give a trace file, or the folder that holds a run")
    located = locate_settings(run, trust=trust)
    project = located.read()
    rules = load_rules(project.rule_paths, tests=False)
    check_settings(rules, project.params)
    Overrides(project).enabled(rules)
    project = replace(project, hardware=with_device(project.hardware, device))
    _check_device(project)
    of_project = _of_project(project, {rule.id: rule for rule in rules})
    given = (Setting(name, os.environ[name], None, None, "environment") for name in VARIABLES if name in os.environ)
    return SettingsInForce(run, located.path, located.ignored, (*of_project, *given))


def _check_device(project: Settings) -> None:
    if project.hardware.name is None:
        return
    with engine.connect(
        (), None, readers=["hardware_peaks", "project_peaks"], replaced=project.hardware.queries()
    ) as con:
        project.hardware.check(con)


def _of_project(project: Settings, rules: dict[str, Rule]) -> Iterator[Setting]:
    origin = str(project.path)
    yield from (Setting("rule_paths", str(path), None, None, origin) for path in project.rule_paths)
    yield from (Setting(f"names.{cause}", pattern, None, None, origin) for cause, pattern in project.names)
    hardware = project.hardware
    if hardware.name is not None:
        yield Setting(
            "devices.name",
            hardware.name if hardware.sm_count is None else f"{hardware.name}, {hardware.sm_count} SMs",
            None,
            None,
            hardware.name_origin if hardware.name_origin.startswith("--") else origin,
        )
    for item in hardware.peaks:
        for name, value in item.values:
            yield Setting(f"devices.peaks.{item.pattern}.{name}", str(value), None, None, origin)
    for key, value in project.params.items():
        rule, _, name = key.partition(".")
        default = str(rules[rule].params[name].default)
        yield Setting(f"rules.{rule}.params.{name}", str(value), default, project.reasons.get(rule), origin)
    for rule, reason in project.switched_off.items():
        yield Setting(f"rules.{rule}.enabled", "false", "true", reason, origin)
    for known in project.suppressions:
        place = f"rank {known.rank}" if known.rank is not None else known.trace or "everywhere"
        ended = known.until < datetime.date.today()
        value = f"{place}, {'ended on' if ended else 'until'} {known.until.isoformat()}"
        yield Setting(f"suppress.{known.rule}", value, None, known.reason, origin)
