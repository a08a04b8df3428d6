"""Python and notebooks: what there is can be found, tables come in every form, mistakes are told as on a terminal."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from html_pages import parsed
from report_diagnoses import loader_finding, many_ranks, sick, without_gpu

import traceanalyzer as ta
from traceanalyzer.diagnosis import Diagnosis, Evidence
from traceanalyzer.report import formats


@pytest.fixture(scope="module")
def run(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ta.Run]:
    """A sample run, open."""
    with ta.open(root / "sample_traces" / "slow_loader", store=tmp_path_factory.mktemp("notebook") / "store") as opened:
        yield opened


@pytest.fixture(scope="module")
def diagnosis(run: ta.Run) -> Diagnosis:
    """Its diagnosis."""
    return run.diagnose()


def test_dir_names_what_there_is() -> None:
    assert {"open", "Run", "Diagnosis", "TraceAnalyzerError", "charts"} <= set(dir(ta))
    assert all(getattr(ta, name) is not None for name in dir(ta))


@pytest.mark.parametrize("shown", [sick(), many_ranks(), without_gpu()])
def test_diagnosis_in_a_notebook_is_small_has_no_script_and_reads_as_on_a_terminal(shown: Diagnosis) -> None:
    text = shown._repr_html_()
    tree = parsed(f"<!doctype html><title>x</title>{text}")
    assert len(text.encode()) < 60_000
    assert {element.tag for element in tree.iter()}.isdisjoint({"script", "style", "link"})
    stream = io.StringIO()
    formats.write_diagnosis(shown, "terminal", stream)
    assert str(shown) == stream.getvalue()


def test_what_stands_in_backticks_is_code_in_a_notebook() -> None:
    (finding,) = sick().findings[:1]
    fixes = (replace(finding.fixes[0], text="`if tensor:` waits."),)
    shown = replace(sick(), findings=(replace(finding, fixes=fixes),))._repr_html_()
    assert "<code>if tensor:</code> waits." in shown


def test_the_text_of_a_diagnosis_is_the_same_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = str(sick())
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert str(sick()) == elsewhere


def test_a_notebook_shows_the_evidence_of_the_first_findings_as_a_terminal_does() -> None:
    shown = sick(findings=(loader_finding(evidence=(Evidence("Longest waits", ("ms",), ((2.0,),)),)),))
    assert "Longest waits" in str(shown) and "Longest waits" in shown._repr_html_()


@pytest.mark.check
def test_tables_of_a_diagnosis_hold_what_it_says(diagnosis: Diagnosis) -> None:
    findings = diagnosis.table("findings").to_pylist()
    assert [(row["rule"], row["saving_ns"]) for row in findings] == [(f.rule, f.saving_ns) for f in diagnosis.findings]
    assert sum(row["dur_ns"] for row in diagnosis.table("ledger").to_pylist()) == diagnosis.ledgers[0].window_ns
    assert diagnosis.table("fixes").num_rows == len(diagnosis.plans[0].fixes)
    assert set(diagnosis.table("evidence").column("rule").to_pylist()) <= {f.rule for f in diagnosis.findings}
    with pytest.raises(ta.TraceAnalyzerError, match="no table 'finding'") as error:
        diagnosis.table("finding")
    assert "findings" in (error.value.hint or "")


@pytest.mark.check
def test_table_of_a_run_comes_as_arrow_and_pandas(run: ta.Run) -> None:
    table = run.table("kernel_summary")
    assert table.arrow().num_rows == len(table.df()) == len(table) > 0
    assert table.columns == table.arrow().column_names
    html = table._repr_html_()
    assert "<td" in html and "script" not in html
    assert str(run.root) in repr(run) and "rank0" in run._repr_html_()


@pytest.mark.check
def test_polars_is_asked_for_where_it_is_not_installed(run: ta.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ta.TraceAnalyzerError, match="polars is not installed") as error:
        run.table("kernel_summary").pl()
    assert "pip install polars" in (error.value.hint or "")


@pytest.mark.check
def test_mistakes_are_errors_with_hints(run: ta.Run) -> None:
    with pytest.raises(ta.TraceAnalyzerError) as error:
        run.table("kernel_sumary")
    assert error.value.hint == "did you mean 'kernel_summary'?"
    with pytest.raises(ta.TraceAnalyzerError) as error:
        run.sql("SELECT op_idd FROM gpu_ops")
    assert "op_id" in (error.value.hint or "") and "op_idd" in str(error.value)
    with pytest.raises(ta.TraceAnalyzerError, match=r"no cause is called 'host\.dataloder'"):
        run.whatif("host.dataloder")
    with pytest.raises(ta.TraceAnalyzerError, match="no change was given"):
        run.whatif()


@pytest.mark.check
def test_what_if_in_python_answers_as_the_command(run: ta.Run) -> None:
    without = run.whatif("host.dataloader").devices[0].saved_ns
    both = run.whatif("host.dataloader", faster={"gemm": 2}).devices[0].saved_ns
    assert without is not None and both is not None and 0 < without < both


def test_an_answer_to_what_if_shows_in_a_notebook(run: ta.Run) -> None:
    answer = run.whatif("host.dataloader")
    html = answer._repr_html_()
    assert html.startswith('<div class="traceanalyzer"') and "script" not in html
    for text in (html, repr(answer)):
        assert "what if host.dataloader cost nothing?" in text and "slow_loader" in text
    assert "<table>" in html and "−60.0 %" in html and "−60.0 %" in repr(answer)


@pytest.mark.check
def test_charts_of_a_run_are_svg(run: ta.Run, diagnosis: Diagnosis) -> None:
    for svg in (ta.charts.ledger(diagnosis), ta.charts.waterfall(diagnosis), ta.charts.steps(run)):
        assert ElementTree.fromstring(svg).tag.endswith("svg")
        assert svg._repr_svg_() == svg
    with pytest.raises(ta.TraceAnalyzerError, match="two ranks"):
        ta.charts.heat_map(run)
    with pytest.raises(ta.TraceAnalyzerError, match="no time ledger"):
        ta.charts.ledger(without_gpu())
