"""The answer to a what-if question as Python users get it: its numbers, and how a prompt and a notebook show it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from traceanalyzer.display import display

if TYPE_CHECKING:
    from traceanalyzer.attribution.replay.what_if import Answer, Change, DeviceAnswer, RunAnswer


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
        return display().what_if_text(self.answer, self.name)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text("…" if cycle else repr(self))

    def _repr_html_(self) -> str:
        return display().what_if_in_notebook(self.answer, self.name)
