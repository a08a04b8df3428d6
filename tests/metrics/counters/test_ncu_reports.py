"""Reports of Nsight Compute: through NVIDIA's reader to the same tables as a printed page, however the reader ends."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from test_ncu_runs import answer, run

from traceanalyzer.cli import main
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest import IngestOptions
from traceanalyzer.ingest.formats import ingesters
from traceanalyzer.ingest.ncu import NcuReportIngester
from traceanalyzer.schema import run_tables

__all__ = ["run"]
# A reader with one launch, as NVIDIA's answers: whole numbers as floats, and None for what was not measured.
READER = """
import os, types
MsgType_OK, MsgType_OPTIMIZATION, MsgType_WARNING, MsgType_ERR = 1, 2, 3, 4
SpeedupType_LOCAL, SpeedupType_GLOBAL = 1, 2
METRICS = {
    "launch__grid_dim_x": (9.0, ""), "launch__grid_dim_y": (2.0, ""), "launch__grid_dim_z": (1.0, ""),
    "launch__block_dim_x": (128.0, ""), "launch__block_dim_y": (1.0, ""), "launch__block_dim_z": (1.0, ""),
    "launch__context_id": (1.0, ""), "launch__stream_id": (7.0, ""),
    "device__attribute_display_name": ("GPU, a", ""),
    "device__attribute_compute_capability_major": (9, ""), "device__attribute_compute_capability_minor": (0, ""),
    "gpu__time_duration.sum": (3232.0, "ns"),
    "dram__bytes.sum": (2.5, "Mbyte"),
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": (75.0, "%"),
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": (20.0, "%"),
    "breakdown:sm__throughput": ("a,b", "%"),
    "nvlink__source_ports": (None, ""),
}
RULES = [
    {"rule_identifier": "Occupancy", "name": "O", "section_identifier": "Occupancy",
     "rule_message": {"message": "See the @url:Guide:https://x.org/a#b@ and @section:Id:Memory@.", "type": 2},
     "speedup_estimation": {"type": 2, "speedup": 12.5}},
    {"rule_identifier": "", "name": ""},
]


def metric(name):
    value, unit = METRICS[name]
    return types.SimpleNamespace(value=lambda: value, unit=lambda: unit)


def load_report(path):
    if "broken" in path:
        raise RuntimeError("no report")
    launch = types.SimpleNamespace(
        NameBase_DEMANGLED=0, name=lambda *base: "void gemm<4, true>(float *)", metric_names=lambda: tuple(METRICS),
        metric_by_name=metric, rule_results_as_dicts=lambda: os._exit(3) if "cut" in path else RULES,
    )
    launches = types.SimpleNamespace(num_actions=lambda: 1, action_by_idx=lambda place: launch)
    return types.SimpleNamespace(num_ranges=lambda: 0 if "empty" in path else 1, range_by_idx=lambda place: launches)
"""


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVIDIA's reader, in its place."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "ncu_report.py").write_text(READER)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder))


def read(path: Path, folder: Path) -> dict[str, list[dict[str, Any]]]:
    NcuReportIngester().ingest(path, folder, IngestOptions())
    tables = {file.stem: pq.ParquetFile(file).read().to_pylist() for file in (folder / "ncu").glob("*.parquet")}
    return {name: tables.get(name, []) for name in run_tables()}


def report(folder: Path, name: str = "k.ncu-rep") -> Path:
    path = folder / name
    path.write_bytes(b"NVR\0\2\0\0\0")
    return path


def test_a_report_has_the_tables_of_a_printed_page(reader: None, tmp_path: Path) -> None:
    tables = read(report(tmp_path), tmp_path)
    (launch,) = tables["ncu_launches"]
    sizes = [launch[f"{name}_{axis}"] for name in ("grid", "block") for axis in "xyz"]
    assert (launch["name"], launch["device_label"], launch["stream"]) == ("void gemm<4, true>(float *)", "GPU, a", 7)
    assert (sizes, launch["compute_major"], launch["compute_minor"]) == ([9, 2, 1, 128, 1, 1], 9, 0)
    values = {row["metric"]: (row["text"], row["whole"], row["base_unit"]) for row in tables["ncu_metrics"]}
    assert values["gpu__time_duration.sum"] == ("3232", 3232, "ns")
    assert values["dram__bytes.sum"] == ("2.5", 2_500_000, "byte")
    assert not values.keys() & {"nvlink__source_ports", "breakdown:sm__throughput"}
    (rule,) = tables["ncu_rules"]
    assert (rule["rule"], rule["type"], rule["speedup_type"], rule["speedup_percent"]) == (
        "Occupancy",
        "OPT",
        "global",
        12.5,
    )
    assert rule["description"] == "See the Guide and Memory."
    (file,) = tables["ncu_files"]
    assert (file["layout"], file["launch_count"], file["truncated"]) == ("report", 1, False)


def test_a_reader_that_dies_loses_what_it_had_not_printed(reader: None, tmp_path: Path) -> None:
    (file,) = read(report(tmp_path, "cut.ncu-rep"), tmp_path)["ncu_files"]
    assert (file["truncated"], file["rule_count"]) == (True, 0)


@pytest.mark.parametrize(("name", "words"), [("broken", "NVIDIA's reader cannot read"), ("empty", "or an empty one")])
def test_a_report_without_launches_is_an_error(reader: None, tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(TraceAnalyzerError, match=words):
        read(report(tmp_path, f"{name}.ncu-rep"), tmp_path)


def test_without_the_reader_no_report_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traceanalyzer.ingest.ncu.can_read_reports", lambda: False)
    path = report(tmp_path)
    assert not any(ingester.sniff(path.read_bytes(), path) for ingester in ingesters())


@pytest.mark.check
def test_a_report_beside_a_trace_or_with_ncu_is_joined(
    reader: None, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    joined = "SELECT tier, memory_percent, headroom_ns FROM ncu_join"
    away = report(tmp_path)
    assert answer(run, joined, ncu=away) == [("launch", 75, 10_000)]
    report(run)
    assert answer(run, joined) == [("launch", 75, 10_000)]
    # The table that was written out of a report says the same.
    (run / "k.csv").write_text("nothing")
    assert answer(run, joined) == [(None, None, None)]
    assert main(["info", str(run)]) == 0
    assert "left out" not in capsys.readouterr().err


@pytest.mark.check
def test_real_reports_are_read_to_the_last_digit(tmp_path: Path) -> None:
    """Of an RTX 3070: a vector sum, and NVIDIA's merge sort, in a package of a viewer (MIT)."""
    pytest.importorskip("ncu_report")
    package = "streamlit-ncu-rep-viewer==0.1.0"
    download = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--no-cache-dir",
        "-d",
        str(tmp_path),
        package,
    ]
    if subprocess.run(download, capture_output=True, check=False).returncode:
        pytest.skip(f"no {package}")
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        wheel.extractall(tmp_path)
    (reports,) = tmp_path.glob("*/sample_reports")
    small = read(reports / "CuVectorAddDrv.ncu-rep", tmp_path / "small")
    values = {row["metric"]: row["text"] for row in small["ncu_metrics"]}
    assert values["gpu__time_duration.sum"] == "3232"
    assert values["launch__waves_per_multiprocessor"] == "0.7101449275362319"
    (launch,) = small["ncu_launches"]
    assert (launch["name"], launch["grid_x"], launch["block_x"]) == ("VecAdd_kernel", 196, 256)
    large = read(reports / "mergeSort.ncu-rep", tmp_path / "large")
    assert len(large["ncu_launches"]) == 49
    first = {row["metric"]: row for row in large["ncu_metrics"] if row["launch"] == 0}
    assert first["gpu__time_duration.sum"]["whole"] == 483_584
    assert first["thread_inst_executed_true"]["whole"] == 2_713_714_688
    assert first["gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"]["text"] == "82.07250320024"
    (shared,) = [
        r
        for r in large["ncu_rules"]
        if r["launch"] == 0 and r["rule"] == "UncoalescedSharedAccess" and r["description"]
    ]
    assert "7890404 excessive wavefronts (38% of the total 20866532 wavefronts)" in shared["description"]
