"""What a diagnosis is: plain data that rules produce and reporters print.

`diagnosis` is the whole. It holds `findings` with their fixes, `ledgers` of the time, the order of fixes (`fix_plan`),
what was read (`inputs`), and what counters add (`kernel_counters`).
"""

from traceanalyzer.diagnosis.diagnosis import SCHEMA_VERSION, Diagnosis
from traceanalyzer.diagnosis.findings import (
    LIMIT_REACHED,
    SEVERITIES,
    AttachedExplanation,
    BelowNoise,
    Evidence,
    Finding,
    Fix,
    Outcome,
)
from traceanalyzer.diagnosis.fix_plan import Enabling, FixPlan, PlannedFix, plan_of_finding
from traceanalyzer.diagnosis.inputs import LeftOut, Override, Recording, TraceDefect, TraceSummary
from traceanalyzer.diagnosis.kernel_counters import CountedKernel, KernelCounters, ModelDisagreement
from traceanalyzer.diagnosis.ledgers import (
    DeviceLedger,
    HostFunction,
    HostLedger,
    KernelClass,
    RankSteps,
    RunLedger,
    Screening,
    SharedGpu,
    StandsOut,
    TopKernel,
    TopOperator,
)

__all__ = [
    "LIMIT_REACHED",
    "SCHEMA_VERSION",
    "SEVERITIES",
    "AttachedExplanation",
    "BelowNoise",
    "CountedKernel",
    "DeviceLedger",
    "Diagnosis",
    "Enabling",
    "Evidence",
    "Finding",
    "Fix",
    "FixPlan",
    "HostFunction",
    "HostLedger",
    "KernelClass",
    "KernelCounters",
    "LeftOut",
    "ModelDisagreement",
    "Outcome",
    "Override",
    "PlannedFix",
    "RankSteps",
    "Recording",
    "RunLedger",
    "Screening",
    "SharedGpu",
    "StandsOut",
    "TopKernel",
    "TopOperator",
    "TraceDefect",
    "TraceSummary",
    "plan_of_finding",
]
