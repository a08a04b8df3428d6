"""HTA run on public and made-up traces: equal where its definition is right, and every known defect pinned."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hta_crosscheck import DEVIATIONS, Comparison, crosscheck, page
from hta_crosscheck.hta_numbers import hta_numbers
from tiers import needed

import traceanalyzer
from traceanalyzer.report import formats

pytestmark = pytest.mark.check

Checked = dict[str, Comparison]
Check = Callable[[str], Checked]


@pytest.fixture(scope="module")
def hta() -> None:
    """HTA itself; it comes with the extra of its name."""
    needed("hta")


@pytest.fixture(scope="module")
def check(hta: None, corpus: Path, store_of: Callable[[Path], Path]) -> Check:
    """Compares a trace of the corpus once and returns its numbers by name."""

    @cache
    def compared(trace: str) -> Checked:
        path = corpus / "kineto" / trace
        with traceanalyzer.open(path, store=store_of(path)) as run:
            return {comparison.name: comparison for comparison in crosscheck(run)}

    return compared


# Whole microseconds, one device, CUDA: nothing stands between the two.
WHOLE = ("v100_training_2022.json.gz", "two_ranks_2023/rank-0.json.gz", "two_ranks_2023/rank-1.json.gz")
EQUAL = (
    "kernel time",
    "idle time",
    "compute time",
    "non-compute time",
    "overlap",
    "compute kernels",
    "communication kernels",
    "copies and memsets",
    "launches",
    "time in launching calls",
    "launch delay",
    "longest queue",
    "time at full queue",
)


@pytest.mark.parametrize("trace", WHOLE)
def test_numbers_are_equal_where_times_are_whole_microseconds(check: Check, trace: str) -> None:
    assert {name: check(trace)[name].agreement for name in EQUAL} == dict.fromkeys(EQUAL, "equal")


SYNCS = "cuda_sync_events_2023.json.gz"
NANOSECONDS = "nccl_metadata_2024.json.gz"
ABSOLUTE = "v100_absolute_ns_2024_04.json.gz"
ROCM = "mi250_rocm6.json.gz"
GRAPH = "mi300_vllm_full_graph.json.gz"
TRITON = "triton_example.json.gz"
UNLINKED = "compare_base.json.gz"
TIES = "cuda_event_sync_multi_stream.json.gz"


@pytest.mark.parametrize(
    ("trace", "name", "ours", "theirs", "reasons"),
    [
        # Rounding loses up to 2 µs a kernel and calls them idle.
        (NANOSECONDS, "idle time", 503050.991, 506512, ("rounding",)),
        (NANOSECONDS, "compute time", 115655.847, 113012, ("rounding",)),
        (NANOSECONDS, "overlap", 15.609, 15.14, ("rounding",)),
        (NANOSECONDS, "copies and memsets", 2653.498, 1565, ("rounding",)),
        (ABSOLUTE, "idle time", 7574.738, 12143, ("rounding",)),
        (ROCM, "compute time", 110.881, 96, ("rounding",)),
        # A wait that ends after the last kernel is no kernel.
        (SYNCS, "kernel time", 16025575, 16464339, ("syncs",)),
        (SYNCS, "non-compute time", 39088, 39287, ("syncs",)),
        (SYNCS, "compute kernels", 10728, 10736, ("syncs",)),
        (TIES, "idle time", 19134, 19132, ("syncs",)),
        # The longest launch of ampere_sgemm is 1 ms; the sum of its launches is 2.7 ms.
        (SYNCS, "longest compute kernel", 1035, 2673, ("table",)),
        ("v100_training_2022.json.gz", "longest compute kernel", 6513, 36180, ("table",)),
        # hipLaunchKernel and hipGraphLaunch launch too.
        (ROCM, "launches", 16, 0, ("apis",)),
        (GRAPH, "launches", 14, 0, ("apis",)),
        (GRAPH, "longest queue", 14, 13, ("apis",)),
        (TIES, "longest queue", 1, 2, ("ties",)),
        (TRITON, "kernel time", 1.76, 94, ("rounding", "host_ops")),
        (UNLINKED, "kernel time", 274498, 117132, ("linked",)),
        # Many small copies and a few large ones: the mean over points is not the mean over time.
        ("two_ranks_2023/rank-0.json.gz", "bandwidth HtoD", 5.549, 2.104, ("points",)),
        (NANOSECONDS, "bandwidth DtoD", 135.817, 39.231, ("points",)),
    ],
)
def test_known_defect(
    check: Check, trace: str, name: str, ours: float, theirs: float, reasons: tuple[str, ...]
) -> None:
    found = check(trace)[name]
    assert found.ours == pytest.approx(ours, abs=0.0006)
    assert found.theirs == pytest.approx(theirs, abs=0.0006)
    assert (found.agreement, found.reasons) == ("explained", reasons)
    assert found.why == "; ".join(DEVIATIONS[reason] for reason in reasons)


@pytest.mark.parametrize("trace", [SYNCS, NANOSECONDS, ABSOLUTE, ROCM, GRAPH, TRITON, UNLINKED, TIES])
def test_no_difference_is_left_unexplained(check: Check, trace: str) -> None:
    assert [c.name for c in check(trace).values() if c.agreement == "differs"] == []


def test_a_trace_that_hta_cannot_read_keeps_our_numbers(check: Check) -> None:
    found = check("torch_compile_triton.json.gz")["kernel time"]
    assert found.ours == pytest.approx(12549.032)
    assert (found.theirs, found.agreement) == (None, "missing")
    assert found.why.startswith("HTA fails on it: ")


# Numbers of docs/parity.md, by their names in the comparison.
PARITY = {
    "copies and memsets": "copies and memsets",
    "communication that overlaps compute": "overlap",
    "sum of compute kernels": "compute kernels",
    "host to device": "bandwidth HtoD",
    "device to device": "bandwidth DtoD",
}


def parity_rows(root: Path) -> Iterator[tuple[str, ...]]:
    """Return the rows of the table of HTA, whose empty cells are those above."""
    page = (root / "docs" / "parity.md").read_text(encoding="utf-8")
    above = ["", ""]
    for line in page.partition("| what HTA does | trace | number |")[2].partition("\n\n")[0].splitlines()[2:]:
        what, trace, *rest = (cell.strip() for cell in line.strip("|").split("|"))
        above = [what or above[0], trace or above[1]]
        yield (*above, *rest)


def test_the_page_of_differences_has_the_computed_numbers(check: Check, root: Path) -> None:
    compared_count = 0
    for what, trace, number, *shown in parity_rows(root):
        # Made-up traces, samples and what HTA does by default have tests of their own.
        if not trace.startswith("`") or what.startswith(("leaves out", "looks for", "fails")):
            continue
        found = check(f"{trace.strip('`')}.json.gz")[PARITY.get(number, number)]
        page = [float(cell.split()[0].replace(",", "")) for cell in shown]
        places = [len(cell.split()[0].partition(".")[2]) for cell in shown]
        values = (found.ours, found.theirs)
        assert page == [round(value or 0, digits) for value, digits in zip(values, places, strict=True)], (
            trace,
            number,
        )
        compared_count += 1
    assert compared_count >= 20


def test_hta_leaves_out_the_last_step_unless_told_otherwise(hta: None, corpus: Path, tmp_path: Path) -> None:
    path = corpus / "kineto" / "v100_training_2022.json.gz"
    default = hta_numbers(path, keep_last_step=False).values
    with traceanalyzer.open(path, store=tmp_path) as run:
        run.sql(
            """
            CREATE TEMP VIEW launched_before AS
            SELECT 0 AS key, ops.start_ns, ops.start_ns + ops.dur_ns AS end_ns
            FROM gpu_ops AS ops
            JOIN host_slices AS calls ON calls.slice_id = ops.launch_id
            WHERE calls.start_ns < (SELECT max(host_start_ns) FROM steps)
              AND ops.kind = 'kernel'
              AND NOT ops.is_comm
            """
        )
        without_last = run.sql(
            "SELECT sum(end_ns - start_ns) // 1000 FROM interval_merge('launched_before')"
        ).fetchall()
        with_last = run.sql("SELECT compute_ns // 1000 FROM device_time").fetchall()
    assert (default["compute time"], without_last, with_last) == (234760, [(234760,)], [(281336,)])


def test_our_numbers_are_those_of_the_metrics(hta: None, corpus: Path, tmp_path: Path) -> None:
    with traceanalyzer.open(corpus / "kineto" / NANOSECONDS, store=tmp_path) as run:
        found = {comparison.name: comparison.ours for comparison in crosscheck(run)}
        metrics = run.sql(
            """
            SELECT
                span_ns / 1000,
                idle_ns / 1000,
                compute_ns / 1000,
                (busy_ns - compute_ns) / 1000,
                (SELECT 100 * overlap_share FROM comm_share),
                (SELECT sum(sum_ns) / 1000 FROM kernel_summary WHERE is_comm),
                (SELECT count(*) FROM launches),
                (SELECT sum(queue_ns) / 1000 FROM launches),
                (SELECT max(max_depth) FROM queue_depth)
            FROM device_time
            """
        ).fetchall()[0]
    names = (*EQUAL[:5], "communication kernels", "launches", "launch delay", "longest queue")
    assert [found[name] for name in names] == [pytest.approx(number) for number in metrics]


def event(cat: str, name: str, ts: float, dur: float, **args: object) -> dict[str, Any]:
    pid = 0 if cat in ("kernel", "gpu_memcpy") else 1
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": args.get("stream", 1), "ts": ts, "dur": dur} | {
        "args": {"device": 0, **args} if cat == "kernel" else args
    }


def compared(folder: Path, events: list[dict[str, Any]]) -> Checked:
    path = folder / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    with traceanalyzer.open(path, store=folder / "store") as run:
        return {comparison.name: comparison for comparison in crosscheck(run)}


def launched(correlation: int, ts: int, start: int, dur: int, name: str, stream: int = 7) -> list[dict[str, Any]]:
    return [
        event("cuda_runtime", "cudaLaunchKernel", ts, 1, correlation=correlation),
        event("kernel", name, start, dur, correlation=correlation, stream=stream),
    ]


def test_communication_of_other_names_is_compute_to_hta(hta: None, tmp_path: Path) -> None:
    events = launched(1, 0, 10, 10, "gemm") + launched(2, 2, 15, 20, "void vllm::cross_device_reduce_1stage<half>()")
    found = compared(tmp_path, events)
    assert (found["compute time"].ours, found["compute time"].theirs, found["compute time"].reasons) == (
        10,
        25,
        ("names",),
    )


def test_of_two_full_queues_hta_reports_the_last(hta: None, tmp_path: Path) -> None:
    # 1,026 launches on each of two streams before any of them starts, one stream waiting longer than the other.
    events: list[dict[str, Any]] = []
    for i in range(1026):
        events += launched(2 * i + 1, 4 * i, 10_000 + i, 1, "gemm", stream=7)
        events += launched(2 * i + 2, 4 * i + 2, 12_000 + i, 1, "gemm", stream=8)
    found = compared(tmp_path, events)["time at full queue"]
    waits = [10_002 - 4 * 1023, 12_002 - 4 * 1023]
    assert found.ours == pytest.approx(sum(waits), abs=4)
    assert found.theirs == pytest.approx(waits[1], abs=4)
    assert found.reasons == ("last_stream",)


def test_two_devices_are_one_timeline_to_hta(hta: None, tmp_path: Path) -> None:
    events = launched(1, 0, 10, 10, "gemm") + launched(2, 2, 40, 10, "gemm")
    events[-1]["args"]["device"] = events[-1]["pid"] = 1
    found = compared(tmp_path, events)
    assert (found["idle time"].ours, found["idle time"].theirs, found["idle time"].reasons) == (0, 20, ("devices",))


def test_the_page_gives_numbers_and_reasons(check: Check) -> None:
    shown = io.StringIO()
    formats.render(page.sections(list(check(SYNCS).values())), "terminal", shown)
    assert "  kernel time              16,025,575  16,464,339  µs    syncs\n" in shown.getvalue()
    assert "  syncs   HTA counts synchronisation records as GPU work\n" in shown.getvalue()
