"""`traceanalyzer rules`: list, show, explain, write and test rules, and show which settings are in force."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from traceanalyzer.attribution import AttributionOptions
from traceanalyzer.commands.help import completes, rule_names
from traceanalyzer.commands.output import chosen_format, report_options, write_screen
from traceanalyzer.commands.run_options import (
    RunPath,
    device_option,
    note_ignored_settings,
    step_pattern_option,
    store_option,
    trust_option,
)
from traceanalyzer.remote.location import Location
from traceanalyzer.report import formats
from traceanalyzer.text.visible import one_line, visible, visible_lines


@click.group()
def config() -> None:
    """Show which settings are in force, and from where."""


@config.command("show")
@click.argument("run", type=RunPath(), default=".", required=False)
@trust_option
@device_option
@report_options("A page to read, the same as Markdown or as a page for a browser, or everything as JSON.")
def show_settings(
    run: Path | Location, trust: bool, device: str | None, layout: str | None, output: Path | None
) -> None:
    """Show every setting that holds for RUN (by default the current folder), and the file or variable it is from.

    Reads no trace. Mistakes in the settings are errors here, as they are for `diagnose`.
    """
    from traceanalyzer.report.screens import config as report
    from traceanalyzer.rules.rule_set.settings_in_force import settings_in_force

    format_ = chosen_format(layout, output)
    found = settings_in_force(run, trust=trust, device=device)
    write_screen(report, (found,), format_, output)


EXIT_FAILED = 1

_paths = click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
_extra = click.option(
    "--rules",
    "paths",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="PATH",
    help="Also read the rules in this file or folder; may be repeated.",
)


@click.group()
def rules() -> None:
    """List, show, explain, write and test the rules of `diagnose`, and show the settings in force."""


rules.add_command(show_settings, "settings")


@rules.command("list")
@_extra
def list_rules(paths: tuple[Path, ...]) -> None:
    """List every rule with the problem that it finds."""
    from traceanalyzer.report.screens import rule as report
    from traceanalyzer.rules.rule_set.loading import load_rules

    formats.render(report.list_sections(load_rules(paths)), "terminal", sys.stdout)


@rules.command("show")
@click.argument("rule_id", metavar="ID", shell_complete=completes(rule_names))
@_extra
def show_rule(rule_id: str, paths: tuple[Path, ...]) -> None:
    """Show what a rule finds, under which conditions and parameters, and how to fix it."""
    from traceanalyzer.report.screens import rule as report
    from traceanalyzer.rules.rule_set.loading import load_rules, rule_called

    rule = rule_called(rule_id, load_rules(paths))
    formats.render(report.sections(rule), "terminal", sys.stdout)


@rules.command("explain")
@click.argument("rule_id", metavar="ID", shell_complete=completes(rule_names))
@click.argument("run", type=RunPath())
@_extra
@store_option()
@step_pattern_option
@device_option
@trust_option
def explain_rule(
    rule_id: str,
    run: Path | Location,
    paths: tuple[Path, ...],
    store: Path | Location | None,
    step_pattern: str | None,
    device: str | None,
    trust: bool,
) -> None:
    """Show why a rule fires on RUN or not: each condition, and the values that it saw.

    The settings of the project apply, as for `diagnose`.
    """
    from traceanalyzer.report.screens import rule as report
    from traceanalyzer.run import open_run

    options = AttributionOptions(step_pattern=step_pattern)
    with open_run(run, store=store, options=options, trust=trust, device=device) as opened:
        note_ignored_settings(opened)
        formats.render(report.explanation_sections(opened.explain(rule_id, paths)), "terminal", sys.stdout)


@rules.command("new")
@click.argument("rule_id", metavar="ID")
@click.option(
    "--in",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=".",
    metavar="DIR",
    help="Write the file here; by default in the current folder.",
)
def start_rule(rule_id: str, folder: Path) -> None:
    """Write a new rule file to start from: it passes `rules lint`, and its test fails until you adapt it."""
    from traceanalyzer.rules.rule_file.new_rule import new_rule

    file = new_rule(rule_id, folder)
    click.echo(f"{visible(str(file))} is written. Describe in it the problem to find, then:")
    for command, why in (
        (f"rules test {file}", "runs its tests; the first fails until its workload has the problem"),
        (f"rules lint {file}", "lists mistakes"),
        (f"rules explain {rule_id} RUN --rules {file}", "shows on a run what each condition saw"),
        (f"diagnose RUN --rules {file}", "uses it"),
    ):
        click.echo(f"  traceanalyzer {visible(command)}    {why}")


@rules.command("schema")
def print_schema() -> None:
    """Print the JSON Schema of a rule file, for editors that complete and check YAML."""
    from traceanalyzer.rules.rule_file.new_rule import rule_schema

    click.echo(json.dumps(rule_schema(), indent=2))


@rules.command("test")
@_paths
@click.option("-q", "--quiet", is_flag=True, help="Print only failures.")
def test_rules(paths: tuple[Path, ...], quiet: bool) -> None:
    """Run the tests inside the rules of PATHS (by default the built-in ones)."""
    from traceanalyzer.rules.rule_set.loading import load_rules, read_rules
    from tracesim.rule_tests import run_rule_test

    passed = failed = 0
    for rule in read_rules(paths) if paths else load_rules():
        for test in rule.tests:
            result = run_rule_test(rule, test)
            if result.passed:
                passed += 1
                if not quiet:
                    click.echo(visible(f"ok      {result.rule}: {result.test}"))
                continue
            failed += 1
            click.echo(visible(f"FAILED  {result.rule}: {result.test}  ({result.path}:{result.line})"))
            for failure in result.failures:
                click.echo(f"        {one_line(str(failure))}")
            for name, value in result.row.items():
                click.echo(f"          {visible(f'{name} = {value}')}")
    click.echo(f"{passed} of {passed + failed} tests passed")
    if failed:
        click.get_current_context().exit(EXIT_FAILED)


@rules.command("lint")
@_paths
def lint_rules(paths: tuple[Path, ...]) -> None:
    """List every mistake in the rules of PATHS (by default the built-in ones)."""
    from tracesim.rule_lint import lint

    mistakes = lint(paths)
    for mistake in mistakes:
        click.echo(visible_lines(str(mistake)))
    if mistakes:
        click.echo(f"{len(mistakes)} mistake{'' if len(mistakes) == 1 else 's'}", err=True)
        click.get_current_context().exit(EXIT_FAILED)
    click.echo("no mistakes")
