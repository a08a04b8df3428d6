"""The defects of AMD's recordings, each with its count."""

from __future__ import annotations

from dataclasses import dataclass

from traceanalyzer.ingest.nsys.defects import KINDS as KINDS_OF_DATABASES
from traceanalyzer.ingest.nsys.defects import Defects

# defect → (severity, what it means and what to do)
_AGAIN = "record it again, or convert the recording again"
KINDS = {
    **{
        kind: KINDS_OF_DATABASES[kind]
        for kind in (
            "mixed-types",
            "number-out-of-range",
            "invalid-utf8",
            "negative-duration",
            "missing-string",
            "duplicate-correlation",
        )
    },
    "missing-table": ("note", "a table that the recorder always writes is not there; what it holds is unknown"),
    "unreadable-table": ("loss", "a table lacks the columns without which its rows mean nothing; it was left out"),
    "unreadable-rows": ("loss", f"the file is damaged or was cut short: what follows could not be read; {_AGAIN}"),
    "unreadable-record": ("loss", "a record is not what the recorder writes; it was left out"),
    "unfinished-write": ("loss", "a rollback journal lies beside the database: its writer did not finish"),
    "long-text": ("loss", "a text is longer than any that the recorder writes; it was cut"),
    "no-times": ("loss", "an event has no start or no end, or a start of zero; it was left out"),
    "missing-event": (
        "loss",
        "a row refers to an event that the file does not hold; its call and its text are unknown",
    ),
    "missing-kernel": ("loss", "a dispatch refers to a kernel that the file does not hold; it has no name"),
    "missing-agent": ("loss", "GPU work refers to a device that the file does not describe; it is shown as device 0"),
    "unknown-agent": ("note", "a device is neither a processor nor a GPU; its work is shown as that of a GPU"),
    "unknown-kind": ("note", "records of a kind that is not known; they were left out"),
    "unknown-operation": ("loss", "a record names an operation beyond the list of its kind; it has no name"),
    "bad-json": ("loss", "a text that should be JSON is none; what it says is unknown"),
    "unknown-process": (
        "note",
        "rows do not say which of several processes they are of; they are shown with the first one",
    ),
    "repeated-dispatch": ("note", "dispatches share their number; all of them are kept"),
    "replayed-dispatch": (
        "note",
        "the recorder repeated dispatches to count more counters than fit at once; the repetitions were left out",
    ),
    "serialised-by-counters": (
        "note",
        "counters were collected without a trace of kernels: kernels ran one at a time, so gaps are not the program's",
    ),
    "overlap-in-queue": (
        "note",
        "kernels start before the one ahead of them in their queue has ended: the firmware's times are inexact",
    ),
    "clock-since-boot": (
        "note",
        "times count from the start of the machine: those of different machines cannot be compared",
    ),
    "devices-by-number": (
        "note",
        "the agents are not described, so the number in the agent's name stands for the device; keep the file "
        "_agent_info.csv beside the others",
    ),
    "no-gpu-work": (
        "note",
        "the recording holds no GPU work: the program used no GPU, or the recorder began too late; for vLLM and "
        "SGLang, start the recorder after its file was made, and stop it before the program ends",
    ),
}


@dataclass
class AmdDefects(Defects):
    """Counts defects of AMD's recordings by kind."""

    kinds = KINDS
