"""Message templates, text with {column:format} and nothing else of Python's, and the names of a trace in a fix."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from string import Formatter
from typing import Any

from traceanalyzer.rules.rule_file.model import RuleFix
from traceanalyzer.text.mangled_names import readable
from traceanalyzer.text.words import with_bucket_words

# A wider number is no number for people, and a width of a billion is memory for a billion characters.
MAX_WIDTH = 40
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def template_fields(template: str) -> list[tuple[str, str]]:
    """Return the (column, format) pairs of a template; raises ValueError with the reason when it is malformed."""
    fields = []
    for _, name, spec, conversion in Formatter().parse(template):
        if name is None:
            continue
        if not name.isidentifier():
            raise ValueError(f"'{{{name}}}' is not a column name")
        if conversion or "{" in (spec or ""):
            raise ValueError(f"'{{{name}}}' may only carry a format, as in {{{name}:.1f}}")
        if any(
            len(digits) > 3 or int(digits) > MAX_WIDTH for digits in re.findall(r"[0-9]+", _number_spec(spec or ""))
        ):
            raise ValueError(f"'{{{name}}}' may be at most {MAX_WIDTH} characters wide, with as many decimals")
        if (spec or "").count("|") > 1 or "|" in _number_spec(spec or ""):
            raise ValueError(f"'{{{name}}}' takes two words, for one and for many, as in {{{name}:.0f copy|copies}}")
        fields.append((name, spec or ""))
    return fields


def render(template: str, values: Mapping[str, Any]) -> str:
    """Return the template with its columns filled in; NULL reads 'unknown'."""
    text = []
    for literal, name, spec, _ in Formatter().parse(template):
        text.append(literal)
        if name is not None:
            text.append(format_value(values[name], spec or ""))
    return " ".join("".join(text).split())


def with_name(text: str, word: str, name: str) -> str:
    """Return a text in which a name stands for a word."""
    return re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", lambda _: name, text)


def format_value(value: Any, spec: str) -> str:
    """Return a value in a Python format, or as `bytes` (binary units), `dur` (nanoseconds) or `bucket` for people.

    Behind a space and with a bar between them, a format names what is counted: of one, and of any other number.
    """
    if "|" in spec:
        number_spec, words = _number_spec(spec), spec.partition(" ")[2]
        one, _, many = words.partition("|")
        number = format_value(value, number_spec or ",")
        return f"{number} {one if number == '1' else many}"
    if value is None:
        return "unknown"
    if spec == "bytes":
        return _bytes(float(value))
    if spec == "dur":
        return _duration(float(value))
    if spec == "bucket":
        return with_bucket_words(str(value))
    # Thousands are separated as in tables.
    text = format(value, f",{spec}" if spec.startswith(".") and spec.endswith("f") else spec)
    return text.replace("%", " %") if spec.endswith("%") else text


def _number_spec(spec: str) -> str:
    """Return the part of a format that is about the number, without the words for one and for many."""
    return spec.partition(" ")[0] if "|" in spec else spec


def _bytes(size: float) -> str:
    for unit in _UNITS:
        if abs(size) < 1024 or unit == _UNITS[-1]:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError("the last unit always returns")


def _duration(dur_ns: float) -> str:
    for unit, scale in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if abs(dur_ns) >= scale:
            return f"{dur_ns / scale:.1f} {unit}"
    return f"{dur_ns:.0f} ns"


# Names come from whoever wrote the trace, and people paste snippets into a shell.
_PASTED = re.compile(r"[A-Za-z_][\w.]{0,119}")


def with_trace_names(fix: RuleFix, row: Mapping[str, Any] | None, run: str = "") -> RuleFix:
    """Return a fix with the names of the trace in place of its words, where a name is one that can be pasted.

    In a command of the shell the word RUN stands for the path of the run.
    """
    text, code = fix.text, fix.code
    for word, column in fix.names.items():
        recorded = (row or {}).get(column)
        name = readable(recorded).partition("<")[0] if isinstance(recorded, str) else ""
        if _PASTED.fullmatch(name):
            text, code = with_name(text, word, name), code and with_name(code, word, name)
    if run and code and fix.lang == "bash":
        code = with_name(code, "RUN", shlex.quote(run))
    return replace(fix, text=text, code=code)
