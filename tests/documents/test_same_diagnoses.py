"""`tests/support/same_diagnoses.py`, run as it says: numbers and states count, prose and renamed words do not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from conftest import ROOT

SCRIPT = ROOT / "tests" / "support" / "same_diagnoses.py"


def diagnosis(folder: Path, cause: str = "dev.comm_skew", saving_ns: int = 5, why: str = "Because.") -> Path:
    folder.mkdir()
    finding = {"cause": cause, "saving_ns": saving_ns, "why": why}
    (folder / "run.json").write_text(json.dumps({"findings": [finding]}))
    return folder


def compared(old: Path, new: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), "compare", str(old), str(new)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={})


def test_diagnoses_are_those_of_the_version_that_is_named(tmp_path: Path) -> None:
    for part in ("kineto", "nsys", "more"):
        (tmp_path / "corpus" / part).mkdir(parents=True)
    (tmp_path / "corpus" / "kineto" / "run").mkdir()
    version = tmp_path / "version" / "traceanalyzer"
    version.mkdir(parents=True)
    (version / "__init__.py").touch()
    (version / "__main__.py").write_text("print('of this version')")
    environment = {"PYTHONPATH": str(version.parent), "TRACEANALYZER_CORPUS": str(tmp_path / "corpus")}
    command = [sys.executable, str(SCRIPT), "write", str(tmp_path / "new")]
    subprocess.run(command, check=True, capture_output=True, env=environment, cwd=ROOT)
    assert (tmp_path / "new" / "run.json").read_text() == "of this version\n"


def test_renamed_words_and_prose_are_the_same_diagnosis(tmp_path: Path) -> None:
    old = diagnosis(tmp_path / "old")
    new = diagnosis(tmp_path / "new", cause="dev.straggler_wait", why="As the ranks differ.")
    answer = compared(old, new)
    assert answer.returncode == 0, answer.stderr
    assert "1 of 1 are the same" in answer.stdout


def test_another_number_is_a_difference(tmp_path: Path) -> None:
    answer = compared(diagnosis(tmp_path / "old"), diagnosis(tmp_path / "new", saving_ns=6))
    assert answer.returncode == 1, answer.stderr
    assert "findings[0].saving_ns: 5 -> 6" in answer.stdout


def test_a_diagnosis_that_is_gone_is_a_difference(tmp_path: Path) -> None:
    old, new = diagnosis(tmp_path / "old"), tmp_path / "new"
    new.mkdir()
    assert compared(old, new).returncode == 1
