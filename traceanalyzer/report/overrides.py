"""What was changed about the rules: told in every report, so that silence is never taken for health."""

from __future__ import annotations

from pathlib import Path

from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.report.page import Page


def write_overrides(page: Page, diagnosis: Diagnosis) -> None:
    """Write every change, by where it comes from."""
    for origin in dict.fromkeys(override.origin for override in diagnosis.overrides):
        place = Path(origin).name if origin.endswith(".toml") else origin
        page.line(("Changed by ", "bold"), (place, "bold"), (f"  {origin}" if place != origin else "", "dim"))
        for override in diagnosis.overrides:
            if override.origin != origin:
                continue
            until = f" until {override.until}" if override.kind == "suppressed" else ""
            reason = f": {override.reason}" if override.reason else ""
            style = "yellow" if override.kind == "ended" else "dim"
            name = f"{override.rule} " if override.rule else ""
            page.paragraph(f"{name}{override.what}{until}{reason}", label="  - ", style=style)
        page.blank()
