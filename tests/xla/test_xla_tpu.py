"""What a TPU waits for: copies to and from the host, input, other chips; on made-up profiles and a public one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from xla_profiles import DEVICE, TO_DEVICE, TO_HOST, Op, diagnose, rules_of, tpu_space
from xspace import MS, PlaneMaker, Ref, read, space

from traceanalyzer.cli import main
from traceanalyzer.diagnosis.verdict import judge
from traceanalyzer.ingest.xla.tpu import collective_of, moved_by
from traceanalyzer.run import open_run

COMPUTE: Op = ("%fusion.1", "loop fusion", 3.0, "")
OFFLOADS: list[Op] = [
    ("%copy-start", "copy-start", 0.0, f"({DEVICE}, f32[1024,1024]{{1,0:S(5)}}, u32[]) copy-start(%p)"),
    COMPUTE,
    ("%copy-done", "copy-done", 50.0, TO_DEVICE),
    ("%fusion.2", "loop fusion", 2.0, ""),
    ("%copy-done.1", "copy-done", 45.0, TO_HOST),
]


def shares(content: bytes, folder: Path) -> dict[str, float]:
    (ledger,) = diagnose(content, folder).ledgers
    return {bucket: round(ns / ledger.window_ns, 3) for bucket, ns in ledger.buckets if ns}


@pytest.mark.parametrize(
    ("category", "label", "text", "wanted"),
    [
        ("copy-done", "copy-done.4", f"%copy-done.4 = {TO_DEVICE}", ("HtoD", 4194304)),
        ("copy-done", "copy-done.1", f"%copy-done.1 = {TO_HOST}", ("DtoH", 4194304)),
        (
            "copy-done",
            "copy-done",
            f"%copy-done = {DEVICE} copy-done(({DEVICE}, {DEVICE}, u32[]) %s)",
            ("DtoD", 4194304),
        ),
        (
            "copy-start",
            "copy-start",
            f"%copy-start = ({DEVICE}, {DEVICE}, u32[]) copy-start({DEVICE} %p)",
            ("DtoD", None),
        ),
        (None, "copy-done.9", "", ("DtoD", None)),
        ("infeed", "infeed.1", "%infeed.1 = ((bf16[8,128]{1,0}, s32[8]{0}), token[]) infeed(%t)", ("HtoD", 2080)),
        ("outfeed", "outfeed", "%outfeed = token[] outfeed(f32[8] %a)", ("DtoH", None)),
        ("host recv-done", "recv-done.1", "%recv-done.1 = (f32[8]{0}, token[]) recv-done(%r)", ("HtoD", 32)),
        ("host send-done", "send-done.1", "%send-done.1 = token[] send-done(%s)", ("DtoH", None)),
        ("async-done", "slice-done.2", f"%slice-done.2 = {DEVICE} async-done(%s)", ("DtoD", 4194304)),
        ("loop fusion", "copy_fusion", "%copy_fusion = f32[8] fusion(%p)", None),
        ("copy", "copy.3", "%copy.3 = f32[8] copy(%p)", None),
        ("data formatting", "transpose", "%transpose = f32[8] transpose(%p)", None),
    ],
)
def test_the_text_of_an_operation_says_what_it_moves(
    category: str | None, label: str, text: str, wanted: tuple[str, int | None] | None
) -> None:
    assert moved_by(category, label, text) == wanted


@pytest.mark.parametrize(
    ("category", "label", "wanted"),
    [
        ("all-reduce", "all-reduce.1", "all-reduce"),
        ("all-gather-done", "all-gather-done", "all-gather"),
        ("async-done", "all-to-all-done.3", "all-to-all"),
        ("async-done", "slice-done.3", None),
        ("all-reduce fusion", "fusion.7", "all-reduce"),
        ("all-reduce-scatter fusion", "fusion.8", "reduce-scatter"),
        ("send-done", "send-done", "send"),
        ("loop fusion", "all-reduce-scatter-like", None),
        (None, "collective-permute.2", "collective-permute"),
        ("host send-done", "send-done.1", None),
    ],
)
def test_collectives_are_known_by_their_category(category: str | None, label: str, wanted: str | None) -> None:
    assert collective_of(category, label, "") == wanted


def test_a_message_through_the_host_to_another_slice_is_a_collective() -> None:
    text = (
        '%recv-done.1 = (f32[8]{0}, token[]) recv-done(%r), frontend_attributes={_xla_host_transfer_handler_name="X"}'
    )
    assert collective_of("host recv-done", "recv-done.1", text.replace("X", "xla_megascale_runtime")) == "recv"
    assert collective_of("host recv-done", "recv-done.1", text.replace("X", "tf_rendezvous")) is None


@pytest.mark.check
def test_waits_for_copies_are_exposed_time_by_direction_and_no_compute(tmp_path: Path) -> None:
    content = tpu_space(OFFLOADS, warm_up_ms=200)
    assert shares(content, tmp_path) == {"compute": 0.05, "dev.h2d": 0.5, "dev.d2h": 0.45}


@pytest.mark.check
def test_a_program_that_offloads_is_bound_by_its_copies(tmp_path: Path) -> None:
    diagnosis = diagnose(tpu_space(OFFLOADS, warm_up_ms=200), tmp_path)
    assert rules_of(diagnosis) == ["program-offload"]
    (finding,) = diagnosis.findings
    assert "saves up to 95.0 % of the time" in finding.message
    assert "jax." in (finding.fixes[0].code or "")
    assert judge(diagnosis).sentence.startswith("TPU busy with compute 5.0 % of each step.")


@pytest.mark.check
def test_steps_are_the_runs_of_the_program_with_most_time_and_idle_before_them_is_warm_up(tmp_path: Path) -> None:
    (ledger,) = diagnose(tpu_space([COMPUTE], warm_up_ms=500), tmp_path).ledgers
    assert (ledger.step_count, ledger.window_ns) == (5, 15_000_000)


@pytest.mark.check
def test_idle_between_runs_is_idle_and_charged_to_no_copy(tmp_path: Path) -> None:
    assert shares(tpu_space([COMPUTE], gap_ms=1.0), tmp_path) == pytest.approx(
        {"compute": 15 / 19, "edge.no_launch": 4 / 19}, abs=1e-3
    )


@pytest.mark.check
def test_collectives_and_infeed_are_waits_of_their_own(tmp_path: Path) -> None:
    ops: list[Op] = [
        ("%infeed", "infeed", 4.0, f"({DEVICE}, token[]) infeed(%t)"),
        COMPUTE,
        ("%all-reduce", "all-reduce", 3.0, f"{DEVICE} all-reduce(%f)"),
    ]
    content = tpu_space([*ops, ("%fusion.9", "loop fusion", 0.0, "")])
    assert shares(content, tmp_path) == {"compute": 0.3, "dev.h2d": 0.4, "dev.comm_transfer": 0.3}


FEED = f"({DEVICE}, token[]) infeed(%t)"


@pytest.mark.check
@pytest.mark.parametrize(
    ("op", "rule", "message", "fix"),
    [
        (("%infeed.2", "infeed", 4.0, FEED), "program-feeds", "for the next input (infeed)", "device_put"),
        (("%outfeed.3", "outfeed", 4.0, "token[] outfeed(%a)"), "program-feeds", "its results (outfeed)", "totals"),
        (("%recv-done.1", "host recv-done", 4.0, ""), "program-feeds", "answer calls of the program", "io_callback"),
        (("%recv-done.1", "recv-done", 4.0, ""), "comm-blocking", "Operations that are ready to run", "LIBTPU"),
        (("%fusion.4", "all-gather fusion", 4.0, ""), "comm-blocking", "(mostly allgather)", "LIBTPU"),
        (("%reduce-scatter.4", "reduce-scatter", 4.0, ""), "comm-blocking", "(mostly reducescatter)", "LIBTPU"),
        (("%all-to-all.4", "all-to-all", 4.0, ""), "comm-blocking", "(mostly alltoall)", "LIBTPU"),
        (("%ppermute.4", "collective-permute-done", 4.0, ""), "comm-blocking", "(mostly permute)", "LIBTPU"),
    ],
)
def test_a_wait_of_the_program_has_the_rule_of_what_it_waits_for(
    op: Op, rule: str, message: str, fix: str, tmp_path: Path
) -> None:
    (finding,) = diagnose(tpu_space([COMPUTE, op, ("%fusion.9", "loop fusion", 0.1, "")]), tmp_path).findings
    assert finding.rule == rule
    assert message in finding.message
    assert fix in (finding.fixes[0].code or "")
    assert "saves up to 56.3 % of the time" in finding.message


@pytest.mark.check
def test_a_loop_that_contains_operations_hides_no_wait_in_it(tmp_path: Path) -> None:
    """
    while   [-----------------------]
    inside  [fusion][copy-done      ]
    """
    plane = PlaneMaker("/device:TPU:0")
    names = {"%while": "while", "%fusion": "loop fusion", f"%copy-done = {TO_DEVICE}": "copy-done"}
    plane.name_stats = {name: {"hlo_category": Ref(category)} for name, category in names.items()}
    loop, fusion, wait = names
    events: list[Any] = [
        (0, 10 * MS, loop, {}),
        (0, 2 * MS, fusion, {}),
        (2 * MS, 8 * MS, wait, {}),
        (10 * MS, MS, fusion, {}),
    ]
    plane.line(3, "XLA Ops", events, 0)
    tables = read(space(plane), tmp_path)
    assert [(op["name"], op["self_ns"], op["copy_kind"]) for op in tables["gpu_ops"]] == [
        ("while", 0, None),
        ("fusion", None, None),
        ("copy-done", None, "HtoD"),
        ("fusion", None, None),
    ]
    assert shares(space(plane), tmp_path) == pytest.approx({"compute": 3 / 11, "dev.h2d": 8 / 11}, abs=1e-3)


def test_operations_know_their_run_and_runs_the_call_that_started_them(tmp_path: Path) -> None:
    tables = read(tpu_space([COMPUTE], runs=2), tmp_path)
    runs = {row["event_id"]: row["name"] for row in tables["async_slices"] if row["raw_category"] == "XLA Modules"}
    assert [runs[op["run_id"]] for op in tables["gpu_ops"]] == ["jit_init(7)", "jit_step(8)", "jit_step(8)"]
    assert [(row["flow_id"], row["phase"]) for row in tables["flows"]] == [("0", "f"), ("1", "f"), ("2", "f")]


@pytest.mark.check
def test_the_public_profile_of_four_chips_is_bound_by_copies_to_the_hosts_memory(corpus: Path, tmp_path: Path) -> None:
    path = corpus / "xla" / "jax_tpu_v6e4_host_offload.xplane.pb"
    if not path.is_file():
        pytest.skip(f"no {path}")
    diagnosis = diagnose(path, tmp_path)
    assert rules_of(diagnosis) == ["program-offload"]
    (finding,) = diagnosis.findings
    assert "5.0 GiB in 182 to 194 ms: 28 to 29 GB/s" in finding.message
    for ledger in diagnosis.ledgers:
        waited = sum(ns for bucket, ns in ledger.buckets if bucket in ("dev.h2d", "dev.d2h"))
        assert 0.96 < waited / ledger.window_ns < 0.975
        assert round(ledger.window_ns / ledger.step_count / 1e6) == 784
        assert 0.98 * ledger.window_ns < 99 * 784.2e6


@pytest.mark.check
def test_a_tpu_whose_profile_has_no_flops_is_not_told_to_record_shapes(tmp_path: Path) -> None:
    content = tpu_space([("%dot.1", "convolution fusion", 9.0, "")])
    (tmp_path / "host.xplane.pb").write_bytes(content)
    with open_run(tmp_path / "host.xplane.pb", store=tmp_path / "other") as run:
        assert run.sql("SELECT DISTINCT reason FROM flops_utilisation").fetchall() == [("no FLOPs",)]
    (use,) = diagnose(content, tmp_path).flops
    assert use.words == "MFU and HFU unknown: the profile says of no operation how many FLOPs it takes"


def waiting_space(name: str, *, runs: int = 12, apart_ms: float = 0.0) -> bytes:
    """
    host  [slice of this name  ]   [                    ]
    TPU                         [fusion]                 [fusion]
    ms    0                    5   8
    """
    plane, host, starts = PlaneMaker("/device:TPU:0"), PlaneMaker("/host:CPU"), [8 * run for run in range(runs)]
    plane.stats = {"device_type_string": "TPU v5 lite"}
    plane.name_stats = {"%fusion.1": {"hlo_category": Ref("loop fusion")}}
    clock = [{"device_offset_ps": int((at + 5 + apart_ms) * MS), "device_duration_ps": 3 * MS} for at in starts]
    plane.line(
        3, "XLA Ops", [((at + 5) * MS, 3 * MS, "%fusion.1", own) for at, own in zip(starts, clock, strict=True)], 0
    )
    runs_of = [((at + 5) * MS, 3 * MS, "jit_step(8)", {"run_id": run}) for run, at in enumerate(starts)]
    plane.line(2, "XLA Modules", runs_of, 0)
    marks: list[Any] = [(at * MS, 8 * MS, "train", {"step_num": run}) for run, at in enumerate(starts)]
    host.line(9, "python", [*marks, *((at * MS, 4 * MS, name, {}) for at in starts)], 0)
    return space(plane, host)


@pytest.mark.check
def test_a_tpu_that_idles_while_the_host_reads_a_batch_is_said_to_wait_for_it(tmp_path: Path) -> None:
    diagnosis = diagnose(waiting_space("data_wait"), tmp_path)
    (finding,) = diagnosis.findings
    assert finding.rule == "program-waits-for-host"
    assert "the host waits for its next batch (data_wait) for 48.2 % of the time" in finding.message
    assert judge(diagnosis).sentence.endswith(
        "The device waits for the host between runs of its program: fixing it saves up to 48.2 % (1.93× faster)."
    )
    assert finding.saving_share == pytest.approx(0.482, abs=0.001)
    assert diagnosis.not_explained == ()  # the same gaps
    assert diagnosis.traces[0].framework == "jax"  # its program is called jit_step
    assert diagnose(waiting_space("epoch"), tmp_path).findings == ()


@pytest.mark.check
def test_nothing_is_said_of_the_host_where_its_clock_and_the_devices_are_apart(tmp_path: Path) -> None:
    assert diagnose(waiting_space("data_wait", apart_ms=12.0), tmp_path).findings == ()


@pytest.mark.check
def test_a_verdict_on_a_tpu_has_the_words_of_tpus(tmp_path: Path) -> None:
    idle = diagnose(tpu_space([COMPUTE], gap_ms=1.0), tmp_path)
    assert judge(idle).sentence.endswith("no rule explains the rest, mostly “idle between programs” (21.1 %).")
    busy = judge(diagnose(tpu_space([COMPUTE]), tmp_path)).sentence
    assert "rules judge no operations of TPUs" in busy
    assert "kernel" not in busy


@pytest.mark.check
def test_what_a_profile_of_a_tpu_holds_has_the_words_of_tpus(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "vm.xplane.pb").write_bytes(waiting_space("data_wait"))
    assert main(["info", str(tmp_path / "vm.xplane.pb"), "--store", str(tmp_path / "store")]) == 0
    shown = capsys.readouterr().out
    assert "TPU work" in shown and "TPU operations linked to their origin" in shown
    assert "GPU" not in shown
    assert "no launch in the trace" not in shown  # of the operations of a program nobody has one
