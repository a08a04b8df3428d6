"""Documents say what the code says: generated parts are up to date, and what they name exists."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import generate
import pytest
import yaml
from pages.parts import ROOT

import traceanalyzer

_FENCED = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_SYSTEMS = {"macos-latest": "MacOS", "ubuntu-latest": "Linux"}
SLOW_PAGES = ("README.md", "comparison.md", "tour.md")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def markdown_files() -> list[Path]:
    """Return every document of the project."""
    folders = (ROOT, ROOT / "docs", ROOT / "rules", ROOT / "sample_traces")
    return [path for folder in folders for path in sorted(folder.glob("*.md"))]


def links(path: Path) -> Iterator[str]:
    """Return the links of a document to files and anchors of the project."""
    text = _CODE.sub("", _FENCED.sub("", path.read_text(encoding="utf-8")))
    return (link for link in _LINK.findall(text) if "://" not in link)


def anchors(path: Path) -> set[str]:
    """Return the anchors that a forge gives the headings of a document."""
    found: Counter[str] = Counter()
    names = set()
    for heading in _HEADING.findall(_FENCED.sub("", path.read_text(encoding="utf-8"))):
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        names.add(f"{name}-{found[name]}" if found[name] else name)
        found[name] += 1
    return names


def is_broken(document: Path, link: str) -> bool:
    """Tell whether a link leads nowhere."""
    name, _, anchor = link.partition("#")
    target = document if not name else (document.parent / name).resolve()
    if not target.exists() or not target.is_relative_to(ROOT):
        return True
    return bool(anchor) and anchor not in anchors(target)


@pytest.mark.parametrize(
    "document",
    # Their screens are those of whole commands.
    [
        pytest.param(path, id=path.name, marks=[pytest.mark.check] if path.name in SLOW_PAGES else [])
        for path in generate.documents()
    ],
)
def test_generated_parts_are_up_to_date(document: Path, golden: bool) -> None:
    assert not generate.renew(document, write=golden), "run `make docs`"


def test_the_manual_page_is_up_to_date(golden: bool) -> None:
    assert not generate.renew_manual_page(write=golden), "run `make docs`"


@pytest.mark.parametrize("document", generate.documents(), ids=lambda path: path.name)
def test_every_generated_part_ends(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    assert len(re.findall(r"<!-- begin .+? -->", text)) == text.count("<!-- end -->") > 0


def test_every_link_leads_to_a_file_and_a_heading_that_exist() -> None:
    broken = [
        f"{document.relative_to(ROOT)}: {link}"
        for document in markdown_files()
        for link in links(document)
        if is_broken(document, link)
    ]
    assert broken == []


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_every_make_target_that_a_document_names_exists(document: str) -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    text = (ROOT / document).read_text(encoding="utf-8")
    named = re.findall(r"`make ([a-z]+)[`\s]|^make ([a-z]+)", text, re.MULTILINE)
    assert {first or second for first, second in named} <= set(targets)


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    """The project table of pyproject.toml."""
    loaded: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return loaded


def test_the_newest_release_of_the_changelog_is_the_version_of_the_package() -> None:
    versions = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert versions[0] == traceanalyzer.__version__


def test_continuous_integration_checks_every_python_and_system_that_the_package_promises(
    project: dict[str, Any],
) -> None:
    job = yaml.safe_load((ROOT / ".github" / "workflows" / "check.yml").read_text(encoding="utf-8"))["jobs"]["check"]
    matrix = job["strategy"]["matrix"]
    promised = [item.rpartition(" :: ") for item in project["classifiers"]]
    pythons = [name for kind, _, name in promised if kind.endswith(":: Python") and "." in name]
    systems = {name for kind, _, name in promised if kind.startswith("Operating System")}
    assert matrix["python"] == pythons
    assert {_SYSTEMS[name] for name in matrix["system"]} == systems
    assert job["steps"][-1]["run"] == ".ci/run"


def test_the_citation_names_the_newest_release(root: Path) -> None:
    cited = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))
    (date,) = re.findall(
        rf"^## {re.escape(cited['version'])} — (\S+)$", (root / "CHANGELOG.md").read_text(), re.MULTILINE
    )
    assert (cited["version"], str(cited["date-released"])) == (traceanalyzer.__version__, date)


def test_every_issue_form_asks_for_the_inventory_without_names(root: Path) -> None:
    forms = [path for path in (root / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml"]
    assert len(forms) == 3
    for form in forms:
        fields = yaml.safe_load(form.read_text(encoding="utf-8"))["body"]
        assert [field for field in fields if "info --anonymous" in field["attributes"]["label"]], form.name


def test_the_readme_is_short(root: Path) -> None:
    assert (root / "README.md").stat().st_size <= 10_000


def test_fragments_of_the_changelog_have_a_type_that_a_release_knows(root: Path) -> None:
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]
    types = {item["directory"] for item in settings["type"]}
    names = [path.name for path in (root / settings["directory"]).iterdir() if path.name != ".gitignore"]
    assert [name for name in names if not re.fullmatch(rf"\+[a-z0-9-]+\.({'|'.join(types)})\.md", name)] == []


def test_architecture_fits_three_screens() -> None:
    assert len((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").splitlines()) <= 3 * 60


def test_architecture_names_only_what_is_there() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    paths = {path for path in re.findall(r"`(traceanalyzer/[a-z_/.]*)", text) if not path.endswith(".")}
    missing = sorted(path for path in paths if not (ROOT / path).exists())
    assert missing == []
