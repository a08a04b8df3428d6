"""Every recorded case by name, with what an expert says of it; they are read where they lie beside the corpus."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from conftest import corpus_path

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.report.json import document as as_json
from traceanalyzer.run import Run, open_run

pytestmark = pytest.mark.check
RECORDINGS = corpus_path().parent / "recordings"
TOLERANCE = 0.002
LOST = ("tq-missing-gpu-activity", "tq-lost-records")


@dataclass(frozen=True)
class Right:
    """What is right of a case: what its diagnosis says, never says, and the shares of the ledgers in their order."""

    says: tuple[str, ...] = ()
    never: tuple[str, ...] = LOST
    ranks: tuple[int | None, ...] = (0,)
    shares: tuple[Mapping[str, float], ...] = ()
    words: tuple[str, ...] = ()
    queries: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""


HEALTHY = Right(never=(*LOST, "tq-damaged-times", "dominant-kernel"), shares=({"compute": 0.997},))
COMMUNICATES = Right(says=("comm-blocking",), shares=({"compute": 0.898, "dev.comm_transfer": 0.099},))
LATE_RANK = Right(
    says=("comm-straggler-wait", "comm-blocking"),
    ranks=(0, 1),
    shares=({"compute": 0.780, "dev.straggler_wait": 0.130}, {"compute": 0.910, "dev.comm_transfer": 0.087}),
    never=(*LOST, "tq-mixed-runs"),
)
LAUNCH_BOUND = Right(
    says=("launch-bound",),
    never=(*LOST, "engine-host-gap"),
    ranks=(None,),
    shares=({"compute": 0.062, "host.op": 0.732},),
    queries={"SELECT count(*) FROM gpu_ops WHERE graph_id IS NOT NULL": 0},
)
OPEN_FRAMES = Right(says=("launch-bound",), shares=({"compute": 0.12, "host.python": 0.597, "host.op": 0.253},))
REAL_FRAMES = Right(says=("launch-bound",), shares=({"compute": 0.156, "host.op": 0.439, "host.python": 0.319},))
TWO_OF_NSYS = Right(
    never=(*LOST, "tq-shared-gpu"), ranks=(0, 1), shares=({"compute": 0.846, "host.op": 0.039}, {"compute": 0.857})
)
GROUPS = Right(
    ranks=(0, 1, 2, 3),
    queries={"SELECT count(*) FROM collective_matches WHERE last_rank IS NOT NULL": 12},
)
REFUSED = Right(error="lacks the tables of kernels and calls, and no trace that traceanalyzer reads")

RIGHT = {
    "cases/00c_ddp_optimizer_item": Right(
        says=("comm-straggler-wait",), ranks=(0, 1), shares=({"dev.straggler_wait": 0.127}, {"compute": 0.911})
    ),
    "cases/00d_allreduce_then_item": Right(
        says=("comm-straggler-wait",),
        ranks=(0, 1),
        shares=({"dev.straggler_wait": 0.130}, {"compute": 0.909}),
        queries={"SELECT DISTINCT last_rank FROM collective_matches": 1},
    ),
    "cases/01_overrun_duration": Right(
        says=("tq-damaged-times",), never=(*LOST, "dominant-kernel"), shares=({"compute": 0.997},)
    ),
    "cases/03_duration_236_years": Right(shares=({"compute": 0.984},), words=("or one over 30",)),
    "cases/03b_kernel_years_ahead": Right(
        says=("tq-damaged-times",),
        shares=({"compute": 0.984},),
        queries={"SELECT span_ns < 1e9 FROM device_time": True},
    ),
    "cases/04_zero_times_second_half": Right(
        shares=({"compute": 0.997},), words=("the time is 0 where all others are far from it",)
    ),
    "cases/05_rocm_shared_correlation": Right(
        says=("tq-low-launch-link",),
        shares=({"compute": 0.902, "edge.no_launch": 0.098, "dev.graph_gap": 0},),
        queries={"SELECT count(launch_id) FROM gpu_ops": 0},
    ),
    "cases/06_rocm_comm_correlation_0": COMMUNICATES,
    "cases/06b_no_api_0": COMMUNICATES,
    "cases/06c_control_linked": COMMUNICATES,
    "cases/07_sync_rows_over_allreduce": COMMUNICATES,
    "cases/09_comm_kernel_names": Right(
        shares=({"compute": 0.326},),
        queries={"SELECT count(DISTINCT name) FROM kernel_class WHERE class = 'comm'": 18},
    ),
    "cases/13d_glue_in_root_frame": OPEN_FRAMES,
    "cases/13e_control": OPEN_FRAMES,
    "cases/13f_20000_unclosed": Right(says=("launch-bound",), shares=({"compute": 0.125},)),
    "cases/13r_h100_vit_open_frames": REAL_FRAMES,
    "cases/13s_h100_vit_control": REAL_FRAMES,
    "cases/15_sglang_merged": LATE_RANK,
    "cases/17_gpu_clock_two_days_off": Right(
        says=("tq-damaged-times",), never=(*LOST, "launch-bound", "host-stalls"), shares=({"compute": 0.997},)
    ),
    "cases/19_graph_replays_partly_recorded": Right(
        says=("tq-graph-partly-recorded",),
        shares=({"compute": 0.772, "edge.not_recorded": 0.170},),
        words=("8 were recorded in part",),
    ),
    "cases/27_decimal_commas": HEALTHY,
    "cases/28_group_local_messages": GROUPS,
    "cases/28b_control_global_names": GROUPS,
    # Its files name one process, as PyTorch's handler does. Inside are two pids on two devices, which an expert takes
    # for two ranks; the case was made from a run of two ranks by other names. What must hold is that the stamp is no
    # rank, and that two recordings of the same time are never pooled without a word.
    "cases/33d_default_names_two_cycles": Right(
        says=("tq-mixed-runs",), ranks=(None,), shares=({"compute": 0.910},), words=("show the same time",)
    ),
    # Its README says one process recorded twice, and its files hold two pids on two devices at the same time, whose
    # collectives match: names that say nothing of a process are not believed against that. So: two ranks, both unknown.
    "cases/33g_names_iteration": Right(
        says=LATE_RANK.says, never=(*LATE_RANK.never, "tq-missing-ranks"), ranks=(None, None), shares=LATE_RANK.shares
    ),
    "cases/48_base_boundary": LATE_RANK,
    "cases/49_same_rank_twice": LATE_RANK,
    "cases/50_pdl_overlap": Right(never=(*LOST, "tq-damaged-times"), shares=({"compute": 0.993},)),
    "cases/54_sglang_step_names": Right(shares=({"compute": 0.952},), queries={"SELECT count(*) FROM iterations": 24}),
    "cases/55_capture_traces_beside": Right(
        never=HEALTHY.never, shares=HEALTHY.shares, words=("holds launches that were recorded into graphs",)
    ),
    "cases/57_copies_of_3_seconds": Right(
        says=("tq-damaged-times",), never=(*LOST, "d2h-large"), shares=({"compute": 0.960},)
    ),
    "cases/58_mig_slice": Right(
        shares=({"compute": 0.997},), queries={"SELECT count(memory_gb_per_s) FROM device_peaks": 0}
    ),
    "cases/N1_start_end_ranges_only": Right(
        ranks=(0, 1),
        shares=({"compute": 0.864}, {"compute": 0.867}),
        queries={"SELECT count(*) FROM steps": 20},
    ),
    "cases/N2_table_suffixes": TWO_OF_NSYS,
    "cases/N4_negative_times": TWO_OF_NSYS,
    "cases/N7_each_rank_device_0": TWO_OF_NSYS,
    "cases/N8_mps_two_processes_one_gpu": Right(
        says=("tq-shared-gpu",), ranks=(None, None), words=("2 processes share one GPU", "95.8 % of")
    ),
    "small/api_error_700_unsaid.sqlite": Right(
        says=("tq-device-failed",), never=(), words=("returned 700 (illegal memory access)",)
    ),
    "small/ascend_trace_view.json": Right(
        ranks=(None,), shares=({"compute": 0.115},), queries={"SELECT count(*), sum(dur_ns) FROM gpu_ops": (40, 180000)}
    ),
    "small/copies_in_tail.sqlite": Right(
        says=("d2h-large", "h2d-pageable"), ranks=(None,), shares=({"dev.d2h": 0.699, "host.memcpy_block": 0.262},)
    ),
    "small/driver_newer_than_nsys.sqlite": Right(
        says=("tq-cannot-record",), never=(), words=("Update Nsight Systems",)
    ),
    "small/graph_id_absent.json": LAUNCH_BOUND,
    "small/graph_id_zero.json": LAUNCH_BOUND,
    "small/inf_then_negative_duration.json": Right(
        ranks=(None,), words=("a value is out of any range",), queries={"SELECT count(*) FROM gpu_ops": 3}
    ),
    "small/max_error_is_no_failure.sqlite": Right(never=(*LOST, "tq-program-failed"), ranks=(None,)),
    "small/merged_ranks_nccl_only.json.gz": Right(
        says=("comm-last-rank",), ranks=(0, 1, 2, 3), words=("Rank 3 (device 5) enters 15 of 15",)
    ),
    "small/merged_ranks_same_correlations.json": Right(
        ranks=(0, 1), queries={"SELECT count(*), count(launch_id) FROM gpu_ops": (120, 120)}
    ),
    "small/not_nsys.db": REFUSED,
    "small/not_nsys.db.gz": REFUSED,
    "small/pinned_copy_booked_as_sync.sqlite": Right(
        says=("h2d-exposed",), ranks=(None,), shares=({"dev.h2d": 0.454, "dev.d2h": 0.441},)
    ),
    "small/rpd_gpu_process.json": Right(ranks=(None,), queries={"SELECT count(*) FROM gpu_ops": 12}),
    "operators/autocast_bmm.json": Right(
        shares=({"compute": 0.260},),
        queries={
            "SELECT precision, round(floor_share, 2) FROM operator_efficiency WHERE operator = 'aten::bmm'": (
                "half",
                0.65,
            )
        },
    ),
    "operators/compile_fake_mm.json": Right(
        shares=({"compute": 0.120},), queries={"SELECT call_count FROM op_summary WHERE name = 'aten::mm'": 2}
    ),
    "operators/label_with_quote_event_lost.json": Right(never=(), ranks=(), words=("mended-text",)),
    "operators/overload_names.json": Right(
        shares=({"compute": 0.175},),
        queries={"SELECT operator, family FROM operator_efficiency": ("aten::add", "elementwise")},
    ),
    "operators/unfinished_step.json": Right(
        shares=({"compute": 0.600},),
        queries={
            "SELECT (dur_sum_ns - cut_sum_ns) // (call_count - cut_count) FROM ranges WHERE name = 'forward' "
            "AND path IS NULL": 400_000
        },
    ),
}


@pytest.mark.skipif(not RECORDINGS.is_dir(), reason="no recorded cases beside the corpus")
def test_every_recorded_case_is_named_here() -> None:
    files = [path for folder in ("small", "operators") for path in (RECORDINGS / folder).iterdir()]
    names = {f"cases/{path.name}" for path in (RECORDINGS / "cases").iterdir()}
    names |= {f"{path.parent.name}/{path.name}" for path in files if path.suffix != ".md"}
    assert names == set(RIGHT)


@pytest.mark.parametrize("name", RIGHT)
def test_a_recorded_case_is_believed_as_far_as_an_expert_believes_it(name: str, corpus: Path, tmp_path: Path) -> None:
    path = corpus.parent / "recordings" / name
    if not path.exists():
        pytest.skip(f"no {path.name}")
    right = RIGHT[name]
    path = path / "input" if path.is_dir() else path
    if right.error:
        with pytest.raises(TraceAnalyzerError, match=right.error):
            open_run(path, store=tmp_path, with_settings=False)
        return
    with open_run(path, store=tmp_path, with_settings=False) as run:
        found = as_json(run.diagnose())
        assert {query: answer(run, query) for query in right.queries} == right.queries
    fired = {item["rule"] for item in found["findings"]}
    assert set(right.says) <= fired
    assert not set(right.never) & fired
    assert tuple(ledger["rank"] for ledger in found["ledgers"]) == (right.ranks if found["ledgers"] else ())
    for ledger, shares in zip(found["ledgers"], right.shares, strict=False):
        buckets = {part["bucket"]: part["share"] for part in ledger["buckets"]}
        assert {bucket: buckets.get(bucket, 0) for bucket in shares} == pytest.approx(dict(shares), abs=TOLERANCE)
    text = json.dumps(found, ensure_ascii=False)
    assert [words for words in right.words if words not in text] == []


def answer(run: Run, query: str) -> Any:
    """Return the only row of a query, or its only value."""
    (row,) = run.connection.execute(query).fetchall()
    return row[0] if len(row) == 1 else row
