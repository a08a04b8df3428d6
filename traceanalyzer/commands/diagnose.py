"""`traceanalyzer diagnose`: ranked findings about a run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceanalyzer.commands.opening import RunOptions, opened, run_options
from traceanalyzer.commands.output import written
from traceanalyzer.diagnosis import SEVERITIES
from traceanalyzer.errors import TraceAnalyzerError

if TYPE_CHECKING:
    from traceanalyzer.diagnosis import Diagnosis

EXIT_FINDING = 1


@click.command()
@run_options
@click.option(
    "--format",
    "layout",
    type=click.Choice(["terminal", "json"]),
    default="terminal",
    show_default=True,
    help="A report to read, or everything as JSON (docs/json.md).",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the report to FILE.")
@click.option(
    "--fail-on",
    type=click.Choice(SEVERITIES),
    metavar="LEVEL",
    help="Exit with 1 when a finding is this severe or worse: " + ", ".join(SEVERITIES) + ".",
)
@click.option(
    "--rules",
    "rule_paths",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="PATH",
    help="Also use the rules in this file or folder; may be repeated.",
)
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="RULE.PARAM=VALUE",
    help="Set a parameter of a rule, such as dataloader-bound.min_share=0.1; may be repeated.",
)
def diagnose(
    options: RunOptions,
    layout: str,
    output: Path | None,
    fail_on: str | None,
    rule_paths: tuple[Path, ...],
    assignments: tuple[str, ...],
) -> None:
    """Say what limits a run, what to do about it, and what it can win.

    Findings come ranked by what fixing them can save, each with the evidence to look up in a trace viewer and the fix.
    Rules that could not look say so, and what to record next time.
    """
    params = dict(_assigned(text) for text in assignments)
    with opened(options) as (run, activity):
        activity.phase("ranking findings")
        diagnosis = run.diagnose(rule_paths=rule_paths, params=params)
    with written(output) as stream:
        if layout == "json":
            from traceanalyzer.report import json

            json.write(diagnosis, stream)
        else:
            from traceanalyzer.report import terminal

            terminal.write(diagnosis, stream, verbose=options.verbose)
    reached = [] if fail_on is None else _reached(diagnosis, fail_on)
    if reached:
        sys.stdout.flush()
        if not options.quiet:
            rules = ", ".join(f"{rule} ({severity})" for rule, severity in reached.items())
            click.echo(f"failed on {fail_on} or worse: {rules}", err=True)
        click.get_current_context().exit(EXIT_FINDING)


def _assigned(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    rule, dot, param = name.strip().rpartition(".")
    if not (equals and dot and rule and param):
        raise TraceAnalyzerError(
            f"{text!r} is not RULE.PARAM=VALUE", "--set", "for example --set dataloader-bound.min_share=0.1"
        )
    return f"{rule}.{param}", value.strip()


def _reached(diagnosis: Diagnosis, level: str) -> dict[str, str]:
    """Return the rules whose findings are this severe or worse, each with its worst severity."""
    floor = SEVERITIES.index(level)
    severe = [finding for finding in diagnosis.findings if SEVERITIES.index(finding.severity) >= floor]
    severe.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    return {finding.rule: finding.severity for finding in severe}
