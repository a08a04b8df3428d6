"""Formats of a diagnosis: renderers know blocks alone, and nothing heavy is imported before a format is asked for."""

from __future__ import annotations

import ast
import io
import subprocess
import sys
from pathlib import Path

import pytest
from report_diagnoses import sick

from traceanalyzer.cli import main
from traceanalyzer.diagnosis import SEVERITIES
from traceanalyzer.report import formats
from traceanalyzer.report.renderers import terminal

# What a renderer may use of the program: blocks, other renderers, the frame of HTML, how text and numbers are written.
ALLOWED = ("blocks", "code_lines", "html", "renderers", "visible", "words")


def test_renderers_know_nothing_of_diagnoses(root: Path) -> None:
    for file in (root / "traceanalyzer" / "report" / "renderers").glob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        modules = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
        ours = [module for module in modules if module.startswith("traceanalyzer")]
        assert all(module.split(".")[1:3][-1] in ALLOWED for module in ours), (file.name, ours)


def test_every_role_has_a_style() -> None:
    roles = {"plain", "strong", "dim", "label", "good", "caution", "bad"}
    assert roles | {*SEVERITIES} <= terminal.STYLES.keys()


@pytest.mark.parametrize("format_", formats.DIAGNOSIS_FORMATS)
def test_every_format_can_be_asked_for_and_is_deterministic(format_: str) -> None:
    texts = []
    for _ in range(2):
        stream = io.StringIO()
        formats.write_diagnosis(sick(), format_, stream)
        texts.append(stream.getvalue())
    assert texts[0] == texts[1] != ""


def test_help_names_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", "--help"]) == 0
    assert f"[{'|'.join(formats.DIAGNOSIS_FORMATS)}]" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["diagnose"], []])
def test_help_imports_nothing_heavy(command: list[str]) -> None:
    check = f"import sys; from traceanalyzer.cli import main; main({[*command, '--help']}); "
    check += "print([name for name in ('rich', 'duckdb', 'pyarrow', 'numpy', 'jinja2') if name in sys.modules])"
    out = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True).stdout
    assert out.endswith("[]\n")
