"""Recorded waits of streams for other streams: cudaStreamWaitEvent and the like, where the trace names both streams."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from operator import itemgetter

import duckdb

from traceanalyzer.attribution.records.device_ops import DeviceOps, as_launched

_QUERY = """
SELECT s.stream, call.start_ns AS asked_ns, s.wait_on_stream,
       COALESCE(recorded.start_ns, call.start_ns) AS recorded_ns
FROM canonical.syncs AS s
INNER JOIN canonical.host_slices AS call
  ON call.trace_id = s.trace_id AND call.correlation = s.correlation AND call.category IN ('runtime', 'driver')
LEFT JOIN canonical.host_slices AS recorded
  ON recorded.trace_id = s.trace_id
  AND recorded.correlation = s.wait_on_correlation
  AND recorded.category IN ('runtime', 'driver')
WHERE s.trace_id = $trace_id
  AND s.kind = 'stream_wait'
  AND s.stream IS NOT NULL
  AND s.wait_on_stream IS NOT NULL
  AND COALESCE(s.device, $device) = $device
ORDER BY call.start_ns, s.sync_id
"""


class RecordedWaits:
    """The ops that a stream must wait for before the next op launched to it; waits are added in the order of calls.

    A wait for a stream includes the stream's own pending waits, even if nothing was launched to it since.
    """

    def __init__(self, ops: DeviceOps, streams: Iterable[int]) -> None:
        self.awaited: dict[int, dict[int, int]] = {}  # row of a waiting op -> stream -> row of its op
        self._ops = ops
        self._launched = {stream: as_launched(ops, ops.stream == stream).tolist() for stream in streams}
        self._launch = {stream: ops.launch_start[rows].tolist() for stream, rows in self._launched.items()}
        # By stream: the time of each wait call, and the ops that the stream waits for until its next launch.
        self._pending: dict[int, list[tuple[int, dict[int, int]]]] = {stream: [] for stream in self._launched}

    @property
    def are_there(self) -> bool:
        """Whether any wait was recorded."""
        return any(self._pending.values())

    def add(self, stream: int, asked: int, source: int, recorded: int) -> None:
        """Make a stream wait, from `asked` on, for all work that `source` had at the time `recorded`."""
        event = self.waits_for(source, recorded)
        before = bisect_left(self._launch[source], recorded) - 1
        if before >= 0:
            event = self._later(event, {source: self._launched[source][before]})
        event.pop(stream, None)
        self._pending[stream].append((asked, self._later(self.waits_for(stream, asked + 1), event)))
        after = bisect_left(self._launch[stream], asked)
        if after < len(self._launched[stream]) and event:
            row = self._launched[stream][after]
            self.awaited[row] = self._later(self.awaited.get(row, {}), event)

    def waits_for(self, stream: int, until: int) -> dict[int, int]:
        """Return the pending waits of a stream at an instant: those after its last launch before it."""
        pending, launch = self._pending.get(stream, []), self._launch.get(stream, [])
        at = bisect_left(pending, until, key=itemgetter(0)) - 1
        if at < 0 or bisect_left(launch, pending[at][0]) < bisect_left(launch, until):
            return {}
        return dict(pending[at][1])

    def _later(self, one: Mapping[int, int], other: Mapping[int, int]) -> dict[int, int]:
        """Join both; per stream the op that ends last stands for all before it."""
        ends = self._ops.end
        return {**one, **{key: max(op, one.get(key, op), key=ends.__getitem__) for key, op in other.items()}}


def load_recorded_waits(con: duckdb.DuckDBPyConnection, trace_id: int, ops: DeviceOps) -> RecordedWaits:
    """Return the recorded waits of a device's streams."""
    rows = con.execute(_QUERY, {"trace_id": trace_id, "device": ops.device}).fetchall()
    waits = RecordedWaits(ops, {stream for wait in rows for stream in (wait[0], wait[2])})
    for wait in rows:
        waits.add(*wait)
    return waits
