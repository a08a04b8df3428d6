"""Files whose processes and threads are crossed give the same answers under other names of threads."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from traceanalyzer.cli import main


def crossed(event: dict[str, Any], at: int, how: str) -> dict[str, Any]:
    """Return an event in process 0, on another thread: 0 and 7, as a GPU's streams are numbered, stand for all."""
    changed = {**event, "pid": 0}
    tid = event.get("tid")
    if how == "swapped":
        changed["tid"] = {0: 7, 7: 0}.get(tid, 0) if isinstance(tid, int) else tid
    elif how == "every second one":
        changed["tid"] = 7 * (at % 2)
    else:
        changed["tid"] = 7 if event.get("cat") in ("kernel", "gpu_memcpy", "cpu_op") else 0
    return changed


@pytest.mark.check
@pytest.mark.parametrize("how", ["swapped", "every second one", "by category"])
def test_other_names_of_threads_change_nothing_in_crossed_files(
    how: str, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (source,) = (root / "sample_traces" / "slow_loader").glob("*.json.gz")
    with gzip.open(source) as file:
        document = json.load(file)
    document["traceEvents"] = [crossed(event, at, how) for at, event in enumerate(document["traceEvents"])]
    (tmp_path / "rank0.json").write_text(json.dumps(document))
    main(["diagnose", str(tmp_path / "rank0.json"), "--self-check", "--store", str(tmp_path / "store")])
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("self-check")]
    assert [line for line in said if "other names of threads change nothing" in line and "holds" in line]
    assert [line for line in said if "holds" not in line] == []
