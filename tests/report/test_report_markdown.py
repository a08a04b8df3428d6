"""The Markdown report: it says what the terminal says, and shows names and code as they are."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from report_diagnoses import healthy, loader_finding, many_ranks, sick, without_gpu

from traceanalyzer.diagnosis import Diagnosis, Evidence, Fix
from traceanalyzer.report import formats
from traceanalyzer.report.renderers.markdown import escaped

GOLDEN = Path(__file__).parents[1] / "golden"


def report(diagnosis: Diagnosis, *, verbose: bool = False) -> str:
    stream = io.StringIO()
    formats.write_diagnosis(diagnosis, "markdown", stream, verbose=verbose)
    return stream.getvalue()


def test_report_reads_as_approved(golden: bool) -> None:
    path = GOLDEN / "report_sick_markdown.txt"
    if golden:
        path.write_text(report(sick()), encoding="utf-8")
    assert report(sick()) == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("diagnosis", [sick(), many_ranks()])
def test_every_findings_code_stands_in_it_verbatim(diagnosis: Diagnosis) -> None:
    for finding in diagnosis.findings:
        for fix in finding.fixes:
            if fix.code:
                assert f"```{fix.lang}\n{fix.code}\n```" in report(diagnosis, verbose=True)
    first = diagnosis.findings[-1].fixes[0]
    assert f"```{first.lang}\n{first.code}\n```" in report(diagnosis)


def test_code_with_backticks_is_fenced_by_more_of_them() -> None:
    code = 'print("""\n```\nquoted\n````\n""")'
    text = report(sick(findings=(loader_finding(fixes=(Fix("Do.", code),)),)))
    assert f"`````python\n{code}\n`````" in text


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("void f<int>(a|b)", "void f&lt;int&gt;(a\\|b)"),
        ("__init__ *args `x` [l](u)", "\\_\\_init\\_\\_ \\*args \\`x\\` \\[l\\](u)"),
        ("<!-- <script>alert(1)</script>", "&lt;!-- &lt;script&gt;alert(1)&lt;/script&gt;"),
        ("&lt;", "&amp;lt;"),
        ("- item", "\\- item"),
        ("1. item", "1\\. item"),
        ("1.07 ms", "1.07 ms"),
        ("a\nb", "a b"),
    ],
)
def test_text_is_no_markup(name: str, shown: str) -> None:
    assert escaped(name) == shown


def test_a_name_with_a_pipe_stays_in_its_cell() -> None:
    evidence = Evidence("Kernels", ("name", "calls"), (("a|b\nc", 1),))
    text = report(sick(findings=(loader_finding(evidence=(evidence,)),)))
    assert "| a\\|b c | 1 |" in text


@pytest.mark.parametrize("diagnosis", [sick(), healthy(), many_ranks(), without_gpu()])
def test_every_row_of_a_table_has_as_many_cells_as_its_header(diagnosis: Diagnosis) -> None:
    tables = re.findall(r"(?:^\|.*\n)+", report(diagnosis, verbose=True), re.MULTILINE)
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1, table
