"""Timelines worked out by hand: launch 6 us, latency 2 us, gap 1 us, return from a wait 4 us, api minimum 8 us."""

from __future__ import annotations

from typing import Any

from tracesim import SimulatedRun, simulate

KERNEL = {"kernel": {"class": "elementwise", "us": 10}}


def program(*actions: dict[str, Any], **conditions: Any) -> SimulatedRun:
    return simulate({"steps": 1, "program": list(actions), **conditions})


def device_us(run: SimulatedRun) -> list[tuple[str, int, float, float]]:
    """Return (kind, stream, start, end) of each device op in microseconds."""
    return [(op.kind, op.stream, op.start_ns / 1000, op.end_ns / 1000) for op in run.recording.ops]


def calls_us(run: SimulatedRun) -> list[tuple[str, float, float]]:
    """Return (name, start, end) of each runtime call in microseconds."""
    return [
        (taken.name, taken.start_ns / 1000, taken.end_ns / 1000)
        for taken in run.recording.slices
        if taken.category == "runtime"
    ]


def test_a_kernel_starts_when_its_launch_has_arrived_and_the_one_before_is_done() -> None:
    # host   |py|launch|py|launch|
    #        0  3      9  12     18
    # stream             |====K0====| |====K1====|
    #                    11        21 22        32
    run = program({"repeat": 2, "do": [{"py": 3}, KERNEL]})
    assert device_us(run) == [("kernel", 7, 11, 21), ("kernel", 7, 22, 32)]


def test_a_late_host_leaves_the_stream_idle() -> None:
    # host   |launch|------- py 30 -------|launch|
    #        0      6                     36     42
    # stream          |=K0=|                       |=K1=|
    #                 8   18                       44  54
    run = program(KERNEL, {"py": 30}, KERNEL)
    assert device_us(run) == [("kernel", 7, 8, 18), ("kernel", 7, 44, 54)]


def test_host_lateness_is_blamed_on_what_the_host_did() -> None:
    # Of the 26 us without compute, the 36 us between the launches give the shares: 30 of Python, 6 of launching.
    run = simulate({"steps": 2, "program": [{"py": 30}, KERNEL]})
    assert run.window_ns == 36_000
    assert run.true_ledger == {"compute": 10_000, "host.python": 21_667, "host.launch_api": 4_333}


def test_a_blocking_launch_returns_four_microseconds_after_its_kernel() -> None:
    # host   |---launch------|py|---launch------|
    #        0              22  25              47
    # stream          |=K0=|             |=K1=|
    #                 8   18             33  43
    run = program(KERNEL, {"py": 3}, KERNEL, blocking_launches=True)
    assert device_us(run) == [("kernel", 7, 8, 18), ("kernel", 7, 33, 43)]
    assert calls_us(run)[:2] == [("cudaLaunchKernel", 0, 22), ("cudaLaunchKernel", 25, 47)]


def test_a_capture_launches_nothing_before_its_graph_is_replayed() -> None:
    # host   |begin|launch|launch|end|instantiate|replay|
    #        0     1      7     13  14          64     76
    # stream                                              |=K0=| |=K1=|
    #                                                     78  88 89  99
    captured = {"capture": {"instantiate_us": 50}, "do": [KERNEL, KERNEL]}
    run = program(captured, {"graph": {}})
    assert [name for name, _, _ in calls_us(run)[:6]] == [
        "cudaStreamBeginCapture",
        "cudaLaunchKernel",
        "cudaLaunchKernel",
        "cudaStreamEndCapture",
        "cudaGraphInstantiateWithFlags",
        "cudaGraphLaunch",
    ]
    assert device_us(run) == [("kernel", 7, 78, 88), ("kernel", 7, 89, 99)]


def test_a_low_clock_slows_what_computes_and_not_what_moves_data() -> None:
    gemm = {"kernel": {"class": "gemm", "us": 10}}
    run = program(gemm, KERNEL, core_clock=0.5)
    assert [op.end_ns - op.start_ns for op in run.recording.ops] == [20_000, 10_000]


def test_devices_of_one_process_run_beside_each_other_and_start_a_transfer_together() -> None:
    # host      |replica 0|replica 1|
    # device 0            |====K====|
    # device 1                      |====K====|
    program_of_two = [{"replicas": {"us": 30}, "do": [KERNEL]}]
    run = simulate({"steps": 1, "device_count": 2, "program": program_of_two})
    kernels = [op for op in run.recording.ops if op.kind == "kernel"]
    broadcasts, work = kernels[:2], kernels[2:]
    assert [op.device for op in work] == [0, 1]
    assert len({op.end_ns for op in broadcasts}) == 1
    assert broadcasts[0].end_ns == max(op.start_ns for op in broadcasts) + 30_000
    # One after the other is issued; both run at once.
    assert work[0].start_ns <= work[1].start_ns < work[0].end_ns


def test_an_allocation_that_fails_for_good_is_told_by_both_calls_and_an_event() -> None:
    run = program({"hold": 64}, {"oom": {"mb": 4_000, "frees": 2}}, memory=True)
    calls = [(taken.name, taken.return_value) for taken in run.recording.slices if taken.category == "runtime"]
    assert calls[:4] == [("cudaMalloc", 2), ("cudaFree", 0), ("cudaFree", 0), ("cudaMalloc", 2)]
    failed = run.recording.memory[-1]
    assert (failed.address, failed.size_bytes, failed.allocated_bytes) == (None, 4_000 * 2**20, 64 * 2**20)


def test_a_device_synchronisation_returns_four_microseconds_after_the_last_op() -> None:
    # host   |launch|---sync---------|
    #        0      6               22
    # stream          |====K====|
    #                 8        18
    run = program(KERNEL, {"sync": "device"})
    assert calls_us(run)[1] == ("cudaDeviceSynchronize", 6, 22)


def test_a_synchronisation_with_nothing_to_wait_for_costs_its_minimum() -> None:
    run = program({"sync": "stream"})
    assert calls_us(run)[0] == ("cudaStreamSynchronize", 0, 8)


def test_a_stream_is_done_when_what_it_was_told_to_wait_for_is() -> None:
    # host   |launch|record|wait|---sync------|      the compute stream has nothing of its own to do
    #        0      6      7    8             22
    # stream 31             |====K====|
    #                 8        18
    told: list[dict[str, Any]] = [
        {"event_record": {"stream": 31, "event": "a"}},
        {"stream_wait": {"on": "compute", "event": "a"}},
    ]
    run = program({"kernel": {"us": 10, "stream": 31}}, *told, {"sync": "stream"})
    assert calls_us(run)[3] == ("cudaStreamSynchronize", 8, 22)


def test_an_event_waits_for_what_its_stream_was_told_to_wait_for() -> None:
    # stream 31   |====K====|
    # stream 40   |         |event           which has nothing of its own to do
    # stream 7               |====K====|
    told: list[dict[str, Any]] = [
        {"event_record": {"stream": 31, "event": "a"}},
        {"stream_wait": {"on": 40, "event": "a"}},
        {"event_record": {"stream": 40, "event": "b"}},
        {"stream_wait": {"on": "compute", "event": "b"}},
    ]
    first, second = device_us(program({"kernel": {"us": 30, "stream": 31}}, *told, KERNEL))
    assert second[2] == first[3] + 1


def test_light_host_work_after_a_wait_is_the_waits_fault() -> None:
    # host    |launch|sync      |py|launch|         the wait blocked for 16 - 8 us; after it the GPU idles for
    #         0      6         22  25     31        33 - 18 us, all of which follows from having waited: 8 us of it
    # stream           |==K==|              |==K==| are given to the wait, the rest stays with Python and launch
    run = simulate({"steps": 2, "program": [{"py": 3}, KERNEL, {"sync": "device"}]})
    assert run.true_ledger["host.sync"] == 8_000
    assert sum(run.true_ledger.values()) == run.window_ns


def test_item_is_a_copy_and_a_wait_inside_two_operators() -> None:
    run = program(KERNEL, {"item": 1})
    nested = [(taken.name, taken.start_ns // 1000, taken.end_ns // 1000) for taken in run.recording.slices[3:7]]
    assert nested == [
        ("aten::item", 6, 24),
        ("aten::_local_scalar_dense", 6, 24),
        ("cudaMemcpyAsync", 6, 12),
        ("cudaStreamSynchronize", 12, 24),
    ]
    # K runs 8-18, the copy 19-20, the host goes on at 24.
    assert device_us(run) == [("kernel", 7, 8, 18), ("memcpy", 7, 19, 20)]


def test_a_copy_stream_runs_beside_compute_and_compute_waits_for_it() -> None:
    # copy            |======copy 50======|
    #                 8                  58
    # compute                               |==K==|
    #                                       59   69
    run = program({"h2d": {"us": 50}}, {"kernel": {"class": "elementwise", "us": 10}})
    assert device_us(run) == [("memcpy", 20, 8, 58), ("kernel", 7, 59, 69)]
    assert simulate({"steps": 2, "program": [{"h2d": {"us": 50}}, KERNEL]}).true_ledger["dev.h2d"] > 0


def test_a_pageable_copy_blocks_the_host_until_it_is_done() -> None:
    # 12 MB at 12 GB/s are 1000 us: stream 8-1008, the call returns at 1012, the synchronisation after it is free.
    run = program({"h2d": {"mb": 12e6 / 2**20, "pinned": False}})
    assert device_us(run) == [("memcpy", 7, 8, 1008)]
    assert calls_us(run)[:2] == [("cudaMemcpyAsync", 0, 1012), ("cudaStreamSynchronize", 1012, 1020)]


def test_a_pinned_copy_returns_at_once() -> None:
    run = program({"h2d": {"us": 1000, "stream": "compute"}})
    assert calls_us(run)[0] == ("cudaMemcpyAsync", 0, 6)


def test_a_full_launch_queue_blocks_the_launch_until_a_slot_is_free() -> None:
    # depth 2: the third launch waits for K0 (8-18), so its call lasts 12-18.
    run = program({"repeat": 3, "do": [KERNEL]}, queue_depth=2)
    assert calls_us(run)[:3] == [
        ("cudaLaunchKernel", 0, 6),
        ("cudaLaunchKernel", 6, 12),
        ("cudaLaunchKernel", 12, 18),
    ]
    longer = program({"repeat": 3, "do": [{"kernel": {"class": "elementwise", "us": 40}}]}, queue_depth=2)
    assert calls_us(longer)[2] == ("cudaLaunchKernel", 12, 48)
    assert longer.recording.ops[2].queue_full_ns == 30_000


def test_kernels_on_two_streams_overlap_and_count_once() -> None:
    # stream 7    |====K0====|            8-18
    # stream 9          |====K1====|      14-24
    run = simulate(
        {"steps": 2, "program": [{"py": 40}, KERNEL, {"kernel": {"class": "elementwise", "us": 10, "stream": 9}}]}
    )
    assert device_us(run)[:2] == [("kernel", 7, 48, 58), ("kernel", 9, 54, 64)]
    assert run.true_ledger["compute"] == 16_000


def test_a_graph_replays_many_kernels_with_one_call() -> None:
    run = simulate({"steps": 2, "program": [{"graph": {"kernels": 3, "us": 10, "class": "elementwise"}}, {"py": 100}]})
    assert [op[2] for op in device_us(run)[:3]] == [14, 25, 36]
    assert calls_us(run)[0] == ("cudaGraphLaunch", 0, 12)
    assert len({op.correlation for op in run.recording.ops}) == 2
    assert run.true_ledger["dev.graph_gap"] == 2_000


def test_a_blocking_collective_keeps_compute_waiting() -> None:
    # host    |K|e|w| AR |e|w|K'|          each launch 6 us, each event call 1 us
    # compute   8 |=K=| 18                               120 |=K'=| 130
    # comm                 19 |==== all-reduce 100 ====| 119
    # The host is late until 24, then the collective runs for another 95 us. In the second step the host is far ahead.
    run = simulate({"steps": 3, "program": [KERNEL, {"comm": {"us": 100}}, KERNEL], "world_size": 2})
    assert device_us(run)[:3] == [("kernel", 7, 8, 18), ("kernel", 24, 19, 119), ("kernel", 7, 120, 130)]
    assert run.true_ledger["dev.comm_transfer"] == 95_000 + 100_000
    assert run.true_ledger["host.launch_api"] == 6_000


def test_cuda_free_waits_for_the_device() -> None:
    run = program({"kernel": {"class": "elementwise", "us": 500}}, {"free": {"us": 100}})
    assert calls_us(run)[1] == ("cudaFree", 6, 512)


def test_the_backward_pass_launches_from_the_autograd_thread() -> None:
    run = simulate({"steps": 1, "kernels": 12})
    threads = {taken.thread for taken in run.recording.slices if taken.name.startswith("autograd::engine")}
    assert threads == {4310}
    assert all(taken.sequence for taken in run.recording.slices if taken.name.startswith("autograd::engine"))
