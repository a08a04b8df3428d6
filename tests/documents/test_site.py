"""The site: its links lead to pages of its own, and it has a page for every rule, metric and table."""

from __future__ import annotations

import build_site
import pytest
from pages.metric_pages import metric_pages
from pages.rule_pages import rule_pages
from tiers import needed

from traceanalyzer.query import engine
from traceanalyzer.rules.rule_set.loading import load_rules
from traceanalyzer.schema import canonical_tables, rule_tables

PLACES = {"README.md": "index.md", "docs/tour.md": "tour.md", "rules/README.md": "rule_format.md"}


@pytest.mark.parametrize(
    ("document", "text", "expected"),
    [
        ("README.md", "[the tour](docs/tour.md#x)", "[the tour](tour.md#x)"),
        ("docs/tour.md", "[a](../README.md)", "[a](index.md)"),
        ("docs/tour.md", "[rules](../rules)", "[rules](https://host/blob/main/rules)"),
        ("docs/tour.md", "[here](#part) [there](https://x.org/a)", "[here](#part) [there](https://x.org/a)"),
        ("docs/tour.md", "`[no](../rules)`", "`[no](../rules)`"),
    ],
)
def test_links_lead_to_the_site_or_to_the_repository(document: str, text: str, expected: str) -> None:
    assert build_site.with_site_links(text, document, PLACES, "https://host") == expected


def test_without_a_repository_a_link_to_a_file_is_plain_text() -> None:
    assert build_site.with_site_links("[rules](../rules)", "docs/tour.md", PLACES, "") == "rules"


@pytest.mark.long
@pytest.mark.check
def test_the_site_builds_with_a_page_for_every_rule_metric_and_table(monkeypatch: pytest.MonkeyPatch) -> None:
    needed("mkdocs")
    rules, metrics = rule_pages(), metric_pages()
    monkeypatch.setattr(build_site, "rule_pages", lambda: rules)
    monkeypatch.setattr(build_site, "metric_pages", lambda: metrics)
    assert {name.removesuffix(".md") for name in rules} == {"README", *(rule.id for rule in load_rules(tests=False))}
    names = {
        f"{schema}.{name}" if name in engine.metrics() else name
        for schema, tables in (("canonical", canonical_tables()), ("attribution", engine.derived_tables()))
        for name in tables
    }
    pages = {name.removesuffix(".md") for name in metrics}
    assert pages == {"README", *engine.metrics(), *names, *rule_tables()}
    assert build_site.main() == 0
