"""`info --anonymous` shows what a run holds, and nothing that names whose it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from traceanalyzer.cli import main

SECRETS = (
    "secretrun",
    "rank-secretfile",
    "secrethost",
    "secretuser",
    "secretkernel",
    "secretop",
    "secretgpu",
    "secretcat",
)


def events() -> list[dict[str, object]]:
    """Return events, each with a name that must not be shown."""
    kernel = {"correlation": 1, "External id": 1, "stream": 7, "device": 0}
    return [
        {"ph": "X", "cat": "cpu_op", "name": "secretop", "pid": 1, "tid": 1, "ts": 1, "dur": 9},
        {"ph": "X", "cat": "kernel", "name": "secretkernel", "pid": 0, "tid": 7, "ts": 20, "dur": 5, "args": kernel},
        {"ph": "b", "cat": "secretcat", "name": "secretop", "id": "1", "pid": 1, "tid": 1, "ts": 2},
        {"ph": "e", "cat": "secretcat", "name": "secretop", "id": "1", "pid": 1, "tid": 1, "ts": 5},
    ]


@pytest.mark.check
def test_nothing_names_a_file_a_host_a_user_or_an_operator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "secretrun"
    folder.mkdir()
    trace = {
        "schemaVersion": 1,
        "host_name": "secrethost",
        "user": "secretuser",
        "deviceProperties": [{"id": 0, "name": "secretgpu", "numSms": 132}],
        "traceEvents": events(),
    }
    (folder / "rank-secretfile.json").write_text(json.dumps(trace), encoding="utf-8")
    assert main(["info", "--anonymous", str(folder), "--store", str(tmp_path / "store")]) == 0
    printed = capsys.readouterr().out
    assert [secret for secret in (*SECRETS, str(tmp_path)) if secret in printed] == []
    shown = json.loads(printed)
    assert [row["gpu_op_count"] for row in shown["traces"]] == [1]
    assert {row["category"] for row in shown["events"]} >= {"kernel", "cpu_op"}
