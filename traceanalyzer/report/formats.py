"""The formats of reports: a renderer of blocks is one file in `renderers` and one line here.

What is for programs is no renderer: it holds the data itself and no blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from traceanalyzer.errors import TraceAnalyzerError

if TYPE_CHECKING:
    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.report.blocks import Section
    from traceanalyzer.report.selection import Selection

# Each module has a function `render(sections, stream)`; it is imported when its format is asked for.
RENDERERS = {
    "terminal": "traceanalyzer.report.renderers.terminal",
    "markdown": "traceanalyzer.report.renderers.markdown",
}
# Each module has a function `write(diagnosis, stream)`.
FOR_PROGRAMS = {
    "json": "traceanalyzer.report.json",
}
DIAGNOSIS_FORMATS = (*RENDERERS, *FOR_PROGRAMS)
# The format that the name of a file asks for.
SUFFIXES = {
    ".csv": "csv",
    ".htm": "html",
    ".html": "html",
    ".json": "json",
    ".markdown": "markdown",
    ".md": "markdown",
    ".parquet": "parquet",
}
BY_SUFFIX = "by the suffix of -o, else {}"


def chosen(layout: str | None, output: Path | None, known: Sequence[str]) -> str:
    """Return the format that was asked for, else that of the file's suffix, else the first of the known ones.

    Raises TraceAnalyzerError where the suffix is that of a format which is not known here.
    """
    if layout is not None:
        return layout
    asked = SUFFIXES.get(output.suffix.lower()) if output is not None else None
    if asked is None:
        return known[0]
    if asked not in known:
        raise TraceAnalyzerError(
            f"this command writes no {asked}", str(output), f"another suffix, or --format {', '.join(known)}"
        )
    return asked


def render(sections: Sequence[Section], format_: str, stream: TextIO) -> None:
    """Write sections of blocks in one of RENDERERS."""
    renderer: Callable[[Sequence[Section], TextIO], None] = import_module(RENDERERS[format_]).render
    renderer(sections, stream)


def write_diagnosis(
    diagnosis: Diagnosis,
    format_: str,
    stream: TextIO,
    *,
    verbose: bool = False,
    selection: Selection | None = None,
) -> None:
    """Write a diagnosis in one of DIAGNOSIS_FORMATS, or a selection of it; those for programs are always whole."""
    if format_ in FOR_PROGRAMS:
        writer: Callable[[Diagnosis, TextIO], None] = import_module(FOR_PROGRAMS[format_]).write
        writer(diagnosis, stream)
        return
    from traceanalyzer.report.diagnosis_blocks import diagnosis_sections
    from traceanalyzer.report.selection import EVERYTHING

    render(diagnosis_sections(diagnosis, verbose=verbose, selection=selection or EVERYTHING), format_, stream)
