"""Whoever installs traceanalyzer gets this project: its distribution has another name than its package."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

# What installs: pip, pipx, `uv pip`, `uv tool`, `uv add` and uvx, poetry, conda. A line may go on after a backslash.
_INSTALL = re.compile(
    r"\b(?:(?:pip[3x]?|conda|mamba|uv tool)(?:\s+-\S+)*\s+(?:install|run|inject|download)|(?:uv|poetry|pdm) add|uvx)\b"
    r"((?:\\\r?\n|[^\n`])*)"
)
_OTHER_PROJECT = re.compile(r"(?<![\w./-])traceanalyzer(?![\w/-])", re.IGNORECASE)
_WITH_EXTRA = re.compile(r"(?<![\w./-])traceanalyzer\[[a-z]", re.IGNORECASE)
_LEFT_OUT = {
    ".git",
    ".venv",
    "__pycache__",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    ".hypothesis",
    "build",
    "dist",
}
_TEXTS = {
    ".cff",
    ".cfg",
    ".html",
    ".ipynb",
    ".json",
    ".md",
    ".py",
    ".sh",
    ".toml",
    ".txt",
    ".yaml",
    ".yml",
    ".1",
    ".j2",
    "",
}


def others(text: str) -> list[str]:
    """Return what in a text installs another project under this one's name."""
    lines = (line for line in _INSTALL.findall(text) if _OTHER_PROJECT.search(line.split("&&")[0].split(";")[0]))
    return [*lines, *_WITH_EXTRA.findall(text)]


def texts(root: Path) -> Iterator[Path]:
    """Return every text of the repository but this test and what tools leave there."""
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in _LEFT_OUT]
        paths = (Path(folder, name) for name in names)
        yield from (path for path in paths if path.suffix in _TEXTS and path != Path(__file__))


def test_no_line_installs_the_other_project_of_this_name(root: Path) -> None:
    found = {
        str(path.relative_to(root)): wrong
        for path in texts(root)
        if path.is_file() and (wrong := others(path.read_text(encoding="utf-8", errors="replace")))
    }
    assert found == {}


@pytest.mark.parametrize(
    "line",
    [
        "pip install traceanalyzer",
        "pip install -U 'traceanalyzer[mcp]'",
        "python -m pip install --upgrade traceanalyzer==0.2",
        "uv add traceanalyzer",
        "uvx traceanalyzer diagnose run",
        "pipx install traceanalyzer",
        "pip install \\\n  traceanalyzer",
    ],
)
def test_a_line_that_installs_it_is_found(line: str) -> None:
    assert others(line)


@pytest.mark.parametrize(
    "line",
    ["pip install '.[mcp]'", "pip install 'gpu-traceanalyzer[mcp]'", "pip install . && traceanalyzer diagnose run"],
)
def test_a_line_that_installs_this_one_is_not(line: str) -> None:
    assert not others(line)


def test_the_extras_that_name_the_project_name_it_by_its_own_name(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == "gpu-traceanalyzer"
    extras = [need for needs in project["optional-dependencies"].values() for need in needs]
    assert [need for need in extras if need.startswith("traceanalyzer")] == []
