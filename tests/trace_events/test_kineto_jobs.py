"""Jobs of several ranks with PyTorch: what leads, and the fix for the kind of parallelism at hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from program_findings import diagnosed, lead_of, words
from torch_program import A100, FUSED, GEMM, MI300, V100, TorchProgram

pytestmark = pytest.mark.check

Case = tuple[Callable[[int], TorchProgram], str, str, str]
TENSILE = "Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT256x256x64_MI16x16x1_SN_LDSB1"
RCCL = "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)"
SUM = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
NORM = "void at::native::batch_norm_{}<c10::Half, float, float>(at::PackedTensorAccessor)"


def waiting_for(program: TorchProgram, kind: str, name: str, us: float, elements: int) -> None:
    """Run a collective between two kernels."""
    program.after(20, 7)
    program.collective(kind, name, us, elements)
    program.after(7, 20)


def sharded(rank: int) -> TorchProgram:
    """FSDP2 with a compiled model: only its kernels show that it trains."""
    program = TorchProgram(MI300, rank=rank, world=2)
    for step in range(4):
        with program.step(step):
            for layer in range(6):
                with program.inside("user_annotation", f"FSDP::all_gather (layers.{layer})"):
                    waiting_for(program, "_allgather_base", RCCL, 2_600, 100_000_000)
                for _ in range(8):
                    program.run("aten::mm", TENSILE, 800)
            with program.inside("user_annotation", "FSDP::post_backward_reduce"):
                program.after(21, 7)
                program.collective("_reduce_scatter_base", RCCL, 2_700, 100_000_000, stream=21)
            program.run("step", FUSED, 700)
    return program


def normalizing_together(rank: int) -> TorchProgram:
    """SyncBatchNorm: statistics of a few KiB between two kernels of each layer."""
    program = TorchProgram(V100, rank=rank, world=2)
    for step in range(4):
        with program.step(step):
            for _ in range(40):
                program.run(
                    "aten::cudnn_convolution",
                    "volta_fp16_s884cudnn_fp16_256x64_ldg8_relu_f2f_exp_small_nhwc_tn_v1",
                    180,
                )
                with program.op("SyncBatchNorm"):
                    program.run("aten::batch_norm_stats", NORM.format("collect_statistics_kernel"), 25)
                    waiting_for(program, "_allgather_base", RCCL, 60, 1_025)
                    program.run("aten::batch_norm_gather_stats", NORM.format("reduce_statistics_kernel"), 8, 2)
                    program.run("aten::batch_norm_elemt", NORM.format("transform_input_kernel"), 45)
            program.run("step", FUSED, 300)
    return program


def accumulating(rank: int) -> TorchProgram:
    """Four passes before an update, and gradients that travel in each of them."""
    program = TorchProgram(A100, rank=rank, world=2)
    for step in range(4):
        with program.step(step):
            for _ in range(4):
                with program.inside("user_annotation", "DistributedDataParallel.forward"):
                    for _ in range(10):
                        program.run("aten::mm", GEMM, 350)
                with program.on(4_500), program.op("autograd::engine::evaluate_function: MmBackward0"):
                    for _ in range(20):
                        program.run("aten::mm", GEMM, 350)
                    waiting_for(program, "allreduce", SUM, 9_000, 25_000_000)
            with program.inside("user_annotation", "Optimizer.step#AdamW.step"):
                program.run("aten::_fused_adamw_", FUSED, 300)
    return program


# A rank of the job, the rule that must lead, what it must say, and what it must not.
CASES: dict[str, Case] = {
    "FSDP2": (sharded, "fsdp-prefetch", "set_modules_to_forward_prefetch", "head(hidden"),
    "SyncBatchNorm": (normalizing_together, "comm-small-messages", "convert_sync_batchnorm", "bucket_cap_mb"),
    "gradient accumulation": (accumulating, "comm-blocking", "in each of 4 passes before an update", "prefetch"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_lead_and_its_fix_are_right_for_the_job(name: str, tmp_path: Path) -> None:
    rank_of, rule, says, never = CASES[name]
    for rank in range(2):
        rank_of(rank).write(tmp_path / "job" / f"rank{rank}.json")
    diagnosis = diagnosed(tmp_path / "job")
    leading = lead_of(diagnosis)
    assert leading.rule == rule
    assert says in words(leading)
    assert never not in words(leading)
    if name != "FSDP2":
        assert "fsdp-prefetch" not in {finding.rule for finding in diagnosis.findings}
