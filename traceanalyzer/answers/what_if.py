"""The answer to a what-if question as Python users get it: its numbers, and how a prompt and a notebook show it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from traceanalyzer.attribution.lead_scan.what_if import Answer, Change, DeviceAnswer, RunAnswer
    from traceanalyzer.report.blocks import Section


@dataclass(frozen=True, repr=False)
class ShownAnswer:
    """What a change saves, per device and for the run; `print` and notebooks show what `traceanalyzer whatif` shows."""

    answer: Answer
    name: str  # of the run

    @property
    def change(self) -> Change:
        """The change that was asked about."""
        return self.answer.change

    @property
    def devices(self) -> tuple[DeviceAnswer, ...]:
        """What it saves on each device."""
        return self.answer.devices

    @property
    def run(self) -> RunAnswer | None:
        """What it saves for the run; None: the run has one device."""
        return self.answer.run

    def __repr__(self) -> str:
        from io import StringIO

        from traceanalyzer.report import formats

        stream = StringIO()
        formats.render(self._sections(), "terminal", stream)
        return stream.getvalue().rstrip("\n")

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text("…" if cycle else repr(self))

    def _repr_html_(self) -> str:
        from traceanalyzer.report.html.notebook import sections_html

        return sections_html(self._sections())

    def _sections(self) -> list[Section]:
        from traceanalyzer.report.screens.what_if import sections

        return sections(self.answer, self.name)
