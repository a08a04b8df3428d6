"""Programs as real exports showed them that may not be copied: what leads, and the fix for the program at hand."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import program_findings
import pytest
from cuda_program import A100, GH200, ORIN, CudaProgram, write_programs
from program_findings import lead_of, words

from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.diagnosis.verdict import judge

pytestmark = pytest.mark.check

Case = tuple[tuple[CudaProgram, ...], str, str, str]
ADD = "add(int, float *, float *)"


def diagnosed(folder: Path, *programs: CudaProgram) -> Diagnosis:
    return program_findings.diagnosed(write_programs(folder / "report1.sqlite", *programs))


def one_kernel(threads: int, us: float) -> CudaProgram:
    program = CudaProgram(A100)
    program.call("cudaMallocManaged_v6000", 180_000)
    program.host(900_000)
    program.launch(ADD, us, 1, threads)
    program.synchronize()
    program.call("cudaFree_v3020", 4_000)
    return program


def copied_in_a_loop() -> CudaProgram:
    """27 s, of which 1.4 s are left once alloc, copies and free are out of the loop."""
    program = CudaProgram(A100)
    for _ in range(100):
        for _ in range(3):
            program.call("cudaMalloc_v3020", 300)
        program.copy("HtoD", 400_000_000, 110_000)
        program.copy("HtoD", 400_000_000, 110_000)
        program.launch("vectorAdd(const float *, const float *, float *, int)", 900, 390_625, 256)
        program.copy("DtoH", 400_000_000, 38_000)
        for _ in range(3):
            program.call("cudaFree_v3020", 2_500, waits=True)
    return program


def migrating() -> CudaProgram:
    program = CudaProgram(A100)
    start_us, end_us = program.launch("sum(float *, int)", 109_000, 4096, 256)
    program.moves("HtoD", 6_144, start_us + 10, end_us - 700, 345_000)
    program.synchronize()
    program.moves("DtoH", 6_144, program.now_us + 50, program.now_us + 160_000, 345_000)
    return program


def touched_by_the_host(*, move_count: int) -> CudaProgram:
    """The host works for 3 ms between two kernels, and touches managed memory, which moves page by page."""
    program = CudaProgram(A100)
    for _ in range(40):
        start_us, _ = program.launch("relax(float *, int)", 9_000, 4_096, 256)
        program.moves("HtoD", move_count, start_us + 5, start_us + 25 * move_count, 300_000)
        program.synchronize()
        program.moves("DtoH", move_count, program.now_us + 10, program.now_us + 9 * move_count, 300_000)
        program.host(3_000)
    return program


def interrupted() -> CudaProgram:
    program = CudaProgram(A100)
    for number in range(2_102):
        program.launch("step(float *, int)", 40, 512, 256)
        if number < 2_000:
            program.synchronize()
        program.host(615_700_000 if number == 1_000 else 12)
    return program


def allocating() -> CudaProgram:
    program = CudaProgram(A100)
    for _ in range(300):
        program.call("cudaMalloc_v3020", 180)
        program.launch("relax(float *, int)", 120, 512, 256)
        program.call("cudaFree_v3020", 150, waits=True)
    return program


def on_jetson(*, copies: bool) -> CudaProgram:
    program = CudaProgram(ORIN)
    for _ in range(150):
        if copies:
            program.copy("HtoD", 8_294_400, 1_300)
        program.launch("gray(unsigned char *, unsigned char *)", 900, 2_048, 256)
        if copies:
            program.copy("DtoH", 8_294_400, 1_250)
        else:
            program.synchronize()
            program.host(400)
    return program


def on_grace_hopper() -> CudaProgram:
    program = CudaProgram(GH200)
    for _ in range(60):
        program.copy("HtoD", 256 << 20, 1_200)
        program.launch("stencil(double *, double *, int)", 700, 66_000, 256)
        program.copy("DtoH", 256 << 20, 1_300)
    return program


def with_directives() -> CudaProgram:
    program = CudaProgram(A100, driver_api=True)
    for _ in range(200):
        with program.directive("DATA", "acc_enter_data"):
            program.call("cuMemAlloc_v2", 12)
            program.copy("HtoD", 4 << 20, 700)
        with program.directive("LAUNCH", "acc_compute_construct"):
            program.launch("nvkernel_calc_120_gpu", 300, 4_096, 128)
            program.synchronize()
        with program.directive("DATA", "acc_exit_data"):
            program.copy("DtoH", 4 << 20, 650)
            program.call("cuMemFree_v2", 8)
    return program


def mpi_rank(number: int) -> CudaProgram:
    """Each iteration brings the border to the host, which works with it: its copy waits for the kernel anyway."""
    program = CudaProgram(A100, pid=100 + number, device_id=number)
    for _ in range(150):
        program.copy("DtoH", 65_536, 15)
        program.host(700 if number == 2 else 300)
        program.copy("HtoD", 65_536, 14)
        program.launch("advance(double *, int)", 500, 2_048, 256)
        program.synchronize()
    return program


def meeting(*, slower: float = 1.0, later_us: float = 0.0) -> tuple[CudaProgram, ...]:
    """Four ranks that add up a number in MPI in each iteration: the device or the host of the third one is slower."""
    ranks = tuple(CudaProgram(A100, pid=100 + number, device_id=number) for number in range(4))
    for _ in range(150):
        for number, program in enumerate(ranks):
            program.launch("step(double *, double *, int)", 600 * (slower if number == 2 else 1), 8_192, 128)
            program.copy("DtoH", 8, 2)
            program.host(later_us if number == 2 else 0)
        last_us = max(program.now_us for program in ranks)
        for program in ranks:
            program.exchange("MPI_Allreduce", last_us - program.now_us + 20)
    return ranks


def exchanging(*, directives: bool) -> CudaProgram:
    """A stencil that brings its border to the host in every iteration, and waits in MPI for those of the neighbours."""
    program = CudaProgram(A100, driver_api=directives)
    for _ in range(200):
        program.launch("nvkernel_step_42_gpu" if directives else "step(double *, double *, int)", 600, 8_192, 128)
        program.copy("DtoH", 65_536, 12, pinned=True)
        program.exchange("MPI_Waitall", 800)
        program.copy("HtoD", 65_536, 12, pinned=True)
    return program


def in_turns() -> CudaProgram:
    """Copies from and to pinned memory that each return when they are done, with a kernel between them."""
    program = CudaProgram(A100)
    for _ in range(200):
        program.copy("HtoD", 8 << 20, 350, pinned=True)
        program.launch("step(float *, int)", 500, 8_192, 256)
        program.copy("DtoH", 8 << 20, 350, pinned=True)
        program.host(20)
    return program


def pinning() -> CudaProgram:
    program = CudaProgram(A100)
    for _ in range(200):
        program.call("cudaMallocHost_v3020", 400)
        program.copy("HtoD", 1 << 20, 44, pinned=True)
        program.launch("step(float *, int)", 500, 8_192, 256)
        program.synchronize()
        program.call("cudaFreeHost_v3020", 300)
    return program


def stencil(*, clears: bool) -> CudaProgram:
    """Each iteration copies its result back over its input, or clears what it adds up into."""
    program = CudaProgram(A100)
    for _ in range(200):
        program.launch("step(double *, double *, int)", 500, 8_192, 128)
        (program.clear if clears else program.copy_within)(256 << 20, 300)
    program.synchronize()
    return program


def many_small_kernels() -> CudaProgram:
    """The host is far ahead: what is lost lies between kernels that were all launched long ago."""
    program = CudaProgram(A100)
    for number in range(3_000):
        program.launch(f"part{number % 10}(float *, int)", 2.2, 216, 256, call_us=2)
    program.synchronize()
    return program


# The programs of one file, the rule that must lead, what it must say, and what it must not.
def copying_row_by_row() -> CudaProgram:
    """A shuffle that copies each row with a call of its own, ahead of the kernels of an epoch."""
    program = CudaProgram(A100)
    program.call("cudaMalloc_v3020", 99_000)
    for _ in range(5):
        for _ in range(1_000):
            program.copy_within(2_000, 1.1)
        for _ in range(50):
            program.launch("forward(const float *, float *)", 12, 64, 256)
            program.launch("backward(const float *, float *)", 12, 64, 256)
        program.synchronize()
    return program


def with_cupy() -> CudaProgram:
    """An iteration of CuPy: one kernel for each operator of an expression, and a maximum that the host reads."""
    program = CudaProgram(A100, driver_api=True)
    names = ("add__float64_float64_float64", "multiply__float64_float_float64", "where__bool_float64_float64_float64")
    for _ in range(300):
        for name in names * 2:
            program.launch(f"cupy_{name}", 7, 2_048, 128, call_us=4.6)
        program.launch("cupy_max", 9, 512, 512, call_us=4.6)
        program.copy("DtoH", 8, 1.2)
    return program


def with_jax() -> CudaProgram:
    """A loop in Python that calls a compiled step and reads its error."""
    program = CudaProgram(A100, driver_api=True)
    for _ in range(300):
        for name in ("loop_multiply_fusion", "input_reduce_fusion", "loop_add_fusion_1"):
            program.launch(name, 5, 512, 128, call_us=4)
        program.copy("DtoH", 4, 1.2)
    return program


def simulating_particles() -> CudaProgram:
    """Two kernels share the time of a busy device."""
    program = CudaProgram(A100)
    for step in range(100):
        program.launch("move_particles(Particle *, int)", 9_280, 50_000, 256)
        program.launch("collide(Particle *, int *, int)", 11_155, 1_200, 128)
        program.launch("sample(Particle *, float *)", 3_500, 50_000, 256)
        if step % 10 == 9:
            program.copy("DtoH", 4_000, 2)
    return program


def searching_breadth_first() -> CudaProgram:
    """A search that copies a flag to the device and back around the two kernels of each level."""
    program = CudaProgram(A100)
    levels = ((3, 1), (8, 4), (40, 60), (180, 4_000), (90, 4_000), (20, 800), (9, 100), (5, 20), (3, 4), (3, 2), (3, 1))
    for _ in range(20):
        for us, blocks in levels:
            program.copy("HtoD", 1, 0.9)
            program.launch("visit(int *, int *, bool *, int)", us, blocks, 256)
            program.launch("update(bool *, bool *)", 4, 4_000, 256)
            program.copy("DtoH", 1, 0.9)
    return program


def loading_images() -> CudaProgram:
    """A host that reads each image before it copies it to the device."""
    program = CudaProgram(A100)
    for _ in range(30):
        program.host(33_000)
        program.copy("HtoD", 6_220_800, 1_400)
        program.launch("blur(const unsigned char *, unsigned char *)", 480, 8_100, 256)
        program.copy("DtoH", 2_073_600, 500)
    return program


def working_between_launches() -> CudaProgram:
    """A host that works for some hundred microseconds between long kernels."""
    program = CudaProgram(A100)
    for _ in range(200):
        program.host(400)
        program.launch("histogram(unsigned char *, unsigned int *, int)", 220, 1_024, 256)
        program.synchronize()
        program.host(300)
    return program


CASES: dict[str, Callable[[], Case]] = {
    "one thread for 25.8 s": lambda: ((one_kernel(1, 25.8e6),), "tiny-grid", "1 block of 1 thread on 108 SMs", "ncu"),
    "one block of 256 threads": lambda: ((one_kernel(256, 1.29e6),), "tiny-grid", "1 block of 256 threads", "ncu"),
    "copies in a loop": lambda: (
        (copied_in_a_loop(),),
        "h2d-pageable",
        "take 100 % of the time. Where the host changes nothing in between, only the first and the last copy",
        "DataLoader",
    ),
    "pages that move": lambda: ((migrating(),), "uvm-migration", "24,576 moves of pages", "DataLoader"),
    "one pause of 615.7 s": lambda: (
        (interrupted(),),
        "outlier-pause",
        "most of what is left is “idle after a host synchronization” (36 %)",
        "profiler.schedule",
    ),
    "cudaMalloc around each launch": lambda: (
        (allocating(),),
        "alloc-in-steady-state",
        "mostly cudaMalloc)",
        "PYTORCH_CUDA_ALLOC_CONF",
    ),
    "cudaMallocHost around each launch": lambda: (
        (pinning(),),
        "pinned-alloc-in-loop",
        "398 times in the window (longest in cudaMallocHost)",
        "cudaProfilerStart",
    ),
    "copies in turns": lambda: ((in_turns(),), "d2h-large", "take 60 % of the time", "torch"),
    "copies over the input": lambda: ((stencil(clears=False),), "d2d-exposed", "200 copies (50.0 GiB)", "torch"),
    "memsets in a loop": lambda: ((stencil(clears=True),), "d2d-exposed", "199 memsets (49.8 GiB)", "swap"),
    "small kernels in a full queue": lambda: (
        (many_small_kernels(),),
        "dispatch-gaps",
        "1.0 µs",
        "torch",
    ),
    "copies row by row": lambda: (
        (copying_row_by_row(),),
        "transfers-many-small",
        "5,000 small copies go from one place of the device to another",
        "steady state",
    ),
    "CuPy": lambda: ((with_cupy(),), "unfused-elementwise", "cupy.fuse", "torch.compile"),
    "JAX": lambda: ((with_jax(),), "small-sync-copies", "jax.lax.while_loop", "cudaMemcpyAsync("),
    "two kernels of a busy device": lambda: (
        (simulating_particles(),),
        "dominant-kernel",
        "collide alone takes 47 % of the time",
        "torch",
    ),
    "flags around each level": lambda: (
        (searching_breadth_first(),),
        "small-sync-copies",
        "copies of at most 1 B from or to pageable memory block the host",
        "torch",
    ),
    "images that the host reads": lambda: (
        (loading_images(),),
        "host-stalls",
        "so the host probably reads or prepares the next input",
        "torch",
    ),
    "work of the host between launches": lambda: (
        (working_between_launches(),),
        "host-stalls",
        "pauses 199 times in the window",
        "cudaGraphLaunch",
    ),
    "Jetson that copies": lambda: ((on_jetson(copies=True),), "d2h-large", "cudaHostAllocMapped", "PCIe"),
    "Jetson that does not copy": lambda: (
        (on_jetson(copies=False),),
        "sync-per-launch",
        "149 times, longest in cudaDeviceSynchronize, for 149 launches",
        "cudaMemcpy(",
    ),
    "GH200": lambda: ((on_grace_hopper(),), "d2h-large", "only the first and the last copy", "AutoModel"),
    "OpenACC": lambda: ((with_directives(),), "d2h-large", "acc data", "cudaMemcpyAsync"),
    "MPI in C++": lambda: (
        (exchanging(directives=False),),
        "cpu-collectives",
        "199 times, mostly MPI_Waitall",
        "host_data",
    ),
    "MPI with directives": lambda: (
        (exchanging(directives=True),),
        "cpu-collectives",
        "host_data use_device",
        "interior<<<",
    ),
    "a slower device among ranks that meet in MPI": lambda: (
        meeting(slower=1.6),
        "host-comm-straggler",
        "its device computes 1.60 times as long for as many kernels",
        "cudaMemcpyAsync",
    ),
    "a slower host among ranks that meet in MPI": lambda: (
        meeting(later_us=600),
        "host-comm-straggler",
        "its host keeps the device waiting 90 ms longer",
        "cudaMemcpyAsync",
    ),
    "managed memory that the host touches": lambda: (
        (touched_by_the_host(move_count=300),),
        "uvm-migration",
        "cudaMemPrefetchAsync",
        "nsys profile -t cuda,nvtx,osrt --sample",
    ),
    "a host that works for longer than pages move": lambda: (
        (touched_by_the_host(move_count=60),),
        "host-stalls",
        "nsys profile -t cuda,nvtx,osrt --sample",
        "torch",
    ),
    "four ranks in one file": lambda: (
        tuple(map(mpi_rank, range(4))),
        "sync-in-step",
        "longest in cudaDeviceSynchronize",
        "torch",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_lead_and_its_fix_are_right_for_the_program(name: str, tmp_path: Path) -> None:
    programs, rule, says, never = CASES[name]()
    diagnosis = diagnosed(tmp_path, *programs)
    leading = lead_of(diagnosis)
    assert leading.rule == rule
    assert says in words(leading)
    assert never not in words(leading)
    assert "No rule explains" not in judge(diagnosis).sentence
    assert "PYTORCH" not in " ".join(map(words, diagnosis.findings))
    if len(programs) > 1:
        assert {summary.rank for summary in diagnosis.traces} == set(range(4))


@pytest.mark.parametrize("fault", [{"slower": 1.6}, {"later_us": 600.0}])
def test_ranks_that_are_alike_gain_what_is_promised_of_them(fault: dict[str, float], tmp_path: Path) -> None:
    uneven, even = meeting(**fault), meeting()
    truth = 1 - even[0].now_us / uneven[0].now_us
    saved = lead_of(diagnosed(tmp_path, *uneven)).saving_share
    assert saved is not None
    assert truth - 0.01 <= saved <= truth + 0.01


def test_a_slow_device_of_one_process_is_named_by_its_number_and_by_what_the_others_wait(tmp_path: Path) -> None:
    program = CudaProgram(A100)
    for _ in range(60):
        ends_us = []
        for device in range(4):
            program.use(device)
            ends_us.append(program.launch("stencil(double *, int)", 3_000 if device == 2 else 2_000, 20_000, 256)[1])
        for device, end_us in enumerate(ends_us):
            program.use(device)
            reduce = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096>)"
            program.launch(reduce, max(ends_us) + 60 - end_us, 24, 512)
    leading = lead_of(diagnosed(tmp_path, program))
    assert (leading.rule, leading.device) == ("comm-straggler-wait", 2)
    assert leading.message.startswith("Device 2 is the last to enter 100 % of the collectives with long waits.")
    waited = re.search(r"It blocks 3 other devices together for (\d+)\.\d ms", leading.message)
    assert waited is not None
    assert 170 <= int(waited[1]) <= 192  # 3 devices, 60 times about 1 ms, and the transfers behind these waits
    assert "Compared with the median device, it computes 60.00 ms longer" in leading.message
    assert "Device 2 takes 50 % longer for the same kernels" in words(leading)
    assert "unknown" not in words(leading)
