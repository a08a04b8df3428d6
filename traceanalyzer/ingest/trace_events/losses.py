"""Defects met while reading: counted by name, with the place and text of the first."""

from __future__ import annotations

import threading

from msgspec import Struct

from traceanalyzer.ingest.device_check import DEVICE_DEFECTS, PROFILED_DEFECTS

_EXAMPLE_CHARS = 160


class Kind(Struct, frozen=True):
    """One kind of defect: how bad it is and what to do about it."""

    severity: str  # loss, repair or note
    advice: str


KINDS = {
    "truncated": Kind(
        "loss",
        "the file ends inside the event list: the job was probably killed while writing; everything "
        "before the cut is analysed",
    ),
    "gzip-truncated": Kind(
        "loss",
        "the compressed stream ends early: the job was probably killed while writing, or the copy is "
        "incomplete; everything before that byte is analysed",
    ),
    "gzip-damaged": Kind(
        "loss",
        "the compressed stream is damaged at this byte; everything before it is analysed; copy the file again",
    ),
    "gzip-trailing-data": Kind("loss", "bytes after the end of the compressed stream were not read"),
    "unreadable-event": Kind(
        "loss",
        "the text of the event is no JSON and could not be repaired; the events around it are kept",
    ),
    "not-an-event": Kind("loss", "a value in the event list is no object"),
    "missing-phase": Kind("loss", "an event without `ph` has no meaning"),
    "unknown-phase": Kind("loss", "events of this phase are not part of the trace-event format or hold no timing"),
    "bad-timestamp": Kind("loss", "the event has no readable time (`ts`, a number of µs), or one that no clock shows"),
    "bad-duration": Kind("loss", "a complete event has no readable duration, or one over 30 days"),
    "negative-duration": Kind(
        "repair",
        "the duration was negative and is read as 0; old profiler versions wrote such records",
    ),
    "zero-timestamp": Kind("loss", "the time is 0 where all others are far from it: the profiler lost it"),
    "far-timestamp": Kind(
        "loss", "the time lies minutes to years outside the recording, where hardly anything else does; it is damaged"
    ),
    "unmatched-end": Kind("loss", "an end event has no open begin event on its thread"),
    "unfinished-begin": Kind(
        "repair",
        "an event begins and has no end; it is open until the recording ends, or of unknown length if it is GPU work",
    ),
    "bad-counter": Kind("loss", "a counter sample holds no number"),
    "bad-arguments": Kind(
        "loss", "the `args` of an event are no object and were not read; its name and times are kept"
    ),
    "long-text": Kind(
        "loss",
        "a text is longer than any that profilers write: a name was cut to 65,536 characters; other texts of an event "
        "of more bytes, and arguments or metadata of more than 8 MiB, were left out",
    ),
    "bad-number": Kind(
        "loss", "a value is out of any range, or of another type than profilers write there, and is read as unknown"
    ),
    "event-limit": Kind(
        "loss",
        "XLA's profiler writes at most 1,000,000 events as JSON, and the file holds as many: others are missing; read "
        "the .xplane.pb beside it, which holds all",
    ),
    "second-event-list": Kind("loss", "the file holds another `traceEvents` list; only the first was read"),
    "mended-text": Kind(
        "repair",
        "the text broke JSON's rules (a raw quote, control character, bad escape or bare word) and was repaired",
    ),
    "invalid-utf8": Kind("repair", "bytes that are no UTF-8 were replaced by U+FFFD"),
    "lone-surrogate": Kind("repair", "half a surrogate pair was replaced by U+FFFD"),
    "duplicate-key": Kind("repair", "a key occurs twice in an object; the last one counts"),
    "missing-comma": Kind("repair", "two events follow each other without a comma"),
    "extra-comma": Kind("repair", "a comma has no event after it"),
    "unpadded-fraction": Kind(
        "repair",
        "times were written by a profiler of spring 2024 that dropped leading zeros (`.5` for 5 ns); they "
        "are read as nanoseconds",
    ),
    "doubtful-fraction": Kind(
        "note",
        "times may come from a profiler of spring 2024 that dropped leading zeros; too few to tell, read "
        "as decimals: errors up to 900 ns",
    ),
    "bad-header": Kind("loss", "a part of the file outside the event list is no JSON and was skipped"),
    "trailing-data": Kind("loss", "bytes after the end of the document were not read"),
    "second-document": Kind(
        "loss",
        "another document follows the first, as where files were joined, and was not read; give each as a file of "
        "its own",
    ),
    "crossing-slices": Kind("note", "slices of one thread overlap without nesting; each keeps its own time"),
    "nameless-work": Kind(
        "note",
        "GPU work has no name; where the call that launched it copies or fills memory, it is read as that, else as a "
        "kernel that nothing is known of",
    ),
    "overlong-call": Kind(
        "repair",
        "a call of the runtime is recorded as running when its thread had gone on: its duration is damaged, and "
        "read as that of other calls of its name",
    ),
    "overlong-operator": Kind(
        "repair",
        "an operator is recorded as running many times as long as all of its thread, and what called it ends before: "
        "its duration is damaged, and read as that of other operators of its name",
    ),
    "overlong-step": Kind(
        "repair",
        "a step is recorded as running when the next one of its thread had begun, or long after all that its thread "
        "did: its duration is damaged, and read as ending there",
    ),
    "misplaced-call": Kind(
        "loss",
        "a call is recorded as made after the work that it launched had started, or out of the order of launches: its "
        "time is damaged, and it is left out",
    ),
    "merged-ranks": Kind("note", "several ranks were merged into the file; each is read as a trace of its own"),
    "several-processes": Kind(
        "note",
        "the file holds the processes of several ranks, and nothing tells whose GPU work is whose: ids that more than "
        "one of them uses link nothing; give the files that the ranks wrote",
    ),
    "device-lost": Kind("loss", "GPU work names a device by a number that no device has; it is left out"),
    "device-unknown": Kind("note", "GPU work without a device number is counted on device 0"),
    "unplaced-work": Kind(
        "loss",
        "PyTorch's list of events (before 1.8.1, or `prof.events().export_chrome_trace`) has no stream of the GPU's "
        "work, or times in which the GPU may wait as well as work: left out; record with torch.profiler and its own "
        "export_chrome_trace",
    ),
    "unknown-process-name": Kind(
        "loss",
        "events lie in processes whose names say neither host nor device; they are shown as of the host, and where "
        "they are work of a device, it is missing",
    ),
    **{defect: Kind(*kind) for defect, kind in (PROFILED_DEFECTS | DEVICE_DEFECTS).items()},
}


class Loss(Struct):
    """The count of a defect, and its first occurrence."""

    count: int
    offset: int | None
    example: str | None


class Losses:
    """Counts defects; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._met: dict[str, Loss] = {}

    def add(self, defect: str, offset: int | None, example: str | None = None, count: int = 1) -> None:
        """Count a defect of a known kind, `offset` bytes into the decompressed file."""
        if defect not in KINDS:
            raise KeyError(defect)
        example = None if example is None else example[:_EXAMPLE_CHARS]
        with self._lock:
            met = self._met.get(defect)
            if met is None:
                self._met[defect] = Loss(count, offset, example)
                return
            met.count += count
            if offset is not None and (met.offset is None or offset < met.offset):
                met.offset, met.example = offset, example

    def merge(self, other: Losses) -> None:
        """Take over what another count has met."""
        for defect, met in other._met.items():
            self.add(defect, met.offset, met.example, met.count)

    def copy(self) -> Losses:
        """Return a count that goes on from here by itself."""
        other = Losses()
        other.merge(self)
        return other

    def __contains__(self, defect: str) -> bool:
        return defect in self._met

    def rows(self) -> list[dict[str, object]]:
        """Return the rows of the canonical table `defects`, without the trace."""
        return [
            {
                "defect": name,
                "severity": KINDS[name].severity,
                "defect_count": met.count,
                "first_offset": met.offset,
                "example": met.example,
                "advice": KINDS[name].advice,
            }
            for name, met in sorted(self._met.items())
        ]
