"""Values in rocprofv3's JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from traceanalyzer.ingest.nesting import NONE

# Sums of times stay within 64 bits.
_LARGEST_NS = 2**62


def kernel_name(symbol: Mapping[str, Any]) -> str | None:
    """Return the name of a kernel as the user asked for it."""
    shown = symbol.get("formatted_kernel_name") or symbol.get("demangled_kernel_name") or symbol.get("kernel_name")
    return str(shown).removesuffix(" [clone .kd]") if shown else None


def whole_number(value: Any) -> int:
    """Return a number of 64 bits. Raises ValueError where it is none."""
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise ValueError(value)
    return value


def time_of(value: Any) -> int:
    """Return a time in ns. Raises ValueError where it is none that a clock since boot shows."""
    time_ns = whole_number(value)
    if not 0 <= time_ns < _LARGEST_NS:
        raise ValueError(value)
    return time_ns


def number_or_none(value: Any) -> int | None:
    """Return a number of 64 bits; None for every other value."""
    try:
        return whole_number(value)
    except ValueError:
        return None


def text_or_none(value: Any) -> str | None:
    """Return a text that says something; None for every other value."""
    return value if isinstance(value, str) and value else None


def handle_of(value: Any) -> int:
    """Return a handle, of which some have their highest bit set; NONE where there is none."""
    number = value.get("handle") if isinstance(value, dict) else value
    if isinstance(number, bool) or not isinstance(number, int) or not -(2**63) <= number < 2**64:
        return NONE
    return number - 2**64 if number >= 2**63 else number


def object_of(value: Any) -> dict[str, Any]:
    """Return a value that is an object; an empty one for every other."""
    return value if isinstance(value, dict) else {}


def objects_of(value: Any) -> list[dict[str, Any]]:
    """Return the members of a list as objects, empty ones for every other; an empty list for every other value."""
    return [object_of(one) for one in value] if isinstance(value, list) else []
