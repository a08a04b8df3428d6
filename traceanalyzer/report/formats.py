"""The formats of reports: a renderer of blocks is one file in `renderers` and one line here.

What is for programs is no renderer: it holds the data itself and no blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from traceanalyzer.comparison.comparing import Diff
    from traceanalyzer.comparison.gate import GateResult
    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.report.blocks import Section

# Each module has a function `render(sections, stream)`; it is imported when its format is asked for.
RENDERERS = {
    "terminal": "traceanalyzer.report.renderers.terminal",
    "markdown": "traceanalyzer.report.renderers.markdown",
}
# Each module has a function `write(diagnosis, stream)`.
FOR_PROGRAMS = {
    "json": "traceanalyzer.report.json",
    "junit": "traceanalyzer.report.junit",
    "sarif": "traceanalyzer.report.sarif",
}
DIAGNOSIS_FORMATS = (*RENDERERS, *FOR_PROGRAMS)
DIFF_FORMATS = (*RENDERERS, "json", "junit", "sarif")
# The first line of a comparison in Markdown, by which a bot finds its comment.
MARKDOWN_MARK = "<!-- traceanalyzer -->"


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
    gate: GateResult | None = None,
    source_root: Path | None = None,
) -> None:
    """Write a diagnosis in one of DIAGNOSIS_FORMATS; those for programs are always whole.

    JUnit shows what a gate says, and SARIF finds lines of code below `source_root`, else below the repository's root.
    """
    if format_ == "junit":
        from traceanalyzer.report import junit

        junit.write(diagnosis, stream, gate)
        return
    if format_ == "sarif":
        from traceanalyzer.report import sarif

        sarif.write(diagnosis, stream, source_root)
        return
    if format_ in FOR_PROGRAMS:
        writer: Callable[[Diagnosis, TextIO], None] = import_module(FOR_PROGRAMS[format_]).write
        writer(diagnosis, stream)
        return
    from traceanalyzer.report.diagnosis_blocks import diagnosis_sections

    render(diagnosis_sections(diagnosis, verbose=verbose), format_, stream)


def write_diff(
    diff: Diff,
    gate: GateResult | None,
    format_: str,
    stream: TextIO,
    *,
    verbose: bool = False,
    unsure: str | None = None,
) -> None:
    """Write a comparison in one of DIFF_FORMATS, with what a gate says where one was asked for."""
    if format_ == "json":
        from traceanalyzer.report import diff_json

        diff_json.write(diff, gate, stream)
    elif format_ == "junit":
        from traceanalyzer.report import junit

        junit.write_diff(diff, gate, stream, unsure=unsure)
    elif format_ == "sarif":
        from traceanalyzer.report import sarif

        sarif.write_diff(diff, stream)
    else:
        from traceanalyzer.report.diff_blocks import diff_sections

        if format_ == "markdown":
            stream.write(f"{MARKDOWN_MARK}\n\n")
        render(diff_sections(diff, gate, verbose=verbose), format_, stream)
