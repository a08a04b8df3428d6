"""Every number of the corpus' independent facts about AMD's recordings, by queries over the store."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from traceanalyzer.run import Run, open_run

CORPUS = Path(os.environ.get("TRACEANALYZER_CORPUS", Path(__file__).parents[3] / "shared" / "corpus"))
_EXPECTED = CORPUS / "expected" / "amd.txt"


def read_facts(text: str) -> dict[str, dict[str, Any]]:
    """Return the facts of each file: a line without indent names it, each one behind it has a key and its JSON."""
    facts: dict[str, dict[str, Any]] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith(" "):
            key, value = line.split(maxsplit=1)
            facts[name][key] = json.loads(value)
        elif line:
            name = re.sub(r"^\w+/|_0000\w+$", "", line)
            facts[name] = {}
    return facts


FACTS = read_facts(_EXPECTED.read_text()) if _EXPECTED.exists() else {}
# As the corpus has them, some packed.
FILES = {
    "mi300_vllm_results.db": ["mi300_vllm_results.db"],
    "mi350_small_results.db": ["mi350_small_results.db"],
    "rocprof1_mi300_vllm.json": ["rocprof1_mi300_vllm.json.gz"],
    "raptor_mytrace.rpd": ["raptor_mytrace.rpd.gz"],
    "matmul_result.rpd": ["matmul_result.rpd"],
    "mi350_small_results.json.gz": ["mi350_small_results.json.gz"],
    "mi350_full_results.json.gz": ["mi350_full_results.json.gz"],
    "prefill_fetch_counter_collection.csv + prefill_hip_api_trace.csv + prefill_kernel_trace.csv + "
    "prefill_stall_counter_collection.csv": ["prefill_kernel_trace.csv"],
    "rocprof1_small.json": ["rocprof1_small.json.gz"],
    "ascend_advisor_trace_view.json": ["ascend_advisor_trace_view.json"],
}
# HIP's own kernels, which fill and copy, count as kernels in the facts.
_WORKS = """
SELECT
    *,
    CASE
        WHEN kind = 'memcpy' AND copy_kind IS NOT NULL THEN 'memcpy'
        WHEN kind = 'memset' AND NOT starts_with(name, '__amd') THEN 'memset'
        ELSE 'kernel'
    END AS recorded_kind
FROM gpu_ops
"""
_BUSY = """
WITH marks AS (
    SELECT device, start_ns, start_ns + dur_ns AS end_ns,
        max(start_ns + dur_ns) OVER (
            PARTITION BY device ORDER BY start_ns, op_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS reached_ns
    FROM gpu_ops
)
SELECT device::VARCHAR, sum(greatest(end_ns - greatest(start_ns, coalesce(reached_ns, start_ns)), 0))::BIGINT
FROM marks GROUP BY device
"""

pytestmark = [
    pytest.mark.check,
    pytest.mark.skipif(not FACTS, reason="needs the corpus of public traces (TRACEANALYZER_CORPUS)"),
]


@pytest.fixture(scope="module", params=sorted(FILES))
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Run, Any]]:
    paths = [CORPUS / "amd" / name for name in FILES[request.param]]
    if not all(path.exists() for path in paths):
        pytest.skip("this file is not in the corpus")
    with open_run(paths, store=tmp_path_factory.mktemp("store"), jobs=1) as run:
        yield run, FACTS[request.param]


def rows(run: Run, query: str) -> list[tuple[Any, ...]]:
    return run.sql(query).fetchall()


def test_works_and_their_times(opened: tuple[Run, Any]) -> None:
    run, facts = opened
    by_kind = dict(rows(run, f"SELECT recorded_kind, count(*) FROM ({_WORKS}) GROUP BY ALL"))
    assert by_kind == facts["operations"]
    sums = dict(rows(run, f"SELECT recorded_kind, sum(dur_ns)::BIGINT FROM ({_WORKS}) GROUP BY ALL"))
    assert (sums.get("kernel", 0), sums.get("memcpy", 0)) == (facts["kernel_sum_ns"], facts["copy_sum_ns"])
    assert rows(run, "SELECT min(start_ns), max(start_ns + dur_ns) FROM gpu_ops") == [
        (facts.get("first_ns"), facts.get("last_ns"))
    ]
    assert dict(rows(run, _BUSY)) == {re.sub(r"\D", "", key): ns for key, ns in facts["busy_ns_of_device"].items()}
    assert rows(run, "SELECT count(*) FROM gpu_ops WHERE dur_ns = 0") == [(facts["zero_length"],)]


def test_copies_by_kind_with_their_bytes(opened: tuple[Run, Any]) -> None:
    run, facts = opened
    query = f"""SELECT copy_kind, count(*), coalesce(sum(size_bytes), 0)::BIGINT FROM ({_WORKS})
        WHERE recorded_kind = 'memcpy' GROUP BY ALL"""
    assert {kind: [count, size] for kind, count, size in rows(run, query)} == facts["copies"]


def test_names_of_kernels(opened: tuple[Run, Any]) -> None:
    run, facts = opened
    kernels = f"FROM ({_WORKS}) WHERE recorded_kind = 'kernel'"
    assert rows(run, f"SELECT count(DISTINCT name) {kernels}") == [(facts["names"],)]
    top = rows(
        run, f"SELECT name[:60], sum(dur_ns)::BIGINT, count(*) {kernels} GROUP BY name ORDER BY 2 DESC, 1 LIMIT 3"
    )
    assert [list(row) for row in top] == facts["top"]


def test_launches_of_calls(opened: tuple[Run, Any]) -> None:
    run, facts = opened
    if facts["linked"] is not None:
        assert rows(run, "SELECT count(launch_id) FROM gpu_ops") == [(facts["linked"],)]
    early = """SELECT count(*) FROM gpu_ops AS ops JOIN host_slices AS calls
            ON calls.slice_id = ops.launch_id AND calls.trace_id = ops.trace_id
        WHERE ops.start_ns < calls.start_ns"""
    assert rows(run, early) == [(facts["starts_before_its_call"],)]
    graph_count = "SELECT count(graph_id) FROM gpu_ops"
    if facts["format"] == "rocpd":
        assert rows(run, graph_count) == [(facts["graph_operations"],)]


def test_calls_and_ranges(opened: tuple[Run, Any]) -> None:
    run, facts = opened
    is_call = "category IN ('runtime', 'driver')"
    if facts["format"] == "rpd":  # the recorder's own work counts as calls there
        is_call = "raw_category <> 'UserMarker'"
    calls = f"FROM host_slices WHERE {is_call}"
    assert rows(run, f"SELECT count(*), count(*) FILTER (WHERE dur_ns = 0) {calls}") == [
        (facts["calls"], facts["calls_of_length_0"])
    ]
    top = rows(run, f"SELECT name, count(*) {calls} GROUP BY ALL ORDER BY 2 DESC, min(start_ns) LIMIT 5")
    assert [list(row) for row in top] == facts["top_calls"]
    ranges = f"FROM host_slices WHERE NOT {is_call}"
    marks = rows(run, "SELECT count(*) FROM canonical.instants")[0][0]
    assert rows(run, f"SELECT count(*) + {marks} {ranges}") == [(facts["ranges"],)]
    if not marks:
        assert rows(run, f"SELECT count(DISTINCT name) {ranges}") == [(facts["range_names"],)]


def test_grids_in_work_groups(opened: tuple[Run, Any]) -> None:
    run, facts = opened
    query = f"""SELECT [grid_x, grid_y, grid_z], [block_x, block_y, block_z], count(*) FROM ({_WORKS})
        WHERE recorded_kind = 'kernel' AND kind = 'kernel' AND grid_x IS NOT NULL GROUP BY ALL"""
    counted = {(tuple(grid), tuple(block)): count for grid, block, count in rows(run, query)}
    hip = rows(run, f"SELECT count(*) FROM ({_WORKS}) WHERE recorded_kind = 'kernel' AND kind <> 'kernel'")[0][0]
    for grid, block, count in facts["grid_in_groups"]:
        # The kernels of HIP that fill and copy have no grid here.
        assert 0 <= count - counted[tuple(grid), tuple(block)] <= hip


def test_overlaps_of_queues_are_one_note(opened: tuple[Run, Any]) -> None:
    run, facts = opened
    if facts["format"] == "rocprof 1 json":
        return  # the file's lanes are streams
    noted = rows(run, "SELECT defect_count FROM canonical.defects WHERE defect = 'overlap-in-queue'")
    assert noted == ([(facts["overlaps_in_its_queue"],)] if facts["overlaps_in_its_queue"] else [])


def test_devices_that_are_described(opened: tuple[Run, Any]) -> None:
    run, facts = opened
    if "gpus" in facts:
        name, count = facts["gpus"]
        assert rows(run, "SELECT count(*), min(name), min(vendor) FROM devices") == [(count, name, "amd")]
