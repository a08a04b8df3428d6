"""The formats of reports: a renderer of blocks is one file in `renderers` and one line here.

What is for programs is no renderer: it holds the data itself and no blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from traceanalyzer.errors import TraceAnalyzerError

if TYPE_CHECKING:
    from traceanalyzer.comparison.comparing import Diff
    from traceanalyzer.comparison.gate import GateResult
    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.display import OpenTables
    from traceanalyzer.report.blocks import Section
    from traceanalyzer.report.diagnosis_blocks import Selection

# Each module has a function `render(sections, stream)`; it is imported when its format is asked for.
RENDERERS = {
    "terminal": "traceanalyzer.report.renderers.terminal",
    "markdown": "traceanalyzer.report.renderers.markdown",
    "html": "traceanalyzer.report.html.document",
}
# A diagnosis has more to show there than blocks hold: a function `write(diagnosis, stream, context)`.
PAGES = {"html": "traceanalyzer.report.html.page"}
# Each module has the functions `write(diagnosis, stream, context)` and `write_diff(diff, stream, context)`.
FOR_PROGRAMS = {
    "json": "traceanalyzer.report.json",
    "junit": "traceanalyzer.report.junit",
    "sarif": "traceanalyzer.report.sarif",
}
# Each module has a function `write_diff(diff, stream, context)`: a comparison has more to show than blocks hold, too.
DIFF_PAGES = {"html": "traceanalyzer.report.html.diff_page"}
DIAGNOSIS_FORMATS = (*RENDERERS, *FOR_PROGRAMS)
DIFF_FORMATS = DIAGNOSIS_FORMATS
# Screens of other commands have blocks, and a function `write_json`.
SCREEN_FORMATS = (*RENDERERS, "json")
# The first line of a comparison in Markdown, by which a bot finds its comment.
MARKDOWN_MARK = "<!-- traceanalyzer -->"
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
# What no command writes, and a reader of text would take for damage.
_OTHERS = frozenset({".doc", ".docx", ".gif", ".jpeg", ".jpg", ".pdf", ".png", ".pptx", ".xls", ".xlsx"})
BY_SUFFIX = "by the suffix of -o, else {}"


@dataclass(frozen=True)
class Context:
    """What a format may use besides the diagnosis or comparison that it writes."""

    run: OpenTables | None = None  # open: a page also shows its timelines and tables
    gate: GateResult | None = None  # what a gate says, for JUnit and comparisons
    unsure: str | None = None  # what a gate makes of checks that captures leave open: fail or pass
    source_root: Path | None = None  # where SARIF finds lines of code; None: the repository's root


def chosen(layout: str | None, output: Path | None, known: Sequence[str]) -> str:
    """Return the format that was asked for, else that of the file's suffix, else the first of the known ones.

    Raises TraceAnalyzerError where the suffix is that of a format which is not known here.
    """
    if layout is not None:
        return layout
    suffix = "" if output is None else output.suffix.lower()
    wanted = suffix[1:] if suffix in _OTHERS else SUFFIXES.get(suffix)
    if wanted is None:
        return known[0]
    if wanted not in known:
        raise TraceAnalyzerError(
            f"this command writes no {wanted}", str(output), f"another suffix, or --format {', '.join(known)}"
        )
    return wanted


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
    run: OpenTables | None = None,
    gate: GateResult | None = None,
    source_root: Path | None = None,
) -> None:
    """Write a diagnosis in one of DIAGNOSIS_FORMATS, or a selection of it; those for programs are always whole.

    A page shows what the diagnosis alone does not hold, timelines and tables, where the open `run` is given.
    JUnit shows what a gate says, and SARIF finds lines of code below `source_root`, else below the repository's root.
    """
    module = {**PAGES, **FOR_PROGRAMS}.get(format_)
    if module is not None:
        write: Callable[[Diagnosis, TextIO, Context], None] = import_module(module).write
        write(diagnosis, stream, Context(run=run, gate=gate, source_root=source_root))
        return
    from traceanalyzer.report.diagnosis_blocks import EVERYTHING, diagnosis_sections

    render(diagnosis_sections(diagnosis, verbose=verbose, selection=selection or EVERYTHING), format_, stream)


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
    module = {**DIFF_PAGES, **FOR_PROGRAMS}.get(format_)
    if module is not None:
        write: Callable[[Diff, TextIO, Context], None] = import_module(module).write_diff
        write(diff, stream, Context(gate=gate, unsure=unsure))
        return
    from traceanalyzer.report.diff_blocks.headline import diff_sections

    if format_ == "markdown":
        stream.write(f"{MARKDOWN_MARK}\n\n")
    render(diff_sections(diff, gate, verbose=verbose), format_, stream)
