"""The page of a run: its sections in order, and the whole as one HTML file of limited size."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.diagnosis.verdict import judge
from traceanalyzer.report.charts.svg import TOKENS
from traceanalyzer.report.diagnosis_blocks import run_name
from traceanalyzer.report.formats import Context
from traceanalyzer.report.html.document import Part, document, filled
from traceanalyzer.report.html.sections import (
    findings,
    ledger,
    memory,
    ranks,
    roofline,
    stacks,
    tables,
    timeline,
    verdict,
)
from traceanalyzer.report.html.source import Limits, Names, PageSource, queries
from traceanalyzer.version import __version__

if TYPE_CHECKING:
    import duckdb

    from traceanalyzer.display import OpenTables

# In the order of the page. A section returns None where it has nothing to say.
Section = Callable[[PageSource], Part | None]
SECTIONS: tuple[Section, ...] = (
    verdict.section,
    verdict.numbers,
    ledger.section,
    timeline.section,
    ledger.savings,
    findings.section,
    ledger.steps,
    ranks.section,
    memory.section,
    tables.kernels,
    tables.operators,
    tables.modules,
    tables.ranges,
    tables.flops,
    roofline.section,
    tables.collectives,
    tables.copies,
    stacks.section,
    verdict.trust,
)
MOST_BYTES = 2_000_000
# Tried one after the other until the page is small enough; the last one is taken whatever its size.
_CUTS = (
    (Limits(), ""),
    (Limits(name_letters=512), "names over 512 letters"),
    (Limits(name_letters=256, slices=750), "names over 256 letters, timelines over 750 slices"),
    (
        Limits(name_letters=128, slices=400, rows=100),
        "names over 128 letters, timelines over 400 slices, tables over 100 rows",
    ),
)


def write(diagnosis: Diagnosis, stream: TextIO, context: Context) -> None:
    """Write the page of a diagnosis; without its run it has no timelines, steps, tables and stacks."""
    stream.write(page(diagnosis, context.run))


def page(diagnosis: Diagnosis, run: OpenTables | None = None) -> str:
    """Return the page of a diagnosis as text of at most MOST_BYTES; what was cut to stay below stands at its foot."""
    if run is None or run.derived is None:
        return page_of(diagnosis, None)
    with run.connected(queries()) as connection:
        return page_of(diagnosis, connection)


def page_of(diagnosis: Diagnosis, connection: duckdb.DuckDBPyConnection | None) -> str:
    """Return the page of a diagnosis over the tables of a connection, see `page`."""
    text = ""
    for limits, cut in _CUTS:
        text = _page(PageSource(diagnosis, judge(diagnosis), connection, limits, Names(limits.name_letters)), cut)
        if len(text.encode()) < MOST_BYTES:
            break
    return text


def _page(source: PageSource, cut: str) -> str:
    # In the order in which they take least memory: what takes most comes first.
    first = (stacks.section, tables.operators, tables.modules, tables.flops, roofline.section)
    made = {make: make(source) for make in (*first, *(make for make in SECTIONS if make not in first))}
    parts = [part for make in SECTIONS if (part := made[make]) is not None]
    data: dict[str, Any] = {"excerpts": [], "stacks": None, "timeline": None}
    for part in parts:
        data.update(part.data)
    foot = filled(
        "foot.html", {"version": __version__, "cut": cut, "command": "traceanalyzer diagnose RUN --format json"}
    )
    return document(run_name(source.diagnosis), parts, {"names": source.names.all(), "tokens": TOKENS, **data}, foot)
