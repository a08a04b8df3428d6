"""Work on many streams: what is done for each stream does not look at all others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from traceanalyzer.attribution.records.device_ops import DeviceOps
from traceanalyzer.run import open_run


# stream 1  k0---------------   k300 …
# stream 2      k1-------------------
#  …            host: launches, a wait for the device every 50
def trace(streams: int) -> dict[str, Any]:
    """Return a trace with four overlapping kernels on each stream."""
    events: list[dict[str, Any]] = []
    for number in range(4 * streams):
        at, launch = 5 * number, {"correlation": number + 1}
        stream = 7 + number % streams
        call = {"ph": "X", "cat": "cuda_runtime", "pid": 1, "tid": 1, "ts": at, "dur": 2, "args": launch}
        events += [
            call | {"name": "cudaLaunchKernel"},
            {"ph": "X", "cat": "kernel", "name": f"k{number % 9}", "pid": 0, "tid": stream, "ts": at + 9, "dur": 300}
            | {"args": {**launch, "device": 0, "stream": stream}},
        ]
        if number % 50 == 49:
            wait = {"name": "cudaDeviceSynchronize", "ts": at + 3, "dur": 1, "args": {"correlation": 10**6 + number}}
            events.append(call | wait)
    return {"traceEvents": events}


@pytest.mark.check
def test_no_stream_and_no_kernel_looks_at_all_kernels(tmp_path: Path) -> None:
    looks = []
    for streams in (50, 200):
        file = tmp_path / f"{streams}.json"
        file.write_text(json.dumps(trace(streams)), encoding="utf-8")
        found = 0

        def counted(ops: DeviceOps) -> Any:
            nonlocal found
            found += ops.count
            return ops.launch_id != -1

        with (
            mock.patch.object(DeviceOps, "linked", property(counted)),
            open_run(file, store=tmp_path / f"store{streams}"),
        ):
            looks.append(found)
    assert looks[1] <= 4.4 * looks[0]
