"""What counters of Nsight Compute say: of how much time, where the model of costs disagrees, what limits kernels."""

from __future__ import annotations

from collections.abc import Sequence

from traceanalyzer.diagnosis import CountedKernel, KernelCounters, ModelDisagreement
from traceanalyzer.report.blocks import Block, Heading, Paragraph, Section, Table, Text
from traceanalyzer.text.words import counted, duration, listed, name_words, percent

MOST_DISAGREEMENTS = 3
MOST_KERNELS = 5


def counter_sections(counters: KernelCounters, *, verbose: bool) -> list[Section]:
    """Return what counters say; `verbose` adds the kernels with the most headroom."""
    blocks: list[Block] = [Paragraph(f"{_cover_words(counters)} {_model_words(counters)}")]
    if counters.disagreements:
        blocks.append(_disagreements(counters.disagreements[: None if verbose else MOST_DISAGREEMENTS]))
    if verbose and counters.kernels:
        blocks.append(_kernels(counters.kernels[:MOST_KERNELS]))
    if counters.lost_count:
        words = f"{counted(counters.lost_count, 'line or value', 'lines or values')} of the tables could not be read"
        blocks.append(Paragraph(f"{words}; the first: {counters.lost_example}", role="caution"))
    return [
        Section(tuple(blocks), Heading("Kernel counters", (Text(f"Nsight Compute: {listed(counters.files)}", "dim"),)))
    ]


def _disagreements(disagreements: Sequence[ModelDisagreement]) -> Table:
    rows = tuple(
        (
            name_words(item.operator),
            item.input_shapes or "–",
            item.verdict,
            _factor(item.flops_factor),
            _factor(item.traffic_factor),
        )
        for item in disagreements
    )
    columns = ("operator", "shapes", "counters say", "operations / model", "bytes / least")
    return Table(columns, rows, right=frozenset({3, 4}))


def _kernels(kernels: Sequence[CountedKernel]) -> Table:
    rows = tuple(
        (
            name_words(kernel.name),
            duration(kernel.sum_ns),
            kernel.limited_by or "–",
            "–" if kernel.sm_share is None else percent(kernel.sm_share),
            "–" if kernel.memory_share is None else percent(kernel.memory_share),
            "–" if kernel.headroom_ns is None else duration(kernel.headroom_ns),
        )
        for kernel in kernels
    )
    columns = ("kernel", "time", "limited by", "SMs", "memory", "headroom at most")
    return Table(columns, rows, right=frozenset({1, 3, 4, 5}))


def _cover_words(counters: KernelCounters) -> str:
    launches = counted(counters.launch_count, "profiled launch", "profiled launches")
    if not counters.matched_share:
        return f"None of the {launches} is of a kernel in the trace."
    return f"{launches} of kernels that take {percent(counters.matched_share)} of the kernel time."


def _model_words(counters: KernelCounters) -> str:
    if not counters.compared_count:
        return (
            "No operator can be compared with the model of its cost (`traceanalyzer metrics show ncu_model` says why)."
        )
    operators = counted(counters.compared_count, "operator", "operators")
    if not counters.disagreements:
        return f"Of {operators} that can be compared with the model of costs, they contradict none."
    return f"They disagree with the model of costs for {len(counters.disagreements)} of {operators}:"


def _factor(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}×"
