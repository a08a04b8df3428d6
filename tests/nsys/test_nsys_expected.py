"""Every number of the corpus' independent facts about Nsight Systems exports, by metrics over the store."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from traceanalyzer.run import Run, open_run

CORPUS = Path(os.environ.get("TRACEANALYZER_CORPUS", Path(__file__).parents[3] / "shared" / "corpus"))
_EXPECTED = CORPUS / "expected" / "nsys.json"
FACTS: dict[str, Any] = json.loads(_EXPECTED.read_text()) if _EXPECTED.exists() else {}
_MEMORY_KINDS = {0: "pageable", 1: "pinned", 2: "device", 7: None}
_COPY_KINDS = {1: "HtoD", 2: "DtoH", 8: "DtoD", 10: "PtoP", 11: "HtoD", 12: "DtoH"}

pytestmark = [
    pytest.mark.check,
    pytest.mark.skipif(not FACTS, reason="needs the corpus of public traces (TRACEANALYZER_CORPUS)"),
]


@pytest.fixture(scope="module", params=sorted(FACTS) or ["none"])
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Run, Any]]:
    with open_run(CORPUS / "nsys" / request.param, store=tmp_path_factory.mktemp("store"), jobs=1) as run:
        yield run, FACTS[request.param]


def one(run: Run, query: str) -> tuple[Any, ...]:
    row: tuple[Any, ...] = run.sql(query).fetchall()[0]
    return row


def test_row_counts(opened: tuple[Run, Any]) -> None:
    run, facts = opened
    counts = dict(run.sql("SELECT kind, count(*) FROM gpu_ops GROUP BY kind").fetchall())
    assert {kind: counts.get(kind, 0) for kind in ("kernel", "memcpy", "memset")} == {
        kind: facts["rows"][kind] for kind in ("kernel", "memcpy", "memset")
    }
    calls = one(run, "SELECT count(*) FROM host_slices WHERE raw_category = 'CUPTI_ACTIVITY_KIND_RUNTIME'")
    assert calls == (facts["rows"]["runtime"],)
    assert one(run, "SELECT count(*) FROM syncs") == (facts["rows"]["sync"],)


def test_backtrace_duplicates(opened: tuple[Run, Any]) -> None:
    run, facts = opened
    dropped = one(
        run, "SELECT coalesce(max(defect_count), 0) FROM canonical.defects WHERE defect = 'backtrace-duplicate'"
    )
    assert dropped == (facts["runtime_backtrace_rows_dropped"],)


def test_device_times(opened: tuple[Run, Any]) -> None:
    run, facts = opened
    for device, wanted in facts["device"].items():
        engines = {
            row[0]: dict(zip(("sum", "busy", "hidden", "span", "idle", "count", "first", "last"), row[1:], strict=True))
            for row in run.sql(
                "SELECT engine, sum_ns, busy_ns, hidden_ns, span_ns, idle_ns, op_count, "
                "t.first_ns - coalesce(base_ns, 0), t.last_ns - coalesce(base_ns, 0) "
                "FROM engine_time t JOIN canonical.traces USING (trace) "
                f"WHERE device = {int(device)}"
            ).fetchall()
        }
        nothing = dict.fromkeys(("sum", "busy", "hidden", "span", "idle", "count"), 0)
        kernel, ops = engines.get("kernel", nothing), engines["op_no_graph"]
        comm, h2d = engines.get("comm", nothing), engines.get("HtoD", nothing)
        assert {
            "kernels": kernel["count"],
            "kernel_sum_ns": kernel["sum"],
            "kernel_union_ns": kernel["busy"],
            "kernel_span_ns": kernel["span"],
            "kernel_idle_ns": kernel["idle"],
            "compute_union_ns": engines.get("compute", nothing)["busy"],
            "nccl_union_ns": comm["busy"],
            "nccl_kernels": comm["count"],
            "nccl_overlap_ns": comm["hidden"],
            "nccl_exposed_ns": comm["busy"] - comm["hidden"],
            "memcpy_union_ns": engines.get("memcpy", nothing)["busy"],
            "h2d_union_ns": h2d["busy"],
            "h2d_overlapping_kernel_ns": h2d["hidden"],
            "all_ops_union_ns": ops["busy"],
            "all_ops_span_ns": ops["span"],
            "all_ops_idle_ns": ops["idle"],
            "first_op_ns": ops["first"],
            "last_op_ns": ops["last"],
        } == {key: value for key, value in wanted.items() if not key.endswith("_gaps_ge") and key != "streams"}


def test_device_time_agrees_where_no_graph_was_replayed(opened: tuple[Run, Any]) -> None:
    run, facts = opened
    if one(run, "SELECT count(*) FROM gpu_ops WHERE kind = 'graph'") != (0,):
        pytest.skip("graph replays are GPU work here, and are not in the facts")
    for device, wanted in facts["device"].items():
        row = one(
            run,
            "SELECT kernel_count, span_ns, busy_ns, idle_ns, compute_ns, comm_ns, exposed_comm_ns, memcpy_ns "
            f"FROM device_time WHERE device = {int(device)}",
        )
        keys = "kernels all_ops_span_ns all_ops_union_ns all_ops_idle_ns compute_union_ns nccl_union_ns nccl_exposed_ns"
        assert row == tuple(wanted[key] for key in [*keys.split(), "memcpy_union_ns"])


def test_gaps_by_size(opened: tuple[Run, Any]) -> None:
    run, facts = opened
    for device, wanted in facts["device"].items():
        for engine, key in (("kernel", "kernel_gaps_ge"), ("op_no_graph", "all_ops_gaps_ge")):
            rows = run.sql(
                "SELECT at_least_ns, gap_count, gap_sum_ns FROM gap_sizes "
                f"WHERE device = {int(device)} AND engine = '{engine}'"
            ).fetchall()
            found = {str(size): [count, total] for size, count, total in rows}
            assert found == wanted[key] or (not found and not any(count for count, _ in wanted[key].values()))


def test_copies_by_kind(opened: tuple[Run, Any]) -> None:
    run, facts = opened
    rows = run.sql(
        "SELECT copy_kind, src_kind, dst_kind, sum(copy_count), sum(size_bytes), sum(sum_ns) FROM copies GROUP BY ALL"
    ).fetchall()
    wanted = {}
    for key, copies in facts["memcpy_by_copyKind_srcKind_dstKind"].items():
        kind, source, target = (int(part) for part in key.strip("()").split(","))
        wanted[_COPY_KINDS[kind], _MEMORY_KINDS[source], _MEMORY_KINDS[target]] = (
            copies["n"],
            copies["bytes"],
            copies["ns"],
        )
        bandwidth = copies["bytes"] / copies["ns"]
        assert round(bandwidth, 3) == copies["GBps"]
    assert {row[:3]: row[3:] for row in rows} == wanted


@pytest.mark.parametrize("metric", ["cuda_gpu_kern_sum", "cuda_api_sum"])
def test_summaries(opened: tuple[Run, Any], metric: str) -> None:
    run, facts = opened
    count = "instance_count" if metric == "cuda_gpu_kern_sum" else "call_count"
    rows = run.sql(
        f"SELECT name, time_percent, {count}, sum_ns, mean_ns, median_ns, min_ns, max_ns, stddev_ns FROM {metric}"
    ).fetchall()
    for place, wanted in enumerate(facts[metric]):
        name, percent, *numbers = rows[place]
        keys = ("n", "total", "avg", "med", "min", "max", "stdev")
        alike = [row for row in rows if row[3] == wanted["total"] and row[0].startswith(wanted["name"])]
        if len(alike) > 1:  # equal totals may come in any order
            name, percent, *numbers = next(row for row in alike if row[2] == wanted["n"])
        assert name.startswith(wanted["name"])
        expected = [wanted[key] for key in keys]
        twentieths, rest = divmod(wanted["total"] * 20, wanted["n"])
        if rest == 0 and twentieths % 2:
            # The mean ends in an exact half: the facts round it to even, nsys and the metrics away from zero.
            expected[2] = (twentieths + 1) / 20
        assert numbers == expected
        assert percent == wanted.get("time_pct", percent)


def test_launch_queue_kernel_split(opened: tuple[Run, Any]) -> None:
    run, facts = opened
    wanted = facts["cuda_kern_exec_all"]
    if not wanted:
        pytest.skip("no kernel in this file")
    matched, queued = one(run, "SELECT count(*), count(queue_ns) FROM cuda_kern_exec_trace")
    assert (matched, queued) == (wanted["matched"], wanted["QCount"])
    assert one(run, "SELECT count(*) FROM gpu_ops WHERE kind = 'kernel' AND launch_id IS NULL") == (
        wanted["unmatched"],
    )
    for letter, column in (("A", "api_ns"), ("Q", "queue_ns"), ("K", "kernel_ns"), ("T", "total_ns")):
        if wanted.get(letter) and wanted[letter]["n"]:
            numbers = one(
                run,
                f"SELECT count({column}), sum({column}), avg({column}), median({column}), min({column}), "
                f"max({column}), coalesce(stddev_samp({column}), 0) FROM cuda_kern_exec_trace",
            )
            # The facts round halves to even, nsys and the metrics away from zero: the unrounded numbers are compared.
            rounded = tuple(round(number, 1) if isinstance(number, float) else number for number in numbers)
            assert rounded == tuple(wanted[letter][key] for key in ("n", "total", "avg", "med", "min", "max", "stdev"))


def test_correlation_ids_are_unique_in_a_process(opened: tuple[Run, Any]) -> None:
    run, facts = opened
    pairs, ids = one(
        run,
        "SELECT count(DISTINCT (trace_id, correlation)), count(DISTINCT correlation) FROM host_slices "
        "WHERE raw_category = 'CUPTI_ACTIVITY_KIND_RUNTIME'",
    )
    assert facts["rows"]["runtime"] - pairs == facts["runtime_correlationId_pid_duplicates"]
    assert ids == facts["runtime_correlationId_only_distinct"]


def test_syncs_keep_their_number_beside_their_meaning(opened: tuple[Run, Any]) -> None:
    run, facts = opened
    rows = run.sql(
        "SELECT json_extract_string(args, '$.syncType'), count(*), sum(dur_ns) FROM syncs "
        "JOIN event_args AS notes ON notes.trace_id = syncs.trace_id AND notes.event_id = sync_id GROUP BY 1"
    ).fetchall()
    wanted = facts.get("sync_by_type") or {}
    assert {number: [count, total][: len(wanted[number])] for number, count, total in rows} == wanted
