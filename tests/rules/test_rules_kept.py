"""The rules that ship are kept as data in the user's cache: equal to those of their files, and made anew with these."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from traceanalyzer.rules import builtin_folder
from traceanalyzer.rules.rule_file.model import Rule
from traceanalyzer.rules.rule_set import loading


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's cache, empty, for a copy of two rules."""
    rules = tmp_path / "rules"
    rules.mkdir()
    for file in sorted(builtin_folder().rglob("*.yaml"))[:2]:
        shutil.copy(file, rules)
    monkeypatch.setattr(loading, "builtin_folder", lambda: rules)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "traceanalyzer"


def _of_the_files(folder: Path) -> tuple[Rule, ...]:
    rules, mistakes = loading._parse([folder], tests=False)
    assert not mistakes
    return tuple(rules)


def test_kept_rules_are_those_of_the_files(cache: Path, tmp_path: Path) -> None:
    first, second = loading._kept_builtin(), loading._kept_builtin()
    assert first == second == _of_the_files(tmp_path / "rules")
    assert len(list(cache.iterdir())) == 1


def test_an_edited_rule_counts(cache: Path, tmp_path: Path) -> None:
    loading._kept_builtin()
    edited = sorted((tmp_path / "rules").iterdir())[0]
    edited.write_text(edited.read_text().replace("title: ", "title: Edited ", 1))
    found = loading._kept_builtin()
    assert found is not None
    assert sum(rule.title.startswith("Edited ") for rule in found) == 1


def test_a_damaged_file_is_done_without_and_made_again(cache: Path, tmp_path: Path) -> None:
    loading._kept_builtin()
    (kept,) = cache.iterdir()
    content = kept.read_bytes()
    kept.write_bytes(content[:-1] + b"?")
    assert loading._kept_builtin() is None
    assert loading._kept_builtin() == _of_the_files(tmp_path / "rules")
    assert kept.read_bytes() == content


def test_a_rule_with_mistakes_is_not_kept(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "rules" / "wrong.yaml").write_text("id: wrong\n")
    assert loading._kept_builtin() is None
    assert list(cache.iterdir()) == []


@pytest.mark.check
def test_all_rules_that_ship_are_kept_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert loading._kept_builtin() == _of_the_files(builtin_folder())
