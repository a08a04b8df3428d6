"""Names that steer, forge, calculate or hold a secret: no file that an export writes has them raw."""

from __future__ import annotations

import gzip
import html
import json
import zipfile
from pathlib import Path

import pytest
from test_hostile_sweep import RAW, SECRET, quoted, run_folder  # noqa: F401
from tiers import needed

from traceanalyzer.cli import main

EXPORTS = {
    "folded": ["export", "folded"],
    "folded by GPU": ["export", "folded", "--weight", "gpu"],
    "speedscope": ["export", "speedscope"],
    "perfetto": ["export", "perfetto", "--from-tables", "--rank", "1"],
    "junit": ["diagnose", "--format", "junit"],
    "sarif": ["diagnose", "--format", "sarif"],
    "markdown": ["diagnose", "--format", "markdown", "-v"],
    "JSON": ["diagnose", "--format", "json"],
    "HTML": ["diagnose", "--format", "html", "-v"],
    "tables as JSON": ["sql", "--format", "json"],
}
QUERY = "SELECT name, raw_category FROM host_slices UNION ALL SELECT name, kind FROM gpu_ops"
FORMULAS = ("=1+1", "+1", "-1+1", "@SUM(1)", "\t=1+1", "\r=1+1", '=HYPERLINK("http://x")', 'DDE("cmd")')


@pytest.mark.check
@pytest.mark.parametrize("export", EXPORTS)
def test_no_export_has_a_text_raw(run_folder: Path, tmp_path: Path, export: str) -> None:  # noqa: F811
    file = tmp_path / "out.json"
    command = [*EXPORTS[export], str(run_folder), "-o", str(file), *([QUERY] if "tables" in export else [])]
    assert main(command) in (0, 3)
    text = file.read_text(encoding="utf-8")
    assert len(text) > 100
    found = RAW.search(text)
    assert found is None, repr(text[max(0, found.start() - 200) :][:400])
    assert SECRET not in text and SECRET not in html.unescape(text)
    assert not any(line.startswith("error: forged") for line in text.splitlines())


@pytest.mark.check
def test_csv_is_exact_in_a_file_and_harmless_on_a_terminal(
    run_folder: Path,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pivot = "PIVOT (SELECT DISTINCT name FROM host_slices) ON name USING count(*)"
    file = tmp_path / "out.csv"
    for query in (QUERY, pivot):
        assert main(["sql", str(run_folder), query, "--format", "csv", "-o", str(file)]) == 0
        assert "\x1b[31m" in file.read_text() and SECRET not in file.read_text()
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        assert main(["sql", str(run_folder), query, "--format", "csv"]) == 0
        shown = capsys.readouterr().out
        assert "ProfilerStep#0" in shown
        assert RAW.search(shown) is None and SECRET not in shown


@pytest.mark.check
def test_tracks_of_ours_beside_a_traces_bytes_hold_no_secret(run_folder: Path, tmp_path: Path) -> None:  # noqa: F811
    file = tmp_path / "out.json.gz"
    assert main(["export", "perfetto", str(run_folder), "--rank", "0", "-o", str(file)]) == 0
    with gzip.open(file, "rt", encoding="utf-8") as stream:
        events = json.load(stream)["traceEvents"]
    own = [event for event in events if event.get("pid", 0) != 0 and str(event["pid"]).startswith("2000000")]
    assert len(own) > 2
    assert SECRET not in json.dumps(own)


@pytest.mark.check
def test_a_spreadsheet_has_texts_masked_and_no_formula(run_folder: Path, tmp_path: Path) -> None:  # noqa: F811
    needed("xlsxwriter")
    file = tmp_path / "out.xlsx"
    assert main(["export", "xlsx", str(run_folder), "-o", str(file)]) == 0
    with zipfile.ZipFile(file) as book:
        parts = {name: book.read(name).decode("utf-8") for name in book.namelist()}
    for name, text in parts.items():
        assert RAW.search(text.replace("\r", "")) is None, name
        assert SECRET not in html.unescape(text), name
        assert "<f>" not in text and "<hyperlink" not in text, name


@pytest.mark.check
def test_names_that_begin_as_formulas_are_texts_of_a_spreadsheet(tmp_path: Path) -> None:
    openpyxl = needed("openpyxl")
    args = '{"device": 0, "stream": 7, "correlation": 1}'
    kernels = [
        f'{{"ph": "X", "cat": "kernel", "name": {quoted(name)}, "pid": 0, "tid": 7, "ts": {10 * at}, "dur": 5, '
        f'"args": {args}}}'
        for at, name in enumerate(FORMULAS)
    ]
    (tmp_path / "=cmd.json").write_text(f'{{"schemaVersion": 1, "traceEvents": [{",".join(kernels)}]}}')
    file = tmp_path / "out.xlsx"
    assert main(["export", "xlsx", str(tmp_path / "=cmd.json"), "-o", str(file)]) == 0
    cells = [cell for sheet in openpyxl.load_workbook(file) for row in sheet.iter_rows() for cell in row]
    assert {cell.data_type for cell in cells} <= {"s", "n", "b"}
    assert {"=1+1", "@SUM(1)"} <= {cell.value for cell in cells}


@pytest.mark.check
def test_characters_that_no_xml_may_hold_cost_no_spreadsheet(tmp_path: Path) -> None:
    openpyxl = needed("openpyxl")
    args = '{"device": 0, "stream": 7, "correlation": 1}'
    kernel = f'{{"ph": "X", "cat": "kernel", "name": "a\ufffe\uffff\x00b", "ts": 1, "dur": 5, "args": {args}}}'
    (tmp_path / "rank0.json").write_text(f'{{"schemaVersion": 1, "traceEvents": [{kernel}]}}')
    file = tmp_path / "out.xlsx"
    assert main(["export", "xlsx", str(tmp_path / "rank0.json"), "-o", str(file)]) == 0
    cells = [cell.value for sheet in openpyxl.load_workbook(file) for row in sheet.iter_rows() for cell in row]
    assert any(str(value).startswith("a") and str(value).endswith("\\x00b") for value in cells)
