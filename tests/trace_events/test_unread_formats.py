"""Work of a device in a form that is not read: refused by the name of the format, never called absent."""

from __future__ import annotations

import base64
import gzip
import json
import sqlite3
from pathlib import Path

import pytest
from xspace import block_field, number_field

from traceanalyzer.discovery.finding import discover
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest.nsys import NsysIngester
from traceanalyzer.ingest.unread_formats import is_perfetto, unread_database, unread_device_work
from traceanalyzer.run import open_run


@pytest.mark.parametrize(
    ("process", "what"),
    [
        ("GPU2", "rpd2tracing"),
        ("Ascend Hardware", "Ascend"),
        ("/job:localhost/replica:0/task:0/device:GPU:0/stream:all Compute", "TensorFlow 1"),
        ("/gpu:7 Compute", "TensorFlow 1"),
        ("GPU 0 (eBPF)", "another tool"),
        ("NVIDIA GPU", "another tool"),
        ("/gpu:0 (pid 7)", "another tool"),
        ("matmul_kernel Core7 CTA0", "inside of kernels"),
        ("gpu/0", "another tool"),  # MXNet 1.9, whose cpu/0 was taken for the whole program
        ("Device 0", "Nsight Systems"),  # nsys2json, which numbers no processes
        ("run1.sqlite Device 3", "Nsight Systems"),
        ("[0:7] NVIDIA V100", "nvprof"),  # nvprof2json
        *((process, "accelerator") for process in ("MLU 0", "MUSA 0", "NeuronCore 3", "Habana HPU 0")),
    ],
)
def test_a_process_of_a_device_names_its_format(process: str, what: str) -> None:
    known = unread_device_work(["python", None, process], [])
    assert known is not None
    assert what in known[0]
    assert process in known[0]
    assert known[1]


@pytest.mark.parametrize(
    "process",
    [
        "python",
        "Device manager",
        "/dev/Device 0/x",
        "gpu_burn",
        "GPUWorker",
        "python train_gpu.py",
        "browser",
        "CANN",
        "/host:CPU",
        "neuron_monitor",
    ],
)
def test_a_program_of_the_host_is_no_device(process: str) -> None:
    assert unread_device_work([process], ["", "cpu_op", "kernel_launcher"]) is None


@pytest.mark.parametrize("category", ["gpu_kernel", "GPU", "CUDA kernel"])
def test_a_category_of_kernels_is_work_of_a_device(category: str) -> None:
    assert unread_device_work(["python"], [category]) is not None


def _trace(folder: Path, process: str) -> Path:
    slices = {"ph": "X", "name": "task", "pid": 2, "tid": 1, "ts": 10, "dur": 5}
    named = {"ph": "M", "name": "process_name", "pid": 2, "args": {"name": process}}
    file = folder / "trace.json"
    file.write_text(json.dumps([named, slices]))
    return file


@pytest.mark.check
def test_async_events_of_a_device_are_work_of_it(tmp_path: Path) -> None:
    """As the example of a profiler in NCCL's sources writes them, which gives them no end and no thread."""
    own = {"name": "KernelCh", "cat": "GPU", "id": 0, "pid": 7, "tid": 1}
    file = tmp_path / "trace.json"
    file.write_text(json.dumps([{**own, "ph": phase, "ts": ts} for phase, ts in (("b", 10), ("e", 20))]))
    with pytest.raises(TraceAnalyzerError, match=r"no work of a device \(category “GPU”\)"):
        open_run(file, store=tmp_path / "store").close()


@pytest.mark.check
def test_a_run_of_unread_work_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceAnalyzerError, match="Ascend"):
        open_run(_trace(tmp_path, "HCCL"), store=tmp_path / "store")
    with open_run(_trace(tmp_path, "python"), store=tmp_path / "store") as run:
        assert run.traces


@pytest.mark.check
def test_a_device_that_stands_for_the_process_of_its_work_is_refused(tmp_path: Path) -> None:
    """nsys2json names no process: the number of one is the text `Device 0`, and kernels have the category cuda."""
    kernel = {
        "ph": "X",
        "cat": "cuda",
        "name": "gemm",
        "pid": "Device 0",
        "tid": "Stream 7",
        "ts": 10,
        "dur": 5,
        "args": {},
    }
    file = tmp_path / "converted.json"
    file.write_text(json.dumps([kernel]))
    with pytest.raises(TraceAnalyzerError, match="Nsight Systems") as refused:
        open_run(file, store=tmp_path / "store")
    assert "nsys export" in (refused.value.hint or "")


def _database(file: Path, *tables: str) -> Path:
    with sqlite3.connect(file) as connection:
        for table in tables:
            connection.execute(f"CREATE TABLE {table} (id INTEGER)")
    connection.close()
    return file


@pytest.mark.parametrize(
    ("tables", "what"),
    [
        (("rocpd_op",), "rocmProfileData"),
        (("rocpd_metadata_1", "rocpd_op_1"), "rocprofv3"),
        (("a", "b"), "the tables a, b"),
        ((), "without tables"),
        (("CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL", "StringTable"), "nvprof"),
    ],
)
@pytest.mark.parametrize("is_packed", [False, True])
def test_a_database_of_another_tool_is_no_export(
    tmp_path: Path, tables: tuple[str, ...], what: str, is_packed: bool
) -> None:
    file = _database(tmp_path / "results.db", *tables)
    if not tables:
        with sqlite3.connect(file) as connection:
            connection.execute("PRAGMA user_version = 1")
        connection.close()
    head = file.read_bytes()
    if is_packed:
        file = file.with_name("results.db.gz")
        file.write_bytes(gzip.compress(head))
    assert not NsysIngester().sniff(head, file)
    known = unread_database(file, head)
    assert known is not None
    assert what in known[0]


def test_a_packed_export_stays_one(tmp_path: Path) -> None:
    head = _database(tmp_path / "a.sqlite", "StringIds").read_bytes()
    packed = tmp_path / "a.sqlite.gz"
    packed.write_bytes(gzip.compress(head))
    assert NsysIngester().sniff(head, packed)


PACKETS = b"".join(
    block_field(1, number_field(8, 1_000 * at) + number_field(10, 1) + block_field(11, number_field(9, 1)))
    for at in range(1, 90)
)


@pytest.mark.parametrize("name", ["trace.json", "results.pb", "trace", "trace.json.gz"])
@pytest.mark.parametrize("kept", [1.0, 0.7])
def test_a_binary_trace_of_perfetto_is_named_by_its_content(name: str, kept: float, tmp_path: Path) -> None:
    content = PACKETS[: int(kept * len(PACKETS))]
    file = tmp_path / name
    file.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    with pytest.raises(TraceAnalyzerError, match="is a binary Perfetto trace") as refused:
        discover(file)
    assert "traceconv json" in str(refused.value.hint)


def test_other_content_is_no_trace_of_perfetto() -> None:
    plane = block_field(1, number_field(1, 3) + block_field(2, "/host:CPU") + block_field(3, b"\x0a\x00"))
    for content in (plane, plane * 3, b"", b"\x0a", b"\n\n\n{}", b"\x0a\x05hello" * 9):
        assert not is_perfetto(content)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize(
    ("columns", "what"),
    [
        (("Start", "Duration", "Grid X"), "text of nvprof"),
        (("Type", "Time(%)", "Time"), "text of nvprof"),
        (("Start (ns)", "Duration (ns)", "CorrId"), "nsys stats"),
        (("Time (%)", "Total Time (ns)", "Instances"), "nsys stats"),
        (("Start(sec)", "Duration(nsec)", "CorrId"), "nsys stats"),
        (("Time(%)", "Total Time (ns)", "Instances"), "nsys stats"),  # of 2020 and 2021, which nvprof's begin like
        (("Total (MB)", "Count", "Avg (MB)"), "nsys stats"),
        (("PID", "TID", "DevId", "API Start (ns)"), "nsys stats"),
        (("Name", "Projected Start (ns)", "Style"), "nsys stats"),
        (("Device", "Kernel", "Invocations", "Metric Name"), "text of nvprof"),
        (("Process ID", "Kernel Name", "Invocations", "Metric Name"), "that Nsight Compute printed"),
        (("Index", "KernelName", "gpu-id"), "counters without times"),
        (("Dispatch_ID", "Kernel_Name", "GPU_ID"), "counters without times"),
        (("Sample_Timestamp", "Exec_Mask", "Dispatch_Id"), "rocprofv3 without kernels"),
        (("Guid", "Kind", "Operation", "Agent_Id", "Queue_Id", "Thread_Id"), "rocprofv3 without kernels"),
        (("Guid", "Kind", "Agent_Id", "Queue_Id", "Thread_Id"), "rocprofv3 without kernels"),
        (("Device_id", "Model ID", "Task ID"), "Ascend's profiler"),
        (("Step Id", "Device_id", "Model ID"), "Ascend's profiler"),
        (("Name", "Calls", "TotalDurationNs", "AverageNs"), "summary of rocprof"),
        (("Name", "Calls", "DURATION (nsec)", "AVERAGE (nsec)"), "summary of rocprof"),
        (("ProcessID", "Hostname", "Name", "Calls", "DURATION (nsec)", "STD_DEV"), "summary of rocprof"),
    ],
)
@pytest.mark.parametrize("quote", ["", '"'])
def test_tables_without_a_trace_are_named_whatever_parts_their_columns(
    columns: tuple[str, ...], what: str, separator: str, quote: str, tmp_path: Path
) -> None:
    file = tmp_path / "table.csv"
    file.write_text(separator.join(f"{quote}{column}{quote}" for column in columns) + "\n")
    with pytest.raises(TraceAnalyzerError, match=what):
        discover(file)


PRINTED = {
    "nsys stats": "NOTICE: exporting\nProcessing [report1.sqlite] with [cuda_gpu_kern_sum.py]\n\nTime (%),Total Time\n",
    "Nsight Compute": "==PROF== Connected to process 7 (/a)\n[7] a@127.0.0.1\n  k (1, 1, 1)x(32, 1, 1)\n",
    "unitrace": "\n== L0 Backend ==\n\n  Kernel, Calls, Time (ns)\n",
    "line by line": '{"data": ["k"]}\n{"Type": 80, "CudaEvent": {"startNs": "39"}}\n',
    "trtexec": '[\n  { "count" : 100 }\n, { "name" : "conv", "timeMs" : 12.5 }\n]\n',
    "Proton": '[{"children": [], "frame": {"name": "ROOT", "type": "function"}, "metrics": {"time (ns)": 7}}]',
    "memory timeline": "[[1796104709644628, 1796104709644630], [[0, 512, 0, 0], [0, 0, 0, 0]]]",
    "stacks": "train.py(45):_<module>;torch/nn/modules/linear.py(114):_forward 51\n",
    "stacks without": "<module> (train.py:9);step (train.py:4) 186\n",
    "speedscope": '{"$schema": "https://www.speedscope.app/file-format-schema.json", "profiles": []}',
}


@pytest.mark.parametrize("tool", PRINTED)
def test_what_tools_print_and_sum_up_is_named(tool: str, tmp_path: Path) -> None:
    file = tmp_path / "report1.json"
    file.write_text(PRINTED[tool])
    with pytest.raises(TraceAnalyzerError, match=tool) as error:
        discover(file)
    assert "expected PyTorch profiler" not in (error.value.hint or "")


def test_sums_of_tools_beside_a_trace_are_no_traces_that_cannot_be_read(tmp_path: Path) -> None:
    for tool in ("trtexec", "Proton", "speedscope"):
        (tmp_path / f"{tool}.json").write_text(PRINTED[tool])
    with pytest.raises(TraceAnalyzerError, match="no traces") as error:
        discover(tmp_path)
    assert "Proton" in (error.value.hint or "")
    (tmp_path / "trace.json").write_text(DOCUMENT)
    assert discover(tmp_path).unreadable == ()


DOCUMENT = json.dumps({"schemaVersion": 1, "traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 2, "pid": 1}]})
WRAPPED: dict[str, tuple[str | bytes, str]] = {
    "page": ("<!DOCTYPE html>\n<html><body>Sign in</body></html>", "is a web page"),
    "xml": ('<?xml version="1.0"?>\n<Error><Code>AccessDenied</Code></Error>', "is XML"),
    "pointer": ("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n", "pointer of Git LFS"),
    "headers": (f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{DOCUMENT}", "web server"),
    "form": (f'------form7MA\r\nContent-Disposition: form-data; name="f"\r\n\r\n{DOCUMENT}\r\n------form7MA--', "form"),
    "chunked": (f"{len(DOCUMENT):x}\r\n{DOCUMENT}\r\n0\r\n\r\n", "an answer of a server in parts"),
    "guarded": (f")]}}'\n{DOCUMENT}", "an answer of a server in parts"),
    "called": (f"callback({DOCUMENT});", "text of a program"),
    "assigned": (f"var trace = {DOCUMENT};", "text of a program"),
    "fenced": (f"```json\n{DOCUMENT}\n```", "Markdown"),
    "quoted": (json.dumps(DOCUMENT), "one text in quotes"),
    "letters": (base64.b64encode(gzip.compress(DOCUMENT.encode() * 9)), "base64"),
    "address": (b"data:application/json;base64," + base64.b64encode(DOCUMENT.encode()), "base64"),
    "printed": (str(json.loads(DOCUMENT)), "as Python prints it"),
    "zeros": (b"\0" * 4096 + DOCUMENT.encode()[9:], "zeros at its beginning"),
    "lines": (json.dumps(json.loads(DOCUMENT)["traceEvents"][0]) + "\n{}", "line by line"),
    "list": (f"[{DOCUMENT}, {DOCUMENT}]", "is a list of traces"),
}


@pytest.mark.parametrize("kind", list(WRAPPED))
def test_what_wraps_a_file_or_stands_in_its_place_is_named(kind: str, tmp_path: Path) -> None:
    content, what = WRAPPED[kind]
    file = tmp_path / "trace.json"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(TraceAnalyzerError, match=what) as refused, open_run(file, store=tmp_path / "store"):
        pass
    assert refused.value.hint
    file.write_text(DOCUMENT)
    discover(file)
