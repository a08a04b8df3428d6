"""Macros that the SQL of metrics, rules and users calls: one file each, and those made from the patterns of kernels."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from traceanalyzer.metrics import in_reading_order

_CALLED = re.compile(r"(\w+)\s*\(")


@cache
def macro_files() -> dict[str, str]:
    """Return the definition of every macro that has a file by name, each after those that it calls."""
    files = sorted(Path(__file__).parent.glob("*.sql"))
    texts = {file.stem: file.read_text(encoding="utf-8") for file in files}
    calls = {name: set(_CALLED.findall(text)) & texts.keys() - {name} for name, text in texts.items()}
    return {name: texts[name] for name in in_reading_order(calls)}
