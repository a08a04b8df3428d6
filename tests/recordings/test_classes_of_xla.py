"""What is right of reported recordings of PyTorch and Nsight is right of profiles of XLA: replays and copies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from test_properties import Found, diagnosed
from xspace import US, Event, PlaneMaker, space

pytestmark = pytest.mark.check
LATER_NS = 10**8


def found_of(work: Sequence[Event], copies: Sequence[Event], calls: Sequence[Event], folder: Path) -> Found:
    """Return the diagnosis of a profile of one GPU and one thread."""
    gpu = PlaneMaker("/device:GPU:0").line(1, "Stream #1(Compute)", work, LATER_NS)
    if copies:
        gpu.line(2, "Stream #2(MemcpyH2D,MemcpyD2H)", copies, LATER_NS)
    gpu.stats = {"device_vendor": "Nvidia", "core_count": 132, "compute_cap_major": 9, "compute_cap_minor": 0}
    folder.mkdir(exist_ok=True)
    (folder / "host.xplane.pb").write_bytes(space(gpu, PlaneMaker("/host:CPU").line(9, "python", calls, LATER_NS)))
    return diagnosed(folder / "host.xplane.pb", folder / "store")


def shares(found: Found) -> dict[str, float]:
    """Return the shares of the buckets of the only device."""
    (ledger,) = found["ledgers"]
    return {part["bucket"]: part["share"] for part in ledger["buckets"]}


def kernel(at_us: int, us: int, number: int, name: str = "fusion", **more: int) -> Event:
    details = "regs:32 static_shared:0 dynamic_shared:0 grid:1024,1,1 block:256,1,1 occ_pct:50"
    return at_us * US, us * US, name, {"correlation_id": number, "kernel_details": details, **more}


def copy(at_us: int, us: int, number: int, name: str, size_bytes: int, memory: str) -> Event:
    source, target = ("device", memory) if name == "MemcpyD2H" else (memory, "device")
    details = f"kind_src:{source} kind_dst:{target} size:{size_bytes} dest:0 async:0"
    return at_us * US, us * US, name, {"correlation_id": number, "memcpy_details": details}


def call(at_us: int, us: int, number: int, name: str) -> Event:
    return at_us * US, us * US, name, {"correlation_id": number}


@pytest.mark.parametrize("names_graph", [True, False])
@pytest.mark.parametrize("few", [12, 3])
def test_a_replay_that_was_recorded_in_part_leaves_no_idle_time(few: int, names_graph: bool, tmp_path: Path) -> None:
    def replay(number: int) -> list[Event]:
        ids: list[dict[str, Any]] = [
            {"cuda_graph_id": 77, "cuda_graph_node_id": 100 + at} if names_graph else {} for at in range(12)
        ]
        begin_us, count = 600 * number + 12, few if number % 4 == 2 else 12
        return [kernel(begin_us + 40 * at, 38, number + 1, f"fusion_{at}", **ids[at]) for at in range(count)]

    work = [event for number in range(30) for event in replay(number)]
    calls = [call(600 * number, 8, number + 1, "cuGraphLaunch") for number in range(30)]
    found = found_of(work, [], calls, tmp_path)
    rules = {finding["rule"]: finding["message"] for finding in found["findings"]}
    assert ("tq-graph-partly-recorded" in rules) is (few == 3)
    assert shares(found)["host.other"] == pytest.approx(0.195, abs=0.002)
    if few == 3:
        assert "7 were recorded in part: about 63 operations are missing" in rules["tq-graph-partly-recorded"]
        assert shares(found)["edge.not_recorded"] == pytest.approx(0.143, abs=0.002)


def test_time_in_which_the_host_waits_for_a_pinned_copy_is_that_of_the_copy(tmp_path: Path) -> None:
    work, copies, calls = [], [], []
    for turn in range(30):
        at, number = 740 * turn, 10 * turn + 1
        calls += [call(at, 6, number, "cuMemcpyHtoDAsync_v2"), call(at + 8, 405, number + 1, "cuStreamSynchronize")]
        calls += [
            call(at + 416, 5, number + 2, "cuLaunchKernel"),
            call(at + 423, 304, number + 3, "cuStreamSynchronize"),
        ]
        copies.append(copy(at + 10, 400, number, "MemcpyH2D", 2**23, "pinned"))
        work.append(kernel(at + 425, 300, number + 2))
    found = found_of(work, copies, calls, tmp_path)
    assert "h2d-exposed" in {finding["rule"] for finding in found["findings"]}
    assert shares(found)["dev.h2d"] == pytest.approx(0.533, abs=0.002)
    assert shares(found)["host.sync"] < 0.05


def test_copies_behind_the_last_kernel_are_copies_and_explained(tmp_path: Path) -> None:
    copies = [copy(5, 6_000, 1, "MemcpyH2D", 2**26, "pageable"), copy(6_025, 6_000, 2, "MemcpyH2D", 2**26, "pageable")]
    calls = [call(0, 6_008, 1, "cuMemcpyHtoDAsync_v2"), call(6_020, 6_008, 2, "cuMemcpyHtoDAsync_v2")]
    calls += [call(12_040 + 27 * at, 4, 10 + at, "cuLaunchKernel") for at in range(30)]
    work = [kernel(12_046 + 28 * at, 25, 10 + at) for at in range(30)]
    calls.append(call(12_900, 30_020, 90, "cuMemcpyDtoHAsync_v2"))
    copies.append(copy(12_910, 30_000, 90, "MemcpyD2H", 2**26, "pageable"))
    found = found_of(work, copies, calls, tmp_path)
    rules = {finding["rule"] for finding in found["findings"]}
    assert {"d2h-large", "h2d-pageable"} <= rules
    assert shares(found).get("edge.tail", 0) < 0.01
    assert shares(found)["dev.d2h"] == pytest.approx(0.70, abs=0.01)
    assert "No rule explains" not in found["verdict"]["sentence"]
