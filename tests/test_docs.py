"""Documents say what the code says: generated parts are up to date, and what they name exists."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def generate(root: Path) -> ModuleType:
    """The script that writes the generated parts."""
    spec = importlib.util.spec_from_file_location("generate", root / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("document", ["README.md", "docs/json.md"])
def test_generated_parts_are_up_to_date(document: str, generate: ModuleType, root: Path, golden: bool) -> None:
    assert not generate.renew(root / document, write=golden), "run `make docs`"


def test_every_generated_part_ends(root: Path) -> None:
    text = (root / "README.md").read_text(encoding="utf-8")
    assert len(re.findall(r"<!-- begin .+? -->", text)) == text.count("<!-- end -->")


def test_every_file_that_the_readme_names_exists(root: Path) -> None:
    text = (root / "README.md").read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    assert [link for link in links if not (root / link).exists()] == []


def test_every_make_target_that_the_readme_names_exists(root: Path) -> None:
    targets = re.findall(r"^([a-z]+):", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    named = re.findall(
        r"`make ([a-z]+)`|^make ([a-z]+)", (root / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert {a or b for a, b in named} <= set(targets)
