"""`traceanalyzer rules`: what is known, and whether it holds."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from traceanalyzer.errors import TraceAnalyzerError

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
    for kind, title in (("finding", "Problems of the program"), ("quality", "Problems of the trace")):
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
    from difflib import get_close_matches

    from traceanalyzer.report import rule as report
    from traceanalyzer.rules import load_rules, rule_page

    known = {rule.id: rule for rule in load_rules(paths)}
    if rule_id not in known:
        close = get_close_matches(rule_id, known, n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else "`traceanalyzer rules list` names all"
        raise TraceAnalyzerError("no such rule", rule_id, hint)
    report.write(rule_page(known[rule_id]), known[rule_id].select, sys.stdout)


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
