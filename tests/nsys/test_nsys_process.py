"""What nsys records of a process beside its calls: what it prints, and CPU samples with call chains."""

from __future__ import annotations

from pathlib import Path

import pytest
from nsys_export import STRINGS, Rows, global_pid, global_tid, ingest, launched


def _strings(*texts: str) -> Rows:
    return [*STRINGS, *({"id": 100 + place, "value": text} for place, text in enumerate(texts))]


def _frame(sample: int, depth: int, symbol: int, module: int, *, kernel: bool = False) -> dict[str, int]:
    return {"id": sample, "symbol": symbol, "module": module, "stackDepth": depth, "kernelMode": int(kernel)}


def test_output_of_a_process_is_kept_with_its_end(tmp_path: Path) -> None:
    strings = _strings("/tmp/pid_10_stderr.log", "x" * 20000 + "FATAL ERROR")
    streams = [{"globalPid": global_pid(10), "filenameId": 100, "contentId": 101}]
    found = ingest(tmp_path, {**launched(1), "StringIds": strings, "ProcessStreams": streams})
    (output,) = found.rows("process_output")
    assert (output["pid"], output["file"]) == ("10", "/tmp/pid_10_stderr.log")
    assert len(output["text"]) == 16000
    assert output["text"].endswith("xFATAL ERROR")


def test_output_without_its_text_is_left_out(tmp_path: Path) -> None:
    streams = [{"globalPid": global_pid(10), "filenameId": 100, "contentId": 999}]
    assert ingest(tmp_path, {**launched(1), "ProcessStreams": streams}).rows("process_output") == []


def test_samples_have_the_innermost_function_and_that_of_the_program(tmp_path: Path) -> None:
    strings = _strings(
        "memcpy", "/lib64/libc-2.31.so", "float std::generate<int>()", "/home/me/solver", "fill(float*)", "main"
    )
    frames = [
        _frame(1, 0, 100, 101),
        _frame(1, 1, 102, 103),
        _frame(1, 2, 104, 103),
        _frame(1, 3, 105, 103),
        _frame(2, 0, 100, 101, kernel=True),
    ]
    samples = [
        {"id": 1, "start": 150, "globalTid": global_tid(10)},
        {"id": 2, "start": 160, "globalTid": global_tid(10, 77)},
        {"id": 3, "start": 170, "globalTid": global_tid(10)},
    ]
    found = ingest(
        tmp_path,
        {**launched(1), "StringIds": strings, "COMPOSITE_EVENTS": samples, "SAMPLING_CALLCHAINS": frames},
    )
    first, second = found.rows("cpu_samples")
    assert (first["thread_id"], first["start_ns"]) == (0, 150)
    assert (first["function"], first["module"], first["own_function"]) == (
        "memcpy",
        "/lib64/libc-2.31.so",
        "fill(float*)",
    )
    assert (second["thread_id"], second["own_function"], second["is_kernel"]) == (None, None, True)
    assert (first["stack"], second["stack"]) == ("main;fill(float*);float std::generate<int>();memcpy", "memcpy")


def test_a_frame_without_a_mode_is_the_programs_as_older_versions_write_it(tmp_path: Path) -> None:
    strings = _strings("memset", "/lib64/libc.so.6", "__cudart516", "/home/me/solver", "a;b()", "main")
    frames = [
        {**_frame(1, depth, symbol, module), "kernelMode": None}
        for depth, (symbol, module) in enumerate([(100, 101), (102, 103), (104, 103), (105, 103)])
    ]
    samples = [{"id": 1, "start": 150, "globalTid": global_tid(10)}]
    found = ingest(
        tmp_path,
        {**launched(1), "StringIds": strings, "COMPOSITE_EVENTS": samples, "SAMPLING_CALLCHAINS": frames},
    )
    (sample,) = found.rows("cpu_samples")
    assert (sample["function"], sample["own_function"], sample["is_kernel"]) == ("memset", "a;b()", False)
    assert sample["stack"] == "main;a:b();__cudart516;memset"


@pytest.mark.check
def test_calls_of_the_runtime_and_the_interpreter_are_not_the_programs(tmp_path: Path) -> None:
    system = [
        "cudaMemcpy",
        "cudaError cudaLaunchKernel<char>(char*)",
        "cudart::driverHelper::memcpyDispatch()",
        "_init",
    ]
    strings = _strings("/home/me/solver", "fill(float*)", "/opt/lib/libpython3.11.so.1.0", "_PyEval_EvalFrame", *system)
    interpreter = _frame(1, 0, 103, 102)
    runtime = [_frame(1, depth, 104 + depth - 1, 100) for depth in range(1, 5)]
    samples = [{"id": 1, "start": 150, "globalTid": global_tid(10)}]
    tables = {**launched(1), "StringIds": strings, "COMPOSITE_EVENTS": samples}
    (tmp_path / "whole").mkdir()
    (tmp_path / "cut").mkdir()
    whole = ingest(
        tmp_path / "whole", {**tables, "SAMPLING_CALLCHAINS": [interpreter, *runtime, _frame(1, 5, 101, 100)]}
    )
    cut = ingest(tmp_path / "cut", {**tables, "SAMPLING_CALLCHAINS": [interpreter, *runtime]})
    assert cut.column("cpu_samples", "own_function") == [None]
    assert whole.column("cpu_samples", "own_function") == ["fill(float*)"]


@pytest.mark.check
def test_samples_do_not_count_as_events(tmp_path: Path) -> None:
    tables = launched(2)
    sampled = {
        **tables,
        "COMPOSITE_EVENTS": [{"id": 1, "start": 150, "globalTid": global_tid(10)}],
        "SAMPLING_CALLCHAINS": [_frame(1, 0, 1, 2)],
    }
    (plain, with_samples) = (tmp_path / "plain", tmp_path / "sampled")
    plain.mkdir()
    with_samples.mkdir()
    counts = [
        ingest(plain, tables).column("traces", "event_count"),
        ingest(with_samples, sampled).column("traces", "event_count"),
    ]
    assert counts[0] == counts[1]
