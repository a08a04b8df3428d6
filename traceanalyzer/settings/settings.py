"""What a project decided about the rules: `traceanalyzer.toml`, above a run, or in it with --trust."""

from __future__ import annotations

import datetime
import math
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traceanalyzer.errors import TraceAnalyzerError, suggestion
from traceanalyzer.settings.hardware import NO_HARDWARE, DevicePeaks, Hardware, peak_columns

if TYPE_CHECKING:
    from traceanalyzer.remote.location import Location
    from traceanalyzer.settings.budgets import Budget

FILE_NAME = "traceanalyzer.toml"
MAX_FILE_BYTES = 1_000_000

ParamValue = int | float | str | bool

_TOP_KEYS = ("rule_paths", "names", "devices", "rules", "suppress", "budgets", "budget_exception")
_DEVICE_KEYS = ("name", "sm_count", "peaks")
_RULE_KEYS = ("enabled", "params", "reason")
_SUPPRESS_KEYS = ("rule", "rank", "trace", "reason", "until")


@dataclass(frozen=True)
class Suppression:
    """A finding that the project knows of and does not want to see again before a day."""

    rule: str
    reason: str
    until: datetime.date
    rank: int | None = None  # None: on every rank
    trace: str | None = None  # None: in every trace

    def covers(self, rule: str, rank: int | None, trace: str | None) -> bool:
        """Return whether this suppresses a finding of this rule, on this rank and trace."""
        return rule == self.rule and self.rank in (None, rank) and self.trace in (None, trace)


@dataclass(frozen=True)
class Settings:
    """The settings of a project; empty where there is no file."""

    path: Path | None = None
    rule_paths: tuple[Path, ...] = ()
    params: Mapping[str, ParamValue] = field(default_factory=dict)  # 'rule.param' → value
    switched_off: Mapping[str, str] = field(default_factory=dict)  # rule → reason
    suppressions: tuple[Suppression, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)  # rule → why its parameters are set
    hardware: Hardware = NO_HARDWARE
    names: tuple[tuple[str, str], ...] = ()  # host cause, pattern of the names that stand for it in this project
    budgets: tuple[Budget, ...] = ()  # with the exceptions that hold today

    def rules_named(self) -> Iterator[tuple[str, str]]:
        """Return every rule that the file names, with the place where it does."""
        yield from ((rule, f"rules.{rule}") for rule in self.switched_off)
        yield from ((name.partition(".")[0], f"rules.{name.partition('.')[0]}.params") for name in self.params)
        yield from ((item.rule, "suppress") for item in self.suppressions)


NO_SETTINGS = Settings()


@dataclass(frozen=True)
class SettingsFile:
    """The settings file of a run, None where there is none, and nearer ones that are not trusted."""

    path: Path | None = None
    ignored: tuple[Path, ...] = ()

    def read(self) -> Settings:
        """Return the settings in the file; empty ones where there is none."""
        return NO_SETTINGS if self.path is None else read_settings(self.path)


NO_SETTINGS_FILE = SettingsFile()


def settings_above(folder: Path) -> SettingsFile:
    """Return the nearest trusted settings file in a folder of the user's own, such as the current one, or above it."""
    return _nearest(folder.resolve(), None, trust=False)


def locate_settings(root: Path | Location, *, trust: bool = False) -> SettingsFile:
    """Return the nearest settings file above a run; with `trust`, in the run's folder, too, whoever wrote it.

    A file in the run's folder may have come with the traces, from a stranger: unpacking makes it the user's own. For a
    run in an object store it is the nearest one above the current folder.
    """
    if not isinstance(root, Path):
        return settings_above(Path.cwd())
    folder = root.resolve() if root.is_dir() else root.resolve().parent
    return _nearest(folder, folder, trust=trust)


def _nearest(folder: Path, strange: Path | None, *, trust: bool) -> SettingsFile:
    """Return the nearest settings file in a folder or above it; one in the `strange` folder needs `trust`."""
    ignored: list[Path] = []
    for place in (folder, *folder.parents):
        file = place / FILE_NAME
        if not (file.is_file() or file.is_symlink()):
            continue
        if trust or (place != strange and _is_own(file)):
            return SettingsFile(file, tuple(ignored))
        ignored.append(file)
    return SettingsFile(None, tuple(ignored))


def _is_own(file: Path) -> bool:
    """Return whether a file, not a link, is the user's or root's, and not everybody can write it or its folder."""
    try:
        state, folder = file.lstat(), file.parent.stat()
    except OSError:
        return False
    open_to_all = (state.st_mode | folder.st_mode) & stat.S_IWOTH
    return stat.S_ISREG(state.st_mode) and state.st_uid in (os.geteuid(), 0) and not open_to_all


def read_settings(path: Path) -> Settings:
    """Return the settings in a file; raises TraceAnalyzerError with all that is wrong in it."""
    import tomllib  # few runs have a file, and none should wait for this without one

    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise TraceAnalyzerError(
                f"is larger than {MAX_FILE_BYTES:,} bytes", path, "rules go into files of their own"
            )
        reader = _SettingsReader(path)
        text = content.decode("utf-8")
        settings = reader.settings(tomllib.loads(text), text)
    except RecursionError as error:
        raise TraceAnalyzerError("cannot be read: it nests too deeply", path) from error
    except OSError as error:
        raise TraceAnalyzerError(f"cannot be read: {error.strerror}", path) from error
    except ValueError as error:  # of the text, of TOML, or of a number with thousands of digits
        raise TraceAnalyzerError(f"cannot be read: {error}", path, "it is TOML: https://toml.io") from error
    if reader.mistakes:
        raise TraceAnalyzerError("\n  ".join(reader.mistakes), path, "docs/settings.md shows what may stand there")
    return settings


class _SettingsReader:
    """Reads each part of the file and remembers what is wrong with it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.mistakes: list[str] = []

    def settings(self, values: Mapping[str, Any], text: str) -> Settings:
        self._check_keys("", values, _TOP_KEYS)
        params: dict[str, ParamValue] = {}
        switched_off: dict[str, str] = {}
        reasons: dict[str, str] = {}
        for rule, item in self._table("rules", values.get("rules", {})).items():
            table = self._table(f"rules.{rule}", item)
            self._check_keys(f"rules.{rule}", table, _RULE_KEYS)
            reason = table.get("reason")
            if table.get("enabled", True) is False:
                switched_off[rule] = self._reason(f"rules.{rule}", reason)
            elif table.get("enabled", True) is not True:
                self.mistakes.append(f"rules.{rule}.enabled must be true or false")
            for name, value in self._table(f"rules.{rule}.params", table.get("params", {})).items():
                if isinstance(value, bool | int | float | str):
                    params[f"{rule}.{name}"] = value
                else:
                    self.mistakes.append(f"rules.{rule}.params.{name} must be a number, text or true/false")
            if isinstance(reason, str):
                reasons[rule] = reason
        return Settings(
            path=self.path,
            rule_paths=self._rule_paths(values.get("rule_paths", [])),
            params=params,
            switched_off=switched_off,
            suppressions=tuple(self._suppressions(values.get("suppress", []))),
            reasons=reasons,
            hardware=self._hardware(values["devices"]) if "devices" in values else NO_HARDWARE,
            names=tuple(self._names("names", values.get("names", {}))),
            budgets=self._budgets(values, text),
        )

    def _budgets(self, values: Mapping[str, Any], text: str) -> tuple[Budget, ...]:
        if "budgets" not in values and "budget_exception" not in values:
            return ()
        from traceanalyzer.settings.budgets import read_budgets

        budgets, mistakes = read_budgets(values.get("budgets", {}), values.get("budget_exception", []), text)
        self.mistakes += mistakes
        return budgets

    def _names(self, where: str, value: Any) -> Iterator[tuple[str, str]]:
        """Read `"host.io" = [patterns]`; without quotes TOML takes the dot for a table in a table."""
        # Few projects have names of their own.
        from traceanalyzer.attribution.host.host_states import NAMEABLE

        for key, item in self._table(where, value).items():
            place = f"{where}.{key}"
            if isinstance(item, dict):
                yield from self._names(place, item)
                continue
            cause = place.removeprefix("names.")
            patterns = [item] if isinstance(item, str) else item
            if cause not in NAMEABLE:
                hint = suggestion(cause, NAMEABLE, f"known: {', '.join(NAMEABLE)}")
                self.mistakes.append(f"{place}: no cause that names stand for ({hint})")
            elif not isinstance(patterns, list) or not all(isinstance(pattern, str) for pattern in patterns):
                self.mistakes.append(f"{place} must be a pattern or a list of them")
            else:
                yield from ((cause, pattern) for pattern in self._patterns(place, patterns))

    def _patterns(self, where: str, patterns: list[str]) -> list[str]:
        """Return those that can be matched; too many could not all be in time."""
        from traceanalyzer.attribution.host.host_states import MOST_PATTERNS, pattern_mistakes

        if len(patterns) > MOST_PATTERNS:
            most = f"{len(patterns):,} patterns, and a cause may have {MOST_PATTERNS:,}: join them with |"
            self.mistakes.append(f"{where} has {most}")
            return []
        mistakes = pattern_mistakes(patterns)
        for pattern, mistake in zip(patterns, mistakes, strict=True):
            if mistake:
                self.mistakes.append(f"{where}: {pattern!r} is no regular expression of RE2: {mistake}")
        return [pattern for pattern, mistake in zip(patterns, mistakes, strict=True) if not mistake]

    def _hardware(self, value: Any) -> Hardware:
        table = self._table("devices", value)
        self._check_keys("devices", table, _DEVICE_KEYS)
        name, sm_count = table.get("name"), table.get("sm_count")
        if name is not None and not (isinstance(name, str) and name.strip()):
            self.mistakes.append("devices.name must be the product name of a device")
            name = None
        if sm_count is not None and not _is_count(sm_count):
            self.mistakes.append("devices.sm_count must be a number of SMs or compute units")
            sm_count = None
        if sm_count is not None and name is None:
            self.mistakes.append("devices.sm_count needs devices.name")
        peaks = self._table("devices.peaks", table.get("peaks", {}))
        return Hardware(name, sm_count, peaks=tuple(self._peaks(pattern, item) for pattern, item in peaks.items()))

    def _peaks(self, pattern: str, value: Any) -> DevicePeaks:
        where, columns = f"devices.peaks.{pattern}", peak_columns()
        table = self._table(where, value)
        self._patterns(where, [pattern])
        self._check_keys(where, table, tuple(columns))
        for name in (name for name in table if name in columns and name != "source"):
            is_right = _is_count(table[name]) if columns[name] in ("INTEGER", "BIGINT") else _is_rate(table[name])
            if not is_right:
                self.mistakes.append(f"{where}.{name} must be a number above 0")
        if not (isinstance(table.get("source"), str) and table["source"].strip()):
            self.mistakes.append(f"{where} needs a source: where the numbers come from")
        return DevicePeaks(pattern, tuple(table.items()))

    def _rule_paths(self, value: Any) -> tuple[Path, ...]:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.mistakes.append("rule_paths must be a list of files and folders")
            return ()
        return tuple(self.path.parent / item for item in value)

    def _suppressions(self, value: Any) -> Iterator[Suppression]:
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self.mistakes.append("suppress must be tables: [[suppress]]")
            return
        for index, item in enumerate(value):
            where = f"suppress[{index}]"
            self._check_keys(where, item, _SUPPRESS_KEYS)
            until, rule, rank, trace = item.get("until"), item.get("rule"), item.get("rank"), item.get("trace")
            reason = self._reason(where, item.get("reason"))
            if not isinstance(rule, str):
                self.mistakes.append(f"{where} names no rule")
            # A date with a time of day is one, too, and compares with none.
            elif not isinstance(until, datetime.date) or isinstance(until, datetime.datetime):
                self.mistakes.append(f"{where}.until must be a day, such as 2027-03-31: nothing is silenced for ever")
            elif not isinstance(rank, int | None) or not isinstance(trace, str | None):
                self.mistakes.append(f"{where}: rank is a number and trace is a name")
            else:
                yield Suppression(rule, reason, until, rank, trace)

    def _reason(self, where: str, value: Any) -> str:
        if isinstance(value, str) and value.strip():
            return value.strip()
        self.mistakes.append(f"{where} needs a reason: whoever reads the report will ask")
        return ""

    def _table(self, where: str, value: Any) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        self.mistakes.append(f"{where} must be a table")
        return {}

    def _check_keys(self, where: str, values: Mapping[str, Any], known: tuple[str, ...]) -> None:
        for name in values:
            if name not in known:
                hint = suggestion(name, known, f"known: {', '.join(known)}")
                self.mistakes.append(f"unknown key: {f'{where}.{name}'.lstrip('.')} ({hint})")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_rate(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
