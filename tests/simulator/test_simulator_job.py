"""Jobs of several ranks: timelines worked out by hand, and the published table of true savings."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest import IngestOptions
from traceanalyzer.ingest.trace_events import TraceEventIngester
from tracesim import SimulatedJob, simulate_job
from tracesim.catalogue.recording import GpuOp

KERNEL = {"kernel": {"class": "elementwise", "us": 10}}
LOADER = "host.dataloader"


def comms_us(job: SimulatedJob, rank: int) -> list[tuple[float, float]]:
    """Return start and end of a rank's communication kernels in microseconds."""
    return [(op.start_ns / 1000, op.end_ns / 1000) for op in job.ranks[rank].recording.ops if op.collective]


def test_a_collective_transfers_when_its_last_rank_is_there() -> None:
    # rank 0  K 8-18 |19 ====== waits ====== 119|=== transfers 100 ===| 219
    # rank 1  py 0-100, K 108-118 |              119|=== transfers 100 ===| 219
    program = [KERNEL, {"comm": {"us": 100}}]
    job = simulate_job({"ranks": 2, "steps": 1, "programs": [program, [{"py": 100}, *program]]})
    assert comms_us(job, 0) == [(19, 219)]
    assert comms_us(job, 1) == [(119, 219)]
    assert [op.waited_ns for run in job.ranks for op in run.recording.ops if op.collective] == [100_000, 0]


def test_what_the_early_rank_waits_is_skew_and_the_rest_is_transfer() -> None:
    program = [KERNEL, {"comm": {"us": 100}}, KERNEL]
    job = simulate_job({"ranks": 2, "steps": 4, "program": program, "faults": {"rank": 1, "loader_us": 500}})
    early, late = (run.true_ledger for run in job.ranks)
    assert early["dev.straggler_wait"] > 1_000_000
    assert "dev.straggler_wait" not in late
    assert all(sum(run.true_ledger.values()) == run.window_ns for run in job.ranks)


def test_a_message_is_there_when_both_are_ready() -> None:
    send = [KERNEL, {"send": {"to": 1, "us": 50}}]
    recv = [{"recv": {"from": 0, "us": 50}}, KERNEL]
    job = simulate_job({"ranks": 2, "steps": 1, "programs": [send, recv]})
    assert comms_us(job, 0)[0][1] == comms_us(job, 1)[0][1]
    kernel = next(op for op in job.ranks[1].recording.ops if op.is_compute)
    assert kernel.start_ns / 1000 == comms_us(job, 1)[0][1] + 1


def test_ranks_may_send_to_each_other_in_one_kernel() -> None:
    programs = [[{"exchange": {"to": 1 - rank, "from": 1 - rank, "us": 50}}] for rank in range(2)]
    job = simulate_job({"ranks": 2, "steps": 3, "programs": programs})
    assert [end for _, end in comms_us(job, 0)] == [end for _, end in comms_us(job, 1)]


def test_only_a_group_waits_for_its_ranks() -> None:
    program = [KERNEL, {"comm": {"us": 100, "group": "tp"}}]
    job = simulate_job(
        {
            "ranks": 4,
            "steps": 1,
            "groups": {"tp": [[0, 1], [2, 3]]},
            "program": program,
            "faults": {"rank": 3, "loader_us": 900},
        }
    )
    ends = [comms_us(job, rank)[0][1] for rank in range(4)]
    assert ends == [119, 119, 1019, 1019]
    collective = next(op.collective for op in job.ranks[2].recording.ops if op.collective)
    assert (collective.group.name, collective.group.description, collective.group.ranks) == ("2", "tp", (2, 3))


@pytest.mark.parametrize(("op", "us"), [("all_reduce", 320), ("all_gather", 170), ("reduce_scatter", 170)])
def test_a_transfer_takes_its_latency_and_its_bytes(op: str, us: float) -> None:
    # 40 MB at 200 GB/s are 200 us; of four ranks each moves 3/4 of them, twice to reduce and gather.
    megabytes = 40e6 / 2**20
    job = simulate_job({"ranks": 4, "steps": 1, "program": [{"comm": {"op": op, "mb": megabytes}}]})
    ((start, end),) = comms_us(job, 0)
    assert end - start == pytest.approx(us, abs=0.01)


def test_a_named_event_outlives_the_next_one_of_its_stream() -> None:
    # The second gather is under way when compute waits for the first.
    gathers: list[dict[str, Any]] = [
        {"comm": {"op": "all_gather", "us": 100, "blocking": False, "event": "first"}},
        {"comm": {"op": "all_gather", "us": 500, "blocking": False}},
        {"stream_wait": {"on": "compute", "event": "first"}},
        KERNEL,
    ]
    job = simulate_job({"ranks": 2, "steps": 1, "program": gathers})
    kernel = next(op for op in job.ranks[0].recording.ops if op.is_compute)
    assert kernel.start_ns / 1000 == comms_us(job, 0)[0][1] + 1


@pytest.mark.parametrize(
    ("programs", "message"),
    [
        ([[{"comm": {"us": 1}}], [KERNEL]], "rank 0 waits for ever: only 1 of 2 ranks came to group 0 collective 1"),
        (
            [[{"send": {"to": 1}}, {"recv": {"from": 1}}], [{"send": {"to": 0}}, {"recv": {"from": 0}}]],
            "rank 0 waits for ever: only 1 of 2 ranks came to from 0 to 1 message 1",
        ),
        ([[{"send": {"to": 0}}], [KERNEL]], "rank 0 cannot exchange messages with rank 0"),
        ([[{"comm": {"group": "pp"}}], [KERNEL]], "unknown group 'pp'"),
        ([[KERNEL]], "programs: there are 2 ranks"),
    ],
)
def test_ranks_that_would_wait_for_ever_are_told(programs: list[Any], message: str) -> None:
    with pytest.raises(TraceAnalyzerError, match=message):
        simulate_job({"ranks": 2, "steps": 1, "programs": programs})


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"faults": {"rank": 2, "gc_us": 5}}, "faults.rank: 2 is no rank of 2"),
        ({"faults": [3]}, r"faults\[0\]: 3 is not a fault"),
        ({"clock_offset_us": [1, 2, 3]}, "clock_offset_us: there are 2 ranks, and 3 values"),
        ({"groups": {"tp": [[0, 5]]}}, r"groups.tp: \[0, 5\] are no ranks of 2"),
    ],
)
def test_mistakes_about_ranks_are_told(told: dict[str, Any], message: str) -> None:
    with pytest.raises(TraceAnalyzerError, match=message):
        simulate_job({"ranks": 2, "steps": 1, **told})


def published(faults: Any, *, item: bool = False) -> SimulatedJob:
    """Simulate the workload of the reference: bucketed all-reduces beside the second half of 120 kernels."""
    return _published(json.dumps(faults), item)


@cache
def _published(faults: str, item: bool) -> SimulatedJob:
    step: list[dict[str, Any]] = [{"next": {"us": 200}}]
    for index in range(120):
        waits = {"wait": ["comm"]} if index == 0 else {}
        step.append({"kernel": {"us": 80, "py_us": 3, **waits}})
        if index >= 60 and (index - 59) % 15 == 0:
            step.append({"comm": {"us": 400, "blocking": False}})
    step.append({"kernel": {"us": 50, "wait": ["comm"]}})
    if item:
        step.append({"sync": "device"})
    return simulate_job({"ranks": 4, "steps": 8, "event_us": 0, "program": step, "faults": json.loads(faults)})


_DRAW = random.Random(1)
_RANDOM_LOADERS = [[_DRAW.uniform(0, 20_000) for _ in range(8)] for _ in range(4)]
ONE = [{"rank": 3, "loader_us": 15_000}]
TWO = [*ONE, {"rank": 1, "loader_us": 13_000}]
ALL = {"loader_us": 15_000}
IN_TURN = [{"rank": r, "loader_us": [15_000 if s % 4 == r else 200 for s in range(4)]} for r in range(4)]
AT_RANDOM = [{"rank": r, "loader_us": _RANDOM_LOADERS[r]} for r in range(4)]


@pytest.mark.check
@pytest.mark.parametrize(
    ("faults", "ranks", "percent"),
    [
        (ONE, (3,), 36.9),
        (TWO, (3,), 12.4),
        (TWO, (1, 3), 36.9),
        (ALL, (3,), 0.0),
        (ALL, (0, 1, 2, 3), 36.9),
        (IN_TURN, (0, 1, 2, 3), 0.0),
        (IN_TURN, (2,), 0.0),
        (AT_RANDOM, (0,), 1.0),
        (AT_RANDOM, (0, 1, 2, 3), 21.7),
    ],
)
def test_fixing_loaders_of_ranks_saves_what_the_reference_says(
    faults: Any, ranks: tuple[int, ...], percent: float
) -> None:
    share = published(faults).true_saving_share(dict.fromkeys(ranks, (LOADER,)))
    assert 100 * share == pytest.approx(percent, abs=0.2)


@pytest.mark.check
def test_behind_a_synchronisation_the_late_rank_costs_what_the_prototype_says() -> None:
    assert 100 * published(ONE, item=True).true_saving_share({3: (LOADER,)}) == pytest.approx(58.76, abs=0.2)


def test_clock_offsets_move_what_is_written_and_nothing_else() -> None:
    told = {"ranks": 2, "steps": 3, "kernels": 12, "comm_us": 300, "faults": {"rank": 1, "loader_us": 2_000}}
    plain, shifted = (simulate_job({**told, "clock_offset_us": offsets}) for offsets in (0, [0, -3e6]))
    assert [run.recording for run in plain.ranks] == [run.recording for run in shifted.ranks]
    assert plain.true_saving({1: (LOADER,)}) == shifted.true_saving({1: (LOADER,)})
    with duckdb.connect() as database:
        firsts = []
        for job in (plain, shifted):
            database.register("ops", job.canonical_tables()["gpu_ops"])
            firsts.append(database.sql("SELECT min(start_ns) FROM ops WHERE trace_id = 1").fetchall()[0][0])
    assert firsts[0] - firsts[1] == 3_000_000_000


def test_a_transfer_is_free_only_when_every_rank_says_so() -> None:
    job = simulate_job({"ranks": 2, "steps": 4, "kernels": 12, "comm_us": 500})
    assert job.true_saving({0: ("dev.comm_transfer",)}) == 0
    assert job.true_saving(("dev.comm_transfer",)) == pytest.approx(500_000 * 3, rel=0.05)


def test_kernels_can_be_faster_on_one_rank_or_on_all() -> None:
    job = simulate_job(
        {"ranks": 2, "steps": 4, "kernels": 30, "comm_us": 100, "faults": {"rank": 1, "kernel_scale": 2}}
    )
    one = job.true_saving(kernel_scale={1: {"compute": 0.5}})
    assert one == pytest.approx(0.5 * job.window_ns, rel=0.1)
    assert job.true_saving(kernel_scale={0: {"compute": 0.5}}) == 0
    assert job.true_saving(kernel_scale={"compute": 0.5}) >= one


def test_the_order_in_which_ranks_run_changes_nothing() -> None:
    told = {"ranks": 4, "steps": 3, "kernels": 12, "comm_us": 400, "comm_count": 3, "jitter": 0.2}
    runs = [simulate_job(told, seed=5) for _ in range(2)]
    assert [run.recording for run in runs[0].ranks] == [run.recording for run in runs[1].ranks]
    assert runs[0].ranks[0].recording != runs[0].ranks[1].recording


@pytest.mark.check
def test_reading_the_files_of_all_ranks_gives_the_tables_built_directly(tmp_path: Path) -> None:
    job = simulate_job(
        {
            "ranks": 2,
            "steps": 2,
            "groups": {"pp": [[0, 1]]},
            "programs": [
                [KERNEL, {"comm": {"op": "all_gather", "us": 90, "group": "pp"}}, {"send": {"to": 1}}],
                [KERNEL, {"comm": {"op": "all_gather", "us": 90, "group": "pp"}}, {"recv": {"from": 0}}],
            ],
            "clock_offset_us": [0, 123_456.789],
        }
    )
    built = job.canonical_tables()
    columns = (
        "start_ns, dur_ns, name, is_comm, collective, group_name, group_desc, group_size, group_ranks, "
        "in_elements, out_elements, comm_seq"
    )
    for rank, path in enumerate(job.write_kineto(tmp_path / "run")):
        assert path.name == f"rank{rank}.json"
        assert json.loads(path.read_text())["distributedInfo"]["rank"] == rank
        folder = tmp_path / f"tables{rank}"
        folder.mkdir()
        TraceEventIngester().ingest(path, folder, IngestOptions())
        with duckdb.connect() as database:
            database.register("built", built["gpu_ops"])
            read = database.sql(f"SELECT {columns} FROM '{folder}/0/gpu_ops.parquet' ORDER BY ALL").fetchall()
            told = database.sql(f"SELECT {columns} FROM built WHERE trace_id = {rank} ORDER BY ALL").fetchall()
        assert read == told


def waits_us(**loader: Any) -> list[float]:
    """Return how long each step waits for its batch; a step takes 1,000 us otherwise."""
    told = {"ranks": 1, "steps": 7, "program": [{"next": {"workers": 2, **loader}}, {"py": 1000}]}
    slices = simulate_job(told).ranks[0].recording.slices
    # A wait of no length is no annotation.
    steps = [taken for taken in slices if taken.name.startswith("ProfilerStep#")]
    return [(taken.end_ns - taken.start_ns) / 1000 - 1000 for taken in steps]


def test_workers_that_keep_up_are_never_waited_for_after_the_first_batch() -> None:
    assert waits_us(worker_us=1800) == [1800, 0, 0, 0, 0, 0, 0]


def test_workers_that_do_not_keep_up_starve_the_training_thread() -> None:
    # Two batches of 3,000 us come every 3,000 us, and a step takes 1,000: the second of each pair lies ready.
    assert waits_us(worker_us=3000) == [3000, 0, 1000, 0, 1000, 0, 1000]


def test_workers_prefetch_no_more_than_they_may() -> None:
    # One batch ahead each; batches 2 and 3 are asked for when 0 and 1 are taken.
    assert waits_us(worker_us=[2500, 500], prefetch=1) == [2500, 0, 500, 0, 500, 0, 500]


def test_one_thread_pins_all_batches() -> None:
    assert waits_us(worker_us=100, pin_us=1600) == [1700, 600, 600, 600, 600, 600, 600]
    pinned = simulate_job(
        {"steps": 2, "program": [{"next": {"workers": 2, "worker_us": 100, "pin_us": 50}}, KERNEL]}
    ).ranks[0]
    assert sum(taken.name == "cudaHostAlloc" and taken.thread == 4320 for taken in pinned.recording.slices) == 2


def test_one_rank_is_a_job_too() -> None:
    told = {"steps": 3, "kernels": 10, "loader_us": 900}
    job = simulate_job(told)
    assert job.window_ns == job.ranks[0].window_ns
    ops: tuple[GpuOp, ...] = job.ranks[0].recording.ops
    assert len(ops) == job.canonical_tables()["gpu_ops"].num_rows
