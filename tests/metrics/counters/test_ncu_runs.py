"""Tables of Nsight Compute in runs: found beside traces or given with --ncu, and read again when they change."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import duckdb
import jsonschema
import pytest

from traceanalyzer.cli import main
from traceanalyzer.run import open_run
from traceanalyzer.settings.settings import NO_SETTINGS

pytestmark = pytest.mark.check  # each opens a run or several

KERNEL = "void gemm<4, true>(float*)"
HEADER = (
    '"ID","Process ID","Kernel Name","Block Size","Grid Size","CC","Section Name","Metric Name","Metric Unit",'
    '"Metric Value"'
)
# Of an m x k matrix times a k x n one, with 3, 5 and 7.
FLOPS = 2 * 3 * 5 * 7
COUNTERS = {
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("%", "20"),
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": ("%", "75"),
    "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum": ("inst", "0"),
    "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum": ("inst", "0"),
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": ("inst", str(FLOPS)),
    "smsp__sass_thread_inst_executed_op_dadd_pred_on.sum": ("inst", "0"),
    "smsp__sass_thread_inst_executed_op_dmul_pred_on.sum": ("inst", "0"),
    "smsp__sass_thread_inst_executed_op_dfma_pred_on.sum": ("inst", "0"),
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": ("%", "0"),
}


def trace() -> str:
    """Return a trace of one product, which launches one kernel of 40 us."""
    host = {"ph": "X", "pid": 7, "tid": 7}
    arguments = {"Input Dims": [[3, 5], [5, 7]], "Input type": ["float", "float"]}
    place = {"device": 0, "stream": 7, "correlation": 1, "grid": [9, 2, 1], "block": [128, 1, 1]}
    events = [
        {**host, "cat": "cpu_op", "name": "aten::mm", "ts": 10, "dur": 20, "args": arguments},
        {**host, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 20, "dur": 5, "args": {"correlation": 1}},
        {"ph": "X", "cat": "kernel", "name": KERNEL, "pid": 0, "tid": 7, "ts": 30, "dur": 40, "args": place},
    ]
    return json.dumps({"schemaVersion": 1, "traceEvents": events})


def table(**changed: str) -> str:
    """Return a details page of one launch of the kernel; `changed` has other values, by a part of the metric's name."""
    lines = ["==PROF== Connected to process 7", HEADER]
    for metric, (unit, value) in COUNTERS.items():
        shown = next((other for part, other in changed.items() if part in metric), value)
        lines.append(
            '"0","7","void gemm<(int)4, (bool)1>(T1 *)","(128, 1, 1)","(9, 2, 1)","9.0",'
            f'"S","{metric}","{unit}","{shown}"'
        )
    return "\n".join(lines)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run with one trace."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "rank3.json").write_text(trace())
    return folder


def answer(run: Path, query: str, **options: Any) -> list[tuple[Any, ...]]:
    with open_run(run, **options) as opened:
        return opened.sql(query).fetchall()


@pytest.fixture
def no_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """NVIDIA's reader of reports is not installed."""
    monkeypatch.setattr("traceanalyzer.ingest.ncu.can_read_reports", lambda: False)


JOINED = "SELECT tier, memory_percent, headroom_ns FROM ncu_join"


def test_a_table_beside_a_trace_is_read_and_is_no_trace(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "rank9.csv").write_text(table())
    assert main(["sql", str(run), "SELECT trace, rank FROM traces", "--format", "csv"]) == 0
    shown = capsys.readouterr()
    assert shown.out.split() == ["trace,rank", "rank3.json,3"]
    assert "left out" not in shown.err
    assert answer(run, "SELECT file, launch_count FROM ncu_files") == [("rank9.csv", 1)]
    assert answer(run, JOINED) == [("launch", 75, 10_000)]


def test_a_table_elsewhere_is_read_with_ncu(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "counters.csv"
    file.write_text(table())
    assert answer(run, JOINED) == [(None, None, None)]
    assert answer(run / "rank3.json", JOINED, ncu=file) == [("launch", 75, 10_000)]
    assert main(["top", "kernels", str(run), "--by", "headroom", "--ncu", str(file)]) == 0
    assert "10.00 µs" in capsys.readouterr().out
    assert main(["top", "kernels", str(run), "--by", "headroom"]) == 2
    assert "no counters of Nsight Compute" in capsys.readouterr().err


def test_tables_that_are_named_twice_count_once(run: Path) -> None:
    file = run / "counters.csv"
    file.write_text(table())
    (run / "same.csv").write_text(table())
    counts = "SELECT count(*), any_value(profiled_count) FROM ncu_files, ncu_join"
    assert answer(run, counts, ncu=[file, file]) == [(2, 2)]


def test_a_changed_table_changes_what_is_read_from_it(run: Path) -> None:
    file = run / "counters.csv"
    file.write_text(table())
    assert answer(run, JOINED) == [("launch", 75, 10_000)]
    file.write_text(table(memory="90"))
    assert answer(run, JOINED) == [("launch", 90, 4_000)]
    file.unlink()
    assert answer(run, JOINED) == [(None, None, None)]


def test_the_catalogue_shows_the_tables_that_are_there(run: Path) -> None:
    def shown() -> list[tuple[Any, ...]]:
        with open_run(run, catalog=True):
            pass
        with duckdb.connect(run / ".traceanalyzer" / "catalog.duckdb", read_only=True) as catalogue:
            return catalogue.execute(JOINED).fetchall()

    file = run / "counters.csv"
    assert shown() == [(None, None, None)]
    file.write_text(table())
    assert shown() == [("launch", 75, 10_000)]
    file.write_text(table(memory="90"))
    assert shown() == [("launch", 90, 4_000)]
    file.unlink()
    assert shown() == [(None, None, None)]


def test_exported_metrics_have_the_counters(run: Path, tmp_path: Path) -> None:
    (run / "counters.csv").write_text(table())
    with open_run(run) as opened:
        files = opened.export(tmp_path / "out", ["ncu_join", "ncu_kernels"], "csv")
    assert "launch" in files["ncu_join"].read_text()
    assert "gemm" in files["ncu_kernels"].read_text()


def test_a_table_in_an_archive_lies_beside_its_traces(tmp_path: Path) -> None:
    for name, text in (("rank0.json", trace()), ("counters.csv", table())):
        (tmp_path / name).write_text(text)
    with tarfile.open(tmp_path / "run.tar", "w") as archive:
        for name in ("rank0.json", "counters.csv"):
            archive.add(tmp_path / name, f"job/{name}")
    assert answer(tmp_path / "run.tar", "SELECT trace FROM traces") == [("rank0.json",)]
    assert answer(tmp_path / "run.tar", JOINED) == [("launch", 75, 10_000)]


def test_a_table_without_a_trace_is_one_sentence_with_the_way_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "counters.csv").write_text(table())
    for path, what in ((tmp_path, "no traces beside tables"), (tmp_path / "counters.csv", "and no trace")):
        assert main(["diagnose", str(path)]) == 2
        error = capsys.readouterr().err
        assert what in error
        assert "--ncu counters.csv" in error


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("notes.csv", b"a,b\n1,2\n", ("is no table of Nsight Compute", "REPORT.ncu-rep --csv --page raw")),
        ("k.ncu-rep", b"NVR\0", ("is a report of Nsight Compute, not a table", "ncu --import k.ncu-rep --csv")),
        ("absent.csv", None, ("no such file", "--csv --page raw")),
    ],
)
def test_what_is_given_with_ncu_and_is_no_table_is_an_error(
    no_reader: None,
    run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: bytes | None,
    words: tuple[str, ...],
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert main(["ingest", str(run), "--ncu", str(tmp_path / name)]) == 2
    error = capsys.readouterr().err
    assert all(word in error for word in words)


def test_a_report_beside_traces_is_told_with_its_export_until_it_is_exported(
    no_reader: None, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "k.ncu-rep").write_bytes(b"NVR\0")
    assert main(["ingest", str(run)]) == 0
    assert "ncu --import k.ncu-rep --csv --page raw" in capsys.readouterr().err
    (run / "k.csv").write_text(table())
    assert main(["ingest", str(run)]) == 0
    assert "ncu-rep" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("counted", "words"),
    [
        (FLOPS // 2, "they contradict none"),
        (FLOPS, "They disagree with the model of costs for 1 of 1 operator"),
    ],
)
def test_a_diagnosis_says_where_counters_disagree_with_the_model(
    run: Path, root: Path, counted: int, words: str
) -> None:
    (run / "counters.csv").write_text(table(ffma=str(counted)))
    with open_run(run) as opened:
        diagnosis = opened.diagnose(settings=NO_SETTINGS)
    text = " ".join(diagnosis.to_markdown().split())
    assert words in text
    assert "1 profiled launch of kernels that take 100.0 % of the kernel time" in text
    document = json.loads(diagnosis.to_json())
    jsonschema.validate(document, json.loads((root / "docs" / "diagnosis.schema.json").read_text()))
    assert document["kernel_counters"]["matched_share"] == 1
    factors = [item["flops_factor"] for item in document["kernel_counters"]["disagreements"]]
    assert factors == ([] if counted < FLOPS else [2])


def test_what_a_table_lost_is_in_the_diagnosis(run: Path) -> None:
    (run / "counters.csv").write_text(table(ffma="1,2,3") + '\n"1","7","cut off')
    with open_run(run) as opened:
        counters = opened.diagnose(settings=NO_SETTINGS).kernel_counters
    assert counters is not None
    assert counters.lost_count == 2
    assert str(counters.lost_example).endswith(": 1,2,3")


def test_a_run_without_tables_says_nothing_of_counters(run: Path) -> None:
    with open_run(run) as opened:
        diagnosis = opened.diagnose(settings=NO_SETTINGS)
    assert diagnosis.kernel_counters is None
    assert "Nsight Compute" not in diagnosis.to_markdown()
