"""Small programs of PyTorch with one thing wrong each, on any device that `torch_program` knows."""

from __future__ import annotations

from torch_program import Gpu, TorchProgram


def reading_values(gpu: Gpu, add: str) -> TorchProgram:
    """Read a value after every second kernel."""
    program = TorchProgram(gpu)
    for step in range(5):
        with program.step(step):
            for _ in range(20):
                program.run("aten::mm", "gemm_kernel", 300)
                program.run("aten::add", add, 50)
                program.item()
                program.host(200)
    return program


def copying_from_pageable_memory(gpu: Gpu, add: str) -> TorchProgram:
    """Copy each batch from memory that is not pinned."""
    program = TorchProgram(gpu)
    for step in range(5):
        with program.step(step):
            with program.op("aten::to"), program.op("aten::_to_copy"), program.op("aten::copy_"):
                program.copy("HtoD", 300_000_000, 30_000)
            for _ in range(40):
                program.run("aten::mm", "gemm_kernel", 800)
    return program


def launching_small_kernels(gpu: Gpu, add: str) -> TorchProgram:
    """Run kernels that take less time than their launches."""
    program = TorchProgram(gpu, op_us=20)
    for step in range(5):
        with program.step(step):
            for _ in range(300):
                program.run("aten::add", add, 4)
            program.synchronize()
    return program
