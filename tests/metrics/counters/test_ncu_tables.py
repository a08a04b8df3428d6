"""Tables of Nsight Compute: values are read as printed, in any layout, unit and language, and losses are counted."""

from __future__ import annotations

import csv
import gzip
import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from corpus_metrics import EXPECTED, expected
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest import IngestOptions
from traceanalyzer.ingest.ncu import NcuIngester
from traceanalyzer.ingest.ncu.pages import base_unit, quantity
from traceanalyzer.schema import run_tables

NAME = "ncu_sm100_cublaslt"
HEADER = (
    '"ID","Process ID","Kernel Name","Block Size","Grid Size","CC",'
    '"Section Name","Metric Name","Metric Unit","Metric Value"'
)


def line(metric: str, unit: str, value: str, launch: object = 0, name: str = "k") -> str:
    return f'"{launch}","7","{name}","(128, 1, 1)","(9, 2, 1)","9.0","S","{metric}","{unit}","{value}"'


def read(content: str | bytes, folder: Path, max_values: int | None = None) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of a table's four tables, by their names."""
    path = folder / "report.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    ingester = NcuIngester() if max_values is None else NcuIngester(max_values)
    ingester.ingest(path, folder, IngestOptions())
    tables = {f.stem: pq.ParquetFile(f).read().to_pylist() for f in (folder / "ncu").glob("*.parquet")}
    return {name: tables.get(name, []) for name in run_tables()}


def counts(tables: dict[str, list[dict[str, Any]]]) -> tuple[int, int, int]:
    """Return how many values are there, and how many lines and values were lost."""
    (file,) = tables["ncu_files"]
    return file["value_count"], file["lost_line_count"], file["lost_value_count"]


def real(tmp_path: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of a table that Nsight Compute wrote on a B200."""
    path = EXPECTED.parent / "inputs" / f"{NAME}.csv"
    if not path.is_file():
        pytest.skip(f"no table at {path}")
    return read(path.read_bytes(), tmp_path)


@pytest.mark.check
def test_a_real_table_of_ragged_rows_is_read_to_the_last_digit(tmp_path: Path) -> None:
    tables = real(tmp_path)
    wanted = expected("ncu", NAME)
    found = {f"{r['launch']}|{r['section']}|{r['metric']}|{r['unit'] or ''}": r["text"] for r in tables["ncu_metrics"]}
    assert found == wanted["values"]
    (launch,) = tables["ncu_launches"]
    kernel = wanted["kernels"]["0"]
    assert launch["name"] == kernel["name"]
    assert f"({launch['grid_x']}, {launch['grid_y']}, {launch['grid_z']})" == kernel["grid"]
    assert f"({launch['block_x']}, {launch['block_y']}, {launch['block_z']})" == kernel["block"]
    assert f"{launch['compute_major']}.{launch['compute_minor']}" == kernel["cc"]
    rules = [[r["rule"], r["type"], r["speedup_type"] or "", r["speedup_percent"]] for r in tables["ncu_rules"]]
    assert rules == [[*words, float(number) if number else None] for *words, number in wanted["rules"]]
    assert counts(tables) == (wanted["metrics"], wanted["neither"], 0)
    # Rows of 16 fields are values, those of all 20 are rules.
    widths = {"16": len(tables["ncu_metrics"]), str(wanted["columns"]): len(tables["ncu_rules"])}
    assert widths == wanted["row_widths"]


def test_mangled_names_tell_their_function(tmp_path: Path) -> None:
    names = ("_ZN2at6native12_GLOBAL__N_16kernelILi4E1fIfEEEviT0_", "_Z1kPf", "void k<4>(float*)", "_triton")
    tables = read("\n".join([HEADER, *(line("a", "ns", "1", i, name) for i, name in enumerate(names))]), tmp_path)
    functions = [(row["name"], row["function_name"]) for row in tables["ncu_launches"]]
    assert functions == list(zip(names, ("kernel", "k", None, None), strict=True))


def test_rows_below_a_header_whose_quotes_do_not_close_are_lost_and_counted(tmp_path: Path) -> None:
    broken = HEADER.replace('"ID"', '"ID', 1)
    tables = read("\n".join([broken, line("a", "ns", "1"), HEADER, line("b", "ns", "2")]), tmp_path)
    assert [row["metric"] for row in tables["ncu_metrics"]] == ["b"]
    assert counts(tables) == (1, 2, 0)


@pytest.mark.check
def test_the_numbers_of_a_real_table_are_the_printed_ones(tmp_path: Path) -> None:
    tables = real(tmp_path)
    for row in tables["ncu_metrics"]:
        is_text = row["text"] in ("PolicySpread", "CachePreferNone", "all")
        assert row["value"] == (None if is_text else float(row["text"]))
        assert row["whole"] == (int(row["text"]) if row["text"].isdecimal() else None)


def test_a_raw_page_has_a_line_of_units_and_one_for_each_launch(tmp_path: Path) -> None:
    tables = read(
        '"ID","Process ID","Kernel Name","Block Size","Grid Size","CC","dram__bytes.sum","gpu__time_duration.sum"\n'
        '"","","","","","","Mbyte","us"\n'
        '"0","7","a","(128, 1, 1)","(9, 2, 1)","9.0","1.25","3.20"\n'
        '"1","7","b","(64, 1, 1)","(1, 1, 1)","9.0","n/a",""\n',
        tmp_path,
    )
    values = [(r["launch"], r["metric"], r["text"], r["whole"], r["base_unit"]) for r in tables["ncu_metrics"]]
    assert values == [
        (0, "dram__bytes.sum", "1.25", 1_250_000, "byte"),
        (0, "gpu__time_duration.sum", "3.20", 3_200, "ns"),
        (1, "dram__bytes.sum", "n/a", None, "byte"),
    ]
    assert tables["ncu_files"][0]["layout"] == "raw"
    assert counts(tables) == (3, 0, 0)


@pytest.mark.parametrize(
    ("text", "unit", "value", "whole", "base"),
    [
        ("1,410,000,000.50", "hz", 1410000000.5, None, "hz"),
        ("1'410’000.5", "hz", 1410000.5, None, "hz"),
        ("14,10,000.5", "hz", 1410000.5, None, "hz"),
        ("1.41", "Ghz", 1.41e9, 1_410_000_000, "hz"),
        ("1.41", "cycle/nsecond", 1.41e9, 1_410_000_000, "hz"),
        ("3.35", "Tbyte/second", 3.35e12, 3_350_000_000_000, "byte/s"),
        ("16.38", "Kbyte/block", 16380.0, 16_380, "byte/block"),
        ("406.24", "usecond", 406240.0, 406_240, "ns"),
        ("2.5", "byte", 2.5, 2, "byte"),
        ("5.00 (1; 2; 2)", "inst", 5.0, 5, "inst"),
        ("1e3", "", 1000.0, 1000, None),
        ("PolicySpread", "", None, None, None),
        ("n/a", "%", None, None, "%"),
    ],
)
def test_numbers_come_in_units_without_prefixes(
    text: str, unit: str, value: float | None, whole: int | None, base: str | None
) -> None:
    found = quantity(text, unit)
    assert (found.value, found.whole, found.base_unit, found.is_lost) == (value, whole, base, False)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("9" * 5000, "byte"),
        ("1e400", "byte"),
        ("9223372036854775808", "byte"),
        ("1e18", "Gbyte"),
        ("-1", "ns"),
        ("-0.5", "%"),
        ("inf", "hz"),
        ("nan", "hz"),
        ("1,23,4", ""),
        ("1.2.3", ""),
    ],
)
def test_numbers_that_cannot_be_are_lost_and_counted(text: str, unit: str, tmp_path: Path) -> None:
    tables = read("\n".join((HEADER, line("before", "", "1"), line("x", unit, text), line("after", "", "2"))), tmp_path)
    assert [(row["metric"], row["value"]) for row in tables["ncu_metrics"]] == [
        ("before", 1),
        ("x", None),
        ("after", 2),
    ]
    assert counts(tables) == (3, 0, 1)
    assert tables["ncu_files"][0]["example"] == f"x: {text}"[:200]


def test_a_decimal_comma_holds_for_the_whole_file(tmp_path: Path) -> None:
    lines = (HEADER, line("a", "ns", "1.234"), line("b", "%", "9,05"), line("c", "hz", "1.410.000,5"))
    tables = read("\n".join(lines), tmp_path)
    assert [row["value"] for row in tables["ncu_metrics"]] == [1234, 9.05, 1410000.5]


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_a_table_that_powershell_wrote_is_read(codec: str, tmp_path: Path) -> None:
    page = "\r\n".join(("\ufeff==PROF== Connected", HEADER, line("a", "%", "9,05"), line("name", "", "µ")))
    content = page.encode(codec)
    assert NcuIngester().sniff(content, tmp_path / "x")
    values = [(row["value"], row["text"]) for row in read(content, tmp_path)["ncu_metrics"]]
    assert values == [(9.05, "9,05"), (None, "µ")]


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@pytest.mark.parametrize("separator", [";", "\t"])
def test_a_table_that_a_spreadsheet_of_another_language_wrote_is_read(
    separator: str, quoting: Any, tmp_path: Path
) -> None:
    rows = csv.reader([HEADER, line("a", "ns", "9,00"), line("b", "ns", "1.410,5"), line("c", "%", "12", launch=1)])
    text = io.StringIO()
    csv.writer(text, delimiter=separator, quoting=quoting).writerows(rows)
    assert NcuIngester().sniff(text.getvalue().encode(), tmp_path / "x")
    found = read(f"==PROF== Connected; ok\n{text.getvalue()}", tmp_path)
    assert [(row["metric"], row["value"]) for row in found["ncu_metrics"]] == [("a", 9), ("b", 1410.5), ("c", 12)]
    assert counts(found) == (3, 0, 0)


def test_what_the_program_prints_between_rows_is_no_row(tmp_path: Path) -> None:
    text = "\n".join(
        (
            "==PROF== Connected",
            "12, 13",
            '"ID" of the job: 5',
            HEADER,
            line("a", "", "1"),
            "loss, 0.5",
            "7, 8, 9",
            line("b", "", "2"),
        )
    )
    assert counts(read(text, tmp_path)) == (2, 0, 0)


def test_text_may_have_line_breaks_commas_and_quotes(tmp_path: Path) -> None:
    name = 'f(char const*, ""x""\nint)'
    tables = read("\n".join((HEADER, line("a", "", "1", name=name), line("b", "", "2", launch=1))), tmp_path)
    assert [row["name"] for row in tables["ncu_launches"]] == ['f(char const*, "x"\nint)', "k"]


def test_a_row_that_is_cut_costs_itself(tmp_path: Path) -> None:
    text = "\n".join((HEADER, line("a", "", "1"), '"1","7","cut off', line("b", "", "2", launch=2), '"3","7",""'))
    tables = read(text, tmp_path)
    assert [row["metric"] for row in tables["ncu_metrics"]] == ["a", "b"]
    assert counts(tables) == (2, 2, 0)


def test_launches_of_two_programs_stay_apart(tmp_path: Path) -> None:
    text = "\n".join((HEADER, line("a", "", "1"), HEADER, line("a", "", "2")))
    tables = read(text, tmp_path)
    assert [(row["launch"], row["value"]) for row in tables["ncu_metrics"]] == [(0, 1), (1, 2)]


def test_a_compressed_table_that_ends_early_is_read_so_far(tmp_path: Path) -> None:
    whole = "\n".join((HEADER, *(line(f"m{i}", "", str(i * 7919 % 100_003)) for i in range(5_000))))
    packed = gzip.compress(whole.encode())
    tables = read(packed[: len(packed) // 2], tmp_path)
    assert tables["ncu_files"][0]["truncated"]
    assert 0 < counts(tables)[0] < 5_000


def test_more_values_than_the_limit_are_not_read_and_it_is_said(tmp_path: Path) -> None:
    tables = read("\n".join((HEADER, *(line(f"m{i}", "", "1") for i in range(5)))), tmp_path, max_values=3)
    assert tables["ncu_files"][0]["truncated"]
    assert counts(tables) == (3, 0, 0)


def test_an_endless_line_costs_itself(tmp_path: Path) -> None:
    text = "\n".join((HEADER, line("a", "", "1"), '"1",' + "x" * (9 * 2**20), line("b", "", "2")))
    assert counts(read(text, tmp_path)) == (2, 1, 0)


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", HEADER, HEADER + "\nnothing"])
def test_a_file_without_a_launch_is_an_error_with_the_command(text: str, tmp_path: Path) -> None:
    with pytest.raises(TraceAnalyzerError, match="no table of Nsight Compute") as caught:
        read(text, tmp_path)
    assert "--csv --page raw" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("head", "is_table"),
    [
        (HEADER, True),
        ("==PROF== Connected\n" + HEADER, True),
        ('"ID","Kernel Name","dram__bytes.sum"', True),
        ("ID,Kernel Name,Metric Name,Metric Value", True),
        ("ID,name,salary\n1,Kernel Name,5", False),
        ('{"traceEvents": [{"name": "ID"}]}', False),
        ("job/report.csv\0\0\0\n" + HEADER, False),
    ],
)
def test_tables_are_told_by_their_header(head: str, is_table: bool, tmp_path: Path) -> None:
    assert NcuIngester().sniff(head.encode(), tmp_path / "x") == is_table


@given(number=st.decimals(min_value=0, max_value=10**6, places=2), unit=st.sampled_from(["ns", "us", "ms", "second"]))
@examples()
def test_times_are_exact_whole_nanoseconds(number: Decimal, unit: str) -> None:
    power = base_unit(unit)[1]
    assert quantity(f"{number:,}", unit).whole == int((number * 10**power).to_integral_value())


@given(text=st.text(st.sampled_from('0",\n()a- .'), max_size=300))
@examples()
def test_no_text_behind_a_header_is_an_error_or_hides_the_next_row(
    text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("ncu")
    tables = read("\n".join((HEADER, line("before", "", "1"), text, line("after", "", "2", launch=5))), folder)
    metrics = [row["metric"] for row in tables["ncu_metrics"]]
    assert metrics[0] == "before"
    assert metrics[-1] == "after"
