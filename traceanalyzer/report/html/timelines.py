"""The timelines of a page: excerpts around the evidence of its findings, as few and as small as a page has room for."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from traceanalyzer.diagnosis import Evidence, Finding
from traceanalyzer.report.html.source import PageSource


class Timelines:
    """Collects the excerpts of findings; `data` is what the page's script draws."""

    def __init__(self, source: PageSource) -> None:
        self._source = source
        self._excerpts: list[dict[str, Any]] = []

    def shown(self, finding: Finding) -> Evidence | None:
        """Return the evidence whose rows are shown in time: the first that has places."""
        return next((e for e in finding.evidence if "start_ns" in e.columns and e.rows), None)

    def of_finding(self, at: int, card: str, finding: Finding) -> dict[int, int]:
        """Return the excerpt of each row of evidence that has one."""
        return {}

    def markup(self, excerpts: dict[int, int]) -> Markup:
        """Return the figure that shows these excerpts; nothing where there are none."""
        return Markup("")

    def data(self) -> list[dict[str, Any]]:
        """Return the excerpts in the order of their numbers."""
        return self._excerpts
