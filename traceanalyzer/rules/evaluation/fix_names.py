"""Puts the names of a trace into a fix: the optimizer, kernel or class that it is about."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from traceanalyzer.rules.rule_file.model import RuleFix
from traceanalyzer.rules.rule_file.template import with_name
from traceanalyzer.text.mangled_names import readable

# Names come from whoever wrote the trace, and people paste snippets into a shell.
_PASTED = re.compile(r"[A-Za-z_][\w.]{0,119}")


def with_trace_names(fix: RuleFix, row: Mapping[str, Any] | None) -> RuleFix:
    """Return a fix with the names of the trace in place of its words, where a name is one that can be pasted."""
    text, code = fix.text, fix.code
    for word, column in fix.names.items():
        recorded = (row or {}).get(column)
        name = readable(recorded).partition("<")[0] if isinstance(recorded, str) else ""
        if _PASTED.fullmatch(name):
            text, code = with_name(text, word, name), code and with_name(code, word, name)
    return replace(fix, text=text, code=code)
