"""`traceanalyzer rules settings`: which settings are in force, and from where."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceanalyzer.commands.opening import RunPath, device_option, trust_option
from traceanalyzer.commands.output import chosen_format, report_options, write_screen
from traceanalyzer.report import formats

if TYPE_CHECKING:
    from traceanalyzer.remote.location import Location

FORMATS = (*formats.RENDERERS, "json")


@click.group()
def config() -> None:
    """Show which settings are in force, and from where."""


@config.command("show")
@click.argument("run", type=RunPath(), default=".", required=False)
@trust_option
@device_option
@report_options(FORMATS, "A page to read, the same as Markdown or as a page for a browser, or everything as JSON.")
def show_settings(
    run: Path | Location, trust: bool, device: str | None, layout: str | None, output: Path | None
) -> None:
    """Show every setting that holds for RUN (by default the current folder), and the file or variable it is from.

    Reads no trace. Mistakes in the settings are errors here, as they are for `diagnose`.
    """
    from traceanalyzer.report.screens import config as report
    from traceanalyzer.rules.rule_set.settings_in_force import settings_in_force

    format_ = chosen_format(layout, output, FORMATS)
    found = settings_in_force(run, trust=trust, device=device)
    write_screen(report, (found,), format_, output)
