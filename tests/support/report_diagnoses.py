"""Hand-made diagnoses that the reporters' tests print."""

from __future__ import annotations

import dataclasses

from traceanalyzer.diagnosis import (
    DeviceLedger,
    Diagnosis,
    Evidence,
    Finding,
    Fix,
    FixPlan,
    KernelClass,
    Outcome,
    PlannedFix,
    TopKernel,
    TraceDefect,
    TraceSummary,
)

MS = 1_000_000


def trace(name: str = "rank0.json.gz", rank: int | None = 0, gpu_op_count: int = 9_300) -> TraceSummary:
    """A trace of 120,000 events."""
    return TraceSummary(name, "kineto", rank, None, 120_000, gpu_op_count, False)


def ledger(name: str = "rank0.json.gz", rank: int | None = 0, device: int = 0, **shares: float) -> DeviceLedger:
    """A ledger of six steps of 177.6 ms; `host__python=0.1` is the bucket `host.python`, compute is the rest."""
    window_ns = round(6 * 177.6 * MS)
    buckets = {bucket.replace("__", "."): round(share * window_ns) for bucket, share in shares.items()}
    buckets["compute"] = window_ns - sum(buckets.values())
    largest_first = tuple(sorted(buckets.items(), key=lambda b: -b[1]))
    return DeviceLedger(
        *(name, rank, device, "Tesla V100-SXM2-16GB", window_ns, 6, "ProfilerStep", largest_first),
        marked_step_ns=round(177.4 * MS),
        kernel_classes=kernel_classes(buckets["compute"]),
        top_kernels=top_kernels(buckets["compute"], window_ns),
        peaks_known=True,
        unjudged_share=0.01,
    )


def kernel_classes(compute_ns: int) -> tuple[KernelClass, ...]:
    """Mostly convolutions."""
    shares = {"conv": 0.6, "elementwise": 0.2, "norm": 0.15, "reduce": 0.04, "other": 0.01}
    return tuple(KernelClass(name, round(share * compute_ns), share, 600) for name, share in shares.items())


def top_kernels(compute_ns: int, window_ns: int) -> tuple[TopKernel, ...]:
    """Four kernels of 600 calls each."""
    kernels = {
        "volta_scudnn_128x64_relu_interior_nn_v1": ("conv", 0.4),
        "volta_scudnn_128x32_3dconv_fprop_small_nn_v1": ("conv", 0.2),
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>": ("elementwise", 0.15),
        "void cudnn::bn_fw_tr_1C11_singleread<float, 512, true, 1, 2, 0>": ("norm", 0.1),
    }
    return tuple(
        TopKernel(
            *(name, kernel_class, round(share * compute_ns), share * compute_ns / window_ns, 600),
            mean_ns=round(share * compute_ns / 600),
        )
        for name, (kernel_class, share) in kernels.items()
    )


def loader_finding(**changes: object) -> Finding:
    """The input pipeline costs a third of the step."""
    finding = Finding(
        rule="dataloader-bound",
        title="The GPU waits for the data loader",
        kind="finding",
        severity="critical",
        confidence="high",
        confidence_because="measured in 15 steps",
        trace="rank0.json.gz",
        rank=0,
        device=0,
        message="The input pipeline costs up to 33 % of the step; the longest wait is 71.2 ms in step 3",
        why="The thread that launches this device's kernels sits in DataLoader.__next__ while no compute kernel runs.",
        saving_ns=round(355.9 * MS),
        saving_share=0.334,
        owned_ns=round(355.9 * MS),
        owned_share=0.334,
        marginal_ns=round(355.9 * MS),
        marginal_order=1,
        status="primary",
        evidence=(
            Evidence(
                "Longest waits of the GPU",
                ("step", "at_ms", "ms", "during", "operator", "python", "start_ns", "dur_ns"),
                (
                    (3, 1_204.5, 71.2, "DataLoader.__next__", None, "train.py(41): main", 10_204_500_000, 71_200_000),
                    (1, 704.5, 61.3, "DataLoader.__next__", None, "train.py(41): main", 9_704_500_000, 61_300_000),
                ),
            ),
        ),
        fixes=(
            Fix(
                "Load batches in worker processes and pin their memory",
                "DataLoader(dataset, num_workers=8, pin_memory=True, persistent_workers=True)",
                effort="one-line",
            ),
        ),
        references=("https://docs.pytorch.org/docs/stable/data.html",),
        params={"min_share": 0.05},
    )
    return dataclasses.replace(finding, **changes)  # type: ignore[arg-type]


def precision_finding() -> Finding:
    """Tensor cores are idle."""
    return loader_finding(
        rule="tensor-cores-unused",
        title="Matmuls run in full precision and do not use the tensor cores",
        severity="medium",
        confidence="medium",
        confidence_because="estimated",
        message="68 % of kernel time is spent in kernels that could use tensor cores and do not",
        why="cuDNN and cuBLAS pick FP32 kernels because inputs are float32.",
        saving_ns=round(88.0 * MS),
        saving_share=0.083,
        owned_ns=round(120.0 * MS),
        owned_share=0.113,
        marginal_ns=round(88.0 * MS),
        marginal_order=2,
        evidence=(),
        fixes=(
            Fix(
                "Run the forward pass in bfloat16", "with torch.autocast('cuda', torch.bfloat16):\n    loss = model(x)"
            ),
        ),
    )


def quality_finding(severity: str = "warning") -> Finding:
    """The window holds the profiler's warm-up."""
    return loader_finding(
        rule="tq-warmup-in-window",
        title="The profiler's warm-up lies inside the window",
        kind="quality",
        severity=severity,
        message="Step 0 takes 4.1 times as long as the median and was left out",
        why="",
        saving_ns=None,
        saving_share=None,
        owned_ns=None,
        owned_share=None,
        marginal_ns=None,
        marginal_order=None,
        evidence=(),
        fixes=(Fix("Give the schedule a warm-up", "schedule(wait=1, warmup=2, active=5)"),),
    )


def plan() -> FixPlan:
    """The loader first, then the tensor cores."""
    window_ns = round(6 * 177.6 * MS)
    saved = [round(355.9 * MS), round(88.0 * MS)]
    return FixPlan(
        trace="rank0.json.gz",
        rank=0,
        device=0,
        window_ns=window_ns,
        step_count=6,
        fixes=(
            PlannedFix("dataloader-bound", "primary", saved[0], window_ns - saved[0]),
            PlannedFix("tensor-cores-unused", "primary", saved[1], window_ns - sum(saved)),
        ),
    )


def sick(**changes: object) -> Diagnosis:
    """A run with two findings, a warning about the trace and two rules that abstained."""
    diagnosis = Diagnosis(
        run="run42",
        traces=(trace(),),
        ledgers=(ledger(host__dataloader=0.334, host__python=0.071, dev__h2d=0.02, dev__unresolved=0.02),),
        findings=(quality_finding(), loader_finding(), precision_finding()),
        outcomes=(
            Outcome("dataloader-bound", "…", "fired", "rank0.json.gz", 0, 0),
            Outcome("tensor-cores-unused", "…", "fired", "rank0.json.gz", 0, 0),
            Outcome("launch-bound", "…", "clear", "rank0.json.gz", 0, 0),
            Outcome(
                "comm-exposed", "…", "abstained", "rank0.json.gz", 0, 0, "missing", "no collectives", "trace every rank"
            ),
            Outcome(
                "alloc-in-step",
                "…",
                "abstained",
                "rank0.json.gz",
                0,
                0,
                "missing",
                None,
                "profile(profile_memory=True)",
            ),
        ),
        not_explained=(
            ("host.python", round(0.071 * 6 * 177.6 * MS)),
            ("dev.unresolved", round(0.02 * 6 * 177.6 * MS)),
        ),
        plans=(plan(),),
        defects=(TraceDefect("rank0.json.gz", "negative-duration", "repair", 3, 4_711, "Ends before its start."),),
    )
    return dataclasses.replace(diagnosis, **changes)  # type: ignore[arg-type]


def healthy() -> Diagnosis:
    """A run that computes 97.5 % of the time."""
    return sick(ledgers=(ledger(host__python=0.025),), findings=(), not_explained=(), defects=(), plans=())


def many_ranks() -> Diagnosis:
    """Sixteen ranks, two devices each, of which one rank is late."""
    names = [f"rank{rank}.json.gz" for rank in range(16)]
    ledgers = [
        ledger(
            name, rank, device, dev__comm_transfer=0.2 if rank != 11 else 0.01, host__python=0.01 if rank != 11 else 0.2
        )
        for rank, name in enumerate(names)
        for device in (0, 1)
    ]
    return sick(
        traces=tuple(trace(name, rank) for rank, name in enumerate(names)),
        ledgers=tuple(ledgers),
        findings=(loader_finding(trace="rank11.json.gz", rank=11), loader_finding(same_on_ranks=tuple(range(11)))),
        plans=(),
    )


def without_gpu() -> Diagnosis:
    """A CPU-only run: every rule abstains."""
    blind = tuple(
        Outcome(
            rule, "…", "abstained", "rank0.json.gz", 0, None, "no GPU work", None, "profile with ProfilerActivity.CUDA"
        )
        for rule in ("dataloader-bound", "launch-bound", "comm-exposed")
    )
    return sick(
        traces=(trace(gpu_op_count=0),), ledgers=(), findings=(), outcomes=blind, not_explained=(), defects=(), plans=()
    )
