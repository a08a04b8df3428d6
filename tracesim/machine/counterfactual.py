"""The causes and kernel durations that a simulation leaves out or scales, to learn what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from traceanalyzer.errors import TraceAnalyzerError
from tracesim.catalogue.kernels import Kernel

HOST_CAUSES = frozenset(
    {
        "host.dataloader",
        "host.sync",
        "host.python",
        "host.op",
        "host.launch_api",
        "host.alloc",
        "host.gc",
        "host.lock",
        "host.memcpy_block",
        "host.compile",
        "host.module_load",
        "host.profiler",
    }
)
DEVICE_CAUSES = frozenset({"dev.h2d", "dev.d2h", "dev.d2d", "dev.memset", "dev.comm_transfer", "dev.comm_p2p"})


@dataclass(frozen=True)
class Counterfactual:
    """Causes that cost nothing, and kernel classes with a factor on their duration."""

    removed: frozenset[str] = frozenset()
    kernel_scale: Mapping[str, float] = field(default_factory=dict)

    def scale(self, kernel: Kernel) -> float:
        """Return the factor on a kernel's duration; the class `compute` means every class not named."""
        return self.kernel_scale.get(kernel.kernel_class, self.kernel_scale.get("compute", 1.0))

    def also_without(self, causes: Iterable[str], kernel_scale: Mapping[str, float] | None = None) -> Counterfactual:
        """Return the counterfactual with more causes removed; raise TraceAnalyzerError for an unknown cause."""
        unknown = set(causes) - HOST_CAUSES - DEVICE_CAUSES
        if unknown:
            known = ", ".join(sorted(HOST_CAUSES | DEVICE_CAUSES))
            raise TraceAnalyzerError(f"no cause {sorted(unknown)[0]!r} can be removed", "scenario", f"known: {known}")
        return Counterfactual(self.removed | set(causes), {**self.kernel_scale, **(kernel_scale or {})})
