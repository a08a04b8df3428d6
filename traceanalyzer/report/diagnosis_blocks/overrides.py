"""What was changed about the rules: every report says it, so that silence is never mistaken for health."""

from __future__ import annotations

from pathlib import Path

from traceanalyzer.diagnosis import Diagnosis, Override
from traceanalyzer.report.blocks import Bullets, Heading, Section, Text


def override_sections(diagnosis: Diagnosis) -> list[Section]:
    """Return every change, by where it comes from."""
    sections = []
    for origin in dict.fromkeys(override.origin for override in diagnosis.overrides):
        place = Path(origin).name if origin.endswith(".toml") else origin
        items = [_override_words(override) for override in diagnosis.overrides if override.origin == origin]
        notes = (Text(origin, "dim"),) if place != origin else ()
        sections.append(Section((Bullets(tuple(items)),), Heading(f"Changed by {place}", notes)))
    return sections


def _override_words(override: Override) -> Text:
    name = f"{override.rule} " if override.rule else ""
    until = f" until {override.until}" if override.kind == "suppressed" else ""
    reason = f": {override.reason}" if override.reason else ""
    return Text(f"{name}{override.what}{until}{reason}", "caution" if override.kind == "ended" else "dim")
