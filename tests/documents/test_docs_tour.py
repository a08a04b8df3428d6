"""What README and tour tell a new user to type works as it is written there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from traceanalyzer.cli import main

DOCUMENTS = ("README.md", "docs/tour.md", "docs/recording.md", "docs/rule_tutorial.md")


def blocks(root: Path, language: str) -> list[str]:
    """Return the code blocks in a language, of the documents for new users."""
    text = "\n".join((root / name).read_text(encoding="utf-8") for name in DOCUMENTS)
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def rule(root: Path, tmp_path: Path) -> Path:
    """The tutorial's rule, saved under the name it says."""
    (text,) = blocks(root, "yaml")
    path = tmp_path / "long-gaps.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.check
def test_rule_of_the_tutorial_passes_lint_and_its_tests(rule: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "lint", str(rule)]) == 0, capsys.readouterr().out
    assert main(["rules", "test", str(rule)]) == 0, capsys.readouterr().out


@pytest.mark.check
def test_rule_of_the_tutorial_finds_something(
    rule: Path, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(root / "sample_traces" / "slow_loader")
    assert main(["diagnose", run, "--rules", str(rule), "--store", str(tmp_path / "store")]) == 0
    assert "long-gaps" in capsys.readouterr().out


@pytest.mark.check
def test_python_of_the_tour_runs(root: Path, tmp_path: Path) -> None:
    (code,) = (block for block in blocks(root, "python") if "sample_traces/slow_loader" in block)
    code = code.replace('sample_traces/slow_loader"', f'sample_traces/slow_loader", store={str(tmp_path)!r}')
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "dataloader-bound 0." in done.stdout


def test_options_that_documents_name_exist(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for line in "\n".join(blocks(root, "sh")).splitlines():
        words = line.split("|")[0].split()
        if words[:1] != ["traceanalyzer"]:
            continue
        command = words[1:3] if words[1] in ("baseline", "export", "metrics", "rules") else words[1:2]
        assert main([*command, "--help"]) == 0
        told = capsys.readouterr().out
        assert [word for word in words if word.startswith("--") and word not in told] == []


def test_the_two_commands_of_a_checkout_stand_at_the_top_of_the_readme(root: Path) -> None:
    first = blocks(root, "sh")[0].splitlines()
    assert [line.split("#")[0].split() for line in first] == [["make", "demo"], ["make", "test"]]
    assert (root / "README.md").read_text(encoding="utf-8").index("make demo") < 1000
