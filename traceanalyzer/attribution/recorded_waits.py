"""What streams were told to wait for: cudaStreamWaitEvent and its kind, where the trace holds both streams."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from operator import itemgetter

import duckdb

from traceanalyzer.attribution.device_ops import DeviceOps, as_launched

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
    """What streams have to wait for from the next op on that is launched to them; waits are added in their order.

    Who waits for a stream waits for what that one had been told to wait for, too, though it may have launched nothing.
    """

    def __init__(self, ops: DeviceOps, streams: Iterable[int]) -> None:
        self.awaited: dict[int, dict[int, int]] = {}  # row of a waiting op -> stream -> row of its op
        self._ops = ops
        self._launched = {stream: as_launched(ops, ops.stream == stream).tolist() for stream in streams}
        self._launch = {stream: ops.launch_start[rows].tolist() for stream, rows in self._launched.items()}
        # By stream: when it was told to wait, and for what it waits from then on until it launches something.
        self._told: dict[int, list[tuple[int, dict[int, int]]]] = {stream: [] for stream in self._launched}

    @property
    def are_there(self) -> bool:
        """Tell whether any was recorded."""
        return any(self._told.values())

    def add(self, stream: int, asked: int, source: int, recorded: int) -> None:
        """Let a stream wait, as asked then, for all that another one had to do when an event was recorded in it."""
        event = self.waits_for(source, recorded)
        before = bisect_left(self._launch[source], recorded) - 1
        if before >= 0:
            event = self._later(event, {source: self._launched[source][before]})
        event.pop(stream, None)
        self._told[stream].append((asked, self._later(self.waits_for(stream, asked + 1), event)))
        after = bisect_left(self._launch[stream], asked)
        if after < len(self._launched[stream]) and event:
            row = self._launched[stream][after]
            self.awaited[row] = self._later(self.awaited.get(row, {}), event)

    def waits_for(self, stream: int, until: int) -> dict[int, int]:
        """Return what a stream was told to wait for after all that it had launched."""
        told, launch = self._told.get(stream, []), self._launch.get(stream, [])
        at = bisect_left(told, until, key=itemgetter(0)) - 1
        if at < 0 or bisect_left(launch, told[at][0]) < bisect_left(launch, until):
            return {}
        return dict(told[at][1])

    def _later(self, one: Mapping[int, int], other: Mapping[int, int]) -> dict[int, int]:
        """Return both; of one stream the op that is done last stands for all before it."""
        ends = self._ops.end
        return {**one, **{key: max(op, one.get(key, op), key=ends.__getitem__) for key, op in other.items()}}


def load_recorded_waits(con: duckdb.DuckDBPyConnection, trace_id: int, ops: DeviceOps) -> RecordedWaits:
    """Return the recorded waits of a device's streams."""
    rows = con.execute(_QUERY, {"trace_id": trace_id, "device": ops.device}).fetchall()
    waits = RecordedWaits(ops, {stream for wait in rows for stream in (wait[0], wait[2])})
    for wait in rows:
        waits.add(*wait)
    return waits
