"""`traceanalyzer diff`: what changed between two runs, and whether it is real."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceanalyzer.commands.comparing import load_summaries, summary_options, tell_gate
from traceanalyzer.commands.output import also_option, chosen_format, parse_also, report_options, written, written_bytes
from traceanalyzer.commands.run_options import RunOptions, RunPath, Sectioned
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.report import formats

if TYPE_CHECKING:
    from traceanalyzer.comparison.comparing import Diff
    from traceanalyzer.remote.location import Location
    from traceanalyzer.settings.settings import Settings

SPREADSHEET = "xlsx"
ALSO_FORMATS = (*formats.DIFF_FORMATS, SPREADSHEET)
_PERCENT = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*%\s*$")


if TYPE_CHECKING:
    _FloatType = click.ParamType[float]
else:  # click 8.2 has the class without a parameter
    _FloatType = click.ParamType


class Percent(_FloatType):
    """A percentage such as 2%, as a share of 0 to 1."""

    name = "percent"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the share; fails for anything but a percentage below 100 %."""
        if isinstance(value, float):
            return value
        found = _PERCENT.match(str(value))
        if found is None or float(found[1]) >= 100:
            self.fail(f"{value!r} is no percentage below 100 %, such as 2%", param, ctx)
        return float(found[1]) / 100


@click.command(cls=Sectioned)
@click.argument("base", type=RunPath())
@click.argument("new", type=RunPath())
@click.option(
    "--base",
    "more_base",
    type=RunPath(),
    multiple=True,
    metavar="RUN",
    help="One more capture of BASE; may be repeated.",
)
@click.option(
    "--new", "more_new", type=RunPath(), multiple=True, metavar="RUN", help="One more capture of NEW; may be repeated."
)
@report_options(
    (
        "A report to read, the same as Markdown or as a page for a browser, everything as JSON, or checks as JUnit and "
        "findings as SARIF."
    ),
    "report",
    formats.DIFF_FORMATS,
)
@also_option(ALSO_FORMATS)
@click.option(
    "--fail-on",
    type=click.Choice(("slower", "budget", "new-finding", "any")),
    multiple=True,
    help="Exit with 1 when the step is slower, a budget is exceeded or a finding is new; may be repeated.",
)
@click.option(
    "--unsure",
    type=click.Choice(("fail", "pass")),
    help="What a gate does where the captures cannot decide; by default it exits with 3.",
)
@click.option(
    "--min-effect",
    type=Percent(),
    default=0.02,
    show_default="2%",
    metavar="PERCENT",
    help="The smallest change of the step that counts.",
)
@click.option(
    "--capture-spread",
    type=Percent(),
    metavar="PERCENT",
    help="The known standard deviation between captures of one program, for one capture a side.",
)
@click.option(
    "--align",
    type=click.Choice(("auto", "steps", "work")),
    default="auto",
    show_default=True,
    help="Compare per step, or per unit of work: by default per step where both sides have steps.",
)
@click.option("--rank", type=int, metavar="N", help="Compare only this rank.")
@click.option("--device", type=int, metavar="N", help="Compare only this device.")
@click.option(
    "--accept-difference",
    "accepted",
    multiple=True,
    metavar="KEY",
    help="Compare in spite of a difference that forbids a verdict; may be repeated.",
)
@click.option("-v", "--verbose", is_flag=True, help="Print every bucket, capture and rank, and operators.")
@summary_options
def diff(
    base: Path | Location,
    new: Path | Location,
    more_base: tuple[Path | Location, ...],
    more_new: tuple[Path | Location, ...],
    layout: str | None,
    output: Path | None,
    further: tuple[str, ...],
    fail_on: tuple[str, ...],
    unsure: str | None,
    min_effect: float,
    capture_spread: float | None,
    align: str,
    rank: int | None,
    device: int | None,
    accepted: tuple[str, ...],
    verbose: bool,
    run_options: RunOptions,
) -> None:
    """Show what changed between two runs, where the time went or came from, and how sure that is.

    BASE and NEW are runs, or files of summaries that `export baseline` made. Two captures of one program differ by more
    than the steps of one capture, so the verdict needs several captures a side: give them with --base and --new.

    With --fail-on: exits with 1 where a gate fails, and with 3 where it cannot be judged.
    """
    wanted = [(chosen_format(layout, output, formats.DIFF_FORMATS), output), *parse_also(further, ALSO_FORMATS)]
    if any(name == SPREADSHEET for name, _ in wanted):
        from traceanalyzer.exports.xlsx import check_installed

        check_installed("--also xlsx")
    from traceanalyzer.comparison.comparing import compare
    from traceanalyzer.comparison.gate import check_diff
    from traceanalyzer.comparison.summary import CompareOptions

    settings = _settings(new, run_options) if {"budget", "any"} & set(fail_on) else None
    if "budget" in fail_on and settings is not None and not settings.budgets:
        raise TraceAnalyzerError(
            "there are no budgets",
            settings.path or "--fail-on budget",
            "docs/comparison.md shows how to write [budgets]",
        )
    sides = [load_summaries(paths, run_options) for paths in ((base, *more_base), (new, *more_new))]
    options = CompareOptions(align, min_effect, capture_spread, rank, device, accepted)
    result = compare(sides[0], sides[1], options)
    gate = check_diff(result, settings.budgets if settings else (), fail_on) if fail_on else None
    for name, file in wanted:
        if name == SPREADSHEET:
            _write_spreadsheet(result, file)
            continue
        with written(file) as stream:
            formats.write_diff(result, gate, name, stream, verbose=verbose, unsure=unsure)
    if gate is not None:
        sys.stdout.flush()
        tell_gate(gate)
        click.get_current_context().exit(gate.exit_code(unsure))


def _write_spreadsheet(result: Diff, file: Path | None) -> None:
    from traceanalyzer.exports.xlsx import write_diff_xlsx

    with written_bytes(file) as stream:
        write_diff_xlsx(result, stream)


def _settings(new: Path | Location, run_options: RunOptions) -> Settings:
    """Return the settings above a run; those of the current folder where NEW is a file of summaries."""
    from traceanalyzer.comparison.summary import is_summary_file
    from traceanalyzer.settings.settings import NO_SETTINGS, locate_settings, settings_above

    if not run_options.request.with_settings:
        return NO_SETTINGS
    if isinstance(new, Path) and is_summary_file(new):
        return settings_above(Path.cwd()).read()
    return locate_settings(new, trust=run_options.request.trust).read()
