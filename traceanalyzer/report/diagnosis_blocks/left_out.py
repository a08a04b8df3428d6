"""Files that the run does not count, each with the reason: silence would say that they are part of it."""

from __future__ import annotations

from collections.abc import Sequence

from traceanalyzer.diagnosis import LeftOut
from traceanalyzer.report.blocks import Bullets, Heading, Section, Text

MOST_FILES = 8


def left_out_sections(files: Sequence[LeftOut], *, verbose: bool = False) -> list[Section]:
    """Return a note for each file that was left out; the last of many are counted unless all are asked for."""
    if not files:
        return []
    shown = files if verbose else files[:MOST_FILES]
    items = [f"{file.file} {file.reason}" + (f" ({file.hint})" if file.hint else "") for file in shown]
    if len(shown) < len(files):
        items.append(f"and {len(files) - len(shown)} more; -v lists them")
    return [Section((Bullets(tuple(Text(item, "dim") for item in items)),), Heading("Left out of the run"))]
