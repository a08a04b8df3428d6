"""`traceanalyzer rules`: what is known, and whether it holds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceanalyzer.errors import TraceAnalyzerError

if TYPE_CHECKING:
    from traceanalyzer.report.page import Page
    from traceanalyzer.rules.model import Rule

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

    from traceanalyzer.report.page import Page
    from traceanalyzer.rules import load_rules

    known = {rule.id: rule for rule in load_rules(paths)}
    if rule_id not in known:
        close = get_close_matches(rule_id, known, n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else "`traceanalyzer rules list` names all"
        raise TraceAnalyzerError("no such rule", rule_id, hint)
    _write_rule(Page(sys.stdout), known[rule_id])


def _write_rule(page: Page, rule: Rule) -> None:
    page.line((rule.id, "bold"), (f"  {rule.kind} · {rule.path}", "dim"))
    page.paragraph(rule.title, style="bold")
    page.blank()
    if rule.why:
        page.paragraph(rule.why, label=("Why       ", "cyan"))
    page.paragraph(", ".join(rule.requires) or "nothing", label=("Requires  ", "cyan"))
    page.paragraph(", ".join(rule.claims.causes) or rule.claims.compute_ops or "no time", label=("Claims    ", "cyan"))
    page.blank()
    page.line(("Fires when", "cyan"))
    page.code(rule.when, indent=2)
    page.line(("over", "cyan"))
    page.code(rule.select, indent=2)
    if rule.abstain:
        page.blank()
        page.line(("Abstains when", "cyan"))
        for abstention in rule.abstain:
            page.paragraph(f"{abstention.when}: {abstention.detail or abstention.reason}", label="  - ")
    if rule.params:
        page.blank()
        page.line(("Parameters", "cyan"), (f"  --set {rule.id}.NAME=VALUE", "dim"))
        width = max(map(len, rule.params))
        for name, param in rule.params.items():
            page.paragraph(f"{param.default}  {param.why}", label=f"  {name:<{width}}  ")
    for number, fix in enumerate(rule.fixes, 1):
        page.blank()
        page.paragraph(fix.text, label=(f"Fix {number}  " if len(rule.fixes) > 1 else "Fix  ", "green"))
        if fix.code:
            page.code(fix.code, indent=2)
    if rule.references:
        page.blank()
        for reference in rule.references:
            page.paragraph(reference, label=("See  ", "dim"))


@rules.command("test")
@_paths
@click.option("-q", "--quiet", is_flag=True, help="Print failures alone.")
def test_rules(paths: tuple[Path, ...], quiet: bool) -> None:
    """Run the tests inside the rules of PATHS (by default the built-in ones)."""
    from traceanalyzer.rules import load_rules, run_rule_tests
    from traceanalyzer.rules.loading import read_rules

    results = run_rule_tests(read_rules(paths) if paths else load_rules())
    failed = [result for result in results if not result.passed]
    for result in results:
        if result.passed and not quiet:
            click.echo(f"ok      {result.rule}: {result.name}")
        elif not result.passed:
            click.echo(f"FAILED  {result.rule}: {result.name}\n{result.detail}")
    click.echo(f"{len(results) - len(failed)} of {len(results)} tests passed")
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
