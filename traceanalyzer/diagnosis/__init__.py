"""What a diagnosis is: plain data that rules produce and reporters print.

`diagnosis` is the whole: what was read, the ledgers of the time, and what counters add. It holds `findings` with their
fixes and the order of these. `verdict` says what it comes to in a sentence, and `shares` what part of the time is what.
"""

from traceanalyzer.diagnosis.diagnosis import DETAIL_RANKS as DETAIL_RANKS
from traceanalyzer.diagnosis.diagnosis import SCHEMA_VERSION as SCHEMA_VERSION
from traceanalyzer.diagnosis.diagnosis import CountedKernel as CountedKernel
from traceanalyzer.diagnosis.diagnosis import DetailRanks as DetailRanks
from traceanalyzer.diagnosis.diagnosis import DeviceLedger as DeviceLedger
from traceanalyzer.diagnosis.diagnosis import Diagnosis as Diagnosis
from traceanalyzer.diagnosis.diagnosis import HostFunction as HostFunction
from traceanalyzer.diagnosis.diagnosis import HostLedger as HostLedger
from traceanalyzer.diagnosis.diagnosis import KernelClass as KernelClass
from traceanalyzer.diagnosis.diagnosis import KernelCounters as KernelCounters
from traceanalyzer.diagnosis.diagnosis import LateBegin as LateBegin
from traceanalyzer.diagnosis.diagnosis import LeftOut as LeftOut
from traceanalyzer.diagnosis.diagnosis import ModelDisagreement as ModelDisagreement
from traceanalyzer.diagnosis.diagnosis import Override as Override
from traceanalyzer.diagnosis.diagnosis import RankSteps as RankSteps
from traceanalyzer.diagnosis.diagnosis import Recording as Recording
from traceanalyzer.diagnosis.diagnosis import RunLedger as RunLedger
from traceanalyzer.diagnosis.diagnosis import Screening as Screening
from traceanalyzer.diagnosis.diagnosis import SharedGpu as SharedGpu
from traceanalyzer.diagnosis.diagnosis import StandsOut as StandsOut
from traceanalyzer.diagnosis.diagnosis import TopKernel as TopKernel
from traceanalyzer.diagnosis.diagnosis import TopOperator as TopOperator
from traceanalyzer.diagnosis.diagnosis import TraceDefect as TraceDefect
from traceanalyzer.diagnosis.diagnosis import TraceSummary as TraceSummary
from traceanalyzer.diagnosis.findings import LIMIT_REACHED as LIMIT_REACHED
from traceanalyzer.diagnosis.findings import SEVERITIES as SEVERITIES
from traceanalyzer.diagnosis.findings import AttachedExplanation as AttachedExplanation
from traceanalyzer.diagnosis.findings import BelowNoise as BelowNoise
from traceanalyzer.diagnosis.findings import Enabling as Enabling
from traceanalyzer.diagnosis.findings import Evidence as Evidence
from traceanalyzer.diagnosis.findings import Finding as Finding
from traceanalyzer.diagnosis.findings import Fix as Fix
from traceanalyzer.diagnosis.findings import FixPlan as FixPlan
from traceanalyzer.diagnosis.findings import Outcome as Outcome
from traceanalyzer.diagnosis.findings import PlannedFix as PlannedFix
from traceanalyzer.diagnosis.findings import plan_of_finding as plan_of_finding
