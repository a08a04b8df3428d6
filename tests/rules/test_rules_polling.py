"""A program that asks again and again whether the device is done waits for it, in traces of Kineto and of Nsight."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import rewritten_trace as rewritten

from traceanalyzer.run import open_run
from tracesim import simulate

WAITING: dict[str, Any] = {"steps": 6, "kernels": 100, "kernel_us": 80, "loader_us": 2000, "sync_per_step": 1}
POLL_US = 20


def kineto(path: Path) -> Path:
    """Write a trace in which each synchronisation is many queries of an event."""
    document = rewritten.read(simulate(WAITING).write_kineto(path / "waiting.json"))
    events = []
    for event in document["traceEvents"]:
        if "Synchronize" not in event["name"] or event.get("cat") != "cuda_runtime":
            events.append(event)
            continue
        times = [event["ts"] + POLL_US * at for at in range(int(event["dur"] // POLL_US))] + [
            event["ts"] + event["dur"] - 1
        ]
        args = {key: value for key, value in event["args"].items() if key != "correlation"}
        polls = [{**event, "name": "cudaEventQuery", "args": args, "ts": ts, "dur": 1} for ts in times]
        events += polls if len(polls) >= 3 else [event]
    events = [event for event in events if event.get("cat") != "cuda_sync"]
    return rewritten.write({**document, "traceEvents": events}, path / "run" / "rank0.json")


def nsys(path: Path) -> Path:
    """Write an export in which each synchronisation is many queries of an event."""

    def poll(database: sqlite3.Connection) -> None:
        calls = "CUPTI_ACTIVITY_KIND_RUNTIME"
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({calls})")]
        database.execute("INSERT INTO StringIds VALUES (99999999, 'cudaEventQuery_v3020')")
        found = f"""
            SELECT calls.* FROM {calls} AS calls JOIN StringIds ON StringIds.id = calls.nameId
            WHERE value LIKE '%Synchronize%' AND "end" - start > {10 * POLL_US * 1000}
        """
        for row in database.execute(found).fetchall():
            call = dict(zip(columns, row, strict=True))
            key = (call["start"], call["correlationId"])
            database.execute(f"DELETE FROM {calls} WHERE start = ? AND correlationId = ?", key)
            for at, start in enumerate([*range(call["start"], call["end"] - 2000, POLL_US * 1000), call["end"] - 1000]):
                asked = call | {
                    "start": start,
                    "end": start + 1000,
                    "nameId": 99999999,
                    "correlationId": 10**6 + 1000 * call["correlationId"] + at,
                }
                database.execute(f"INSERT INTO {calls} VALUES ({', '.join('?' * len(columns))})", [*asked.values()])
        database.execute("DROP TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION")

    with contextlib.suppress(FileExistsError):
        (path / "run").mkdir()
    return rewritten.export(simulate(WAITING).write_nsys(path / "waiting.sqlite"), path / "run" / "rank0.sqlite", poll)


@pytest.mark.check
@pytest.mark.parametrize("write", [kineto, nsys])
def test_a_host_that_asks_until_the_device_is_done_waits_in_each_step(write: Any, tmp_path: Path) -> None:
    with open_run(write(tmp_path), store=tmp_path / "store", with_settings=False) as run:
        findings = [finding for finding in run.diagnose().findings if finding.rule == "sync-in-step"]
        (waits,) = run.sql("SELECT count(*) FROM host_waits WHERE call = 'cudaEventQuery' AND dur_ns > 1e6").fetchall()
    assert waits[0] >= WAITING["steps"] - 1
    (finding,) = findings
    assert "cudaEventQuery" in finding.message
