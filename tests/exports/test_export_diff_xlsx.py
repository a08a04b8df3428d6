"""The spreadsheet of a comparison holds both sides of every row, their difference and their change."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from drawn_summaries import capture, finding
from tiers import needed

from traceanalyzer.cli import main
from traceanalyzer.comparison.comparing import Diff, compare
from traceanalyzer.comparison.summary import Summary, text_of
from traceanalyzer.exports.xlsx import write_diff_xlsx


def side(ms: float, loader_ms: float, kernels: dict[str, tuple[int, float]], shares: list[float]) -> list[Summary]:
    findings = [finding(title="=1+1", share=share) for share in shares]
    return [capture((ms, ms), waits_ms={"host.dataloader": loader_ms}, kernels=kernels, findings=findings)]


@pytest.fixture
def diff() -> Diff:
    return compare(
        side(100.0, 20.0, {"gemm": (20, 8.0), "old": (4, 1.0)}, [0.2]),
        side(90.0, 10.0, {"gemm": (20, 6.0), "=fresh()": (8, 0.5)}, []),
    )


def sheets(file: Path) -> dict[str, list[dict[str, Any]]]:
    book = needed("openpyxl").load_workbook(file)
    rows = {name: list(book[name].iter_rows(values_only=True)) for name in book.sheetnames}
    return {name: [dict(zip(head, row, strict=True)) for row in body] for name, (head, *body) in rows.items()}


@pytest.mark.check
def test_every_row_has_both_sides_their_difference_and_change(diff: Diff, tmp_path: Path) -> None:
    needed("xlsxwriter")
    with (tmp_path / "d.xlsx").open("wb") as target:
        write_diff_xlsx(diff, target)
    book = sheets(tmp_path / "d.xlsx")
    assert {row["bucket"]: row["time_ns__diff"] for row in book["ledger"]} == {
        row.bucket: row.delta_ns for row in diff.ledger
    }
    assert sum(row["time_ns__diff"] for row in book["ledger"]) == diff.delta_ns
    for name, difference in (("kernels", diff.kernels), ("operators", diff.operators)):
        assert [row["name"] for row in book[name]] == [row.name for row in difference.rows]
    kernels = {row["name"]: row for row in book["kernels"]}
    gemm = kernels["gemm"]
    assert (gemm["time_ns__base"], gemm["time_ns__new"], gemm["time_ns__diff"]) == (4_000_000, 3_000_000, -1_000_000)
    assert gemm["time_ns__pct"] == pytest.approx(-0.25)
    assert (kernels["old"]["state"], kernels["old"]["time_ns__pct"]) == ("removed", -1)
    assert (kernels["=fresh()"]["state"], kernels["=fresh()"]["time_ns__pct"]) == ("added", None)
    (found,) = book["findings"]
    assert (found["title"], found["saving_share__base"], found["saving_share__new"]) == ("=1+1", 0.2, None)
    summary = {row["what"]: row["value"] for row in book["summary"]}
    assert summary["verdict"] == diff.judgement.verdict and summary["difference, ns"] == diff.delta_ns
    assert summary["rows of kernels"] == 3


@pytest.mark.check
def test_the_command_writes_it_beside_another_format(diff: Diff, tmp_path: Path) -> None:
    needed("xlsxwriter")
    for name, captures in zip(("base", "new"), diff.sides, strict=True):
        (tmp_path / f"{name}.json").write_text(text_of(captures))
    base, new = str(tmp_path / "base.json"), str(tmp_path / "new.json")
    also = ["--also", f"xlsx={tmp_path / 'd.xlsx'}", "--format", "markdown", "-o", str(tmp_path / "d.md")]
    assert main(["diff", base, new, *also]) == 0
    assert {row["bucket"] for row in sheets(tmp_path / "d.xlsx")["ledger"]} == {row.bucket for row in diff.ledger}
    assert (tmp_path / "d.md").stat().st_size > 0


def test_without_the_extra_it_says_what_to_install_before_it_compares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "xlsxwriter", None)
    assert main(["diff", "nowhere", "nowhere", "--also", f"xlsx={tmp_path / 'd.xlsx'}"]) == 2
    assert "pip install 'gpu-traceanalyzer[xlsx]'" in capsys.readouterr().err
