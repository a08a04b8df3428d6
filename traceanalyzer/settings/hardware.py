"""What a user says of hardware that traces do not name, or whose peak rates are not known here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from traceanalyzer.errors import TraceAnalyzerError

if TYPE_CHECKING:
    import duckdb

COMMAND_LINE = "--device"
SETTINGS = "devices.name"
# Columns of project_peaks that a place in the settings gives and no key.
_IMPLIED = ("position", "pattern")

_MATCHING = """
SELECT sm_count
FROM (
    SELECT 0 AS source_order, position, pattern, sm_count FROM project_peaks
    UNION ALL
    SELECT 1 AS source_order, position, pattern, sm_count FROM hardware_peaks
)
WHERE regexp_matches($name, pattern)
ORDER BY source_order, position
"""


@dataclass(frozen=True)
class DevicePeaks:
    """The peak rates of one model: a pattern of its name, and columns of project_peaks with their values."""

    pattern: str
    values: tuple[tuple[str, int | float | str], ...]


@dataclass(frozen=True)
class Hardware:
    """The device that no trace names, and models with their peaks; empty where the user says nothing."""

    name: str | None = None
    sm_count: int | None = None
    name_origin: str = SETTINGS  # or COMMAND_LINE
    peaks: tuple[DevicePeaks, ...] = ()

    def queries(self) -> dict[str, str]:
        """Return the SQL of the metrics that hold this, by name; a metric that is left out stays as it is, empty."""
        queries = {}
        if self.name is not None:
            queries["named_device"] = _row("named_device", {"name": self.name, "sm_count": self.sm_count})
        if self.peaks:
            rows = (
                {"position": position, "pattern": item.pattern, **dict(item.values)}
                for position, item in enumerate(self.peaks, 1)
            )
            queries["project_peaks"] = "\nUNION ALL\n".join(_row("project_peaks", row) for row in rows)
        return queries

    def check(self, con: duckdb.DuckDBPyConnection) -> None:
        """Raise TraceAnalyzerError where the named device is not one model whose peaks are known."""
        if self.name is None:
            return
        counts = [count for (count,) in con.execute(_MATCHING, {"name": self.name}).fetchall()]
        if not counts:
            hint = (
                "`traceanalyzer metrics show hardware_peaks --sql` lists models; `[devices.peaks]` in settings adds one"
            )
            raise TraceAnalyzerError(f"no peaks are known for {self.name!r}", self.name_origin, hint)
        known = ", ".join(map(str, sorted({count for count in counts if count is not None})))
        # The first model decides; one for any number of SMs leaves nothing open.
        if self.sm_count is None and counts[0] is not None and len(set(counts)) > 1:
            raise TraceAnalyzerError(
                f"{self.name!r} fits models with different peaks", self.name_origin, f"add the number of SMs: {known}"
            )
        if self.sm_count is not None and None not in counts and self.sm_count not in counts:
            raise TraceAnalyzerError(
                f"no {self.name!r} with {self.sm_count} SMs is known", self.name_origin, f"known with: {known}"
            )

    def changes(self, settings: str) -> Iterator[tuple[str, str, str]]:
        """Return what this changes as kind, words and origin; `settings` is the name of the settings file."""
        if self.name is not None:
            count = "" if self.sm_count is None else f" with {self.sm_count} SMs"
            origin = COMMAND_LINE if self.name_origin == COMMAND_LINE else settings
            yield "device", f"devices that the traces do not name are taken for {self.name}{count}", origin
        for item in self.peaks:
            rates = ", ".join(f"{name} = {value}" for name, value in item.values)
            yield "peaks", f"peaks of devices named {item.pattern}: {rates}", settings


NO_HARDWARE = Hardware()


def with_device(hardware: Hardware, text: str | None) -> Hardware:
    """Return hardware with the device of `--device NAME[:SMS]`, which wins over that of the settings."""
    if text is None:
        return hardware
    name, colon, count = text.partition(":")
    if not name.strip() or (colon and not count.strip().isdecimal()):
        raise TraceAnalyzerError(
            f"{text!r} is not NAME or NAME:SMS", COMMAND_LINE, "for example --device 'NVIDIA H100 80GB HBM3:132'"
        )
    return replace(hardware, name=name.strip(), sm_count=int(count) if colon else None, name_origin=COMMAND_LINE)


def peak_columns() -> dict[str, str]:
    """Return the columns of project_peaks that settings may give, with their types."""
    from traceanalyzer.metrics import metrics

    return {c.name: c.type for c in metrics()["project_peaks"].columns if c.name not in _IMPLIED}


def _row(metric: str, values: Mapping[str, int | float | str | None]) -> str:
    """Return a row of a metric as a SELECT; a view takes no parameters."""
    from traceanalyzer.metrics import metrics
    from traceanalyzer.text.visible import quoted

    cells = []
    for column in metrics()[metric].columns:
        value = values.get(column.name)
        cells.append(f"CAST({'NULL' if value is None else quoted(str(value))} AS {column.type}) AS {column.name}")
    return f"SELECT {', '.join(cells)}"
