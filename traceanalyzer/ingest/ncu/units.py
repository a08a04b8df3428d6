"""Numbers as Nsight Compute prints them, in units without prefixes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

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
_DECIMAL_COMMA = re.compile(rb'"-?\d[\d.]*,(?:\d{1,2}|\d{4,})"')
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
