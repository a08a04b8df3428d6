"""Runs found in folders: by content, one level deep, ranked by metadata and then by name."""

from __future__ import annotations

import gzip
import os
import zipfile
from pathlib import Path

import pytest
from trace_event_tables import events, slice_text

import traceanalyzer
from traceanalyzer.discovery import discover, natural_key, ranks_from_names
from traceanalyzer.errors import TraceAnalyzerError

TRACE = events(slice_text("op"))


def ranked(rank: int) -> str:
    return TRACE[:-1] + f', "distributedInfo": {{"rank": {rank}, "world_size": 12}}}}'


def names(folder: Path) -> list[str]:
    return [file.relative_to(folder).as_posix() for file, _ in discover(folder).sources]


def test_traces_are_told_by_content_and_never_by_suffix(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TRACE)
    (tmp_path / "b.json").write_bytes(gzip.compress(TRACE.encode()))
    (tmp_path / "c.json.gz").write_text(TRACE)
    (tmp_path / "config.json").write_text('{"lr": 0.1}')
    (tmp_path / "notes.json").write_text("not json")
    (tmp_path / "empty.json").write_text("")
    assert names(tmp_path) == ["a.txt", "b.json", "c.json.gz"]


def test_folders_are_searched_one_level_deep_without_hidden_ones(tmp_path: Path) -> None:
    for place in ("node1/rank0.json", "node2/rank1.json", "node2/deep/rank2.json", ".hidden/rank3.json", ".rank4.json"):
        file = tmp_path / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(TRACE)
    assert names(tmp_path) == ["node1/rank0.json", "node2/rank1.json"]


@pytest.mark.check
def test_rank_10_comes_after_rank_2(tmp_path: Path) -> None:
    for rank in (10, 2, 1):
        (tmp_path / f"rank{rank}.json").write_text(TRACE)
    with traceanalyzer.open_run(tmp_path) as run:
        rows = run.sql("SELECT trace_id, trace, rank, rank_source FROM canonical.traces ORDER BY trace_id").fetchall()
    assert rows == [(0, "rank1.json", 1, "name"), (1, "rank2.json", 2, "name"), (2, "rank10.json", 10, "name")]


@pytest.mark.check
def test_metadata_tells_the_rank_before_the_name_does(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_text(ranked(3))
    (tmp_path / "rank1.json").write_text(ranked(1))
    with traceanalyzer.open_run(tmp_path) as run:
        rows = run.sql("SELECT trace, rank, rank_source FROM canonical.traces ORDER BY trace_id").fetchall()
    assert rows == [("rank1.json", 1, "metadata"), ("rank0.json", 3, "metadata")]


@pytest.mark.parametrize(
    ("files", "ranks"),
    [
        (["rank-0.json.gz", "rank-1.json.gz"], [0, 1]),
        (["worker3.1623143089861.pt.trace.json"], [3]),
        (["r0.json", "r1.json", "r10.json"], [0, 1, 10]),
        (["trace_0_2024.json", "trace_1_2024.json"], [0, 1]),
        (["v100_training_2022.json"], [None]),
        (["run_2024_04.json", "other_7.json"], [None, None]),
        (["node1/rank8.json", "node0/rank0.json"], [8, 0]),
        (["run-r2/rank0.json", "run-r2/rank1.json"], [0, 1]),
        (["1767190000-TP-0.json", "1767190001-TP-1.json"], [0, 1]),
        (["worker0.1623143089861.json", "worker0.1623212756351.json"], [0, 0]),
        (["0.json", "1.json", "3.json"], [0, 1, 3]),
        (["a/local_rank0.json", "b/local_rank0.json"], [None, None]),
        (["lora_r8_rank0.json", "lora_r8_rank1.json"], [0, 1]),
        (["tp0_dp0.json", "tp0_dp1.json", "tp1_dp0.json", "tp1_dp1.json"], [None] * 4),
        (["a/local_rank0.json", "a/local_rank1.json", "b/local_rank0.json", "b/local_rank1.json"], [None] * 4),
        (["global_rank_9_local_rank_1.json", "global_rank_8_local_rank_0.json"], [9, 8]),
        (["tp_rank_0_pp_rank_0.json", "tp_rank_1_pp_rank_0.json"], [0, 1]),
        (["tp_rank_0_pp_rank_0.json", "tp_rank_1_pp_rank_0.json", "tp_rank_0_pp_rank_1.json"], [None] * 3),
        (["node_rank_1_local_rank_0.json"], [None]),
        (["dp0_tp0_rank0.1767190000123456789.pt.trace.json", "dp1_tp0_rank0.1767190000123456.json"], [None, None]),
        (["dp0_tp0_rank0.json", "dp1_tp0_rank1.json"], [0, 1]),
        (["tp2_rank0.json", "tp4_rank0.json"], [0, 0]),
        (["rank_3.pt.trace.json.gz", "rank_3_cycle_2.pt.trace.json.gz"], [3, 3]),
        # Hosts have numbers, too: a pod of PyTorch's operator, for whose rank 0 the master is.
        (["job-master-0_1.1767190000123456789.pt.trace.json", "job-worker-0_1.1767190000123456999.json"], [None, None]),
        (["gpu0_17.1767190000123.pt.trace.json", "gpu1_18.1767190000456.pt.trace.json"], [None, None]),
        (["rank0_17.1767190000123.pt.trace.json"], [0]),
    ],
)
def test_ranks_are_read_from_names_by_number(files: list[str], ranks: list[int | None]) -> None:
    assert ranks_from_names(files) == ranks


@pytest.mark.parametrize(("word", "ranks"), [("tp", [0, 1]), ("ep", [None, None]), ("part", [None, None])])
def test_numbers_of_files_of_other_times_are_ranks_after_words_for_one(word: str, ranks: list[int | None]) -> None:
    """`ep` is a place among experts, whose times meet, or an epoch."""
    names = [f"{word}0.json", f"{word}1.json"]
    assert ranks_from_names(names, lambda members: True) == ranks
    assert ranks_from_names(["ep0.json", "ep1.json"], lambda members: False) == [0, 1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("node-1_31337.1741988781061204630.pt.trace", "node-1_31337.1741988799061204630.pt.trace"),
        ("node-1_31337.1741988781061204630.pt.trace", "node-1_31338.1741988781061204631.pt.trace"),
        *(("1741988781", "1741988782"), ("1741988781061", "1741988781062"), ("rank3000000000", "rank3000000001")),
        *(("2026-11-26", "2026-11-27"), ("10-00-00", "10-00-01"), ("run-20261127-144600", "run-20261127-144700")),
        *(("iteration_10_trace", "iteration_20_trace"), ("iteration_0", "iteration_1"), ("step0", "step1")),
        *(("lora_r8", "lora_r16"), ("lora_rank8", "lora_rank16"), ("low_rank_4", "low_rank_8")),
        *(("fit-pl-profile_0.0.pt", "fit-pl-profile_0.1.pt"), ("torch2.0", "torch2.1"), ("r0.5", "r0.7")),
        *(("lr_0.0", "lr_1.0"), ("torch_2.0.1", "torch_2.1.1")),
        *(("request_0", "request_1"), ("prompt0", "prompt1"), ("config0", "config1"), ("O0", "O1"), ("zero0", "zero1")),
        *(("reranker0", "reranker1"), ("rerank0", "rerank1"), ("layers_0", "layers_1")),
        *(("bs16", "bs32"), ("report1", "report2"), ("proc_31337", "proc_31338"), ("num_workers_0", "num_workers_1")),
        *(("rank\u00b2", "rank\u00b3"), ("\u00b2", "\u0663"), ("9" * 5000, "8" * 5000), ("rank" + "9" * 5000, "rank")),
    ],
)
def test_other_numbers_in_names_are_no_ranks(one: str, other: str) -> None:
    names = [f"{one}.json", f"{other}.json"]
    assert ranks_from_names(names) == [None, None]
    assert sorted(map(natural_key, names))


@pytest.mark.check
def test_a_folder_of_pytorchs_own_names_is_read(tmp_path: Path) -> None:
    for stamp in (1741988781061204630, 1741988799061204630):
        (tmp_path / f"gpu-node-1_31337.{stamp}.pt.trace.json").write_text(events(slice_text(f"op {stamp}")))
    with traceanalyzer.open_run(tmp_path) as run:
        assert run.sql("SELECT rank, rank_source FROM canonical.traces").fetchall() == [(None, None)] * 2


@pytest.mark.check
def test_a_rank_in_a_name_is_below_the_world_size(tmp_path: Path) -> None:
    job = ', "distributedInfo": {"world_size": 2}}'
    for name in ("rank1.json", "rank7.json"):
        (tmp_path / name).write_text(events(slice_text(name))[:-1] + job)
    with traceanalyzer.open_run(tmp_path) as run:
        rows = run.sql("SELECT trace, rank FROM canonical.traces ORDER BY trace").fetchall()
    assert rows == [("rank1.json", 1), ("rank7.json", None)]


@pytest.mark.check
def test_digits_of_other_scripts_and_very_long_numbers_in_an_archive_end_no_command(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "run.zip", "w") as archive:
        for name in ("rank\u00b2", "\u00b2", "\u0663", "9" * 5000, "rank" + "8" * 5000):
            archive.writestr(f"{name}.json", events(slice_text(f"op {name[-1]} {len(name)}")))
    with traceanalyzer.open_run(tmp_path / "run.zip") as run:
        assert [trace.rank for trace in run.traces] == [None] * 5


def test_a_path_without_a_trace_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(TraceAnalyzerError, match="no such file"):
        discover(tmp_path / "nowhere")
    with pytest.raises(TraceAnalyzerError, match="no traces in this folder") as error:
        discover(tmp_path)
    assert all(name in str(error.value.hint) for name in ("PyTorch", "Nsight Systems", "XLA", "AMD"))
    deeper = tmp_path / "profiling" / "traces" / "iteration_10"
    deeper.mkdir(parents=True)
    (deeper / "rank0_trace.json").write_text(events(slice_text("aten::mm")))
    with pytest.raises(TraceAnalyzerError, match="no traces in this folder") as error:
        discover(tmp_path)
    assert error.value.hint == f"folders are searched one level deep, and a trace lies in {deeper}: give that folder"
    (tmp_path / "a.bin").write_bytes(b"\x7fELF")
    with pytest.raises(TraceAnalyzerError, match="no trace that traceanalyzer reads"):
        discover(tmp_path / "a.bin")
    (tmp_path / "b.json").write_text("")
    with pytest.raises(TraceAnalyzerError, match="the file is empty"):
        discover(tmp_path / "b.json")


@pytest.mark.parametrize(
    ("name", "content", "hint"),
    [
        ("kernel.ncu-rep", "NVR", "record the job with nsys or torch.profiler"),
        ("run.tar.gz", "tar", "unpack it"),
        ("rank0.json.zst", "(\xb5/\xfd", "decompress it"),
        ("et.json", '{\n  "schema": "1.1.1-chakra.0.0.4", "nodes": []}', "record the job with torch.profiler"),
        ("gpu.csv", "Start (ns),Duration (ns),CorrId,GrdX,GrdY\n709,13,112,,\n", "nsys export --type sqlite"),
        ("sum.csv", "Time (%),Total Time (ns),Instances,Name\n60.1,709,112,k\n", "nsys export --type sqlite"),
        ("nvprof.csv", "==12345== NVPROF is profiling process 12345, command: ./train\n", "nsys profile"),
        ("gpu_trace.csv", '"Start","Duration","Grid X"\ns,us,\n11.4,1.4,28\n', "nsys profile"),
    ],
)
def test_files_of_other_tools_are_told_with_a_way_to_a_trace(
    tmp_path: Path, name: str, content: str, hint: str
) -> None:
    (tmp_path / name).write_text(content)
    for path in (tmp_path / name, tmp_path):
        with pytest.raises(TraceAnalyzerError) as caught:
            discover(path)
        assert hint in str(caught.value.hint)


@pytest.mark.check
def test_eight_ranks_are_read_together(tmp_path: Path) -> None:
    for rank in range(8):
        (tmp_path / f"rank{rank}.json").write_text(ranked(rank))
    with traceanalyzer.open_run(tmp_path, jobs=4) as run:
        assert run.sql("SELECT count(DISTINCT rank), count(*) FROM canonical.traces").fetchall() == [(8, 8)]
        assert run.sql("SELECT count(*) FROM host_slices").fetchall() == [(8,)]


@pytest.mark.check
def test_folders_may_be_called_what_would_be_a_pattern_in_sql(tmp_path: Path) -> None:
    folder = tmp_path / "run [4x8] 'best*'"
    folder.mkdir()
    for rank in range(2):
        (folder / f"rank{rank}.json").write_text(ranked(rank))
    for path, count in ((folder, 2), (folder / "rank1.json", 1)):
        with traceanalyzer.open_run(path) as run:
            assert run.sql("SELECT count(DISTINCT trace_id), count(*) FROM host_slices").fetchall() == [(count, count)]
            assert run.diagnose().traces


def test_one_file_that_cannot_be_read_does_not_stop_the_others(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_text(ranked(0))
    (tmp_path / "rank1.json").write_text("")
    (tmp_path / "rank2.json").write_text('{"schemaVersion": 1, "deviceProperties": []}')
    (tmp_path / "rank3.json.gz").write_bytes(b"\x1f\x8b\x08\x00garbage")
    (tmp_path / "config.json").write_text('{"lr": 0.1}')
    with traceanalyzer.open_run(tmp_path) as run:
        assert [trace.trace for trace in run.traces] == ["rank0.json"]
        told = sorted((Path(str(error.where)).name, error.what) for error in run.unreadable)
    assert [name for name, _ in told] == ["rank1.json", "rank2.json", "rank3.json.gz"]
    assert told[0][1] == "the file is empty"
    assert told[1][1] == "holds no traceEvents"


@pytest.mark.check
def test_a_copy_in_another_folder_is_a_trace_of_its_own(tmp_path: Path) -> None:
    for rank in (0, 1):
        (tmp_path / f"rank{rank}").mkdir()
        (tmp_path / f"rank{rank}" / "trace.json").write_text(TRACE)
    with traceanalyzer.open_run(tmp_path) as run:
        assert [(trace.trace, trace.rank) for trace in run.traces] == [("rank0/trace.json", 0), ("rank1/trace.json", 1)]
        assert run.sql("SELECT trace_id, count(*) FROM host_slices GROUP BY ALL ORDER BY ALL").fetchall() == [
            (0, 1),
            (1, 1),
        ]


def test_a_pipe_or_a_device_is_one_sentence(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path(os.devnull)):
        with pytest.raises(TraceAnalyzerError, match="device or a pipe"):
            discover(path)


@pytest.mark.check
def test_files_of_the_system_do_not_block() -> None:
    if not Path("/proc/self").is_dir():
        pytest.skip("no /proc here")
    with pytest.raises(TraceAnalyzerError, match="no traces in this folder"):
        discover(Path("/proc/self"))


def test_numbers_of_files_of_other_times_are_no_ranks() -> None:
    assert ranks_from_names(["trace_0.json", "trace_1.json"], lambda at: True) == [None, None]
    assert ranks_from_names(["gpu0.json", "gpu1.json"], lambda at: True) == [0, 1]
    assert ranks_from_names(["rank0.json", "r1.json"], lambda at: True) == [0, 1]
