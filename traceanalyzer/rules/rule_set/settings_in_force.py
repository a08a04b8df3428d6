"""Which settings hold for a run, each with where it comes from."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.remote.location import Location
from traceanalyzer.rules.rule_file.model import Rule
from traceanalyzer.rules.rule_set.loading import check_settings, load_rules
from traceanalyzer.rules.rule_set.overriding import Overrides
from traceanalyzer.settings.hardware import with_device
from traceanalyzer.settings.settings import Settings, locate_settings

# Variables that change what a command does or shows.
VARIABLES = ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "TRACEANALYZER_TRACEBACK", "XDG_CACHE_HOME", "XDG_STATE_HOME")


@dataclass(frozen=True)
class Setting:
    """One thing that is set: what, to which value, instead of what, why, and by which file, option or variable."""

    name: str
    value: str
    default: str | None
    reason: str | None
    origin: str


@dataclass(frozen=True)
class SettingsInForce:
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
    found = (*_of_project(project, {rule.id: rule for rule in rules}), *_of_environment())
    return SettingsInForce(run, located.path, located.ignored, found)


def _check_device(project: Settings) -> None:
    if project.hardware.name is None:
        return
    from traceanalyzer.query import engine

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


def _of_environment() -> Iterator[Setting]:
    return (Setting(name, os.environ[name], None, None, "environment") for name in VARIABLES if name in os.environ)
