"""Builds the site: `make site` writes build/site, which a web server can serve as it is.

The site has the documents of docs/, the README as its first page, and a page for each rule, metric and table, made from
the code. REPOSITORY_URL names where links to files of the repository lead; without it they are plain text.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import subprocess
import sys

from pages.metric_pages import metric_pages
from pages.parts import ROOT
from pages.rule_pages import rule_pages

SOURCES = ROOT / "build" / "site_sources"
_ELSEWHERE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "rules/README.md": "rule_format.md",
    "sample_traces/README.md": "sample_traces.md",
}
_CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def main() -> int:
    """Write the sources, and build the site from them; a link that leads nowhere is an error."""
    shutil.rmtree(SOURCES, ignore_errors=True)
    for name, text in site_sources(os.environ.get("REPOSITORY_URL", "")).items():
        path = SOURCES / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", "docs/mkdocs.yml"]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}).returncode


def site_sources(repository: str) -> dict[str, str]:
    """Return every page of the site in Markdown, by its path."""
    documents = {path: (ROOT / path).read_text(encoding="utf-8") for path in _documents()}
    for folder, pages in (("docs/rules", rule_pages()), ("docs/metrics", metric_pages())):
        documents |= {f"{folder}/{name}": text for name, text in pages.items()}
    places = {path: _ELSEWHERE.get(path, path.removeprefix("docs/")) for path in documents}
    return {places[path]: with_site_links(text, path, places, repository) for path, text in documents.items()}


def with_site_links(text: str, document: str, places: dict[str, str], repository: str) -> str:
    """Return a document whose links lead to pages of the site, and to the repository for all other files."""

    def linked(match: re.Match[str]) -> str:
        label, link = match.groups()
        name, hash_, anchor = link.partition("#")
        if "://" in link or not name:
            return match[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(document), name))
        if target in places:
            page = posixpath.relpath(places[target], posixpath.dirname(places[document]) or ".")
            return f"[{label}]({page}{hash_}{anchor})"
        return f"[{label}]({repository}/blob/main/{target})" if repository else label

    parts, end = [], 0
    for code in _CODE.finditer(text):
        parts += [_LINK.sub(linked, text[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, _LINK.sub(linked, text[end:])])


def _documents() -> list[str]:
    return [*_ELSEWHERE, *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]


if __name__ == "__main__":
    sys.exit(main())
