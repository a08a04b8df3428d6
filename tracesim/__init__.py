"""A deterministic simulator of training and inference jobs: it serves samples, rule tests and scale tests.

A workload described in a few words becomes the trace that a profiler would have recorded, together with the true time
ledger and the true effect of removing each cause.
"""

from __future__ import annotations

from tracesim.job import SimulatedJob, simulate_job
from tracesim.simulate import SimulatedRun, simulate

__all__ = ["SimulatedJob", "SimulatedRun", "simulate", "simulate_job"]
