"""Bandwidths, sizes and overlap of collectives in real traces, against numbers of independent scripts."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from corpus_metrics import expected, expected_names, run_of, table

from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.report.html.source import query
from traceanalyzer.run import Run, open_run

__all__ = ["run_of"]
NAMES = expected_names("busbw") or ["none"]


@pytest.mark.parametrize("name", NAMES)
def test_bandwidths_of_recorded_collectives(corpus: Path, run_of: Callable[[str], Run], name: str) -> None:
    rows = table(
        run_of(name),
        "FROM collectives WHERE size_bytes IS NOT NULL AND collective IS NOT NULL ORDER BY start_ns, op_id",
    )
    found = [
        (
            row["name"].partition("(")[0],
            row["collective_kind"],
            row["comm_dtype"],
            row["group_size"],
            row["size_bytes"],
            row["dur_ns"],
            row["start_ns"],
        )
        for row in rows
    ]
    wanted = expected("busbw", name)["collectives"]
    base = rows[0]["start_ns"] - wanted[0]["start_ns"] if wanted else 0
    assert sorted(found) == sorted(
        (
            row["kernel"],
            row["kind"],
            row["dtype"],
            row["group_size"],
            row["size_bytes"],
            row["dur_ns"],
            row["start_ns"] + base,
        )
        for row in wanted
    )
    bandwidths = sorted(
        (row["start_ns"], round(row["algorithm_bytes_per_s"] / 1e9, 6), round(row["bus_bytes_per_s"] / 1e9, 6))
        for row in rows
    )
    assert bandwidths == sorted(
        (row["start_ns"] + base, row["algbw_gb_per_s"], row["busbw_gb_per_s"]) for row in wanted
    )


@pytest.mark.parametrize("name", NAMES)
def test_sizes_and_overlap(corpus: Path, run_of: Callable[[str], Run], name: str) -> None:
    numbers = expected("busbw", name)
    sizes = table(run_of(name), "SELECT log2_bytes, message_count FROM message_sizes WHERE log2_bytes IS NOT NULL")
    histogram: Counter[str] = Counter()
    for row in sizes:
        histogram[str(row["log2_bytes"])] += row["message_count"]
    assert histogram == numbers["histogram_floor_log2_bytes"]
    (row,) = table(
        run_of(name),
        "SELECT coalesce(sum(comm_kernel_count), 0) AS kernels, coalesce(sum(comm_ns), 0) AS comm_ns, "
        "coalesce(sum(exposed_comm_ns), 0) AS exposed_ns FROM comm_share",
    )
    assert (row["kernels"], row["comm_ns"], row["exposed_ns"], row["comm_ns"] - row["exposed_ns"]) == (
        numbers["comm_kernels"],
        numbers["comm_union_ns"],
        numbers["comm_exposed_ns"],
        numbers["comm_hidden_by_compute_ns"],
    )


@pytest.mark.parametrize("name", NAMES)
def test_collectives_by_message_and_kind(corpus: Path, run_of: Callable[[str], Run], name: str) -> None:
    numbers = expected("busbw", name)
    rows = table(
        run_of(name),
        "SELECT collective_kind, comm_dtype, group_size, size_bytes, CAST(sum(call_count) AS BIGINT) AS count, "
        "CAST(sum(dur_sum_ns) AS BIGINT) AS dur_sum_ns, min(min_ns) AS dur_min_ns FROM collective_efficiency "
        "WHERE size_bytes IS NOT NULL AND comm_dtype IS NOT NULL GROUP BY ALL",
    )
    longest = dict(
        run_of(name)
        .connection.execute(
            "SELECT (collective_kind, comm_dtype, size_bytes), max(dur_ns) FROM collectives GROUP BY ALL"
        )
        .fetchall()
    )
    found = {
        f"{row['collective_kind']} {row['comm_dtype']} n={row['group_size']} bytes={row['size_bytes']}": {
            **{key: row[key] for key in ("count", "size_bytes", "dur_sum_ns", "dur_min_ns")},
            "dur_max_ns": longest[row["collective_kind"], row["comm_dtype"], row["size_bytes"]],
        }
        for row in rows
    }
    assert found == numbers["by_message"]
    kinds: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        kinds[row["collective_kind"]] += Counter(
            count=row["count"], size_bytes=row["size_bytes"] * row["count"], dur_sum_ns=row["dur_sum_ns"]
        )
    assert kinds == numbers["by_kind"]


@pytest.mark.parametrize("name", NAMES)
def test_algorithm_and_protocol_of_kernels_that_name_them(
    corpus: Path, run_of: Callable[[str], Run], name: str
) -> None:
    query = (
        "SELECT algorithm, protocol, CAST(sum(call_count) AS BIGINT) FROM collective_efficiency "
        "WHERE size_bytes IS NOT NULL AND comm_dtype IS NOT NULL GROUP BY ALL"
    )
    found = {tuple(words): count for *words, count in run_of(name).connection.execute(query).fetchall()}
    wanted = Counter((row["algorithm"], row["protocol"]) for row in expected("busbw", name)["collectives"])
    assert found == wanted


def test_stragglers_are_found_whatever_nccl_calls_its_kernels(corpus: Path, store_of: Callable[[Path], Path]) -> None:
    """HTA looks for names that begin with ncclKernel, which NCCL has not written since it calls them ncclDevKernel."""
    folder = corpus / "more" / "llama_tp2"
    durations: list[list[int]] = []
    for rank in (0, 1):
        events = json.loads(gzip.decompress((folder / f"rank{rank}.json.gz").read_bytes()))["traceEvents"]
        kernels = [event for event in events if event.get("cat") == "kernel" and "nccl" in event["name"]]
        assert not [event for event in kernels if event["name"].startswith("ncclKernel")]
        kernels.sort(key=lambda event: float(event["ts"]))
        durations.append([round(event["dur"] * 1000) for event in kernels])
    transfers = [min(both) for both in zip(*durations, strict=True)]
    with open_run(folder, store=store_of(folder)) as run:
        found = table(run, "SELECT matched_count, wait_sum_ns FROM comm_late ORDER BY rank")
    assert [(row["matched_count"], row["wait_sum_ns"]) for row in found] == [
        (len(own), sum(own) - sum(transfers)) for own in durations
    ]


def test_the_rank_that_begins_late_is_the_one_of_the_raw_files(
    corpus: Path, diagnosis_of: Callable[[Path], Diagnosis], store_of: Callable[[Path], Path]
) -> None:
    """Eight ranks of one machine, whose collectives end within microseconds: the files' own times can be compared."""
    folder, begins = corpus / "more" / "dlrm_8_ranks", {}
    for file in folder.glob("*.json.gz"):
        events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
        (step,) = [event for event in events if str(event.get("name")).startswith("ProfilerStep")]
        begins[int(file.name.removeprefix("worker")[0])] = step["ts"] * 1000
    run = diagnosis_of(folder).run_ledger
    assert run is not None and run.late_begin is not None
    late = run.late_begin
    assert late.rank == max(begins, key=lambda rank: begins[rank])
    assert late.after_rank is not None
    assert late.dur_ns == pytest.approx(begins[late.rank] - begins[late.after_rank], abs=20_000)
    with open_run(folder, store=store_of(folder)) as opened, opened.connected([query("timeline_clocks")]) as connection:
        clocks = connection.execute(query("timeline_clocks")).fetchall()
    assert [trace for trace, _ in clocks] == list(range(8))
    assert all(abs(ahead_ns) < 20_000 for _, ahead_ns in clocks)
