"""The settings that hold for a run as sections of blocks, or as JSON."""

from __future__ import annotations

from typing import TextIO

from msgspec.structs import asdict

from traceanalyzer.report.blocks import Bullets, Facts, Heading, Paragraph, Section, Text
from traceanalyzer.rules.rule_set.settings_in_force import Setting, SettingsInForce
from traceanalyzer.text import visible

SCHEMA_VERSION = 1


def sections(found: SettingsInForce) -> list[Section]:
    """Return the file that counts, those that do not, and every setting by where it comes from."""
    file = (
        Text(str(found.file), "strong")
        if found.file
        else Text("no traceanalyzer.toml is in force: the defaults apply", "dim")
    )
    shown = [Section((Heading(f"Settings for {found.run}"), Facts((file,))))]
    if found.ignored:
        why = "not used: in the run, a link, another user's, or writable for others; --trust uses the nearest"
        paths = tuple(Text(str(path), "caution") for path in found.ignored)
        shown.append(Section((Bullets(paths), Paragraph(why, role="dim"))))
    for origin in dict.fromkeys(setting.origin for setting in found.settings):
        items = tuple(_item(setting) for setting in found.settings if setting.origin == origin)
        shown.append(Section((Bullets(items),), Heading(f"Set by {origin}")))
    return shown


def write_json(found: SettingsInForce, stream: TextIO) -> None:
    document = {
        "schema_version": SCHEMA_VERSION,
        "run": str(found.run),
        "file": None if found.file is None else str(found.file),
        "ignored": [str(path) for path in found.ignored],
        "settings": [asdict(setting) for setting in found.settings],
    }
    visible.write_json(document, stream)


def _item(setting: Setting) -> Text:
    instead = f" instead of {setting.default}" if setting.default is not None else ""
    reason = f": {setting.reason}" if setting.reason else ""
    return Text(f"{setting.name} = {setting.value}{instead}{reason}")
