"""Operations of compiled programs: their categories, and their rates against the peaks that the profile gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from xla_profiles import diagnose, rules_of
from xspace import MS, US, Event, PlaneMaker, Ref, space

import traceanalyzer
from traceanalyzer.answers.top import top
from traceanalyzer.diagnosis.findings import worth_share
from traceanalyzer.run import open_run


def tpu(*, with_peaks: bool) -> bytes:
    plane = PlaneMaker("/device:TPU:0")
    plane.stats = {"device_type_string": "TPU v5e"}
    if with_peaks:
        plane.stats |= {"peak_teraflops_per_second": 200.0, "peak_hbm_bw_gigabytes_per_second": 800.0}
    written: dict[str, tuple[str, int, int]] = {
        "%dot.1": ("convolution", 10**11, 10**8),
        "%add.1": ("loop fusion", 10**6, 4 * 10**8),
        "%copy-done.1": ("copy-done", 0, 10**9),
    }
    plane.name_stats = {
        name: {"hlo_category": Ref(category), "flops": flops, "model_flops": flops, "bytes_accessed": moved}
        for name, (category, flops, moved) in written.items()
    }
    events: list[tuple[int, int, str, dict[str, Any]]] = [
        (at * MS, MS, name, {}) for at, name in enumerate([*written, *written])
    ]
    return space(plane.line(3, "XLA Ops", events, 0))


def rows(content: bytes | Path, folder: Path, query: str) -> list[tuple[Any, ...]]:
    path = content if isinstance(content, Path) else folder / "vm.xplane.pb"
    if isinstance(content, bytes):
        path.write_bytes(content)
    with traceanalyzer.open(path, store=folder / "store") as run:
        return list(run.sql(query).fetchall())


COLUMNS = "name, category, call_count, flops_share, bytes_share, limited_by, floor_ns"


def test_operations_have_shares_of_the_devices_own_peaks(tmp_path: Path) -> None:
    found = rows(tpu(with_peaks=True), tmp_path, f"SELECT {COLUMNS} FROM hlo_ops ORDER BY name")
    assert found == [
        ("add.1", "loop fusion", 2, pytest.approx(5e-6), pytest.approx(0.5), "memory", pytest.approx(1e6)),
        ("copy-done.1", "copy-done", 2, None, None, None, None),
        ("dot.1", "convolution", 2, pytest.approx(0.5), pytest.approx(0.125), "compute", pytest.approx(1e6)),
    ]


def test_a_loop_has_no_operations_beside_those_inside_it(tmp_path: Path) -> None:
    """
    while  [-----------------------------]
    inside [dot     ][dot     ][dot     ]
    ms     0         1         2          3.1

    XLA's cost analysis gives a loop the operations of one pass through its body (jax 0.10.2: cost_analysis() of a
    scan over twelve products is one product). xprof's op profile (op_profile_builder.cc) leaves them out where an
    operation contains others.
    """
    plane = PlaneMaker("/device:TPU:0")
    plane.stats = {"peak_teraflops_per_second": 200.0, "peak_hbm_bw_gigabytes_per_second": 800.0}
    cost = {"flops": 10**11, "model_flops": 10**11, "bytes_accessed": 10**8}
    plane.name_stats = {
        "%while.1": {"hlo_category": Ref("while"), **cost},
        "%dot.1": {"hlo_category": Ref("convolution"), **cost},
    }
    dots: list[Event] = [(at * MS, MS, "%dot.1", {}) for at in range(3)]
    content = space(plane.line(3, "XLA Ops", [(0, 3 * MS + 100 * US, "%while.1", {}), *dots], 0))
    query = "SELECT name, sum_ns, flops, model_flops, bytes, flops_share, limited_by, headroom_ns IS NULL FROM hlo_ops"
    assert rows(content, tmp_path, query) == [
        ("dot.1", 3_000_000, 3e11, 3e11, 3e8, pytest.approx(0.5), "compute", False),
        ("while.1", 100_000, None, None, None, None, None, True),
    ]


def test_without_peaks_there_are_rates_and_no_shares(tmp_path: Path) -> None:
    query = "SELECT name, flops_per_s, flops_share, limited_by, headroom_ns FROM hlo_ops WHERE name = 'dot.1'"
    assert rows(tpu(with_peaks=False), tmp_path, query) == [("dot.1", pytest.approx(1e14), None, None, None)]


def test_the_operators_of_a_run_of_compiled_programs_are_their_operations(tmp_path: Path) -> None:
    (tmp_path / "vm.xplane.pb").write_bytes(tpu(with_peaks=True))
    with open_run(tmp_path / "vm.xplane.pb", store=tmp_path / "store") as run:
        answer = top(run.connection, "operators", "headroom")
        assert [(row["name"], row["category"], row["limited_by"]) for row in answer.rows] == [
            ("add.1", "loop fusion", "memory"),
            ("dot.1", "convolution", "compute"),
            ("copy-done.1", "copy-done", None),
        ]
        assert top(run.connection, "operators").metric == "hlo_ops"


@pytest.mark.check
def test_own_time_of_operations_of_a_public_profile_is_that_of_xprof(corpus: Path, tmp_path: Path) -> None:
    path = corpus / "xla" / "jax_tpu_v6e4_host_offload.xplane.pb"
    if not path.is_file():
        pytest.skip(f"no {path}")
    query = "SELECT name, sum(sum_ns), sum(call_count) FROM hlo_ops GROUP BY name ORDER BY 2 DESC, 1 LIMIT 8"
    known = {
        "copy-done.4": 77773215731250,
        "copy-done.2": 77642772818750,
        "copy-done": 75671038513750,
        "copy-done.5": 72946182662500,
        "broadcast_add_fusion.1": 3262107413750,
        "broadcast_add_fusion": 3190582365000,
        "broadcast_add_fusion.2": 3167203858750,
        "all-reduce": 1460345258750,
    }
    found = rows(path, tmp_path, query)
    assert [name for name, _, _ in found] == list(known)
    # A length in whole nanoseconds is less than one off: from the nanosecond of its start to that of its end.
    assert all(abs(int(ns) * 1000 - known[name]) < 1000 * count for name, ns, count in found)


@pytest.mark.check
def test_an_operation_that_threads_run_at_once_takes_no_more_than_the_time(tmp_path: Path) -> None:
    """
    python   [step                ][step                ] …
    worker 1 [dot          ]       [dot          ]
    worker 2    [dot          ]       [dot          ]
    ms       0  1          5 6     8
    """
    host = PlaneMaker("/host:CPU")
    marks: list[Any] = [(at * MS, 8 * MS, "train", {"step_num": at}) for at in range(0, 48, 8)]
    host.line(1, "python", marks, 0)
    for line, late in ((2, 0), (3, 1)):
        stats = {"hlo_op": "dot", "hlo_module": "jit_f", "run_id": 1}
        host.line(line, f"tf_XLAEigen/{line}", [((at + late) * MS, 5 * MS, "dot", stats) for at in range(0, 48, 8)], 0)
    (ledger,) = diagnose(space(host), tmp_path).host_ledgers
    assert ledger.step_count == 5  # the first one warms up
    (dot,) = ledger.top_operators
    assert (dot.share, dot.self_ns, dot.call_count) == (6 / 8, 50 * MS // 1000, 10)


@pytest.mark.check
def test_operators_of_threads_that_run_at_once_share_the_time_of_the_step(tmp_path: Path) -> None:
    """
    python   [train                 ]
    worker 1 [dot           ]
    worker 2 [add   ][      ]
    worker 3                [add    ]
    ms       0       2      4       6   8
    """
    host = PlaneMaker("/host:CPU")
    host.line(1, "python", [(at * MS, 8 * MS, "train", {"step_num": at}) for at in range(0, 48, 8)], 0)
    work = {2: [("dot", 0, 4)], 3: [("add", 0, 2), ("exp", 2, 2), ("add", 2, 1)], 4: [("add", 4, 2)]}
    for line, ops in work.items():
        events = [
            ((at + start) * MS, ms * MS, name, {"hlo_op": name}) for at in range(0, 48, 8) for name, start, ms in ops
        ]
        host.line(line, f"tf_XLAEigen/{line}", events, 0)
    (ledger,) = diagnose(space(host), tmp_path).host_ledgers
    # The second add lies inside exp, with half of the time until it ends.
    assert {op.name: op.share for op in ledger.top_operators} == {"add": 3.5 / 8, "dot": 2 / 8, "exp": 0.5 / 8}
    assert sum(op.share for op in ledger.top_operators) == dict(ledger.buckets)["host.op"] / ledger.window_ns


def test_an_operator_that_ends_with_the_last_step_has_its_whole_time(tmp_path: Path) -> None:
    host = PlaneMaker("/host:CPU")
    host.line(1, "python", [(at * MS, 8 * MS, "train", {"step_num": at}) for at in range(0, 48, 8)], 0)
    events = [((at + 2) * MS, 6 * MS, "dot", {"hlo_op": "dot"}) for at in range(0, 48, 8)]
    host.line(2, "tf_XLAEigen/2", events, 0)
    (ledger,) = diagnose(space(host), tmp_path).host_ledgers
    assert [op.share for op in ledger.top_operators] == [6 / 8]


def test_without_steps_the_thread_is_the_one_that_calls_programs(tmp_path: Path) -> None:
    """
    python [load_data  ][call]        [load_data  ][call]
    worker                  [dot     ]                  [dot     ]
    ms     0            6     8      12            18    20     24
    """
    host = PlaneMaker("/host:CPU")
    calls: list[Any] = [(at * MS, 6 * MS, "$train.py:3 load_data", {}) for at in range(0, 48, 12)]
    calls += [((at + 6) * MS, 2 * MS, "PjitFunction(step)", {}) for at in range(0, 48, 12)]
    host.line(1, "python", calls, 0)
    host.line(2, "tf_XLAEigen/2", [((at + 8) * MS, 4 * MS, "dot", {"hlo_op": "dot"}) for at in range(0, 48, 12)], 0)
    (ledger,) = diagnose(space(host), tmp_path).host_ledgers
    # From the first call to the last operator; what the program did before may be anything.
    assert (ledger.step_count, ledger.window_ns) == (0, 42 * MS // 1000)
    found = {bucket: ns // (MS // 1000) for bucket, ns in ledger.buckets if ns}
    assert found == {"host.dataloader": 3 * 6, "host.op": 4 * 4, "host.python": 4 * 2}


def fed_devices(device_count: int, batch_ms: float, *, steps: int = 8, launch_order: int = 1) -> bytes:
    """Return a profile of a program that loads a batch, then computes 4 ms on each device and reduces gradients.

    A launch order of -1 calls for the second part first.
    """
    host: list[Event] = []
    calls: list[Event] = []
    work: list[list[Event]] = [[] for _ in range(device_count)]
    parts = [("dot.2", 200, 4_000, "gemm_fusion_dot_2"), ("all-reduce.1", 4_200, 1_000, "ncclDevKernel_AllReduce_Sum")]
    for step in range(steps):
        begin = int((1 + step * (batch_ms + 6)) * MS)
        called = begin + int((batch_ms + 0.1) * MS)
        host.append((begin, int((batch_ms + 5.9) * MS), "train", {"_r": 1, "step_num": step}))
        host.append((begin + 10 * US, int(batch_ms * MS), "load_batch", {}))
        host.append((called - 50 * US, 500 * US, "PjitFunction(train_step)", {}))
        for device, own in enumerate(work):
            for nth, (op, at_us, length_us, kernel) in enumerate(parts):
                about = {"correlation_id": len(calls) + 1, "hlo_module": "jit_train_step", "hlo_op": op}
                at = called + (nth * 10 * launch_order + device * 20) * US
                calls.append((at, 6 * US, "cuLaunchKernel", {"device_id": device, **about}))
                own.append((called + at_us * US, length_us * US, kernel, about))
    planes = [
        PlaneMaker(f"/device:GPU:{device}").line(13, "Stream #13(Compute)", own) for device, own in enumerate(work)
    ]
    return space(PlaneMaker("/host:CPU").line(9, "python", host).line(10, "py_xla_execute/10", calls), *planes)


@pytest.mark.check
@pytest.mark.parametrize("device_count", [1, 2, 4])
def test_a_batch_that_all_devices_of_a_program_wait_for_is_found(device_count: int, tmp_path: Path) -> None:
    diagnosis = diagnose(fed_devices(device_count, 5.0), tmp_path)
    # One finding, of all devices alike. Work is 5.2 of 11 ms; without the batch, a step takes 6 ms.
    (found,) = [finding for finding in diagnosis.findings if finding.rule == "dataloader-bound"]
    assert worth_share(found) == pytest.approx(5 / 11, abs=0.03)
    assert found.same_on_devices == (tuple(range(device_count)) if device_count > 1 else ())
    assert "mp_prefetch" in (found.fixes[0].code or "")


@pytest.mark.check
@pytest.mark.parametrize("device_count", [1, 2])
def test_a_batch_is_found_where_work_runs_before_work_that_was_launched_first(
    device_count: int, tmp_path: Path
) -> None:
    diagnosis = diagnose(fed_devices(device_count, 5.0, launch_order=-1), tmp_path)
    (found,) = [finding for finding in diagnosis.findings if finding.rule == "dataloader-bound"]
    assert worth_share(found) == pytest.approx(5 / 11, abs=0.03)


@pytest.mark.check
@pytest.mark.parametrize("device_count", [1, 2, 4])
def test_a_batch_that_is_there_in_time_is_no_limit_of_several_devices(device_count: int, tmp_path: Path) -> None:
    diagnosis = diagnose(fed_devices(device_count, 0.02), tmp_path)
    assert "dataloader-bound" not in rules_of(diagnosis)
