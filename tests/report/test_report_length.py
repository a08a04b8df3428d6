"""The report of a real trace with a few findings can be read on two screens; `-v` says more."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import corpus_path
from rich.cells import cell_len

from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.report import formats

WIDTH, LINES = 80, 100  # two screens of 80 x 50
FEW_FINDINGS = 4
# Which recordings of a rank there are, and in which of them each finding is worst.
OF_RECORDINGS = 8

# Relative to the corpus; none where it is absent.
INPUTS = sorted(
    str(path.relative_to(corpus_path()))
    for kind in ("kineto", "nsys", "more")
    for path in (corpus_path() / kind).glob("*")
    if path.suffix != ".md"
)


def report(diagnosis: Diagnosis, *, verbose: bool) -> str:
    stream = io.StringIO()
    formats.write_diagnosis(diagnosis, "terminal", stream, verbose=verbose)
    return stream.getvalue()


@pytest.mark.parametrize("name", INPUTS)
def test_a_report_with_few_findings_fits_two_screens(
    name: str, corpus: Path, diagnosis_of: Callable[[Path], Diagnosis], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    diagnosis = diagnosis_of(corpus / name)
    short, whole = report(diagnosis, verbose=False), report(diagnosis, verbose=True)
    if len({finding.rule for finding in diagnosis.findings if finding.kind != "quality"}) <= FEW_FINDINGS:
        # A terminal breaks what is wider than it.
        lines = LINES + (OF_RECORDINGS if diagnosis.recordings else 0)
        assert sum(max(1, -(-cell_len(line) // WIDTH)) for line in short.splitlines()) <= lines
    assert len(short.splitlines()) < len(whole.splitlines())
    for finding in diagnosis.findings:
        assert finding.rule in whole or finding.kind == "quality"
