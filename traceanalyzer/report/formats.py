"""The formats of reports: a renderer of blocks is one file in `renderers` and one line here.

What is for programs is no renderer: it holds the data itself and no blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.report.blocks import Section
    from traceanalyzer.run import Run

# Each module has a function `render(sections, stream)`; it is imported when its format is asked for.
RENDERERS = {
    "terminal": "traceanalyzer.report.renderers.terminal",
    "markdown": "traceanalyzer.report.renderers.markdown",
    "html": "traceanalyzer.report.renderers.html",
}
# A diagnosis has more to show there than blocks hold: a function `write(diagnosis, stream, run)`.
PAGES = {
    "html": "traceanalyzer.report.html.page",
}
# Each module has a function `write(diagnosis, stream)`.
FOR_PROGRAMS = {
    "json": "traceanalyzer.report.json",
}
DIAGNOSIS_FORMATS = (*RENDERERS, *FOR_PROGRAMS)


def render(sections: Sequence[Section], format_: str, stream: TextIO) -> None:
    """Write sections of blocks in one of RENDERERS."""
    renderer: Callable[[Sequence[Section], TextIO], None] = import_module(RENDERERS[format_]).render
    renderer(sections, stream)


def write_diagnosis(
    diagnosis: Diagnosis, format_: str, stream: TextIO, *, verbose: bool = False, run: Run | None = None
) -> None:
    """Write a diagnosis in one of DIAGNOSIS_FORMATS; those for programs are always whole.

    A page shows what the diagnosis alone does not hold, timelines and tables, where the open `run` is given.
    """
    if format_ in FOR_PROGRAMS:
        writer: Callable[[Diagnosis, TextIO], None] = import_module(FOR_PROGRAMS[format_]).write
        writer(diagnosis, stream)
        return
    if format_ in PAGES:
        write_page: Callable[[Diagnosis, TextIO, Run | None], None] = import_module(PAGES[format_]).write
        write_page(diagnosis, stream, run)
        return
    from traceanalyzer.report.diagnosis_blocks import diagnosis_sections

    render(diagnosis_sections(diagnosis, verbose=verbose), format_, stream)
