"""What host threads did in real traces, against numbers of independent scripts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from corpus_metrics import expected, expected_names, run_of, table

from traceanalyzer.run import Run

__all__ = ["run_of"]
NAMES = expected_names("host_nsys") or ["none"]
_THREAD = {
    "globalTid": "global_tid",
    "tid": "tid",
    "pid": "pid",
    "name": "thread_name",
    "on_cpu_ns": "on_cpu_ns",
    "slices": "slice_count",
    "cpu_changes": "migration_count",
    "longest_slice_ns": "longest_slice_ns",
}


def _read(run: Run, query: str) -> list[tuple[Any, ...]]:
    return run.connection.execute(query).fetchall()


@pytest.mark.parametrize("name", NAMES)
def test_threads_on_cpus(corpus: Path, run_of: Callable[[str], Run], name: str) -> None:
    numbers = expected("host_nsys", name).get("scheduling")
    rows = table(run_of(name), "FROM thread_time ORDER BY on_cpu_ns DESC, tid")
    if numbers is None:
        assert rows == []
        return
    assert len(rows) == numbers["threads"]
    assert sum(row["on_cpu_ns"] for row in rows) == numbers["on_cpu_ns"]
    assert {row["recorded_ns"] for row in rows} == {numbers["last_ns"] - numbers["first_ns"]}
    assert {row["open_count"] for row in rows} == {0} == {thread["unpaired"] for thread in numbers["top"]}
    for row in rows:  # as Nsight Systems writes a thread: the low 24 bits are its own number, the next 24 the process's
        row["global_tid"] = int(row["pid"]) << 24 | int(row["tid"])
    found = [{key: row[column] for key, column in _THREAD.items()} for row in rows[: len(numbers["top"])]]
    wanted = [
        {key: str(thread[key]) if key in ("tid", "pid") else thread[key] for key in _THREAD}
        | {"globalTid": thread["globalTid"] & (1 << 48) - 1}
        for thread in numbers["top"]
    ]
    assert found == wanted


@pytest.mark.parametrize("name", NAMES)
def test_samples_by_thread_function_and_stack(corpus: Path, run_of: Callable[[str], Run], name: str) -> None:
    numbers = expected("host_nsys", name).get("samples")
    run = run_of(name)
    if numbers is None:
        assert _read(run, "FROM host_samples") == []
        return
    assert _read(run, "SELECT sum(sample_count) FROM host_samples") == [(numbers["count"],)]
    # A sample weighs one: every row has one cycle.
    assert numbers["cycles"] == numbers["count"]
    assert _read(run, "SELECT count(*) FROM cpu_samples WHERE coalesce(stack, '') = ''") == [
        (numbers["without_stack"],)
    ]
    by_thread = "SELECT tid, any_value(thread_name), sum(sample_count) AS n FROM host_samples GROUP BY tid"
    assert _read(run, f"{by_thread} ORDER BY n DESC, tid")[: len(numbers["by_thread"])] == [
        (str(row["tid"]), row["name"], row["samples"]) for row in numbers["by_thread"]
    ]
    for column, key in (("function", "leaf"), ("module", "leaf_module")):
        counts = dict(_read(run, f"SELECT {column}, sum(sample_count) FROM host_samples GROUP BY ALL"))
        wanted = {row["name"]: row["samples"] for row in numbers[key]}
        assert {name: counts[name] for name in wanted} == wanted
        assert sorted(counts.values(), reverse=True)[: len(wanted)] == sorted(wanted.values(), reverse=True)
    stacks = "SELECT count(*), max(n) FROM (SELECT count(*) AS n FROM cpu_samples GROUP BY stack)"
    assert _read(run, stacks) == [(numbers["stacks"], numbers["heaviest_stack"])]


@pytest.mark.parametrize("name", NAMES)
def test_calls_of_the_operating_system(corpus: Path, run_of: Callable[[str], Run], name: str) -> None:
    numbers = expected("host_nsys", name)["os_runtime"]
    run = run_of(name)
    rows = _read(run, "SELECT name, sum(call_count), sum(sum_ns), max(max_ns) FROM os_waits GROUP BY name")
    # The numbers count the tracer's own marks among the calls.
    ((marks,),) = _read(run, "SELECT count(*) FROM host_slices WHERE raw_category = 'OSRT_API mark'")
    assert sum(row[1] for row in rows) + marks == numbers["calls"] - numbers["broken"]
    found = {row[0]: row[1:] for row in rows}
    wanted = {row["name"]: (row["count"], row["sum_ns"], row["max_ns"]) for row in numbers["top"]}
    wanted |= {name: (row["count"], row["sum_ns"], row["max_ns"]) for name, row in numbers["locks"].items()}
    assert {name: found[name] for name in wanted} == wanted
    assert sorted((row[2] for row in rows), reverse=True)[: len(numbers["top"])] == [
        row["sum_ns"] for row in numbers["top"]
    ]
    # What waits for others has a kind.
    assert {row[0] for row in _read(run, "SELECT name FROM os_waits WHERE kind <> 'other'")} >= set(numbers["locks"])


@pytest.mark.parametrize("name", NAMES)
def test_time_off_the_cpu_is_divided_without_rest(corpus: Path, run_of: Callable[[str], Run], name: str) -> None:
    run = run_of(name)
    causes = "coalesce(ready_ns, 0) + gpu_wait_ns + os_call_ns + api_call_ns + other_ns"
    assert _read(run, f"SELECT tid FROM off_cpu WHERE off_cpu_ns <> {causes}") == []
    # A thread is on a CPU or off it from its first to its last interval.
    spans = """
        SELECT tid, max(start_ns + dur_ns) - min(start_ns) - sum(dur_ns)
        FROM async_slices
        WHERE category = 'sched' AND tid IN (SELECT tid FROM off_cpu)
        GROUP BY tid
        ORDER BY tid
    """
    assert _read(run, "SELECT tid, off_cpu_ns FROM off_cpu ORDER BY tid") == _read(run, spans)


def test_launches_of_graphs_that_are_one_record(corpus: Path, run_of: Callable[[str], Run]) -> None:
    numbers = expected("host_nsys", "cuda_graph_2025.5")["graph_launches"]
    launches = "SELECT count(*), count(DISTINCT graph), CAST(sum(busy_ns) AS BIGINT) FROM graph_launches"
    assert _read(run_of("cuda_graph_2025.5"), launches) == [
        (numbers["count"], numbers["graphs"], numbers["sum_ns"]),
    ]
