"""Files whose processes and threads are crossed give the same answers under other names of threads."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from self_check import check_run

from traceanalyzer.run import open_run


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
def test_other_names_of_threads_change_nothing_in_crossed_files(how: str, root: Path, tmp_path: Path) -> None:
    (source,) = (root / "sample_traces" / "slow_loader").glob("*.json.gz")
    with gzip.open(source) as file:
        document = json.load(file)
    document["traceEvents"] = [crossed(event, at, how) for at, event in enumerate(document["traceEvents"])]
    (tmp_path / "rank0.json").write_text(json.dumps(document))
    with open_run(tmp_path / "rank0.json", store=tmp_path / "store") as run:
        checks = check_run(run.connection, run.diagnose())
    assert "other names of threads change nothing" in {check.claim for check in checks}
    assert {check.claim: check.broken or check.skipped for check in checks if check.broken or check.skipped} == {}
