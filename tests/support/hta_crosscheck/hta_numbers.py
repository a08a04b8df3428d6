"""HTA's own numbers of one trace."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from traceanalyzer.errors import TraceAnalyzerError

# HTA sums up the kernels beyond this many names; no trace has as many.
_EVERY_KERNEL = 10**9


def require_hta() -> Callable[[str], str]:
    """Return HTA's own function from a kernel's name to its kind; raise TraceAnalyzerError where HTA is missing."""
    try:
        with _quiet():  # its import warns about its own use of pandas
            import hta.trace_analysis  # noqa: F401
            from hta.utils.utils import get_kernel_type
    except ImportError as error:
        raise TraceAnalyzerError(
            "Holistic Trace Analysis (HTA) is not installed, or cannot be imported",
            None,
            "it comes with the extra `hta`: pip install 'gpu-traceanalyzer[hta]'",
        ) from error
    return get_kernel_type  # type: ignore[no-any-return]


@dataclass(frozen=True)
class HtaNumbers:
    """HTA's numbers of a trace by name, times in microseconds, without those that HTA cannot compute."""

    values: dict[str, float | None]
    failure: str | None  # what HTA raises instead of reading the trace


def hta_numbers(path: Path, *, keep_last_step: bool = True) -> HtaNumbers:
    """Return HTA's numbers of a PyTorch trace; without `keep_last_step`, HTA leaves out the last profiler step."""
    with _quiet():
        from hta.trace_analysis import TraceAnalysis

        try:
            analysis = TraceAnalysis(
                trace_files={0: str(path.absolute())}, trace_dir="", include_last_profiler_step=keep_last_step
            )
        except Exception as error:  # any failure of HTA is an answer too
            return HtaNumbers({}, f"HTA fails on it: {type(error).__name__}")
        numbers: dict[str, float | None] = {}
        for of in (_temporal, _overlap, _kernels, _kernel_table, _launches, _queue, _full_queue, _bandwidth):
            # Without GPU events or launches HTA fails in its own ways; the trace then has no number.
            with suppress(Exception):
                numbers |= of(analysis)
    known = {name: None if value is None or math.isnan(value) else float(value) for name, value in numbers.items()}
    return HtaNumbers(known, None)


@contextmanager
def _quiet() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _temporal(analysis: Any) -> dict[str, float | None]:
    row = analysis.get_temporal_breakdown(visualize=False).iloc[0]
    return {
        "kernel time": row["kernel_time(us)"],
        "idle time": row["idle_time(us)"],
        "compute time": row["compute_time(us)"],
        "non-compute time": row["non_compute_time(us)"],
    }


def _overlap(analysis: Any) -> dict[str, float | None]:
    return {"overlap": analysis.get_comm_comp_overlap(visualize=False).iloc[0]["comp_comm_overlap_pctg"]}


def _kernels(analysis: Any) -> dict[str, float | None]:
    _, kernels = analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=_EVERY_KERNEL)
    sums = kernels.groupby("kernel_type")["sum (us)"].sum()
    return {
        "compute kernels": sums.get("COMPUTATION", 0),
        "communication kernels": sums.get("COMMUNICATION", 0),
        "copies and memsets": sums.get("MEMORY", 0),
    }


def _kernel_table(analysis: Any) -> dict[str, float | None]:
    """Return the longest launch of any compute kernel, as HTA's table of kernels shows it by default."""
    _, kernels = analysis.get_gpu_kernel_breakdown(visualize=False)
    named = kernels[(kernels["kernel_type"] == "COMPUTATION") & (kernels["name"] != "others")]
    return {"longest compute kernel": named["max (us)"].max()}


def _launches(analysis: Any) -> dict[str, float | None]:
    launches = analysis.get_cuda_kernel_launch_stats(visualize=False)[0]
    return {
        "launches": len(launches),
        "time in launching calls": launches["cpu_duration"].sum(),
        "launch delay": launches["launch_delay"].sum(),
    }


def _queue(analysis: Any) -> dict[str, float | None]:
    return {"longest queue": analysis.get_queue_length_time_series()[0]["queue_length"].max()}


def _full_queue(analysis: Any) -> dict[str, float | None]:
    blocked = analysis.get_time_spent_blocked_on_full_queue(analysis.get_queue_length_time_series())
    return {"time at full queue": blocked["duration_at_max_queue_length"].sum()}


def _bandwidth(analysis: Any) -> dict[str, float | None]:
    summary = analysis.get_memory_bw_summary()["memory_bw_gbps"]["mean"]
    return {
        f"bandwidth {name.removeprefix('Memcpy ')}": mean for (_, name), mean in summary.items() if name[:6] == "Memcpy"
    }
