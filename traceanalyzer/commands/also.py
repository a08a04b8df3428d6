"""`--also FORMAT=FILE`: further formats of a result that is computed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from traceanalyzer.commands.targets import check_target
from traceanalyzer.errors import TraceAnalyzerError, suggestion


def also_option(formats: Sequence[str]) -> Callable[..., Any]:
    """Return the option `--also`; its value is read by `parse_also`."""
    return click.option(
        "--also",
        "further",
        multiple=True,
        metavar="FORMAT=FILE",
        help=f"Also write FILE in this format: {', '.join(formats)}; may be repeated.",
    )


def parse_also(texts: Sequence[str], formats: Sequence[str]) -> list[tuple[str, Path]]:
    """Return each format with its file; raises TraceAnalyzerError for one that is not there."""
    wanted = []
    for text in texts:
        name, equals, file = text.partition("=")
        if not equals or not file:
            raise TraceAnalyzerError(f"{text!r} is not FORMAT=FILE", "--also", "for example --also markdown=summary.md")
        if name not in formats:
            hint = suggestion(name, formats, f"known: {', '.join(formats)}")
            raise TraceAnalyzerError(f"unknown format {name!r}", "--also", hint)
        check_target(Path(file))
        wanted.append((name, Path(file)))
    return wanted
