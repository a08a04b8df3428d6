"""The page of a rule on a terminal: what it finds, when it fires and stays silent, its knobs, and the fix."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from traceanalyzer.report.page import Page
from traceanalyzer.rules.loading import builtin_folder
from traceanalyzer.rules.page import RulePage

# What is longer is a condition, and has a line of its own.
LONGEST_SEVERITY = len("from what it can save")


def write(rule: RulePage, select: str, stream: TextIO) -> None:
    """Write the page of a rule; `select` is the query that its condition is over."""
    page = Page(stream)
    is_told_by_row = not rule.attaches_to and len(rule.severity) > LONGEST_SEVERITY
    severity = "" if rule.attaches_to else f" · severity {'by its values' if is_told_by_row else rule.severity}"
    facts = [f"  {rule.kind}{severity}", f" · {rule.confidence} confidence at most"]
    page.flow([(rule.id, "bold"), *((fact, "dim") for fact in facts)])
    page.paragraph(rule.title, style="bold")
    page.blank()
    if rule.why:
        page.paragraph(rule.why)
        page.blank()
    page.paragraph(rule.example, label=("says      ", "cyan"))
    page.paragraph(", ".join(rule.requires) or "nothing", label=("requires  ", "cyan"))
    if rule.kind != "quality":
        page.paragraph(rule.scope, label=("looks at  ", "cyan"))
    if rule.attaches_to:
        page.paragraph(", ".join(rule.attaches_to), label=("explains  ", "cyan"))
    else:
        page.paragraph(rule.claims, label=("claims    ", "cyan"))
    if rule.refines:
        page.paragraph(", ".join(rule.refines), label=("refines   ", "cyan"))
    page.blank()
    page.paragraph(rule.when, label=("fires when  ", "cyan"))
    for reason, condition in rule.abstains:
        page.paragraph(f"{condition}  ({reason})", label=("abstains when  ", "cyan"))
    if is_told_by_row:
        page.paragraph(rule.severity, label=("severity  ", "cyan"))
    for meaning, condition in rule.lowered:
        page.paragraph(f"{condition}  ({meaning})", label=("less sure when  ", "cyan"))
    for name in rule.stays_silent:
        page.paragraph(name, label=("tested  ", "dim"))
    _write_params(page, rule)
    for fix in rule.fixes:
        page.blank()
        page.paragraph(fix.text, label=("fix  ", "bold green"))
        if fix.code:
            page.code(fix.code, indent=5)
    page.blank()
    page.line(("over", "cyan"))
    page.code(select, indent=2)
    page.blank()
    for reference in (*rule.references, _place(rule)):
        page.code(f"see  {reference}", indent=0, style="dim")


def _place(rule: RulePage) -> str:
    """Say where the rule's file is: of one that ships with the package, below the folder of them."""
    path = Path(rule.path)
    return f"rules/{path.relative_to(builtin_folder())}" if path.is_relative_to(builtin_folder()) else rule.path


def _write_params(page: Page, rule: RulePage) -> None:
    if not rule.params:
        return
    page.blank()
    page.line(("parameters", "cyan"), (f"  --set {rule.id}.NAME=VALUE", "dim"))
    names = max(len(param.name) for param in rule.params)
    values = max(len(str(param.default)) for param in rule.params)
    for param in rule.params:
        page.paragraph(param.why, label=f"  {param.name:<{names}}  {param.default!s:<{values}}  ")
