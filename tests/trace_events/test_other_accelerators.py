"""Programs on Intel's and Ascend's devices whose answer is known: what leads, and whose words the fix is in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from program_findings import diagnosed, lead_of, words
from test_dialects import Event, arrow, drawn, lane, process

from traceanalyzer.diagnosis import Diagnosis

pytestmark = pytest.mark.check
DEVICE, START_US = 4_294_967_295, 1_700_000_000_000_000.0


class Played:
    """A host thread and an in-order queue; times are in microseconds."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.now = START_US
        self.free = 0.0
        self.number = 0

    def queued(self, us: float) -> float:
        """Return when work begins that the host just asked for."""
        self.number += 1
        begin = max(self.now + 3, self.free + 1)
        self.free = begin + us
        return begin


class OnIntel(Played):
    """A program in SYCL, as unitrace records it."""

    def work(self, call: str, name: str, us: float) -> None:
        asked = self.now
        self.now += 6
        begin, number = self.queued(us), self.number
        self.events += [
            drawn(70, 70, call, asked, 6.0, cat="cpu_op", args={"id": number}),
            drawn(DEVICE, 1, name, begin, us, cat="gpu_op", args={"id": number}),
            arrow("s", f"Flow_H2D_{number}_0", number, 70, 70, asked),
            arrow("t", f"Flow_H2D_{number}_0", number, DEVICE, 1, begin),
        ]

    def launch(self, name: str, us: float) -> None:
        self.work("zeCommandListAppendLaunchKernel", f"{name}[SIMD32 {{4096; 1; 1}} {{256; 1; 1}}]", us)

    def copy(self, way: str, us: float) -> None:
        self.work("zeCommandListAppendMemoryCopy", f"zeCommandListAppendMemoryCopy({way})", us)

    def wait(self) -> None:
        end = max(self.now, self.free) + 4
        self.events.append(drawn(70, 70, "zeCommandQueueSynchronize", self.now, end - self.now, cat="cpu_op", args={}))
        self.now = end


class OnAscend(Played):
    """A program of PyTorch, as torch_npu records it."""

    def operator(self, task: str, us: float) -> None:
        asked, launched = self.now, self.now + 10
        begin = max(launched + 9, self.free + 1)
        self.number += 1
        self.free, self.now = begin + us, self.now + 20
        args = {"Task Type": "AI_CORE", "Stream Id": 3, "Task Id": self.number, "connection_id": self.number}
        number = str(self.number)
        self.events += [
            drawn(10, 10, "aten::mm", f"{asked:.3f}", 20.0, cat="cpu_op"),
            drawn(20, 11, "Node@launch", f"{launched:.3f}", 5.0),
            drawn(800, 3, task, f"{begin:.3f}", us, args=args),
            arrow("s", "async_npu", number, 10, 10, f"{asked:.3f}"),
            arrow("f", "async_npu", number, 800, 3, f"{begin:.3f}"),
            arrow("s", "HostToDevice", number, 20, 11, f"{launched:.3f}"),
            arrow("f", "HostToDevice", number, 800, 3, f"{begin:.3f}"),
        ]

    def wait(self) -> None:
        end = max(self.now, self.free) + 6
        self.events.append(drawn(20, 11, "AscendCL@aclrtSynchronizeStream", f"{self.now:.3f}", end - self.now))
        self.now = end


def on_intel(body: Callable[[OnIntel], None], rounds: int) -> list[Event]:
    program = OnIntel()
    for _ in range(rounds):
        body(program)
    program.wait()
    return [process(DEVICE, "DEVICE<host0>[Intel Data Center GPU Max 1550] 0:41:0.0 #0"), *program.events]


def on_ascend(body: Callable[[OnAscend], None], steps: int) -> list[Event]:
    program = OnAscend()
    for step in range(steps):
        begin = program.now
        body(program)
        mark = drawn(10, 10, f"ProfilerStep#{step}", f"{begin:.3f}", program.now - begin, cat="cpu_op")
        program.events.append(mark)
    named = [process(10, "Python"), process(20, "CANN"), process(800, "Ascend Hardware"), lane(20, 11, "Thread 11")]
    return [*named, *program.events]


def waits_after_each_launch(program: OnIntel) -> None:
    program.launch("stencil(double*, double*)", 40)
    program.wait()
    program.now += 5


def copies_in_and_out(program: OnIntel) -> None:
    program.copy("M2D", 1_800)
    program.launch("scale(float*)", 300)
    program.copy("D2M", 1_700)
    program.wait()


def small_kernels(program: OnIntel) -> None:
    for part in range(8):
        program.launch(f"part{part}(float*)", 3)


def reads_each_result(program: OnAscend) -> None:
    for _ in range(20):
        program.operator("MatMulV2", 100)
        program.wait()
        program.now += 30


def loads_batches(program: OnAscend) -> None:
    name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    program.events.append(drawn(10, 10, name, f"{program.now:.3f}", 20_000.0, cat="cpu_op"))
    program.now += 20_000
    for _ in range(30):
        program.operator("MatMulV2", 300)
    program.wait()


def matmuls(program: OnAscend) -> None:
    for _ in range(30):
        program.operator("MatMulV2", 300)


def diagnosis_of(events: list[Event], folder: Path) -> Diagnosis:
    trace = folder / "trace.json"
    trace.write_text(json.dumps({"traceEvents": [{}, *events]}))
    return diagnosed(trace)


@pytest.mark.parametrize(
    ("body", "rounds", "rule", "fix"),
    [
        (waits_after_each_launch, 300, "sync-per-launch", "queue.wait()"),
        (copies_in_and_out, 100, "h2d-exposed", "sycl::malloc_device"),
        (small_kernels, 400, "launch-bound", "command_graph"),
    ],
)
def test_programs_in_sycl_get_fixes_in_sycl(
    body: Callable[[OnIntel], None], rounds: int, rule: str, fix: str, tmp_path: Path
) -> None:
    diagnosis = diagnosis_of(on_intel(body, rounds), tmp_path)
    leading = lead_of(diagnosis)
    assert (leading.rule, fix in words(leading)) == (rule, True)
    said = " ".join(map(words, diagnosis.findings))
    assert not [name for name in ("jax", "cudf", "gmx", "cuda", "ncu ", "torch") if name in said]


def test_a_wait_of_ascend_is_one(tmp_path: Path) -> None:
    leading = lead_of(diagnosis_of(on_ascend(reads_each_result, 20), tmp_path))
    assert leading.rule == "sync-per-launch"
    assert "360 times, longest in AscendCL@aclrtSynchronizeStream, for 360 launches" in leading.message


@pytest.mark.parametrize("thread", [10, 11])
def test_a_thread_of_ascend_launches_for_the_one_that_loads_batches(thread: int, tmp_path: Path) -> None:
    """Its calls lie in a process of their own, under its number, or that of a thread that takes them from a queue."""
    events = [{**event, "tid": thread} if event.get("pid") == 20 else event for event in on_ascend(loads_batches, 12)]
    leading = lead_of(diagnosis_of(events, tmp_path))
    assert (leading.rule, "_SingleProcessDataLoaderIter" in str(leading.evidence)) == ("dataloader-bound", True)
    assert leading.saving_share == pytest.approx(20 / 29, abs=0.01)


def test_busy_devices_of_others_are_left_alone(tmp_path: Path) -> None:
    def multiplies(program: OnIntel) -> None:
        program.launch("gemm_kernel", 1_500)

    for number, events in enumerate((on_intel(multiplies, 300), on_ascend(matmuls, 20))):
        folder = tmp_path / str(number)
        folder.mkdir()
        findings = diagnosis_of(events, folder).findings
        assert [finding.rule for finding in findings if not finding.rule.startswith("tq-")] == []
