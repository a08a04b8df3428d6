"""What the pages of a report say, record by record: launches, their values, and results of rules.

Numbers as Nsight Compute prints them, in units without prefixes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any

from traceanalyzer.text.words import readable

# Nsight Compute counts bytes in thousands. Names of units have changed: nsecond is ns since 2023.
_BYTES = {"byte": 0, "kbyte": 3, "mbyte": 6, "gbyte": 9, "tbyte": 12, "pbyte": 15}
_HERTZ = {"hz": 0, "khz": 3, "mhz": 6, "ghz": 9}
_TIMES = {"ns": 0, "us": 3, "ms": 6, "s": 9} | {"nsecond": 0, "usecond": 3, "msecond": 6, "second": 9}
_BASES = {"byte": _BYTES, "hz": _HERTZ, "ns": _TIMES}
_NS_IN_S = 9
_NEVER_NEGATIVE = ("ns", "byte", "%")
_ROUNDED = ("ns", "byte")
_MAX = Decimal(2**63 - 1)
_LONGEST_NUMBER = 64
_NUMERIC = re.compile(r"[-+\d][\d.,'’eE+\-\s]*")
# Thousands are set apart as the system's language does: 1,410,000.5 · 1’410’000.5 (Swiss) · 14,10,000.5 (Indian).
_POINT = re.compile(r"[-+]?(?:\d{1,3}(?:['’\s]\d{3})+|\d{1,3}(?:,\d{2,3})*,\d{3}|\d+)(?:\.\d+)?(?:[eE][-+]?\d{1,3})?")
_COMMA = re.compile(r"[-+]?(?:\d{1,3}(?:[.'’\s]\d{3})+|\d+)(?:,\d+)?(?:[eE][-+]?\d{1,3})?")
# A comma before one, two or more than three digits separates no thousands.
_DECIMAL_COMMA = re.compile(rb'[";\t]-?\d[\d.]*,(?:\d{1,2}|\d{4,})(?=[";\t\r\n])')
# What --print-metric-instances adds to a value.
_INSTANCES = re.compile(r"\s*\(.*\)$", re.DOTALL)


@dataclass(frozen=True)
class Quantity:
    """A printed value as a number in a unit without a prefix; `is_lost`: a number that cannot be."""

    value: float | None
    whole: int | None
    base_unit: str | None
    is_lost: bool = False


def has_decimal_comma(head: bytes) -> bool:
    """Return whether a file writes 9,00 for nine: Nsight Compute follows the language of the system."""
    return _DECIMAL_COMMA.search(head) is not None


@lru_cache(maxsize=4096)
def base_unit(unit: str) -> tuple[str | None, int]:
    """Return a unit without its prefixes, and the power of ten that values in it are multiplied with."""
    above, slash, below = unit.strip().partition("/")
    name, power = _without_prefix(above)
    if not slash:
        return name or None, power
    if below.lower() in _TIMES:
        return "hz" if name == "cycle" else f"{name}/s", power + _NS_IN_S - _TIMES[below.lower()]
    return f"{name}/{below}", power


def _without_prefix(unit: str) -> tuple[str, int]:
    for base, powers in _BASES.items():
        if unit.lower() in powers:
            return base, powers[unit.lower()]
    return unit, 0


def quantity(text: str, unit: str, *, decimal_comma: bool = False) -> Quantity:
    """Return what a printed value says."""
    base, power = base_unit(unit)
    shown = _INSTANCES.sub("", text.strip())
    if not _NUMERIC.fullmatch(shown):
        return Quantity(None, None, base, is_lost=shown.lower().lstrip("+-") in ("inf", "infinity", "nan"))
    number = _number(shown, decimal_comma=decimal_comma)
    if number is None:
        return Quantity(None, None, base, is_lost=True)
    number = number.scaleb(power)
    if abs(number) > _MAX or (number < 0 and base in _NEVER_NEGATIVE):
        return Quantity(None, None, base, is_lost=True)
    is_whole = base in _ROUNDED or number == number.to_integral_value()
    return Quantity(float(number), int(number.to_integral_value()) if is_whole else None, base)


def _number(text: str, *, decimal_comma: bool) -> Decimal | None:
    if len(text) > _LONGEST_NUMBER or not (_COMMA if decimal_comma else _POINT).fullmatch(text):
        return None
    plain = re.sub(r"[.'’\s]", "", text).replace(",", ".") if decimal_comma else re.sub(r"[,'’\s]", "", text)
    return Decimal(plain)


# Columns that say which launch a row is about; the others of a raw page are metrics.
_IDENTITY = frozenset(
    {
        "ID",
        "Process ID",
        "Process Name",
        "Host Name",
        "Kernel Name",
        "Kernel Time",
        "Context",
        "Stream",
        "Block Size",
        "Grid Size",
        "Device",
        "CC",
    }
)
_NVTX_COLUMN = re.compile(r"_Range:")  # of --nvtx: ranges around the launch
_SIZES = re.compile(r"\(?\s*(\d{1,10})\s*,\s*(\d{1,10})\s*,\s*(\d{1,10})\s*\)?")
_CAPABILITY = re.compile(r"(\d{1,3})\.(\d{1,3})")
_LONGEST_TEXT = 2**14
_LARGEST = 2**63 - 1

Row = Mapping[str, Any]


@dataclass
class Pages:
    """Reads the records of one file; what it counts is complete after the last of them."""

    decimal_comma: bool = False
    layouts: set[str] = field(default_factory=set)
    launch_count: int = 0
    lost_line_count: int = 0
    lost_value_count: int = 0
    example: str | None = None

    def rows(self, records: Iterable[Sequence[str]]) -> Iterator[tuple[str, Row]]:
        """Return the rows of ncu_launches, ncu_metrics and ncu_rules, each with the name of its table."""
        header: list[str] = []
        units: Sequence[str] = ()
        launches: dict[tuple[str, str, str], int] = {}
        for cells in records:
            if cells[0].strip() == "ID":
                # Programs that ran one after the other print a header each, and count from 0 again.
                header, units, launches = [cell.strip() for cell in cells], (), {}
                continue
            if not cells[0].strip():
                units = cells
                continue
            row = dict(zip(header, cells, strict=False))
            # A header whose quotes do not close names no column.
            if not (row.get("ID", "").strip().isdecimal() and row.get("Kernel Name", "").strip()):
                self._lose_line(cells)
                continue
            key = (row.get("Process ID", ""), row["ID"], row["Kernel Name"])
            if key not in launches:
                launches[key] = self.launch_count
                self.launch_count += 1
                yield "ncu_launches", {"launch": launches[key], **_identity(row)}
            if "Metric Name" in header:
                yield from self._of_details(launches[key], row, cells)
            else:
                yield from self._of_raw(launches[key], header, units, cells)

    def _of_details(self, launch: int, row: Mapping[str, str], cells: Sequence[str]) -> Iterator[tuple[str, Row]]:
        self.layouts.add("details")
        place = {"launch": launch, "section": _text(row.get("Section Name"))}
        if metric := _text(row.get("Metric Name")):
            value = self._value(metric, row.get("Metric Unit", ""), row.get("Metric Value", ""))
            yield "ncu_metrics", {**place, **value}
        elif rule := _text(row.get("Rule Name")):
            yield (
                "ncu_rules",
                {
                    **place,
                    "rule": rule,
                    "type": _text(row.get("Rule Type")),
                    "description": _text(row.get("Rule Description")),
                    "speedup_type": _text(row.get("Estimated Speedup Type")),
                    "speedup_percent": self._speedup(row.get("Estimated Speedup", "")),
                },
            )
        else:
            self._lose_line(cells)

    def _of_raw(
        self, launch: int, header: Sequence[str], units: Sequence[str], cells: Sequence[str]
    ) -> Iterator[tuple[str, Row]]:
        self.layouts.add("raw")
        for position, (metric, text) in enumerate(zip(header, cells, strict=False)):
            # What was not collected for this launch is empty.
            if metric in _IDENTITY or _NVTX_COLUMN.search(metric) or not metric or not text.strip():
                continue
            unit = units[position] if position < len(units) else ""
            yield "ncu_metrics", {"launch": launch, "section": None, **self._value(metric, unit, text)}

    def _value(self, metric: str, unit: str, text: str) -> Row:
        found = quantity(text, unit, decimal_comma=self.decimal_comma)
        if found.is_lost:
            self.lost_value_count += 1
            self.example = self.example or f"{metric}: {text}"
        return {
            "metric": metric,
            "unit": _text(unit),
            "text": text.strip()[:_LONGEST_TEXT],
            "value": found.value,
            "whole": found.whole,
            "base_unit": found.base_unit,
        }

    def _speedup(self, text: str) -> float | None:
        found = quantity(text, "%", decimal_comma=self.decimal_comma)
        if found.is_lost:
            self.lost_value_count += 1
            self.example = self.example or f"Estimated Speedup: {text}"
        return found.value

    def _lose_line(self, cells: Sequence[str]) -> None:
        self.lost_line_count += 1
        self.example = self.example or ",".join(cells)


def _identity(row: Mapping[str, str]) -> Row:
    capability = _CAPABILITY.fullmatch(row.get("CC", "").strip())
    major, minor = (int(capability[1]), int(capability[2])) if capability else (None, None)
    name = row["Kernel Name"].strip()[:_LONGEST_TEXT]
    return {
        "ncu_id": _integer(row["ID"]) or 0,
        "process_id": _integer(row.get("Process ID")),
        "process_name": _text(row.get("Process Name")),
        "name": name,
        "function_name": _function_name(name),
        "context": _integer(row.get("Context")),
        "stream": _integer(row.get("Stream")),
        "device_label": _text(row.get("Device")),
        "compute_major": major,
        "compute_minor": minor,
        **_sizes("grid", row.get("Grid Size")),
        **_sizes("block", row.get("Block Size")),
    }


def _function_name(name: str) -> str | None:
    """Return the function of a mangled name (`--print-kernel-base mangled`), without namespaces and arguments."""
    words = readable(name)
    return None if words == name else words.partition("<")[0]


def _sizes(name: str, text: str | None) -> dict[str, int | None]:
    """Return three columns of a launch's size; a size of 0 is none."""
    found = _SIZES.fullmatch((text or "").strip())
    sizes = [int(number) for number in found.groups()] if found else []
    known = sizes if sizes and all(sizes) else [None, None, None]
    return {f"{name}_{axis}": size for axis, size in zip("xyz", known, strict=True)}


def _integer(text: str | None) -> int | None:
    plain = (text or "").strip()
    return int(plain) if plain.isascii() and plain.isdecimal() and len(plain) < 20 and int(plain) <= _LARGEST else None


def _text(text: str | None) -> str | None:
    return (text or "").strip()[:_LONGEST_TEXT] or None
