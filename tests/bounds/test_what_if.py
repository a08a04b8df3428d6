"""What-if questions: the answer is the joint bound, and what cannot be answered is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pytest

from traceanalyzer.attribution.replay.what_if import (
    Answer,
    Change,
    Faster,
    _at_roof,
    causes_named,
    parse_faster,
    what_if,
)
from traceanalyzer.cli import main
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.run import open_run
from tracesim import in_memory, simulate, simulate_job

pc: Any = pyarrow.compute

LOADER_AND_ITEM = {"steps": 7, "kernels": 100, "kernel_us": 80, "loader_us": 5000, "item_per_step": 1}
SAMPLE = "sample_traces/slow_loader"


def answer(change: Change, **scenario: Any) -> Answer:
    return what_if(in_memory.connect_tables(simulate(LOADER_AND_ITEM | scenario).canonical_tables()), change)


def test_parts_that_win_the_same_time_are_counted_once() -> None:
    (device,) = answer(Change(("host.dataloader", "host.sync"))).devices
    loader, sync = (part.saved_ns or 0 for part in device.parts)
    assert device.saved_ns is not None
    assert max(loader, sync) <= device.saved_ns < loader + sync


@pytest.mark.check
def test_faster_kernels_win_what_a_rerun_with_faster_kernels_wins() -> None:
    run = simulate(LOADER_AND_ITEM | {"loader_us": 200})
    (device,) = what_if(in_memory.connect_tables(run.canonical_tables()), Change((), (Faster("compute", 2),))).devices
    truth = run.true_saving_share(kernel_scale={"compute": 0.5}, first_step=1, last_step=6)
    assert (device.saved_ns or 0) / device.window_ns == pytest.approx(truth, abs=0.01)


# The simulator gives a matrix product the sizes that take its duration at 60 % of the device's peak rate.
BUSY = {"steps": 5, "kernels": 40, "kernel_us": 800, "device": "H100"}


@pytest.mark.check
def test_operators_at_their_roof_win_what_a_rerun_at_the_peak_rate_wins() -> None:
    run = simulate(BUSY)
    (device,) = what_if(in_memory.connect_tables(run.canonical_tables()), Change(at_roof=True)).devices
    truth = run.true_saving_share(kernel_scale={"gemm": 0.6}, first_step=1, last_step=4)
    assert 0.37 < truth < 0.4
    assert (device.saved_ns or 0) / device.window_ns == pytest.approx(truth, abs=0.005)
    assert [(part.change, part.saved_ns) for part in device.parts] == [("operators at their roof", device.saved_ns)]


@pytest.mark.check
def test_a_product_at_its_roof_takes_its_operations_over_the_peak_rate() -> None:
    con = in_memory.connect_tables(simulate(BUSY).canonical_tables())
    ((op_id, m, dur_ns),) = con.sql("""
        SELECT ops.op_id, CAST(input_shapes ->> '$[0][0]' AS BIGINT), ops.dur_ns
        FROM gpu_ops AS ops
        JOIN op_owners AS owners USING (trace_id, op_id)
        JOIN host_slices AS slices ON slices.trace_id = ops.trace_id AND slices.slice_id = owners.operator_id
        WHERE slices.name = 'aten::mm'
        ORDER BY ops.start_ns
        LIMIT 1
    """).fetchall()
    floor_ns = 2 * m * 4096 * 4096 / 989e3
    savings = _at_roof(con)[(0, 0)].savings or {}
    assert savings[op_id] == pytest.approx(dur_ns - floor_ns, abs=1)


@pytest.mark.check
def test_the_answer_says_how_much_of_the_kernel_time_has_a_floor() -> None:
    tables = simulate(BUSY).canonical_tables()
    (device,) = what_if(in_memory.connect_tables(tables), Change(at_roof=True)).devices
    assert device.roof is not None
    kernels = tables["gpu_ops"].filter(pc.equal(tables["gpu_ops"]["kind"], "kernel"))
    products = kernels.filter(pc.match_substring(kernels["name"], "gemm"))
    known_share = pc.sum(products["dur_ns"]).as_py() / pc.sum(kernels["dur_ns"]).as_py()
    assert device.roof.known_share == pytest.approx(known_share)
    assert device.roof.suspect_share == 0
    assert answer(Change(("host.dataloader",))).devices[0].roof is None


@pytest.mark.check
@pytest.mark.parametrize("recorded", [{"shapes": False}, {"device": {"like": "H100", "name": "NVIDIA X1"}}])
def test_a_run_without_shapes_or_peaks_has_no_roof(recorded: dict[str, Any]) -> None:
    con = in_memory.connect_tables(simulate(BUSY | recorded).canonical_tables())
    with pytest.raises(TraceAnalyzerError, match="no operator of the run has a floor") as caught:
        what_if(con, Change(at_roof=True))
    assert "record_shapes=True" in (caught.value.hint or "")


def test_a_pattern_of_names_finds_the_kernels_of_that_name() -> None:
    con = in_memory.connect_tables(simulate(LOADER_AND_ITEM | {"loader_us": 200}).canonical_tables())
    ((name, kernel_class),) = con.sql("SELECT name, class FROM kernel_class_names LIMIT 1").fetchall()
    by_name = what_if(con, Change((), (Faster(name[:12].upper(), 2),)))
    by_class = what_if(con, Change((), (Faster(kernel_class, 2),)))
    assert [d.saved_ns for d in by_name.devices] == [d.saved_ns for d in by_class.devices]


def test_a_family_stands_for_all_its_causes() -> None:
    assert {"host.sync", "host.gc"} <= set(causes_named(["host"]))
    assert causes_named(["host.*"]) == causes_named(["host"])
    assert all(cause.startswith("dev.") for cause in causes_named(["dev"]))


@pytest.mark.check
def test_what_the_run_does_not_hold_is_told_apart_from_what_is_worth_nothing() -> None:
    (device,) = answer(Change(("host.python",))).devices
    assert [part.seen for part in device.parts] == [True]
    with pytest.raises(TraceAnalyzerError, match=r"'host.gc': the run has no time of this cause") as caught:
        answer(Change(("host.python", "host.gc")))
    assert caught.value.hint is not None
    assert "host.dataloader" in caught.value.hint
    assert "host.gc" not in caught.value.hint


@pytest.mark.check
def test_a_rank_that_the_run_does_not_hold_is_an_error_that_names_its_ranks() -> None:
    con = in_memory.connect_tables(simulate_job(LATE_RANK).canonical_tables())
    with pytest.raises(TraceAnalyzerError, match=r"'host.dataloader@7': the run has no rank 7") as caught:
        what_if(con, Change(("host.dataloader@7",)))
    assert caught.value.hint == "ranks here: 0, 1, 2"


@pytest.mark.check
def test_a_cause_that_only_another_rank_has_is_an_error_too() -> None:
    con = in_memory.connect_tables(simulate_job(LATE_RANK).canonical_tables())
    with pytest.raises(TraceAnalyzerError, match=r"'host.gc@1': rank 1 has no time of this cause"):
        what_if(con, Change(("host.gc@1",)))


def test_a_device_without_launches_has_no_answer_and_a_reason() -> None:
    tables = simulate(LOADER_AND_ITEM).canonical_tables()
    ops = tables["gpu_ops"]
    lost = ops.set_column(ops.schema.get_field_index("launch_id"), "launch_id", pa.nulls(ops.num_rows, pa.int64()))
    (device,) = what_if(in_memory.connect_tables(tables | {"gpu_ops": lost}), Change(("host.sync",))).devices
    assert device.saved_ns is None
    assert [part.saved_ns for part in device.parts] == [None]
    assert (device.abstains or "").startswith("low-link-rate")


LATE_RANK = {"ranks": 3, "steps": 6, "kernels": 60, "comm_us": 500, "faults": {"rank": 2, "loader_us": 9_000}}


@pytest.mark.check
def test_one_late_rank_is_worth_the_same_to_all() -> None:
    con = in_memory.connect_tables(simulate_job(LATE_RANK).canonical_tables())
    told = what_if(con, Change(("host.dataloader@2", "host.dataloader@0")))
    assert told.run is not None
    assert told.run.meets
    late, early = (part.saved_ns for part in told.run.parts)
    assert late == told.run.saved_ns
    assert (late or 0) / told.run.window_ns == pytest.approx(
        simulate_job(LATE_RANK).true_saving_share({2: ["host.dataloader"]}), abs=0.01
    )
    assert early == 0
    assert {(device.saved_ns or 0) > 0 for device in told.devices} == {True}


def test_a_run_with_missing_ranks_is_answered_rank_by_rank() -> None:
    tables = simulate_job(LATE_RANK).canonical_tables()
    part = {name: table.filter(pc.less(table["trace_id"], 2)) for name, table in tables.items()}
    told = what_if(in_memory.connect_tables(part), Change(("host.python",)))
    assert told.run is not None
    assert told.run.saved_ns is None
    assert (told.run.abstains or "").startswith("missing-ranks: 2 of 3")
    assert all(device.saved_ns is not None for device in told.devices)


@pytest.mark.check
def test_the_page_of_a_job_has_a_line_for_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    simulate_job(LATE_RANK).write_kineto(tmp_path)
    assert main(["whatif", str(tmp_path), "--remove", "host.dataloader@2"]) == 0
    screen = capsys.readouterr().out
    assert "  the run " in screen
    assert "Ranks wait for each other in collectives." in " ".join(screen.split())


@pytest.mark.parametrize("text", ["gemm", "gemm=", "gemm=1x", "gemm=0x", "=2x", "gemm=1.2.3x", "gemm=-2x"])
def test_factors_that_make_nothing_faster_are_refused(text: str) -> None:
    with pytest.raises(TraceAnalyzerError, match="is not CLASS=FACTORx"):
        parse_faster(text)


def test_names_may_hold_an_equals_sign() -> None:
    assert parse_faster("Traits<N=4>=1.5x") == Faster("Traits<N=4>", 1.5)


@pytest.mark.check
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "no change was given"),
        (["--remove", "host.sinc"], "did you mean 'host.sync'?"),
        (["--remove", "disk"], "host, dev or one of"),
        (["--remove", "host.gc@first"], "names no rank"),
        (["--faster", "qemm=2x"], "classes here: "),
        (["--faster", "(=2x"], "is no pattern"),
        (["--remove", "host.gc"], "causes there: "),
        (["--remove", "host.dataloader@5"], "ranks here: 0"),
    ],
)
def test_questions_that_make_no_sense_say_what_would(
    arguments: list[str], told: str, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["whatif", str(root / SAMPLE), "--store", str(tmp_path), *arguments]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.check
def test_the_answer_fits_a_screen(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    queries = ["--remove", "host.dataloader", "--remove", "host.sync", "--faster", "gemm=2x"]
    assert main(["whatif", str(root / SAMPLE), "--store", str(tmp_path), *queries]) == 0
    screen = capsys.readouterr().out
    assert "what if host.dataloader and host.sync cost nothing, gemm kernels ran 2x as fast?" in screen
    assert "46.70 ms  12.40 ms      −73.4 %     3.76×" in screen
    assert len(screen.splitlines()) < 24


@pytest.mark.check
def test_json_holds_the_same_answer(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    queries = ["--remove", "host.dataloader", "--format", "json"]
    assert main(["whatif", str(root / SAMPLE), "--store", str(tmp_path), *queries]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema_version"] == 1
    (device,) = document["devices"]
    assert device["saved_ns"] == device["parts"][0]["saved_ns"]
    assert device["saved_share"] == pytest.approx(0.6, abs=0.01)


@pytest.mark.check
def test_the_roof_is_asked_for_on_the_command_line(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["whatif", str(root / SAMPLE), "--store", str(tmp_path), "--at-roof"]) == 0
    screen = " ".join(capsys.readouterr().out.split())
    assert "what if each operator took its floor?" in screen
    assert "of the kernel time is in operators with a floor" in screen


def test_the_roof_of_a_real_trace_saves_no_more_than_its_headroom(
    corpus: Path, store_of: Callable[[Path], Path]
) -> None:
    """Of the 392.1 ms above the floors, the launches that the host was late with keep some."""
    path = corpus / "kineto" / "h100_owlv2_inference.json.gz"
    with open_run(path, store=store_of(path)) as run:
        (device,) = run.whatif(at_roof=True).devices
        query = "SELECT sum(headroom_ns) FROM operator_floors WHERE headroom_ns > 0"
        ((headroom_ns,),) = run.sql(query).fetchall()
    assert headroom_ns == pytest.approx(392_098_000, abs=1000)
    assert device.saved_ns == pytest.approx(358_400_000, abs=1_000_000)
    assert device.saved_ns < headroom_ns
    assert device.roof is not None
    assert device.roof.known_share == pytest.approx(0.9997, abs=0.0005)


@pytest.mark.check
@pytest.mark.parametrize(
    "causes",
    [
        ("dev.comm_transfer",),
        ("host.python", "host.launch_api"),
        ("host.python", "host.launch_api", "dev.comm_transfer"),
    ],
    ids=["the transfer", "the host", "both"],
)
def test_limits_that_hide_each_other_are_worth_little_alone_and_much_together(causes: tuple[str, ...]) -> None:
    # A step has 200 launches of 26 us on the host; on the device, 2.2 ms of kernels and a transfer of 3 ms.
    job = simulate_job({"ranks": 2, "steps": 6, "kernels": 200, "kernel_us": 10, "host_us": 20, "comm_us": 3000})
    told = what_if(in_memory.connect_tables(job.canonical_tables()), Change(causes))
    truth = job.true_saving_share(causes)
    assert told.run is not None
    assert (told.run.saved_ns or 0) / told.run.window_ns == pytest.approx(truth, abs=0.01)
    assert truth > 0.4 if len(causes) == 3 else truth < 0.1
