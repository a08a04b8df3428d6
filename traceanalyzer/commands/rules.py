"""`traceanalyzer rules`: what is known, and whether it holds."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from traceanalyzer.commands.opening import step_pattern_option

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
    """List, show and test what `diagnose` knows."""


@rules.command("list")
@_extra
def list_rules(paths: tuple[Path, ...]) -> None:
    """List every rule with the problem it finds."""
    from traceanalyzer.report.page import Page
    from traceanalyzer.rules import load_rules

    page = Page(sys.stdout)
    known = load_rules(paths)
    width = max((len(rule.id) for rule in known), default=0)
    kinds = (
        ("finding", "Problems of the program"),
        ("explanation", "Reasons, told under the problems that they explain"),
        ("quality", "Problems of the trace"),
    )
    for kind, title in kinds:
        page.line((title, "bold"))
        for rule in known:
            if rule.kind == kind:
                page.paragraph(rule.title, label=(f"  {rule.id:<{width}}  ", "cyan"))
        page.blank()
    page.line(("`traceanalyzer rules show ID` tells what a rule looks at and how to mend what it finds.", "dim"))


@rules.command("show")
@click.argument("rule_id", metavar="ID")
@_extra
def show_rule(rule_id: str, paths: tuple[Path, ...]) -> None:
    """Show what a rule finds, when, with which parameters, and how to mend it."""
    from traceanalyzer.report import rule as report
    from traceanalyzer.rules import load_rules, rule_called, rule_page

    rule = rule_called(rule_id, load_rules(paths))
    report.write(rule_page(rule), rule.select, sys.stdout)


@rules.command("explain")
@click.argument("rule_id", metavar="ID")
@click.argument("run", type=click.Path(path_type=Path))
@_extra
@click.option("--store", type=click.Path(path_type=Path), metavar="DIR", help="Keep what is computed here.")
@step_pattern_option
def explain_rule(
    rule_id: str, run: Path, paths: tuple[Path, ...], store: Path | None, step_pattern: str | None
) -> None:
    """Show how a rule came to its verdict on RUN: each condition, and the values that it saw.

    The settings of the project count, as they do for `diagnose`.
    """
    from traceanalyzer.attribution import AttributionOptions
    from traceanalyzer.report import explanation
    from traceanalyzer.run import open_run

    with open_run(run, store=store, options=AttributionOptions(step_pattern=step_pattern)) as opened:
        explanation.write(opened.explain(rule_id, paths), sys.stdout)


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
    """Write a rule to start from: it passes `rules lint`, and its first test waits for your problem."""
    from traceanalyzer.rules.authoring import new_rule

    file = new_rule(rule_id, folder)
    click.echo(f"{file} is written. Say in it what you look for, then:")
    for command, why in (
        (f"rules test {file}", "runs its tests; the first fails until its workload has the problem"),
        (f"rules lint {file}", "lists mistakes"),
        (f"rules explain {rule_id} RUN --rules {file}", "shows on a run what each condition saw"),
        (f"diagnose RUN --rules {file}", "uses it"),
    ):
        click.echo(f"  traceanalyzer {command}    {why}")


@rules.command("schema")
def print_schema() -> None:
    """Print the JSON Schema of a rule file, for editors that complete and check YAML."""
    import json

    from traceanalyzer.rules.authoring import rule_schema

    click.echo(json.dumps(rule_schema(), indent=2))


@rules.command("test")
@_paths
@click.option("-q", "--quiet", is_flag=True, help="Print failures alone.")
def test_rules(paths: tuple[Path, ...], quiet: bool) -> None:
    """Run the tests inside the rules of PATHS (by default the built-in ones)."""
    from traceanalyzer.rules import load_rules, read_rules, run_rule_test

    passed = failed = 0
    for rule in read_rules(paths) if paths else load_rules():
        for test in rule.tests:
            result = run_rule_test(rule, test)
            if result.passed:
                passed += 1
                if not quiet:
                    click.echo(f"ok      {result.rule}: {result.test}")
                continue
            failed += 1
            click.echo(f"FAILED  {result.rule}: {result.test}  ({result.path}:{result.line})")
            for failure in result.failures:
                click.echo(f"        {failure}")
            for name, value in result.row.items():
                click.echo(f"          {name} = {value}")
    click.echo(f"{passed} of {passed + failed} tests passed")
    if failed:
        click.get_current_context().exit(EXIT_FAILED)


@rules.command("lint")
@_paths
def lint_rules(paths: tuple[Path, ...]) -> None:
    """List every mistake in the rules of PATHS (by default the built-in ones)."""
    from traceanalyzer.rules import lint

    mistakes = lint(paths)
    for mistake in mistakes:
        click.echo(str(mistake))
    if mistakes:
        click.echo(f"{len(mistakes)} mistake{'' if len(mistakes) == 1 else 's'}", err=True)
        click.get_current_context().exit(EXIT_FAILED)
    click.echo("no mistakes")
