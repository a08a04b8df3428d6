"""Real traces: hardly any of the time without compute has no reason, and where more has none it is known why."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def corpus_ledgers(root: Path) -> ModuleType:
    """The script that writes the table."""
    spec = importlib.util.spec_from_file_location("corpus_ledgers", root / "docs" / "corpus_ledgers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its dataclasses look for their types
    spec.loader.exec_module(module)
    return module


@pytest.mark.check
def test_the_table_is_up_to_date_and_larger_shares_are_explained(
    corpus: Path, corpus_ledgers: ModuleType, root: Path, store_of: Callable[[Path], Path]
) -> None:
    found = corpus_ledgers.ledgers(corpus, store_of)
    open_ones = [
        ledger.trace
        for ledger in found
        if ledger.unresolved_share >= corpus_ledgers.MOST_UNRESOLVED_SHARE and ledger.explanation is None
    ]
    assert open_ones == []
    assert corpus_ledgers.table(found) in (root / "docs" / "attribution.md").read_text(encoding="utf-8")


def test_every_file_that_the_page_names_exists(root: Path) -> None:
    text = (root / "docs" / "attribution.md").read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    assert [link for link in links if not (root / "docs" / link).exists()] == []


def test_no_row_of_the_table_is_unexplained(root: Path, corpus_ledgers: ModuleType) -> None:
    text = (root / "docs" / "attribution.md").read_text(encoding="utf-8")
    assert "not explained yet" not in text
    assert all(f". {note[:1].upper()}{note[1:]}." in text for note in set(corpus_ledgers.EXPLANATIONS.values()))
