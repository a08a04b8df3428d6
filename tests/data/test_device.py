"""Diagnoses of pairs recorded on a real device: the faulty program shows the planted fault, the fixed one doesn't."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "device"
PLANTED = {
    "churn": "empty-cache-in-loop",
    "copies": "h2d-pageable",
    "item": "sync-in-step",
    "loader": "dataloader-bound",
    "optimizer": "optimizer-single-tensor",
    "precision": "fp32-matmul-no-tensor-core",
    "recompile": "recompile-steady-state",
}


def rules_found(trace: Path, store: Path) -> set[str]:
    """Returns the rules that a diagnosis of the trace names."""
    report = store / "report.json"
    command = [
        "diagnose",
        str(trace),
        "--store",
        str(store),
        "-q",
        "--no-settings",
        "--format",
        "json",
        "-o",
        str(report),
    ]
    subprocess.run([sys.executable, "-m", "traceanalyzer", *command], check=True, timeout=120)
    found = json.loads(report.read_text())["findings"]
    return {finding.get("rule") or finding.get("rule_id") or finding.get("id") for finding in found}


@pytest.mark.check
@pytest.mark.parametrize("case", PLANTED)
def test_planted_fault_is_found_in_the_faulty_twin_only(case: str, tmp_path: Path) -> None:
    for name in ("faulty", "fixed"):
        store = tmp_path / name
        store.mkdir()
        found = rules_found(FOLDER / case / f"{name}.json.gz", store)
        assert (PLANTED[case] in found) == (name == "faulty"), name
